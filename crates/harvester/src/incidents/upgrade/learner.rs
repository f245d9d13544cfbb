//! An upgraded or joined server stays a learner in etcd: it does not vote, and its RKE2 does not become ready (harvester#11359,
//! harvester#11379).

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::reasons::Code;

use super::super::finding::IncidentFinding;
use super::{failing, seen_condition, seen_of};
use crate::etcd_member;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, is_true, text};
use crate::upgrade::{HarvesterUpgrade, NodeStage};

/// A learner that catches up votes within seconds to minutes, and etcd's leader removes one that does not.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// For joining servers: RKE2 promotes one learner at a time, so some of them may have to wait.
const JOINS: SignedDuration = SignedDuration::from_mins(30);

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    let Some(upgrade) = HarvesterUpgrade::under_way(objects)? else {
        let nodes = objects.all(ObjectKind::NODE)?.iter();
        return Ok(nodes.filter_map(|node| after_join(node, now)).collect());
    };
    let restarted = [NodeStage::PreDrained, NodeStage::PostDraining];
    for node in upgrade
        .nodes
        .iter()
        .filter(|node| restarted.contains(&node.stage))
    {
        let Some(object) = objects.get(ObjectKind::NODE, "", node.name)? else {
            continue;
        };
        let (Some(voter), Some(ready)) = (
            learner(object, PATIENCE, now),
            failing(object, "Ready", PATIENCE.as_mins(), now),
        ) else {
            continue;
        };
        let subject = format!("Node {}", node.name);
        let seen = [
            seen_condition(&subject, voter),
            seen_condition(&subject, ready),
        ];
        let why = "EtcdIsVoter is False (MemberIsLearner), and the node is not ready";
        findings.push(
            IncidentFinding::new(Code::EtcdLearner, subject, why)
                .seen(seen)
                .seen(seen_of(&upgrade, node)),
        );
    }
    Ok(findings)
}

/// Outside an upgrade a server that does not vote reduces the fault tolerance of etcd, whether its RKE2 is ready or not.
fn after_join(node: &Value, now: Timestamp) -> Option<IncidentFinding> {
    let voter = learner(node, JOINS, now)?;
    let subject = format!("Node {}", text(node, "/metadata/name"));
    let why = match is_true(node, "Ready") {
        true => "EtcdIsVoter is False (MemberIsLearner) for half an hour",
        false => "EtcdIsVoter is False (MemberIsLearner), and the node is not ready",
    };
    let mut seen = vec![seen_condition(&subject, voter)];
    seen.extend(Condition::of(node, "Ready").map(|ready| seen_condition(&subject, ready)));
    Some(IncidentFinding::new(Code::EtcdLearner, subject, why).seen(seen))
}

/// The condition of a node whose member has been a learner for this long.
fn learner(node: &Value, patience: SignedDuration, now: Timestamp) -> Option<Condition<'_>> {
    let is_late = etcd_member::vote(node).learns_for(patience, now);
    etcd_member::condition(node).filter(|_| is_late)
}
