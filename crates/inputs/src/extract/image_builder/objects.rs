//! The objects that Edge Image Builder makes from a definition.

use serde_json::{Value, json};
use windrow_model::manifest::{Node, yaml};

/// The charts that come with a cluster's address, and their namespaces (`pkg/combustion/helm.go`).
pub(super) const ADDRESS_CHARTS: [(&str, &str); 2] = [
    ("metallb", "metallb-system"),
    ("endpoint-copier-operator", "endpoint-copier-operator"),
];
/// Their repository (`config/artifacts.yaml`).
const ADDRESS_REPOSITORY: &str = "https://suse-edge.github.io/charts";

/// A HelmChart, and the name of its release (`pkg/registry/helm_crd.go`). On the node it contains the chart itself,
/// which is fetched when the image is built; here it only refers to the chart.
pub(super) fn chart(chart: &Node, name: &str, url: &str, values: &str) -> (String, String) {
    let of = |key: &str| chart.str_at(&[key]);
    let release = of("releaseName").unwrap_or_else(|| name.strip_suffix("-chart").unwrap_or(name));
    let mut spec = json!({
        "chart": name,
        "repo": url,
        "version": of("version").unwrap_or_default(),
        "backOffLimit": 20,
    });
    if url.starts_with("oci://") {
        spec["chart"] = format!("{}/{name}", url.trim_end_matches('/')).into();
        spec["repo"] = Value::Null;
    }
    if !values.is_empty() {
        spec["valuesContent"] = values.into();
    }
    if let Some(namespace) = of("targetNamespace") {
        spec["targetNamespace"] = namespace.into();
    }
    if chart.get("createNamespace").and_then(Node::as_bool) == Some(true) {
        spec["createNamespace"] = true.into();
    }
    let mut metadata = json!({"name": release});
    if let Some(namespace) = of("installationNamespace") {
        metadata["namespace"] = namespace.into();
    }
    (release.to_owned(), helm_chart(&metadata, spec))
}

/// One of the charts that come with an address.
pub(super) fn address_chart(name: &str, namespace: &str) -> String {
    let spec = json!({
        "chart": name,
        "repo": ADDRESS_REPOSITORY,
        "targetNamespace": namespace,
        "createNamespace": true,
        "backOffLimit": 20,
    });
    helm_chart(&json!({"name": name, "namespace": "kube-system"}), spec)
}

fn helm_chart(metadata: &Value, mut spec: Value) -> String {
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|_, value| *value != Value::Null && *value != "");
    }
    written(&[json!({
        "apiVersion": "helm.cattle.io/v1",
        "kind": "HelmChart",
        "metadata": metadata,
        "spec": spec,
    })])
}

/// The objects that make MetalLB answer for the cluster's address (`pkg/combustion/templates/k8s-vip.yaml.tpl`).
pub(super) fn address(four: &str, six: &str) -> String {
    let given = [(four, "/32"), (six, "/128")];
    let given = given.iter().filter(|(address, _)| !address.is_empty());
    let addresses: Vec<String> = given
        .map(|(address, mask)| format!("{address}{mask}"))
        .collect();
    let port = |name: &str, port: u16| json!({"name": name, "port": port, "protocol": "TCP", "targetPort": port});
    let chosen = json!({"key": "serviceType", "operator": "In", "values": ["kubernetes-vip"]});
    written(&[
        json!({
            "apiVersion": "metallb.io/v1beta1",
            "kind": "IPAddressPool",
            "metadata": {"name": "api-ip", "namespace": "metallb-system"},
            "spec": {
                "addresses": addresses,
                "avoidBuggyIPs": true,
                "serviceAllocation": {
                    "namespaces": ["default"],
                    "serviceSelectors": [{"matchExpressions": [chosen]}],
                },
            },
        }),
        json!({
            "apiVersion": "metallb.io/v1beta1",
            "kind": "L2Advertisement",
            "metadata": {"name": "api-ip-l2-adv", "namespace": "metallb-system"},
            "spec": {"ipAddressPools": ["api-ip"]},
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kubernetes-vip", "namespace": "default", "labels": {"serviceType": "kubernetes-vip"}},
            "spec": {"ports": [port("rke2-api", 9345), port("k8s-api", 6443)], "type": "LoadBalancer"},
        }),
    ])
}

fn written(objects: &[Value]) -> String {
    let documents = objects
        .iter()
        .filter_map(|object| yaml::to_text(object).ok());
    documents.collect::<Vec<_>>().join("---\n")
}
