//! Tests the durations of phases, and what a node learns from its boots.

use super::*;

/// A first server of plain RKE2 with boots of these durations: minutes in `api`, then in `node`.
fn boots(minutes: &[(i64, i64)]) -> Node {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.memory.installed = true;
    for (number, (api, kubelet)) in minutes.iter().enumerate() {
        node.boots(NodeRole::FirstServer, &format!("earlier-{number}"));
        boot(&mut node, *api, *kubelet);
    }
    node
}

fn boot(node: &mut Node, api: i64, kubelet: i64) {
    node.passes_but(&["apiserver", "kubelet", "node"]);
    node.fails("apiserver", "refuses connections");
    node.fails("kubelet", "refuses connections");
    node.fails("node", "no Node");
    node.judge();
    node.later(api);
    node.settles("apiserver", &ProbeOutcome::Passed);
    node.judge();
    node.later(kubelet);
    node.passes_but(&[]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
}

fn phase(judged: &NodeJudgement, name: Phase) -> PhaseStatus {
    let found = judged.phases.iter().find(|phase| phase.name == name);
    found.unwrap().clone()
}

#[test]
fn each_phase_of_a_boot_has_its_beginning_and_its_time() {
    let mut node = boots(&[(4, 2)]);
    let judged = node.judge();
    let (api, kubelet) = (phase(&judged, Phase::Api), phase(&judged, Phase::Node));
    assert_eq!((api.seconds, kubelet.seconds), (Some(240), Some(120)));
    let ready = node.now;
    assert_eq!(judged.first_ready, Some(ready));
    assert_eq!(api.began, Some(ready - SignedDuration::from_mins(6)));
    assert_eq!(kubelet.began, Some(ready - SignedDuration::from_mins(2)));
    assert_eq!(judged.phase_since, None, "the bootstrap is over");
    node.boots(NodeRole::FirstServer, "next");
    node.passes_but(&["apiserver"]);
    node.fails("apiserver", "refuses connections");
    let begun = node.now;
    assert_eq!(node.judge().phase_since, Some(begun));
    node.later(7);
    let judged = node.judge();
    assert_eq!(
        (judged.phase_since, judged.first_ready),
        (Some(begun), None)
    );
    assert_eq!(phase(&judged, Phase::Api).began, Some(begun));
    assert_eq!(phase(&judged, Phase::Api).seconds, None, "it is not over");
}

#[test]
fn a_restart_of_windrow_in_a_boot_does_not_make_its_phase_younger() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.passes_but(&["apiserver"]);
    node.fails("apiserver", "refuses connections");
    node.judge();
    let begun = node.now;
    node.later(14);
    node.boots(NodeRole::FirstServer, "boot-1");
    assert_eq!(node.judge().readiness, Readiness::Unknown);
    node.passes_but(&["apiserver"]);
    node.fails("apiserver", "refuses connections");
    assert_eq!(node.judge().phase_since, Some(begun));
    node.later(1);
    assert_eq!(node.judge().pace, Some(Pace::Slow), "15 minutes in all");
}

#[test]
fn a_node_learns_from_its_boots_what_is_usual() {
    let mut node = boots(&[(2, 1), (4, 1), (3, 1)]);
    node.boots(NodeRole::FirstServer, "now");
    node.passes_but(&["apiserver"]);
    node.fails("apiserver", "refuses connections");
    let expected = phase(&node.judge(), Phase::Api).expected.unwrap();
    assert_eq!(
        expected,
        PhaseExpectation {
            seconds: 360,
            from: ExpectationSource::EarlierBoots,
            usual: Some(UsualTime {
                boots: 3,
                median: 180,
                p90: 240
            }),
        }
    );
    let short = phase(&node.judge(), Phase::Node).expected.unwrap();
    assert_eq!(short.seconds, 120, "a minute longer at least");
    node.later(5);
    assert_eq!(node.judge().pace, Some(Pace::Moving));
    node.later(1);
    assert_eq!(
        node.judge().pace,
        Some(Pace::Slow),
        "where the default is 15 minutes"
    );
}

