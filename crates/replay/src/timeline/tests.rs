//! Timelines of handmade flights. `crates/simulate/tests/flight.rs` has those of simulated boots.

mod chain;
mod course;
mod files;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use windrow_decide::flight::{FlightHead, FlightLine, RecordedDecision, RecordedStage, VERSION};
use windrow_decide::{
    Cause, ExpectationSource, FileStage, Ledger, LedgerEntry, Phase, PhaseExpectation, Readiness,
    StatusReason, UsualTime,
};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

use super::axis::Axis;
use super::chain::chain;
use super::course::BootCourse;
use super::files::{FileCourse, FileCourses, StagingMoment};
use super::usual::add_expected;
use super::{BootState, BootTimeline, FileWait, WaitedOn};
use crate::{Flights, Segment, boots};

/// 2026-01-01T00:00:00Z
const START: i64 = 1_767_225_600;

fn after(seconds: i64) -> Timestamp {
    Timestamp::constant(START, 0) + SignedDuration::from_secs(seconds)
}

/// A segment of a process that starts when the segment begins.
fn segment(boot: Option<&str>, began: i64, decisions: Vec<RecordedDecision>) -> Segment {
    Segment {
        head: FlightHead {
            version: VERSION,
            windrow: "0.1.0".to_owned(),
            at: after(began),
            boot: boot.map(str::to_owned),
        },
        lines: (2..)
            .zip(decisions)
            .map(|(number, one)| (number, FlightLine::Decision(Box::new(one))))
            .collect(),
    }
}

fn flights(segments: Vec<Segment>) -> Flights {
    Flights {
        segments,
        damage: Vec::new(),
    }
}

fn decision(at: i64, readiness: Readiness, phase: Phase, code: Code) -> RecordedDecision {
    RecordedDecision {
        at: after(at),
        facts: BTreeMap::new(),
        gone: Vec::new(),
        ledger: None,
        actions: Vec::new(),
        events: Vec::new(),
        readiness,
        phase,
        reason: StatusReason {
            code,
            message: format!("because of {code}"),
        },
        summary: String::new(),
        files: BTreeMap::new(),
        forgotten: Vec::new(),
        next_wake: None,
    }
}

/// The process started at `started`. `answered` is when kube-apiserver answered, or `None` if it has not yet.
fn with_api(mut one: RecordedDecision, started: i64, answered: Option<i64>) -> RecordedDecision {
    let fact = json!({"about": "api", "started": after(started), "firstReachable": answered.map(after), "unreachable": null});
    one.facts.insert("api".to_owned(), fact);
    one
}

fn with_file(mut one: RecordedDecision, path: &str, stage: RecordedStage) -> RecordedDecision {
    one.files.insert(path.into(), stage);
    one
}

const HELD: RecordedStage = RecordedStage::Held {
    code: Code::WaitsForKind,
};

/// A probed boot that is Ready after `seconds`, whose process starts at `began`.
fn whole_boot(id: &str, began: i64, seconds: i64) -> Segment {
    let api = |one| with_api(one, began, Some(began + seconds / 2));
    let decisions = vec![
        with_api(setting_up(began, Phase::Network), began, None),
        setting_up(began + 5, Phase::Api),
        api(setting_up(began + seconds / 2, Phase::Node)),
        decision(
            began + seconds,
            Readiness::Ready,
            Phase::Ready,
            Code::NodeReady,
        ),
    ];
    segment(Some(id), began, decisions)
}

fn setting_up(at: i64, phase: Phase) -> RecordedDecision {
    decision(at, Readiness::SettingUp, phase, Code::ProbeFailed)
}

fn last(flights: &Flights) -> BootTimeline {
    let boots = boots(flights);
    let (last, earlier) = boots.split_last().unwrap();
    BootTimeline::from_boot(last, earlier).unwrap()
}

/// The chain has no gap and no overlap, from the beginning to the end.
fn assert_whole(timeline: &BootTimeline) {
    let mut reached = 0.0;
    for step in &timeline.chain {
        assert!((step.from - reached).abs() < 1e-6, "{:#?}", timeline.chain);
        assert!(step.to > step.from, "{step:?}");
        reached = step.to;
    }
    assert!((reached - timeline.end.at).abs() < 0.06, "{timeline:#?}");
}

