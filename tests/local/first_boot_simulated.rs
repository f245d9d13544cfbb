//! Level 3: the simulated Harvester and KubeVirt behave as the real ones in the recorded first boots.
//!
//! `tests/fixtures/first-boot.json` has the state that `tests/kubernetes/first_boot_in_cluster.rs` saw after each step: the served kinds, the
//! platform's objects, KubeVirt's phase, the answer of kube-apiserver and its webhooks to each object, and the files that RKE2 had applied.
//! The differences that stay are in the same file, each with its reason, and `docs/dev/sources/harvester-real-parts.md` lists them.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_plan::rules::RuleSet;
use windrow_simulate::{
    Faults, HappeningKind, Scenario, Setup, SimulatedCluster, SimulatedDirectory, SimulatedNode,
    Supply, with_windrow,
};

use crate::support::first_boot::{
    ACCEPTED, FIRST_BOOTS, FirstBoot, IS_THERE, NOT_SERVED, OBJECTS, RecordedMoment, Recording,
    facts, object_of, object_ref, probes,
};

const CHARTS: &str = "Harvester's CustomResourceDefinitions are installed";
const KINDS: &str = "virt-operator has made KubeVirt's kinds";
const LAST: &str = "the storage network is configured";
/// Each step of a recorded boot, and the step of the simulation after which the same has to be so.
const STEPS: &[(&str, &str)] = &[
    ("kube-apiserver answers", "kube-apiserver answers"),
    ("RKE2's charts and Rancher are there", "Rancher runs"),
    ("chart harvester-crd is installed", CHARTS),
    ("chart harvester is installed", CHARTS),
    ("the pod of Harvester's webhook runs", CHARTS),
    ("virt-operator has made KubeVirt's kinds", KINDS),
    ("virt-api runs", KINDS),
    ("KubeVirt is deployed", "KubeVirt is deployed"),
    (
        "Harvester's webhook is registered",
        "Harvester's webhook answers",
    ),
    ("Harvester has dealt with the storage network", LAST),
];

fn simulated_step(recorded: &str) -> &'static str {
    let step = STEPS.iter().find(|(step, _)| *step == recorded);
    step.unwrap_or_else(|| panic!("{recorded}")).1
}

fn start() -> Timestamp {
    // 2026-01-01T00:00:00Z
    Timestamp::constant(1_767_225_600, 0)
}

fn scenario(boot: &FirstBoot) -> Scenario {
    let preset = Some(boot.storage_network);
    let mut scenario = Scenario::harvester(HarvesterVersion::LATEST, preset, start());
    for (_, object, json) in boot.objects() {
        // The test beside the real parts plays helm-controller like this.
        if let Some(namespace) = json["spec"]["targetNamespace"].as_str() {
            let namespace = ObjectRef::cluster("", "Namespace", namespace);
            let supply = Supply {
                objects: BTreeSet::from([namespace]),
                ..Supply::default()
            };
            scenario.brings.insert(object, supply);
        }
    }
    scenario
}

/// The step of the simulation that this is, if it is one.
fn step_of(what: &HappeningKind) -> Option<&'static str> {
    let text = what.to_string();
    let steps = STEPS.iter().map(|(_, step)| *step);
    steps.into_iter().find(|step| *step == text)
}

/// The cluster as it is at the end of each step, if RKE2 gets the files that it applied in the recorded boot.
fn simulated_states(
    boot: &FirstBoot,
    recorded: &[RecordedMoment],
) -> BTreeMap<&'static str, SimulatedCluster> {
    let texts = boot.files();
    let mut node = SimulatedNode::new(scenario(boot), 1);
    let mut files = SimulatedDirectory::new();
    let mut states = BTreeMap::new();
    let mut current = None;
    let mut seen = 0;
    while let Some(next) = node.next_event_at() {
        let is_over = next > start() + Duration::from_secs(4 * 3600);
        if is_over || current == Some(LAST) && node.is_settled(&files) {
            break;
        }
        let before = node.cluster().clone();
        node.advance(next, &files);
        let steps: Vec<&str> = node.log()[seen..]
            .iter()
            .filter_map(|happening| step_of(&happening.what))
            .collect();
        seen = node.log().len();
        for step in steps {
            if let Some(over) = current.replace(step) {
                states.insert(over, before.clone());
            }
            let moments = recorded.iter();
            let of_step = moments.filter(|moment| simulated_step(&moment.step) == step);
            for name in of_step.flat_map(|moment| &moment.applied) {
                files.write(name.as_str(), texts[name].as_bytes(), next);
            }
        }
    }
    if let Some(last) = current {
        states.insert(last, node.cluster().clone());
    }
    states
}

