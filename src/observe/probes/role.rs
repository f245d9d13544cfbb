//! The node's role in its cluster. It is read again and again, because a node can be promoted.

use windrow_model::manifest::{Node, NodeValue, yaml};
use windrow_plan::readiness::node::NodeRole;

use super::bus::UnitState;
use super::context::ProbeContext;
use crate::observe::rke2;

/// The node's current role in its cluster, and the name of its own Node.
pub async fn role_and_name(context: &ProbeContext) -> (NodeRole, String) {
    let config = Config::read(context);
    let server = context.bus.unit("rke2-server.service").await;
    let agent = context.bus.unit("rke2-agent.service").await;
    let serves = match (server, agent) {
        (Ok(server), Ok(agent)) => by_units(&server, &agent),
        // Without the bus, the files that RKE2 left on the disk decide.
        _ => by_files(context),
    };
    (role(serves, &config), config.name)
}

/// Is it a server? Both units may be installed: the running one decides, then the enabled one.
fn by_units(server: &UnitState, agent: &UnitState) -> Option<bool> {
    let at_work = |unit: &UnitState| {
        unit.load == "loaded"
            && matches!(
                unit.active.as_str(),
                "active" | "activating" | "reloading" | "deactivating" | "failed"
            )
    };
    let enabled = |unit: &UnitState| unit.load == "loaded" && unit.file.starts_with("enabled");
    for is in [at_work, enabled] {
        match (is(server), is(agent)) {
            (true, false) => return Some(true),
            (false, true) => return Some(false),
            _ => {}
        }
    }
    // Both (a promotion under way) or neither: a masked unit still shows which one it was.
    (server.load == "masked" && agent.load == "not-found").then_some(true)
}

fn by_files(context: &ProbeContext) -> Option<bool> {
    let layout = context.layout();
    let data = layout.data_dir();
    if data.join("server/tls").exists() {
        return Some(true);
    }
    data.join("agent/kubelet.kubeconfig")
        .exists()
        .then_some(false)
}

fn role(serves: Option<bool>, config: &Config) -> NodeRole {
    match serves {
        Some(true) if config.witness => NodeRole::Witness,
        Some(true) if config.joins => NodeRole::JoinedServer,
        Some(true) => NodeRole::FirstServer,
        Some(false) => NodeRole::Agent,
        None => NodeRole::Unknown,
    }
}

/// The part of RKE2's configuration that matters here.
struct Config {
    /// It names a server to join.
    joins: bool,
    /// It switches kube-apiserver off on this server.
    witness: bool,
    /// The node's own name as a Node.
    name: String,
}

impl Config {
    fn read(context: &ProbeContext) -> Self {
        let mut found = rke2::config_files(&context.layout()).files;
        // As RKE2 reads them: config.yaml first, then the drop-ins in byte order.
        found.sort_by(|a, b| (a.place, a.name()).cmp(&(b.place, b.name())));
        let files: Vec<Node> = found
            .iter()
            .filter_map(|file| yaml::parse_configuration(&file.text).ok().flatten())
            .collect();
        let last = |key: &str| files.iter().rev().find_map(|file| file.get(key));
        let text = |key: &str| {
            last(key)
                .and_then(Node::as_str)
                .map(str::trim)
                .filter(|text| !text.is_empty())
        };
        let rancherd = context.rancherd();
        let joined_by = rancherd
            .as_ref()
            .and_then(|config| config.str_at(&["server"]))
            .is_some_and(|server| !server.trim().is_empty());
        Self {
            joins: joined_by || text("server").is_some(),
            witness: last("disable-apiserver")
                .is_some_and(|node| matches!(node.value, NodeValue::Bool(true))),
            name: text("node-name").map_or_else(|| host_name(context), str::to_owned),
        }
    }
}

/// The kubelet's default: the host name in lower case.
fn host_name(context: &ProbeContext) -> String {
    std::fs::read_to_string(context.layout().path("/proc/sys/kernel/hostname"))
        .map(|name| name.trim().to_lowercase())
        .unwrap_or_default()
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
        ] {
            assert_eq!(by_units(&server, &agent), expected, "{server:?} {agent:?}");
        }
    }

    #[test]
    fn a_server_is_the_first_one_unless_it_joins_or_is_a_witness() {
        let config = |joins, witness| Config {
            joins,
            witness,
            name: String::new(),
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
