//! Rules about several fields of one definition, anywhere in an object.
//!
//! Source: `pkg/apis/*/validation` of k8s.io/kubernetes v1.31 to v1.36. `tests/kubernetes/api_schema.rs` compares them with
//! kube-apiserver.

mod resources;

use std::net::IpAddr;

use windrow_model::addresses::is_in_network;
use windrow_model::manifest::{Node, NodeValue};
use windrow_model::quantity::billionths;

use crate::catalogue::CATALOGUE;
use crate::formats;
use crate::path::Path;
use crate::problem::{Problem, Reason};

/// Adds the errors that concern several fields of a definition.
pub(crate) fn check(definition: &str, node: &Node, path: &Path<'_>, problems: &mut Vec<Problem>) {
    let mut part = Part {
        node,
        path,
        problems,
    };
    match definition {
        "core.v1.Toleration" => part.toleration(),
        "core.v1.NodeSelectorRequirement" => part.requirement(&["Gt", "Lt"]),
        "meta.LabelSelectorRequirement" => part.requirement(&[]),
        "core.v1.ResourceRequirements" => part.resources(),
        "core.v1.Volume" => part.volume_source(definition, &["name"]),
        "core.v1.PersistentVolumeSpec" => part.persistent_volume(definition),
        "core.v1.SecurityContext" => part.security_context(),
        "core.v1.PodSpec" => part.pod_dns(),
        "core.v1.EnvVarSource" => {
            part.field_ref(&[&FIELDS_OF_ANY[..], &FIELDS_OF_VARIABLES].concat())
        }
        "core.v1.DownwardAPIVolumeFile" => {
            part.field_ref(&[&FIELDS_OF_ANY[..], &FIELDS_OF_VOLUMES].concat());
        }
        "networking.v1.IPBlock" => part.address_block(),
        "networking.v1.NetworkPolicyPeer" => part.peer(),
        "networking.v1.NetworkPolicyPort" => part.port_range(),
        "autoscaling.v2.MetricSpec" => part.metric(),
        "autoscaling.v2.ResourceMetricSource" => part.resource_metric(),
        _ => {}
    }
}

