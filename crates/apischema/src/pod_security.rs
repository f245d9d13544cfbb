//! The Pod Security Standards: the reasons for which kube-apiserver rejects pods in a namespace that enforces them.
//!
//! Source: k8s.io/pod-security-admission v0.34.0 and v0.36.1, `policy/check_*.go`. Rules that differ between versions (types of
//! SELinux, AppArmor, `procMount`, hosts of probes) are not checked. Sysctls are accepted if the newest version accepts them.

use std::collections::BTreeSet;

use windrow_model::manifest::Node;
use windrow_model::object::{ObjectView, pods};

/// A level with restrictions: all levels except `privileged`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodSecurityLevel {
    /// Rejects known privilege escalations.
    Baseline,
    /// Requires pods to drop all unneeded privileges.
    Restricted,
}

impl PodSecurityLevel {
    /// The level of a label value; `None` for `privileged` and for values that kube-apiserver rejects.
    pub fn from_label(value: &str) -> Option<Self> {
        match value {
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }

    /// The label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }

    /// The reasons for which this level rejects pods with this `spec`, one clause each.
    pub fn refuses(self, spec: &Node) -> Vec<String> {
        // Other rules apply to Windows pods.
        if spec.str_at(&["os", "name"]) == Some("windows") {
            return Vec::new();
        }
        let pod = Pod::new(spec);
        match self {
            Self::Baseline => pod.baseline(),
            Self::Restricted => pod.restricted(),
        }
    }
}

/// Capabilities that `baseline` allows containers to add.
const USUAL_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Volumes that `restricted` allows.
const USUAL_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Sysctls that every level allows.
const USUAL_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

const SECCOMP: &[&str] = &["securityContext", "seccompProfile", "type"];

struct Pod<'n> {
    spec: &'n Node,
    /// Name and specification.
    containers: Vec<(&'n str, &'n Node)>,
}

impl<'n> Pod<'n> {
    fn new(spec: &'n Node) -> Self {
        let containers = pods::containers(spec).map(|container| container.node);
        let named = containers.map(|container| (container.text("name"), container));
        Self {
            spec,
            containers: named.collect(),
        }
    }

    fn baseline(&self) -> Vec<String> {
        let volumes = self.spec.list("volumes").iter();
        let of_host = volumes.filter(|volume| volume.get("hostPath").is_some());
        let of_host: Vec<&str> = of_host
            .filter_map(|volume| volume.str_at(&["name"]))
            .collect();
        let mut found = self.of_every_level();
        found.extend(self.adds(&USUAL_CAPABILITIES));
        found.extend(said("hostPath", &of_host));
        found.extend(self.unconfined());
        found
    }

    fn restricted(&self) -> Vec<String> {
        let mut found = self.of_every_level();
        found.extend(self.adds(&["NET_BIND_SERVICE"]));
        found.extend(self.in_containers("capabilities.drop has no ALL", |one| {
            let drops = at(one, &["securityContext", "capabilities", "drop"]);
            !drops.iter().any(|name| name.as_str() == Some("ALL"))
        }));
        found.extend(
            self.in_containers("allowPrivilegeEscalation is not false", |one| {
                bool_at(one, "allowPrivilegeEscalation") != Some(false)
            }),
        );
        let volumes = self.spec.list("volumes").iter();
        let unusual =
            volumes.filter(|volume| !USUAL_VOLUMES.iter().any(|kind| volume.get(kind).is_some()));
        // A volume without a type is an emptyDir.
        let unusual = unusual.filter(|volume| volume.entries().len() > 1);
        let unusual: Vec<&str> = unusual
            .filter_map(|volume| volume.str_at(&["name"]))
            .collect();
        found.extend(said("volumes of other kinds than are allowed", &unusual));
        // In a user namespace they may be root, in versions with this feature.
        if self.spec.get("hostUsers").and_then(Node::as_bool) != Some(false) {
            found.extend(self.root());
        }
        found.extend(self.unconfined());
        let has_profile = self.spec.str_at(SECCOMP).is_some();
        found.extend(self.in_containers("seccompProfile.type is not set", |one| {
            !has_profile && one.str_at(SECCOMP).is_none()
        }));
        found
    }

