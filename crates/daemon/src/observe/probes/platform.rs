//! The parts of Harvester's platform: KubeVirt, Fleet's charts and Bundles, Rancher's provisioning of the local
//! cluster, and system-upgrade-controller. All alike from v1.4.0 to v1.8.2; if a kind is not served, its state is
//! unknown.

use windrow_harvester::health::{bundle_faults, chart_fault, judge_condition, provisioned};
use windrow_plan::readiness::node::ProbeOutcome;
use windrow_plan::readiness::platform::KubeVirtState;

use super::cluster::admin;
use super::context::ProbeContext;
use super::kubernetes::{Ask, items, not_served};

/// More that are in trouble are counted, not named.
const NAMED: usize = 3;

fn outcome(judged: Result<ProbeOutcome, ProbeOutcome>) -> ProbeOutcome {
    judged.unwrap_or_else(|unknown| unknown)
}

pub(super) async fn kubevirt(context: &ProbeContext, node: &str) -> ProbeOutcome {
    let found = items(&context.kubernetes, Ask::KubeVirts, node).await;
    outcome(found.map(|found| match found.first() {
        Some(kubevirt) => KubeVirtState::of(kubevirt).into(),
        None => ProbeOutcome::failed("there is no KubeVirt in harvester-system yet"),
    }))
}

pub(super) async fn local_cluster(context: &ProbeContext, node: &str) -> ProbeOutcome {
    let found = items(&context.kubernetes, Ask::LocalCluster, node).await;
    outcome(found.map(|found| match found.first() {
        Some(cluster) => provisioned(cluster),
        None => ProbeOutcome::failed("there is no Cluster fleet-local/local yet"),
    }))
}

/// The ManagedCharts of the cluster, and the Bundles that are not theirs. A chart that was only modified manually is
/// deployed.
pub(super) async fn charts(context: &ProbeContext, node: &str) -> ProbeOutcome {
    outcome(charts_of(context, node).await)
}

async fn charts_of(context: &ProbeContext, node: &str) -> Result<ProbeOutcome, ProbeOutcome> {
    let charts = items(&context.kubernetes, Ask::ManagedCharts, node).await?;
    let bundles = match admin(context, Ask::Bundles, node, "").await {
        Ok(table) => bundle_faults(&table)?,
        Err(ProbeOutcome::Failed { .. }) => return Err(not_served(Ask::Bundles, node)),
        Err(unknown) => return Err(unknown),
    };
    let mut wrong: Vec<String> = charts
        .iter()
        .filter_map(chart_fault)
        .chain(bundles)
        .collect();
    let more = wrong.len().saturating_sub(NAMED);
    wrong.truncate(NAMED);
    Ok(match (wrong.is_empty(), more) {
        (true, _) => ProbeOutcome::Passed,
        (false, 0) => ProbeOutcome::failed(wrong.join("; ")),
        (false, more) => ProbeOutcome::failed(format!("{}; and {more} more", wrong.join("; "))),
    })
}

/// system-upgrade-controller, and the Plan that rancherd creates at its end.
pub(super) async fn upgrade_controller(context: &ProbeContext, node: &str) -> ProbeOutcome {
    let absent = "system-upgrade-controller is not installed yet";
    let available = match admin(context, Ask::UpgradeController, node, absent).await {
        Ok(deployment) => judge_condition(&deployment, "Available")
            .unwrap_or_else(|| ProbeOutcome::failed("its Deployment has no status yet")),
        Err(outcome) => outcome,
    };
    if available != ProbeOutcome::Passed {
        return available;
    }
    let plans = items(&context.kubernetes, Ask::AgentUpgrader, node).await;
    outcome(plans.map(|plans| match plans.first() {
        Some(plan) => judge_condition(plan, "LatestResolved").unwrap_or_else(|| {
            ProbeOutcome::failed("it has not looked at Plan system-agent-upgrader yet")
        }),
        None => ProbeOutcome::failed("there is no Plan system-agent-upgrader yet"),
    }))
}
