//! Bootstraps of the simulation, recorded as flights, decided a second time, and analyzed for their use of time.

use jiff::Timestamp;
use serde_json::Value;
use windrow_decide::flight::{DigestKey, FlightLine, RecordedFile};
use windrow_model::manifest::{FileContent, ReadLimits, read as read_manifest, sha256_hex};
use windrow_plan::rules::RuleSet;
use windrow_plan::{SourceMap, examine};
use windrow_replay::{
    BootState, BootTimeline, Difference, Flights, Replay, Segment, WaitedOn, boots, changes,
    recorded_times,
};
use windrow_simulate::{FIRST_VM, Faults, Run, Setup, recorded};

fn start() -> Timestamp {
    // 2026-01-01T00:00:00Z
    Timestamp::constant(1_767_225_600, 0)
}

fn text(lines: &[FlightLine]) -> String {
    lines
        .iter()
        .map(|line| serde_json::to_string(line).expect("a line can be written") + "\n")
        .collect()
}

/// A flight of the first virtual machine's bootstrap, as in a file.
fn flight(faults: &Faults, seed: u64) -> String {
    let setup = Setup::first_vm(start());
    let (_, lines) = recorded(&setup, &RuleSet::shipped_sources(), faults, seed);
    text(&lines)
}

fn replay(flights: &Flights) -> (usize, Vec<Difference>) {
    let mut decisions = 0;
    let mut differences = Vec::new();
    for segment in &flights.segments {
        let mut replay = Replay::new(segment);
        while let Some(moment) = replay.step().expect("a flight can be replayed") {
            decisions += 1;
            differences.extend(moment.differences);
        }
    }
    (decisions, differences)
}

#[test]
fn a_bootstrap_that_was_recorded_is_decided_the_same_way_again() {
    for seed in 0..5 {
        let flights = Flights::read(&flight(&Faults::NONE, seed)).unwrap();
        let (decisions, differences) = replay(&flights);
        assert!(decisions > 10, "only {decisions} decisions");
        assert_eq!(differences, [], "seed {seed}");
    }
}

#[test]
fn so_it_is_when_everything_goes_wrong_that_can() {
    for seed in 0..5 {
        let flights = Flights::read(&flight(&Faults::ALL, seed)).unwrap();
        assert_eq!(replay(&flights).1, [], "seed {seed}");
    }
}

/// A file that lacks a kind which its chart adds late, and knowledge of the delay.
fn learned_setup() -> (Setup, Vec<(String, String)>) {
    let knowledge = "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {name: learned}\nentries:\n  - name: chart-widgets\n    by: {chart: widgets}\n    \
         kinds: [{group: example.com, namespaced: [Widget]}]\n    source: a test\n    \
         times: {p5: 1m, p25: 2m, half: 3m, p75: 4m, p95: 5m}\n    seen: {boots: 13, of: 14, last: 2026-11-23}\n\
         phases:\n  - {phase: manifests, times: {p5: 1s, p25: 1s, half: 1s, p75: 1s, p95: 2s}, seen: {boots: 9, of: 9, last: 2026-11-23}}\n";
    let mut packs = RuleSet::shipped_sources();
    packs.push(("knowledge.d/learned.yaml".to_owned(), knowledge.to_owned()));
    let (rules, errors) = RuleSet::load(&packs);
    assert_eq!(errors, []);
    let mut setup = Setup::first_vm(start());
    setup.rules = rules.into();
    let chart = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: widgets, namespace: kube-system}\nspec: {chart: widgets}\n";
    let half = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\napiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n";
    for (path, text) in [("widgets.yaml", chart), ("half.yaml", half)] {
        setup.files.write(path, text, start());
    }
    (setup, packs)
}

/// Settings and knowledge are in the flight.
#[test]
fn a_flight_with_learned_knowledge_is_decided_the_same_way_again() {
    let (setup, packs) = learned_setup();
    let (_, lines) = recorded(&setup, &packs, &Faults::NONE, 3);
    let text = text(&lines);
    let flights = Flights::read(&text).unwrap();
    let (decisions, differences) = replay(&flights);
    assert!(decisions > 10, "only {decisions} decisions");
    assert_eq!(differences, []);
    // The knowledge names the chart that contains the kind.
    assert!(text.contains("knowledge.d/learned.yaml"));
}