    fn of_every_level(&self) -> Vec<String> {
        let of_host = ["hostIPC", "hostNetwork", "hostPID"].into_iter();
        let of_host =
            of_host.filter(|key| self.spec.get(key).and_then(Node::as_bool) == Some(true));
        let mut found: Vec<String> = of_host.map(|key| format!("{key} is true")).collect();
        found.extend(self.in_containers("privileged is true", |one| {
            bool_at(one, "privileged") == Some(true)
        }));
        found.extend(self.in_containers("hostPort", |one| {
            let ports = one.list("ports").iter();
            let mut ports = ports.filter_map(|port| port.get("hostPort"));
            ports.any(|port| port.to_json().as_u64().is_some_and(|port| port != 0))
        }));
        let sysctls = at(self.spec, &["securityContext", "sysctls"]).iter();
        let names = sysctls.filter_map(|sysctl| sysctl.str_at(&["name"]));
        let unsafe_ones: Vec<&str> = names.filter(|name| !USUAL_SYSCTLS.contains(name)).collect();
        found.extend(said("sysctls", &unsafe_ones));
        found
    }

    fn adds(&self, allowed: &[&str]) -> Option<String> {
        let mut added = BTreeSet::new();
        for (_, container) in &self.containers {
            let all = at(container, &["securityContext", "capabilities", "add"]).iter();
            let all = all.filter_map(Node::as_str);
            added.extend(all.filter(|name| !allowed.contains(name)));
        }
        let added: Vec<&str> = added.into_iter().collect();
        said("capabilities.add", &added)
    }

    fn unconfined(&self) -> Option<String> {
        let is_bad = |node: &Node| {
            let profile = node.str_at(SECCOMP);
            profile.is_some_and(|profile| !["Localhost", "RuntimeDefault"].contains(&profile))
        };
        let of_pod = is_bad(self.spec).then(|| "seccompProfile.type is Unconfined".to_owned());
        of_pod.or_else(|| self.in_containers("seccompProfile.type is Unconfined", is_bad))
    }

    fn root(&self) -> Vec<String> {
        let of_pod = bool_at(self.spec, "runAsNonRoot");
        let not_said = self.in_containers("runAsNonRoot is not true", |one| {
            bool_at(one, "runAsNonRoot").or(of_pod) != Some(true)
        });
        // The value of the pod is rejected even if every container overrides it.
        let of_pod = (of_pod == Some(false)).then(|| "runAsNonRoot is false".to_owned());
        let is_root = |node: &Node| {
            let user = node.at(&["securityContext", "runAsUser"]);
            user.is_some_and(|user| user.to_json().as_i64() == Some(0))
        };
        let user = is_root(self.spec).then(|| "runAsUser is 0".to_owned());
        let user = user.or_else(|| self.in_containers("runAsUser is 0", is_root));
        not_said.or(of_pod).into_iter().chain(user).collect()
    }

    fn in_containers(&self, what: &str, is_bad: impl Fn(&Node) -> bool) -> Option<String> {
        let bad = self
            .containers
            .iter()
            .filter(|(_, container)| is_bad(container));
        let names: Vec<&str> = bad.map(|(name, _)| *name).collect();
        said(what, &names)
    }
}

/// A violation and its containers.
fn said(what: &str, names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{what} ({})", names.join(", ")))
}

fn at<'n>(node: &'n Node, path: &[&str]) -> &'n [Node] {
    node.at(path).map_or(&[], Node::items)
}

