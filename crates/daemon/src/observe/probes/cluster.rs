//! What kube-apiserver reports about itself, the node's own Node and Harvester's parts.

use serde_json::Value;
use tokio::time::Instant;
use windrow_harvester::health::{
    draining, judge_condition, plan_at_work, promoting, storage_network as is_configured,
};
use windrow_harvester::objects::{items, text};
use windrow_harvester::upgrade::{
    HarvesterUpgrade, UpgradeEffect, plan_effect_on, plan_in_a_line, plans_under_way, under_way,
};
use windrow_plan::readiness::node::{
    NodeEvent, NodeRole, ProbeOutcome, Transition, TransitionScope, TransitionSign,
};
use windrow_plan::readiness::platform::ChartState;
use windrow_plan::rules::Platform;

use super::answer::ProbeAnswer;
use super::context::ProbeContext;
use super::kubernetes::{Ask, Credential, asked, object};
use super::own_node::{self, HeartbeatMemory};
use super::upgrade::{self, Sign, SignMemory};
use crate::apiserver::RequestFailure;

/// kube-apiserver's `/readyz` with the node's credential.
pub(super) async fn apiserver(context: &ProbeContext, role: NodeRole, node: &str) -> ProbeOutcome {
    let credential = Credential::for_role(role);
    let unknown = |why: String| ProbeOutcome::unknown(asked(Ask::Readyz, credential, node), why);
    match context.kubernetes.ask(Ask::Readyz, credential, node).await {
        Ok(reply) if reply.status == 200 => ProbeOutcome::Passed,
        // It answers 500 with the failed checks. Any other error comes before the checks were made, or from a proxy.
        Ok(reply) => match failed_checks(&reply.body) {
            Some(failed) if reply.status == 500 => ProbeOutcome::failed(failed),
            _ => {
                let kubernetes = &context.kubernetes;
                kubernetes.no_usable_answer(Ask::Readyz, credential, node, &reply)
            }
        },
        // A silent endpoint of kube-apiserver itself is an answer: it is not up.
        Err(none @ (RequestFailure::Down(_) | RequestFailure::Late(_))) => {
            ProbeOutcome::failed(none.to_string())
        }
        Err(none) => unknown(none.to_string()),
    }
}

/// The names in `[-]etcd failed: reason withheld`.
fn failed_checks(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let failed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("[-]")?.split(' ').next())
        .collect();
    (!failed.is_empty()).then(|| format!("{} failed", failed.join(", ")))
}

/// The node's own Node: its Ready condition, and its other states. Upgrades of the node show there too.
pub(super) async fn own_node(
    context: &ProbeContext,
    upgrade: &SignMemory,
    heartbeats: &HeartbeatMemory,
    role: NodeRole,
    node: &str,
    platform: Option<Platform>,
) -> ProbeAnswer {
    let credential = Credential::for_role(role);
    let absent = format!("there is no Node {node} yet");
    let upgrades = upgrade::is_seen_by_signs(platform, role.serves_api());
    // Both at once: together they must take no longer than one.
    let (found, job) = tokio::join!(
        object(&context.kubernetes, Ask::OwnNode, credential, node, &absent),
        async {
            if upgrades && Ask::UpgradeJobs.allowed(credential) {
                Some(admin(context, Ask::UpgradeJobs, node, "").await)
            } else {
                None
            }
        }
    );
    let mut events = Vec::new();
    let job = match job {
        Some(Ok(jobs)) => Some(Sign::Job(plan_at_work(&jobs))),
        // Without an answer for the Node either, kube-apiserver may be the one that is upgraded.
        Some(Err(_)) if found.is_ok() => Some(Sign::JobUnknown),
        _ => None,
    };
    if let Some(job) = job {
        events.push(upgrade::take_sign(context, upgrade, job));
    }
    let others = own_node::others(found.as_ref(), (context.now)());
    let value = match found {
        Ok(value) => value,
        Err(outcome) => {
            return ProbeAnswer {
                outcome,
                events,
                others,
            };
        }
    };
    if upgrades {
        let sign = Sign::Node {
            cordoned: value["spec"]["unschedulable"] == true,
            running: value["status"]["nodeInfo"]["kubeletVersion"]
                .as_str()
                .map(str::to_owned),
        };
        events.push(upgrade::take_sign(context, upgrade, sign));
    }
    events.extend([
        NodeEvent::Transition(Transition::Drain, draining(&value).map(Into::into)),
        NodeEvent::Transition(Transition::Promotion, promoting(&value).map(Into::into)),
        NodeEvent::Cordoned(value["spec"]["unschedulable"] == true),
    ]);
    let ready = judge_condition(&value, "Ready")
        .unwrap_or_else(|| ProbeOutcome::failed("its kubelet has not reported yet"));
    let stopped = heartbeats.stopped(&value, Instant::now());
    ProbeAnswer {
        outcome: match stopped {
            Some(stopped) if ready == ProbeOutcome::Passed => stopped,
            _ => ready,
        },
        events,
        others,
    }
}

