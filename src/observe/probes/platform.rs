//! The parts of Harvester's platform: KubeVirt, Fleet's charts and Bundles, Rancher's provisioning of its own cluster, and
//! system-upgrade-controller. All alike from v1.4.0 to v1.8.2; where a kind is not served, nothing is known.

use serde_json::Value;
use windrow_model::redact;
use windrow_plan::readiness::node::ProbeOutcome;

use super::cluster::{admin, condition, condition_of, only_modified};
use super::context::ProbeContext;
use super::kubernetes::{Ask, items, not_served};

/// More that are in trouble are counted, not named.
const NAMED: usize = 3;

fn outcome(judged: Result<ProbeOutcome, ProbeOutcome>) -> ProbeOutcome {
    judged.unwrap_or_else(|unknown| unknown)
}

/// KubeVirt, as its operator reports it.
pub(super) async fn kubevirt(context: &ProbeContext, node: &str) -> ProbeOutcome {
    let found = items(&context.kubernetes, Ask::KubeVirts, node).await;
    outcome(found.map(|found| match found.first() {
        Some(kubevirt) => kubevirt_works(kubevirt),
        None => ProbeOutcome::failed("there is no KubeVirt in harvester-system yet"),
    }))
}

fn kubevirt_works(kubevirt: &Value) -> ProbeOutcome {
    let status = &kubevirt["status"];
    let text = |key: &str| status[key].as_str().unwrap_or_default();
    if text("phase") != "Deployed" {
        return ProbeOutcome::failed(match text("phase") {
            "" => "virt-operator has reported no status yet".to_owned(),
            phase => format!("its phase is {}", redact::quoted(phase)),
        });
    }
    for (kind, good) in [
        ("Available", "True"),
        ("Degraded", "False"),
        ("Progressing", "False"),
    ] {
        let Some(found) = condition_of(kubevirt, kind) else {
            return ProbeOutcome::unknown(format!("KubeVirt's {kind}"), "it has no such condition");
        };
        if found["status"] != good {
            let said = found["message"].as_str().unwrap_or_default();
            return ProbeOutcome::failed(format!("it is not {kind}={good}: {said}"));
        }
    }
    let (runs, wanted) = (
        text("observedKubeVirtVersion"),
        text("targetKubeVirtVersion"),
    );
    match runs == wanted {
        true => ProbeOutcome::Passed,
        false => ProbeOutcome::failed(format!(
            "{} runs, {} is wanted",
            redact::quoted(runs),
            redact::quoted(wanted)
        )),
    }
}

/// Has Rancher provisioned the cluster that it runs in?
pub(super) async fn local_cluster(context: &ProbeContext, node: &str) -> ProbeOutcome {
    let found = items(&context.kubernetes, Ask::LocalCluster, node).await;
    outcome(found.map(|found| match found.first() {
        Some(cluster) => provisioned(cluster),
        None => ProbeOutcome::failed("there is no Cluster fleet-local/local yet"),
    }))
}

fn provisioned(cluster: &Value) -> ProbeOutcome {
    match condition(cluster, "Provisioned") {
        Some(ProbeOutcome::Passed) if cluster["status"]["ready"] != true => {
            ProbeOutcome::failed("it is Provisioned, and its status is not ready")
        }
        Some(outcome) => outcome,
        None => ProbeOutcome::failed("Rancher has reported no status yet"),
    }
}

/// The ManagedCharts of the cluster, and the Bundles that are not theirs. What was only modified by hand is deployed.
pub(super) async fn charts(context: &ProbeContext, node: &str) -> ProbeOutcome {
    outcome(charts_of(context, node).await)
}

