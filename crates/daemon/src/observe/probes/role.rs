//! The node's role in its cluster. It is read again and again, because a node can be promoted.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use windrow_gates::Component;
use windrow_model::manifest::{Node, NodeValue, yaml};
use windrow_plan::readiness::node::NodeRole;

use super::bus::UnitState;
use super::context::{ProbeContext, has_rancherd, rancherd};
use crate::files::read_text;
use crate::fs;
use crate::kubeconfig;
use crate::layout::Layout;
use crate::locked::lock;
use crate::observe::rke2;

/// Where systemd reads the environment of RKE2's server (`EnvironmentFile=` of its unit).
const ENVIRONMENTS: [&str; 4] = [
    "/etc/default/rke2-server",
    "/etc/sysconfig/rke2-server",
    "/usr/local/lib/systemd/system/rke2-server.env",
    "/usr/lib/systemd/system/rke2-server.env",
];

/// The node's current role in its cluster, and the name of its Node: the name in its kubelet's certificate, or before
/// there is one, the name that RKE2 will derive.
pub async fn role_and_name(context: &ProbeContext) -> (NodeRole, String) {
    let config = Config::read(&context.layout());
    let server = context.bus.unit("rke2-server.service").await;
    let agent = context.bus.unit("rke2-agent.service").await;
    let by_units = match (server, agent) {
        (Ok(server), Ok(agent)) => by_units(&server, &agent),
        _ => None,
    };
    // Without the bus, and for units that are stopped and not enabled, the files that RKE2 left on the disk decide.
    let serves = by_units.or_else(|| by_files(context));
    let role = context
        .last_role
        .next(role(serves, &config), config.is_whole);
    let certified = kubeconfig::node_name(&context.layout().kubelet_kubeconfig());
    (role, certified.unwrap_or(config.name))
}

/// The name under which RKE2 registers the node when it starts again, if it differs from `current`. `None` if the name
/// may be set by anything other than RKE2's configuration and the host name.
pub fn next_node_name(layout: &Layout, current: &str) -> Option<String> {
    let config = Config::read(layout);
    let is_known = config.is_whole
        && !config.name.is_empty()
        && !config.name.starts_with("localhost")
        && !config.name_from_cloud
        && !is_named_elsewhere(layout);
    (is_known && config.name != current).then_some(config.name)
}

/// Texts in a unit, or in a unit's environment, that show that the node may be named there.
const NAMING: [&str; 7] = [
    "node-name",
    "node-id",
    "RKE2_NODE_NAME",
    "RKE2_CONFIG_FILE",
    "--config",
    "EnvironmentFile=",
    "DefaultEnvironment=",
];

/// Whether a unit of RKE2, a drop-in or the environment of one, or rancherd may set the node's name.
fn is_named_elsewhere(layout: &Layout) -> bool {
    const UNITS: [&str; 4] = [
        "/etc/systemd/system",
        "/run/systemd/system",
        "/usr/local/lib/systemd/system",
        "/usr/lib/systemd/system",
    ];
    const DROP_INS: [&str; 4] = [
        "rke2-server.service.d",
        "rke2-agent.service.d",
        "rke2-.service.d",
        "service.d",
    ];
    let mut units = vec![layout.path("/etc/systemd/system.conf")];
    units.extend(files_in(&layout.path("/etc/systemd/system.conf.d")));
    for place in UNITS {
        for unit in ["rke2-server.service", "rke2-agent.service"] {
            units.push(layout.path(&format!("{place}/{unit}")));
        }
        for directory in DROP_INS {
            units.extend(files_in(&layout.path(&format!("{place}/{directory}"))));
        }
    }
    // RKE2's own units read the files of their environment by `%N`.
    let is_naming = |line: &str| {
        let line = line.trim();
        let is_usual =
            line.starts_with('#') || line.starts_with("EnvironmentFile=") && line.contains("%N");
        !is_usual && NAMING.iter().any(|naming| line.contains(naming))
    };
    let contains = |path: &Path, is_it: &dyn Fn(&str) -> bool| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().any(is_it)
    };
    let is_config = |line: &str| line.contains("RKE2_CONFIG_FILE");
    let names = |line: &str| is_config(line) || line.contains("RKE2_NODE_NAME");
    rancherd(layout).is_some_and(|config| config.get("nodeName").is_some())
        || units.iter().any(|path| contains(path, &is_naming))
        || ENVIRONMENTS.iter().any(|path| {
            let agent = layout.path(&path.replace("server", "agent"));
            contains(&layout.path(path), &is_config) || contains(&agent, &names)
        })
}

