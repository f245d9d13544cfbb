//! Pods for nodes with a label that no node of RKE2 has.
//!
//! RKE2 gives its nodes the labels of their roles with the value `true` (k3s `pkg/server/server.go`, setNodeLabelsAndAnnotations, and
//! `pkg/etcd/metadata_controller.go`). kubeadm gives them an empty value, and published manifests select that.

use windrow_model::findings::Finding;
use windrow_model::manifest::{Node, Object};
use windrow_model::reasons::Code;
use windrow_plan::SourceMap;

use super::finding;

const ROLES: [&str; 3] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/etcd",
    "node-role.kubernetes.io/master",
];
const VALUE: &str = "true";

/// Reports a selector of nodes that matches none.
pub(super) fn judge(object: &Object, shown: &SourceMap) -> Option<Finding> {
    let spec = object.pod_template()?.spec;
    let (line, label) = selector(spec).or_else(|| affinity(spec))?;
    let code = Code::NodeLabelWithoutNode;
    let words = [("object", &*object.id.to_string()), ("labels", &*label)];
    Some(finding(code, code.say(&words), vec![shown.at(Some(line))]))
}

fn selector(spec: &Node) -> Option<(u32, String)> {
    let entries = spec.get("nodeSelector")?.entries().iter();
    let mut roles = entries.filter(|entry| ROLES.contains(&entry.key.as_str()));
    let wrong = roles.find(|entry| entry.value.as_str().is_some_and(|value| value != VALUE))?;
    let value = wrong.value.as_str().unwrap_or_default();
    Some((wrong.line, format!("{}={value}", wrong.key)))
}

/// The terms are alternatives: each must be unusable.
fn affinity(spec: &Node) -> Option<(u32, String)> {
    let path = [
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ];
    let terms = spec.at(&path)?.items().iter();
    let wrong: Option<Vec<_>> = terms.map(unusable).collect();
    wrong?.into_iter().next()
}

fn unusable(term: &Node) -> Option<(u32, String)> {
    let mut expressions = term.list("matchExpressions").iter();
    expressions.find_map(|expression| {
        let key = expression
            .str_at(&["key"])
            .filter(|key| ROLES.contains(key))?;
        let is_in = expression.str_at(&["operator"]) == Some("In");
        let values = expression.list("values");
        let has = |value: &Node| value.as_str() == Some(VALUE);
        let is_wrong = is_in && !values.is_empty() && !values.iter().any(has);
        let value = values.first()?.as_str()?;
        is_wrong.then(|| (expression.line, format!("{key}={value}")))
    })
}