#[test]
fn boots_are_told_apart_by_the_kernels_id_and_without_one_by_the_process() {
    let one = |boot, began, started| {
        let only = with_api(setting_up(began, Phase::Api), started, None);
        segment(boot, began, vec![only])
    };
    let flights = flights(vec![
        one(Some("a"), 0, 0),
        // The same boot: the daemon was restarted.
        one(Some("a"), 100, 100),
        one(Some("b"), 200, 200),
        one(None, 300, 300),
        // The same process: its file was begun again.
        one(None, 400, 300),
        one(None, 500, 500),
        // Nothing was decided.
        segment(Some("c"), 600, Vec::new()),
    ]);
    let sizes: Vec<usize> = boots(&flights)
        .iter()
        .map(|boot| boot.segments.len())
        .collect();
    assert_eq!(sizes, [2, 1, 2, 1]);
}

#[test]
fn a_boot_has_its_phases_and_a_chain_from_its_beginning_to_ready() {
    let timeline = last(&flights(vec![whole_boot("a", 0, 60)]));
    assert_whole(&timeline);
    assert_eq!(timeline.end.state, BootState::Ready);
    assert_eq!(timeline.end.at, 60.0);
    let phases: Vec<_> = timeline
        .phases
        .iter()
        .map(|phase| (phase.name, phase.from, phase.to, phase.ended))
        .collect();
    let expected = [
        (Phase::Network, 0.0, 5.0, true),
        (Phase::Api, 5.0, 30.0, true),
        (Phase::Node, 30.0, 60.0, true),
    ];
    assert_eq!(phases, expected);
    assert_eq!(timeline.usual, None);
}

#[test]
fn what_happens_after_the_node_is_ready_is_not_part_of_its_boot() {
    let mut boot = whole_boot("a", 0, 60);
    let later = decision(7000, Readiness::Failed, Phase::Node, Code::ProbeFailed);
    let later = with_file(later, "later.yaml", HELD);
    boot.lines.push((9, FlightLine::Decision(Box::new(later))));
    let timeline = last(&flights(vec![boot]));
    assert_eq!(timeline.end.state, BootState::Ready);
    assert_eq!(timeline.end.at, 60.0);
    assert_eq!(timeline.files, []);
}

#[test]
fn usual_is_the_median_of_earlier_boots_that_ended_and_were_of_the_same_sort() {
    let mut with_files = whole_boot("files", 40_000, 9000);
    if let Some((_, FlightLine::Decision(first))) = with_files.lines.first_mut() {
        first.files.insert("a.yaml".into(), HELD);
    }
    let unfinished = segment(
        Some("cut short"),
        50_000,
        vec![setting_up(50_000, Phase::Api)],
    );
    let flights = flights(vec![
        whole_boot("a", 0, 60),
        whole_boot("b", 10_000, 100),
        whole_boot("c", 20_000, 80),
        with_files,
        unfinished,
        whole_boot("now", 60_000, 200),
    ]);
    let timeline = last(&flights);
    let usual = timeline.usual.unwrap();
    assert_eq!((usual.boots, usual.median_seconds), (3, 80.0));
    let node = timeline.phases.last().unwrap();
    assert_eq!(node.name, Phase::Node);
    assert_eq!(node.usual.unwrap().median_seconds, 40.0);
}

#[test]
fn a_phase_of_which_the_flight_has_too_few_boots_is_compared_with_what_the_node_expected() {
    let expected = |boots: usize, from| PhaseExpectation {
        seconds: 600,
        from,
        usual: Some(UsualTime {
            boots,
            median: 90,
            p90: 200,
        }),
    };
    let usual_of = |in_flight: usize, known: PhaseExpectation| {
        let mut segments: Vec<Segment> = (0..in_flight)
            .map(|number| {
                let began = i64::try_from(number).unwrap() * 10_000;
                whole_boot(&format!("b{number}"), began, 60)
            })
            .collect();
        segments.push(whole_boot("now", 90_000, 200));
        let mut timeline = last(&flights(segments));
        let expected = BTreeMap::from([(Phase::Node, known)]);
        add_expected(&mut timeline.phases, &expected);
        let phase = timeline.phases.last().unwrap();
        assert_eq!(phase.name, Phase::Node);
        let usual = phase.usual.unwrap();
        (usual.boots, usual.median_seconds, usual.from)
    };
    let learned = ExpectationSource::Learned;
    assert_eq!(
        usual_of(0, expected(14, learned)),
        (14, 90.0, Some(learned))
    );
    assert_eq!(
        usual_of(2, expected(14, learned)),
        (14, 90.0, Some(learned))
    );
    assert_eq!(usual_of(3, expected(14, learned)), (3, 30.0, None));
    let own = ExpectationSource::EarlierBoots;
    assert_eq!(usual_of(2, expected(2, own)), (2, 30.0, None));
}

