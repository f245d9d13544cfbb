//! Whole bootstraps of a simulated node, with Windrow and without it, and with every possible fault: level 2 of
//! `docs/dev/testing.md`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::{FileContent, GroupKind};
use windrow_plan::rules::RuleSet;
use windrow_simulate::{
    Arrival, BootstrapVerdict, Faults, Happening, HappeningKind, JoinRole, JoiningNode,
    PreparedSetup, Run, Scenario, Setup, SimulatedDirectory, with_windrow, without_windrow,
};

use crate::scenarios::{self, Drawn};
use crate::seeds::{for_all_seeds, judge, judge_oracle, try_seed};

fn start() -> Timestamp {
    // 2026-01-01T00:00:00Z
    Timestamp::constant(1_767_225_600, 0)
}

/// An RKE2 node with these files and the rules that Windrow ships.
pub(crate) fn rke2(files: &[(&str, &str)]) -> Setup {
    let mut directory = SimulatedDirectory::new();
    for (path, text) in files {
        directory.write(*path, *text, start());
    }
    Setup {
        scenario: Scenario::rke2(start()),
        files: directory,
        changes: Vec::new(),
        settings: Arc::default(),
        rules: RuleSet::shipped().into(),
        joins: Vec::new(),
    }
}

pub(crate) fn config_maps(names: [&str; 3]) -> String {
    names
        .map(|name| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n"))
        .join("---\n")
}

pub(crate) fn custom(kind: &str, name: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: {kind}\nmetadata:\n  name: {name}\n")
}

pub(crate) fn definition(kind: &str) -> String {
    let lower = kind.to_lowercase();
    format!(
        "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: {lower}s.example.com
spec:
  group: example.com
  scope: Namespaced
  names:
    kind: {kind}
    plural: {lower}s
  versions:
  - name: v1
    served: true
    storage: true
"
    )
}

/// Eleven files: one needs a kind that a later file defines, three need kinds that do not exist yet.
fn storm() -> Setup {
    let plain: Vec<(String, String)> = (1..=6)
        .map(|number| {
            let names = ["a", "b", "c"].map(|name| format!("{name}{number}"));
            let names = [names[0].as_str(), names[1].as_str(), names[2].as_str()];
            (format!("plain-{number}.yaml"), config_maps(names))
        })
        .collect();
    let mut files = plain;
    files.push(("bowl.yaml".to_owned(), custom("Pear", "bowl")));
    files.push(("crd.yaml".to_owned(), definition("Pear")));
    for kind in ["Alpha", "Beta", "Gamma"] {
        files.push((
            format!("late-{}.yaml", kind.to_lowercase()),
            custom(kind, "late"),
        ));
    }
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    assert_eq!(files.len(), 11);
    rke2(&files)
}

fn when(run: &Run, test: impl Fn(&HappeningKind) -> bool) -> Option<Timestamp> {
    run.log.iter().find(|one| test(&one.what)).map(|one| one.at)
}

pub(crate) fn position(run: &Run, test: impl Fn(&HappeningKind) -> bool) -> Option<usize> {
    run.log.iter().position(|one| test(&one.what))
}

fn applied(file: &str) -> impl Fn(&HappeningKind) -> bool + '_ {
    move |what| matches!(what, HappeningKind::Applied { file: one } if one == file)
}

#[test]
fn without_windrow_three_files_that_wait_make_every_file_repeat_without_end() {
    let mut setup = storm();
    // The three kinds never come: the first 110 seconds show the storm.
    setup.scenario.arrivals.clear();
    let mut node = windrow_simulate::SimulatedNode::new(setup.scenario.clone(), 1);
    let begun = loop {
        let next = node.next_event_at().unwrap();
        node.advance(next, &setup.files);
        if node.counts().passes == 1 {
            break next;
        }
    };
    node.advance(begun + Duration::from_secs(108), &setup.files);
    let counts = node.counts();
    assert_eq!((counts.applies, counts.failed), (77, 22), "{counts:?}");
    assert!(node.deploy().forces());
}

