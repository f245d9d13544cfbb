//! The oracle detects Windrow's errors.

use std::sync::Arc;

use jiff::Timestamp;
use windrow_decide::{Action, Cause, Decision, FileStage, Ledger, LedgerEntry, Mark};
use windrow_model::manifest::{ManifestPath, ObjectRef};
use windrow_plan::rules::NeedTarget;

use super::truth::is_brought_before;
use super::{Drive, Spoil};
use crate::{
    BootstrapVerdict, Faults, HappeningKind, PreparedSetup, Run, Scenario, Setup,
    SimulatedDirectory,
};

/// A file of the example, which waits for Harvester's storage network.
const MACHINE: &str = "00-registry.yaml";

fn play(setup: &Setup, planted: Option<Spoil>, seed: u64) -> Run {
    let known = PreparedSetup::read(setup);
    let mut drive = Drive::new(setup, &known, Faults::NONE, seed);
    drive.planted = planted;
    drive.run()
}

fn first_vm() -> Setup {
    Setup::first_vm(Timestamp::constant(1_767_225_600, 0))
}

/// The files that were released too early.
fn early(run: &Run) -> Vec<&str> {
    let early = run.releases.iter().filter(|one| !one.unmet.is_empty());
    early.map(|release| release.file.as_str()).collect()
}

#[test]
fn windrow_lets_every_file_through_once_and_in_time() {
    for seed in 0..10 {
        let run = play(&first_vm(), None, seed);
        assert_eq!(early(&run), [""; 0], "{:?}", run.releases);
        let mut files: Vec<&str> = run.releases.iter().map(|one| one.file.as_str()).collect();
        files.sort_unstable();
        let setup = first_vm();
        let all: Vec<&str> = setup.files.manifests().map(|(path, _)| path).collect();
        assert_eq!(files, all);
    }
}

#[test]
fn a_marker_that_is_lifted_too_early_is_seen_though_the_ledger_says_held() {
    let lift_all: Spoil = |decision, observation| {
        let ours = observation.markers.values();
        let ours = ours.filter(|marker| marker.mark.is_some());
        decision.actions.extend(ours.map(|marker| Action::Lift {
            path: marker.path.clone(),
        }));
    };
    let run = play(&first_vm(), Some(lift_all), 1);
    assert!(early(&run).contains(&MACHINE), "{:?}", run.releases);
    let release = run.releases.iter().find(|one| one.file == MACHINE).unwrap();
    assert_eq!(release.cause, None);
}

#[test]
fn a_marker_that_is_never_made_is_seen() {
    let hold_nothing: Spoil = |decision, _| {
        let holds = |action: &Action| matches!(action, Action::Hold { .. });
        decision.actions.retain(|action| !holds(action));
    };
    let run = play(&first_vm(), Some(hold_nothing), 1);
    assert!(early(&run).contains(&MACHINE), "{:?}", run.releases);
}

#[test]
fn what_windrow_says_and_is_not_so_is_seen() {
    assert_eq!(play(&first_vm(), None, 1).untrue, [""; 0]);
    let said = |spoil: Spoil, words: &str| {
        let run = play(&first_vm(), Some(spoil), 1);
        let is_seen = run.untrue.iter().any(|untrue| untrue.contains(words));
        assert!(is_seen, "{words}: {:?}", run.untrue);
    };
    let hold_nothing: Spoil = |decision, _| {
        let holds = |action: &Action| matches!(action, Action::Hold { .. });
        decision.actions.retain(|action| !holds(action));
    };
    said(hold_nothing, "is held: nothing hides it");
    let forget_one: Spoil = |decision, _| {
        for held in &mut decision.status.staging.held {
            held.blockers.pop();
        }
    };
    said(forget_one, "waits: not all that it waits for is said");
    let lift_nothing: Spoil = |decision, _| {
        let lifts = |action: &Action| matches!(action, Action::Lift { .. });
        decision.actions.retain(|action| !lifts(action));
    };
    said(lift_nothing, "is let through: a marker hides it");
    let all_applied: Spoil = |decision, _| {
        let staging = &mut decision.status.staging;
        staging.applied.append(&mut staging.released);
    };
    said(all_applied, "is applied: RKE2 never took it");
    let all_settled: Spoil = |decision, _| decision.status.staging.settled = true;
    said(all_settled, "all is settled: RKE2 never took");
    let none_applied: Spoil = |decision, _| {
        let staging = &mut decision.status.staging;
        staging.released.append(&mut staging.applied);
    };
    said(none_applied, "is not applied yet: RKE2 took it");
    let never_settled: Spoil = |decision, _| decision.status.staging.settled = false;
    said(
        never_settled,
        "not all is settled: there is nothing left to do",
    );
}

