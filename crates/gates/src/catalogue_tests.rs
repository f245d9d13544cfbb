use std::collections::BTreeMap;

use super::*;
use crate::dependencies;

fn minor(minor: u16) -> Minor {
    Minor::v1(minor)
}

fn at(gate: &str, version: &str) -> GateStanding {
    let version: Version = version.parse().unwrap();
    Catalogue::builtin().gate(gate).unwrap().at(version)
}

fn known(stage: Stage, default: bool, locked: bool) -> GateStanding {
    GateStanding::Known(GateFacts {
        stage,
        default,
        locked,
    })
}

#[test]
fn the_built_in_catalogue_can_be_read() {
    assert_eq!(Catalogue::parse(TEXT).map(|_| ()), Ok(()));
}

#[test]
fn every_minor_knows_as_many_gates_as_its_own_sources() {
    let counts: Vec<(Minor, usize)> = Catalogue::builtin()
        .minors()
        .map(|minor| {
            let known = Catalogue::builtin()
                .gates()
                .filter(|gate| {
                    matches!(
                        gate.at(minor),
                        GateStanding::Known(_) | GateStanding::Doubtful { .. }
                    )
                })
                .count();
            assert_eq!(Catalogue::builtin().count(minor), Some(known));
            (minor, known)
        })
        .collect();
    let expected = [152, 160, 167, 165, 177, 189, 206, 216, 240, 252];
    let expected: Vec<_> = (28..=37).map(minor).zip(expected).collect();
    assert_eq!(counts, expected);
}

#[test]
fn as_many_gates_leave_and_are_locked_at_each_step_as_the_sources_say() {
    for (to, gone, locked) in [
        (29, 13, None),
        (30, 12, None),
        (31, 17, Some(13)),
        (32, 15, Some(16)),
        (33, 16, Some(17)),
        (34, 5, Some(24)),
        (35, 11, Some(12)),
        (36, 9, Some(21)),
        (37, 25, Some(13)),
    ] {
        let mut left = 0;
        let mut newly_locked = 0;
        for gate in Catalogue::builtin().gates() {
            let state = |minor| match gate.at(minor) {
                GateStanding::Known(state) | GateStanding::Doubtful { state, .. } => Some(state),
                _ => None,
            };
            match (state(minor(to - 1)), state(minor(to))) {
                (Some(_), None) => left += 1,
                (Some(before), Some(after)) if after.locked && !before.locked => newly_locked += 1,
                _ => {}
            }
        }
        assert_eq!(left, gone, "removed in 1.{to}");
        if let Some(locked) = locked {
            assert_eq!(newly_locked, locked, "locked in 1.{to}");
        }
    }
}

#[test]
fn the_gates_of_kep_4601_stand_as_its_releases_say() {
    for gate in ["AuthorizeNodeWithSelectors", "AuthorizeWithSelectors"] {
        assert_eq!(at(gate, "1.30"), GateStanding::NotYet(minor(31).into()));
        assert_eq!(at(gate, "1.31"), known(Stage::Alpha, false, false));
        assert_eq!(at(gate, "1.33"), known(Stage::Beta, true, false));
        assert_eq!(at(gate, "1.36"), known(Stage::Ga, true, true));
        assert_eq!(at(gate, "1.37"), GateStanding::Gone(minor(37)));
        let gate = Catalogue::builtin().gate(gate).unwrap();
        assert_eq!(gate.takes(false), [minor(31), minor(32), minor(33)]);
    }
}

#[test]
fn gates_that_a_third_table_disagrees_on_stand_as_the_sources_have_them() {
    for version in ["1.30", "1.33", "1.36"] {
        let GateStanding::Known(state) = at("ContextualLogging", version) else {
            panic!("{version}");
        };
        assert!(!state.locked);
    }
    for (version, locked) in [("1.32", false), ("1.35", false), ("1.36", true)] {
        let GateStanding::Known(state) = at("TopologyManagerPolicyOptions", version) else {
            panic!("{version}");
        };
        assert_eq!(state.locked, locked, "{version}");
    }
    assert_eq!(at("MemoryManager", "1.36"), GateStanding::Gone(minor(36)));
    assert_eq!(
        at("UserNamespacesPodSecurityStandards", "1.35"),
        GateStanding::Gone(minor(35))
    );
    assert_eq!(at("NodeSwap", "1.34"), known(Stage::Ga, true, true));
}

#[test]
fn nothing_is_claimed_about_a_minor_that_is_not_covered() {
    assert_eq!(at("NodeSwap", "1.38"), GateStanding::Uncovered);
    assert_eq!(at("NodeSwap", "1.27"), GateStanding::Uncovered);
    assert_eq!(at("NodeSwap", "2.0"), GateStanding::Uncovered);
    // A removed gate stays removed.
    assert_eq!(at("CPUManager", "1.40"), GateStanding::Gone(minor(33)));
}