#[test]
fn times_do_not_jump_where_the_clock_was_set_while_windrow_ran() {
    const DAY: i64 = 86_400;
    let flights = flights(vec![segment(
        Some("a"),
        0,
        vec![
            with_api(setting_up(0, Phase::Network), 0, None),
            // The clock was set forward by a day; ten seconds had passed.
            with_api(setting_up(DAY + 10, Phase::Api), DAY, Some(DAY + 8)),
            decision(DAY + 30, Readiness::Ready, Phase::Ready, Code::NodeReady),
        ],
    )]);
    let timeline = last(&flights);
    assert_whole(&timeline);
    assert_eq!(timeline.end.at, 30.0);
    let said = timeline.cautions.join("\n");
    assert!(said.contains("set forward by 86400 s at 00:10"), "{said}");
}

#[test]
fn a_clock_that_stands_before_an_earlier_line_takes_no_time_and_is_said() {
    let flights = flights(vec![
        segment(
            Some("a"),
            1000,
            vec![with_api(setting_up(1000, Phase::Network), 1000, None)],
        ),
        segment(
            Some("a"),
            0,
            vec![
                with_api(setting_up(0, Phase::Api), 0, None),
                decision(50, Readiness::Ready, Phase::Ready, Code::NodeReady),
            ],
        ),
    ]);
    let timeline = last(&flights);
    assert_whole(&timeline);
    assert_eq!(timeline.end.at, 50.0);
    let said = timeline.cautions.join("\n");
    assert!(said.contains("set back"), "{said}");
}

#[test]
fn a_boot_that_is_not_at_its_end_ends_in_an_open_step() {
    let mut boot = whole_boot("a", 0, 60);
    boot.lines.pop();
    let timeline = last(&flights(vec![boot]));
    assert_eq!(timeline.end.state, BootState::Underway);
    assert_whole(&timeline);
    assert!(timeline.chain.last().unwrap().open);
    assert!(!timeline.phases.last().unwrap().ended);
}

#[test]
fn a_node_that_is_probed_later_is_not_at_its_end_before() {
    let first = decision(0, Readiness::Unknown, Phase::Staged, Code::NotProbed);
    let flights = flights(vec![segment(
        Some("a"),
        0,
        vec![
            with_api(first, 0, Some(0)),
            setting_up(1, Phase::Rancher),
            decision(90, Readiness::Degraded, Phase::Ready, Code::ProbeFailed),
        ],
    )]);
    let timeline = last(&flights);
    assert_eq!(timeline.end.state, BootState::Degraded);
    let names: Vec<Phase> = timeline.phases.iter().map(|phase| phase.name).collect();
    assert_eq!(names, [Phase::Rancher]);
}

#[test]
fn a_boot_whose_beginning_was_overwritten_says_so_and_takes_times_from_the_ledger() {
    let entry = |since: i64, state| {
        let entry = LedgerEntry {
            digest: "d".into(),
            first_seen: after(since),
            since: after(since),
            state,
            reported: Default::default(),
            manual: None,
        };
        std::sync::Arc::new(entry)
    };
    let cause = Cause::Met;
    let mut first = with_api(setting_up(5000, Phase::Manifests), 0, Some(100));
    first.ledger = Some(Ledger {
        files: BTreeMap::from([
            (
                "old.yaml".into(),
                entry(-9000, FileStage::Applied { cause }),
            ),
            ("now.yaml".into(), entry(3000, FileStage::Applied { cause })),
        ]),
        ..Ledger::default()
    });
    for path in ["old.yaml", "now.yaml"] {
        first = with_file(first, path, RecordedStage::Applied);
    }
    let end = decision(5100, Readiness::Ready, Phase::Ready, Code::NodeReady);
    let flights = flights(vec![segment(Some("a"), 5000, vec![first, end])]);
    let timeline = last(&flights);
    let said = timeline.cautions.join("\n");
    assert!(
        said.contains("the boot log no longer has the beginning of this boot"),
        "{said}"
    );
    assert_eq!(timeline.began, after(0));
    assert_eq!(timeline.end.at, 5100.0);
    let files: Vec<_> = timeline
        .files
        .iter()
        .map(|file| (file.file.as_str(), file.applied))
        .collect();
    assert_eq!(files, [("now.yaml", Some(3000.0))]);
}

