//! A server that was upgraded stays a learner in etcd: it does not vote, and its RKE2 does not become ready
//! (harvester#11359, harvester#11379). k3s tells so in the Node's condition `EtcdIsVoter` (`pkg/etcd`), which is `True` when
//! all is well.

use jiff::Timestamp;
use windrow_model::reasons::Code;

use super::super::finding::IncidentFinding;
use super::{failing, seen_condition, seen_of};
use crate::objects::{ObjectKind, Objects, Unlisted, text};
use crate::upgrade::{HarvesterUpgrade, NodeStage};

/// A learner that catches up votes within seconds to minutes, and one that does not is removed by etcd's leader.
const PATIENCE: i64 = 10;

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    let Some(upgrade) = HarvesterUpgrade::under_way(objects)? else {
        return Ok(findings);
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
        let voter = failing(object, "EtcdIsVoter", PATIENCE, now);
        let voter = voter.filter(|voter| text(voter, "/reason") == "MemberIsLearner");
        let (Some(voter), Some(ready)) = (voter, failing(object, "Ready", PATIENCE, now)) else {
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