/// Fields of a pod that its containers can read both in variables and in volumes.
const FIELDS_OF_ANY: [&str; 3] = ["metadata.name", "metadata.namespace", "metadata.uid"];
const FIELDS_OF_VARIABLES: [&str; 6] = [
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const FIELDS_OF_VOLUMES: [&str; 2] = ["metadata.annotations", "metadata.labels"];

/// One definition's part of an object.
struct Part<'a, 'p> {
    node: &'a Node,
    path: &'a Path<'p>,
    problems: &'a mut Vec<Problem>,
}

impl Part<'_, '_> {
    fn text(&self, field: &str) -> &str {
        self.node.str_at(&[field]).unwrap_or_default()
    }

    fn set(&self, field: &str) -> Option<&Node> {
        self.node.get(field).filter(|value| !value.is_null())
    }

    /// Adds an error in a field, or in the part itself if `field` is empty.
    fn add(&mut self, field: &str, reason: Reason, why: &str) {
        let line = self
            .node
            .entry(field)
            .map_or(self.node.line, |entry| entry.line);
        let problem = match field {
            "" => Problem::invalid(line, self.path, reason, why),
            field => Problem::invalid(line, &self.path.field(field), reason, why),
        };
        self.problems.push(problem);
    }

    fn toleration(&mut self) {
        let operator = self.text("operator").to_owned();
        let (key, value) = (self.text("key").to_owned(), self.text("value").to_owned());
        if key.is_empty() && operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            self.add("operator", Reason::Invalid, why);
            return;
        }
        if !key.is_empty()
            && let Some(why) = formats::label_key_error(&key)
        {
            self.add("key", Reason::Invalid, why);
        }
        match &*operator {
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                self.add("operator", Reason::Invalid, why);
            }
            "Exists" | "Equal" | "" => {}
            // Only newer minors know them.
            "Gt" | "Lt" => {}
            _ => {
                let why = "supported values: \"Equal\", \"Exists\"";
                self.add("operator", Reason::Unsupported, why);
            }
        }
        let seconds = self.set("tolerationSeconds").is_some();
        let effect = self.text("effect").to_owned();
        if seconds && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            self.add("effect", Reason::Invalid, why);
        }
    }

    /// A requirement of a selector. Its operator decides whether it has values.
    fn requirement(&mut self, with_one: &[&str]) {
        let key = self.text("key").to_owned();
        if !key.is_empty()
            && let Some(why) = formats::label_key_error(&key)
        {
            self.add("key", Reason::Invalid, why);
        }
        let operator = self.text("operator").to_owned();
        let count = self
            .node
            .get("values")
            .map_or(0, |values| values.items().len());
        match &*operator {
            "In" | "NotIn" if count == 0 => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                self.add("values", Reason::Required, why);
            }
            "Exists" | "DoesNotExist" if count > 0 => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                self.add("values", Reason::Forbidden, why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "" => {}
            other if with_one.contains(&other) => {
                if count != 1 {
                    let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    self.add("values", Reason::Required, why);
                }
            }
            _ => {
                let why = "not a valid selector operator";
                self.add("operator", Reason::Invalid, why);
            }
        }
    }

    fn sources(&self, definition: &str, others: &[&str]) -> Vec<String> {
        let known = CATALOGUE.fields(definition);
        let is_source =
            |key: &str| !others.contains(&key) && known.iter().any(|field| field.name == key);
        let entries = self.node.entries().iter();
        entries
            .filter(|entry| is_source(&entry.key) && !entry.value.is_null())
            .map(|entry| entry.key.clone())
            .collect()
    }

    /// A volume has exactly one type. Without a type it is an empty directory.
    fn volume_source(&mut self, definition: &str, others: &[&str]) {
        if let [_, second, ..] = &self.sources(definition, others)[..] {
            let why = "may not specify more than 1 volume type";
            self.add(second, Reason::Forbidden, why);
        }
    }

    fn persistent_volume(&mut self, definition: &str) {
        const OTHERS: [&str; 9] = [
            "accessModes",
            "capacity",
            "claimRef",
            "mountOptions",
            "nodeAffinity",
            "persistentVolumeReclaimPolicy",
            "storageClassName",
            "volumeAttributesClassName",
            "volumeMode",
        ];
        self.volume_source(definition, &OTHERS);
        if self.sources(definition, &OTHERS).is_empty() {
            self.add("", Reason::Required, "must specify a volume type");
        }
        if self.set("local").is_some() && self.set("nodeAffinity").is_none() {
            let why = "Local volume requires node affinity";
            self.add("nodeAffinity", Reason::Required, why);
        }
        let storage = self.node.at(&["capacity", "storage"]);
        if let Some(storage) = storage.filter(|node| quantity(node).is_some_and(|size| size <= 0)) {
            let capacity = self.path.field("capacity");
            let at = capacity.key("storage");
            let why = "must be greater than zero";
            let problem = Problem::invalid(storage.line, &at, Reason::Invalid, why);
            self.problems.push(problem);
        }
    }

    fn security_context(&mut self) {
        let is =
            |field: &str, value: bool| self.node.get(field).and_then(Node::as_bool) == Some(value);
        if is("allowPrivilegeEscalation", false) && is("privileged", true) {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            self.add("", Reason::Invalid, why);
        }
    }

    fn pod_dns(&mut self) {
        let servers = self.node.at(&["dnsConfig", "nameservers"]);
        let has_servers = servers.is_some_and(|servers| !servers.items().is_empty());
        if self.text("dnsPolicy") == "None" && !has_servers {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            self.add("dnsConfig", Reason::Required, why);
        }
    }

    /// A field of the pod that a container reads.
    fn field_ref(&mut self, known: &[&str]) {
        let Some(field) = self.node.at(&["fieldRef", "fieldPath"]) else {
            return;
        };
        let text = field.as_str().unwrap_or_default();
        // A single label or annotation.
        let is_one = ["metadata.labels['", "metadata.annotations['"]
            .iter()
            .any(|start| text.starts_with(start));
        // Other fields cannot be read in any version, and an empty one counts as absent.
        if !text.is_empty() && !is_one && !known.contains(&text) {
            let path = self.path.field("fieldRef");
            let why = format!("supported values: {}", known.join(", "));
            let at = path.field("fieldPath");
            let problem = Problem::invalid(field.line, &at, Reason::Unsupported, &why);
            self.problems.push(problem);
        }
    }

    fn peer(&mut self) {
        let block = self.set("ipBlock").is_some();
        let selects = self.set("podSelector").is_some() || self.set("namespaceSelector").is_some();
        if block && selects {
            let why = "may not specify both ipBlock and another peer";
            self.add("", Reason::Forbidden, why);
        } else if !block && !selects {
            self.add("", Reason::Required, "must specify a peer");
        }
    }

    /// A block that is excluded from an address block must be a smaller part of it.
    fn address_block(&mut self) {
        let network = |text: &str| -> Option<(IpAddr, u8)> {
            let text = Some(text).filter(|text| formats::is_network(text));
            let (address, prefix) = text?.split_once('/')?;
            Some((address.parse().ok()?, prefix.parse().ok()?))
        };
        let Some((own, prefix)) = network(self.text("cidr")) else {
            return;
        };
        let excepted = self.node.list("except");
        for (index, one) in excepted.iter().enumerate() {
            let text = one.as_str().unwrap_or_default();
            let is_part = |(address, bits)| bits > prefix && is_in_network(address, own, prefix);
            if network(text).is_some_and(|network| !is_part(network)) {
                let path = self.path.field("except");
                let why = "must be a strict subset of `cidr`";
                let problem = Problem::invalid(one.line, &path.index(index), Reason::Invalid, why);
                self.problems.push(problem);
            }
        }
    }

    fn port_range(&mut self) {
        let Some(end) = self.set("endPort").and_then(number) else {
            return;
        };
        match self.set("port") {
            None => {
                let why = "may not be specified when `port` is not specified";
                self.add("endPort", Reason::Invalid, why);
            }
            Some(port) => match number(port) {
                None => {
                    let why = "may not be specified when `port` is non-numeric";
                    self.add("endPort", Reason::Invalid, why);
                }
                Some(first) if end < first => {
                    let why = "must be greater than or equal to `port`";
                    self.add("endPort", Reason::Invalid, why);
                }
                Some(_) => {}
            },
        }
    }

    /// A metric has the source that its type names.
    fn metric(&mut self) {
        const SOURCES: [(&str, &str); 5] = [
            ("ContainerResource", "containerResource"),
            ("External", "external"),
            ("Object", "object"),
            ("Pods", "pods"),
            ("Resource", "resource"),
        ];
        let kind = self.text("type").to_owned();
        match SOURCES.iter().find(|(name, _)| *name == kind) {
            Some((_, source)) if self.set(source).is_none() => {
                let why = "must populate information for the given metric source";
                self.add(source, Reason::Required, why);
            }
            Some(_) => {}
            None if kind.is_empty() => {}
            None => {
                let names: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
                let why = format!("supported values: {}", names.join(", "));
                self.add("type", Reason::Unsupported, &why);
            }
        }
    }

    fn resource_metric(&mut self) {
        let target = |field: &str| {
            self.node
                .at(&["target", field])
                .filter(|node| !node.is_null())
        };
        let (share, value) = (target("averageUtilization"), target("averageValue"));
        let at = self.path.field("target");
        if let Some(node) = self
            .set("target")
            .filter(|_| share.is_none() && value.is_none())
        {
            let why = "must set either a target raw value or a target utilization";
            let at = at.field("averageUtilization");
            self.problems
                .push(Problem::invalid(node.line, &at, Reason::Required, why));
        }
        if let Some(node) = share.filter(|node| number(node).is_some_and(|number| number < 1)) {
            let why = "must be greater than 0";
            let at = at.field("averageUtilization");
            let problem = Problem::invalid(node.line, &at, Reason::Invalid, why);
            self.problems.push(problem);
        }
    }
}

fn number(node: &Node) -> Option<i64> {
    match &node.value {
        NodeValue::Number(number) => number.as_i64(),
        _ => None,
    }
}

/// A quantity in billionths, for comparisons; `None` if it is invalid.
pub fn quantity(node: &Node) -> Option<i128> {
    match &node.value {
        NodeValue::Number(number) => billionths(&number.to_string()),
        NodeValue::String(text) => billionths(text),
        _ => None,
    }
}
