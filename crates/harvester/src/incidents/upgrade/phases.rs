//! An UpgradePlan of the Upgrade Manager that has failed, that reports an error, or that stays in a phase for long (harvester/upgrade-toolkit
//! 0ce8800 `api/v1beta1/upgradeplan_types.go`; `Degraded` is its controller's error of the newest attempt).
//!
//! Windrow does not know the reason for a wait, so a long phase alone is a warning.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};

use super::super::finding::IncidentFinding;
use super::super::platform::quoted;
use super::seen_condition;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, items, named, text};
use crate::upgrade::{minutes_since, plans_under_way, time, usual_minutes_of_a_node};

/// How long a phase usually takes at most, in minutes. Our estimates, as for the stages of an Upgrade; of `NodeUpgrading`, per node.
const USUAL: [(&str, i64); 5] = [
    ("ISODownloading", 120),
    ("RepoCreating", 60),
    ("ImagePreloading", 120),
    ("ClusterUpgrading", 120),
    ("CleaningUp", 60),
];
const OTHERS: i64 = 30;
/// The controller tries again after an error.
const RETRIES_FOR: i64 = 15;
const FAILED: &str = "Read the quoted messages and the Jobs of this UpgradePlan in harvester-system. If nodes were being upgraded, do not start \
    another upgrade before the cause is fixed. Make a support bundle.";
const WAITS: &str = "Read the log of the Upgrade Manager in harvester-system, and its Jobs there: Windrow does not know the reason for the wait.";

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let plans = objects.all(ObjectKind::UPGRADE_PLAN)?;
    let newest = plans
        .iter()
        .max_by_key(|plan| time(plan, "/metadata/creationTimestamp"));
    let Some(plan) = newest else {
        return Ok(Vec::new());
    };
    let subject = format!("UpgradePlan {}", named(plan));
    let failed_nodes: Vec<Evidence> = failed_nodes(&subject, plan).collect();
    if text(plan, "/status/currentPhase") == "Failed" {
        if is_done_all_the_same(plan, objects.all(ObjectKind::NODE)?) {
            return Ok(Vec::new());
        }
        return Ok(vec![failed(&subject, plan, failed_nodes)]);
    }
    if plans_under_way(std::slice::from_ref(plan)).next().is_none() {
        return Ok(Vec::new());
    }
    let degraded = Condition::of(plan, "Degraded").filter(|degraded| {
        let since = degraded.since();
        degraded.is_true() && since.is_some_and(|since| minutes_since(since, now) >= RETRIES_FOR)
    });
    if failed_nodes.is_empty() && degraded.is_none() {
        return Ok(late(objects, &subject, plan, now)?.into_iter().collect());
    }
    let seen = degraded.map(|degraded| seen_condition(&subject, degraded));
    let seen: Vec<Evidence> = failed_nodes.into_iter().chain(seen).collect();
    let why = format!("{}: {}", seen[0].field, seen[0].value);
    let mut finding = IncidentFinding::new(Code::UpgradeStalled, &subject, &why).seen(seen);
    FAILED.clone_into(&mut finding.advice);
    Ok(vec![finding])
}

/// Whether all nodes run the system of the release, so that a user has finished the upgrade.
fn is_done_all_the_same(plan: &Value, nodes: &[Value]) -> bool {
    let image = format!("Harvester {}", text(plan, "/spec/version"));
    let mut images = nodes
        .iter()
        .map(|node| text(node, "/status/nodeInfo/osImage"));
    !nodes.is_empty() && images.all(|one| one == image)
}

fn failed_nodes<'p>(subject: &'p str, plan: &'p Value) -> impl Iterator<Item = Evidence> + 'p {
    let states = plan.pointer("/status/nodeUpgradeStatuses");
    let states = states.and_then(Value::as_object).into_iter().flatten();
    let failed = states.filter(|(_, status)| text(status, "/state").ends_with("Failed"));
    failed.map(move |(name, status)| {
        let parts = ["/state", "/reason", "/message"].map(|field| text(status, field));
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let field = format!("status.nodeUpgradeStatuses[{name}]");
        Evidence::new(subject, field, quoted(&parts.join(", ")))
    })
}

fn failed(subject: &str, plan: &Value, nodes: Vec<Evidence>) -> IncidentFinding {
    let conditions = Condition::all(plan).filter(|one| !one.message.trim().is_empty());
    let conditions = conditions.map(|one| seen_condition(subject, one));
    let seen: Vec<Evidence> = nodes.into_iter().chain(conditions).collect();
    let why = seen.first().map_or_else(
        || "status.currentPhase is Failed".to_owned(),
        |first| format!("{}: {}", first.field, first.value),
    );
    let phase = Evidence::new(subject, "status.currentPhase", "Failed");
    let seen = std::iter::once(phase).chain(seen);
    let mut finding = IncidentFinding::new(Code::UpgradeFailed, subject, &why).seen(seen);
    FAILED.clone_into(&mut finding.advice);
    finding
}

/// A phase that lasts for longer than usual.
fn late(
    objects: &Objects,
    subject: &str,
    plan: &Value,
    now: Timestamp,
) -> Result<Option<IncidentFinding>, Unlisted> {
    let phase = text(plan, "/status/currentPhase");
    let entries = items(plan, "/status/phaseTransitionTimestamps").iter();
    let own = entries.filter(|entry| text(entry, "/phase") == phase);
    let since = own
        .filter_map(|entry| time(entry, "/phaseTransitionTimestamp"))
        .max();
    let since = match phase {
        "" => time(plan, "/metadata/creationTimestamp"),
        _ => since,
    };
    let is_paused = || {
        let states = plan.pointer("/status/nodeUpgradeStatuses");
        let states = states.and_then(Value::as_object).into_iter().flatten();
        let mut states = states.map(|(_, status)| text(status, "/state"));
        states.any(|state| state == "UpgradePaused")
    };
    let Some(since) = since.filter(|_| !is_paused()) else {
        return Ok(None);
    };
    let row = USUAL.iter().find(|(name, _)| *name == phase);
    let usual = match phase {
        "NodeUpgrading" => {
            let nodes = objects.all(ObjectKind::NODE)?.len().max(1);
            i64::try_from(nodes)
                .unwrap_or(i64::MAX)
                .saturating_mul(usual_minutes_of_a_node())
        }
        _ => row.map_or(OTHERS, |(_, usual)| *usual),
    };
    if minutes_since(since, now) < usual {
        return Ok(None);
    }
    let phase = if phase.is_empty() { "(none)" } else { phase };
    let why = format!("it has been in the phase {phase} since {since}");
    let seen = Evidence::new(
        subject,
        "status.currentPhase",
        format!("{phase} since {since}"),
    );
    let mut finding = IncidentFinding::new(Code::UpgradeStalled, subject, &why).seen([seen]);
    finding.severity = Severity::Warning;
    WAITS.clone_into(&mut finding.advice);
    Ok(Some(finding))
}