#[test]
fn a_boot_teaches_the_same_whichever_of_its_probes_has_failed_often_enough_first() {
    let mut node = boots(&[]);
    node.boots(NodeRole::FirstServer, "earlier");
    let begun = node.now;
    let refused = ProbeOutcome::failed("refuses connections");
    node.answer("rke2-installed", ProbeOutcome::Passed);
    // The third answer of the kubelet arrives before the second answer of its dependency.
    node.answer("apiserver", refused.clone());
    node.settles("kubelet", &refused);
    assert_eq!(node.judge().phase, Phase::Node);
    node.passes_but(&["apiserver", "kubelet", "node"]);
    node.settles("apiserver", &refused);
    let judged = node.judge();
    assert_eq!(
        (judged.phase, judged.phase_since),
        (Phase::Api, Some(begun))
    );
    node.later(3);
    node.passes_but(&[]);
    node.judge();
    node.boots(NodeRole::FirstServer, "now");
    node.passes_but(&["apiserver"]);
    node.settles("apiserver", &refused);
    let expected = phase(&node.judge(), Phase::Api).expected.unwrap();
    assert_eq!(expected.from, ExpectationSource::EarlierBoots);
    assert_eq!(expected.usual.map(|usual| usual.median), Some(180));
}

#[test]
fn a_node_that_has_booted_once_or_never_expects_the_default_of_its_platform() {
    let mut first = Node::new(NodeRole::FirstServer, Platform::Rke2);
    first.passes_but(&["apiserver"]);
    first.fails("apiserver", "refuses connections");
    let by_default = PhaseExpectation {
        seconds: 900,
        from: ExpectationSource::Default,
        usual: None,
    };
    assert_eq!(phase(&first.judge(), Phase::Api).expected, Some(by_default));
    first.boots(NodeRole::FirstServer, "boot-1");
    boot(&mut first, 9, 9);
    // The duration of an installation does not count for a start.
    first.boots(NodeRole::FirstServer, "boot-2");
    first.passes_but(&["apiserver"]);
    first.fails("apiserver", "refuses connections");
    assert_eq!(phase(&first.judge(), Phase::Api).expected, Some(by_default));
    assert_eq!(first.memory.earlier.len(), 1);
}

#[test]
fn a_phase_in_which_a_boot_stalled_teaches_nothing_and_the_others_do() {
    let mut node = boots(&[(1, 1)]);
    node.boots(NodeRole::FirstServer, "hung");
    node.passes_but(&["apiserver", "kubelet", "node"]);
    node.fails("apiserver", "refuses connections");
    node.fails("kubelet", "refuses connections");
    node.fails("node", "no Node");
    node.judge();
    node.later(600);
    assert_eq!(node.judge().pace, Some(Pace::Stalled));
    node.settles("apiserver", &ProbeOutcome::Passed);
    node.judge();
    node.later(3);
    node.passes_but(&[]);
    node.judge();
    node.boots(NodeRole::FirstServer, "now");
    node.passes_but(&["apiserver"]);
    node.fails("apiserver", "refuses connections");
    let judged = node.judge();
    let boots = |name| phase(&judged, name).expected.unwrap().usual.unwrap().boots;
    assert_eq!((boots(Phase::Api), boots(Phase::Node)), (1, 2));
}

