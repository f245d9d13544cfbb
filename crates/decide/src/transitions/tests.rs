//! Which changes in a series of statuses are reported.

use windrow_plan::readiness::node::ProbeSeverity;

use super::*;
use crate::{ExpectationSource, PhaseExpectation, PhaseState, PhaseStatus, StatusReason};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn status(readiness: Readiness, phase: Phase, code: Code) -> Status {
    let message = "because".to_owned();
    let reason = StatusReason { code, message };
    Status {
        generation: 7,
        ..Status::new(readiness, phase, reason, at(0))
    }
}

fn ready() -> Status {
    status(Readiness::Ready, Phase::Ready, Code::NodeReady)
}

fn unknown() -> Status {
    status(Readiness::Unknown, Phase::Network, Code::ProbePending)
}

fn failed() -> Status {
    status(Readiness::Failed, Phase::Api, Code::ApiNotReady)
}

fn with_probe(state: ProbeState, code: Option<Code>) -> Status {
    let mut status = ready();
    status.probes = vec![ProbeStatus {
        id: ProbeId::builtin("clock"),
        state,
        severity: ProbeSeverity::Wanted,
        phase: None,
        fall: None,
        limit: None,
        off: None,
        since: at(0),
        message: match state {
            ProbeState::Passing => String::new(),
            _ => "why".to_owned(),
        },
        code,
    }];
    status
}

fn reported(transitions: &mut Transitions, course: &[(i64, &Status)]) -> Vec<Code> {
    course
        .iter()
        .filter_map(|(second, status)| transitions.changes(status, at(*second)).node)
        .map(|news| news.code)
        .collect()
}

#[test]
fn a_step_in_which_something_breaks_is_told_again_once_for_each_breakage() {
    let mut transitions = Transitions::default();
    let step = |code| status(Readiness::SettingUp, Phase::Api, code);
    let (slow, crashes, refused) = (
        step(Code::RkeServiceDown),
        step(Code::RkeCrashLoop),
        step(Code::ApiNotReady),
    );
    let course = [
        &slow,
        &crashes,
        &refused,
        &crashes,
        &slow,
        &ready(),
        &crashes,
    ];
    let told: Vec<Code> = (0..)
        .zip(course)
        .filter_map(|(second, status)| transitions.changes(status, at(second)).node)
        .map(|news| news.reason)
        .collect();
    assert_eq!(
        told,
        [
            Code::RkeServiceDown,
            Code::RkeCrashLoop,
            Code::NodeReady,
            Code::RkeCrashLoop
        ]
    );
}

#[test]
fn each_change_is_told_once_with_what_it_was_before_and_why() {
    let mut transitions = Transitions::default();
    assert_eq!(
        reported(
            &mut transitions,
            &[
                (
                    0,
                    &status(Readiness::SettingUp, Phase::Api, Code::ApiNotReady)
                ),
                (
                    1,
                    &status(Readiness::SettingUp, Phase::Api, Code::SupervisorDown)
                ),
                (
                    2,
                    &status(Readiness::SettingUp, Phase::Node, Code::NodeNotReady)
                ),
                (3, &ready()),
                (4, &ready()),
            ]
        ),
        [
            Code::BecameSettingUp,
            Code::BecameSettingUp,
            Code::BecameReady
        ]
    );
    let news = transitions.changes(&failed(), at(5)).node.unwrap();
    assert_eq!(
        news.message,
        "the node is Failed (was Ready), step \"kube-apiserver\": because"
    );
    assert_eq!((news.reason, news.generation), (Code::ApiNotReady, 7));
}

#[test]
fn unknown_is_told_when_it_lasts_and_a_moment_of_it_never_was() {
    let mut transitions = Transitions::default();
    assert_eq!(
        reported(&mut transitions, &[(0, &unknown()), (1, &ready())]),
        [Code::BecameReady]
    );
    assert_eq!(transitions.due(), None);
    // A new role: its probes are unknown for a moment.
    assert!(
        reported(
            &mut transitions,
            &[(10, &unknown()), (39, &unknown()), (39, &ready())]
        )
        .is_empty()
    );
    let other_phase = status(Readiness::Unknown, Phase::Api, Code::ProbeUnknown);
    assert!(reported(&mut transitions, &[(50, &unknown()), (79, &other_phase)]).is_empty());
    assert_eq!(transitions.due(), Some(at(80)));
    assert_eq!(
        reported(&mut transitions, &[(80, &other_phase), (200, &unknown())]),
        [Code::BecameUnknown],
        "once, for any unknown phase"
    );
    assert_eq!(transitions.due(), None);
    assert_eq!(
        reported(&mut transitions, &[(201, &ready())]),
        [Code::BecameReady]
    );
}

#[test]
fn what_a_new_manifest_waits_for_is_written_once_it_is_known() {
    let new = status(
        Readiness::SettingUp,
        Phase::Manifests,
        Code::WaitsForCluster,
    );
    let known = status(Readiness::SettingUp, Phase::Manifests, Code::WaitsForKind);
    let mut transitions = Transitions::after(Some(&ready()));
    assert!(reported(&mut transitions, &[(0, &new)]).is_empty());
    assert_eq!(transitions.due(), Some(at(30)));
    let told = transitions.changes(&known, at(1)).node.unwrap();
    assert_eq!(told.reason, Code::WaitsForKind);
    assert_eq!(transitions.due(), None);
    // If kube-apiserver does not answer about one, it is still written.
    let mut transitions = Transitions::after(Some(&ready()));
    assert!(reported(&mut transitions, &[(0, &new), (29, &new)]).is_empty());
    let told = transitions.changes(&new, at(30)).node.unwrap();
    assert_eq!(told.reason, Code::WaitsForCluster);
}

