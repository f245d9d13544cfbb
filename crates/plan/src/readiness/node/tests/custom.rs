//! Tests that configured probes count like built-in ones.

use std::time::Duration;

use super::*;

fn probe(severity: ProbeSeverity, phase: Phase) -> CustomProbe {
    CustomProbe {
        name: "registry".to_owned(),
        question: CustomQuestion::Tcp {
            host: "registry".to_owned(),
            port: 5000,
        },
        period: Duration::from_secs(30),
        timeout: Duration::from_secs(5),
        rise: 1,
        fall: 3,
        severity,
        roles: vec![NodeRole::FirstServer],
        phase,
        message: None,
    }
}

fn node(platform: Platform, probe: CustomProbe) -> Node {
    let mut node = Node::new(NodeRole::FirstServer, platform);
    node.custom = vec![probe];
    node.becomes(NodeRole::FirstServer, "boot-1");
    node.passes_but(&["user/registry"]);
    node
}

#[test]
fn a_required_one_keeps_the_node_from_being_ready_and_a_wanted_one_degrades_it() {
    for (severity, expected) in [
        (ProbeSeverity::Required, Readiness::SettingUp),
        (ProbeSeverity::Wanted, Readiness::Degraded),
    ] {
        let mut node = node(Platform::Harvester, probe(severity, Phase::Node));
        node.fails("user/registry", "no image can be pulled (refused)");
        let judged = node.judge();
        assert_eq!(judged.readiness, expected);
        assert_eq!(judged.code, windrow_model::reasons::Code::ProbeFailed);
        assert_eq!(
            judged.message,
            "user/registry fails: no image can be pulled (refused)"
        );
        node.settles("user/registry", &ProbeOutcome::Passed);
        assert_eq!(node.judge().readiness, Readiness::Ready);
    }
}

#[test]
fn its_last_answer_counts_until_one_more_is_missed_than_makes_it_fail() {
    // Every 30 s, with a time limit of 5 s, and three failures until it is failing.
    let mut asked = node(
        Platform::Harvester,
        probe(ProbeSeverity::Required, Phase::Node),
    );
    asked.settles("user/registry", &ProbeOutcome::Passed);
    let state = |node: &Node, seconds: i64| {
        let seen = node.seen.as_ref().unwrap();
        let mut tracks = seen.probes.values();
        let track = tracks.find(|track| track.spec.id.as_str() == "user/registry");
        as_of(
            track.unwrap(),
            node.now + SignedDuration::from_secs(seconds),
        )
        .0
    };
    assert_eq!(state(&asked, 4 * 35 - 1), ProbeState::Passing);
    assert_eq!(state(&asked, 4 * 35), ProbeState::Unknown);
}

#[test]
fn it_is_asked_in_its_roles_only() {
    let mut node = node(
        Platform::Harvester,
        probe(ProbeSeverity::Required, Phase::Node),
    );
    assert!(node.probes().contains(&"user/registry".to_owned()));
    node.becomes(NodeRole::Agent, "boot-1");
    assert!(!node.probes().contains(&"user/registry".to_owned()));
}

#[test]
fn a_phase_that_the_platform_does_not_have_is_the_nodes() {
    let wanted = probe(ProbeSeverity::Required, Phase::Settings);
    let wanted = [wanted];
    let phase = |platform| custom_specs(&wanted, NodeRole::FirstServer, Some(platform))[0].phase;
    assert_eq!(phase(Platform::Harvester), Phase::Settings);
    assert_eq!(phase(Platform::Rke2), Phase::Node);
}

#[test]
fn one_of_the_last_phase_is_expected_only_once_no_manifest_waits() {
    let mut node = node(Platform::Rke2, probe(ProbeSeverity::Required, Phase::Ready));
    node.fails("user/registry", "refused");
    node.manifests = Manifests::Waiting {
        code: windrow_model::reasons::Code::Staging,
        message: "1 of 3 applied".to_owned(),
        done: 1,
        total: 3,
        moved: node.now,
    };
    assert_eq!(
        node.verdict(),
        (
            Readiness::SettingUp,
            Phase::Manifests,
            windrow_model::reasons::Code::Staging
        )
    );
    node.manifests = Manifests::Settled {
        total: 3,
        kept: None,
    };
    assert_eq!(
        node.verdict(),
        (
            Readiness::SettingUp,
            Phase::Ready,
            windrow_model::reasons::Code::ProbeFailed
        )
    );
}
