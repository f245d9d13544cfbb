//! Reasons why an upgrade of Harvester waits, by phase.
//!
//! ```text
//!   PreparingNodes      plan       system-upgrade-controller's Plan does not advance
//!   UpgradingNodes      machine_left  the node of a Machine is gone
//!                       machine    a node and its Machine do not match; no node is started
//!     Pre-draining      pre_drain  volumes and VMs
//!     Pre-drained       engine     a stale engine keeps Longhorn's budget; (drain.rs: every other budget)
//!                       learner    etcd does not accept the node as a voting member
//!     Post-draining     repository the repository of the upgrade is down
//!     Waiting Reboot    reboot     the node does not boot the new image
//!   any                 stalled    Harvester itself, its logging or RKE2 on the node is down; a Job fails repeatedly;
//!                                  Rancher waits for a probe, or does not continue
//!   Failed              failed     the phase and the Job
//!   of an UpgradePlan   phases     its failed nodes, its error, a long phase
//! ```
//!
//! A duration alone is not a finding, but part of the description ([`HarvesterUpgrade::in_lines`]). Each finding has an observed
//! cause. The time limits are Windrow's, not Harvester's.

mod cures;
mod engine;
mod failed;
mod learner;
mod machine;
mod machine_left;
mod phases;
mod plan;
mod pre_drain;
mod reboot;
mod repository;
mod stalled;

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::Detector;
use super::relied_on::ReliedOn;
use crate::objects::{Condition, named};
use crate::upgrade::{HarvesterUpgrade, UpgradingNode, minutes_since};

pub(super) use machine::rancher_waits;
pub(super) use reboot::add_own_boot;

pub(super) const DETECTORS: &[Detector] = &[
    Detector::new("plans", "system-upgrade-controller's Plans", plan::find)
        // In every version of Kubernetes a Deployment creates its pod again.
        .that_cures(Code::PlanStuck, &[]),
    Detector::new(
        "machines",
        "nodes and their Machines",
        machine::find_missing,
    ),
    Detector::new(
        "machines-without-node",
        "Machines whose node is gone",
        machine_left::find,
    ),
    Detector::new(
        "upgrade-begins-no-node",
        "an upgrade that begins no node",
        machine::find_not_begun,
    ),
    Detector::new(
        "pre-draining",
        "an upgrade that waits in Pre-draining",
        pre_drain::find,
    ),
    Detector::new(
        "stale-engines",
        "stale engines on a cordoned node",
        engine::find,
    )
    .that_cures(Code::EngineStale, &[ReliedOn::Longhorn]),
    Detector::new(
        "etcd-learners",
        "etcd members that do not vote",
        learner::find,
    ),
    Detector::new(
        "upgrade-repository",
        "an upgrade's repository",
        repository::find,
    ),
    Detector::new(
        "upgrade-reboot",
        "an upgrade that waits for a reboot",
        reboot::find,
    ),
    Detector::new(
        "upgrade-stalled",
        "an upgrade that does not go on",
        stalled::find,
    ),
    Detector::new("upgrade-failed", "an upgrade that failed", failed::find),
    Detector::new(
        "upgrade-plan-phases",
        "the phases of an UpgradePlan",
        phases::find,
    ),
];

/// The state of a node in the Upgrade, and the Job that shows its start.
pub(super) fn seen_of(upgrade: &HarvesterUpgrade<'_>, node: &UpgradingNode<'_>) -> Vec<Evidence> {
    let field = format!("status.nodeStatuses[{}].state", node.name);
    let mut seen = vec![Evidence::new(upgrade.subject(), field, node.state)];
    if let (Some(job), Some(since)) = (node.job, node.since) {
        let subject = format!("Job {}", named(job));
        seen.push(Evidence::new(subject, "since", since.to_string()));
    }
    seen
}

/// A condition as evidence: its status, reason, message and start.
pub(super) fn seen_condition(subject: &str, condition: Condition<'_>) -> Evidence {
    let mut value = condition.status.to_owned();
    for said in [condition.reason.trim(), condition.message.trim()] {
        if !said.is_empty() {
            value = format!("{value}, {said}");
        }
    }
    if let Some(since) = condition.since() {
        value = format!("{value} (since {since})");
    }
    Evidence::new(subject, format!("condition {}", condition.name), value)
}

/// A condition that has not been `True` for this many minutes. A condition without a time counts as new.
fn failing<'o>(
    object: &'o Value,
    name: &str,
    minutes: i64,
    now: Timestamp,
) -> Option<Condition<'o>> {
    let condition = Condition::of(object, name)?;
    let is_late = condition
        .since()
        .is_some_and(|since| minutes_since(since, now) >= minutes);
    (!condition.is_true() && is_late).then_some(condition)
}
