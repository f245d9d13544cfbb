//! Validates pods, and the templates of workloads.

use windrow_model::manifest::Node;
use windrow_model::object::pods;

use super::Checker;
use crate::path::Path;
use crate::problem::Reason;

impl Checker<'_> {
    pub(super) fn pod(&mut self, pod: &Node) {
        let path = Path::ROOT.field("spec");
        match self.whole(pod, "spec") {
            Some(spec) => self.pod_spec(spec, &path, true),
            None => self.add(pod.line, &path.field("containers"), Reason::Required, ""),
        }
    }

    /// Validates the spec of a pod. A StatefulSet adds volumes that are not in its template.
    pub(super) fn pod_spec(&mut self, spec: &Node, path: &Path<'_>, all_volumes: bool) {
        let volumes: Vec<&str> = spec
            .list("volumes")
            .iter()
            .filter_map(|volume| volume.str_at(&["name"]))
            .collect();
        let list = path.field("volumes");
        let items = spec.list("volumes");
        for (index, volume) in items.iter().enumerate() {
            let claim = volume.at(&["ephemeral", "volumeClaimTemplate", "spec"]);
            if let Some(claim) = claim.filter(|claim| !claim.is_null()) {
                let at = list.index(index);
                let at = at.field("ephemeral");
                let at = at.field("volumeClaimTemplate");
                self.claim_spec(claim, &at.field("spec"));
            }
        }
        self.isolation(spec, path);
        self.require(spec, path, "containers");
        let mut names: Vec<&str> = Vec::new();
        for container in pods::containers_before_init(spec) {
            let (is_init, list) = (container.is_init(), path.field(container.list));
            let (at, container) = (list.index(container.index), container.node);
            self.container(container, &at, all_volumes.then_some(&volumes));
            self.probes(container, &at, is_init);
            if is_true(spec, "hostNetwork") {
                self.host_ports(container, &at);
            }
            let Some(name) = container.get("name") else {
                continue;
            };
            let text = name.as_str().unwrap_or_default();
            // Those of one list are judged by the rules on single fields.
            if is_init && names.contains(&text) {
                self.add(name.line, &at.field("name"), Reason::Duplicate, "");
            } else if !is_init && !text.is_empty() {
                names.push(text);
            }
        }
    }

    fn container(&mut self, container: &Node, path: &Path<'_>, volumes: Option<&Vec<&str>>) {
        for field in ["name", "image"] {
            if container.get(field).is_none_or(Node::is_null) {
                self.add(container.line, &path.field(field), Reason::Required, "");
            }
        }
        if let Some(volumes) = volumes {
            let mounts = path.field("volumeMounts");
            let items = container.list("volumeMounts");
            for (index, mount) in items.iter().enumerate() {
                let Some(name) = mount.str_at(&["name"]) else {
                    continue;
                };
                if !volumes.contains(&name) {
                    let at = mounts.index(index);
                    let line = mount.get("name").map_or(mount.line, |node| node.line);
                    self.add(
                        line,
                        &at.field("name"),
                        Reason::NotFound,
                        "no volume of the pod has this name",
                    );
                }
            }
        }
        self.port_names(container, path);
        self.env(container, path);
    }

    /// An init container cannot have probes, unless it keeps running (`restartPolicy: Always`).
    fn probes(&mut self, container: &Node, path: &Path<'_>, is_init: bool) {
        let stays = container.str_at(&["restartPolicy"]) == Some("Always");
        if is_init && !stays {
            for field in [
                "livenessProbe",
                "readinessProbe",
                "startupProbe",
                "lifecycle",
            ] {
                if let Some(node) = self.whole(container, field) {
                    let why = "may not be set for init containers without restartPolicy=Always";
                    self.add(node.line, &path.field(field), Reason::Forbidden, why);
                }
            }
        }
        for field in ["livenessProbe", "startupProbe"] {
            let threshold = container.at(&[field, "successThreshold"]);
            let number = threshold.map(|node| (node, node.to_json().as_i64()));
            if let Some((node, Some(count))) = number
                && count > 1
            {
                let at = path.field(field);
                let at = at.field("successThreshold");
                self.add(node.line, &at, Reason::Invalid, "must be 1");
            }
        }
    }

    /// On the host network a port has the same number on the host and in the container.
    fn host_ports(&mut self, container: &Node, path: &Path<'_>) {
        let list = path.field("ports");
        let ports = container.list("ports");
        for (index, port) in ports.iter().enumerate() {
            let number = |field: &str| port.get(field).and_then(|node| node.to_json().as_i64());
            let host = number("hostPort").filter(|host| *host != 0);
            if host.is_some_and(|host| number("containerPort") != Some(host)) {
                let at = list.index(index);
                let why = "must match `hostPort` when `hostNetwork` is true";
                self.add(port.line, &at.field("containerPort"), Reason::Invalid, why);
            }
        }
    }

    /// Two ports of a container must not share a number and protocol on the host. Names are unique in the pod.
    fn port_names(&mut self, container: &Node, path: &Path<'_>) {
        let ports = path.field("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            if port.get("containerPort").is_none_or(Node::is_null) {
                let at = ports.index(index);
                self.add(port.line, &at.field("containerPort"), Reason::Required, "");
            }
        }
    }

    /// A variable has either a value or a source, and only one source.
    fn env(&mut self, container: &Node, path: &Path<'_>) {
        let list = path.field("env");
        for (index, variable) in container.list("env").iter().enumerate() {
            let Some(source) = variable.get("valueFrom").filter(|node| !node.is_null()) else {
                continue;
            };
            let at = list.index(index);
            let at = at.field("valueFrom");
            let sources = source
                .entries()
                .iter()
                .filter(|entry| !entry.value.is_null());
            match sources.count() {
                0 => self.add(
                    source.line,
                    &at,
                    Reason::Invalid,
                    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
                ),
                1 if variable.str_at(&["value"]).is_some() => self.add(
                    source.line,
                    &at,
                    Reason::Invalid,
                    "may not be specified when `value` is not empty",
                ),
                _ => {}
            }
        }
    }
}

fn is_true(node: &Node, field: &str) -> bool {
    node.get(field).and_then(Node::as_bool) == Some(true)
}
