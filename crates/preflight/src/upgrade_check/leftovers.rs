//! Leftovers of an earlier upgrade: annotations, settings and files that the next one mistakes for its own.

use serde_json::Value;
use windrow_harvester::health::DRAIN_TAINT;
use windrow_harvester::objects::{ObjectKind, items, named, text, texts};
use windrow_model::findings::Evidence;

use super::preflight::{is, seen_in, upgrades};
use super::{CheckFacts, CheckResult, Cluster, NoFacts};

/// The annotations of Rancher when it requests a drain, and of Harvester when it answers (Rancher `pkg/capr/common.go`, Harvester
/// `pkg/controller/master/upgrade/upgrade_controller.go`).
const PRE_HOOK: &str = "harvesterhci.io/pre-hook";
const DRAINED: &str = "rke.cattle.io/drain-done";
/// Longhorn's setting that an upgrade of several nodes raises, the raised value, and where it keeps the previous value.
const INTERVAL: &str = "replica-replenishment-wait-interval";
const RAISED_TO: &str = "1800";
const KEPT_AS: &str = "harvesterhci.io/replica-replenishment-wait-interval";

/// Rancher acts on these annotations' values, which are the same in every upgrade: the options of the drain. A node whose hook is
/// answered already is drained and upgraded while Harvester waits for Rancher's request: its state stays *Images preloaded*
/// (Rancher `pkg/controllers/capr/machinedrain`, `pkg/capr/planner/drain.go`, v2.9.2 to v2.14.2; Harvester
/// `secret_controller.go`, v1.4.0 to v1.8.2).
pub(super) fn hooks(cluster: &Cluster<'_>) -> CheckResult {
    if cluster.nodes()?.len() == 1 {
        return Err(NoFacts::NotChecked(
            "a single node is upgraded without these hooks",
        ));
    }
    between_upgrades(cluster)?;
    let mut facts = CheckFacts::default();
    for plan in cluster.all(ObjectKind::MACHINE_PLAN)? {
        let annotations = texts(plan, "/metadata/annotations");
        for name in [PRE_HOOK, DRAINED] {
            if annotations
                .get(name)
                .is_some_and(|options| is_harvesters(options))
            {
                facts.problems.push(annotated(
                    plan,
                    name,
                    "an answer to the drain of every upgrade",
                ));
            }
        }
    }
    Ok(facts)
}

/// Are these the options with which Harvester requests a drain (`upgradeKubernetes`)?
fn is_harvesters(options: &str) -> bool {
    let options: Value = serde_json::from_str(options).unwrap_or_default();
    let hooks = items(&options, "/preDrainHooks").iter();
    let mut hooks = hooks.map(|hook| text(hook, "/annotation"));
    is(&options, "/enabled") && is(&options, "/force") && hooks.any(|hook| hook == PRE_HOOK)
}

/// During an upgrade they belong to it.
pub(super) fn leftovers(cluster: &Cluster<'_>) -> CheckResult {
    const IMAGE: &str = "harvesterhci.io/pendingOSImage";
    between_upgrades(cluster)?;
    let mut facts = CheckFacts::default();
    let nodes = cluster.nodes()?;
    for node in nodes {
        let subject = format!("Node {}", named(node));
        for taint in items(node, "/spec/taints") {
            if text(taint, "/key") == DRAIN_TAINT {
                facts.add(&subject, "spec.taints", DRAIN_TAINT);
            }
        }
        if let Some(image) = texts(node, "/metadata/annotations").get(IMAGE) {
            facts.add(&subject, &format!("metadata.annotations[{IMAGE}]"), image);
        }
        let (own, first) = (
            kubelet(node),
            nodes.first().map_or("", |node| kubelet(node)),
        );
        if own != first {
            let said = format!("{own}, and another node has {first}");
            facts.add(&subject, "status.nodeInfo.kubeletVersion", said);
        }
    }
    let charts = cluster.all(ObjectKind::MANAGED_CHART)?.iter();
    let paused = charts.filter(|chart| is(chart, "/spec/paused"));
    facts
        .problems
        .extend(paused.map(|chart| seen_in("ManagedChart", chart, "spec.paused", "true")));
    facts.problems.extend(asked_drains(cluster)?);
    facts.problems.extend(raised_interval(cluster)?);
    facts.problems.extend(own_markers(cluster));
    Ok(facts)
}

/// The drains that Rancher still requests, whether or not they stop the next upgrade.
fn asked_drains(cluster: &Cluster<'_>) -> Result<Vec<Evidence>, NoFacts> {
    let plans = cluster.all(ObjectKind::MACHINE_PLAN)?.iter();
    let left = plans.flat_map(|plan| {
        let annotations = texts(plan, "/metadata/annotations").into_keys();
        annotations.map(|name| annotated(plan, &name, "there"))
    });
    Ok(left.collect())
}

/// Up to v1.7.1 and in v1.8.0, an upgrade whose write of the Cluster failed once forgot the value to restore. In other releases,
/// one that was deleted in between may have forgotten it.
fn raised_interval(cluster: &Cluster<'_>) -> Result<Option<Evidence>, NoFacts> {
    let settings = cluster.all(ObjectKind::LONGHORN_SETTING)?.iter();
    let Some(setting) = settings
        .filter(|setting| text(setting, "/metadata/name") == INTERVAL)
        .find(|setting| text(setting, "/value") == RAISED_TO)
    else {
        return Ok(None);
    };
    let upgrades = cluster.all(ObjectKind::UPGRADE)?.iter();
    let mut before = upgrades
        .filter_map(|upgrade| texts(upgrade, "/metadata/annotations").remove(KEPT_AS))
        .filter(|value| value != RAISED_TO);
    let said = match before.next() {
        Some(before) => format!("{RAISED_TO}, as an upgrade sets it; before one it was {before}"),
        None => format!("{RAISED_TO}, as an upgrade sets it while it runs; Longhorn's own is 600"),
    };
    Ok(Some(seen_in("Setting", setting, "value", &said)))
}

/// RKE2 does not read the manifest while its marker is there, in any version.
fn own_markers(cluster: &Cluster<'_>) -> Vec<Evidence> {
    let Some(own) = &cluster.readings.own else {
        return Vec::new();
    };
    let markers = own.harvesters_markers.iter();
    let facts = |path| Evidence::new(format!("Node {}", own.name), "marker of Harvester", path);
    markers.map(|path| facts(path.as_str())).collect()
}

fn between_upgrades(cluster: &Cluster<'_>) -> Result<(), NoFacts> {
    match upgrades(cluster)?.problems.is_empty() {
        true => Ok(()),
        false => Err(NoFacts::NotChecked("an upgrade is under way")),
    }
}

fn annotated(object: &Value, annotation: &str, said: &str) -> Evidence {
    let field = format!("metadata.annotations[{annotation}]");
    seen_in("Secret", object, &field, said)
}

fn kubelet(node: &Value) -> &str {
    text(node, "/status/nodeInfo/kubeletVersion")
}
