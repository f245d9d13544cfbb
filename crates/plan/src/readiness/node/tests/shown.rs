//! Tests the shown progress: the phases in their order, and the texts for users.

use windrow_model::reasons::Code;

use super::super::phase_defaults::default_seconds;
use super::super::progress::stalled_after;
use super::*;

fn state(judged: &NodeJudgement, phase: Phase) -> (PhaseState, usize, usize) {
    let found = judged.phases.iter().find(|one| one.name == phase).unwrap();
    (found.state, found.done, found.total)
}

/// A required probe of each phase, in the order of the phases.
fn one_of_each() -> Vec<ProbeSpec> {
    let specs = specs(NodeRole::FirstServer, Some(Platform::Harvester));
    let required = |phase: &Phase| {
        let one = specs
            .iter()
            .find(|spec| spec.phase == *phase && spec.severity == ProbeSeverity::Required);
        one.cloned()
    };
    Phase::bootstrap(Some(Platform::Harvester))
        .iter()
        .filter_map(required)
        .collect()
}

#[test]
fn the_manifests_are_counted_as_files_and_the_other_phases_as_probes() {
    let mut node = Node::harvester(NodeRole::FirstServer);
    node.passes_but(&[]);
    let judged = node.judge();
    assert_eq!(state(&judged, Phase::Manifests), (PhaseState::Done, 3, 3));
    let probes = specs(NodeRole::FirstServer, Some(Platform::Harvester));
    let count = probes
        .iter()
        .filter(|spec| spec.phase == Phase::Node && spec.severity == ProbeSeverity::Required)
        .count();
    assert_eq!(
        state(&judged, Phase::Node),
        (PhaseState::Done, count, count)
    );
}

#[test]
fn a_phase_before_the_current_one_of_which_something_is_not_known_is_unknown_and_no_other() {
    let each = one_of_each();
    let (first, middle, last, later) = (&each[0], &each[1], &each[2], &each[3]);
    let mut node = Node::harvester(NodeRole::FirstServer);
    node.passes_but(&[&middle.id, &last.id, &later.id].map(|id| id.as_str()));
    node.refused(middle.id.as_str(), "HTTP 403");
    node.fails(last.id.as_str(), "no");
    let judged = node.judge();
    assert_eq!(judged.phase, last.phase);
    assert_eq!(state(&judged, first.phase).0, PhaseState::Done);
    assert_eq!(state(&judged, middle.phase).0, PhaseState::Unknown);
    assert_eq!(state(&judged, last.phase).0, PhaseState::Current);
    assert_eq!(state(&judged, later.phase).0, PhaseState::Pending);
    assert_eq!(state(&judged, Phase::Ready).0, PhaseState::Pending);
}

#[test]
fn a_phase_before_the_current_one_of_which_nothing_is_known_is_unknown() {
    let each = one_of_each();
    let (silent, last) = (each[1].phase, &each[2]);
    let probes = specs(NodeRole::FirstServer, Some(Platform::Harvester));
    let of_it = probes.iter().filter(|spec| spec.phase == silent);
    let of_it: Vec<&str> = of_it.map(|spec| spec.id.as_str()).collect();
    let mut node = Node::harvester(NodeRole::FirstServer);
    node.passes_but(&[&of_it[..], &[last.id.as_str()]].concat());
    for id in of_it {
        node.refused(id, "HTTP 403");
    }
    node.fails(last.id.as_str(), "no");
    let judged = node.judge();
    assert_eq!(state(&judged, silent).0, PhaseState::Unknown);
}

#[test]
fn of_what_fails_in_several_phases_the_earliest_is_told_whoever_asks_for_it() {
    let each = one_of_each();
    let late = each.last().unwrap().id.to_string();
    let mut node = Node::harvester(NodeRole::FirstServer);
    node.custom = vec![CustomProbe {
        name: "registry".to_owned(),
        question: CustomQuestion::Tcp {
            host: "registry".to_owned(),
            port: 5000,
        },
        period: std::time::Duration::from_secs(30),
        timeout: std::time::Duration::from_secs(5),
        rise: 1,
        fall: 3,
        severity: ProbeSeverity::Required,
        roles: vec![NodeRole::FirstServer],
        phase: Phase::Node,
        message: None,
    }];
    node.becomes(NodeRole::FirstServer, "boot-1");
    node.passes_but(&["user/registry", &late]);
    node.fails(&late, "no");
    node.fails("user/registry", "refused");
    assert_eq!(
        node.verdict(),
        (Readiness::SettingUp, Phase::Node, Code::ProbeFailed)
    );
}

