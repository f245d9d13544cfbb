//! The nodes of a simulation as one cluster: the node that initialises it, the roles of the joining nodes, and
//! contradictions between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{
    AddonName, GroupKind, ManifestFile, ManifestPath, Object, ObjectRef,
};
use windrow_model::reasons::Code;
use windrow_plan::rke2::SharedValues;
use windrow_plan::rules::{NeedTarget, RuleSet};
use windrow_simulate::rehearse::fix::GivenFile;
use windrow_simulate::rehearse::identity::{NodeIdentity, conflicts};
use windrow_simulate::rehearse::layout::LayoutProposal;
use windrow_simulate::rehearse::membership::{AgentBecause, Membership};
use windrow_simulate::rehearse::promotion::promotions;
use windrow_simulate::rehearse::rke2_servers::{Rke2Node, rke2_conflicts};
use windrow_simulate::{JoinRole, JoiningNode, Scenario, Setup, SimulatedDirectory};

use super::super::inputs::Input;
use super::findings::{FoundOnNode, NodeFindings};

/// The node that initialises the cluster if all given nodes are agents.
const STAND_IN: &str = "its first server (not in the inputs, without files)";

pub(super) struct ReadNode {
    pub(super) name: String,
    pub(super) membership: Membership,
    pub(super) identity: NodeIdentity,
    /// The values of plain RKE2 that its cluster compares.
    pub(super) shared: Option<SharedValues>,
    pub(super) laid: Vec<LaidManifest>,
    pub(super) setup: Setup,
    /// The setup's rules as texts, by their names.
    pub(super) packs: Vec<(String, String)>,
    pub(super) findings: NodeFindings,
    pub(super) proposals: Vec<LayoutProposal>,
    pub(super) given_files: Option<Vec<GivenFile>>,
}

pub(super) struct LaidManifest {
    path: ManifestPath,
    digest: String,
    at: Location,
    /// The virtual machines in it, by their names in messages.
    machines: Vec<(String, Location)>,
    makes: Vec<NeedTarget>,
}

impl LaidManifest {
    pub(super) fn new(file: &Input, read: &ManifestFile) -> Self {
        Self {
            path: file.path.clone(),
            digest: read.digest.clone(),
            at: file.shown.at(None),
            machines: machines_of(read)
                .map(|(name, line)| (name, file.shown.at(Some(line))))
                .collect(),
            makes: read.objects().flat_map(makes).collect(),
        }
    }

    fn addon(&self) -> AddonName {
        self.path.addon()
    }
}

/// The virtual machines of a manifest, with their lines. An object, with its namespace if it has one, and the kind that
/// it defines.
fn makes(object: &Object) -> Vec<NeedTarget> {
    let mut made = vec![NeedTarget::Object(object.id.clone())];
    if object.id.namespace.is_none() {
        let namespace = Some("default".into());
        let id = object.id.clone();
        made.push(NeedTarget::Object(ObjectRef { namespace, ..id }));
    }
    let spec = |path: &[&str]| object.node.str_at(path).filter(|_| object.id.kind == CRD);
    let defined = (spec(&["spec", "group"]), spec(&["spec", "names", "kind"]));
    if let (Some(group), Some(kind)) = defined {
        made.push(NeedTarget::Kind(GroupKind::new(group, kind)));
    }
    made
}

const CRD: &str = "CustomResourceDefinition";

fn machines_of(read: &ManifestFile) -> impl Iterator<Item = (String, u32)> {
    read.objects().filter_map(|object| {
        let id = &object.id;
        let is_machine = (&*id.group, &*id.kind) == ("kubevirt.io", "VirtualMachine");
        let mut id = id.clone();
        id.namespace.get_or_insert_with(|| "default".into());
        is_machine.then(|| (id.to_string(), object.line))
    })
}

pub(super) struct NamedNode {
    pub(super) name: String,
    pub(super) found: FoundOnNode,
    pub(super) given_files: Option<Vec<GivenFile>>,
}

impl NamedNode {
    fn new(
        name: String,
        findings: NodeFindings,
        laid: Vec<LaidManifest>,
        given_files: Option<Vec<GivenFile>>,
    ) -> Self {
        let machines = laid.iter().flat_map(|file| file.machines.iter().cloned());
        let machines = machines.collect();
        let files = laid.into_iter().map(|file| (file.path, file.at)).collect();
        let found = FoundOnNode {
            findings,
            files,
            machines,
        };
        Self {
            name,
            found,
            given_files,
        }
    }
}