#[test]
fn windrow_on_a_node_that_is_up_already_learns_nothing_of_its_boot() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.passes_but(&[]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
    assert!(node.memory.earlier.is_empty());
    node.boots(NodeRole::FirstServer, "half way");
    node.passes_but(&["node"]);
    node.fails("node", "not ready");
    node.judge();
    node.later(3);
    node.passes_but(&[]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
    assert!(node.memory.earlier.is_empty());
}

#[test]
fn the_last_ten_boots_are_remembered() {
    let node = boots(&[(1, 1); 14]);
    let names: Vec<&str> = node
        .memory
        .earlier
        .iter()
        .map(|one| one.boot.as_str())
        .collect();
    assert_eq!(names.len(), 10);
    assert_eq!((names[0], names[9]), ("earlier-4", "earlier-13"));
}

#[test]
fn what_is_remembered_moves_with_the_clock_and_a_clock_that_goes_back_takes_no_time_away() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.passes_but(&["apiserver"]);
    node.fails("apiserver", "refuses connections");
    node.judge();
    let jump = SignedDuration::from_hours(-1_000);
    node.now += jump;
    node.seen.as_mut().unwrap().clock_jumped(jump);
    node.memory.clock_jumped(jump);
    let judged = node.judge();
    assert_eq!(judged.phase_since, Some(node.now));
    assert_eq!(judged.pace, Some(Pace::Moving));
    // A jump that was not observed.
    node.now -= SignedDuration::from_hours(5);
    node.passes_but(&[]);
    assert_eq!(phase(&node.judge(), Phase::Api).seconds, Some(0));
}

#[test]
fn each_default_names_where_it_comes_from() {
    for name in Phase::bootstrap(Some(Platform::Harvester)) {
        let source = default_source(*name, Some(Platform::Harvester));
        assert!(
            source.contains("estimate") || source.contains("pkg/"),
            "{name:?}: {source}"
        );
    }
}

/// The rows of a knowledge file that apply to a node of plain RKE2 v1.35.3 with this hardware.
fn learned(rows: &[&str], hardware: Option<&str>) -> Vec<LearnedPhase> {
    let rows: Vec<String> = rows.iter().map(|row| format!("  - {{{row}}}\n")).collect();
    let text = format!(
        "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {{name: learned}}\nphases:\n{}",
        rows.concat()
    );
    let (rules, errors) = crate::rules::RuleSet::load(&[("learned.yaml".to_owned(), text)]);
    assert_eq!(errors, []);
    let node = crate::knowledge::NodeFacts::from(Some(Platform::Rke2))
        .with_machine(Some("v1.35.3+rke2r1"), hardware.map(str::to_owned));
    rules.knowledge.phases_on(&node)
}

const API: &str = "phase: api, platform: rke2, versions: '>=1.35.3 <1.35.4', installed: true, \
    times: {p5: 1m, p25: 80s, half: 90s, p75: 2m, p95: 4m}, seen: {boots: 14, of: 14, last: 2026-11-23}";

/// The expectation for phase `api` of an installed node with this knowledge.
fn expects(node: &mut Node) -> PhaseExpectation {
    node.memory.installed = true;
    node.boots(NodeRole::FirstServer, "now");
    node.passes_but(&["apiserver"]);
    node.fails("apiserver", "refuses connections");
    phase(&node.judge(), Phase::Api).expected.unwrap()
}

#[test]
fn a_node_that_has_not_booted_expects_what_nodes_like_it_have_shown_and_then_its_own_boots() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.learned = learned(&[API], None);
    let expected = expects(&mut node);
    assert_eq!(expected.from, ExpectationSource::Learned);
    // From 2 min 0 s to 4 min 0 s: three quarters of the way, and 1.5 times that.
    let usual = UsualTime {
        boots: 14,
        median: 90,
        p90: 210,
    };
    assert_eq!((expected.seconds, expected.usual), (315, Some(usual)));
    node.later(5);
    assert_eq!(node.judge().pace, Some(Pace::Moving));
    node.later(1);
    assert_eq!(node.judge().pace, Some(Pace::Slow));

    let mut own = boots(&[(2, 1)]);
    own.learned.clone_from(&node.learned);
    assert_eq!(expects(&mut own).from, ExpectationSource::EarlierBoots);
    // The duration of an installation does not count for a start, not even from other nodes.
    let mut first = Node::new(NodeRole::FirstServer, Platform::Rke2);
    first.learned = learned(&[&API.replace("installed: true", "installed: false")], None);
    assert_eq!(expects(&mut first).from, ExpectationSource::Default);
}

