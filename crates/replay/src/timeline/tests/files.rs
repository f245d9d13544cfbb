//! The course of each file, with the reasons from repeated decisions.

use windrow_decide::StagingState;
use windrow_decide::settings::Settings;
use windrow_decide::{FailedFile, HeldFile, Holder, StagingStatus};
use windrow_plan::rules::RuleSet;

use super::*;

fn staging(held: &[(&str, Code, &str)]) -> StagingStatus {
    let (settings, rules) = (Settings::default(), RuleSet::default());
    let mut state = StagingState::new(settings, rules, None, Ledger::default(), after(0));
    let mut staging = state.decide(after(0)).status.staging.clone();
    staging.held = held
        .iter()
        .map(|(file, code, why)| HeldFile {
            file: (*file).into(),
            since: after(0),
            code: *code,
            why: (*why).into(),
            by: Holder::Windrow,
            overdue: false,
            harmful: false,
            deadline: None,
            blockers: Vec::new(),
            name_spares_hold: None,
            no_name_spares_hold: None,
        })
        .collect();
    staging
}

/// A decision: its second, and the held files with code and reason.
type Moment<'a> = (i64, &'a [(&'a str, Code, &'a str)]);

fn courses(moments: &[Moment<'_>]) -> FileCourses {
    let course = staged_course(100);
    let mut courses = FileCourses::default();
    for (seconds, held) in moments {
        let mut one = setting_up(*seconds, Phase::Manifests);
        for (file, code, _) in *held {
            one = with_file(one, file, RecordedStage::Held { code: *code });
        }
        let moment = StagingMoment {
            at: *seconds as f64,
            axis: &Axis::new(after(0)),
            begins: *seconds == 0,
            decision: &one,
            staging: Some(&staging(held)),
        };
        courses.take(&moment, &course);
    }
    courses
}

const KIND: Code = Code::WaitsForKind;

#[test]
fn a_file_that_waits_for_one_thing_after_another_has_a_wait_for_each() {
    let moments: [(i64, &[_]); 4] = [
        (0, &[("a.yaml", KIND, "Widget")]),
        (10, &[("a.yaml", KIND, "Widget")]),
        (30, &[("a.yaml", KIND, "Gadget")]),
        (70, &[("a.yaml", KIND, "Gadget")]),
    ];
    let courses = courses(&moments);
    let waits = &courses.files[&ManifestPath::from("a.yaml")].waits;
    let told: Vec<_> = waits
        .iter()
        .map(|wait| (wait.why.as_str(), wait.from, wait.to))
        .collect();
    assert_eq!(told, [("Widget", 0.0, 30.0), ("Gadget", 30.0, 70.0)]);
}

#[test]
fn the_node_waits_for_no_file_that_is_held_on_purpose() {
    let purpose = ("a.yaml", Code::HeldByHand, "held by hand");
    let waits = ("b.yaml", KIND, "Widget");
    let waits_for = |held: &[_]| courses(&[(0, held)]).waits_for.map(|path| path.to_string());
    assert_eq!(waits_for(&[purpose, waits]).as_deref(), Some("b.yaml"));
    assert_eq!(waits_for(&[purpose]), None);
}

#[test]
fn a_file_that_rke2_cannot_apply_says_why_and_no_other_does() {
    let mut one = setting_up(10, Phase::Manifests);
    for file in ["a.yaml", "b.yaml"] {
        one = with_file(one, file, RecordedStage::Released);
    }
    let mut staging = staging(&[]);
    staging.failed.push(FailedFile {
        file: "b.yaml".into(),
        since: after(10),
        reason: "ApplyManifestFailed".to_owned(),
        message: "no matches for kind".to_owned(),
    });
    let mut courses = FileCourses::default();
    let moment = StagingMoment {
        at: 10.0,
        axis: &Axis::new(after(0)),
        begins: false,
        decision: &one,
        staging: Some(&staging),
    };
    courses.take(&moment, &staged_course(100));
    let failure = |path: &str| courses.files[&ManifestPath::from(path)].failure.as_deref();
    assert_eq!(failure("a.yaml"), None);
    let why = "ApplyManifestFailed: no matches for kind";
    assert_eq!(failure("b.yaml"), Some(why));
}

/// A file that appears in this stage at second 40, in a boot that is Ready at second 100.
fn came_as(stage: RecordedStage) -> BootTimeline {
    let first = with_api(setting_up(0, Phase::Manifests), 0, Some(0));
    let came = with_file(setting_up(40, Phase::Manifests), "new.yaml", stage);
    let released = with_file(
        setting_up(60, Phase::Manifests),
        "new.yaml",
        RecordedStage::Released,
    );
    let applied = with_file(
        setting_up(90, Phase::Manifests),
        "new.yaml",
        RecordedStage::Applied,
    );
    let ready = decision(100, Readiness::Ready, Phase::Ready, Code::NodeReady);
    let decisions = match stage {
        RecordedStage::Applied => vec![first, came, ready],
        _ => vec![first, came, released, applied, ready],
    };
    last(&flights(vec![segment(Some("a"), 0, decisions)]))
}

#[test]
fn a_file_that_comes_late_was_not_there_before_in_whatever_stage_it_comes() {
    for stage in [HELD, RecordedStage::Released, RecordedStage::Applied] {
        let timeline = came_as(stage);
        assert_whole(&timeline);
        let first = &timeline.chain[0];
        assert_eq!(
            (first.on, first.from, first.to),
            (WaitedOn::File, 0.0, 40.0),
            "{stage:?}"
        );
    }
}
