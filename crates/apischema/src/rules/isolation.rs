//! Validates how much a pod shares with its host, and ephemeral containers.
//!
//! Source: `validateWindowsHostProcessPod`, `validateSecurityContext` and `ValidatePodCreate` in pkg/apis/core/validation of
//! k8s.io/kubernetes v1.31 to v1.36.

use windrow_model::manifest::Node;
use windrow_model::object::pods;

use super::Checker;
use crate::path::Path;
use crate::problem::Reason;

const HOST_PROCESS: [&str; 3] = ["securityContext", "windowsOptions", "hostProcess"];

/// The first minor in which `procMount` has an effect and is validated.
const PROC_MOUNT: u16 = 33;

impl Checker<'_> {
    pub(super) fn isolation(&mut self, spec: &Node, path: &Path<'_>) {
        self.host_process(spec, path);
        self.proc_mount(spec, path);
        let added = spec.get("ephemeralContainers");
        if let Some(added) = added.filter(|added| !added.items().is_empty()) {
            let why = "it is for a pod that runs; write an init container, or another container";
            self.add(
                added.line,
                &path.field("ephemeralContainers"),
                Reason::Forbidden,
                why,
            );
        }
    }

    /// On Windows either all containers of a pod are host processes, or none.
    fn host_process(&mut self, spec: &Node, path: &Path<'_>) {
        let says = |node: &Node| node.at(&HOST_PROCESS).and_then(Node::as_bool);
        let of_pod = says(spec);
        let containers: Vec<&Node> = pods::containers(spec)
            .map(|container| container.node)
            .collect();
        let is_one = |container: &&Node| says(container).or(of_pod) == Some(true);
        let differs = |container: &&&Node| {
            let own = says(container);
            own.is_some() && of_pod.is_some() && own != of_pod
        };
        let count = containers
            .iter()
            .filter(|container| is_one(container))
            .count();
        if let Some(container) = containers.iter().find(differs) {
            let why = "a container's hostProcess must be the pod's where both are specified";
            self.add(container.line, path, Reason::Invalid, why);
        } else if count > 0 && count < containers.len() {
            let why = "all containers must be hostProcess containers, or none";
            self.add(spec.line, path, Reason::Invalid, why);
        }
        if count > 0 && spec.get("hostNetwork").and_then(Node::as_bool) != Some(true) {
            let why = "hostNetwork must be true if pod contains any hostProcess containers";
            self.add(spec.line, &path.field("hostNetwork"), Reason::Invalid, why);
        }
    }

    /// A pod that sees all of /proc must have its own user namespace.
    fn proc_mount(&mut self, spec: &Node, path: &Path<'_>) {
        let is_apart = spec.get("hostUsers").and_then(Node::as_bool) == Some(false);
        if is_apart || self.minors.first() < PROC_MOUNT {
            return;
        }
        for container in pods::containers(spec) {
            let mount = container.node.at(&["securityContext", "procMount"]);
            if let Some(mount) = mount.filter(|mount| mount.as_str() == Some("Unmasked")) {
                let list = path.field(container.list);
                let at = list.index(container.index);
                let at = at.field("securityContext");
                let why = "`hostUsers` must be false to use `Unmasked`";
                self.add(mount.line, &at.field("procMount"), Reason::Invalid, why);
            }
        }
    }
}