#[test]
fn what_was_learned_counts_where_platform_version_and_hardware_are_those_of_the_node() {
    let from = |rows: &[&str], hardware| {
        let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
        node.learned = learned(rows, hardware);
        let expected = expects(&mut node);
        expected.usual.map_or(0, |usual| usual.median)
    };
    let ours = API.replace("phase: api", "phase: api, hardware: 4cpu-8g-hdd");
    let ours = ours.replace("half: 90s", "half: 100s");
    assert_eq!(from(&[API, &ours], Some("4cpu-8g-hdd")), 100);
    assert_eq!(from(&[&ours, API], Some("4cpu-8g-hdd")), 100);
    assert_eq!(from(&[&ours, API], Some("16cpu-64g-nvme")), 90);
    assert_eq!(from(&[&ours], Some("16cpu-64g-nvme")), 0);
    assert_eq!(from(&[&ours], None), 0);
    assert_eq!(
        from(
            &[&API.replace(">=1.35.3 <1.35.4", ">=1.34.0 <1.34.1")],
            None
        ),
        0
    );
    assert_eq!(from(&[&API.replace("rke2", "harvester")], None), 0);
    let few = API.replace("boots: 14, of: 14", "boots: 2, of: 2");
    assert_eq!(from(&[&few], None), 0);
    // The later of two files counts.
    assert_eq!(
        from(&[API, &API.replace("half: 90s", "half: 95s")], None),
        95
    );
}

#[test]
fn what_was_learned_of_another_role_does_not_count() {
    let from = |rows: &[&str]| {
        let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
        node.learned = learned(rows, None);
        let expected = expects(&mut node);
        expected.usual.map_or(0, |usual| usual.median)
    };
    let of = |role: &str, half: &str| {
        let row = API.replace("phase: api", &format!("phase: api, role: {role}"));
        row.replace("half: 90s", &format!("half: {half}"))
    };
    let (first, joined) = (of("first-server", "110s"), of("joined-server", "82s"));
    assert_eq!(from(&[&joined]), 0);
    assert_eq!(from(&[&joined, &first]), 110);
    assert_eq!(from(&[&first, API, &joined]), 110);
    // A row without a role applies to all roles.
    assert_eq!(from(&[&joined, API]), 90);
}

#[test]
fn absurd_times_make_no_phase_longer_than_four_times_its_default() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.learned = learned(&[&API.replace("p95: 4m", "p95: 300d")], None);
    assert_eq!(expects(&mut node).seconds, 4 * 15 * 60);
}

#[test]
fn a_phase_that_is_known_to_last_long_is_stalled_later_and_never_earlier() {
    let stalls_after = |p95: &str| {
        let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
        node.learned = learned(&[&API.replace("p95: 4m", p95)], None);
        expects(&mut node);
        (1..=90).find(|_| {
            node.later(1);
            node.fails("apiserver", "refuses connections");
            node.judge().pace == Some(Pace::Stalled)
        })
    };
    assert_eq!(stalls_after("p95: 2m"), Some(20));
    assert_eq!(stalls_after("p95: 20m"), Some(20));
    assert_eq!(stalls_after("p95: 35m"), Some(35));
    assert_eq!(stalls_after("p95: 300d"), Some(60));
}

#[test]
fn a_phase_that_a_boot_falls_back_to_took_both_of_its_stays() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.passes_but(&["apiserver", "node"]);
    node.fails("apiserver", "refuses connections");
    node.fails("node", "no Node");
    node.judge();
    node.later(2);
    node.settles("apiserver", &ProbeOutcome::Passed);
    assert_eq!(node.judge().phase, Phase::Node);
    node.later(1);
    for _ in 0..5 {
        node.fails("apiserver", "refuses connections");
    }
    assert_eq!(node.judge().phase, Phase::Api);
    node.later(3);
    node.passes_but(&[]);
    let judged = node.judge();
    assert_eq!(judged.readiness, Readiness::Ready);
    assert_eq!(phase(&judged, Phase::Api).seconds, Some(300));
    assert_eq!(phase(&judged, Phase::Node).seconds, Some(60));
}

