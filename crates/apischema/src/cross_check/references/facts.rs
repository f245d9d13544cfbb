//! What other programs add to the objects of the files, and what they look up in them.

use std::collections::BTreeMap;

use windrow_model::manifest::Node;

pub(super) const CLUSTER_NETWORK: &str = "ClusterNetwork";

/// Custom kinds whose controllers create none of the objects that pods name.
pub(super) fn creates_nothing(group: &str, kind: &str) -> bool {
    match group {
        "k8s.cni.cncf.io" | "metallb.io" | "network.harvesterhci.io" => true,
        "kubevirt.io" => ["VirtualMachine", "VirtualMachineInstance"].contains(&kind),
        "harvesterhci.io" => ["KeyPair", "Setting"].contains(&kind),
        "helm.cattle.io" => kind == "HelmChartConfig",
        "monitoring.coreos.com" => {
            ["PodMonitor", "Probe", "PrometheusRule", "ServiceMonitor"].contains(&kind)
        }
        _ => false,
    }
}

/// The cluster network of a NetworkAttachmentDefinition of Harvester's form: `data` of the bridge data-br.
pub(in crate::cross_check) fn bridge_network(node: &Node) -> Option<(String, u32)> {
    let config = node.at(&["spec", "config"])?;
    let value: serde_json::Value = serde_json::from_str(config.as_str()?).ok()?;
    let bridge = value.get("bridge")?.as_str()?.strip_suffix("-br")?;
    Some((bridge.to_owned(), config.line))
}

/// The ports that a container's probes and hooks ask for. The kubelet looks up a name among the container's own ports
/// (`pkg/probe/util.go`, `ResolveContainerPort`).
pub(super) fn asked_ports(container: &Node) -> impl Iterator<Item = &Node> {
    const ASKERS: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let askers = ASKERS.iter().filter_map(|path| container.at(path));
    askers.flat_map(|asker| {
        let ports = ["httpGet", "tcpSocket"].map(|kind| asker.at(&[kind, "port"]));
        ports.into_iter().flatten()
    })
}

/// Whether controllers of Kubernetes set this label.
pub(super) fn is_of_running(key: &str) -> bool {
    const SET: [&str; 8] = [
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-name",
        "controller-revision-hash",
        "controller-uid",
        "job-name",
        "pod-template-generation",
        "pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
    ];
    SET.contains(&key)
}

pub(super) fn labels_of(labels: Option<&Node>) -> BTreeMap<String, String> {
    let entries = labels.map_or(&[][..], Node::entries).iter();
    let text = |node: &Node| node.as_str().unwrap_or_default().to_owned();
    entries
        .map(|entry| (entry.key.clone(), text(&entry.value)))
        .collect()
}

pub(super) fn shown_name((kind, namespace, name): &super::Named) -> String {
    match namespace.is_empty() {
        true => format!("{kind} {name}"),
        false => format!("{kind} {namespace}/{name}"),
    }
}

/// Whether this rule allows writing Secrets.
pub(super) fn writes_secrets(rule: &Node) -> bool {
    let has = |field: &str, names: &[&str]| {
        let values = rule.list(field).iter().filter_map(Node::as_str);
        values.clone().any(|value| names.contains(&value))
    };
    has("resources", &["*", "secrets"]) && has("verbs", &["*", "create", "update", "patch"])
}