pub(super) struct Fleet {
    pub(super) setup: Setup,
    /// The rules of the node that founds the cluster as texts, by their names.
    pub(super) packs: Vec<(String, String)>,
    pub(super) nodes: Vec<NamedNode>,
    /// Names and files that may save time on the node that founds the cluster.
    pub(super) proposals: Vec<LayoutProposal>,
    pub(super) findings: Vec<Finding>,
}

pub(super) fn join_nodes(
    mut nodes: Vec<ReadNode>,
    reboots: &[(Option<String>, Duration)],
) -> Result<Fleet, String> {
    let identities = nodes.iter().map(|node| (&*node.name, &node.identity));
    let mut conflicts = conflicts(&identities.collect::<Vec<_>>());
    let of_rke2 = nodes.iter().filter_map(|node| {
        Some(Rke2Node {
            name: &node.name,
            role: node.membership.rke2_role(),
            is_role_known: node.membership.shows_role || !node.membership.joins,
            values: node.shared.as_ref()?,
        })
    });
    conflicts.extend(rke2_conflicts(&of_rke2.collect::<Vec<_>>()));
    let founds = |node: &&ReadNode| !node.membership.joins;
    let serves = |node: &&ReadNode| node.membership.agent.is_none();
    let founder = nodes
        .iter()
        .position(|node| founds(&node))
        .or_else(|| nodes.iter().position(|node| serves(&node)));
    let first = match (founder, nodes.first()) {
        (Some(founder), _) => nodes.remove(founder),
        (None, Some(agent)) => stand_in(agent),
        (None, None) => return Err("pass at least one configuration".to_owned()),
    };
    let harvester = first.setup.scenario.harvester;
    let roles = match harvester {
        Some(_) => {
            let joining: Vec<&Membership> = nodes.iter().map(|node| &node.membership).collect();
            promotions(&first.membership, &joining)
        }
        None => nodes.iter().map(joining_role).collect(),
    };
    let mut setup = first.setup;
    setup.scenario.name.clone_from(&first.name);
    let mut members = vec![first.name.as_str()];
    let mut servers = vec![(first.name.as_str(), &first.laid[..])];
    let mut agents = Vec::new();
    for (node, role) in nodes.iter().zip(roles) {
        members.push(&node.name);
        match role {
            JoinRole::Witness | JoinRole::Agent => agents.push(node),
            JoinRole::Server | JoinRole::Promoted => servers.push((&node.name, &node.laid)),
        }
        setup.joins.push(JoiningNode {
            name: node.name.clone(),
            role,
            files: node.setup.files.clone(),
            changes: node.setup.changes.clone(),
            settings: node.setup.settings.clone(),
            rules: node.setup.rules.clone(),
        });
        setup
            .scenario
            .cannot_run
            .extend(node.setup.scenario.cannot_run.clone());
        let asked = node.setup.scenario.asked.clone();
        setup.scenario.asked.extend(asked);
        let may_bring = node.setup.scenario.may_bring.clone();
        setup.scenario.may_bring.extend(may_bring);
        let scenario = &node.setup.scenario;
        setup.scenario.brings.extend(scenario.brings.clone());
        setup.scenario.assumed.extend(scenario.assumed.clone());
        if role.applies_manifests() {
            for (file, waits) in scenario.made_elsewhere.clone() {
                let known = setup.scenario.made_elsewhere.entry(file);
                known.or_default().extend(waits);
            }
        }
        setup.scenario.provided.merge(scenario.provided.clone());
    }
    let laid = servers.iter().flat_map(|(_, laid)| *laid);
    let made: BTreeSet<&NeedTarget> = laid.flat_map(|file| &file.makes).collect();
    for waits in setup.scenario.made_elsewhere.values_mut() {
        waits.retain(|target, _| !made.contains(target));
    }
    let mut findings = conflicts;
    findings.extend(disagreements(&servers));
    for (node, after) in reboots {
        let number = match node {
            None => 0,
            Some(name) => members
                .iter()
                .position(|member| member == name)
                .ok_or_else(|| format!("--reboot: there is no node {name}"))?,
        };
        setup.scenario.reboots.push((*after, number));
    }
    let unread: Vec<Option<Finding>> = nodes
        .iter()
        .map(|node| {
            let agent = agents.iter().any(|agent| std::ptr::eq(*agent, node));
            agent.then(|| unread(node, &servers)).flatten()
        })
        .collect();
    let mut named = vec![NamedNode::new(
        first.name,
        first.findings,
        first.laid,
        first.given_files,
    )];
    for (mut node, unread) in nodes.into_iter().zip(unread) {
        node.findings.files.extend(unread);
        named.push(NamedNode::new(
            node.name,
            node.findings,
            node.laid,
            node.given_files,
        ));
    }
    Ok(Fleet {
        setup,
        packs: first.packs,
        nodes: named,
        proposals: first.proposals,
        findings,
    })
}