#[test]
fn what_comes_after_the_node_was_ready_adds_nothing_to_its_boot() {
    let mut node = boots(&[(4, 2)]);
    let ready = node.now;
    node.later(60);
    for _ in 0..5 {
        node.fails("node", "not ready");
    }
    assert_eq!(node.judge().readiness, Readiness::Failed);
    node.later(60);
    node.passes_but(&[]);
    let judged = node.judge();
    assert_eq!(judged.first_ready, Some(ready));
    assert_eq!(phase(&judged, Phase::Node).seconds, Some(120));
}

#[test]
fn a_time_in_which_nothing_is_known_belongs_to_the_phase_before_it() {
    let mut node = Node::new(NodeRole::FirstServer, Platform::Rke2);
    node.passes_but(&["apiserver"]);
    node.fails("apiserver", "refuses connections");
    node.judge();
    node.later(3);
    node.settles("apiserver", &ProbeOutcome::Passed);
    node.refused("rke2-installed", "no message bus");
    let judged = node.judge();
    assert_eq!(judged.readiness, Readiness::Unknown);
    assert_ne!(judged.phase, Phase::Api);
    node.later(2);
    node.passes_but(&["apiserver"]);
    node.fails("apiserver", "refuses connections");
    assert_eq!(node.judge().phase, Phase::Api);
    node.later(2);
    node.passes_but(&[]);
    let judged = node.judge();
    assert_eq!(phase(&judged, Phase::Api).seconds, Some(420));
}

#[test]
fn the_phases_of_this_boot_move_with_the_clock() {
    let mut node = boots(&[(4, 2)]);
    let before = phase(&node.judge(), Phase::Api).began.unwrap();
    let jump = SignedDuration::from_hours(3);
    node.now += jump;
    node.seen.as_mut().unwrap().clock_jumped(jump);
    node.memory.clock_jumped(jump);
    let after = phase(&node.judge(), Phase::Api).began.unwrap();
    assert_eq!(after, before + jump);
}

#[test]
fn a_boot_is_remembered_once_and_is_no_measure_for_itself() {
    let mut node = boots(&[(2, 1)]);
    node.boots(NodeRole::FirstServer, "now");
    boot(&mut node, 6, 1);
    for _ in 0..3 {
        node.later(1);
        node.passes_but(&[]);
        node.judge();
    }
    assert_eq!(node.memory.earlier.len(), 2);
    let usual = phase(&node.judge(), Phase::Api)
        .expected
        .unwrap()
        .usual
        .unwrap();
    assert_eq!((usual.boots, usual.median), (1, 120));
}

#[test]
fn the_usual_time_of_two_boots_lies_between_them() {
    let mut node = boots(&[(2, 1), (4, 1)]);
    node.boots(NodeRole::FirstServer, "now");
    node.passes_but(&["apiserver"]);
    node.fails("apiserver", "refuses connections");
    let usual = phase(&node.judge(), Phase::Api).expected.unwrap().usual;
    assert_eq!(
        usual.map(|usual| (usual.median, usual.p90)),
        Some((180, 240))
    );
    assert_eq!(median(Vec::new()), None);
}

/// As an older version left it: with the fact that the node was Ready, but without times.
#[test]
fn a_node_that_was_ready_before_times_were_remembered_is_not_on_its_way_again() {
    let mut node = boots(&[]);
    node.passes_but(&[]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
    node.memory.bootstrap = None;
    node.memory.earlier.clear();
    node.fails("apiserver", "refuses connections");
    let judged = node.judge();
    assert_eq!(
        (judged.phase_since, judged.first_ready),
        (None, Some(node.now))
    );
    node.later(3);
    node.passes_but(&[]);
    node.judge();
    assert_eq!(node.memory.earlier, []);
}