#[test]
fn what_windrow_does_and_may_not_is_seen() {
    let seen = |spoil: Spoil, words: &str| {
        let run = play(&first_vm(), Some(spoil), 1);
        let is_seen = run.untrue.iter().any(|untrue| untrue.contains(words));
        assert!(is_seen, "{words}: {:?}", run.untrue);
    };
    let save_nothing: Spoil = |decision, _| {
        let saves = |action: &Action| matches!(action, Action::SaveLedger(_));
        decision.actions.retain(|action| !saves(action));
    };
    seen(save_nothing, "the ledger on the disk does not say so");
    let hold_again: Spoil = |decision, _| {
        let released = decision
            .ledger
            .files
            .iter()
            .filter(|(_, entry)| matches!(entry.state, FileStage::Applied { .. }));
        let marks = released.map(|(path, entry)| Action::Hold {
            path: path.marker(),
            mark: Arc::new(Mark {
                digest: entry.digest.clone(),
                ..Mark::provisional(path, entry.since)
            }),
        });
        decision.actions.extend(marks);
    };
    seen(hold_again, "is held again");
    let hold_packaged: Spoil = |decision, _| {
        let path = ManifestPath::from("rke2-coredns.yaml");
        let mark = Arc::new(Mark::provisional(&path, Timestamp::UNIX_EPOCH));
        let path = path.marker();
        decision.actions.push(Action::Hold { path, mark });
    };
    seen(
        hold_packaged,
        "rke2-coredns.yaml is Windrow's to hold: it is not",
    );
}

#[test]
fn no_fault_does_harm_by_itself() {
    let often = Faults {
        until: Faults::ALL.until,
        ..Faults::NONE
    };
    let faults = [
        ("away", Faults { away: 20, ..often }),
        (
            "upgrade",
            Faults {
                upgrade: 5,
                ..often
            },
        ),
        (
            "truncated",
            Faults {
                truncated: 2,
                ..often
            },
        ),
        (
            "masked",
            Faults {
                masked: 40,
                ..often
            },
        ),
        (
            "read-only",
            Faults {
                read_only: 10,
                ..often
            },
        ),
        (
            "rejoins",
            Faults {
                rejoins: 40,
                ..often
            },
        ),
        (
            "unread",
            Faults {
                unread: 10,
                ..often
            },
        ),
        (
            "fail-safe",
            Faults {
                failsafe: 40,
                ..often
            },
        ),
        ("gone", Faults { gone: 20, ..often }),
        ("ahead", Faults { ahead: 1, ..often }),
    ];
    let setup = first_vm();
    let known = PreparedSetup::read(&setup);
    for (name, faults) in faults {
        let mut happened = 0;
        for seed in 0..10 {
            let run = Drive::new(&setup, &known, faults, seed).run();
            assert_eq!(
                run.outcome.verdict,
                BootstrapVerdict::Complete,
                "{name} {seed}"
            );
            assert_eq!(early(&run), [""; 0], "{name} {seed}: {:?}", run.releases);
            assert_eq!(run.untrue, [""; 0], "{name} {seed}");
            let is_fault = |what: &HappeningKind| matches!(what, HappeningKind::Fault { .. });
            happened += run.log.iter().filter(|one| is_fault(&one.what)).count();
        }
        assert!(happened > 0, "{name} never happened");
    }
}

