//! Reads the place of a node in its cluster from a configuration: whether it creates or joins a cluster, and whether it is an
//! agent.

use windrow_inputs::extract::{Extracted, FileKind, field, kind_of};
use windrow_model::findings::Location;
use windrow_model::manifest::{Node, NodeValue, yaml};
use windrow_plan::rke2::Rke2Role;

/// The systemctl commands that lead to a running unit.
const STARTS: [&str; 4] = ["enable", "reenable", "start", "restart"];
/// The variable with which RKE2's install script installs an agent.
const INSTALL_TYPE: &str = "INSTALL_RKE2_TYPE=";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership {
    /// Whether it joins a cluster that another node creates.
    pub joins: bool,
    /// Whether the configuration shows that it is a server or an agent.
    pub shows_role: bool,
    /// Why it is an agent, if it is one.
    pub agent: Option<AgentBecause>,
    /// The role that Harvester may give it.
    pub role: HarvesterRole,
    /// The zone in its labels (`topology.kubernetes.io/zone`).
    pub zone: Option<String>,
}

/// `install.role` of Harvester's installer, which sets the labels of the node (harvester-installer v1.7.1, `roleSetup` in
/// `pkg/console/util.go`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HarvesterRole {
    /// It may become a control plane.
    #[default]
    Default,
    /// It becomes a control plane before others.
    Management,
    /// It never becomes a control plane.
    Worker,
    /// It only becomes a member of etcd.
    Witness,
}

/// The reason why a node is an agent, whose RKE2 has no deploy controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentBecause {
    pub at: Location,
    pub says: String,
    /// Whether Harvester never promotes it to a server.
    pub for_good: bool,
}

impl Membership {
    /// The command of RKE2 that reads the node's configuration. An agent that Harvester may promote is a server too.
    pub fn rke2_role(&self) -> Rke2Role {
        match &self.agent {
            Some(because) if because.for_good => Rke2Role::Agent,
            _ => Rke2Role::Server,
        }
    }

    /// Adds the values of another file of the node.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            joins: self.joins || other.joins,
            shows_role: self.shows_role || other.shows_role,
            agent: self.agent.or(other.agent),
            role: match self.role {
                HarvesterRole::Default => other.role,
                role => role,
            },
            zone: self.zone.or(other.zone),
        }
    }
}

/// Reads a configuration, and the files of RKE2's configuration that it writes. `shown` is its name in messages.
///
/// RKE2's own configuration does not decide whether `rke2-server` or `rke2-agent` reads it. The unit decides that cloud-init or
/// yip start with their commands, or else the arguments of RKE2's install script. Without either, the node is a server.
pub fn membership(shown: &str, text: &str, written: &[Extracted]) -> Membership {
    let kind = kind_of(text);
    // The node that creates the cluster joins none, even if `server:` is set for all servers.
    let mut written = written.iter().filter(|_| kind != FileKind::ImageBuilder);
    let joins = written.any(|file| {
        let content = String::from_utf8_lossy(&file.content);
        let root = yaml::parse_configuration(&content).ok().flatten();
        file.path.starts_with("/etc/rancher/rke2/")
            && root.is_some_and(|root| root.get("server").is_some())
    });
    let Some(root) = yaml::parse_configuration(text).ok().flatten() else {
        return Membership {
            joins,
            ..Membership::default()
        };
    };
    let agent = match kind {
        FileKind::HarvesterConfig => of_harvester(shown, &root),
        FileKind::CloudInit | FileKind::Yip | FileKind::Ignition | FileKind::Butane => {
            of_rke2(shown, &commands(kind, &root))
        }
        FileKind::Manifests | FileKind::ImageBuilder => None,
    };
    let (is_harvester, is_agent) = (kind == FileKind::HarvesterConfig, agent.is_some());
    Membership {
        joins: joins || agent.is_some(),
        shows_role: agent.is_some() || is_harvester || starts_a_server(kind, &root),
        agent,
        role: match (is_harvester, is_agent) {
            (true, _) => harvester_role(&root),
            // An agent of plain RKE2 stays an agent.
            (false, true) => HarvesterRole::Worker,
            (false, false) => HarvesterRole::Default,
        },
        zone: zone(&root).filter(|_| is_harvester),
    }
}

fn harvester_role(root: &Node) -> HarvesterRole {
    let role = field(root, "install").and_then(|install| field(install, "role"));
    match role.and_then(Node::as_str) {
        Some("management") => HarvesterRole::Management,
        Some("worker") => HarvesterRole::Worker,
        Some("witness") => HarvesterRole::Witness,
        _ => HarvesterRole::Default,
    }
}

