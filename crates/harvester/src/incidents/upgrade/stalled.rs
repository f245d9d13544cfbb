//! What keeps an upgrade from going on in any state: Harvester itself is down, a chart of Rancher's is not ready, or RKE2 does
//! not come up on a node whose turn it is.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::reasons::Code;

use super::super::finding::IncidentFinding;
use super::{failing, seen_condition, seen_of};
use crate::objects::{ObjectKind, Objects, Unlisted, named, text};
use crate::upgrade::{HarvesterUpgrade, NodeStage, minutes_since};

/// Harvester's pods are replaced one by one, and are away at once only where there is one.
const HARVESTER: i64 = 5;
/// A machine boots that long.
const BOOT: i64 = 30;
/// RKE2 starts within minutes, with a large etcd within a quarter of an hour.
const START: i64 = 20;
/// The states that wait for charts of Rancher's, and how long that is usual.
const CHARTS: [(&str, i64); 2] = [
    ("PreparingLoggingInfra", 30),
    ("UpgradingSystemServices", 60),
];

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let Some(upgrade) = HarvesterUpgrade::under_way(objects)? else {
        return Ok(Vec::new());
    };
    let mut findings = harvester_down(objects, &upgrade, now)?;
    findings.extend(charts(objects, &upgrade, now)?);
    findings.extend(not_started(objects, &upgrade, now)?);
    Ok(findings)
}

fn harvester_down(
    objects: &Objects,
    upgrade: &HarvesterUpgrade<'_>,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let boots = upgrade.in_stage(NodeStage::WaitingReboot).next().is_some();
    let patience = if boots { BOOT } else { HARVESTER };
    let harvester = objects.get(ObjectKind::DEPLOYMENT, "harvester-system", "harvester")?;
    let down = harvester.and_then(|object| failing(object, "Available", patience, now));
    let why = "it is not available, and every step of an upgrade is Harvester's";
    Ok(down
        .map(|condition| found("Deployment harvester-system/harvester", why, condition))
        .into_iter()
        .collect())
}

fn charts(
    objects: &Objects,
    upgrade: &HarvesterUpgrade<'_>,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let usual = CHARTS.iter().find(|(state, _)| *state == upgrade.state());
    let since = upgrade.since().map(|since| minutes_since(since, now));
    let Some((state, usual)) = usual.filter(|(_, usual)| since >= Some(*usual)) else {
        return Ok(Vec::new());
    };
    // Harvester pauses charts while it changes them.
    let is_paused = |chart: &&Value| chart.pointer("/spec/paused") == Some(&Value::Bool(true));
    let charts = objects.all(ObjectKind::MANAGED_CHART)?.iter();
    let failed = charts
        .filter(|chart| !is_paused(chart))
        .filter_map(|chart| {
            let ready = failing(chart, "Ready", *usual, now)?;
            let why = format!("{state} waits for it: {}", text(ready, "/message"));
            Some(found(
                &format!("ManagedChart {}", named(chart)),
                &why,
                ready,
            ))
        });
    Ok(failed.collect())
}

/// RKE2 of a node that is Pre-drained does not become ready. One that is a learner in etcd is a finding of its own.
fn not_started(
    objects: &Objects,
    upgrade: &HarvesterUpgrade<'_>,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    let late = upgrade.in_stage(NodeStage::PreDrained);
    for node in late.filter(|node| node.is_there_for(START, now)) {
        let Some(object) = objects.get(ObjectKind::NODE, "", node.name)? else {
            continue;
        };
        let voter = failing(object, "EtcdIsVoter", 0, now);
        let learns = voter.is_some_and(|voter| text(voter, "/reason") == "MemberIsLearner");
        if let Some(ready) = failing(object, "Ready", START, now).filter(|_| !learns) {
            let why = "its RKE2 was restarted for the upgrade, and it does not become ready";
            let finding = found(&format!("Node {}", node.name), why, ready);
            findings.push(finding.seen(seen_of(upgrade, node)));
        }
    }
    Ok(findings)
}

fn found(subject: &str, why: &str, condition: &Value) -> IncidentFinding {
    let seen = seen_condition(subject, condition);
    IncidentFinding::new(Code::UpgradeStalled, subject, why).seen([seen])
}
