//! The cure for KubeVirt, which allows its own pods on any node (harvester#7725).
//!
//! ```text
//!   where are the pods pinned?
//!     values of the ManagedChart ──> change the values: Rancher rebuilds the Bundle, Fleet upgrades the whole chart
//!     only the object KubeVirt ────> the chart differs: give KubeVirt the value of the chart (clears Fleet's Modified)
//!     nowhere, and no chart value ─> KubeVirt's own default: add to the values
//! ```
//!
//! If the value in KubeVirt differs from the chart, the chart becomes Modified, and Harvester rejects the next upgrade. So
//! KubeVirt gets only the value of the chart.

use serde_json::{Value, json};
use windrow_model::redact;

use crate::incidents::cure::{Cure, CureGoal, CureStep, ObjectChange, SavedObject};
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, is_true, items, named, text};
use crate::versions::{Fact, Holds, the_clusters_version};

/// Namespace of Harvester's charts, and the name of its ManagedChart.
const CHART: (&str, &str) = ("fleet-local", "harvester");
/// The Bundle that Rancher creates from it for Fleet.
const BUNDLE: &str = "mcc-harvester";
/// The repository from which Rancher takes the chart.
const REPOSITORY: &str = "harvester-charts";
/// KubeVirt's own pods in the values of the chart.
const IN_VALUES: &str = "/spec/values/kubevirt/spec/infra";
/// Time limit for Rancher and Fleet, in seconds. Fleet waits 600 seconds for the upgrade of a chart.
const PATIENCE: u32 = 900;

/// The cure, or the reason why Windrow offers none.
pub(super) fn cure(objects: &Objects, stuck: &[&str]) -> Result<Result<Cure, String>, Unlisted> {
    let Some(kubevirt) = objects.get(ObjectKind::KUBEVIRT, "harvester-system", "kubevirt")? else {
        return Ok(Err("the object KubeVirt does not exist".to_owned()));
    };
    let infra = kubevirt.pointer("/spec/infra");
    if infra.is_some_and(is_free) {
        let why = "KubeVirt may run its own pods on any node already";
        return Ok(Err(why.to_owned()));
    }
    let Some(chart) = objects.get(ObjectKind::MANAGED_CHART, CHART.0, CHART.1)? else {
        return Ok(Ok(of_object(
            kubevirt,
            &json!({"nodePlacement": {}}),
            stuck,
        )));
    };
    let values = chart.pointer(IN_VALUES);
    if values.is_some_and(|infra| !is_free(infra)) {
        return of_values(objects, chart, stuck);
    }
    // The values differ from the object or are absent, so the defaults of the chart decide.
    if let Some(values) = values {
        return Ok(Ok(of_object(kubevirt, values, stuck)));
    }
    let version = the_clusters_version(objects)?;
    let holds = |fact: Fact| version.map(|version| fact.holds(version));
    let why = match (infra, holds(Fact::KubevirtInfraInValues)) {
        (_, Some(Holds::Yes)) => {
            return Ok(Ok(of_object(
                kubevirt,
                &json!({"nodePlacement": {}}),
                stuck,
            )));
        }
        (Some(_), Some(Holds::No)) => {
            "Harvester's chart of this version sets no spec.infra in KubeVirt, so another client set it"
        }
        (None, _) if holds(Fact::KubevirtPinsItsPods) == Some(Holds::No) => {
            "this version of KubeVirt does not pin its pods"
        }
        _ => "Windrow has no data on the KubeVirt settings of Harvester's chart of this version",
    };
    Ok(Err(why.to_owned()))
}

/// Whether pods with this configuration can run on any node.
fn is_free(infra: &Value) -> bool {
    infra.pointer("/nodePlacement") == Some(&json!({}))
}

/// Gives KubeVirt the value of its chart.
fn of_object(kubevirt: &Value, wanted: &Value, stuck: &[&str]) -> Cure {
    let change =
        ObjectChange::of(ObjectKind::KUBEVIRT, kubevirt).set("/spec/infra", wanted.clone());
    let say = "let KubeVirt's own pods run on any node (spec.infra.nodePlacement: {})";
    let mut steps = vec![
        change.step(say, is_in_kubevirt(), 120).afterwards(
            "virt-operator rolls virt-api and virt-controller out again, and Fleet finds KubeVirt as the chart has it",
        ),
    ];
    steps.extend(stuck.iter().map(|budget| wait_for(budget)));
    Cure {
        summary: "let KubeVirt's own pods run on any node".to_owned(),
        changes: vec![
            format!("KubeVirt harvester-system/kubevirt: spec.infra becomes {wanted}"),
            "virt-api and virt-controller are rolled out again; VMs keep running".to_owned(),
        ],
        saves: vec![SavedObject::of(ObjectKind::KUBEVIRT, kubevirt)],
        purpose: None,
        steps,
    }
}

