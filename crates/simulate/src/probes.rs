//! The results of probes on a simulated node, for those that depend on the simulated cluster only. Host, units and network are
//! not simulated, so they have no results.

use std::time::Duration;

use serde_json::Value;
use windrow_decide::NodeRole;
use windrow_harvester::objects::is_true;
use windrow_model::manifest::ObjectRef;
use windrow_plan::readiness::node::{ProbeOutcome, ProbeSpec, specs};
use windrow_plan::rules::Platform;

use super::literals;
use super::node::SimulatedNode;
use super::storage_network;

/// The probes of a Harvester node that have an answer here.
const ANSWERED: [&str; 6] = [
    "apiserver",
    "rancher",
    "harvester",
    "webhook",
    "settings",
    "storage-network",
];

/// Rancher writes it when it has started.
static RANCHER: ObjectRef =
    literals::object("management.cattle.io", "Setting", None, "server-version");
static HARVESTER: ObjectRef =
    literals::object("apps", "Deployment", Some("harvester-system"), "harvester");
static WEBHOOK: ObjectRef = literals::object(
    "",
    "Endpoints",
    Some("harvester-system"),
    "harvester-webhook",
);
/// Harvester's server writes it when it has started.
static SETTINGS: ObjectRef = literals::object("harvesterhci.io", "Setting", None, "server-version");

/// The probes of the server that founds the cluster. One answer is enough, and counts for `period`: the simulation makes no
/// errors.
pub fn simulated_probes(platform: Platform, period: Duration) -> Vec<ProbeSpec> {
    answered(platform)
        .map(|spec| ProbeSpec {
            period: period.max(spec.period),
            rise: 1,
            fall: 1,
            ..spec
        })
        .collect()
}

/// The same, with the real number of answers, each probed once in `period`.
pub(super) fn counted_probes(platform: Platform, period: Duration) -> Vec<ProbeSpec> {
    answered(platform)
        .map(|spec| ProbeSpec { period, ..spec })
        .collect()
}

fn answered(platform: Platform) -> impl Iterator<Item = ProbeSpec> {
    let all = specs(NodeRole::FirstServer, Some(platform)).into_iter();
    all.filter(|spec| ANSWERED.contains(&spec.id.as_str()))
}

impl SimulatedNode {
    pub fn answer_probe(&self, name: &str) -> ProbeOutcome {
        let cluster = self.cluster();
        let unknown = |asked: &str| ProbeOutcome::unknown(asked, "it is not simulated");
        let found = |object: &ObjectRef, lacks: &str| match cluster.has(object) {
            true => ProbeOutcome::Passed,
            false => ProbeOutcome::failed(lacks),
        };
        match name {
            "apiserver" => match cluster.is_up_on(0) {
                true => ProbeOutcome::Passed,
                false => ProbeOutcome::failed("it does not answer yet"),
            },
            _ if !cluster.is_up_on(0) => {
                ProbeOutcome::unknown("kube-apiserver", "it does not answer")
            }
            "rancher" => found(&RANCHER, "it does not run yet"),
            "harvester" => found(&HARVESTER, "its pod has not started yet"),
            "webhook" => found(&WEBHOOK, "Harvester's webhook has no address yet"),
            "settings" => found(&SETTINGS, "Harvester has not made its settings yet"),
            "storage-network" => match cluster.get(&storage_network::SETTING) {
                None => ProbeOutcome::failed("the setting does not exist yet"),
                Some(setting) if is_configured(&setting) => ProbeOutcome::Passed,
                Some(_) => ProbeOutcome::failed("Harvester has not configured it yet"),
            },
            other => unknown(other),
        }
    }
}

/// Has the Setting no value, or is it in effect?
fn is_configured(setting: &Value) -> bool {
    let is_empty = setting["value"].as_str().unwrap_or_default().is_empty();
    is_empty || is_true(setting, "configured")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windrow_plan::readiness::node::ProbeSeverity;

    use super::*;
    use crate::{Setup, SimulatedDirectory};

    #[test]
    fn a_node_that_came_up_passes_every_probe_that_is_simulated_and_none_before() {
        let start = Timestamp::constant(1_767_225_600, 0);
        let setup = Setup::first_vm(start);
        let mut node = SimulatedNode::new(setup.scenario.clone(), 1);
        let probes = simulated_probes(Platform::Harvester, Duration::ZERO);
        assert_eq!(probes.len(), ANSWERED.len());
        let required = |spec: &ProbeSpec| spec.severity == ProbeSeverity::Required;
        assert!(probes.iter().all(required));
        let passes = |node: &SimulatedNode| {
            let passed = probes
                .iter()
                .map(|spec| node.answer_probe(spec.id.as_str()));
            passed.filter(|one| *one == ProbeOutcome::Passed).count()
        };
        assert_eq!(passes(&node), 0);
        let empty = SimulatedDirectory::new();
        while let Some(at) = node.next_event_at().filter(|_| !node.is_settled(&empty)) {
            node.advance(at, &empty);
        }
        assert_eq!(passes(&node), ANSWERED.len());
        let unknown = node.answer_probe("memory");
        assert!(
            matches!(unknown, ProbeOutcome::Unknown { .. }),
            "{unknown:?}"
        );
    }

    #[test]
    fn a_node_of_rke2_alone_is_probed_for_its_api_alone() {
        let probes = simulated_probes(Platform::Rke2, Duration::from_secs(99));
        let names: Vec<_> = probes
            .iter()
            .map(|spec| (spec.id.as_str(), spec.period.as_secs()))
            .collect();
        assert_eq!(names, [("apiserver", 99)]);
    }
}