#[test]
fn a_decision_that_would_be_another_one_today_is_told() {
    let text = flight(&Faults::NONE, 1);
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // A rule that was in force during the recording has changed since.
    let configuration = lines
        .iter_mut()
        .find(|line| line["is"] == "configuration")
        .unwrap();
    let packs = configuration["rules"].as_array_mut().unwrap();
    packs.retain(|pack| !pack["name"].as_str().unwrap().contains("40-harvester-vm"));
    let changed: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let (_, differences) = replay(&Flights::read(&changed).unwrap());
    assert!(
        differences
            .iter()
            .any(|one| one.what == "00-registry.yaml" && one.recorded.starts_with("held")),
        "{differences:#?}"
    );
}

#[test]
fn nothing_of_a_secret_or_of_cloud_init_stands_in_a_flight() {
    let setup = Setup::first_vm(start());
    let (_, lines) = recorded(&setup, &RuleSet::shipped_sources(), &Faults::NONE, 1);
    let text = text(&lines);
    assert!(FIRST_VM.contains("ssh_authorized_keys") || FIRST_VM.contains("#cloud-config"));
    for secret in ["#cloud-config", "ssh_authorized_keys", "ssh-ed25519"] {
        assert!(!text.contains(secret), "{secret} stands in the flight");
    }
}

#[test]
fn a_last_line_that_was_torn_is_left_out_and_the_rest_is_replayed() {
    let whole = flight(&Faults::NONE, 1);
    let all = replay(&Flights::read(&whole).unwrap()).0;
    let torn = &whole[..whole.len() - 20];
    let flights = Flights::read(torn).unwrap();
    assert!(flights.damage[0].contains("torn"), "{:?}", flights.damage);
    assert_eq!(replay(&flights), (all - 1, Vec::new()));
    // The next process continues after it.
    let continued = format!("{torn}\n{whole}");
    let flights = Flights::read(&continued).unwrap();
    assert_eq!(flights.segments.len(), 2);
    assert_eq!(replay(&flights), (all - 1 + all, Vec::new()));
    // An error reports a file that is not a flight.
    assert!(Flights::read("").is_err());
    assert!(Flights::read("{\"kind\": \"Pod\"}\n").is_err());
    let later = whole.replacen("\"version\":1", "\"version\":99", 1);
    assert!(
        Flights::read(&later)
            .unwrap_err()
            .contains("format version 99")
    );
}

/// A flight, played to its end with one more rule pack.
fn played_with<'a>(segment: &'a Segment, pack: &str) -> Replay<'a> {
    assert_eq!(RuleSet::load(&[("p".to_owned(), pack.to_owned())]).1, []);
    let further = vec![("99-other.yaml".to_owned(), pack.to_owned())];
    let mut other = Replay::with_rules(segment, further);
    while other.step().expect("a line that is played").is_some() {}
    other
}

#[test]
fn other_rules_tell_what_would_have_been_held_instead() {
    let flights = Flights::read(&flight(&Faults::NONE, 1)).unwrap();
    let segment = &flights.segments[0];
    let pack = "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: other}\nrules:\n- name: waits\n  match: {group: kubevirt.io, kind: VirtualMachine}\n  reason: to see what happens\n  tier: required\n  onDeadline: keep\n  requires:\n  - object: {group: '', kind: Namespace, name: never}\n    condition: exists\n";
    let other = played_with(segment, pack);
    let all = changes(&recorded_times(segment), &other.times());
    let change = all
        .iter()
        .find(|change| change.file == "00-registry.yaml")
        .unwrap_or_else(|| panic!("{all:#?}"));
    assert!(change.recorded.released.is_some(), "{change:?}");
    assert_eq!(change.instead.released, None, "{change:?}");
    // The rules of the recording change nothing.
    let mut same = Replay::with_rules(segment, Vec::new());
    while same.step().unwrap().is_some() {}
    assert_eq!(changes(&recorded_times(segment), &same.times()), []);
}

