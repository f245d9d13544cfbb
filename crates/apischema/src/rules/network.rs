//! Services and Ingresses.

use windrow_model::manifest::Node;

use super::Checker;
use crate::path::Path;
use crate::problem::Reason;

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
        let ports = spec.get("ports").map_or(&[][..], Node::items);
        if ports.is_empty() && !headless && kind != "ExternalName" {
            let line = spec.entry("ports").map_or(spec.line, |entry| entry.line);
            self.add(line, &at, Reason::Required, "");
        }
        if kind == "ExternalName" {
            self.require(spec, &path, "externalName");
        }
        if headless && ["LoadBalancer", "NodePort"].contains(&kind) {
            let line = spec.get("clusterIP").map_or(spec.line, |node| node.line);
            let why = "may not be set to 'None' for LoadBalancer services";
            self.add(
                line,
                &path.field("clusterIPs"),
                Reason::Invalid("None"),
                why,
            );
        }
        self.service_ports(ports, &at);
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
                    self.add(line, &at.field("name"), Reason::Duplicate(name), "");
                }
                Some(name) => {
                    if !crate::formats::is_dns_label(name) {
                        let line = port.get("name").map_or(port.line, |node| node.line);
                        let why = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'";
                        self.add(line, &at.field("name"), Reason::Invalid(name), why);
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
                let text = format!("{}/{protocol}", pair.0);
                self.add(port.line, &at, Reason::Duplicate(&text), "");
            }
            numbers.push(pair);
        }
    }

    pub(super) fn ingress(&mut self, node: &Node) {
        let path = Path::ROOT.field("spec");
        let Some(spec) = self.whole(node, "spec") else {
            return;
        };
        let rules = spec.get("rules").map_or(&[][..], Node::items);
        let backend = spec.get("defaultBackend").filter(|node| !node.is_null());
        if rules.is_empty() && backend.is_none() {
            let why = "either `defaultBackend` or `rules` must be specified";
            self.add(spec.line, &path, Reason::Invalid("null"), why);
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