#[test]
fn a_file_that_was_there_before_is_on_no_chain_and_one_that_came_later_says_so() {
    let mut first = with_api(setting_up(0, Phase::Manifests), 0, Some(0));
    first.ledger = Some(Ledger {
        files: BTreeMap::from([(
            "old.yaml".into(),
            std::sync::Arc::new(LedgerEntry {
                digest: "d".into(),
                first_seen: after(-500),
                since: after(-400),
                state: FileStage::Applied { cause: Cause::Met },
                reported: Default::default(),
                manual: None,
            }),
        )]),
        ..Ledger::default()
    });
    let first = with_file(first, "old.yaml", RecordedStage::Applied);
    let came = with_file(
        setting_up(40, Phase::Manifests),
        "new.yaml",
        RecordedStage::Released,
    );
    let ready = decision(50, Readiness::Ready, Phase::Ready, Code::NodeReady);
    let ready = with_file(ready, "new.yaml", RecordedStage::Applied);
    let timeline = last(&flights(vec![segment(
        Some("a"),
        0,
        vec![first, came, ready],
    )]));
    assert_whole(&timeline);
    let chain: Vec<_> = timeline
        .chain
        .iter()
        .map(|step| (step.on, step.from, step.to))
        .collect();
    assert_eq!(
        chain,
        [(WaitedOn::File, 0.0, 40.0), (WaitedOn::Rke2, 40.0, 50.0)]
    );
    assert_eq!(timeline.files.len(), 1);
    assert_eq!(timeline.files[0].poll_seconds, Some(10.0));
}

/// A course that is Staged after `end` seconds, with kube-apiserver from the tenth second on.
fn staged_course(end: i64) -> BootCourse {
    let segment = segment(
        None,
        0,
        vec![
            with_api(
                decision(
                    0,
                    Readiness::Unknown,
                    Phase::WaitingForApi,
                    Code::ApiUnreachable,
                ),
                0,
                None,
            ),
            with_api(
                decision(10, Readiness::SettingUp, Phase::Staging, Code::WaitsForKind),
                0,
                Some(10),
            ),
            decision(end, Readiness::Unknown, Phase::Staged, Code::NotProbed),
        ],
    );
    let flights = flights(vec![segment]);
    BootCourse::read(&boots(&flights)[0]).unwrap()
}

fn wait(from: f64, to: f64, brought_by: Option<&str>) -> FileWait {
    FileWait {
        from,
        to,
        code: Code::WaitsForObject,
        why: format!("something until {to}"),
        brought_by: brought_by.map(ManifestPath::from),
    }
}

fn file(waits: Vec<FileWait>, released: f64, applied: f64) -> FileCourse {
    FileCourse {
        held: waits.first().map(|wait| wait.from),
        waits,
        released: Some(released),
        applied: Some(applied),
        cause: Some(Cause::Met),
        ..FileCourse::default()
    }
}

#[test]
fn the_chain_goes_through_the_file_that_brings_what_another_waits_for() {
    let course = staged_course(100);
    let files = FileCourses {
        files: BTreeMap::from([
            ("free.yaml".into(), file(Vec::new(), 0.0, 12.0)),
            (
                "first.yaml".into(),
                file(
                    vec![wait(0.0, 10.0, None), wait(10.0, 50.0, None)],
                    50.0,
                    60.0,
                ),
            ),
            (
                "second.yaml".into(),
                file(
                    vec![wait(0.0, 10.0, None), wait(10.0, 85.0, Some("first.yaml"))],
                    85.0,
                    100.0,
                ),
            ),
        ]),
        ..FileCourses::default()
    };
    let steps: Vec<_> = chain(&course, &files)
        .into_iter()
        .map(|step| {
            (
                step.on,
                step.file.map(|file| file.to_string()),
                step.from,
                step.to,
            )
        })
        .collect();
    let named = |name: &str| Some(name.to_owned());
    let expected = [
        (WaitedOn::Node, None, 0.0, 10.0),
        (WaitedOn::Requirement, named("first.yaml"), 10.0, 50.0),
        (WaitedOn::Rke2, named("first.yaml"), 50.0, 60.0),
        (WaitedOn::OtherFile, named("second.yaml"), 60.0, 85.0),
        (WaitedOn::Rke2, named("second.yaml"), 85.0, 100.0),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn files_that_wait_for_each_other_do_not_make_the_chain_endless() {
    let course = staged_course(100);
    let files = FileCourses {
        files: BTreeMap::from([
            (
                "a.yaml".into(),
                file(vec![wait(10.0, 80.0, Some("b.yaml"))], 80.0, 90.0),
            ),
            (
                "b.yaml".into(),
                file(vec![wait(10.0, 95.0, Some("a.yaml"))], 95.0, 100.0),
            ),
        ]),
        ..FileCourses::default()
    };
    let steps = chain(&course, &files);
    assert_eq!(steps.first().map(|step| step.from), Some(0.0));
    assert_eq!(steps.last().map(|step| step.to), Some(100.0));
}
