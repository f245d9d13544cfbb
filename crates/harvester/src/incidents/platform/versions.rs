//! Nodes of one cluster with different versions, long after their last change.
//!
//! Nothing records when the version of a node changed. Instead the newest of its traces counts: when the node joined, when the
//! readiness of its kubelet last changed, and the last activity of an upgrade.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};
use windrow_plan::version::Version;

use super::{MOST, is_upgrading};
use crate::incidents::finding::IncidentFinding;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, items, named, text};
use crate::upgrade::{HarvesterUpgrade, label, time};

/// Longer than the upgrade of a node takes.
const PATIENCE: SignedDuration = SignedDuration::from_mins(60);
/// The advice after a failed upgrade, which cannot simply continue.
const FAILED: &str = "An upgrade has failed half-way. First find its cause and the advice about a restart: run `windrow why upgrade-failed`.";
/// How many minors a kubelet may be behind kube-apiserver (Kubernetes' version skew policy).
const MOST_BEHIND: u16 = 3;

pub(in crate::incidents) fn find(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let nodes = objects.all(ObjectKind::NODE)?;
    let kubelets: BTreeSet<&str> = nodes.iter().map(kubelet).collect();
    let systems: BTreeSet<&str> = nodes.iter().filter_map(harvester).collect();
    if kubelets.len() < 2 && systems.len() < 2 {
        return Ok(Vec::new());
    }
    if is_upgrading(objects)? || is_a_plan_applied(objects)? {
        return Ok(Vec::new());
    }
    let changes = nodes.iter().flat_map(changes);
    let newest = changes.chain(upgraded(objects)?).max();
    if newest.is_none_or(|newest| now.duration_since(newest) <= PATIENCE) {
        return Ok(Vec::new());
    }
    let versions = |differ: &BTreeSet<&str>| differ.iter().copied().collect::<Vec<_>>().join(", ");
    let why = match systems.len() < 2 {
        true => versions(&kubelets),
        false => versions(&systems),
    };
    let evidence = nodes.iter().take(MOST).map(|node| {
        let field = "status.nodeInfo.{kubeletVersion,osImage}";
        let value = format!("{}, {}", kubelet(node), text(node, OS_IMAGE));
        Evidence::new(format!("Node {}", named(node)), field, value)
    });
    let mut finding = IncidentFinding::new(Code::MixedVersions, "the nodes", &why).seen(evidence);
    if let Some(newest) = newest {
        finding.proof.push(format!(
            "nothing has changed a node since {newest}, and no upgrade runs"
        ));
    }
    if HarvesterUpgrade::failed(objects)?.is_some() {
        finding.advice = FAILED.to_owned();
    }
    if let Some(skew) = skew(nodes) {
        finding.severity = Severity::Error;
        finding.proof.push(skew);
    }
    Ok(vec![finding])
}

const OS_IMAGE: &str = "/status/nodeInfo/osImage";

fn kubelet(node: &Value) -> &str {
    text(node, "/status/nodeInfo/kubeletVersion")
}

/// Harvester's version. Nodes with other operating systems may differ permanently.
fn harvester(node: &Value) -> Option<&str> {
    Some(text(node, OS_IMAGE)).filter(|image| image.starts_with("Harvester"))
}

fn changes(node: &Value) -> impl Iterator<Item = Timestamp> {
    let ready = Condition::of(node, "Ready");
    let became = ready.and_then(|ready| ready.time("lastTransitionTime"));
    let joined = time(node, "/metadata/creationTimestamp");
    became.into_iter().chain(joined)
}

/// The last activity of an Upgrade of Harvester.
fn upgraded(objects: &Objects) -> Result<Option<Timestamp>, Unlisted> {
    let upgrades = objects.all(ObjectKind::UPGRADE)?.iter();
    let conditions = upgrades.flat_map(Condition::all);
    Ok(conditions
        .filter_map(|one| one.time("lastUpdateTime"))
        .max())
}

/// Whether system-upgrade-controller is working on a node.
fn is_a_plan_applied(objects: &Objects) -> Result<bool, Unlisted> {
    let mut plans = objects.all(ObjectKind::PLAN)?.iter();
    Ok(plans.any(|plan| !items(plan, "/status/applying").is_empty()))
}

/// A kubelet that is newer than a kube-apiserver, or too old for it. RKE2 ships both in one version.
fn skew(nodes: &[Value]) -> Option<String> {
    let version = |node: &Value| kubelet(node).parse::<Version>().ok();
    let is_server = |node: &&Value| label(node, "node-role.kubernetes.io~1control-plane") == "true";
    for server in nodes.iter().filter(is_server) {
        for node in nodes {
            let (Some(api), Some(its)) = (version(server), version(node)) else {
                continue;
            };
            let (its, api) = (its.minor.minor, api.minor.minor);
            if its > api || api - its > MOST_BEHIND {
                return Some(format!(
                    "Kubernetes supports no kubelet that is newer than a kube-apiserver, or more than {MOST_BEHIND} \
                     minors older: {} has {}, the server {} has {}",
                    named(node),
                    kubelet(node),
                    named(server),
                    kubelet(server)
                ));
            }
        }
    }
    None
}