async fn charts_of(context: &ProbeContext, node: &str) -> Result<ProbeOutcome, ProbeOutcome> {
    let charts = items(&context.kubernetes, Ask::ManagedCharts, node).await?;
    let bundles = match admin(context, Ask::Bundles, node, "").await {
        Ok(table) => other_bundles(&table)?,
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

fn chart_fault(chart: &Value) -> Option<String> {
    let name = chart["metadata"]["name"].as_str().unwrap_or_default();
    match condition(chart, "Ready") {
        Some(ProbeOutcome::Failed { why, .. }) if !only_modified(&why) => {
            Some(format!("{name}: {why}"))
        }
        Some(_) => None,
        None => Some(format!("{name}: Fleet has reported no status yet")),
    }
}

/// The faults of Bundles without a ManagedChart. Fleet's column Status is the message of the condition Ready, which is
/// empty where that is True (Fleet's definition of Bundle, 0.10 to 0.15).
fn other_bundles(table: &Value) -> Result<Vec<String>, ProbeOutcome> {
    let columns = table["columnDefinitions"].as_array();
    let column = |name: &str| {
        let mut columns = columns?.iter();
        columns.position(|column| column["name"] == name)
    };
    let (Some(name), Some(status)) = (column("Name"), column("Status")) else {
        let why = "the table has no columns Name and Status";
        return Err(ProbeOutcome::unknown("the Bundles of fleet-local", why));
    };
    let rows = table["rows"].as_array().into_iter().flatten();
    Ok(rows
        .filter_map(|row| {
            let cell = |at: usize| row["cells"][at].as_str().unwrap_or_default();
            let (name, said) = (cell(name), redact::message(cell(status)));
            let fine = name.starts_with("mcc-") || said.is_empty() || only_modified(&said);
            (!fine).then(|| format!("{name}: {said}"))
        })
        .collect())
}

/// system-upgrade-controller, and the Plan with which rancherd ends.
pub(super) async fn upgrade_controller(context: &ProbeContext, node: &str) -> ProbeOutcome {
    let absent = "system-upgrade-controller is not installed yet";
    let available = match admin(context, Ask::UpgradeController, node, absent).await {
        Ok(deployment) => condition(&deployment, "Available")
            .unwrap_or_else(|| ProbeOutcome::failed("its Deployment has no status yet")),
        Err(outcome) => outcome,
    };
    if available != ProbeOutcome::Passed {
        return available;
    }
    let plans = items(&context.kubernetes, Ask::AgentUpgrader, node).await;
    outcome(plans.map(|plans| match plans.first() {
        Some(plan) => condition(plan, "LatestResolved").unwrap_or_else(|| {
            ProbeOutcome::failed("it has not looked at Plan system-agent-upgrader yet")
        }),
        None => ProbeOutcome::failed("there is no Plan system-agent-upgrader yet"),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kubevirt(phase: &str, progressing: &str, target: &str) -> ProbeOutcome {
        kubevirt_works(&json!({"status": {
            "phase": phase, "observedKubeVirtVersion": "1.5.2", "targetKubeVirtVersion": target,
            "conditions": [
                {"type": "Available", "status": "True"},
                {"type": "Progressing", "status": progressing, "message": "Deploying version 1.6.0"},
                {"type": "Degraded", "status": "False"},
            ],
        }}))
    }

    #[test]
    fn kubevirt_works_when_it_is_deployed_and_on_its_way_to_nothing() {
        assert_eq!(kubevirt("Deployed", "False", "1.5.2"), ProbeOutcome::Passed);
        assert_eq!(
            kubevirt("Deploying", "True", "1.5.2"),
            ProbeOutcome::failed("its phase is `Deploying`")
        );
        assert_eq!(
            kubevirt("Deployed", "True", "1.6.0"),
            ProbeOutcome::failed("it is not Progressing=False: Deploying version 1.6.0")
        );
        assert_eq!(
            kubevirt("Deployed", "False", "1.6.0"),
            ProbeOutcome::failed("`1.5.2` runs, `1.6.0` is wanted")
        );
        let without = kubevirt_works(&json!({"status": {"phase": "Deployed"}}));
        assert!(matches!(without, ProbeOutcome::Unknown { .. }));
    }

    #[test]
    fn the_cluster_is_provisioned_when_both_its_condition_and_its_status_say_so() {
        let cluster = |status: &str, ready: bool| {
            provisioned(&json!({"status": {"ready": ready, "conditions": [
                {"type": "Provisioned", "status": status, "message": "waiting for probes: etcd"},
            ]}}))
        };
        assert_eq!(cluster("True", true), ProbeOutcome::Passed);
        assert_eq!(
            cluster("Unknown", true),
            ProbeOutcome::failed("waiting for probes: etcd")
        );
        assert!(matches!(
            cluster("True", false),
            ProbeOutcome::Failed { .. }
        ));
    }

    #[test]
    fn bundles_are_judged_by_fleets_own_column() {
        let table = |status: &str| {
            json!({
                "columnDefinitions": [{"name": "Name"}, {"name": "BundleDeployments-Ready"}, {"name": "Status"}],
                "rows": [
                    {"cells": ["fleet-agent-local", "1/1", ""]},
                    {"cells": ["local-managed-system-agent", "0/1", status]},
                    // Its ManagedChart is asked itself.
                    {"cells": ["mcc-harvester", "0/1", "NotReady(1) [Cluster fleet-local/local]"]},
                ],
            })
        };
        assert_eq!(other_bundles(&table("")), Ok(Vec::new()));
        assert_eq!(
            other_bundles(&table("Modified(1) [Cluster fleet-local/local]")),
            Ok(Vec::new())
        );
        let applied = "ErrApplied(1) [Cluster fleet-local/local: no such host]";
        assert_eq!(
            other_bundles(&table(applied)),
            Ok(vec![format!("local-managed-system-agent: {applied}")])
        );
        assert!(other_bundles(&json!({"rows": []})).is_err());
    }
}
