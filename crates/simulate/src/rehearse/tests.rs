use std::cell::Cell;

use jiff::Timestamp;
use windrow_harvester::HarvesterVersion;
use windrow_harvester::versions::{Fact, HarvesterVersions, Holds};
use windrow_model::manifest::FileContent;
use windrow_model::reasons::Code;
use windrow_plan::knowledge::NodeFacts;
use windrow_plan::rules::{Platform, RuleSet};

use super::*;
use crate::{FIRST_VM, Scenario, SimulatedDirectory};

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

/// The worst end by version, without a preset and with one.
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
        let versions = ["v1.5.0", "v1.5.1", "v1.8.2"];
        let expected: Vec<_> = versions.into_iter().zip(ends).collect();
        assert_eq!(without, expected);
        let with = |one: &VersionOutcome| one.with == Ending::Complete;
        assert!(rehearsal.versions.iter().all(with));
    }
}

/// Without a preset, as in each release's own webhook.
#[test]
fn the_first_virtual_machine_is_rehearsed_on_every_release_that_was_read() {
    let unset = FIRST_VM.replace("storage-network:", "ntp-servers:");
    for release in HarvesterVersions::shipped().read_releases() {
        let setup = Setup::harvester_config("c.yaml", &unset, release, start());
        let rehearsal = rehearse("n1", &setup, 2, Vec::new());
        let refused = Fact::StorageNetworkEmptyRefused.holds(release) == Holds::Yes;
        let alone = match refused {
            true => Ending::Deadlocked,
            false => Ending::Complete,
        };
        let ends = |side: &Side| side.ends.iter().map(|end| end.verdict).collect::<Vec<_>>();
        assert_eq!(ends(&rehearsal.without), [alone], "{release}");
        assert_eq!(ends(&rehearsal.with), [Ending::Complete], "{release}");
        assert_eq!(rehearsal.worst(), Ending::Complete, "{release}");
        assert_eq!(rehearsal.findings, [], "{release}");
    }
}

#[test]
fn a_patch_that_was_not_read_is_told_and_a_newer_minor_is_unknown() {
    let rehearsed = |version: &str| {
        let version = version.parse().unwrap();
        let setup = Setup::harvester_config("c.yaml", FIRST_VM, version, start());
        rehearse("n1", &setup, 1, Vec::new())
    };
    let patch = rehearsed("v1.8.3");
    assert_eq!(patch.worst(), Ending::Complete);
    assert!(patch.beyond.is_empty());
    let told: Vec<_> = patch.findings.iter().map(|found| found.code).collect();
    assert_eq!(told, [Code::VersionUnread]);

    let minor = rehearsed("v1.9.0");
    assert_eq!(minor.worst(), Ending::Unknown);
    assert!(minor.beyond[0].contains("is newer"), "{:?}", minor.beyond);
    assert_eq!(minor.findings, []);
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

#[test]
fn a_seed_that_is_not_played_to_its_end_does_not_count_and_the_end_is_unknown() {
    let setup = Setup::first_vm(start());
    let play = |steps: u64| {
        let left = Cell::new(steps);
        let progress = Progress {
            go_on: &|| left.replace(left.get().saturating_sub(1)) > 0,
            played: &|| {},
        };
        PartialRehearsal::play_while((&setup, &PreparedSetup::read(&setup)), 1..=5, &progress)
    };
    let none = play(20);
    assert_eq!(none.played(), 0);
    let node = none
        .nodes(&setup, vec![("n1".to_owned(), Vec::new())])
        .remove(0);
    assert_eq!((node.seeds, node.worst()), (0, Ending::Unknown));
    assert_eq!(node.versions, []);
    // The time of one seed, and slightly more.
    let (with, without) = (Cell::new(0), Cell::new(0));
    let known = PreparedSetup::read(&setup);
    let count = |steps: &Cell<u64>| {
        steps.set(steps.get() + 1);
        true
    };
    known.with_windrow_while(&setup, 1, &|| count(&with));
    known.without_windrow_while(&setup, 1, &|| count(&without));
    assert!(with.get() > 100 && without.get() > 100, "each step asks");
    assert_eq!(play(with.get() + without.get() - 1).played(), 0);
    assert_eq!(play(with.get() + without.get() + 20).played(), 1);
}

/// Files of one ConfigMap each; every file except the last one in the chain needs the next one.
fn chain(names: &[&str]) -> Setup {
    let mut setup = Setup::first_vm(start());
    setup.scenario = Scenario::rke2(start());
    setup.files = SimulatedDirectory::new();
    for (number, name) in names.iter().enumerate() {
        let needs = match number + 1 < names.len() {
            true => format!(
                "  annotations:\n    windrow.dev/depends-on: /namespaces/default/ConfigMap/m{}\n",
                number + 1
            ),
            false => String::new(),
        };
        let map = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m{number}\n  namespace: default\n{needs}"
        );
        setup.files.write(*name, map, start());
    }
    setup
}