#[test]
fn with_windrow_nothing_fails_and_nothing_is_applied_twice() {
    let run = with_windrow(&storm(), &Faults::NONE, 1);
    assert_eq!((run.counts.applies, run.counts.failed), (8, 0), "{run:#?}");
    assert_eq!(run.counts.repeated, 0);
    let held: Vec<_> = run.status.as_ref().unwrap().staging.held.iter().collect();
    assert_eq!(held.len(), 3, "{held:#?}");

    let mut setup = storm();
    setup.scenario.arrivals.push(Arrival {
        after: Duration::from_secs(300),
        kinds: ["Alpha", "Beta", "Gamma"]
            .map(|kind| (GroupKind::new("example.com", kind), true))
            .to_vec(),
        ..Arrival::default()
    });
    let run = with_windrow(&setup, &Faults::NONE, 1);
    assert_eq!((run.counts.applies, run.counts.failed), (11, 0));
    assert_eq!(run.counts.repeated, 0);
    assert_eq!(run.outcome.verdict, BootstrapVerdict::Complete);
}

/// Rook's and MetalLB's published manifests in a directory: `cluster.yaml` comes before the definitions that it needs.
fn rook_like() -> Setup {
    let cluster = custom("CephCluster", "rook-ceph");
    let common = config_maps(["role", "binding", "account"]);
    let crds = definition("CephCluster");
    let csi = format!(
        "{}---\n{}",
        definition("Driver"),
        config_maps(["csi-a", "csi-b", "csi-c"])
    );
    let metallb = format!(
        "{}---\n{}---\n{}---\n{}",
        definition("AddressPool"),
        config_maps(["speaker", "controller", "webhook"]),
        config_maps(["excludel2", "memberlist", "pool"]),
        config_maps(["role-a", "role-b", "role-c"])
    );
    let operator = custom("Driver", "rbd");
    rke2(&[
        ("cluster.yaml", &cluster),
        ("common.yaml", &common),
        ("crds.yaml", &crds),
        ("csi-operator.yaml", &csi),
        ("metallb-native.yaml", &metallb),
        ("operator.yaml", &operator),
    ])
}

#[test]
fn an_object_that_sorts_before_its_definition_costs_a_second_round_of_every_file() {
    let setup = rook_like();
    // Among the seeds in which the operator's own definition is discovered within the pass.
    let run = (1..50)
        .map(|seed| without_windrow(&setup, seed))
        .find(|run| run.counts.failed == 1)
        .unwrap();
    assert_eq!((run.counts.applies, run.counts.repeated), (12, 5));
    assert_eq!(run.outcome.verdict, BootstrapVerdict::Complete);

    for seed in 1..50 {
        let run = with_windrow(&setup, &Faults::NONE, seed);
        assert_eq!(
            (run.counts.applies, run.counts.failed),
            (6, 0),
            "seed {seed}"
        );
        assert_eq!(run.outcome.verdict, BootstrapVerdict::Complete);
        let crds = position(&run, applied("crds.yaml"));
        assert!(crds < position(&run, applied("cluster.yaml")));
    }
}

#[test]
fn the_first_machine_deadlocks_an_old_harvester_without_a_preset_and_windrow_keeps_it_from_that() {
    let mut setup = Setup::first_vm(start());
    let version = HarvesterVersion::new(1, 5, 0);
    setup.scenario = Scenario::harvester(version, None, start());
    for seed in 0..20 {
        let run = without_windrow(&setup, seed);
        let BootstrapVerdict::Deadlocked { proof } = &run.outcome.verdict else {
            panic!("seed {seed}: {:?}", run.outcome);
        };
        assert!(
            proof[0].contains("orchard/registry is not Stopped"),
            "{proof:?}"
        );
        let run = with_windrow(&setup, &Faults::NONE, seed);
        assert_eq!(
            run.outcome.verdict,
            BootstrapVerdict::Complete,
            "seed {seed}"
        );
    }
}

#[test]
fn the_first_machine_may_keep_a_preset_storage_network_waiting_and_comes_last_with_windrow() {
    let setup = Setup::first_vm(start());
    assert_eq!(setup.files.manifests().count(), 5);
    let mut waited = 0;
    for seed in 0..20 {
        let run = without_windrow(&setup, seed);
        match &run.outcome.verdict {
            BootstrapVerdict::Complete => {}
            BootstrapVerdict::Unconfigured { because } => {
                waited += 1;
                let disk = "for all volumes detached: pvc-orchard-registry-system";
                assert!(because[0].ends_with(disk), "{because:?}");
            }
            other => panic!("seed {seed}: {other:?}"),
        }

        let run = with_windrow(&setup, &Faults::NONE, seed);
        assert_eq!(
            run.outcome.verdict,
            BootstrapVerdict::Complete,
            "seed {seed}: {run:#?}"
        );
        assert_eq!(run.counts.failed, 0, "seed {seed}");
        assert_eq!(run.outcome.unapplied, [""; 0]);
        assert!(
            run.outcome
                .machines
                .values()
                .all(|state| state == "Running")
        );
        let machine = position(&run, applied("00-registry.yaml"));
        let configured = position(
            &run,
            |what| matches!(what, HappeningKind::Platform { step } if step.contains("storage network is configured")),
        );
        assert!(
            configured.is_some() && configured < machine,
            "seed {seed}:\n{}",
            timeline(&run)
        );
        let applies = |what: &HappeningKind| matches!(what, HappeningKind::Applied { .. });
        assert_eq!(run.log.iter().rposition(|one| applies(&one.what)), machine);
    }
    assert!(waited > 0, "the storage network always came first");
}