#[test]
fn roles_and_phases_have_words_of_their_own() {
    let roles = [
        (NodeRole::FirstServer, "first server"),
        (NodeRole::JoinedServer, "joined server"),
        (NodeRole::Agent, "agent"),
        (NodeRole::Witness, "witness"),
        (NodeRole::Unknown, "unknown"),
    ];
    for (role, words) in roles {
        assert_eq!(role.to_string(), words);
    }
    let phases = Phase::bootstrap(Some(Platform::Harvester));
    let mut titles: Vec<&str> = phases.iter().map(|phase| phase.title()).collect();
    assert!(titles.contains(&"kube-apiserver") && titles.contains(&"storage network"));
    for phase in Phase::ALL {
        let written = serde_json::to_value(phase).unwrap();
        assert_eq!(written, phase.as_str());
    }
    titles.sort_unstable();
    titles.dedup();
    assert_eq!(titles.len(), phases.len());
}

#[test]
fn rke2_reads_manifests_on_servers_and_so_it_may_where_the_role_is_not_known() {
    let reads = |role: NodeRole| role.applies_manifests();
    assert!(reads(NodeRole::FirstServer) && reads(NodeRole::JoinedServer));
    assert!(!reads(NodeRole::Agent) && !reads(NodeRole::Witness));
    assert!(reads(NodeRole::Unknown));
}

#[test]
fn each_work_on_a_node_excuses_failures_for_as_long_as_it_may_take() {
    for (kind, minutes) in [
        (Transition::Shutdown, 15),
        (Transition::Restart, 20),
        (Transition::Promotion, 45),
        (Transition::Drain, 60),
        (Transition::Upgrade, 215),
    ] {
        assert_eq!(kind.patience().as_mins(), minutes, "{kind:?}");
    }
}

#[test]
fn a_node_asks_with_its_own_identity_for_its_own_node_and_for_services_only() {
    let asks = |api_version: &str, kind: &str, name: Option<&str>| {
        ObjectQuestion {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: name.map(str::to_owned),
            expression: None,
        }
        .is_for_nodes()
    };
    assert!(asks("v1", "Node", None));
    assert!(asks("v1", "Service", Some("kubernetes")));
    assert!(!asks("v1", "Node", Some("another")));
    assert!(!asks("v1", "Secret", Some("s")));
    assert!(!asks("serving.knative.dev/v1", "Service", Some("s")));
    assert!(!asks("example.com/v1", "Node", None));
}

#[test]
fn there_is_nothing_to_remember_of_a_node_until_it_was_installed_or_ready() {
    assert!(NodeMemory::default().is_empty());
    let installed = NodeMemory {
        installed: true,
        ..NodeMemory::default()
    };
    assert!(!installed.is_empty());
}

#[test]
fn each_phase_is_slow_when_it_takes_longer_than_usual_and_time_alone_says_so() {
    let began = Timestamp::from_second(1_800_000_000).unwrap();
    for (phase, minutes) in [
        (Phase::Network, 3),
        (Phase::Rke2Installed, 5),
        (Phase::Api, 15),
        (Phase::Node, 5),
        (Phase::Rancher, 15),
        (Phase::HarvesterChart, 20),
        (Phase::Settings, 5),
        (Phase::StorageNetwork, 10),
        (Phase::Manifests, 15),
    ] {
        let seconds = default_seconds(phase, Some(Platform::Harvester));
        assert_eq!(i64::try_from(seconds), Ok(minutes * 60), "{phase:?}");
        let slow = began + SignedDuration::from_mins(minutes);
        let before = slow - SignedDuration::from_secs(1);
        // There was progress a moment ago, so it is not stalled.
        let pace = |now| super::progress::pace(slow, before, stalled_after(None), false, now);
        assert_eq!(pace(before), (Pace::Moving, Some(slow)), "{phase:?}");
        let stalled = before + SignedDuration::from_mins(20);
        assert_eq!(pace(slow), (Pace::Slow, Some(stalled)), "{phase:?}");
        assert_eq!(pace(stalled), (Pace::Stalled, None), "{phase:?}");
    }
}

#[test]
fn a_probe_of_the_table_is_found_by_its_name_where_it_applies() {
    let server = |name| builtin(name, NodeRole::FirstServer, Some(Platform::Harvester));
    for row in BUILTIN {
        if let Some(found) = server(row.name) {
            assert_eq!(found.name, row.name);
        }
    }
    assert!(server("rancher").is_some());
    assert!(builtin("rancher", NodeRole::Agent, Some(Platform::Harvester)).is_none());
    assert!(server("no-such-probe").is_none());
}