fn files_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

#[derive(Default)]
pub(super) struct LastRole(Mutex<NodeRole>);

impl LastRole {
    /// The role that counts: a node does not lose its role, and does not become the first server because a file cannot
    /// be read.
    fn next(&self, found: NodeRole, is_certain: bool) -> NodeRole {
        let mut last = lock(&self.0);
        let is_kept =
            found == NodeRole::Unknown || (!is_certain && last.is_server() && found.is_server());
        if !is_kept {
            *last = found;
        }
        *last
    }
}

/// Whether it is a server. Both units may be installed: the one that is further decides, then the enabled one.
fn by_units(server: &UnitState, agent: &UnitState) -> Option<bool> {
    let ranks: [fn(&UnitState) -> bool; 4] = [
        |unit| matches!(unit.active.as_str(), "active" | "reloading" | "refreshing"),
        |unit| matches!(unit.active.as_str(), "activating" | "deactivating"),
        |unit| unit.active == "failed",
        |unit| unit.file.starts_with("enabled"),
    ];
    for is in ranks {
        let is = |unit: &UnitState| unit.load == "loaded" && is(unit);
        match (is(server), is(agent)) {
            (true, false) => return Some(true),
            (false, true) => return Some(false),
            _ => {}
        }
    }
    // Both or neither: a masked unit still shows the former role.
    (server.load == "masked" && agent.load == "not-found").then_some(true)
}

fn by_files(context: &ProbeContext) -> Option<bool> {
    let layout = context.layout();
    let data = layout.data_dir();
    if fs::exists(data.join("server/tls")) {
        return Some(true);
    }
    fs::exists(data.join("agent/kubelet.kubeconfig")).then_some(false)
}

fn role(serves: Option<bool>, config: &Config) -> NodeRole {
    match serves {
        Some(true) if config.disabled.contains(&Component::KubeApiserver) => NodeRole::Witness,
        Some(true) if config.joins => NodeRole::JoinedServer,
        Some(true) => NodeRole::FirstServer,
        Some(false) => NodeRole::Agent,
        None => NodeRole::Unknown,
    }
}

/// The keys of RKE2's configuration that switch a component off on a server (k3s `pkg/cli/cmds/server.go`).
const DISABLING: [(&str, Component); 3] = [
    ("disable-apiserver", Component::KubeApiserver),
    (
        "disable-controller-manager",
        Component::KubeControllerManager,
    ),
    ("disable-scheduler", Component::KubeScheduler),
];

/// The components that RKE2 does not run on this server. Without a local kube-apiserver, RKE2's kubeconfig leads to
/// that of another server (k3s `pkg/server/server.go`, `writeKubeConfig`).
pub fn disabled_components(layout: &Layout) -> Vec<Component> {
    Config::read(layout).disabled
}

struct Config {
    joins: bool,
    disabled: Vec<Component>,
    /// The node's own name as a Node.
    name: String,
    /// Whether RKE2 asks the cloud for that name.
    name_from_cloud: bool,
    is_whole: bool,
}

impl Config {
    fn read(layout: &Layout) -> Self {
        let found = rke2::config_files(layout);
        let mut is_whole = found.errors.is_empty();
        let mut found = found.files;
        // As RKE2 reads them: config.yaml first, then the drop-ins in byte order.
        found.sort_by(|a, b| (a.place, a.name()).cmp(&(b.place, b.name())));
        let mut files: Vec<Node> = Vec::new();
        for file in &found {
            match yaml::parse_configuration(&file.text) {
                Ok(file) => files.extend(file),
                Err(_) => is_whole = false,
            }
        }
        let last = |key: &str| files.iter().rev().find_map(|file| file.get(key));
        let rancherd = rancherd(layout);
        is_whole &= rancherd.is_some() || !has_rancherd(layout);
        let joined_by = rancherd
            .as_ref()
            .and_then(|config| config.str_at(&["server"]))
            .is_some_and(|server| !server.trim().is_empty());
        let environment = Environment::read(layout);
        let configured = |key: &str, variable: &str| {
            let configured = last(key).map(scalar).filter(|text| !text.is_empty());
            configured.or_else(|| environment.value(variable))
        };
        Self {
            joins: joined_by || configured("server", "RKE2_URL").is_some(),
            disabled: DISABLING
                .into_iter()
                .filter(|(key, _)| last(key).is_some_and(is_true))
                .map(|(_, component)| component)
                .collect(),
            name_from_cloud: last("cloud-provider-metadata-hostname").is_some_and(is_true)
                || last("cloud-provider-name").is_some(),
            name: node_name(
                layout,
                configured("node-name", "RKE2_NODE_NAME"),
                last("with-node-id").is_some_and(is_true),
            ),
            is_whole,
        }
    }
}

