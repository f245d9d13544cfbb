//! Needs that depend on more than the object that they name: a change of any of these objects changes the verdict.

use serde_json::json;

use super::*;

/// The Helm chart, and the Job on which its verdict depends.
fn chart() -> (ObjectRef, ObjectRef) {
    (
        ObjectRef::namespaced("helm.cattle.io", "HelmChart", "kube-system", "store"),
        ObjectRef::namespaced("batch", "Job", "kube-system", "helm-install-store"),
    )
}

fn waiting_for_the_chart() -> Node {
    let file = waits_for("a", "helm.cattle.io/namespaces/kube-system/HelmChart/store");
    let mut node = Node::new(&[("a.yaml", &file)]);
    node.api();
    node.tick();
    node
}

#[test]
fn a_chart_is_ready_when_its_job_completed_though_the_chart_itself_has_not_changed() {
    let (chart, job) = chart();
    let mut node = waiting_for_the_chart();
    assert_eq!(node.held(), ["a.yaml"]);
    let kind = GroupKind::new("helm.cattle.io", "HelmChart");
    node.observe(ClusterEvent::Kind(kind, KindSeen::SERVED));
    let seen = json!({"metadata": {"generation": 1}, "status": {"jobName": "helm-install-store"}});
    node.observe(ClusterEvent::Object(
        chart,
        ObjectSeen::Present(Arc::new(seen)),
    ));
    node.tick();
    assert!(
        node.state.interests().objects.contains_key(&job),
        "the Job is watched as soon as the chart names it"
    );
    for (status, held) in [
        (json!({"active": 1}), &["a.yaml"][..]),
        (
            json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}),
            &[],
        ),
    ] {
        let seen = ObjectSeen::Present(Arc::new(json!({"status": status})));
        node.observe(ClusterEvent::Object(job.clone(), seen));
        node.tick();
        assert_eq!(node.held(), held, "{status}");
    }
}

#[test]
fn what_has_to_be_watched_is_known_again_after_each_event_and_decision() {
    let (chart, job) = chart();
    let mut node = waiting_for_the_chart();
    assert!(!node.state.interests().objects.contains_key(&job));
    let named = json!({"status": {"jobName": "helm-install-store"}});
    node.observe(ClusterEvent::Object(
        chart.clone(),
        ObjectSeen::Present(Arc::new(named)),
    ));
    assert!(node.state.interests().objects.contains_key(&job));
    node.observe(ClusterEvent::Object(chart, ObjectSeen::Absent));
    assert!(!node.state.interests().objects.contains_key(&job));
}
