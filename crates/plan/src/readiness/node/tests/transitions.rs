//! Tests transitions: the failures that they explain, their start, and their end.

use windrow_model::reasons::Code;

use super::*;

fn upgrade(scope: TransitionScope, since: Option<Timestamp>) -> NodeEvent {
    let sign = TransitionSign {
        message: "Harvester: UpgradingNodes".to_owned(),
        since,
        scope,
    };
    NodeEvent::Transition(Transition::Upgrade, Some(sign))
}

/// A server of Harvester that was Ready in this boot.
fn ready_server() -> Node {
    let mut node = Node::harvester(NodeRole::JoinedServer);
    node.passes_but(&[]);
    assert_eq!(node.judge().readiness, Readiness::Ready);
    node
}

#[test]
fn in_hour_five_of_an_upgrade_the_node_whose_turn_it_is_is_excused() {
    let mut node = ready_server();
    node.event(upgrade(TransitionScope::Cluster, None));
    node.later(5 * 60);
    assert_eq!(
        node.judge().readiness,
        Readiness::Ready,
        "another node's turn"
    );
    let ten_minutes_ago = node.now - SignedDuration::from_mins(10);
    node.event(upgrade(TransitionScope::Node, Some(ten_minutes_ago)));
    node.fails("kubelet", "connection refused");
    let (readiness, _, code) = node.verdict();
    assert_eq!((readiness, code), (Readiness::SettingUp, Code::Upgrading));
}

#[test]
fn an_upgrade_of_other_nodes_excuses_what_all_share_and_nothing_of_the_nodes_own() {
    let mut node = ready_server();
    node.event(upgrade(TransitionScope::Cluster, None));
    node.fails("harvester", "HTTP 503");
    node.fails("cluster-provisioned", "it is being upgraded");
    assert_eq!(node.judge().readiness, Readiness::SettingUp);
    node.fails("kubelet", "connection refused");
    let (readiness, _, code) = node.verdict();
    assert_eq!(
        (readiness, code),
        (Readiness::Failed, Code::KubeletUnhealthy),
        "although the probe of an earlier phase is excused"
    );
}

#[test]
fn an_upgrade_that_has_hung_for_a_month_excuses_nothing_after_a_restart() {
    let mut node = ready_server();
    let month_ago = node.now - SignedDuration::from_hours(24 * 30);
    node.event(upgrade(TransitionScope::Node, Some(month_ago)));
    assert_eq!(
        node.judge().readiness,
        Readiness::Degraded,
        "it takes too long"
    );
    node.fails("kubelet", "connection refused");
    assert_eq!(node.judge().readiness, Readiness::Failed);
}

#[test]
fn a_transition_and_a_cordon_end_with_the_last_probe_that_reports_them() {
    let mut node = ready_server();
    for kind in [Transition::Drain, Transition::Promotion] {
        let sign = Some("found".to_owned().into());
        node.event(NodeEvent::Transition(kind, sign));
    }
    node.event(upgrade(TransitionScope::Node, None));
    node.event(NodeEvent::Cordoned(true));
    let switch_off = |node: &mut Node, names: &[&str]| {
        node.tunings = names
            .iter()
            .map(|name| ProbeTuning {
                name: (*name).to_owned(),
                off: Some(windrow_model::findings::Location::file("windrow.yaml")),
                period: None,
                fall: None,
                only_wanted: true,
                limit: None,
            })
            .collect();
        node.becomes(NodeRole::JoinedServer, "boot-1");
    };
    let left = |node: &Node| -> Vec<Transition> {
        node.seen
            .as_ref()
            .unwrap()
            .transitions
            .keys()
            .copied()
            .collect()
    };
    switch_off(&mut node, &["node"]);
    assert_eq!(
        left(&node).len(),
        3,
        "node-conditions answers the same question"
    );
    let all = ["node", "node-conditions", "etcd-member", "virt-handler"];
    switch_off(&mut node, &all);
    assert_eq!(left(&node), [Transition::Upgrade]);
    assert!(!node.seen.as_ref().unwrap().cordoned);
    switch_off(&mut node, &["settings"]);
    assert_eq!(left(&node), []);
}

#[test]
fn an_upgrade_that_nobody_confirms_while_kube_apiserver_answers_is_over() {
    let mut node = ready_server();
    node.event(upgrade(TransitionScope::Node, None));
    node.later(5);
    node.fails("kubelet", "connection refused");
    assert_eq!(node.judge().readiness, Readiness::Failed);
    // While kube-apiserver does not answer, for example during its own upgrade, the last answer stays valid.
    let mut node = ready_server();
    node.event(upgrade(TransitionScope::Node, None));
    node.fails("apiserver", "refused");
    node.later(5);
    assert_eq!(node.judge().readiness, Readiness::SettingUp);
    node.answer("apiserver", ProbeOutcome::Passed);
    node.fails("kubelet", "connection refused");
    assert_eq!(node.judge().readiness, Readiness::SettingUp);
    let wake = node.judge().next_wake.unwrap();
    node.now = node.now.max(wake);
    node.later(3);
    assert_eq!(node.judge().readiness, Readiness::Failed);
}