fn zone(root: &Node) -> Option<String> {
    let labels = field(field(root, "os")?, "labels")?;
    let zone = labels.get("topology.kubernetes.io/zone")?.as_str()?;
    (!zone.is_empty()).then(|| zone.to_owned())
}

/// A joining Harvester node is an agent until it is promoted, and some nodes never are.
fn of_harvester(shown: &str, root: &Node) -> Option<AgentBecause> {
    let install = field(root, "install")?;
    let mode = field(install, "mode").filter(|mode| mode.as_str() == Some("join"))?;
    let role =
        field(install, "role").filter(|role| matches!(role.as_str(), Some("worker" | "witness")));
    let (node, says) = match role {
        Some(role) => (
            role,
            format!("install.role: {}", role.as_str().unwrap_or_default()),
        ),
        None => (mode, "install.mode: join".to_owned()),
    };
    Some(AgentBecause {
        at: Location::line(shown, node.line),
        says,
        for_good: role.is_some(),
    })
}

fn of_rke2(shown: &str, commands: &[(u32, String)]) -> Option<AgentBecause> {
    let starts = |unit: &str| commands.iter().find(|(_, command)| starts(command, unit));
    if starts("rke2-server").is_some() {
        return None;
    }
    let (line, says) = match starts("rke2-agent") {
        Some((line, _)) => (*line, "it starts rke2-agent".to_owned()),
        None => {
            let installs = |(_, command): &&(u32, String)| {
                words(command).any(|word| {
                    word.strip_prefix(INSTALL_TYPE)
                        .is_some_and(|kind| kind.trim_matches(['"', '\'']) == "agent")
                })
            };
            let (line, _) = commands.iter().find(installs)?;
            (*line, format!("{INSTALL_TYPE}agent"))
        }
    };
    Some(AgentBecause {
        at: Location::line(shown, line),
        says,
        for_good: true,
    })
}

/// Whether it starts rke2-server, or runs RKE2's install script, which installs a server unless it is told otherwise.
fn starts_a_server(kind: FileKind, root: &Node) -> bool {
    let commands = commands(kind, root);
    let mut commands = commands.iter().map(|(_, command)| command);
    commands.any(|command| starts(command, "rke2-server") || command.contains("get.rke2.io"))
}

/// The commands that cloud-init or yip run, each with its line.
fn commands(kind: FileKind, root: &Node) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    let mut take = |list: Option<&Node>, before: &str| {
        for item in list.map_or(&[][..], Node::items) {
            let command = match item.as_str() {
                Some(command) => command.to_owned(),
                None => {
                    let words = item.items().iter().filter_map(Node::as_str);
                    words.collect::<Vec<_>>().join(" ")
                }
            };
            found.push((item.line, format!("{before}{command}")));
        }
    };
    if kind == FileKind::CloudInit {
        take(root.get("bootcmd"), "");
        take(root.get("runcmd"), "");
    }
    let units = root.at(&["systemd", "units"]).map_or(&[][..], Node::items);
    for unit in units {
        if unit.get("enabled").and_then(Node::as_bool) == Some(true) {
            let name = unit.get("name").cloned().into_iter();
            let list = Node {
                line: unit.line,
                value: NodeValue::Sequence(name.collect()),
            };
            take(Some(&list), "systemctl enable ");
        }
    }
    for stage in root.get("stages").map_or(&[][..], Node::entries) {
        for step in stage.value.items() {
            take(step.get("commands"), "");
            for verb in ["enable", "start"] {
                take(step.at(&["systemctl", verb]), &format!("systemctl {verb} "));
            }
        }
    }
    found
}

fn words(command: &str) -> impl Iterator<Item = &str> {
    command
        .split_whitespace()
        .map(|word| word.trim_matches(';'))
}

/// Whether a command makes systemd start this unit.
fn starts(command: &str, unit: &str) -> bool {
    command.split([';', '|', '&', '\n']).any(|simple| {
        let mut words = words(simple).skip_while(|word| !word.ends_with("systemctl"));
        let verb = words.find(|word| !word.starts_with('-') && !word.ends_with("systemctl"));
        verb.is_some_and(|verb| STARTS.contains(&verb))
            && words.any(|word| word.trim_matches(['"', '\'']).trim_end_matches(".service") == unit)
    })
}

#[cfg(test)]
mod tests {
    use windrow_inputs::extract::extract;
    use windrow_model::manifest::ReadLimits;

    use super::*;

