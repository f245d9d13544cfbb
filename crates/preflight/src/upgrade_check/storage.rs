//! The checks of Harvester's webhook for volumes.

use serde_json::Value;
use windrow_harvester::objects::{ObjectKind, text};
use windrow_harvester::versions::{Fact, Holds};

use super::preflight::{or_absent, seen_in};
use super::{CheckFacts, CheckResult, Cluster};

/// Fewer nodes cannot have three replicas, and a volume is degraded without.
const NODES_FOR_WHOLE_VOLUMES: usize = 3;

pub(super) fn degraded(cluster: &Cluster<'_>) -> CheckResult {
    if cluster.nodes()?.len() < NODES_FOR_WHOLE_VOLUMES {
        return Ok(CheckFacts::default());
    }
    let volumes = cluster.all(ObjectKind::LONGHORN_VOLUME)?.iter();
    let degraded = volumes.filter(|volume| text(volume, "/status/robustness") == "degraded");
    Ok(degraded
        .map(|volume| seen_in("Volume", volume, "status.robustness", "degraded"))
        .collect())
}

pub(super) fn single_replicas(cluster: &Cluster<'_>) -> CheckResult {
    let mut facts = CheckFacts::default();
    if cluster.nodes()?.len() == 1 {
        return Ok(facts);
    }
    let detached_too = cluster.holds(Fact::PreflightDetachedReplicas);
    for volume in cluster.all(ObjectKind::LONGHORN_VOLUME)? {
        if volume
            .pointer("/spec/numberOfReplicas")
            .and_then(Value::as_i64)
            != Some(1)
        {
            continue;
        }
        let state = text(volume, "/status/state");
        let active = matches!(state, "creating" | "attached" | "attaching");
        let evidence = seen_in(
            "Volume",
            volume,
            "spec.numberOfReplicas",
            &format!("1 (status.state {})", or_absent(state)),
        );
        match detached_too {
            _ if active => facts.problems.push(evidence),
            Holds::Yes => facts.problems.push(evidence),
            Holds::No => {}
            Holds::Unknown { like, .. } => facts.unknown.push(format!(
                "{evidence}: whether a detached one counts is known of v{like} only"
            )),
        }
    }
    Ok(facts)
}
