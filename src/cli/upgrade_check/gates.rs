//! The feature gates of all nodes, read over one list: RKE2 writes its arguments into an annotation of each Node.

use std::collections::BTreeMap;

use serde_json::Value;
use windrow_gates::{Component, GateRequest, TargetVersion, assess};
use windrow_harvester::HarvesterVersion;
use windrow_harvester::objects::{ObjectKind, Objects, text, texts};
use windrow_model::findings::Evidence;
use windrow_model::reasons::Severity;
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge, split};

/// RKE2's arguments as a JSON list; values that are secret are hashes (k3s `pkg/nodeconfig`).
const ARGUMENTS: &str = "rke2.io/node-args";

/// The gates that the Kubernetes version of a release refuses, without the gates that Windrow sets: it removes them
/// automatically.
///
/// # Errors
///
/// The reason why they are unknown.
pub(super) fn refused_gates(
    objects: &Objects,
    to: HarvesterVersion,
    own: &[GateRequest],
) -> Result<Vec<Evidence>, String> {
    let Some(version) = to.rke2() else {
        return Err(format!(
            "Windrow does not know the Kubernetes version of v{to}"
        ));
    };
    let target = TargetVersion::Known(version);
    let nodes = objects
        .all(ObjectKind::NODE)
        .map_err(|why| why.to_string())?;
    let (mut refused, mut unknown) = (Vec::new(), None);
    for node in nodes {
        let name = text(node, "/metadata/name");
        let Some(file) = configuration(node, own) else {
            unknown = Some(format!("Node {name} has no annotation {ARGUMENTS}"));
            continue;
        };
        let assessed = assess(&merge(&[file]), None, &target);
        if assessed.uncertain() {
            unknown = Some(format!(
                "some gates of Node {name}: windrow gates check --rke2 v{version}"
            ));
        }
        let errors = assessed.findings.into_iter();
        let errors = errors.filter(|finding| finding.severity == Severity::Error);
        let field = format!("metadata.annotations[{ARGUMENTS}]");
        refused.extend(
            errors.map(|finding| Evidence::new(format!("Node {name}"), &field, finding.message)),
        );
    }
    match unknown {
        Some(why) if refused.is_empty() => Err(why),
        _ => Ok(refused),
    }
}

fn configuration(node: &Value, own: &[GateRequest]) -> Option<Rke2ConfigFile> {
    let arguments = texts(node, "/metadata/annotations").remove(ARGUMENTS)?;
    let arguments: Vec<String> = serde_json::from_str(&arguments).ok()?;
    let mut lists: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pair in arguments.windows(2) {
        let Some(key) = pair[0].strip_prefix("--") else {
            continue;
        };
        let Some(component) = Component::ALL.into_iter().find(|one| one.argument() == key) else {
            continue;
        };
        if let Some(flag) = without_own(&pair[1], component, own) {
            lists.entry(component.argument()).or_default().push(flag);
        }
    }
    let shown = format!("Node {}", text(node, "/metadata/name"));
    // JSON is YAML too.
    let lists = serde_json::to_string(&lists).ok()?;
    Some(Rke2ConfigFile::new(ConfigLayer::Main, shown, lists))
}

/// A flag of gates without those that Windrow sets, or a flag that decides the effect of gates; `None` for another
/// flag, or if no gate is left.
fn without_own(flag: &str, component: Component, own: &[GateRequest]) -> Option<String> {
    let (name, value) = split(flag);
    match name.trim_end_matches(['+', '-']) {
        "feature-gates" => {}
        "runtime-config" | "disable-admission-plugins" | "emulated-version" => {
            return Some(flag.to_owned());
        }
        _ => return None,
    }
    let is_own = |pair: &str| {
        let mut own = own.iter().filter(|one| one.component == component);
        own.any(|one| pair == format!("{}={}", one.gate, one.value))
    };
    let left: Vec<&str> = value.split(',').filter(|pair| !is_own(pair)).collect();
    (!left.is_empty()).then(|| format!("{name}={}", left.join(",")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windrow_model::findings::Location;

    use super::*;

    fn refused(arguments: Value, to: &str, own: &[GateRequest]) -> Result<Vec<String>, String> {
        let mut objects = Objects::default();
        objects.add(
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1",
            "annotations": {ARGUMENTS: arguments.to_string()}}}),
        );
        let found = refused_gates(&objects, to.parse().unwrap(), own)?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_gate_that_is_gone_in_the_target_is_found_in_a_nodes_arguments() {
        let gates = "feature-gates=AuthorizeNodeWithSelectors=false";
        let arguments = json!([
            "server",
            "--kube-apiserver-arg",
            gates,
            "--token",
            "********"
        ]);
        // Kubernetes 1.34 has it locked; 1.33 accepts it.
        let found = refused(arguments.clone(), "v1.7.0", &[]).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("AuthorizeNodeWithSelectors"), "{found:?}");
        assert_eq!(refused(arguments.clone(), "v1.6.0", &[]), Ok(vec![]));
        let own = GateRequest {
            component: Component::KubeApiserver,
            gate: "AuthorizeNodeWithSelectors".to_owned(),
            value: false,
            when: None,
            reason: None,
            at: Location::file("windrow.yaml"),
        };
        assert_eq!(refused(arguments, "v1.7.0", &[own]), Ok(vec![]));
    }

    #[test]
    fn a_gate_whose_api_the_nodes_arguments_serve_is_fine() {
        let gate = "feature-gates=CoordinatedLeaderElection=true";
        let alone = json!(["server", "--kube-apiserver-arg", gate]);
        assert_eq!(refused(alone, "v1.7.0", &[]).unwrap().len(), 1);
        let runtime = "runtime-config=coordination.k8s.io/v1beta1=true";
        let served = json!([
            "--kube-apiserver-arg",
            gate,
            "--kube-apiserver-arg",
            runtime
        ]);
        assert_eq!(refused(served, "v1.7.0", &[]), Ok(vec![]));
    }

    #[test]
    fn what_is_not_known_is_no_yes() {
        assert!(refused(json!(["server"]), "v9.0.0", &[]).is_err());
        assert!(refused(json!({}), "v1.7.0", &[]).is_err());
        assert_eq!(refused(json!(["server"]), "v1.7.0", &[]), Ok(vec![]));
    }
}