/// The same that a recorded moment has, a line each.
fn simulated_lines(boot: &FirstBoot, cluster: &SimulatedCluster) -> BTreeSet<String> {
    let objects = OBJECTS.iter().map(|object| object_ref(*object));
    let found = objects.filter_map(|object| Some((object.clone(), cluster.get(&object)?)));
    let found = found.collect();
    let serves = |kind: &GroupKind| cluster.serves(kind).is_some();
    let mut lines = facts(serves, &found);
    let own = boot
        .objects()
        .into_iter()
        .map(|(_, object, json)| (object, json));
    let all = own.chain(probes().into_iter().map(|json| (object_of(&json), json)));
    for (object, json) in all {
        let answer = if !serves(&object.group_kind()) {
            NOT_SERVED.to_owned()
        } else if cluster.get(&object).is_some() {
            IS_THERE.to_owned()
        } else {
            let tried = cluster.try_create(&object, &json);
            tried.err().unwrap_or_else(|| ACCEPTED.to_owned())
        };
        lines.insert(format!("{object}: {answer}"));
    }
    lines
}

fn recorded_lines(moment: &RecordedMoment) -> BTreeSet<String> {
    let tried = moment.tried.iter();
    let tried = tried.map(|(object, answer)| format!("{object}: {answer}"));
    moment.facts.iter().cloned().chain(tried).collect()
}

/// After which step RKE2 applied each file with Windrow.
fn simulated_order(boot: &FirstBoot) -> BTreeSet<String> {
    let mut files = SimulatedDirectory::new();
    for (name, text) in boot.files() {
        files.write(name, text, start());
    }
    let setup = Setup {
        scenario: scenario(boot),
        files,
        changes: Vec::new(),
        settings: Arc::default(),
        rules: RuleSet::shipped().into(),
        joins: Vec::new(),
    };
    let run = with_windrow(&setup, &Faults::NONE, 1);
    assert_eq!(run.untrue, Vec::<String>::new());
    assert_eq!((run.counts.failed, run.counts.repeated), (0, 0));
    let mut step = "";
    let mut lines = BTreeSet::new();
    for happening in &run.log {
        step = step_of(&happening.what).unwrap_or(step);
        if let HappeningKind::Applied { file } = &happening.what {
            lines.insert(format!("{file} is applied after: {step}"));
        }
    }
    lines
}

fn recorded_order(moments: &[RecordedMoment]) -> BTreeSet<String> {
    let lines = moments.iter().flat_map(|moment| {
        let step = simulated_step(&moment.step);
        let files = moment.applied.iter();
        files.map(move |file| format!("{file} is applied after: {step}"))
    });
    lines.collect()
}

fn compare(place: &str, real: &BTreeSet<String>, simulated: &BTreeSet<String>) -> Vec<String> {
    let only_real = real.difference(simulated);
    let only_real = only_real.map(|line| format!("{place}, only real: {line}"));
    let only_simulated = simulated.difference(real);
    let only_simulated = only_simulated.map(|line| format!("{place}, only simulated: {line}"));
    only_real.chain(only_simulated).collect()
}

#[test]
fn the_simulated_harvester_and_kubevirt_do_what_the_real_ones_did_in_a_first_boot() {
    let recording = Recording::load();
    let mut differences = Vec::new();
    for (name, moments) in &recording.boots {
        let boot = FIRST_BOOTS.iter().find(|boot| boot.name == name).unwrap();
        let states = simulated_states(boot, moments);
        for moment in moments {
            let state = &states[simulated_step(&moment.step)];
            let place = format!("{}, {}", boot.name, moment.step);
            let real = recorded_lines(moment);
            differences.extend(compare(&place, &real, &simulated_lines(boot, state)));
        }
        let (real, simulated) = (recorded_order(moments), simulated_order(boot));
        differences.extend(compare(boot.name, &real, &simulated));
    }
    for known in &recording.differences {
        let before = differences.len();
        differences.retain(|line| !line.contains(&known.lines));
        assert!(before > differences.len(), "no longer so: {known:?}");
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn each_difference_between_the_simulation_and_the_real_parts_is_documented() {
    let page =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/dev/sources/harvester-real-parts.md");
    let page = fs::read_to_string(page).unwrap();
    for known in Recording::load().differences {
        assert!(page.contains(&known.why), "{}", known.why);
    }
}