#[test]
fn patch_releases_that_brought_a_gate_or_changed_it_are_told_apart() {
    let brought = GateStanding::NotYet("1.32.3".parse().unwrap());
    assert_eq!(at("OrderedNamespaceDeletion", "1.32.2"), brought);
    assert!(matches!(
        at("OrderedNamespaceDeletion", "1.32.3"),
        GateStanding::Known(_)
    ));
    assert!(matches!(
        at("OrderedNamespaceDeletion", "1.32"),
        GateStanding::Doubtful { .. }
    ));
    assert!(matches!(
        at("OrderedNamespaceDeletion", "1.33"),
        GateStanding::Known(_)
    ));
    // In 1.31 and 1.32, only another distribution has it.
    for gate in [
        "StreamingCollectionEncodingToJSON",
        "StreamingCollectionEncodingToProtobuf",
    ] {
        for version in ["1.31.14", "1.32.13"] {
            assert_eq!(at(gate, version), GateStanding::NotYet(minor(33).into()));
        }
        assert_eq!(at(gate, "1.37"), GateStanding::Gone(minor(37)));
    }
    let brought = GateStanding::NotYet("1.30.11".parse().unwrap());
    assert_eq!(at("OrderedNamespaceDeletion", "1.30.10"), brought);
    let there = known(Stage::Beta, false, false);
    assert_eq!(at("OrderedNamespaceDeletion", "1.30.14"), there);
    for (gate, before, after, stage, earlier) in [
        (
            "SchedulerQueueingHints",
            "1.28.5",
            "1.28.6",
            Stage::Beta,
            true,
        ),
        ("EventedPLEG", "1.28.5", "1.28.6", Stage::Beta, false),
        ("EventedPLEG", "1.29.0", "1.29.1", Stage::Beta, false),
        (
            "DisableNodeKubeProxyVersion",
            "1.31.0",
            "1.31.1",
            Stage::Beta,
            true,
        ),
        (
            "ServiceAccountNodeAudienceRestriction",
            "1.32.1",
            "1.32.2",
            Stage::Beta,
            true,
        ),
    ] {
        assert_eq!(at(gate, before), known(stage, earlier, false), "{gate}");
        assert_ne!(at(gate, after), known(stage, earlier, false), "{gate}");
    }
    assert_eq!(
        at("SchedulerAsyncAPICalls", "1.34.1"),
        known(Stage::Beta, true, false)
    );
    assert_eq!(
        at("SchedulerAsyncAPICalls", "1.34.2"),
        known(Stage::Beta, false, false)
    );
    assert_eq!(
        at("MaxUnavailableStatefulSet", "1.35.3"),
        known(Stage::Beta, true, false)
    );
    assert_eq!(
        at("MaxUnavailableStatefulSet", "1.35.6"),
        known(Stage::Beta, false, false)
    );
}

#[test]
fn dependencies_are_as_many_as_the_sources_have_and_the_defaults_meet_them() {
    for (of, count) in [(34, 0), (35, 38), (36, 57)] {
        let pairs = Catalogue::builtin()
            .gates()
            .map(|gate| gate.needs(Component::Kubelet, minor(of)).count())
            .sum::<usize>();
        assert_eq!(pairs, count, "1.{of}");
        let broken = dependencies::broken(
            Catalogue::builtin(),
            Component::KubeApiserver,
            minor(of).into(),
            &BTreeMap::new(),
        );
        assert_eq!(broken, [], "1.{of}");
    }
}

#[test]
fn other_programs_and_constants_are_known_by_name() {
    let catalogue = Catalogue::builtin();
    assert_eq!(catalogue.elsewhere("LiveMigration"), Some("KubeVirt"));
    assert_eq!(catalogue.elsewhere("PublicKeysECDSA"), Some("kubeadm"));
    assert_eq!(
        catalogue.constant("CPUCFSQuotaPeriod"),
        Some("CustomCPUCFSQuotaPeriod")
    );
    assert_eq!(
        catalogue.gate_in_any_case("imagevolume").unwrap().name(),
        "ImageVolume"
    );
    for gate in catalogue.gates() {
        assert_eq!(catalogue.constant(gate.name()), None, "{}", gate.name());
    }
}

#[test]
fn every_line_that_is_wrong_is_named() {
    let text = "minor 1.36 1\ngate A 1.36=beta:on\ngate A 1.36=beta:on\ngate B 1.36=gamma:on\nneeds A 1.36.. C\nadded A 1.36\nread-by etcd A\nwhat\n";
    let problems = Catalogue::parse(text).unwrap_err();
    let lines: Vec<&str> = problems
        .iter()
        .filter_map(|text| text.split(':').next())
        .collect();
    assert_eq!(
        lines,
        ["line 3", "line 4", "line 5", "line 6", "line 7", "line 8"]
    );
}

#[test]
fn a_line_with_a_word_too_many_or_too_few_and_a_minor_that_stands_twice_are_wrong() {
    for (line, expected) in [
        ("minor 1.36 1 4 5", "is not a fact, or lacks a word"),
        ("gate B", "is not a fact, or lacks a word"),
        ("gate B 1.36=beta:on 1.36=ga:on", "are not in order"),
        ("gate B 1.36=beta:on 1.35=ga:on", "are not in order"),
    ] {
        let problems = Catalogue::parse(&format!("minor 1.36 1\n{line}\n")).map(|_| ());
        let problems = problems.unwrap_err();
        assert!(problems[0].contains("line 2"), "{line}: {problems:?}");
        assert!(problems[0].contains(expected), "{line}: {problems:?}");
    }
}

#[test]
fn a_gate_that_needs_none_is_no_fact() {
    let gate = "minor 1.34 1\ngate One 1.34=beta:on\n";
    let needs = |rest: &str| Catalogue::parse(&format!("{gate}needs One 1.34..{rest}\n"));
    let problems = needs("").map(|_| ()).unwrap_err();
    assert!(
        problems.iter().any(|one| one.contains("needs")),
        "{problems:?}"
    );
}

#[test]
fn the_gates_of_another_program_may_stand_on_several_lines() {
    let text = "minor 1.36 1\nelsewhere One A\nelsewhere Other B\nelsewhere One C\n";
    let catalogue = Catalogue::parse(text).unwrap();
    for (gate, program) in [
        ("A", Some("One")),
        ("B", Some("Other")),
        ("C", Some("One")),
        ("D", None),
    ] {
        assert_eq!(catalogue.elsewhere(gate), program, "{gate}");
    }
}