#[test]
fn the_machine_waits_on_every_version_of_harvester() {
    for version in [
        HarvesterVersion::new(1, 5, 0),
        HarvesterVersion::new(1, 5, 1),
    ] {
        for preset in [None, Some("{\"vlan\":1}")] {
            let mut setup = Setup::first_vm(start());
            setup.scenario = Scenario::harvester(version, preset, start());
            let run = with_windrow(&setup, &Faults::NONE, 9);
            assert_eq!(
                run.outcome.verdict,
                BootstrapVerdict::Complete,
                "{version} {preset:?}"
            );
        }
    }
}

#[test]
fn a_manifest_that_appears_later_is_staged_as_well() {
    let mut setup = rke2(&[("crd.yaml", &definition("Pear"))]);
    setup.changes.push(windrow_simulate::DirectoryChange {
        after: Duration::from_secs(90),
        path: "bowl.yaml".to_owned(),
        content: Some(FileContent::Bytes(custom("Plum", "bowl").into_bytes())),
        ..Default::default()
    });
    setup.changes.push(windrow_simulate::DirectoryChange {
        after: Duration::from_secs(400),
        path: "plum.yaml".to_owned(),
        content: Some(FileContent::Bytes(definition("Plum").into_bytes())),
        ..Default::default()
    });
    let run = with_windrow(&setup, &Faults::NONE, 3);
    assert_eq!(run.outcome.verdict, BootstrapVerdict::Complete);
    assert_eq!((run.counts.applies, run.counts.failed), (3, 0));
    assert!(when(&run, applied("plum.yaml")) < when(&run, applied("bowl.yaml")));
}

#[test]
fn a_held_file_that_is_taken_away_takes_its_marker_along() {
    let mut setup = rke2(&[("bowl.yaml", &custom("Pear", "bowl"))]);
    setup.changes.push(windrow_simulate::DirectoryChange {
        after: Duration::from_secs(120),
        path: "bowl.yaml".to_owned(),
        content: None,
        ..Default::default()
    });
    let run = with_windrow(&setup, &Faults::NONE, 3);
    assert!(position(&run, |what| matches!(what, HappeningKind::Held { .. })).is_some());
    assert_eq!(run.files.iter().count(), 0, "{}", timeline(&run));
    assert_eq!(run.counts.applies, 0);
}

#[test]
fn a_marker_that_somebody_else_puts_in_place_later_is_obeyed_and_left_alone() {
    let mut setup = rke2(&[("a.yaml", &config_maps(["a", "b", "c"]))]);
    for (after, content) in [(10, Some(FileContent::Bytes(Vec::new()))), (300, None)] {
        setup.changes.push(windrow_simulate::DirectoryChange {
            after: Duration::from_secs(after),
            path: "a.yaml.skip".to_owned(),
            content,
            ..Default::default()
        });
    }
    let run = with_windrow(&setup, &Faults::NONE, 3);
    let gone = start() + Duration::from_secs(300);
    assert!(when(&run, applied("a.yaml")).is_some_and(|at| at > gone));
    assert!(position(&run, |what| matches!(what, HappeningKind::Lifted { .. })).is_none());
}

/// The log of a run. If there are several servers, each line begins with the number of its server.
pub(crate) fn timeline(run: &Run) -> String {
    let server = |one: &Happening| match run.joined.is_empty() {
        true => String::new(),
        false => format!("[{}] ", one.server),
    };
    let lines: Vec<_> = run
        .log
        .iter()
        .map(|one| format!("{}{} {}", server(one), one.at, one.what))
        .collect();
    lines.join("\n")
}

