use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::{FileContent, ObjectRef};

use super::*;

mod duplicates;
mod machines;
mod pods;

const LIMIT: Duration = Duration::from_secs(4 * 3600);

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// Lets the node run until nothing can change any more.
fn run(node: &mut SimulatedNode, files: &SimulatedDirectory) -> BootstrapOutcome {
    let end = start() + LIMIT;
    while let Some(next) = node.next_event_at().filter(|next| *next < end) {
        node.advance(next, files);
        if node.is_settled(files) {
            break;
        }
    }
    node.outcome(files)
}

fn file(files: &mut SimulatedDirectory, path: &str, objects: &[serde_json::Value]) {
    let text: Vec<_> = objects.iter().map(ToString::to_string).collect();
    files.write(path, text.join("\n---\n"), start());
}

fn config_map(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn of_kind(kind: &str, name: &str) -> serde_json::Value {
    json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name}})
}

fn definition(kind: &str) -> serde_json::Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}s.example.com", kind.to_lowercase())},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": kind}}})
}

/// Lets the node run until the deploy controller has finished this many passes.
fn passes(node: &mut SimulatedNode, files: &SimulatedDirectory, count: usize) {
    let over = |node: &SimulatedNode| {
        let ends = |what: &HappeningKind| matches!(what, HappeningKind::PassEnded { .. });
        node.log().iter().filter(|entry| ends(&entry.what)).count()
    };
    while over(node) < count {
        let next = node.next_event_at().unwrap();
        node.advance(next, files);
    }
}

#[test]
fn a_directory_of_ordinary_manifests_is_applied_once_and_the_node_is_complete() {
    let mut files = SimulatedDirectory::new();
    file(&mut files, "a.yaml", &[config_map("a"), config_map("b")]);
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    let outcome = run(&mut node, &files);
    assert_eq!(outcome.verdict, BootstrapVerdict::Complete);
    assert_eq!((node.counts().applies, node.counts().failed), (1, 0));
}

#[test]
fn one_file_that_cannot_work_has_every_file_applied_in_every_pass() {
    let mut files = SimulatedDirectory::new();
    file(&mut files, "a.yaml", &[config_map("a")]);
    file(&mut files, "b.yaml", &[of_kind("Lost", "b")]);
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    passes(&mut node, &files, 4);
    assert!(node.deploy().forces());
    assert_eq!(node.counts().applies, 8);
    assert_eq!((node.counts().failed, node.counts().repeated), (4, 3));
    let outcome = run(&mut node, &files);
    let BootstrapVerdict::Stuck { missing } = outcome.verdict else {
        panic!("{:?}", outcome.verdict);
    };
    let words = "could not find the requested resource";
    assert!(missing[0].contains(words), "{missing:?}");
}

#[test]
fn two_files_with_one_object_take_it_from_each_other_in_every_pass_and_an_untouched_one_costs_nothing()
 {
    let mut files = SimulatedDirectory::new();
    file(
        &mut files,
        "a.yaml",
        &[config_map("a"), config_map("shared")],
    );
    file(&mut files, "b.yaml", &[config_map("shared")]);
    file(&mut files, "c.yaml", &[config_map("c")]);
    file(&mut files, "d.yaml", &[of_kind("Lost", "d")]);
    let shared = ObjectRef::namespaced("", "ConfigMap", "default", "shared");
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    let mut writes = Vec::new();
    for count in 1..=4 {
        passes(&mut node, &files, count);
        writes.push(node.counts().writes);
        assert_eq!(
            node.cluster().owner(&shared),
            Some("b"),
            "b.yaml comes last"
        );
    }
    let each: Vec<u64> = writes.windows(2).map(|two| two[1] - two[0]).collect();
    // The object once for each of the two files, and the record of each applied file.
    assert_eq!(each, [5, 5, 5], "{writes:?}");
}

