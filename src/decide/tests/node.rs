//! A probed node: staging and probes make one status.

use super::*;
use crate::readiness::node::{NodeEvent, ProbeOutcome, Role, specs};
use crate::rules::Platform;

/// Probes the node in a role, and lets every probe pass.
fn healthy(node: &mut Node, role: Role) {
    let probes = specs(role, Some(Platform::Harvester));
    node.observe(ClusterEvent::Node(NodeEvent::Probing {
        role,
        boot: "boot-1".to_owned(),
        specs: probes.clone(),
    }));
    for probe in probes {
        node.observe(ClusterEvent::Node(NodeEvent::Probed(
            probe.id,
            ProbeOutcome::Passed,
        )));
    }
}

#[test]
fn a_probed_node_is_ready_when_its_manifests_and_its_probes_are_and_not_before() {
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    healthy(&mut node, Role::FirstServer);
    assert_eq!(node.tick().status.readiness, Readiness::Unknown);
    node.api();
    let status = node.tick().status;
    assert_eq!(
        (status.readiness, status.phase),
        (Readiness::SettingUp, Phase::Manifests)
    );
    node.applied("a.yaml");
    let status = node.tick().status;
    assert_eq!(
        (status.readiness, status.reason.code, status.role),
        (Readiness::Ready, Code::NodeReady, Role::FirstServer)
    );
    assert!(status.staging.settled);
    assert_eq!(
        status.phases.last().map(|phase| phase.name),
        Some(Phase::Ready)
    );
    assert!(!status.probes.is_empty());
    assert!(status.summary.chars().count() <= 65, "{}", status.summary);
}

#[test]
fn an_agent_needs_no_api_server_of_its_own_to_be_ready() {
    let mut node = Node::new(&[]);
    healthy(&mut node, Role::Agent);
    assert_eq!(node.tick().status.readiness, Readiness::Ready);
}

#[test]
fn that_a_node_was_installed_is_remembered_in_the_ledger_and_only_told_once() {
    let mut node = Node::new(&[]);
    node.api();
    healthy(&mut node, Role::FirstServer);
    let decision = node.tick();
    assert!(decision.ledger.node.installed);
    assert_eq!(decision.ledger.node.ready_boot, "boot-1");
    assert_eq!(node.ledger_on_disk.node, decision.ledger.node);
    let again = node.tick();
    assert!(again.actions.is_empty(), "{:?}", again.actions);
    assert!(
        again
            .status
            .probes
            .iter()
            .all(|probe| probe.id.as_str() != "managed-chart"),
        "day 0 is over"
    );
}

#[test]
fn a_node_whose_probes_are_switched_off_is_not_judged() {
    let mut node = Node::new(&[]);
    node.api();
    healthy(&mut node, Role::FirstServer);
    assert_eq!(node.tick().status.readiness, Readiness::Ready);
    node.observe(ClusterEvent::Node(NodeEvent::NotProbing));
    let status = node.tick().status;
    assert_eq!(
        (status.readiness, status.reason.code),
        (Readiness::Unknown, Code::NotProbed)
    );
    assert!(status.phases.is_empty() && status.probes.is_empty());
}