    fn read(text: &str) -> Membership {
        let written = extract("c.yaml", text, &ReadLimits::default()).configuration;
        membership("c.yaml", text, &written)
    }

    fn agent(text: &str) -> Option<(u32, String)> {
        let agent = read(text).agent?;
        Some((agent.at.line.unwrap(), agent.says))
    }

    #[test]
    fn the_unit_that_cloud_init_or_yip_starts_makes_an_agent() {
        for commands in [
            "runcmd:\n- systemctl enable --now rke2-agent.service\n",
            "runcmd:\n- [systemctl, enable, --now, rke2-agent]\n",
            "bootcmd:\n- /usr/bin/systemctl start --no-block \"rke2-agent\"\n",
            "runcmd:\n- |\n  systemctl disable rke2-server\n  systemctl enable rke2-agent; systemctl start rke2-agent\n",
        ] {
            assert_eq!(
                agent(&format!("#cloud-config\n{commands}")),
                Some((3, "it starts rke2-agent".to_owned())),
                "{commands}"
            );
        }
        let yip = "stages:\n  network:\n  - systemctl:\n      enable:\n      - rke2-agent\n";
        assert_eq!(agent(yip), Some((5, "it starts rke2-agent".to_owned())));
        let yip = "stages:\n  boot:\n  - commands:\n    - systemctl restart rke2-agent\n";
        assert_eq!(agent(yip), Some((4, "it starts rke2-agent".to_owned())));
    }

    #[test]
    fn a_unit_that_ignition_enables_makes_an_agent() {
        let butane = |enabled: bool| {
            format!(
                "variant: fcos\nversion: 1.5.0\nsystemd:\n  units:\n  - name: rke2-agent.service\n    enabled: {enabled}\n"
            )
        };
        assert_eq!(
            agent(&butane(true)),
            Some((5, "it starts rke2-agent".to_owned()))
        );
        assert_eq!(agent(&butane(false)), None);
    }

    #[test]
    fn without_a_unit_it_is_what_the_install_script_is_told() {
        let install = "#cloud-config\nruncmd:\n- curl -sfL https://get.rke2.io | INSTALL_RKE2_TYPE=\"agent\" sh -\n";
        assert_eq!(
            agent(install),
            Some((3, "INSTALL_RKE2_TYPE=agent".to_owned()))
        );
        assert!(read(install).joins, "an agent cannot found a cluster");
    }

    #[test]
    fn a_node_of_which_nothing_is_said_is_a_server_and_so_is_one_that_starts_it() {
        for commands in [
            "runcmd:\n- systemctl enable --now rke2-server\n",
            "runcmd:\n- INSTALL_RKE2_TYPE=agent sh install.sh\n- systemctl enable --now rke2-server.service\n",
            "runcmd:\n- systemctl disable rke2-agent\n",
            "runcmd:\n- echo rke2-agent\n",
            "runcmd: none\n",
            "",
        ] {
            let text = format!("#cloud-config\n{commands}");
            let server = Membership {
                shows_role: commands.contains("--now rke2-server"),
                ..Membership::default()
            };
            assert_eq!(read(&text), server, "{commands}");
        }
    }

    #[test]
    fn a_server_in_rke2s_configuration_only_says_that_it_joins() {
        let text = "#cloud-config\nwrite_files:\n- path: /etc/rancher/rke2/config.yaml\n  content: |\n    server: https://n1:9345\n";
        let joins = Membership {
            joins: true,
            ..Membership::default()
        };
        assert_eq!(read(text), joins);
    }

    #[test]
    fn a_harvester_node_that_joins_is_an_agent_at_first_and_a_worker_for_good() {
        let join = read("install:\n  mode: join\n").agent.unwrap();
        assert_eq!((join.at.line, join.for_good), (Some(2), false));
        let worker = read("install:\n  mode: join\n  Role: worker\n")
            .agent
            .unwrap();
        assert_eq!((worker.at.line, worker.for_good), (Some(3), true));
        assert_eq!(worker.says, "install.role: worker");
        // The node that creates the cluster is a server in any role.
        let founds = read("install:\n  mode: create\n  role: worker\n");
        assert!(founds.agent.is_none() && !founds.joins);
    }

    #[test]
    fn a_harvester_node_has_a_role_and_a_zone() {
        let node = read(
            "install:\n  mode: join\n  role: witness\nos:\n  labels: {topology.kubernetes.io/zone: z1}\n",
        );
        assert_eq!(node.role, HarvesterRole::Witness);
        assert_eq!(node.zone.as_deref(), Some("z1"));
    }
}