#[test]
fn once_a_pass_was_clean_only_a_new_modification_time_and_a_new_checksum_matter() {
    let mut files = SimulatedDirectory::new();
    file(&mut files, "a.yaml", &[config_map("a")]);
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    passes(&mut node, &files, 3);
    assert_eq!(node.counts().applies, 1);
    files.write("a.yaml", config_map("a").to_string(), node.cluster().now());
    passes(&mut node, &files, 5);
    assert_eq!(node.counts().applies, 1, "the same bytes at a new time");
    files.write("a.yaml", config_map("b").to_string(), start());
    passes(&mut node, &files, 7);
    assert_eq!(node.counts().applies, 2, "other bytes at another time");
}

#[test]
fn what_vanishes_from_a_file_is_deleted_and_a_deleted_file_leaves_everything() {
    let mut files = SimulatedDirectory::new();
    file(&mut files, "a.yaml", &[config_map("a"), config_map("b")]);
    file(&mut files, "c.yaml", &[config_map("c")]);
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    passes(&mut node, &files, 2);
    files.write("a.yaml", config_map("a").to_string(), node.cluster().now());
    files.remove("c.yaml");
    passes(&mut node, &files, 4);
    let there = |name| {
        let id = windrow_model::manifest::ObjectRef::namespaced("", "ConfigMap", "default", name);
        node.cluster().get(&id).is_some()
    };
    assert!(there("a") && !there("b") && there("c"));
}

#[test]
fn a_namespace_that_does_not_exist_is_named_in_the_error_and_the_rest_is_applied() {
    let mut files = SimulatedDirectory::new();
    let mut lost = config_map("lost");
    lost["metadata"]["namespace"] = "nowhere".into();
    file(&mut files, "a.yaml", &[lost, config_map("found")]);
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    passes(&mut node, &files, 2);
    assert!(
        node.log().iter().any(|happening| matches!(&happening.what,
        HappeningKind::ApplyFailed { message, .. } if message.contains("namespaces \"nowhere\" not found")))
    );
    let id = windrow_model::manifest::ObjectRef::namespaced("", "ConfigMap", "default", "found");
    assert!(node.cluster().get(&id).is_some());
}

#[test]
fn a_definition_and_its_object_in_one_file_succeed_in_a_later_pass() {
    let mut files = SimulatedDirectory::new();
    file(
        &mut files,
        "a.yaml",
        &[definition("Pear"), of_kind("Pear", "p")],
    );
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    let outcome = run(&mut node, &files);
    assert_eq!(outcome.verdict, BootstrapVerdict::Complete);
    assert_eq!((node.counts().applies, node.counts().failed), (2, 1));
}

#[test]
fn a_marker_hides_a_file_from_the_pass_that_begins_after_it_and_no_earlier() {
    let mut files = SimulatedDirectory::new();
    file(&mut files, "a.yaml", &[config_map("a")]);
    files.write("a.yaml.skip", "", start());
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    passes(&mut node, &files, 2);
    assert_eq!(node.counts().applies, 0);
    files.remove("a.yaml.skip");
    passes(&mut node, &files, 4);
    assert_eq!(node.counts().applies, 1);
}

#[test]
fn a_dangling_link_keeps_the_whole_directory_from_being_applied() {
    let mut files = SimulatedDirectory::new();
    file(&mut files, "a.yaml", &[config_map("a")]);
    let target = "/gone".to_owned();
    files.put("note.txt", FileContent::DanglingSymlink { target }, start());
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    assert!(matches!(
        run(&mut node, &files).verdict,
        BootstrapVerdict::Stuck { .. }
    ));
    assert_eq!(node.counts().applies, 0);
    files.remove("note.txt");
    assert_eq!(run(&mut node, &files).verdict, BootstrapVerdict::Complete);
}

#[test]
fn a_fifo_hangs_the_controller_for_good_unless_it_is_hidden() {
    let mut files = SimulatedDirectory::new();
    files.put("a.yaml", FileContent::Fifo, start());
    file(&mut files, "b.yaml", &[config_map("b")]);
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    assert!(matches!(
        run(&mut node, &files).verdict,
        BootstrapVerdict::Stuck { .. }
    ));
    assert_eq!(node.deploy().hung(), Some("a.yaml"));
    files.remove("a.yaml");
    assert!(matches!(
        run(&mut node, &files).verdict,
        BootstrapVerdict::Stuck { .. }
    ));

    files.put("a.yaml", FileContent::Fifo, start());
    files.write("a.yaml.skip", "", start());
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    assert_eq!(run(&mut node, &files).verdict, BootstrapVerdict::Complete);
}