#[test]
fn the_journal_has_the_words_of_the_other_outlets() {
    let mut transitions = Transitions::default();
    let degraded = status(
        Readiness::Degraded,
        Phase::Ready,
        Code::ClockNotSynchronised,
    );
    let setting_up = status(Readiness::SettingUp, Phase::Api, Code::ApiNotReady);
    let said: Vec<String> = [setting_up, degraded, ready()]
        .iter()
        .filter_map(|status| transitions.changes(status, at(0)).node)
        .map(|change| change.message)
        .collect();
    assert_eq!(
        said,
        [
            "the node is setting up, step \"kube-apiserver\": because",
            "the node is Degraded (was setting up): because",
            "the node is Ready (was Degraded): because",
        ]
    );
}

#[test]
fn a_clock_that_is_set_makes_nothing_last() {
    let mut transitions = Transitions::default();
    assert!(reported(&mut transitions, &[(0, &unknown())]).is_empty());
    transitions.clock_jumped(SignedDuration::from_hours(24));
    assert!(reported(&mut transitions, &[(24 * 3600 + 1, &unknown())]).is_empty());
}

#[test]
fn what_an_earlier_process_told_is_not_told_again() {
    let mut transitions = Transitions::after(Some(&ready()));
    assert!(reported(&mut transitions, &[(0, &unknown()), (5, &ready())]).is_empty());
    assert_eq!(
        reported(&mut transitions, &[(6, &failed())]),
        [Code::BecameFailed]
    );
}

#[test]
fn a_probe_is_told_when_it_turns_and_not_while_it_is_found_out() {
    let pending = with_probe(ProbeState::Unknown, Some(Code::ProbePending));
    let passing = with_probe(ProbeState::Passing, None);
    let failing = with_probe(ProbeState::Failing, Some(Code::ClockNotSynchronised));
    let refused = with_probe(ProbeState::Unknown, Some(Code::ProbeUnknown));
    let mut transitions = Transitions::default();
    let mut turned = |status: &Status| {
        let news = transitions.changes(status, at(0));
        let lines: Vec<String> = news.probes.into_iter().map(|one| one.message).collect();
        lines.join("; ")
    };
    assert_eq!(turned(&pending), "");
    assert_eq!(turned(&refused), "", "at a boot much cannot be asked yet");
    assert_eq!(turned(&passing), "", "all is well, as expected");
    assert_eq!(turned(&failing), "the probe clock is failing: why");
    assert_eq!(turned(&failing), "");
    assert_eq!(turned(&pending), "", "asked again");
    assert_eq!(turned(&failing), "");
    assert_eq!(turned(&refused), "the probe clock is unknown: why");
    assert_eq!(turned(&passing), "the probe clock is passing again");
    let mut restarted = Transitions::after(Some(&failing));
    assert!(
        restarted.changes(&ready(), at(0)).probes.is_empty(),
        "not probed yet"
    );
    assert!(restarted.changes(&pending, at(0)).probes.is_empty());
    assert!(restarted.changes(&failing, at(0)).probes.is_empty());
}

/// A node in the bootstrap, in the phase of kube-apiserver.
fn on_its_way(pace: Pace) -> Status {
    let mut status = status(Readiness::SettingUp, Phase::Api, Code::ApiNotReady);
    status.pace = Some(pace);
    status.phases = vec![PhaseStatus {
        name: Phase::Api,
        state: PhaseState::Current,
        done: 1,
        total: 3,
        began: None,
        seconds: None,
        expected: Some(PhaseExpectation {
            seconds: 900,
            from: ExpectationSource::Default,
            usual: None,
        }),
    }];
    status
}

#[test]
fn a_boot_that_hangs_is_told_once_for_each_stall_and_once_when_it_moves_again() {
    let mut transitions = Transitions::default();
    let mut told = |status: &Status| transitions.changes(status, at(0)).boot;
    let stalled = on_its_way(Pace::Stalled);
    assert_eq!(told(&on_its_way(Pace::Moving)), None);
    assert_eq!(told(&on_its_way(Pace::Slow)), None);
    let news = told(&stalled).unwrap();
    assert_eq!(
        (news.code, news.reason),
        (Code::BootStalled, Code::ApiNotReady)
    );
    assert_eq!(
        (news.readiness, news.phase),
        (Readiness::SettingUp, Phase::Api)
    );
    assert_eq!(
        news.message,
        "the boot has stalled, step \"kube-apiserver\" (15 min by default): nothing has moved for 20 minutes. because"
    );
    assert_eq!(told(&stalled), None);
    assert_eq!(told(&on_its_way(Pace::Slow)).unwrap().code, Code::BootMoves);
    assert_eq!(told(&on_its_way(Pace::Moving)), None);
    assert_eq!(told(&stalled).unwrap().code, Code::BootStalled);
    assert_eq!(
        told(&on_its_way(Pace::Stuck)).unwrap().code,
        Code::BootStuck
    );
    let mut up = ready();
    up.first_ready = Some(at(0));
    assert_eq!(told(&up), None, "the change to Ready has a separate entry");
    let mut lost = stalled;
    lost.first_ready = Some(at(0));
    assert_eq!(told(&lost), None, "a node that was Ready is in no boot");
}
