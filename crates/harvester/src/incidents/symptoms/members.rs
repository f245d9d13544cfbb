//! Nodes that lack a part which the cluster counts on: a vote in etcd, or Harvester's label.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};

use super::{Clock, ETCD_MEMBER, condition_seen, known, nodes, state_of, subject};
use crate::etcd_member::{self, Vote};
use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::is_upgrading;
use crate::objects::{ObjectKind, Objects, Unlisted, is_true, named, text};
use crate::upgrade::{label, time};

/// The label of Harvester's nodes, which its installer gives to RKE2 (harvester-installer `pkg/config/templates`).
pub(super) const MANAGED: &str = "harvesterhci.io~1managed";
/// A joining node has the label from its first second: it is one of the kubelet's.
const JOINS: SignedDuration = SignedDuration::from_mins(30);
const MACHINE: &str = "/metadata/annotations/cluster.x-k8s.io~1machine";

/// Servers that are no members of etcd, or whose member does not answer. A learner has an incident.
pub(super) fn find_etcd(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let all = objects.all(ObjectKind::NODE)?.iter();
    let lost: Vec<_> = all
        .filter(|node| is_true(node, "Ready") && etcd_member::is_member(node))
        .filter_map(|node| match etcd_member::vote(node) {
            Vote::Without { reason, since } => Some((node, reason, since)),
            _ => None,
        })
        .collect();
    if lost.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let aside = nodes::set_aside(objects)?;
    let late = lost.into_iter().filter(|(node, _, since)| {
        !aside.contains(&named(node)) && clock.is_late(*since, &ETCD_MEMBER)
    });
    Ok(late
        .map(|(node, reason, since)| {
            let about = subject(node, "Node");
            let condition = etcd_member::condition(node);
            let state = condition.map_or(reason, |condition| state_of(&condition, since));
            let why = format!("its etcd does not vote: {state}");
            let seen = condition.map(|condition| condition_seen(&about, &condition, since));
            let mut finding = IncidentFinding::new(Code::ProblemStays, &about, &why).seen(seen);
            finding.severity = Severity::Error;
            "etcd tolerates fewer failures until this server is a member again. Read the log of rke2-server on this node; `etcdctl member list` on \
             another server shows the members."
                .clone_into(&mut finding.advice);
            finding
        })
        .collect())
}

/// Does Harvester manage this node?
pub(super) fn is_managed(node: &Value) -> bool {
    label(node, MANAGED) == "true"
}

/// Nodes of Harvester without its label. Its upgrade waits until all nodes have run a Plan that selects only those with the label (harvester
/// v1.4.0 to v1.9.0-rc6 `package/upgrade/upgrade_manifests.sh`: `complete_nodes_count` against all nodes).
pub(super) fn find_unmanaged(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let all = objects.all(ObjectKind::NODE)?;
    let is_late = |node: &Value| {
        let made = time(node, "/metadata/creationTimestamp");
        made.is_some_and(|made| now.duration_since(made) > JOINS)
    };
    let without: Vec<&Value> = all
        .iter()
        .filter(|node| !is_managed(node) && is_late(node))
        .collect();
    if without.is_empty() || !all.iter().any(is_managed) {
        return Ok(Vec::new());
    }
    let upgrades = known(is_upgrading(objects))?.unwrap_or_default();
    Ok(without
        .into_iter()
        .map(|node| {
            let about = subject(node, "Node");
            let machine = match text(node, MACHINE) {
                "" => "none",
                machine => machine,
            };
            let seen = [
                Evidence::new(&about, "label harvesterhci.io/managed", "absent"),
                Evidence::new(&about, "annotation cluster.x-k8s.io/machine", machine),
            ];
            let why = "it lacks the label harvesterhci.io/managed=true, and an upgrade of Harvester waits for a Plan on it that runs only on \
                       nodes with the label";
            let mut finding = IncidentFinding::new(Code::ProblemStays, &about, why).seen(seen);
            if upgrades {
                finding.severity = Severity::Error;
            }
            "Check how this node joined: Harvester's installer sets the label, and each node has a Machine of its own. If it is a node of \
             Harvester, give it the label; otherwise remove it from the cluster."
                .clone_into(&mut finding.advice);
            finding
        })
        .collect())
}