#[test]
fn a_boot_that_takes_polls_longer_with_windrow_says_which_file_makes_it_so() {
    // Each is released one poll after the file that sorts behind it.
    let slow = chain(&["a.yaml", "b.yaml", "c.yaml", "d.yaml"]);
    let node = rehearse("n1", &slow, 5, Vec::new());
    assert_eq!(node.worst(), Ending::Complete);
    let delay = node.delay.unwrap();
    assert_eq!(delay.file, "a.yaml");
    assert!((30.0..=60.0).contains(&delay.seconds), "{delay:?}");
    // Any hold costs one poll.
    let quick = chain(&["a.yaml", "b.yaml"]);
    let node = rehearse("n1", &quick, 5, Vec::new());
    assert_eq!((node.with.files["a.yaml"].held_in, node.delay), (5, None));
    // If plain RKE2 does not complete, there is no delay.
    let mut stuck = slow;
    stuck.files.write(
        "z.yaml",
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n",
        start(),
    );
    assert_eq!(rehearse("n1", &stuck, 2, Vec::new()).delay, None);
}

/// A chart with knowledge about the time until its kind is served, and an object of this kind, on a machine of a class if there
/// is one.
fn learned_chart(times: &str, hardware: Option<&str>) -> (NodeRehearsal, UsedTimes) {
    let chart = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: widgets, namespace: kube-system}\nspec: {chart: widgets}\n";
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n";
    let knowledge = format!(
        "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {{name: learned}}\nentries:\n  - name: chart-widgets\n    by: {{chart: widgets}}\n    \
         kinds: [{{group: example.com, namespaced: [Widget]}}]\n    source: a test\n    \
         times: {{{times}}}\n    seen: {{boots: 13, of: 14, last: 2026-11-23}}\n"
    );
    let mut packs = RuleSet::shipped_sources();
    packs.push(("learned.yaml".to_owned(), knowledge));
    let (rules, errors) = RuleSet::load(&packs);
    assert_eq!(errors, []);
    let mut files = SimulatedDirectory::new();
    let mut examined = Vec::new();
    for (path, text) in [("a-widgets.yaml", chart), ("b-widget.yaml", widget)] {
        files.write(path, text, start());
        let content = FileContent::Bytes(text.as_bytes().to_vec());
        let limits = windrow_model::manifest::ReadLimits::default();
        let shown = windrow_plan::SourceMap::itself(path);
        let rke2 = Some(Platform::Rke2);
        let one =
            windrow_plan::examine_content(&path.into(), &content, &limits, shown, &rules, rke2);
        examined.push(std::sync::Arc::new(one));
    }
    let node = NodeFacts::from(Some(Platform::Rke2));
    let node = node.with_machine(None, hardware.map(str::to_owned));
    let plan = windrow_plan::link(&examined, &rules, &node);
    let used = UsedTimes::of(&plan, &node).unwrap();
    let mut scenario = Scenario::rke2(start());
    scenario.node = node;
    guesses::add_what_comes(&mut scenario, &plan, &rules);
    let setup = Setup {
        scenario,
        files,
        changes: Vec::new(),
        settings: std::sync::Arc::default(),
        rules: rules.into(),
        joins: Vec::new(),
    };
    (rehearse("n1", &setup, 60, Vec::new()), used)
}

#[test]
fn a_machine_of_a_class_takes_its_times_and_another_those_of_all() {
    let times = "p5: 1s, p25: 1s, half: 1s, p75: 1s, p95: 1s}\n    \
         timesOn:\n      - {hardware: 4cpu-8g-hdd, times: {p5: 10m, p25: 11m, half: 12m, p75: 13m, p95: 15m}";
    for (hardware, of_class, of_all) in [
        (Some("4cpu-8g-hdd"), 1, 0),
        (Some("16cpu-64g-nvme"), 0, 1),
        (None, 0, 1),
    ] {
        let (node, used) = learned_chart(times, hardware);
        let expected = UsedTimes {
            hardware: hardware.map(str::to_owned),
            of_class,
            of_all,
        };
        assert_eq!(used, expected);
        let done = node.with.manifests_in.unwrap().half;
        match of_class {
            1 => assert!(done.from > 600.0 && done.to < 900.0, "{done:?}"),
            _ => assert!(done.to < 100.0, "{done:?}"),
        }
    }
}

#[test]
fn what_comes_of_a_chart_comes_after_the_time_that_boots_have_shown() {
    let (node, _) = learned_chart("p5: 10m, p25: 11m, half: 12m, p75: 13m, p95: 15m", None);
    let released = node.with.files["b-widget.yaml"].released.unwrap();
    // Power-on, the start of kube-apiserver, the first pass, then at least half of p5 and at most twice p95.
    assert!(
        released.from > 300.0 && released.to < 1_900.0,
        "{released:?}"
    );
    let done = node.with.manifests_in.unwrap();
    assert_eq!(done.boots, 60);
    let mostly = done.nine_of_ten;
    assert!(mostly.from > 330.0 && mostly.to < 1_300.0, "{mostly:?}");
    let half = done.half;
    assert!(half.from > 600.0 && half.to < 900.0, "{half:?}");
    // Neither its Job nor the default time for unknown things delays it.
    let (soon, _) = learned_chart("p5: 1s, p25: 1s, half: 1s, p75: 1s, p95: 1s", None);
    let mostly = soon.with.manifests_in.unwrap().nine_of_ten;
    assert!(mostly.to < 100.0, "{mostly:?}");
}
