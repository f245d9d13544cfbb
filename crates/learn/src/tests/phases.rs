//! How long phases take on nodes of one sort.

use std::collections::BTreeSet;

use windrow_plan::readiness::node::NodeRole;
use windrow_replay::Flights;

use super::flight_lines::BootScript;
use super::{loaded, rows};
use crate::{ObservedBoot, PhaseEntry, Summary, observe};

#[test]
fn phases_of_several_classes_of_hardware_are_also_known_of_any() {
    let mut scripts: Vec<BootScript> = (0..4).map(BootScript::new).collect();
    scripts[3].api = 600;
    let slow = scripts[3].lines().replace("16cpu-64g-nvme", "4cpu-8g-hdd");
    let mut boots = rows(&scripts[..3]);
    let api = |boots: &[ObservedBoot]| {
        let summary = Summary::of_boots(&boots.iter().cloned().collect());
        let phases = summary
            .phases
            .into_iter()
            .filter(|one| one.phase.as_str() == "api");
        let found: Vec<(Option<String>, u32)> =
            phases.map(|one| (one.hardware, one.seen.boots)).collect();
        found
    };
    let fast = || Some("16cpu-64g-nvme".to_owned());
    assert_eq!(api(&boots), [(fast(), 3)]);
    boots.extend(observe(&Flights::read(&slow).unwrap()).boots);
    assert_eq!(
        api(&boots),
        [(None, 4), (fast(), 3), (Some("4cpu-8g-hdd".to_owned()), 1)]
    );
}

#[test]
fn a_first_server_says_nothing_of_how_long_a_phase_takes_on_a_node_that_joined() {
    let mut scripts: Vec<BootScript> = (0..45).map(BootScript::new).collect();
    scripts[0].api = 600;
    let mut boots = rows(&scripts);
    for boot in &mut boots[1..] {
        boot.role = NodeRole::JoinedServer;
    }
    let summary = Summary::of_boots(&boots.into_iter().collect());
    let of = |role: NodeRole| {
        let mut rows = summary.phases.iter();
        let is_it = |row: &&PhaseEntry| row.phase.as_str() == "api" && row.role == Some(role);
        let row = rows.find(is_it).unwrap();
        (row.seen.boots, row.times.half.as_secs())
    };
    assert_eq!(of(NodeRole::FirstServer), (1, 600));
    assert_eq!(of(NodeRole::JoinedServer), (44, 60));
    let text = summary.text();
    let rules = loaded(&text);
    let roles: BTreeSet<_> = rules
        .knowledge
        .phases()
        .iter()
        .map(|one| one.role)
        .collect();
    let expected = [NodeRole::FirstServer, NodeRole::JoinedServer].map(Some);
    assert_eq!(roles, BTreeSet::from(expected), "{text}");
}
