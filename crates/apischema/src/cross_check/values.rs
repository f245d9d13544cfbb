//! Judges the charts that helm-controller installs: their names, and `valuesContent` of HelmCharts and HelmChartConfigs. Can Helm
//! read the values, and does a chart?

use std::net::IpAddr;

use windrow_model::findings::{Finding, Location};
use windrow_model::grammars::is_subdomain;
use windrow_model::manifest::{Node, NodeValue, Object, ReadLimits, yaml};
use windrow_model::reasons::Code;
use windrow_plan::SourceMap;

use super::finding;

/// The charts that every RKE2 server installs, unless `disable` names them (`charts/chart_versions.yaml` of RKE2 1.30 to 1.36;
/// `pkg/bootstrap/bootstrap.go`, `updateManifests`). The others depend on the CNI, the ingress controller or the cloud provider.
const INSTALLED_ALWAYS: [&str; 4] = [
    "rke2-coredns",
    "rke2-metrics-server",
    "rke2-snapshot-controller",
    "rke2-snapshot-controller-crd",
];

/// A chart of the user in place of one of RKE2's. RKE2's own have their archive in `chartContent`.
pub(super) fn replaces_packaged(object: &Object, shown: &SourceMap) -> Option<(String, Finding)> {
    let name = INSTALLED_ALWAYS
        .into_iter()
        .find(|name| object.id.name == **name)?;
    let is_own = object.node.at(&["spec", "chartContent"]).is_some();
    let is_there = object.id.namespace_or_default() == "kube-system" && !is_own;
    let code = Code::PackagedChartReplaced;
    let message = code.say(&[("object", &object.id.to_string())]);
    let line = object.node.at(&["metadata", "name"]).map(|node| node.line);
    let found = finding(code, message, vec![shown.at(line)]);
    is_there.then(|| (name.to_owned(), found))
}

/// The findings on the values of one object.
pub(super) fn judge(object: &Object, shown: &SourceMap) -> Vec<Finding> {
    let Some(entry) = object
        .node
        .get("spec")
        .and_then(|spec| spec.entry("valuesContent"))
    else {
        return Vec::new();
    };
    let Some(text) = entry.value.as_str() else {
        return Vec::new();
    };
    let at = vec![shown.at(Some(entry.line))];
    let object = object.id.to_string();
    let invalid = |why: &str| {
        let code = Code::ChartValuesInvalid;
        let words = [("object", &*object), ("why", why)];
        vec![finding(code, code.say(&words), at.clone())]
    };
    // Helm takes the first document, and of two equal keys the last (sigs.k8s.io/yaml without strict mode).
    let first = yaml::input(text, &ReadLimits::default());
    match first.map(|file| file.root) {
        Ok(None) => Vec::new(),
        Ok(Some(node)) => match &node.value {
            NodeValue::Null => Vec::new(),
            NodeValue::Mapping(_) => dotted(&node, &object, &at),
            _ => invalid(&format!("they are {}, not a map", node.type_name())),
        },
        Err(problems) => {
            let line = problems.first().and_then(|problem| problem.line);
            invalid(&match line {
                Some(line) => format!("line {line} of them is not valid YAML"),
                None => "they are not valid YAML".to_owned(),
            })
        }
    }
}

/// Like [`judge`] for an Addon of Harvester that is enabled. Harvester's webhook also refuses the one of experimental-addons whose `hostname`
/// is not fully qualified (harvester `pkg/webhook/resources/addon/validator.go`, validateVClusterAddon; harvester#9816). From v0.30 of its
/// chart on, the value is below `global`.
pub(super) fn addon(object: &Object, shown: &SourceMap) -> Vec<Finding> {
    const VCLUSTER: &str = "rancher-vcluster";
    let spec = object.node.get("spec");
    let value = |key: &str| spec.and_then(|spec| spec.entry(key));
    if value("enabled").and_then(|entry| entry.value.as_bool()) != Some(true) {
        return Vec::new();
    }
    let mut found = judge(object, shown);
    let Some(entry) = value("valuesContent").filter(|_| object.id.name == *VCLUSTER) else {
        return found;
    };
    let values = entry.value.as_str().map(yaml::parse_configuration);
    if let Some(Ok(Some(values))) = values {
        let mut places = [&["hostname"][..], &["global", "hostname"]].into_iter();
        let name = places.find_map(|place| values.str_at(place));
        let is_qualified = |name: &str| {
            is_subdomain(name) && name.contains('.') && name.parse::<IpAddr>().is_err()
        };
        if !name.is_some_and(is_qualified) {
            let why = "`hostname` is not a fully qualified domain name, and Harvester's webhook refuses the Addon";
            let words = [("object", &*object.id.to_string()), ("why", why)];
            let code = Code::ChartValuesInvalid;
            found.push(finding(
                code,
                code.say(&words),
                vec![shown.at(Some(entry.line))],
            ));
        }
    }
    found
}

/// Helm splits keys at dots in `--set`, and not in a file of values. Keys further down may have dots: labels, files of a ConfigMap.
fn dotted(values: &Node, object: &str, at: &[Location]) -> Vec<Finding> {
    let dotted = values
        .entries()
        .iter()
        .filter(|entry| entry.key.contains('.'));
    dotted
        .map(|entry| {
            let code = Code::ChartValueIgnored;
            let words = [("object", object), ("key", &*entry.key)];
            finding(code, code.say(&words), at.to_vec())
        })
        .collect()
}