#[test]
fn two_files_of_one_addon_name_take_each_others_objects_away() {
    let mut files = SimulatedDirectory::new();
    file(&mut files, "foo.bar.yml", &[config_map("a")]);
    file(&mut files, "foo.yaml", &[config_map("b")]);
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    passes(&mut node, &files, 3);
    assert!(
        node.log()
            .iter()
            .any(|happening| matches!(happening.what, HappeningKind::Pruned { .. }))
    );
}

#[test]
fn a_name_that_no_addon_can_have_fails_for_ever_and_only_the_log_tells() {
    let mut files = SimulatedDirectory::new();
    file(&mut files, "Upper_case.yaml", &[config_map("a")]);
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    assert!(matches!(
        run(&mut node, &files).verdict,
        BootstrapVerdict::Stuck { .. }
    ));
    assert!(node.deploy().forces());
    assert_eq!(node.counts().events, 0);
}

#[test]
fn after_a_reboot_every_file_is_applied_again() {
    let mut files = SimulatedDirectory::new();
    file(&mut files, "a.yaml", &[config_map("a")]);
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 1);
    run(&mut node, &files);
    node.reboot(0);
    assert!(!node.cluster().is_up());
    run(&mut node, &files);
    assert_eq!((node.counts().applies, node.counts().repeated), (2, 1));
}

fn machine(strategy: &str) -> serde_json::Value {
    json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"name": "first"}, "spec": {"runStrategy": strategy}})
}

