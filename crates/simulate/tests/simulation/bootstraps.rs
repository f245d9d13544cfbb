//! Whole bootstraps of a simulated node, with Windrow and without it, and with every possible fault: level 2 of
//! `docs/testing.md`.
//!
//! A failing seed is printed with how to replay it. `WINDROW_SEEDS=20000` tries more seeds, `WINDROW_SEEDS=20000..40000` these,
//! and `WINDROW_SEED=4711` just one.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use windrow_decide::{FileStage, Mark};
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::{FileContent, GroupKind};
use windrow_plan::rules::RuleSet;
use windrow_simulate::{
    Arrival, BootstrapVerdict, Faults, Happening, HappeningKind, JoinRole, JoiningNode,
    PreparedSetup, Run, Scenario, Setup, SimulatedDirectory, with_windrow, without_windrow,
};

use crate::scenarios::{self, Drawn};

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

/// Eleven files: one needs a kind that a later file brings, three need kinds that do not exist yet.
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

/// When something first happened.
fn when(run: &Run, test: impl Fn(&HappeningKind) -> bool) -> Option<Timestamp> {
    run.log.iter().find(|one| test(&one.what)).map(|one| one.at)
}

fn position(run: &Run, test: impl Fn(&HappeningKind) -> bool) -> Option<usize> {
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
/// definitions that it needs.
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

pub(crate) fn timeline(run: &Run) -> String {
    let lines: Vec<_> = run
        .log
        .iter()
        .map(|one| format!("{} {}", one.at, one.what))
        .collect();
    lines.join("\n")
}

/// The scenarios of the seeds: a bit of everything that can complete.
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

/// What must hold at the end of every run, whatever faults occurred. `kept` are files that stay held on purpose.
pub(crate) fn check(setup: &Setup, kept: &[String], run: &Run) -> Result<(), String> {
    let kept: Vec<String> = kept
        .iter()
        .filter(|path| !is_released_by_hand(run, path))
        .cloned()
        .collect();
    let kept = &kept[..];
    let is_done = match &run.outcome.verdict {
        BootstrapVerdict::Complete => true,
        // What RKE2 refuses, and one of two that take each other's objects away.
        BootstrapVerdict::Stuck { missing } => missing.iter().all(|what| is_lost(what)),
        _ => false,
    };
    if !is_done {
        return Err(format!("not complete: {:?}", run.outcome));
    }
    check_delay(setup, run)?;
    if run.restless != 0 {
        return Err("goes on acting though nothing happens".to_owned());
    }
    let joined = run.joined.iter();
    let untrue = joined.clone().flat_map(|node| &node.untrue);
    let untrue: Vec<&String> = run.untrue.iter().chain(untrue).collect();
    if !untrue.is_empty() {
        return Err(format!("said what is not so: {untrue:?}"));
    }
    let releases = joined.flat_map(|node| &node.releases);
    for release in run.releases.iter().chain(releases) {
        if !release.unmet.is_empty() {
            return Err(format!("released too early: {release:?}"));
        }
    }
    check_last_word(setup, kept, run)?;
    for (path, file) in setup
        .files
        .iter()
        .filter(|(path, _)| path.ends_with(".skip"))
    {
        if run.files.get(path).map(|kept| kept.content()) != Some(file.content()) {
            return Err(format!("touched {path}, which is not Windrow's"));
        }
    }
    let is_kept = |path: &str| kept.iter().any(|kept| kept == path);
    for (path, file) in run.files.iter() {
        let Some(held) = path.strip_suffix(".skip") else {
            continue;
        };
        let FileContent::Bytes(bytes) = &**file.content() else {
            continue;
        };
        if Mark::parse(bytes).is_some() && !is_kept(held) {
            return Err(format!("{path} is left"));
        }
    }
    for path in kept {
        if !run.files.is_hidden(path) {
            return Err(format!("{path} is no longer held"));
        }
        if run
            .releases
            .iter()
            .any(|release| release.file == path.as_str())
            && path != "once.yaml"
        {
            return Err(format!("{path} was released"));
        }
    }
    for (path, entry) in &run.ledger.files {
        if matches!(entry.state, FileStage::Held { .. }) && !is_kept(path) {
            return Err(format!("the ledger still holds {path}"));
        }
    }
    Ok(())
}

/// Did a person let it go that was to stay held?
fn is_released_by_hand(run: &Run, path: &str) -> bool {
    let said = format!("somebody releases {path}");
    let is_said =
        |what: &HappeningKind| matches!(what, HappeningKind::Fault { fault } if *fault == said);
    position(run, is_said).is_some()
}

/// Does this path, or a sentence that begins with one, tell of a file that RKE2 cannot have applied in the end?
fn is_lost(path: &str) -> bool {
    path.starts_with(scenarios::REFUSED)
        || path.trim_start_matches("sub/").starts_with(scenarios::PAIR)
}

/// The longest of Windrow's deadlines, a poll of RKE2's, and what RKE2 takes.
const LONGEST_WAIT: Duration = Duration::from_secs(35 * 60);

/// Is nothing held longer than the longest deadline once everything has come and nothing goes wrong any more?
fn check_delay(setup: &Setup, run: &Run) -> Result<(), String> {
    let calm = setup.scenario.start + Faults::ALL.until;
    // What comes from outside comes later by as much as RKE2 is away.
    let ready = |one: &&Happening| one.what == HappeningKind::ApiReady;
    let up = run.log.iter().rfind(ready).map_or(calm, |one| one.at);
    let arrivals = setup.scenario.arrivals.iter().map(|one| up + one.after);
    let changes = setup
        .changes
        .iter()
        .map(|one| setup.scenario.start + one.after);
    // What waits for the platform is applied when that has come up.
    let is_platform = |what: &HappeningKind| {
        matches!(
            what,
            HappeningKind::Platform { .. } | HappeningKind::ApiReady | HappeningKind::Served { .. }
        )
    };
    let platform = run.log.iter().rfind(|one| is_platform(&one.what));
    let come = arrivals.chain(changes).chain(platform.map(|one| one.at));
    let come = come.chain([calm]).max().unwrap_or(calm);
    let lifts = |what: &HappeningKind| matches!(what, HappeningKind::Lifted { .. });
    match run.log.iter().rfind(|one| lifts(&one.what)) {
        Some(one) if one.at > come + LONGEST_WAIT => Err(format!(
            "{} at {}, and everything was there at {come}",
            one.what, one.at
        )),
        _ => Ok(()),
    }
}

/// Everything is done: does every server's last word say so?
fn check_last_word(setup: &Setup, kept: &[String], run: &Run) -> Result<(), String> {
    for server in 0..=setup.joins.len() {
        let Some((_, _, Some(status))) = run.results_of(server) else {
            return Err(format!("server {server} says nothing"));
        };
        let staging = &status.staging;
        let is_kept = |file: &str| kept.iter().any(|kept| kept == file);
        // Nobody wants to have a pipe there, or what RKE2 refuses or can never apply.
        let fails = [scenarios::PARTLY, scenarios::REFUSED];
        let fails = fails
            .into_iter()
            .filter(|path| run.files.get(path).is_some());
        let fails: Vec<&str> = fails.collect();
        let waits = is_kept("pipe.yaml") || is_kept(scenarios::HOPELESS);
        let is_settled = staging.settled != (waits || !fails.is_empty());
        let failed: Vec<&str> = staging.failed.iter().map(|one| one.file.as_str()).collect();
        let mut released = staging.released.iter().map(|one| &one.file);
        // Failures have the cluster's time. Where Windrow's clock was set, they may be of before, or of a day to come.
        let set = |what: &HappeningKind| matches!(what, HappeningKind::Fault { fault } if fault.starts_with("the wall clock"));
        let is_said = match position(run, set) {
            None => failed == fails && is_settled,
            Some(_) => {
                failed.iter().all(|file| is_lost(file)) && (is_settled || !failed.is_empty())
            }
        };
        let is_done = released.all(|file| is_lost(file)) && is_said;
        let foreign = |file: &str| setup.files.get(&format!("{file}.skip")).is_some();
        let mut held = staging.held.iter().map(|held| &held.file);
        if !is_done || !held.all(|file| is_kept(file) || foreign(file)) {
            return Err(format!("server {server} says in the end: {status:#?}"));
        }
    }
    Ok(())
}

#[allow(
    clippy::disallowed_methods,
    reason = "a test takes its seeds from whoever runs it"
)]
pub(crate) fn seeds() -> std::ops::Range<u64> {
    let number = |text: &str| text.parse::<u64>().expect("a number");
    if let Ok(seed) = std::env::var("WINDROW_SEED") {
        let seed = number(&seed);
        return seed..seed + 1;
    }
    let seeds = std::env::var("WINDROW_SEEDS").unwrap_or_else(|_| "60".to_owned());
    let (from, to) = seeds.split_once("..").unwrap_or(("0", &seeds));
    number(from)..number(to)
}

