//! Tests changes of built-in probes by the configuration.

use std::time::Duration;

use windrow_model::findings::Location;
use windrow_model::reasons::Code;

use super::*;

fn tuning(name: &str) -> ProbeTuning {
    ProbeTuning {
        name: name.to_owned(),
        ..ProbeTuning::default()
    }
}

fn off(name: &str) -> ProbeTuning {
    ProbeTuning {
        off: Some(Location::line("windrow.yaml", 7)),
        ..tuning(name)
    }
}

#[test]
fn a_required_probe_that_is_switched_off_keeps_the_node_from_being_called_ready() {
    let mut node = Node::harvester(NodeRole::FirstServer);
    node.passes_but(&[]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
    node.tunings = vec![off("harvester")];
    node.becomes(NodeRole::FirstServer, "boot-1");
    let judged = node.judge();
    assert_eq!(
        (judged.readiness, judged.phase, judged.code),
        (Readiness::Unknown, Phase::HarvesterChart, Code::ProbeOff)
    );
    assert_eq!(
        judged.message,
        "harvester is switched off by windrow.yaml:7"
    );
    // Answers from before it was switched off no longer count, and neither do late ones.
    let track = &node.seen.as_ref().unwrap().probes[&ProbeId::builtin("harvester")];
    assert_eq!(track.state, ProbeState::Unknown);
    node.tunings.clear();
    node.becomes(NodeRole::FirstServer, "boot-1");
    assert_eq!(node.judge().code, Code::ProbePending, "it is asked again");
}

#[test]
fn a_probe_that_is_only_wanted_and_off_is_shown_and_does_not_count() {
    let mut node = Node::harvester(NodeRole::FirstServer);
    let harvester = ProbeTuning {
        only_wanted: true,
        ..off("harvester")
    };
    node.tunings = vec![harvester, off("load")];
    node.becomes(NodeRole::FirstServer, "boot-1");
    node.passes_but(&["harvester", "load"]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
    for name in ["harvester", "load"] {
        let track = &node.seen.as_ref().unwrap().probes[&ProbeId::builtin(name)];
        let (state, message, code) = as_of(track, node.now);
        assert_eq!((state, code), (ProbeState::Unknown, Some(Code::ProbeOff)));
        assert_eq!(message, "switched off by windrow.yaml:7");
    }
}

#[test]
fn what_is_not_changed_stays_as_the_table_has_it() {
    let tuned = |tuning: ProbeTuning| {
        let specs = tuned_specs(NodeRole::Agent, Some(Platform::Harvester), &[tuning]);
        specs.into_iter().find(|spec| spec.id.as_str() == "vip")
    };
    let untouched = tuned(tuning("vip"));
    assert_eq!(untouched, tuned(off("load")));
    let mut expected = untouched.unwrap();
    expected.period = Duration::from_secs(60);
    expected.fall = 9;
    let changed = tuned(ProbeTuning {
        period: Some(expected.period),
        fall: Some(9),
        ..tuning("vip")
    });
    assert_eq!(changed, Some(expected));
}

#[test]
fn a_limit_is_the_tables_until_the_configuration_names_another() {
    let half = ProbeTuning {
        limit: Some(ProbeLimit::FreePercent(50)),
        ..tuning("memory")
    };
    assert_eq!(limit_of("memory", &[]), Some(ProbeLimit::FreePercent(5)));
    assert_eq!(limit_of("memory", std::slice::from_ref(&half)), half.limit);
    assert_eq!(
        limit_of("load", &[half]),
        Some(ProbeLimit::LoadPerCore(400))
    );
    assert_eq!(limit_of("kubelet", &[]), None);
}
