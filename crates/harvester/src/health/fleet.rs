//! Fleet's charts and Bundles, and Rancher's provisioning of its own cluster.

use serde_json::Value;
use windrow_model::redact;
use windrow_plan::readiness::node::ProbeOutcome;
use windrow_plan::readiness::platform::{ChartState, only_modified};

use super::judge_condition;

pub fn provisioned(cluster: &Value) -> ProbeOutcome {
    match judge_condition(cluster, "Provisioned") {
        Some(ProbeOutcome::Passed) if cluster["status"]["ready"] != true => {
            ProbeOutcome::failed("it is Provisioned, and its status is not ready")
        }
        Some(outcome) => outcome,
        None => ProbeOutcome::failed("Rancher has reported no status yet"),
    }
}

pub fn chart_fault(chart: &Value) -> Option<String> {
    let name = chart["metadata"]["name"].as_str().unwrap_or_default();
    match ChartState::of(chart).into() {
        ProbeOutcome::Failed { why, .. } => Some(format!("{name}: {why}")),
        _ => None,
    }
}

/// The faults of Bundles without a ManagedChart. Fleet's column Status is the message of the condition Ready, and is empty if the
/// condition is True (Fleet's definition of Bundle, 0.10 to 0.15).
pub fn bundle_faults(table: &Value) -> Result<Vec<String>, ProbeOutcome> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
                    // Its ManagedChart has a separate check.
                    {"cells": ["mcc-harvester", "0/1", "NotReady(1) [Cluster fleet-local/local]"]},
                ],
            })
        };
        assert_eq!(bundle_faults(&table("")), Ok(Vec::new()));
        assert_eq!(
            bundle_faults(&table("Modified(1) [Cluster fleet-local/local]")),
            Ok(Vec::new())
        );
        let applied = "ErrApplied(1) [Cluster fleet-local/local: no such host]";
        assert_eq!(
            bundle_faults(&table(applied)),
            Ok(vec![format!("local-managed-system-agent: {applied}")])
        );
        assert!(bundle_faults(&json!({"rows": []})).is_err());
    }

    #[test]
    fn a_chart_that_is_only_modified_was_installed() {
        for (message, installed) in [
            (
                "Modified(1) [Cluster fleet-local/local]; deployment.apps harvester modified",
                true,
            ),
            ("NotReady(1) [Cluster fleet-local/local]", false),
            ("NotReady(1) Modified(1) [Cluster fleet-local/local]", false),
            (
                "WaitApplied(1) [Cluster fleet-local/local: Modified(1)]",
                false,
            ),
            ("Modified by hand", false),
            ("", false),
        ] {
            assert_eq!(only_modified(message), installed, "{message}");
        }
    }
}