/// Runs with every fault.
pub(crate) fn try_seed(
    name: &str,
    setup: &Setup,
    kept: &[String],
    seed: u64,
) -> Result<(), BrokenRule> {
    judge(name, setup, kept, with_windrow(setup, &Faults::ALL, seed))
}

fn judge(name: &str, setup: &Setup, kept: &[String], run: Run) -> Result<(), BrokenRule> {
    let broken = |problem| BrokenRule {
        problem: format!("{name}, seed {}: {problem}", run.seed),
        timeline: timeline(&run),
    };
    check(setup, kept, &run).map_err(broken)
}

/// What a run broke, and how it came to that.
pub(crate) struct BrokenRule {
    problem: String,
    timeline: String,
}

/// Tries every seed, and then tells of all that break a rule: how the first came to that, and how to replay it.
pub(crate) fn for_all_seeds(mut test: impl FnMut(u64) -> Result<(), BrokenRule>) {
    const MOST: usize = 20;
    let broken = seeds().filter_map(|seed| test(seed).err());
    let broken: Vec<BrokenRule> = broken.take(MOST).collect();
    let problems: Vec<&str> = broken.iter().map(|one| one.problem.as_str()).collect();
    if let Some(first) = broken.first() {
        panic!(
            "{}\n\nthe first:\n{}\nreplay: WINDROW_SEED=n cargo test -p windrow-simulate --test simulation",
            problems.join("\n"),
            first.timeline
        );
    }
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

#[test]
fn the_same_seed_gives_the_same_run() {
    let setup = Setup::first_vm(start());
    let one = with_windrow(&setup, &Faults::ALL, 11);
    let other = with_windrow(&setup, &Faults::ALL, 11);
    assert_eq!(one.log, other.log);
    assert_eq!(one.ledger, other.ledger);
}