fn bool_at(node: &Node, key: &str) -> Option<bool> {
    node.at(&["securityContext", key]).and_then(Node::as_bool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windrow_model::manifest::yaml;

    fn refused(level: PodSecurityLevel, spec: &str) -> Vec<String> {
        level.refuses(&yaml::parse_configuration(spec).unwrap().unwrap())
    }

    /// The smallest pod that `restricted` accepts.
    const RESTRICTED: &str = "\
securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
containers:
  - name: a
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
volumes: [{name: v, configMap: {name: c}}, {name: e}]
";

    #[test]
    fn a_pod_is_refused_by_the_levels_whose_rules_it_breaks() {
        let (baseline, restricted) = (PodSecurityLevel::Baseline, PodSecurityLevel::Restricted);
        assert_eq!(refused(baseline, "containers: [{name: a}]"), [""; 0]);
        let all = [
            "capabilities.drop has no ALL (a)",
            "allowPrivilegeEscalation is not false (a)",
            "runAsNonRoot is not true (a)",
            "seccompProfile.type is not set (a)",
        ];
        assert_eq!(refused(restricted, "containers: [{name: a}]"), all);
        assert_eq!(refused(restricted, RESTRICTED), [""; 0]);
        // Violations of both levels, and their messages.
        for (change, says) in [
            ("hostNetwork: true\n", "hostNetwork is true"),
            ("hostPID: true\n", "hostPID is true"),
            (
                "initContainers: [{name: b, securityContext: {privileged: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]\n",
                "privileged is true (b)",
            ),
            (
                "initContainers: [{name: b, ports: [{hostPort: 80}], securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]\n",
                "hostPort (b)",
            ),
            (
                "initContainers: [{name: b, securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [NET_ADMIN], drop: [ALL]}}}]\n",
                "capabilities.add (NET_ADMIN)",
            ),
            (
                "initContainers: [{name: b, securityContext: {seccompProfile: {type: Unconfined}, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]\n",
                "seccompProfile.type is Unconfined (b)",
            ),
        ] {
            let spec = format!("{RESTRICTED}{change}");
            assert_eq!(refused(baseline, &spec), [says], "{change}");
            assert_eq!(refused(restricted, &spec), [says], "{change}");
        }
        let changed = |from: &str, to: &str| {
            let spec = RESTRICTED.replace(from, to);
            assert_ne!(spec, RESTRICTED);
            spec
        };
        let of_host = changed("configMap: {name: c}", "hostPath: {path: /}");
        assert_eq!(refused(baseline, &of_host), ["hostPath (v)"]);
        assert_eq!(
            refused(restricted, &of_host),
            ["volumes of other kinds than are allowed (v)"]
        );
        let sysctls = changed(
            "{runAsNonRoot",
            "{sysctls: [{name: net.ipv4.tcp_rmem}, {name: kernel.msgmax}], runAsNonRoot",
        );
        assert_eq!(refused(baseline, &sysctls), ["sysctls (kernel.msgmax)"]);
        // Violations of `restricted` only.
        for (from, to, says) in [
            (
                "runAsNonRoot: true",
                "runAsNonRoot: true, runAsUser: 0",
                "runAsUser is 0",
            ),
            (
                "runAsNonRoot: true",
                "runAsNonRoot: false",
                "runAsNonRoot is not true (a)",
            ),
            (
                "drop: [ALL]",
                "drop: [ALL], add: [CHOWN]",
                "capabilities.add (CHOWN)",
            ),
            (
                "configMap: {name: c}",
                "nfs: {path: /}",
                "volumes of other kinds than are allowed (v)",
            ),
        ] {
            let spec = changed(from, to);
            assert_eq!(refused(baseline, &spec), [""; 0], "{to}");
            assert_eq!(refused(restricted, &spec), [says], "{to}");
        }
        // Root of a user namespace may be accepted, and Windows pods are not checked.
        let own_users = changed("runAsNonRoot: true", "runAsUser: 0") + "hostUsers: false\n";
        assert_eq!(refused(restricted, &own_users), [""; 0]);
        let windows = "os: {name: windows}\nhostNetwork: true\ncontainers: [{name: a}]\n";
        assert_eq!(refused(restricted, windows), [""; 0]);
    }
}