pub(super) async fn rancher(context: &ProbeContext, node: &str) -> ProbeOutcome {
    let absent = "Rancher is not installed yet";
    match admin(context, Ask::Rancher, node, absent).await {
        Ok(deployment) => judge_condition(&deployment, "Available")
            .unwrap_or_else(|| ProbeOutcome::failed("its Deployment has no status yet")),
        Err(outcome) => outcome,
    }
}

/// Harvester's chart, on day 0.
pub(super) async fn managed_chart(context: &ProbeContext, node: &str) -> ProbeOutcome {
    let absent = "ManagedChart fleet-local/harvester does not exist yet";
    match admin(context, Ask::ManagedChart, node, absent).await {
        Ok(chart) => ChartState::of(&chart).into(),
        Err(outcome) => outcome,
    }
}

/// A ready endpoint of Harvester's webhook: without one, every change is refused.
pub(super) async fn ready_endpoint(context: &ProbeContext, node: &str) -> ProbeOutcome {
    let list = match admin(context, Ask::WebhookEndpoints, node, "it has none yet").await {
        Ok(list) => list,
        Err(outcome) => return outcome,
    };
    let ready = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|slice| slice["endpoints"].as_array())
        .flatten()
        // An absent `ready` means ready (discovery.k8s.io/v1).
        .any(|endpoint| endpoint["conditions"]["ready"] != false);
    match ready {
        true => ProbeOutcome::Passed,
        false => ProbeOutcome::failed("no pod of harvester-webhook is ready"),
    }
}

/// Harvester's server keeps its settings. Also reports whether Harvester is being upgraded.
pub(super) async fn settings(context: &ProbeContext, node: &str) -> ProbeAnswer {
    let absent = "Setting server-version does not exist";
    let outcome = match admin(context, Ask::ServerVersion, node, absent).await {
        Ok(_) => ProbeOutcome::Passed,
        Err(outcome) => outcome,
    };
    let asked = admin(context, Ask::Upgrades, node, "").await;
    let plan = planned(context, node).await;
    let events = match (asked, plan) {
        (Ok(list), Ok(plan)) => {
            let upgrade = upgrading(context, node, &list).await.or(plan);
            vec![NodeEvent::Transition(Transition::Upgrade, upgrade)]
        }
        // Unknown: the last known answer counts for a while.
        _ => Vec::new(),
    };
    ProbeAnswer {
        events,
        ..outcome.into()
    }
}

/// The UpgradePlan that is under way. Before v1.8, and without the experimental upgrade manager, the kind is not served.
async fn planned(
    context: &ProbeContext,
    node: &str,
) -> Result<Option<TransitionSign>, ProbeOutcome> {
    match admin(context, Ask::UpgradePlans, node, "").await {
        Ok(list) => Ok(plans_under_way(items(&list, "/items"))
            .next()
            .map(|plan| sign(plan_in_a_line(plan), plan_effect_on(plan, node)))),
        Err(ProbeOutcome::Failed { .. }) => Ok(None),
        Err(unknown) => Err(unknown),
    }
}

/// The upgrade that is under way. Without its Jobs, only this process's own observation shows since when.
async fn upgrading(context: &ProbeContext, node: &str, list: &Value) -> Option<TransitionSign> {
    let upgrade = under_way(items(list, "/items"))?;
    let jobs = Ask::HookJobs(text(upgrade, "/metadata/name"));
    let jobs = admin(context, jobs, node, "").await;
    let are_known = jobs.is_ok();
    let jobs = jobs.unwrap_or_default();
    let upgrade = HarvesterUpgrade::read(upgrade, items(&jobs, "/items"));
    let effect = upgrade.effect_on(node);
    Some(sign(
        upgrade.in_a_line(),
        UpgradeEffect {
            since: effect.since.filter(|_| are_known),
            ..effect
        },
    ))
}

fn sign(message: String, effect: UpgradeEffect) -> TransitionSign {
    TransitionSign {
        message,
        since: effect.since,
        scope: if effect.is_on_node {
            TransitionScope::Node
        } else {
            TransitionScope::Cluster
        },
    }
}

/// The storage network: the setting exists, and is configured unless it is empty.
pub(super) async fn storage_network(context: &ProbeContext, node: &str) -> ProbeOutcome {
    let absent = "Setting storage-network does not exist yet";
    match admin(context, Ask::StorageNetwork, node, absent).await {
        Ok(setting) => is_configured(&setting),
        Err(outcome) => outcome,
    }
}

pub(super) async fn admin(
    context: &ProbeContext,
    ask: Ask<'_>,
    node: &str,
    absent: &str,
) -> Result<Value, ProbeOutcome> {
    object(&context.kubernetes, ask, Credential::Admin, node, absent).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checks_that_failed_are_named() {
        let body = b"[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/rbac failed: x\nreadyz check failed";
        let failed = failed_checks(body).unwrap();
        assert_eq!(failed, "etcd, poststarthook/rbac failed");
        assert_eq!(failed_checks(b"oops"), None);
    }
}