/// The environment of RKE2's server. It may hold the cluster's token and is never printed.
struct Environment(String);

impl Environment {
    fn read(layout: &Layout) -> Self {
        let texts = ENVIRONMENTS
            .iter()
            .filter_map(|path| read_text(&layout.path(path)).ok());
        Self(texts.collect::<Vec<_>>().join("\n"))
    }

    fn value(&self, variable: &str) -> Option<String> {
        let mut values = self.0.lines().filter_map(|line| {
            let value = line.trim().strip_prefix(variable)?.strip_prefix('=')?;
            Some(value.trim_matches(['"', '\'']).trim())
        });
        let value = values.next_back().filter(|value| !value.is_empty());
        value.map(str::to_owned)
    }
}

/// A scalar as RKE2 reads it, for any YAML type.
fn scalar(node: &Node) -> String {
    match &node.value {
        NodeValue::String(text) => text.trim().to_owned(),
        NodeValue::Number(number) => number.to_string(),
        NodeValue::Bool(is) => is.to_string(),
        NodeValue::Null | NodeValue::Sequence(_) | NodeValue::Mapping(_) => String::new(),
    }
}

fn is_true(node: &Node) -> bool {
    scalar(node) == "true"
}

/// The name that k3s gives its Node (`GetHostnameAndIPs` in `pkg/util/net.go`, `ensureNodeID` in
/// `pkg/agent/config/config.go`): the configured name or the host's, in lower case; `with-node-id` appends an
/// identifier that k3s draws once.
fn node_name(layout: &Layout, configured: Option<String>, with_id: bool) -> String {
    let text_of = |path: &str| {
        let text = fs::read_to_string(layout.path(path));
        text.map(|text| text.trim().to_owned()).ok()
    };
    let name = configured.or_else(|| text_of("/proc/sys/kernel/hostname"));
    let name = name.unwrap_or_default().to_lowercase();
    match text_of("/etc/rancher/node/id").filter(|_| with_id) {
        Some(id) => format!("{name}-{id}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(load: &str, active: &str, file: &str) -> UnitState {
        UnitState {
            load: load.to_owned(),
            active: active.to_owned(),
            file: file.to_owned(),
            ..UnitState::default()
        }
    }

    #[test]
    fn the_unit_that_is_at_work_tells_and_else_the_one_that_is_enabled() {
        let idle = || unit("loaded", "inactive", "disabled");
        let none = || unit("not-found", "inactive", "");
        for (server, agent, expected) in [
            (unit("loaded", "activating", "disabled"), idle(), Some(true)),
            (idle(), unit("loaded", "active", "enabled"), Some(false)),
            (unit("loaded", "inactive", "enabled"), idle(), Some(true)),
            // A promoted node: the agent's unit is still enabled, the server's unit runs.
            (
                unit("loaded", "active", "enabled"),
                unit("loaded", "inactive", "enabled"),
                Some(true),
            ),
            (idle(), idle(), None),
            (none(), none(), None),
            (unit("masked", "inactive", "masked"), none(), Some(true)),
            // A promoted node whose agent failed when it was stopped.
            (
                unit("loaded", "active", "enabled"),
                unit("loaded", "failed", "enabled"),
                Some(true),
            ),
            // A promotion that has just begun.
            (
                unit("loaded", "activating", "disabled"),
                unit("loaded", "active", "enabled"),
                Some(false),
            ),
        ] {
            assert_eq!(by_units(&server, &agent), expected, "{server:?} {agent:?}");
        }
    }

    #[test]
    fn a_server_is_the_first_one_unless_it_joins_or_is_a_witness() {
        let config = |joins, is_witness: bool| Config {
            joins,
            disabled: Vec::from_iter(is_witness.then_some(Component::KubeApiserver)),
            name: String::new(),
            name_from_cloud: false,
            is_whole: true,
        };
        assert_eq!(
            role(Some(true), &config(false, false)),
            NodeRole::FirstServer
        );
        assert_eq!(
            role(Some(true), &config(true, false)),
            NodeRole::JoinedServer
        );
        assert_eq!(role(Some(true), &config(true, true)), NodeRole::Witness);
        assert_eq!(role(Some(false), &config(true, false)), NodeRole::Agent);
        assert_eq!(role(None, &config(true, false)), NodeRole::Unknown);
    }
}
