use jiff::Timestamp;
use windrow_harvester::HarvesterVersion;
use windrow_model::reasons::Code;

use super::*;
use crate::FIRST_VM;

fn start() -> Timestamp {
    // 2026-01-01T00:00:00Z
    Timestamp::constant(1_767_225_600, 0)
}

#[test]
fn the_first_virtual_machine_may_cost_the_preset_storage_network_and_never_does_with_windrow() {
    let setup = Setup::first_vm(start());
    let rehearsal = rehearse("n1", &setup, 20, Vec::new());
    let mut ends: Vec<_> = rehearsal.without.ends.iter().collect();
    ends.sort_by_key(|end| end.verdict);
    let verdicts: Vec<_> = ends.iter().map(|end| end.verdict).collect();
    assert_eq!(verdicts, [Ending::Complete, Ending::Unconfigured]);
    let because = &ends[1].because;
    assert!(because[0].contains("while every Longhorn volume is detached"));
    assert!(because[1].contains("orchard/registry keeps"), "{because:?}");
    let recognised = &rehearsal.without.recognised;
    assert_eq!(recognised.len(), 1, "{recognised:?}");
    assert_eq!(recognised[0].code, Code::StorageNetworkWaits);
    assert_eq!(recognised[0].seeds, ends[1].seeds);
    assert_eq!(rehearsal.with.recognised, []);
    assert_eq!(rehearsal.with.ends[0].verdict, Ending::Complete);
    assert_eq!(rehearsal.with.ends.len(), 1);
    assert_eq!(rehearsal.worst(), Ending::Complete);
    let fate = &rehearsal.with.files["00-registry.yaml"];
    assert_eq!((fate.applied_in, fate.held_in, fate.failures), (20, 20, 0));
    assert!(fate.released.unwrap().from < fate.applied.unwrap().to);
    assert!(rehearsal.without.files["00-registry.yaml"].failures > 10);
    assert!(rehearsal.without.work.least.writes > rehearsal.with.work.most.writes);
}

/// By version, at worst, without a preset and with one.
#[test]
fn both_stories_are_told_by_version() {
    let unset = FIRST_VM.replace("storage-network:", "ntp-servers:");
    for (config, ends) in [
        (
            unset.as_str(),
            [Ending::Deadlocked, Ending::Complete, Ending::Complete],
        ),
        (FIRST_VM, [Ending::Unconfigured; 3]),
    ] {
        let setup = Setup::harvester_config("c.yaml", config, HarvesterVersion::LATEST, start());
        let rehearsal = rehearse("n1", &setup, 10, Vec::new());
        assert_eq!(rehearsal.storage_network, config == FIRST_VM);
        let without: Vec<_> = rehearsal
            .versions
            .iter()
            .map(|one| (one.version.as_str(), one.without))
            .collect();
        let versions = ["v1.5.0", "v1.5.1", "v1.6.0"];
        let expected: Vec<_> = versions.into_iter().zip(ends).collect();
        assert_eq!(without, expected);
        let with = |one: &VersionOutcome| one.with == Ending::Complete;
        assert!(rehearsal.versions.iter().all(with));
    }
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