#[test]
fn a_deadline_of_other_rules_ends_a_hold_though_nothing_was_decided_at_that_time() {
    let flights = Flights::read(&flight(&Faults::NONE, 1)).unwrap();
    let segment = &flights.segments[0];
    let pack = "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: other}\nrules:\n- name: waits\n  match: {group: '', kind: Namespace, name: orchard}\n  reason: to see what happens\n  tier: required\n  deadline: 7s\n  onDeadline: release\n  requires:\n  - object: {group: '', kind: Namespace, name: never}\n    condition: exists\n";
    let other = played_with(segment, pack);
    let times = other.times();
    let released = times.get("orchard.yaml").and_then(|file| file.released);
    let decided = segment.lines.iter().filter_map(|(_, line)| match line {
        FlightLine::Decision(recorded) => Some(recorded.at),
        _ => None,
    });
    assert!(
        released.is_some() && decided.into_iter().all(|at| Some(at) != released),
        "{times:#?}"
    );
}

#[test]
fn a_file_without_its_secrets_is_examined_as_the_file_itself() {
    let setup = Setup::first_vm(start());
    let rules = RuleSet::shipped();
    let platform = Some(setup.platform());
    let mut seen = 0;
    for (path, file) in setup.files.manifests() {
        let FileContent::Bytes(_) = &**file.content() else {
            continue;
        };
        let read = read_manifest(path, file.content(), &ReadLimits::default());
        let back = RecordedFile::from_manifest(&read, usize::MAX);
        let line = serde_json::to_string(&back).unwrap();
        let back: RecordedFile = serde_json::from_str(&line).unwrap();
        let of = |file| {
            format!(
                "{:?}",
                examine(file, SourceMap::itself(path), &rules, platform)
            )
        };
        assert_eq!(of(&back.restore()), of(&read));
        seen += 1;
    }
    assert!(seen > 2);
}

#[test]
fn a_file_for_which_there_is_no_room_is_named_with_the_reason() {
    let content = FileContent::Bytes(FIRST_VM.as_bytes().to_vec());
    let read = read_manifest("x.yaml", &content, &ReadLimits::default());
    let recorded = RecordedFile::from_manifest(&read, 10);
    assert!(recorded.left_out.is_some() && recorded.documents.is_empty());
    assert_eq!(recorded.digest, read.digest);
}

#[test]
fn a_flight_whose_digests_are_keyed_is_decided_as_it_was_and_holds_none_of_the_plain_ones() {
    let start = jiff::Timestamp::constant(1_767_225_600, 0);
    let setup = Setup::first_vm(start);
    let (_, lines) = recorded(&setup, &RuleSet::shipped_sources(), &Faults::NONE, 1);
    let plain: Vec<String> = setup
        .files
        .manifests()
        .filter_map(|(_, file)| match &**file.content() {
            FileContent::Bytes(bytes) => Some(sha256_hex(bytes)),
            _ => None,
        })
        .collect();
    let write = |byte: u8| -> String {
        let key = DigestKey::new([byte; 32]);
        lines.iter().map(|line| key.line(line).unwrap()).collect()
    };
    let (one, other) = (write(1), write(2));
    for digest in &plain {
        assert!(!one.contains(digest), "{digest} can be guessed at");
    }
    assert_ne!(one, other);
    let flights = Flights::read(&one).unwrap();
    let mut decisions = 0;
    for segment in &flights.segments {
        let mut replay = Replay::new(segment);
        while let Some(moment) = replay.step().unwrap() {
            assert_eq!(moment.differences, [], "line {}", moment.line);
            decisions += 1;
        }
    }
    assert!(decisions > 3);
}

fn flown(faults: &Faults, seed: u64) -> (Run, Flights) {
    let setup = Setup::first_vm(start());
    let (run, lines) = recorded(&setup, &RuleSet::shipped_sources(), faults, seed);
    (run, Flights::read(&text(&lines)).expect("a flight"))
}

