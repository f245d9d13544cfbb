//! The checks of kube-apiserver for a Pod of a manifest.

use serde_json::json;

use super::*;

fn pod(spec: serde_json::Value) -> serde_json::Value {
    let mut spec = spec;
    spec["containers"] = json!([{"name": "web", "image": "site/web"}]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
}

/// The verdict on RKE2 with these objects, and the assumptions.
fn of(objects: &[serde_json::Value]) -> (BootstrapVerdict, Vec<String>) {
    let mut files = SimulatedDirectory::new();
    // The Pod comes first: its requirements may follow.
    for (number, object) in objects.iter().enumerate() {
        file(
            &mut files,
            &format!("{number}.yaml"),
            std::slice::from_ref(object),
        );
    }
    let mut node = SimulatedNode::new(Scenario::rke2(start()), 3);
    let verdict = run(&mut node, &files).verdict;
    (verdict, node.cluster().guesses().collect())
}

fn refusal(objects: &[serde_json::Value]) -> String {
    let (verdict, guesses) = of(objects);
    assert!(guesses.is_empty(), "{guesses:?}");
    match verdict {
        BootstrapVerdict::Stuck { missing } => missing.join("\n"),
        other => panic!("{other:?}"),
    }
}

/// A reference of a Pod, the message of kube-apiserver if its target is missing, and how the target is created.
fn named() -> [(serde_json::Value, &'static str, serde_json::Value); 3] {
    [
        (
            json!({"serviceAccountName": "robot"}),
            "pods \"web\" is forbidden: error looking up service account default/robot: serviceaccount \"robot\" not found",
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}),
        ),
        (
            json!({"priorityClassName": "high"}),
            "pods \"web\" is forbidden: no PriorityClass with name high was found",
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1}),
        ),
        (
            json!({"runtimeClassName": "kata"}),
            "pods \"web\" is forbidden: pod rejected: RuntimeClass \"kata\" not found",
            json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata"}),
        ),
    ]
}

#[test]
fn a_pod_is_refused_until_what_it_names_is_there() {
    for (spec, says, made) in named() {
        let refused = refusal(&[pod(spec.clone())]);
        assert!(refused.ends_with(says), "{refused}");
        let complete = (BootstrapVerdict::Complete, Vec::new());
        assert_eq!(of(&[pod(spec), made]), complete, "{says}");
    }
    for everywhere in [
        json!({"serviceAccountName": "default"}),
        json!({"priorityClassName": "system-node-critical"}),
    ] {
        assert_eq!(of(&[pod(everywhere)]).0, BootstrapVerdict::Complete);
    }
}

#[test]
fn whether_a_pod_is_refused_is_not_known_where_something_may_bring_what_it_names() {
    let chart = json!({"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
        "metadata": {"name": "site", "namespace": "kube-system"}, "spec": {"chart": "site"}});
    for (spec, _, made) in named() {
        let (verdict, guesses) = of(&[pod(spec), chart.clone()]);
        assert_eq!(verdict, BootstrapVerdict::Complete);
        let end = format!(
            ", unless HelmChart kube-system/site brings {}",
            made["kind"].as_str().unwrap()
        );
        assert!(
            guesses.len() == 1 && guesses[0].ends_with(&end),
            "{guesses:?}"
        );
    }
}

#[test]
fn a_quota_of_processors_or_memory_refuses_pods_that_do_not_say_how_much_they_take() {
    let quota = |hard: serde_json::Value| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "most"}, "spec": {"hard": hard}});
    let limits = |of: serde_json::Value| json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "usual"}, "spec": {"limits": [of]}});
    let counted =
        quota(json!({"cpu": "2", "limits.memory": "2Gi", "pods": "3", "requests.storage": "1Gi"}));
    let refused = refusal(&[counted.clone(), pod(json!({}))]);
    let says = "failed quota: most: must specify cpu for: web; limits.memory for: web";
    assert!(refused.ends_with(says), "{refused}");
    // A limit also counts as a request, and a range sets both.
    let of_containers = json!({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}});
    let ends = of(&[limits(of_containers), counted.clone(), pod(json!({}))]);
    assert_eq!(ends.0, BootstrapVerdict::Complete);
    let of_pods = json!({"type": "Pod", "max": {"cpu": "1", "memory": "1Gi"}});
    let refused = refusal(&[limits(of_pods), counted.clone(), pod(json!({}))]);
    assert!(refused.ends_with(says), "{refused}");
    let mut says_itself = pod(json!({}));
    says_itself["spec"]["containers"][0]["resources"] =
        json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    assert_eq!(of(&[counted, says_itself]).0, BootstrapVerdict::Complete);
    let scoped = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "most"},
        "spec": {"hard": {"cpu": "2"}, "scopes": ["NotBestEffort"]}});
    assert_eq!(of(&[scoped, pod(json!({}))]).0, BootstrapVerdict::Complete);
}