/// Changes the values of the chart, unless its upgrade would change more than that.
fn of_values(
    objects: &Objects,
    chart: &Value,
    stuck: &[&str],
) -> Result<Result<Cure, String>, Unlisted> {
    if let Some(why) = not_now(objects, chart)? {
        return Ok(Err(why));
    }
    let change = ObjectChange::of(ObjectKind::MANAGED_CHART, chart)
        .still("/spec/paused")
        .set(format!("{IN_VALUES}/nodePlacement"), json!({}));
    let bundle = ObjectKind::BUNDLE.object_path(CHART.0, BUNDLE);
    let rebuilt = CureGoal::Field {
        path: bundle.clone(),
        before: None,
        field: "/spec/helm/values/kubevirt/spec/infra/nodePlacement".to_owned(),
        value: json!({}),
    };
    let say = "let KubeVirt's own pods run on any node, in the values of Harvester's chart";
    let mut steps = vec![
        change.step(say, rebuilt, PATIENCE).afterwards(
            "Rancher rebuilds the Bundle of the chart, and Fleet upgrades the whole chart with it",
        ),
        CureStep::wait(
            "wait until Fleet has given KubeVirt the value",
            is_in_kubevirt(),
            PATIENCE,
        ),
        CureStep::wait(
            format!("wait until Bundle {}/{BUNDLE} is Ready", CHART.0),
            CureGoal::Condition {
                path: bundle,
                condition: "Ready".to_owned(),
            },
            PATIENCE,
        ),
    ];
    steps.extend(stuck.iter().map(|budget| wait_for(budget)));
    Ok(Ok(Cure {
        summary: "let KubeVirt's own pods run on any node, through Harvester's chart".to_owned(),
        changes: vec![
            format!(
                "ManagedChart {}: kubevirt.spec.infra.nodePlacement of its values is emptied; the other values stay",
                named(chart)
            ),
            "the whole chart is upgraded with the same version; manual changes to its objects are reverted"
                .to_owned(),
            "virt-api and virt-controller are rolled out again; VMs keep running".to_owned(),
        ],
        saves: vec![SavedObject::of(ObjectKind::MANAGED_CHART, chart)],
        purpose: None,
        steps,
    }))
}

/// The reason why the chart should not be upgraded now.
fn not_now(objects: &Objects, chart: &Value) -> Result<Option<String>, Unlisted> {
    if chart.pointer("/spec/paused") == Some(&json!(true)) {
        return Ok(Some(format!(
            "ManagedChart {} is paused: Rancher would not pass a change on",
            named(chart)
        )));
    }
    let repository = objects.get(ObjectKind::CLUSTER_REPO, "", REPOSITORY)?;
    if !repository.is_some_and(|repository| is_true(repository, "Downloaded")) {
        return Ok(Some(format!(
            "ClusterRepo {REPOSITORY} is not Downloaded: Rancher cannot load the chart"
        )));
    }
    let drift: Vec<String> = objects
        .all(ObjectKind::BUNDLE_DEPLOYMENT)?
        .iter()
        .filter(|deployment| text(deployment, "/metadata/name") == BUNDLE)
        .flat_map(|deployment| items(deployment, "/status/modifiedStatus"))
        .filter(|object| text(object, "/kind") != "KubeVirt")
        .map(name_of_modified)
        .collect();
    if !drift.is_empty() {
        return Ok(Some(format!(
            "the upgrade of the whole chart would also put back {}",
            drift.join(", ")
        )));
    }
    let ready = Condition::of(chart, "Ready");
    let other = ready.filter(|ready| !ready.is_true() && !ready.message.starts_with("Modified("));
    Ok(other.map(|ready| {
        format!(
            "ManagedChart {} is not Ready: {}",
            named(chart),
            redact::message(ready.message)
        )
    }))
}

/// An object that differs from its chart, by its name only, because the difference may be secret.
fn name_of_modified(object: &Value) -> String {
    let name = match text(object, "/namespace") {
        "" => text(object, "/name").to_owned(),
        namespace => format!("{namespace}/{}", text(object, "/name")),
    };
    format!("{} {name}", text(object, "/kind"))
}

fn is_in_kubevirt() -> CureGoal {
    CureGoal::Field {
        path: ObjectKind::KUBEVIRT.object_path("harvester-system", "kubevirt"),
        before: None,
        field: "/spec/infra/nodePlacement".to_owned(),
        value: json!({}),
    }
}

/// A budget that must allow the eviction of a pod, or disappear.
fn wait_for(budget: &str) -> CureStep {
    let (namespace, name) = budget.split_once('/').unwrap_or_default();
    CureStep::wait(
        format!("wait until PodDisruptionBudget {budget} allows a disruption"),
        CureGoal::AtLeast {
            path: ObjectKind::BUDGET.object_path(namespace, name),
            field: "/status/disruptionsAllowed".to_owned(),
            value: 1,
        },
        PATIENCE,
    )
}