#[test]
fn a_cause_that_windrow_makes_up_excuses_nothing_that_does_harm() {
    // Everything is released at once, and for each of these reasons.
    fn release_all(decision: &mut Decision, cause: Cause) {
        let files = decision.ledger.files.iter().map(|(path, entry)| {
            let state = FileStage::Released { cause };
            let entry = LedgerEntry {
                state,
                ..LedgerEntry::clone(entry)
            };
            (path.clone(), Arc::new(entry))
        });
        decision.ledger = Arc::new(Ledger {
            files: files.collect(),
            ..Ledger::clone(&decision.ledger)
        });
        decision.actions = vec![Action::SaveLedger(Arc::clone(&decision.ledger))];
    }
    let met: Spoil = |decision, _| release_all(decision, Cause::Met);
    let yielded: Spoil = |decision, _| release_all(decision, Cause::Yielded);
    let same_pass: Spoil = |decision, _| release_all(decision, Cause::SamePass);
    for spoil in [met, yielded, same_pass] {
        let run = play(&first_vm(), Some(spoil), 1);
        assert!(early(&run).contains(&MACHINE), "{:?}", run.releases);
    }
}

#[test]
fn readiness_is_judged_by_all_that_it_depends_on() {
    // The chart is Ready when its Job has completed; the Job is a separate object.
    let file = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: after\n  namespace: default\n  annotations: \
         {windrow.dev/depends-on: helm.cattle.io/namespaces/kube-system/HelmChart/store}\n";
    let chart = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: store, namespace: \
         kube-system}\nspec: {chart: store}\n";
    let mut setup = first_vm();
    setup.scenario = Scenario::rke2(setup.scenario.start);
    setup.files = SimulatedDirectory::new();
    setup.files.write("a.yaml", file, setup.scenario.start);
    setup.files.write("b.yaml", chart, setup.scenario.start);
    assert_eq!(early(&play(&setup, None, 1)), [""; 0]);
    let lift_all: Spoil = |decision, observation| {
        let ours = observation.markers.values();
        decision.actions.extend(ours.map(|marker| Action::Lift {
            path: marker.path.clone(),
        }));
    };
    let run = play(&setup, Some(lift_all), 1);
    assert!(early(&run).contains(&"a.yaml"), "{:?}", run.releases);
}

#[test]
fn what_rke2_applies_before_a_file_excuses_its_release_and_nothing_else_does() {
    let space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: t}\n";
    let object = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: t}\n";
    let mut setup = first_vm();
    let start = setup.scenario.start;
    setup.scenario = Scenario::rke2(start);
    setup.files = SimulatedDirectory::new();
    setup.files.write("a.yaml", space, start);
    setup.files.write("b.yaml", object, start);
    let run = play(&setup, None, 1);
    assert_eq!(early(&run), [""; 0], "{:?}", run.releases);
    assert_eq!(run.releases[1].cause, Some(Cause::SamePass));

    let target = NeedTarget::Object(ObjectRef::cluster("", "Namespace", "t"));
    let disk = setup.files.clone();
    let is_brought_before = |disk: &SimulatedDirectory, file: &str, target: &NeedTarget| {
        is_brought_before(disk, &file.into(), target, |_, _| false)
    };
    assert!(is_brought_before(&disk, "b.yaml", &target));
    assert!(!is_brought_before(&disk, "0.yaml", &target));
    let other = NeedTarget::Object(ObjectRef::cluster("", "Namespace", "u"));
    assert!(!is_brought_before(&disk, "b.yaml", &other));
    let spoils: [fn(&mut SimulatedDirectory, Timestamp); 3] = [
        |disk, now| disk.write("a.yaml.skip", "somebody else\n", now),
        |disk, now| disk.write("a.yaml", "kind: {\n", now),
        |disk, _| {
            disk.remove("a.yaml");
        },
    ];
    for spoil in spoils {
        let mut disk = disk.clone();
        spoil(&mut disk, start);
        assert!(!is_brought_before(&disk, "b.yaml", &target));
    }
}
