use jiff::Timestamp;

use super::*;
use crate::simulate::{FIRST_VM, HarvesterVersion};

fn start() -> Timestamp {
    // 2026-01-01T00:00:00Z
    Timestamp::constant(1_767_225_600, 0)
}

#[test]
fn the_first_virtual_machine_never_comes_up_without_windrow_and_always_does_with_it() {
    let setup = Setup::first_vm(start());
    let rehearsal = rehearse("n1", &setup, 3, Vec::new());
    let end = &rehearsal.without.ends[0];
    assert_eq!((end.verdict, end.seeds), (Ended::Deadlocked, 3));
    assert!(
        end.because
            .iter()
            .any(|line| line.contains("storage-network"))
    );
    assert_eq!(rehearsal.with.ends[0].verdict, Ended::Complete);
    assert_eq!(rehearsal.with.ends.len(), 1);
    assert!(rehearsal.passes());
    let fate = &rehearsal.with.files["00-registry.yaml"];
    assert_eq!((fate.applied_in, fate.held_in, fate.failures), (3, 3, 0));
    assert!(fate.released.unwrap().from < fate.applied.unwrap().to);
    assert!(rehearsal.without.files["00-registry.yaml"].failures > 10);
    assert!(rehearsal.without.work.least.writes > rehearsal.with.work.most.writes);
}

#[test]
fn the_version_that_mends_an_empty_setting_only_is_told_apart() {
    let config = FIRST_VM.replace("storage-network:", "ntp-servers:");
    let version = HarvesterVersion::new(1, 6, 0);
    let setup = Setup::harvester_config("c.yaml", &config, version, start());
    let rehearsal = rehearse("n1", &setup, 2, Vec::new());
    assert!(!rehearsal.storage_network);
    let without: Vec<_> = rehearsal
        .versions
        .iter()
        .map(|one| (one.version.as_str(), one.without))
        .collect();
    assert_eq!(
        without,
        [
            ("v1.5.0", Ended::Deadlocked),
            ("v1.5.1", Ended::Complete),
            ("v1.6.0", Ended::Complete),
        ]
    );
    assert!(
        rehearsal
            .versions
            .iter()
            .all(|one| one.with == Ended::Complete)
    );
}

#[test]
fn what_stays_held_for_ever_is_told_with_whose_rule_it_is() {
    let mut setup = Setup::first_vm(start());
    setup.files.write(
        "90-by-hand.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  annotations:\n    windrow.dev/depends-on: /namespaces/default/Secret/never\n",
        start(),
    );
    let rehearsal = rehearse("n1", &setup, 1, Vec::new());
    let kept = &rehearsal.with.stays_held;
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(kept[0].file, "90-by-hand.yaml");
    assert_eq!(kept[0].rules[0].rule, "annotation/windrow.dev/depends-on");
    assert_eq!(kept[0].rules[0].at.line, Some(6));
}