/// The timeline of the last boot.
fn last(flights: &Flights) -> BootTimeline {
    let boots = boots(flights);
    let (last, earlier) = boots.split_last().expect("a boot");
    BootTimeline::from_boot(last, earlier).expect("a timeline")
}

fn assert_whole(timeline: &BootTimeline) {
    let mut reached = 0.0;
    for step in &timeline.chain {
        assert!((step.from - reached).abs() < 1e-6, "{:#?}", timeline.chain);
        assert!(step.to > step.from, "{step:?}");
        reached = step.to;
    }
    assert!((reached - timeline.end.at).abs() < 0.06, "{timeline:#?}");
    for file in &timeline.files {
        let times = [file.held, file.released, file.applied];
        let times: Vec<f64> = times.into_iter().flatten().collect();
        assert!(times.is_sorted(), "{file:?}");
        for (before, after) in file.waits.iter().zip(file.waits.iter().skip(1)) {
            assert!((before.to - after.from).abs() < 1e-6, "{file:?}");
        }
    }
}

#[test]
fn the_chain_of_a_bootstrap_goes_from_power_on_to_the_last_file_without_a_gap() {
    for seed in 0..8 {
        let (run, flights) = flown(&Faults::NONE, seed);
        let timeline = last(&flights);
        assert_whole(&timeline);
        assert_eq!(timeline.end.state, BootState::Staged, "seed {seed}");
        assert_eq!(timeline.cautions, [""; 0], "seed {seed}");
        assert_eq!(timeline.files.len(), run.outcome.applied.len());
        let (first, last) = (
            timeline.chain.first().unwrap(),
            timeline.chain.last().unwrap(),
        );
        assert_eq!(first.on, WaitedOn::Node);
        let latest = timeline.files.iter().filter_map(|file| file.applied);
        let latest = latest.fold(0.0, f64::max);
        let decided = last.file.as_ref().unwrap();
        let decided = timeline
            .files
            .iter()
            .find(|file| file.file == *decided)
            .unwrap();
        assert_eq!(decided.applied, Some(latest), "seed {seed}");
        for file in &timeline.files {
            // RKE2 scans every 15 seconds, and applying takes a moment.
            assert!(file.poll_seconds.unwrap() < 20.0, "{file:?}");
        }
    }
}

#[test]
fn the_storage_network_decides_when_the_first_machine_comes_up() {
    let (_, flights) = flown(&Faults::NONE, 1);
    let timeline = last(&flights);
    let waited = timeline
        .chain
        .iter()
        .find(|step| step.on == WaitedOn::Requirement)
        .unwrap();
    assert!(
        waited.file.as_deref() == Some("00-registry.yaml"),
        "{waited:?}"
    );
    assert!(waited.text.contains("storage-network"), "{waited:?}");
}

#[test]
fn a_chain_is_whole_whatever_goes_wrong() {
    for seed in 0..8 {
        let (_, flights) = flown(&Faults::ALL, seed);
        let boots = boots(&flights);
        for (number, boot) in boots.iter().enumerate() {
            let timeline = BootTimeline::from_boot(boot, &boots[..number]).unwrap();
            assert_whole(&timeline);
        }
    }
}

#[test]
fn a_flight_that_ends_in_the_middle_ends_in_what_is_still_waited_for() {
    let (_, mut flights) = flown(&Faults::NONE, 1);
    let lines = &mut flights.segments[0].lines;
    let is_release = |line: &FlightLine| match line {
        FlightLine::Decision(one) => one
            .events
            .iter()
            .any(|told| told.message.contains("released")),
        _ => false,
    };
    let released = lines.iter().position(|(_, line)| is_release(line)).unwrap();
    lines.truncate(released);
    let timeline = last(&flights);
    assert_whole(&timeline);
    assert_eq!(timeline.end.state, BootState::Underway);
    let open = timeline.chain.last().unwrap();
    assert!(open.open && open.file.is_some(), "{open:?}");
    assert!(timeline.files.iter().any(|file| file.released.is_none()));
}
