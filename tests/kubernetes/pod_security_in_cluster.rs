//! Level 4: the pods that `windrow_apischema::PodSecurityLevel` refuses are those that kube-apiserver refuses, of the oldest and of the newest
//! minor here. Each is sent as a dry run to a namespace of each level.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use kube::Client;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, Minor, Spec, Who};
use support::objects::{Gvk, api, create};
use windrow_apischema::PodSecurityLevel;
use windrow_model::manifest::yaml;

use crate::support;

const POD: Gvk = ("", "v1", "Pod");
const NAMESPACE: Gvk = ("", "v1", "Namespace");

/// What `restricted` takes: with two containers, so that one can break a rule.
fn restricted() -> Value {
    let container = |name: &str| {
        json!({"name": name, "image": "site/web", "securityContext":
            {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}})
    };
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [container("first")],
        "containers": [container("web")],
        "volumes": [{"name": "v", "emptyDir": {}}],
    })
}

/// Each changes one field of that, given as a JSON pointer and its value; null takes it away.
fn changes() -> Vec<(&'static str, Value)> {
    vec![
        ("/hostNetwork", json!(true)),
        ("/hostNetwork", json!(false)),
        ("/hostPID", json!(true)),
        ("/hostIPC", json!(true)),
        ("/hostUsers", json!(false)),
        ("/os", json!({"name": "linux"})),
        ("/securityContext", Value::Null),
        ("/securityContext/runAsNonRoot", Value::Null),
        ("/securityContext/runAsNonRoot", json!(false)),
        ("/securityContext/runAsUser", json!(0)),
        ("/securityContext/runAsUser", json!(7)),
        ("/securityContext/seccompProfile", Value::Null),
        ("/securityContext/seccompProfile/type", json!("Unconfined")),
        (
            "/securityContext/sysctls",
            json!([{"name": "kernel.shm_rmid_forced", "value": "0"}]),
        ),
        (
            "/securityContext/sysctls",
            json!([{"name": "kernel.msgmax", "value": "1"}]),
        ),
        (
            "/securityContext/sysctls",
            json!([{"name": "net.ipv4.tcp_keepalive_time", "value": "1"}]),
        ),
        ("/containers/0/securityContext", Value::Null),
        ("/containers/0/securityContext/runAsNonRoot", json!(true)),
        ("/containers/0/securityContext/runAsNonRoot", json!(false)),
        ("/containers/0/securityContext/runAsUser", json!(0)),
        (
            "/containers/0/securityContext/seccompProfile",
            json!({"type": "Unconfined"}),
        ),
        (
            "/containers/0/securityContext/seccompProfile",
            json!({"type": "Localhost", "localhostProfile": "p"}),
        ),
        (
            "/containers/0/securityContext/allowPrivilegeEscalation",
            Value::Null,
        ),
        ("/containers/0/securityContext/capabilities", Value::Null),
        (
            "/containers/0/securityContext/capabilities/drop",
            json!(["NET_RAW"]),
        ),
        (
            "/containers/0/securityContext/capabilities/drop",
            json!(["all"]),
        ),
        (
            "/containers/0/securityContext/capabilities/add",
            json!(["NET_BIND_SERVICE"]),
        ),
        (
            "/containers/0/securityContext/capabilities/add",
            json!(["CHOWN"]),
        ),
        (
            "/containers/0/securityContext/capabilities/add",
            json!(["NET_ADMIN", "CHOWN"]),
        ),
        ("/containers/0/ports", json!([{"containerPort": 80}])),
        (
            "/containers/0/ports",
            json!([{"containerPort": 80, "hostPort": 80}]),
        ),
        (
            "/initContainers/0/securityContext/capabilities/add",
            json!(["SYS_ADMIN"]),
        ),
        (
            "/initContainers/0/securityContext",
            json!({"privileged": true}),
        ),
        (
            "/initContainers/0/securityContext/allowPrivilegeEscalation",
            json!(true),
        ),
        ("/volumes/0", json!({"name": "v"})),
        (
            "/volumes/0",
            json!({"name": "v", "hostPath": {"path": "/"}}),
        ),
        (
            "/volumes/0",
            json!({"name": "v", "nfs": {"server": "s", "path": "/"}}),
        ),
        ("/volumes/0", json!({"name": "v", "csi": {"driver": "d"}})),
        (
            "/volumes/0",
            json!({"name": "v", "projected": {"sources": []}}),
        ),
        (
            "/volumes/0",
            json!({"name": "v", "iscsi": {"targetPortal": "a", "iqn": "iqn.2026-01.a:b", "lun": 0}}),
        ),
    ]
}

fn changed(mut spec: Value, (pointer, value): &(&str, Value)) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    if let Some(parent) = spec.pointer_mut(parent) {
        match (parent, value) {
            (Value::Object(map), Value::Null) => drop(map.remove(key)),
            (Value::Object(map), value) => drop(map.insert(key.to_owned(), value.clone())),
            (Value::Array(items), value) => items[key.parse::<usize>().unwrap()] = value.clone(),
            _ => {}
        }
    }
    spec
}

/// What kube-apiserver says of a pod with this spec in a namespace.
async fn refusal(client: &Client, namespace: &str, spec: &Value) -> Option<String> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec});
    let pod: DynamicObject = serde_json::from_value(pod).unwrap();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match api(client, POD, namespace).create(&dry, &pod).await {
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pods_that_are_called_refused_are_those_that_kube_apiserver_refuses() {
    let levels = [
        ("privileged", None),
        ("baseline", Some(PodSecurityLevel::Baseline)),
        ("restricted", Some(PodSecurityLevel::Restricted)),
    ];
    let mut specs = vec![restricted()];
    for first in &changes() {
        let once = changed(restricted(), first);
        let twice = changes()
            .iter()
            .map(|second| changed(once.clone(), second))
            .collect::<Vec<_>>();
        specs.push(once);
        specs.extend(twice);
    }
    specs.sort_by_key(Value::to_string);
    specs.dedup();
    let mut wrong = Vec::new();
    let mut refused = 0;
    for minor in [Minor::V1_31, Minor::V1_36] {
        let spec = Spec {
            minor,
            ..Spec::default()
        };
        let Some(cluster) = Cluster::start(spec).await else {
            return;
        };
        let client = cluster.client(Who::Admin).await;
        for (name, level) in levels {
            let labels = json!({"pod-security.kubernetes.io/enforce": name});
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
            create(&api(&client, NAMESPACE, ""), namespace).await;
            for spec in &specs {
                let said = refusal(&client, name, spec).await;
                let is_invalid = |said: &String| !said.contains("violates PodSecurity");
                if said.as_ref().is_some_and(is_invalid) {
                    continue;
                }
                let node = yaml::parse_configuration(&spec.to_string())
                    .unwrap()
                    .unwrap();
                let ours = level.map_or(Vec::new(), |level| level.refuses(&node));
                refused += usize::from(said.is_some());
                // Root in a user namespace of its own is let through from 1.35 on: nothing is said of it.
                let of_root = said.as_ref().is_some_and(|said| said.contains("runAs"));
                if spec["hostUsers"] == false && ours.is_empty() && of_root {
                    continue;
                }
                if ours.is_empty() != said.is_none() {
                    wrong.push(format!(
                        "{minor:?} {name}: {spec}\n  ours {ours:?}\n  kube-apiserver {said:?}"
                    ));
                }
            }
        }
    }
    assert!(refused > 2_000, "{refused}");
    assert!(
        wrong.is_empty(),
        "{} of them\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
