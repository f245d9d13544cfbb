//! A whole node on a booted machine: systemd, Windrow's units, and under rke2-server.service a real kube-apiserver with the
//! real deploy controller (`tests/cluster`).
//!
//! It uses what a user has: the program, the units, the files, the API. Without the machine's root, root's rights or
//! the cluster's binaries each test prints one line and is skipped.

// Other tests use the list of minors.
#[allow(dead_code)]
use assets::Minor;
use machine::{Builder, Machine};
use serde_json::Value;

use crate::support::cluster::assets;
use crate::support::gate_node;
use crate::support::machine;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";

/// Sorts before its definition: RKE2 alone would try it first.
const CUSTOM: (&str, &str) = (
    "a-widget.yaml",
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget, namespace: default}\n",
);
const DEFINITION: (&str, &str) = (
    "b-widgets.yaml",
    "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
",
);

/// A node whose rke2-server is real in everything that staging can see; `None` when its parts are not here.
fn node() -> Option<Builder> {
    let [rke2, apiserver] = gate_node::parts([
        (Minor::V1_36, "rke2-standin"),
        (Minor::V1_36, "kube-apiserver"),
    ])?;
    let node = Builder::node()
        .bind(rke2, "/usr/local/bin/rke2-standin")
        .bind(apiserver, "/opt/kubernetes/kube-apiserver")
        .drop_in(
            "rke2-server.service",
            "[Service]\nEnvironment=RKE2_STANDIN_BINARIES=/opt/kubernetes\n\
             ExecStart=\nExecStart=/usr/local/bin/rke2-standin\n",
        );
    Some(node)
}

/// kube-apiserver's answer to the admin at this path; `None` when there is no such object.
fn get(machine: &Machine, path: &str) -> Option<Value> {
    let text = gate_node::get(machine, path)?;
    Some(serde_json::from_str(&text).expect("an object"))
}

/// Reasons of the deploy controller's events about the Addon of this name.
fn reasons(machine: &Machine, addon: &str) -> Vec<String> {
    let events = get(machine, "/api/v1/namespaces/kube-system/events").expect("events");
    let events = events["items"].as_array().expect("a list").iter();
    events
        .filter(|event| event["involvedObject"]["name"] == addon)
        .filter_map(|event| event["reason"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn a_custom_resource_that_sorts_before_its_definition_is_applied_without_a_single_failure() {
    let Some(node) = node() else { return };
    let machine = node
        .file(&format!("{MANIFESTS}/{}", CUSTOM.0), CUSTOM.1)
        .file(&format!("{MANIFESTS}/{}", DEFINITION.0), DEFINITION.1)
        .boot();
    machine.wait_unit("rke2-server.service", "active");
    let widget = "/apis/example.com/v1/namespaces/default/widgets/widget";
    machine.wait_until("the custom resource is there", |machine| {
        get(machine, widget).is_some()
    });
    let reasons = reasons(&machine, "a-widget");
    assert!(!reasons.is_empty());
    assert!(
        reasons.iter().all(|reason| !reason.contains("Failed")),
        "{reasons:?}"
    );
}