/// The same with a disk of Longhorn, for which no image has to be imported.
fn machine_with_a_disk(strategy: &str) -> [serde_json::Value; 2] {
    let mut machine = machine(strategy);
    machine["spec"]["template"] = json!({"spec": {"volumes": [
        {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "disk"}, "spec": {"storageClassName": "harvester-longhorn"}});
    [machine, claim]
}

fn with_machine(
    version: (u32, u32, u32),
    preset: Option<&str>,
    strategy: &str,
) -> BootstrapVerdict {
    let mut files = SimulatedDirectory::new();
    file(&mut files, "vm.yaml", &machine_with_a_disk(strategy));
    let (major, minor, patch) = version;
    let version = HarvesterVersion::new(major, minor, patch);
    let mut node = SimulatedNode::new(Scenario::harvester(version, preset, start()), 3);
    run(&mut node, &files).verdict
}

/// Releases before and after harvester#8390, which is in v1.5.1 and v1.6.0.
const BEFORE: [(u32, u32, u32); 2] = [(1, 4, 3), (1, 5, 0)];
const AFTER: [(u32, u32, u32); 2] = [(1, 5, 1), (1, 6, 0)];

/// Harvester v1.5.0 `pkg/webhook/resources/setting/validator.go` checks for VMs regardless of the value; v1.5.1 skips an empty
/// one (harvester#8407, harvester#8390).
#[test]
fn without_a_preset_a_machine_that_starts_deadlocks_harvester_before_v1_5_1_and_no_later() {
    for version in BEFORE {
        let verdict = with_machine(version, None, "Always");
        let BootstrapVerdict::Deadlocked { proof } = verdict else {
            panic!("{version:?}: {verdict:?}");
        };
        let empty = |line: &String| line.contains("the empty setting storage-network");
        assert!(proof.iter().any(empty), "{proof:#?}");
    }
    for version in AFTER {
        assert_eq!(
            with_machine(version, None, "Always"),
            BootstrapVerdict::Complete
        );
    }
}

/// rancherd `pkg/resources`, `pkg/retry` create the Setting with its value; `SetAll`
/// (`pkg/controller/global/settings/register.go`) leaves an existing one unchanged; `checkLonghornVolumeDetached`
/// (`pkg/controller/master/storagenetwork/storage_network.go`) waits for every volume.
#[test]
fn a_preset_one_deadlocks_no_version_and_is_not_configured_while_a_disk_is_attached() {
    for (version, waits) in BEFORE
        .into_iter()
        .chain(AFTER)
        .zip(["Waiting", "Waiting", "Waiting", "waiting"])
    {
        let verdict = with_machine(version, Some("{}"), "RerunOnFailure");
        let BootstrapVerdict::Unconfigured { because } = verdict else {
            panic!("{version:?}: {verdict:?}");
        };
        let says = format!("{waits} for all volumes detached: pvc-default-disk");
        assert!(because[0].ends_with(&says), "{version:?}: {because:#?}");
        assert_eq!(
            because[1..],
            ["VirtualMachine default/first keeps pvc-default-disk attached"]
        );
    }
}

#[test]
fn a_preset_one_is_configured_beside_a_machine_without_a_disk_of_longhorns() {
    for version in BEFORE.into_iter().chain(AFTER) {
        let mut files = SimulatedDirectory::new();
        file(&mut files, "vm.yaml", &[machine("Always")]);
        let (major, minor, patch) = version;
        let version = HarvesterVersion::new(major, minor, patch);
        let mut node = SimulatedNode::new(Scenario::harvester(version, Some("{}"), start()), 3);
        assert_eq!(run(&mut node, &files).verdict, BootstrapVerdict::Complete);
    }
}

/// Harvester has to import an image first for the disk of the example.
#[test]
fn who_is_first_the_storage_network_or_the_disk_is_a_race_and_harvester_comes_up_either_way() {
    let setup = Setup::first_vm(start());
    let mut seen = Vec::new();
    for seed in 1..=20 {
        let run = without_windrow(&setup, seed);
        let up = |what: &HappeningKind| matches!(what, HappeningKind::Platform { step } if step == "Harvester created its Settings");
        assert!(run.log.iter().any(|one| up(&one.what)), "seed {seed}");
        let denied = |what: &HappeningKind| matches!(what, HappeningKind::Denied { .. });
        assert!(!run.log.iter().any(|one| denied(&one.what)), "seed {seed}");
        seen.push(matches!(
            run.outcome.verdict,
            BootstrapVerdict::Unconfigured { .. }
        ));
        if !seen[seen.len() - 1] {
            assert_eq!(
                run.outcome.verdict,
                BootstrapVerdict::Complete,
                "seed {seed}"
            );
        }
    }
    assert!(seen.contains(&true) && seen.contains(&false), "{seen:?}");
}

#[test]
fn a_halted_machine_delays_an_old_harvester_and_does_not_stop_it() {
    assert_eq!(
        with_machine((1, 5, 0), None, "Halted"),
        BootstrapVerdict::Complete
    );
}

#[test]
fn the_same_seed_gives_the_same_log_event_for_event() {
    let log = |seed| {
        let mut files = SimulatedDirectory::new();
        file(
            &mut files,
            "a.yaml",
            &[definition("Pear"), of_kind("Pear", "p")],
        );
        file(&mut files, "vm.yaml", &[machine("Always")]);
        let scenario = Scenario::harvester(HarvesterVersion::LATEST, Some("{}"), start());
        let mut node = SimulatedNode::new(scenario, seed);
        run(&mut node, &files);
        node.log().to_vec()
    };
    assert_eq!(log(5), log(5));
    assert_ne!(log(5), log(6));
}

/// Two servers: the first one's files and the other's.
fn two(first: &[(&str, serde_json::Value)], second: &[(&str, serde_json::Value)]) -> Setup {
    let directory = |entries: &[(&str, serde_json::Value)]| {
        let mut files = SimulatedDirectory::new();
        for (path, object) in entries {
            file(&mut files, path, std::slice::from_ref(object));
        }
        files
    };
    Setup {
        scenario: Scenario::rke2(start()),
        files: directory(first),
        changes: Vec::new(),
        settings: Arc::default(),
        rules: std::sync::Arc::new(windrow_plan::rules::RuleSet::shipped()),
        joins: vec![JoiningNode {
            name: "n2".to_owned(),
            role: JoinRole::Server,
            files: directory(second),
            changes: Vec::new(),
            settings: Arc::default(),
            rules: std::sync::Arc::new(windrow_plan::rules::RuleSet::shipped()),
        }],
    }
}

#[test]
fn servers_with_the_same_files_come_up_together_and_each_with_its_own() {
    let setup = two(
        &[("a.yaml", config_map("a")), ("b.yaml", config_map("b"))],
        &[("a.yaml", config_map("a")), ("c.yaml", config_map("c"))],
    );
    for run in [
        without_windrow(&setup, 1),
        with_windrow(&setup, &Faults::NONE, 1),
    ] {
        assert_eq!(
            run.outcome.verdict,
            BootstrapVerdict::Complete,
            "{:#?}",
            run.log
        );
        assert_eq!(run.joined[0].applied, ["a.yaml", "c.yaml"]);
        let joined = |what: &HappeningKind| matches!(what, HappeningKind::ApiReady);
        let ready: Vec<usize> = run
            .log
            .iter()
            .filter(|one| joined(&one.what))
            .map(|one| one.server)
            .collect();
        assert_eq!(ready, [0, 1]);
    }
}

#[test]
fn servers_whose_files_differ_take_the_addon_from_one_another() {
    let setup = two(
        &[("a.yaml", config_map("a"))],
        &[("a.yaml", config_map("b"))],
    );
    let run = without_windrow(&setup, 1);
    let BootstrapVerdict::Stuck { missing } = &run.outcome.verdict else {
        panic!("{:?}", run.outcome.verdict);
    };
    assert!(
        missing[0].contains("that of n2 took its place"),
        "{missing:?}"
    );
    // While anything fails on both, they do so in every pass.
    let lost = ("z.yaml", of_kind("Lost", "z"));
    let setup = two(
        &[("a.yaml", config_map("a")), lost.clone()],
        &[("a.yaml", config_map("b")), lost],
    );
    let run = without_windrow(&setup, 1);
    let BootstrapVerdict::Stuck { missing } = &run.outcome.verdict else {
        panic!("{:?}", run.outcome.verdict);
    };
    let says = |line: &String| line.contains("take the Addon a from one another");
    assert!(missing.iter().any(says), "{missing:?}");
}

#[test]
fn rke2_rewrites_charts_when_it_starts_and_windrow_takes_that_for_nothing_new() {
    let chart = json!({"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
        "metadata": {"name": "c", "namespace": "kube-system"}, "spec": {"chart": "c"}});
    let mut files = SimulatedDirectory::new();
    file(&mut files, "c.yaml", &[chart]);
    let mut setup = Setup::first_vm(start());
    setup.scenario = Scenario::rke2(start());
    setup.scenario.rewrites_charts = true;
    setup.scenario.reboots = vec![(Duration::from_secs(1200), 0)];
    setup.files = files;
    let run = with_windrow(&setup, &Faults::NONE, 1);
    assert_eq!(
        run.outcome.verdict,
        BootstrapVerdict::Complete,
        "{:#?}",
        run.log
    );
    let count =
        |test: fn(&HappeningKind) -> bool| run.log.iter().filter(|one| test(&one.what)).count();
    // At the first start, and after the restart, for which yip has restored the file.
    assert_eq!(
        count(|what| matches!(what, HappeningKind::Written { .. })),
        2
    );
    assert_eq!(count(|what| matches!(what, HappeningKind::Reboot)), 1);
    assert_eq!(
        count(|what| matches!(what, HappeningKind::ApplyFailed { .. })),
        0
    );
}

#[test]
fn a_file_that_is_written_late_is_there_when_the_seed_says() {
    let mut setup = two(&[], &[]);
    setup.joins.clear();
    setup.changes.push(DirectoryChange {
        after: Duration::from_secs(100),
        late: Duration::from_secs(50),
        by: Some("somebody".to_owned()),
        path: "a.yaml".to_owned(),
        content: Some(FileContent::Bytes(config_map("a").to_string().into_bytes())),
    });
    let mut times: Vec<Timestamp> = (1..=5)
        .map(|seed| {
            let run = without_windrow(&setup, seed);
            assert_eq!(run.outcome.applied, ["a.yaml"]);
            let written = |what: &HappeningKind| matches!(what, HappeningKind::Written { .. });
            run.log.iter().find(|one| written(&one.what)).unwrap().at
        })
        .collect();
    times.dedup();
    assert!(times.len() > 1, "{times:?}");
}
