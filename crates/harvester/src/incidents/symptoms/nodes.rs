//! Nodes that are not Ready, or whose kubelet or network plug-in reports a condition that keeps pods away.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::reasons::{Code, Severity};

use super::{
    Clock, NODE_NOT_READY, NODE_PRESSURE, Patience, condition_seen, known, state_of, subject,
};
use crate::drain::{is_in_maintenance, is_put_in_maintenance};
use crate::incidents::finding::IncidentFinding;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, named, text};
use crate::upgrade::{HarvesterUpgrade, plan_effect_on, plans_under_way, time};

/// The conditions for which the node controller taints a node (kubernetes
/// `pkg/controller/nodelifecycle/node_lifecycle_controller.go`, `nodeConditionToTaintKeyStatusMap`).
const BAD_IF_TRUE: [(&str, &Patience, &str); 4] = [
    (
        "DiskPressure",
        &NODE_PRESSURE,
        "Free space on the file systems of /var/lib/rancher and /var/lib/kubelet of this node. Do not remove the taint: it goes when the \
         condition goes.",
    ),
    (
        "MemoryPressure",
        &NODE_PRESSURE,
        "Stop VMs on this node, or migrate them to other nodes.",
    ),
    (
        "PIDPressure",
        &NODE_PRESSURE,
        "Find the pod with the most processes on this node, and restart it.",
    ),
    (
        "NetworkUnavailable",
        &NODE_NOT_READY,
        "Check the pods of the network plug-in on this node: `kubectl -n kube-system get pods -o wide`.",
    ),
];
const NOT_READY: &str = "On this node, check `systemctl status rke2-server rke2-agent` and agent/logs/kubelet.log in RKE2's data \
    directory. If the condition names the network plug-in, check its pods there.";
/// The page that explains symptoms.
const PAGE: &str = "incidents/symptoms.md";

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let nodes = objects.all(ObjectKind::NODE)?;
    let mut found = Vec::new();
    if nodes.iter().all(|node| faults(node).next().is_none()) {
        return Ok(found);
    }
    let clock = Clock::read(objects, now)?;
    for node in nodes {
        found.extend(symptoms(node, clock));
    }
    let is_silent = |node: &Value| Condition::of(node, "Ready").is_none_or(|one| !one.is_true());
    if found.is_empty() && nodes.iter().all(is_silent) {
        known_time(objects)?;
    }
    Ok(found)
}

/// The newest time of saved lists is their clock. If no kubelet reports, only a Lease of a leader or an Event can show how long.
///
/// # Errors
///
/// The input has neither.
fn known_time(objects: &Objects) -> Result<(), Unlisted> {
    let kinds = [ObjectKind::LEASE, ObjectKind::EVENT];
    let listed = kinds.map(|kind| objects.list(&kind.group_kind()));
    let is_in_input = |listed: &Result<&[Value], Unlisted>| match listed {
        Ok(_) => true,
        Err(unlisted) => !unlisted.is_not_in_input(),
    };
    match listed.iter().any(is_in_input) {
        true => Ok(()),
        false => Err(Unlisted {
            kind: ObjectKind::LEASE.group_kind(),
            why: "no kubelet reports, and without Leases and Events the input does not show for how long".to_owned(),
            wanted: false,
        }),
    }
}

fn symptoms(node: &Value, clock: Clock) -> impl Iterator<Item = IncidentFinding> {
    faults(node)
        .filter(move |fault| clock.is_late(fault.since, fault.patience))
        .map(move |fault| fault.finding(node))
}

/// Why pods of this node may not work: a condition that has already lasted too long.
pub(super) fn fault_of(node: &Value, clock: Clock) -> Option<IncidentFinding> {
    symptoms(node, clock).next()
}

/// The nodes that are out of service on purpose: in maintenance mode, or cordoned by an upgrade that works on them. What that implies
/// for pods and volumes is no error.
pub(super) fn set_aside(objects: &Objects) -> Result<BTreeSet<String>, Unlisted> {
    let nodes = known(objects.all(ObjectKind::NODE))?.unwrap_or_default();
    let upgrade = known(HarvesterUpgrade::under_way(objects))?.flatten();
    let plans = known(objects.all(ObjectKind::UPGRADE_PLAN))?.unwrap_or_default();
    let is_worked_on = |name: &str| {
        let of_upgrade = upgrade.as_ref().map(|upgrade| upgrade.effect_on(name));
        let of_plans = plans_under_way(plans).map(|plan| plan_effect_on(plan, name));
        let mut effects = of_upgrade.into_iter().chain(of_plans);
        effects.any(|effect| effect.is_on_node)
    };
    let is_cordoned = |node: &Value| node.pointer("/spec/unschedulable") == Some(&true.into());
    let aside = nodes.iter().filter(|node| {
        is_put_in_maintenance(node)
            || is_cordoned(node) && is_worked_on(text(node, "/metadata/name"))
    });
    Ok(aside.map(named).collect())
}

struct NodeFault<'o> {
    code: Code,
    /// `None` for a node whose kubelet has never reported.
    condition: Option<Condition<'o>>,
    since: Option<Timestamp>,
    patience: &'static Patience,
    advice: &'static str,
}

fn faults(node: &Value) -> impl Iterator<Item = NodeFault<'_>> {
    let ready = Condition::of(node, "Ready");
    let is_ready = ready.is_some_and(|ready| ready.is_true());
    let not_ready = (!is_ready).then(|| NodeFault {
        code: Code::NodeNotReady,
        condition: ready,
        since: ready
            .and_then(|ready| ready.since())
            .or_else(|| time(node, "/metadata/creationTimestamp")),
        patience: &NODE_NOT_READY,
        advice: NOT_READY,
    });
    // The other conditions of a node that does not report are out of date.
    let others = BAD_IF_TRUE.iter().filter(move |_| is_ready);
    let others = others.filter_map(|(name, patience, advice)| {
        let condition = Condition::of(node, name).filter(Condition::is_true)?;
        Some(NodeFault {
            code: Code::NodeCondition,
            condition: Some(condition),
            since: condition.since(),
            patience,
            advice,
        })
    });
    not_ready.into_iter().chain(others)
}

impl NodeFault<'_> {
    fn finding(&self, node: &Value) -> IncidentFinding {
        let node_subject = subject(node, "Node");
        let name = named(node);
        let why = match &self.condition {
            None => format!("{name}: its kubelet has never reported"),
            Some(condition) if self.code == Code::NodeNotReady => {
                format!("{name}: {}", state_of(condition, self.since))
            }
            Some(condition) => {
                format!(
                    "{} of {name}: {}",
                    condition.name,
                    state_of(condition, self.since)
                )
            }
        };
        let seen = self
            .condition
            .iter()
            .map(|condition| condition_seen(&node_subject, condition, self.since));
        let mut finding = IncidentFinding::new(self.code, &node_subject, &why).seen(seen);
        self.advice.clone_into(&mut finding.advice);
        PAGE.clone_into(&mut finding.documentation);
        // You may have switched off a node in maintenance mode.
        finding.severity = if is_in_maintenance(node) {
            Severity::Warning
        } else {
            Severity::Error
        };
        finding
    }
}