/// A server that founds the cluster of a node which can only join one.
fn stand_in(agent: &ReadNode) -> ReadNode {
    ReadNode {
        name: STAND_IN.to_owned(),
        membership: Membership::default(),
        identity: NodeIdentity::default(),
        shared: None,
        laid: Vec::new(),
        setup: Setup {
            scenario: Scenario {
                storage_network: None,
                ..agent.setup.scenario.clone()
            },
            files: SimulatedDirectory::new(),
            changes: Vec::new(),
            settings: Arc::default(),
            rules: RuleSet::default().into(),
            joins: Vec::new(),
        },
        packs: Vec::new(),
        findings: NodeFindings::default(),
        proposals: Vec::new(),
        given_files: None,
    }
}

fn joining_role(node: &ReadNode) -> JoinRole {
    match node.membership.agent {
        None => JoinRole::Server,
        Some(_) => JoinRole::Agent,
    }
}

/// Servers that have different files of one Addon: each applies its own, and Addons are the cluster's.
fn disagreements(servers: &[(&str, &[LaidManifest])]) -> Vec<Finding> {
    let mut addons: BTreeMap<AddonName, Vec<(&str, &LaidManifest)>> = BTreeMap::new();
    for (name, laid) in servers {
        for file in *laid {
            addons.entry(file.addon()).or_default().push((name, file));
        }
    }
    let differ = |files: &[(&str, &LaidManifest)]| {
        let mut others = files.iter().skip(1);
        others.any(|(node, file)| *node != files[0].0 && file.digest != files[0].1.digest)
    };
    addons
        .into_iter()
        .filter(|(_, files)| differ(files))
        .map(|(addon, files)| {
            let mut nodes: Vec<&str> = files.iter().map(|(node, _)| *node).collect();
            nodes.dedup();
            let nodes = nodes.join(" and ");
            Finding {
                incident: None,
                code: Code::ServersDisagree,
                severity: Code::ServersDisagree.severity(),
                message: Code::ServersDisagree.say(&[("name", &addon), ("nodes", &nodes)]),
                at: files
                    .iter()
                    .map(|(_, file)| Location::file(&file.at.file))
                    .collect(),
            }
        })
        .collect()
}

/// Files of an agent that nothing reads, and that no server applies for it.
fn unread(agent: &ReadNode, servers: &[(&str, &[LaidManifest])]) -> Option<Finding> {
    let applied = |file: &LaidManifest| {
        let mut laid = servers.iter().flat_map(|(_, laid)| *laid);
        laid.any(|other| other.addon() == file.addon() && other.digest == file.digest)
    };
    let mut at = Vec::new();
    let mut files = Vec::new();
    for file in agent.laid.iter().filter(|file| !applied(file)) {
        at.push(file.at.clone());
        files.push(file.path.as_str());
    }
    let why = match &agent.membership.agent {
        Some(AgentBecause { at, says, for_good }) => format!(
            "{at}: {says}{}",
            match for_good {
                true => "",
                false => ", and Harvester does not promote it to a server here",
            }
        ),
        None => "another node initialises the cluster".to_owned(),
    };
    (!files.is_empty()).then(|| Finding {
        incident: None,
        code: Code::ManifestsOnAgent,
        severity: Code::ManifestsOnAgent.severity(),
        message: Code::ManifestsOnAgent.say(&[("why", &why), ("files", &files.join(", "))]),
        at,
    })
}