/// The scenarios of the seeds: various features that can complete.
fn fixed_scenarios() -> Vec<(&'static str, Setup)> {
    let mut late = storm();
    late.scenario.arrivals.push(Arrival {
        after: Duration::from_secs(200),
        kinds: ["Alpha", "Beta", "Gamma"]
            .map(|kind| (GroupKind::new("example.com", kind), true))
            .to_vec(),
        ..Arrival::default()
    });
    let mut foreign = rook_like();
    foreign
        .files
        .write("common.yaml.skip", "held by its owner\n", start());
    vec![
        ("first-vm", Setup::first_vm(start())),
        ("storm", late),
        ("rook-like", rook_like()),
        ("foreign-marker", foreign),
        ("two-servers", two_servers(Setup::first_vm(start()))),
        ("two-servers-storm", two_servers(rook_like())),
    ]
}

/// The same with a second server, which has the same files.
fn two_servers(mut setup: Setup) -> Setup {
    let role = match setup.scenario.harvester {
        Some(_) => JoinRole::Promoted,
        None => JoinRole::Server,
    };
    setup.joins.push(JoiningNode {
        name: "the second node".to_owned(),
        role,
        files: setup.files.clone(),
        changes: Vec::new(),
        settings: Arc::clone(&setup.settings),
        rules: Arc::clone(&setup.rules),
    });
    setup
}

#[test]
fn whatever_goes_wrong_on_the_way_every_bootstrap_completes_and_no_rule_is_broken() {
    for (name, setup) in fixed_scenarios() {
        for_all_seeds(|seed| try_seed(name, &setup, &[], seed));
    }
}

#[test]
fn whatever_lies_in_the_directory_what_can_work_works_in_the_end() {
    let rules = RuleSet::shipped();
    for_all_seeds(|seed| {
        let Drawn { setup, kept } = scenarios::draw(seed, &rules, start());
        let known = PreparedSetup::read(&setup);
        let run = known.with_windrow(&setup, seed);
        judge("drawn", &setup, &kept, run)?;
        let run = known.with_faults(&setup, &Faults::ALL, seed);
        judge("drawn, with faults", &setup, &kept, run)
    });
}

/// Plays each seed's directory with each of these families of faults.
fn try_families(families: &[(&str, Faults)]) {
    let rules = RuleSet::shipped();
    for_all_seeds(|seed| {
        let Drawn { setup, kept } = scenarios::draw(seed, &rules, start());
        let known = PreparedSetup::read(&setup);
        for (name, faults) in families {
            judge(name, &setup, &kept, known.with_faults(&setup, faults, seed))?;
        }
        Ok(())
    });
}

#[test]
fn whatever_fails_around_windrow_no_rule_is_broken() {
    let families = [
        ("another cluster", Faults::CLUSTERS),
        ("the fail-safe", Faults::FAILSAFE),
        ("clocks", Faults::CLOCKS),
        ("failed reads", Faults::READS),
    ];
    try_families(&families);
}

#[test]
fn whatever_fails_together_no_rule_is_broken() {
    let families = [
        ("all faults and failed reads", Faults::ALL_AND_READS),
        ("all faults and another cluster", Faults::ALL_AND_CLUSTERS),
        ("all faults and the fail-safe", Faults::ALL_AND_FAILSAFE),
    ];
    try_families(&families);
}

#[test]
fn wherever_a_file_is_moved_no_rule_is_broken() {
    let families = [
        ("moved files", Faults::MOVES),
        ("all faults and moved files", Faults::ALL_AND_MOVES),
    ];
    try_families(&families);
}

#[test]
fn what_does_no_harm_is_released_by_the_blind_deadline_if_kube_apiserver_never_answers_windrow() {
    let rules = RuleSet::shipped();
    for_all_seeds(|seed| {
        let Drawn { setup, .. } = scenarios::draw(seed, &rules, start());
        let known = PreparedSetup::read(&setup);
        judge_oracle("mute", known.with_faults(&setup, &Faults::MUTE, seed))
    });
}

#[test]
fn whatever_its_probes_find_what_is_said_of_the_node_is_so() {
    let rules = RuleSet::shipped();
    for_all_seeds(|seed| {
        let Drawn { setup, kept } = scenarios::draw(seed, &rules, start());
        let known = PreparedSetup::read(&setup);
        let run = known.with_faults(&setup, &Faults::ALL_AND_PROBES, seed);
        judge("drawn, with faults and probes", &setup, &kept, run)
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let setup = Setup::first_vm(start());
    let one = with_windrow(&setup, &Faults::ALL, 11);
    let other = with_windrow(&setup, &Faults::ALL, 11);
    assert_eq!(one.log, other.log);
    assert_eq!(one.ledger, other.ledger);
}
