//! Validates Services and Ingresses.

use windrow_model::manifest::Node;

use super::Checker;
use crate::path::Path;
use crate::problem::Reason;

/// The annotation for the class, before `ingressClassName` existed.
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

impl Checker<'_> {
    pub(super) fn service(&mut self, node: &Node) {
        let path = Path::ROOT.field("spec");
        let at = path.field("ports");
        let Some(spec) = self.whole(node, "spec") else {
            self.add(node.line, &at, Reason::Required, "");
            return;
        };
        let kind = spec.str_at(&["type"]).unwrap_or("ClusterIP");
        let headless = spec.str_at(&["clusterIP"]) == Some("None");
        let ports = spec.list("ports");
        if ports.is_empty() && !headless && kind != "ExternalName" {
            let line = spec.entry("ports").map_or(spec.line, |entry| entry.line);
            self.add(line, &at, Reason::Required, "");
        }
        if kind == "ExternalName" {
            self.require(spec, &path, "externalName");
            let name = spec.str_at(&["externalName"]).unwrap_or_default();
            let plain = name.strip_suffix('.').unwrap_or(name);
            if !plain.is_empty() && !crate::formats::is_subdomain(plain) {
                let line = spec.get("externalName").map_or(spec.line, |node| node.line);
                let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'";
                self.add(line, &path.field("externalName"), Reason::Invalid, why);
            }
        }
        if headless && ["LoadBalancer", "NodePort"].contains(&kind) {
            let line = spec.get("clusterIP").map_or(spec.line, |node| node.line);
            let why = "may not be set to 'None' for LoadBalancer services";
            self.add(line, &path.field("clusterIPs"), Reason::Invalid, why);
        }
        self.service_ports(ports, &at);
        self.service_type(spec, kind, ports, &path);
    }

    /// Fields that only some types of Services may have.
    fn service_type(&mut self, spec: &Node, kind: &str, ports: &[Node], path: &Path<'_>) {
        let set = |field: &str| {
            spec.get(field)
                .filter(|node| !node.is_null() && node.as_str() != Some(""))
        };
        let list = path.field("ports");
        if kind == "ClusterIP" {
            for (index, port) in ports.iter().enumerate() {
                let given = port.get("nodePort").filter(|node| !node.is_null());
                let at = list.index(index);
                if let Some(node) = given.filter(|node| node.to_json() != 0) {
                    let why = "may not be used when `type` is 'ClusterIP'; write `type: NodePort` or remove it";
                    self.add(node.line, &at.field("nodePort"), Reason::Forbidden, why);
                }
            }
        }
        if kind == "ExternalName" {
            if let Some(node) = set("clusterIP").filter(|node| node.as_str() != Some("None")) {
                let why = "may not be set when `type` is 'ExternalName'";
                self.add(node.line, &path.field("clusterIPs"), Reason::Forbidden, why);
            }
        } else if let Some(node) = set("clusterIP")
            && let Some(address) = node.as_str().filter(|text| *text != "None")
            && !crate::formats::is_address(address)
        {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            self.add(node.line, &path.field("clusterIPs"), Reason::Invalid, why);
        }
        if kind != "LoadBalancer" {
            let why = "may only be used when `type` is 'LoadBalancer'";
            let ranges = set("loadBalancerSourceRanges").filter(|node| !node.items().is_empty());
            for (field, node) in [
                ("loadBalancerClass", set("loadBalancerClass")),
                ("loadBalancerSourceRanges", ranges),
            ] {
                if let Some(node) = node {
                    self.add(node.line, &path.field(field), Reason::Forbidden, why);
                }
            }
        }
        let external = set("externalIPs").is_some_and(|node| !node.items().is_empty());
        if !["NodePort", "LoadBalancer"].contains(&kind)
            && !external
            && let Some(node) = set("externalTrafficPolicy")
        {
            let at = path.field("externalTrafficPolicy");
            let why = "may only be set for externally-accessible services";
            self.add(node.line, &at, Reason::Invalid, why);
        }
    }

    fn service_ports(&mut self, ports: &[Node], path: &Path<'_>) {
        let mut names: Vec<&str> = Vec::new();
        let mut numbers: Vec<(String, &str)> = Vec::new();
        for (index, port) in ports.iter().enumerate() {
            let at = path.index(index);
            match port.str_at(&["name"]) {
                None if ports.len() > 1 => {
                    self.add(port.line, &at.field("name"), Reason::Required, "");
                }
                None => {}
                Some(name) if names.contains(&name) => {
                    let line = port.get("name").map_or(port.line, |node| node.line);
                    self.add(line, &at.field("name"), Reason::Duplicate, "");
                }
                Some(name) => {
                    if !crate::formats::is_dns_label(name) {
                        let line = port.get("name").map_or(port.line, |node| node.line);
                        let why = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'";
                        self.add(line, &at.field("name"), Reason::Invalid, why);
                    }
                    names.push(name);
                }
            }
            let number = port.get("port").map(|node| node.to_json().to_string());
            let Some(number) = number.filter(|text| text != "null") else {
                continue;
            };
            let protocol = port.str_at(&["protocol"]).unwrap_or("TCP");
            let pair = (number, protocol);
            if numbers.contains(&pair) {
                self.add(port.line, &at, Reason::Duplicate, "");
            }
            numbers.push(pair);
        }
    }

    pub(super) fn ingress_class(&mut self, node: &Node) {
        let path = Path::ROOT.field("spec");
        let Some(spec) = self.whole(node, "spec") else {
            self.add(node.line, &path.field("controller"), Reason::Required, "");
            return;
        };
        let Some(parameters) = self.whole(spec, "parameters") else {
            return;
        };
        let path = path.field("parameters");
        let namespace = self.whole(parameters, "namespace");
        match (parameters.get("scope").and_then(Node::as_str), namespace) {
            (Some("Namespace"), None) => {
                let why = "`scope` is 'Namespace'";
                self.add(
                    parameters.line,
                    &path.field("namespace"),
                    Reason::Required,
                    why,
                );
            }
            (None | Some("Cluster"), Some(namespace)) => {
                let why = "`scope` is 'Cluster'; write `scope: Namespace` or remove it";
                let at = path.field("namespace");
                self.add(namespace.line, &at, Reason::Forbidden, why);
            }
            (None | Some("Cluster" | "Namespace"), _) => {}
            (Some(_), _) => {
                let line = parameters
                    .get("scope")
                    .map_or(parameters.line, |node| node.line);
                let at = path.field("scope");
                let why = "write `Cluster` or `Namespace`";
                self.add(line, &at, Reason::Unsupported, why);
            }
        }
    }

    pub(super) fn ingress(&mut self, node: &Node) {
        let path = Path::ROOT.field("spec");
        let Some(spec) = self.whole(node, "spec") else {
            let why = "either `defaultBackend` or `rules` must be specified";
            self.add(node.line, &path, Reason::Invalid, why);
            return;
        };
        let annotations = node.at(&["metadata", "annotations"]);
        let annotated = annotations.and_then(|all| all.entry(INGRESS_CLASS));
        let annotated = annotated.and_then(|one| Some((one.line, one.value.as_str()?)));
        let class = spec.str_at(&["ingressClassName"]);
        if let Some((line, _)) =
            annotated.filter(|(_, text)| class.is_some_and(|class| class != *text))
        {
            let annotations = Path::ROOT.field("metadata");
            let annotations = annotations.field("annotations");
            let why = "must match `ingressClassName` when both are specified";
            self.add(line, &annotations.key(INGRESS_CLASS), Reason::Invalid, why);
        }
        let rules = spec.list("rules");
        let backend = spec.get("defaultBackend").filter(|node| !node.is_null());
        if rules.is_empty() && backend.is_none() {
            let why = "either `defaultBackend` or `rules` must be specified";
            self.add(spec.line, &path, Reason::Invalid, why);
        }
        if let Some(backend) = backend {
            self.backend(backend, &path.field("defaultBackend"));
        }
        let list = path.field("rules");
        for (index, rule) in rules.iter().enumerate() {
            let at = list.index(index);
            let at = at.field("http");
            let at = at.field("paths");
            let paths = rule.at(&["http", "paths"]).map_or(&[][..], Node::items);
            for (index, one) in paths.iter().enumerate() {
                let at = at.index(index);
                if one.str_at(&["pathType"]).is_none() {
                    let why = "pathType must be specified";
                    self.add(one.line, &at.field("pathType"), Reason::Required, why);
                }
                let text = one.str_at(&["path"]).unwrap_or_default();
                let is_free = one.str_at(&["pathType"]) == Some("ImplementationSpecific");
                let fits = text.starts_with('/') || (is_free && text.is_empty());
                if !fits {
                    let line = one.get("path").map_or(one.line, |node| node.line);
                    let why = "must be an absolute path";
                    self.add(line, &at.field("path"), Reason::Invalid, why);
                }
                let has = |part: &&&str| text.contains(**part);
                let ends = |part: &&&str| text.ends_with(**part);
                let within = ["//", "/./", "/../", "%2f", "%2F"];
                let within = within
                    .iter()
                    .find(has)
                    .map(|part| format!("must not contain '{part}'"));
                let ending = ["/..", "/."].iter().find(ends);
                let ending = ending.map(|part| format!("cannot end with '{part}'"));
                if let Some(why) = within.or(ending).filter(|_| !is_free) {
                    let line = one.get("path").map_or(one.line, |node| node.line);
                    self.add(line, &at.field("path"), Reason::Invalid, &why);
                }
                if let Some(backend) = self.whole(one, "backend") {
                    self.backend(backend, &at.field("backend"));
                }
            }
        }
    }

    /// A backend is a resource, or a Service with its name and one port.
    fn backend(&mut self, backend: &Node, path: &Path<'_>) {
        let Some(service) = self.whole(backend, "service") else {
            return;
        };
        let at = path.field("service");
        self.require(service, &at, "name");
        let port = service.get("port");
        let number = port
            .and_then(|port| port.get("number"))
            .is_some_and(|node| !node.is_null());
        let name = port.and_then(|port| port.str_at(&["name"])).is_some();
        if !number && !name {
            let line = port.map_or(service.line, |port| port.line);
            self.add(
                line,
                path,
                Reason::Required,
                "port name or number is required",
            );
        }
    }
}
