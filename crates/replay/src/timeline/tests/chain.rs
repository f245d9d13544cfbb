//! The chain, read from handmade courses of files.

use super::*;
use crate::timeline::ChainStep;

/// A course with kube-apiserver from `api` on, up to `end`: Staged, or not yet ended.
fn course(api: i64, end: i64, is_staged: bool) -> BootCourse {
    let waiting = decision(
        0,
        Readiness::Unknown,
        Phase::WaitingForApi,
        Code::ApiUnreachable,
    );
    let staging = |at| decision(at, Readiness::SettingUp, Phase::Staging, Code::WaitsForKind);
    let last = match is_staged {
        true => decision(end, Readiness::Unknown, Phase::Staged, Code::NotProbed),
        false => staging(end),
    };
    let decisions = vec![
        with_api(waiting, 0, None),
        with_api(staging(api), 0, Some(api)),
        last,
    ];
    let flights = flights(vec![segment(None, 0, decisions)]);
    BootCourse::read(&boots(&flights)[0]).unwrap()
}

fn courses<const N: usize>(files: [(&str, FileCourse); N]) -> FileCourses {
    FileCourses {
        files: files.map(|(path, file)| (path.into(), file)).into(),
        ..FileCourses::default()
    }
}

/// Each step as its kind, its file and its times.
fn told(steps: &[ChainStep]) -> Vec<(WaitedOn, &str, f64, f64)> {
    steps
        .iter()
        .map(|step| {
            let name = step.file.as_ref().map_or("", |file| file.as_str());
            (step.on, name, step.from, step.to)
        })
        .collect()
}

#[test]
fn what_was_too_short_to_show_belongs_to_the_first_step() {
    let late = file(vec![wait(0.03, 85.0, None)], 85.0, 100.0);
    let steps = chain(&course(0, 100, true), &courses([("a.yaml", late)]));
    let expected = [
        (WaitedOn::Requirement, "a.yaml", 0.0, 85.0),
        (WaitedOn::Rke2, "a.yaml", 85.0, 100.0),
    ];
    assert_eq!(told(&steps), expected);
}

#[test]
fn a_file_that_was_applied_before_the_wait_began_did_not_end_it() {
    let files = courses([
        ("early.yaml", file(Vec::new(), 0.0, 15.0)),
        (
            "late.yaml",
            file(vec![wait(20.0, 85.0, Some("early.yaml"))], 85.0, 100.0),
        ),
    ]);
    let steps = chain(&course(10, 100, true), &files);
    let (on, name, ..) = told(&steps)[told(&steps).len() - 2];
    assert_eq!((on, name), (WaitedOn::Requirement, "late.yaml"));
}

#[test]
fn how_a_hold_ended_is_said_of_its_last_wait_alone() {
    let mut yielded = file(
        vec![wait(10.0, 40.0, None), wait(40.0, 85.0, None)],
        85.0,
        100.0,
    );
    yielded.cause = Some(Cause::Yielded);
    let steps = chain(&course(10, 100, true), &courses([("a.yaml", yielded)]));
    let said: Vec<bool> = steps
        .iter()
        .filter(|step| step.on == WaitedOn::Requirement)
        .map(|step| {
            step.text
                .ends_with("(released at its deadline, without it)")
        })
        .collect();
    assert_eq!(said, [false, true]);
}

/// All in the same moment: with only the times, the chain would never end.
#[test]
fn a_circle_of_files_in_one_moment_ends() {
    let files = courses([
        (
            "a.yaml",
            file(vec![wait(10.0, 50.0, Some("b.yaml"))], 50.0, 50.0),
        ),
        (
            "b.yaml",
            file(vec![wait(10.0, 50.0, Some("a.yaml"))], 50.0, 50.0),
        ),
    ]);
    let steps = chain(&course(10, 50, true), &files);
    assert_eq!(steps.first().map(|step| step.from), Some(0.0));
}

#[test]
fn a_released_file_is_rke2_s_only_once_the_api_answers() {
    let released = FileCourse {
        stage: Some(RecordedStage::Released),
        released: Some(0.0),
        ..FileCourse::default()
    };
    let steps = chain(&course(10, 100, false), &courses([("a.yaml", released)]));
    let expected = [
        (WaitedOn::Node, "", 0.0, 10.0),
        (WaitedOn::Rke2, "a.yaml", 10.0, 100.0),
    ];
    assert_eq!(told(&steps), expected);
    assert!(steps[1].open && !steps[0].open);
}

#[test]
fn a_boot_under_way_is_told_by_the_file_that_it_waits_for() {
    let released = FileCourse {
        stage: Some(RecordedStage::Released),
        released: Some(0.0),
        ..FileCourse::default()
    };
    let held = FileCourse {
        stage: Some(HELD),
        held: Some(0.0),
        waits: vec![wait(0.0, 100.0, None)],
        ..FileCourse::default()
    };
    let mut files = courses([("a.yaml", released), ("b.yaml", held)]);
    files.waits_for = Some("b.yaml".into());
    let steps = chain(&course(10, 100, false), &files);
    let last = *told(&steps).last().unwrap();
    assert_eq!(last, (WaitedOn::Requirement, "b.yaml", 10.0, 100.0));
}

#[test]
fn as_long_as_kube_apiserver_does_not_answer_a_held_file_waits_for_the_node() {
    let waiting = |at| {
        decision(
            at,
            Readiness::Unknown,
            Phase::WaitingForApi,
            Code::ApiUnreachable,
        )
    };
    let decisions = vec![
        with_api(waiting(0), 0, None),
        with_api(waiting(100), 0, None),
    ];
    let flights = flights(vec![segment(None, 0, decisions)]);
    let course = BootCourse::read(&boots(&flights)[0]).unwrap();
    let held = FileCourse {
        stage: Some(HELD),
        held: Some(0.0),
        waits: vec![wait(0.0, 100.0, None)],
        ..FileCourse::default()
    };
    let mut files = courses([("a.yaml", held)]);
    files.waits_for = Some("a.yaml".into());
    assert_eq!(
        told(&chain(&course, &files)),
        [(WaitedOn::Node, "", 0.0, 100.0)]
    );
}
