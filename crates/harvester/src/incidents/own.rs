//! What goes wrong on one node, recognised from its files; together with the cluster's objects where they
//! tell more. Pure: the caller has read the files.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::manifest::{AddonName, ManifestPath};
use windrow_model::reasons::Code;
use windrow_model::text::shell_word;

use super::bootstrap::{self, ServerStarts, WebhookBreaks};
use super::finding::{DetectorResult, IncidentFinding};
use super::{storm, upgrade, vip};
use crate::network::OwnNetwork;
use crate::objects::{ObjectKind, Objects, Unlisted, text};
use crate::system_image::SystemImages;

/// What another server has applied counts once a pass of this one could have answered it.
const ANSWERED: SignedDuration = SignedDuration::from_mins(1);
/// Files that are missing and shown one by one.
const MOST_FILES: usize = 16;
/// Steps of an interrupted repair that are shown one by one.
const MOST_STEPS: usize = 4;

/// What was seen in the files of a node. What could not be looked at is absent, and nothing is said of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnNode {
    /// The node's name.
    pub name: String,
    /// The name under which RKE2 registers it when it starts again, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_name: Option<String>,
    /// What kube-vip said when it could not bind UDP port 68.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_68_refused: Option<String>,
    /// How the installer was configured to find the VIP's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip_mode: Option<String>,
    /// Until when the kubelet's own certificate is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet_until: Option<Timestamp>,
    /// A component that does not start because of a feature gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateRefused>,
    /// The manifests that RKE2 reads here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<OwnManifest>,
    /// Files that Harvester's configuration asks for and that are not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_files: Vec<String>,
    /// The key under which they stand in that configuration.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub missing_under: String,
    /// Its links and its neighbours on them.
    #[serde(default, skip_serializing_if = "OwnNetwork::is_empty")]
    pub network: OwnNetwork,
    /// What it boots, where it is a node of Harvester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<SystemImages>,
    /// Markers of Harvester's own, by which an upgrade keeps RKE2 from a manifest while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub harvesters_markers: Vec<ManifestPath>,
    /// Repairs that nobody goes on with, and that have not restored what they changed for a while.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfinished_repairs: Vec<UnfinishedRepair>,
    /// How rancher-webhook broke off, while rancherd has not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_breaks: Option<WebhookBreaks>,
    /// The starts of rke2-server, while systemd starts it again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_starts: Option<ServerStarts>,
}

/// A component that does not start because of a feature gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateRefused {
    /// Which component.
    pub component: String,
    /// The gate that it names.
    pub gate: String,
    /// Its line.
    pub line: String,
    /// Where RKE2's configuration sets the gate.
    pub at: String,
}

/// A repair that nobody goes on with, and that has not restored what it changed for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnfinishedRepair {
    /// The file name of its record.
    pub record: String,
    /// What it repaired.
    pub subject: String,
    /// The server that began it; empty for the node that looks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// When it began.
    pub since: Timestamp,
    /// The steps that restore, in a line each.
    pub steps: Vec<String>,
}

/// One manifest file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnManifest {
    /// Path below the manifests directory.
    pub path: ManifestPath,
    /// The Addon that RKE2 makes of it.
    pub addon: AddonName,
    /// Hex SHA-256 of its bytes.
    pub sha256: String,
}

/// A detector, and what it is called.
type OwnDetector = (
    &'static str,
    fn(&OwnNode, &Objects, Timestamp) -> Result<Vec<IncidentFinding>, Unlisted>,
);

const DETECTORS: &[OwnDetector] = &[
    ("the DHCP client's port", |own, _, _| Ok(dhcp(own))),
    ("the kubelet's credential", |own, _, now| {
        Ok(credential(own, now))
    }),
    ("a Node that gets another name", |own, _, _| {
        Ok(renamed(own))
    }),
    (
        "a component that a feature gate keeps from starting",
        |own, _, _| Ok(gate(own)),
    ),
    ("manifests of one Addon name", |own, _, _| Ok(names(own))),
    (
        "files that Harvester's configuration asks for",
        |own, _, _| Ok(files(own)),
    ),
    ("manifests that differ between servers", servers),
    ("repairs that were interrupted", |own, _, _| {
        Ok(unfinished_repairs(own))
    }),
    ("a VIP at a foreign hardware address", vip::conflict),
    ("a VIP that was left behind", vip::stale),
    (
        "rancher-webhook's panic in rancherd's bootstrap",
        bootstrap::webhook,
    ),
    ("an RKE2 server that starts again and again", |own, _, _| {
        Ok(bootstrap::restart_loop(own))
    }),
];

/// Those that go by the node's links and neighbours.
const OF_NETWORK: [&str; 2] = [
    "a VIP at a foreign hardware address",
    "a VIP that was left behind",
];

/// Adds to a look at the cluster what a node's own files tell: findings, and evidence for those that are about this node.
pub fn add_own(looked: &mut Vec<DetectorResult>, own: &OwnNode, objects: &Objects, now: Timestamp) {
    for finding in looked
        .iter_mut()
        .flat_map(|one| one.found.iter_mut().flatten())
    {
        if finding.subject == node(own) {
            upgrade::add_own_boot(finding, own, objects);
        }
    }
    looked.extend(look_at_own(own, objects, now));
}

/// Looks for what goes wrong on a node. What goes by a network at which nobody looked is left out.
pub fn look_at_own(own: &OwnNode, objects: &Objects, now: Timestamp) -> Vec<DetectorResult> {
    let seen = |name: &str| !own.network.is_empty() || !OF_NETWORK.contains(&name);
    DETECTORS
        .iter()
        .filter(|(name, _)| seen(name))
        .map(|(name, find)| DetectorResult {
            name: (*name).to_owned(),
            found: find(own, objects, now),
        })
        .collect()
}

/// Is a detector of this name about the node that looks, and not about the whole cluster?
pub fn is_about_own_node(name: &str) -> bool {
    DETECTORS.iter().any(|(own, _)| *own == name)
}

pub(super) fn node(own: &OwnNode) -> String {
    format!("Node {}", own.name)
}

/// The VIP's address is to come from DHCP, and kube-vip cannot bind the port (harvester#8389). How many sockets
/// are bound to it tells nothing: wickedd alone may have two (harvester#1835).
fn dhcp(own: &OwnNode) -> Vec<IncidentFinding> {
    let (Some(said), Some("dhcp")) = (&own.port_68_refused, own.vip_mode.as_deref()) else {
        return Vec::new();
    };
    vec![
        IncidentFinding::new(Code::DhcpClash, node(own), said).seen([
            Evidence::new(node(own), "kube-vip's log", said),
            Evidence::new("/oem/harvester.config", "install.vipMode", "dhcp"),
        ]),
    ]
}

/// An expired credential: the kubelet cannot tell that the node is alive, and kube-apiserver calls it
/// NotReady forever. RKE2 renews it at a start, and only then.
fn credential(own: &OwnNode, now: Timestamp) -> Vec<IncidentFinding> {
    let Some(until) = own.kubelet_until.filter(|until| *until < now) else {
        return Vec::new();
    };
    let why = format!("its certificate was good until {until}");
    let evidence = Evidence::new("agent/client-kubelet.crt", "notAfter", until.to_string());
    vec![IncidentFinding::new(Code::KubeletCredentialExpired, node(own), &why).seen([evidence])]
}

/// RKE2 reads the host's name when it starts, and joins as a new Node if it is another one.
fn renamed(own: &OwnNode) -> Vec<IncidentFinding> {
    let Some(next) = &own.next_name else {
        return Vec::new();
    };
    let why = format!("by its host name or RKE2's configuration it is {next}");
    vec![
        IncidentFinding::new(Code::NodeNameChanges, node(own), &why).seen([
            Evidence::new("agent/kubelet.kubeconfig", "the Node's name", &own.name),
            Evidence::new("node-name, or the host name", "the next name", next),
        ]),
    ]
}

/// As the daemon's guard over RKE2's starts says it.
fn gate(own: &OwnNode) -> Vec<IncidentFinding> {
    let Some(refused) = &own.gate else {
        return Vec::new();
    };
    let mut finding = IncidentFinding::new(Code::GateFatal, node(own), "").seen([
        Evidence::new(&refused.component, "its log", &refused.line),
        Evidence::new(&refused.at, "feature-gates", &refused.gate),
    ]);
    finding.message = Code::GateFatal.say(&[
        ("component", &refused.component),
        ("gate", &refused.gate),
        ("error", &refused.line),
    ]);
    vec![finding]
}

/// Files that share an Addon: each prunes the other's objects.
fn names(own: &OwnNode) -> Vec<IncidentFinding> {
    let mut addons: BTreeMap<&str, Vec<&OwnManifest>> = BTreeMap::new();
    for manifest in &own.manifests {
        addons.entry(&manifest.addon).or_default().push(manifest);
    }
    let shared = addons.into_iter().filter(|(_, files)| files.len() > 1);
    shared
        .map(|(name, files)| {
            let subject = format!("Addon kube-system/{name}");
            let mut finding = IncidentFinding::new(Code::AddonCollision, subject.clone(), "");
            finding.message = Code::AddonCollision.say(&[("name", name)]);
            let files = files.iter();
            finding.seen(
                files.map(|file| Evidence::new(subject.clone(), "manifest", file.path.as_str())),
            )
        })
        .collect()
}

/// Files of the configuration that were not written (harvester#10514).
fn files(own: &OwnNode) -> Vec<IncidentFinding> {
    if own.missing_files.is_empty() {
        return Vec::new();
    }
    let why = format!("{} under `{}`", own.missing_files.len(), own.missing_under);
    let shown = own.missing_files.iter().take(MOST_FILES);
    let evidence = shown.map(|path| Evidence::new(path, "file", "it is not there"));
    vec![IncidentFinding::new(Code::WriteFilesMissing, node(own), &why).seen(evidence)]
}

/// Whatever was changed for a while is given back, or reported.
fn unfinished_repairs(own: &OwnNode) -> Vec<IncidentFinding> {
    let repairs = own.unfinished_repairs.iter();
    repairs
        .map(|repair| {
            let record = &repair.record;
            let steps = repair.steps.iter().take(MOST_STEPS);
            let mut steps: Vec<String> = steps.cloned().collect();
            let more = repair.steps.len().saturating_sub(MOST_STEPS);
            if more > 0 {
                steps.push(format!("{more} more steps"));
            }
            let why = steps.join("; ");
            let subject = format!("Repair {record}");
            let server = if repair.server.is_empty() {
                &own.name
            } else {
                &repair.server
            };
            let mut finding = IncidentFinding::new(Code::RepairUnfinished, subject.clone(), &why)
                .seen([
                    Evidence::new(&subject, "what it repaired", &repair.subject),
                    Evidence::new(&subject, "the server that began it", server),
                    Evidence::new(&subject, "when it began", repair.since.to_string()),
                ]);
            finding.advice = format!(
                "Run `windrow repair --undo {} --dry-run`, then the same without --dry-run.",
                shell_word(record)
            );
            finding
        })
        .collect()
}

/// Another server applied other content under the same name, after this one had applied its own.
fn servers(
    own: &OwnNode,
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    if own.manifests.is_empty() {
        return Ok(findings);
    }
    let addons = objects.all(ObjectKind::MANIFEST_ADDON)?;
    for manifest in &own.manifests {
        let addon = addons.iter().find(|addon| {
            text(addon, "/metadata/namespace") == "kube-system"
                && manifest.addon == text(addon, "/metadata/name")
        });
        let applied = addon.map_or("", |addon| text(addon, "/spec/checksum"));
        if applied.is_empty() || applied == manifest.sha256 {
            continue;
        }
        let applied_by = applications(objects, &manifest.addon)?;
        let (Some(ours), Some((host, theirs))) = (
            applied_by.get(own.name.as_str()),
            applied_by
                .iter()
                .filter(|(host, _)| **host != own.name)
                .max_by_key(|(_, at)| **at),
        ) else {
            continue;
        };
        if theirs <= ours || now.duration_since(*theirs) < ANSWERED {
            continue;
        }
        let subject = format!("Addon kube-system/{}", manifest.addon);
        let why = format!(
            "{} here is not what {host} applied at {theirs}",
            manifest.path
        );
        let finding = IncidentFinding::new(Code::ManifestDiffers, subject.clone(), &why).seen([
            Evidence::new(&subject, "spec.checksum", applied),
            Evidence::new(
                &manifest.path,
                format!("SHA-256 on {}", own.name),
                &manifest.sha256,
            ),
            Evidence::new(
                &subject,
                format!("AppliedManifest by {}", own.name),
                ours.to_string(),
            ),
            Evidence::new(
                &subject,
                format!("AppliedManifest by {host}"),
                theirs.to_string(),
            ),
        ]);
        findings.push(finding);
    }
    Ok(findings)
}

/// When each server last applied an Addon (k3s `pkg/deploy/controller.go`: the event's host is the node).
fn applications<'o>(
    objects: &'o Objects,
    addon: &str,
) -> Result<BTreeMap<&'o str, Timestamp>, Unlisted> {
    let mut hosts: BTreeMap<&str, Timestamp> = BTreeMap::new();
    let of_addon = |event: &&Value| {
        text(event, "/involvedObject/name") == addon && text(event, "/reason") == "AppliedManifest"
    };
    for event in storm::deploy_events(objects)?.filter(of_addon) {
        let host = text(event, "/source/host");
        let last = ["/lastTimestamp", "/eventTime"];
        let at: Option<Timestamp> = last.iter().find_map(|at| text(event, at).parse().ok());
        if let (false, Some(at)) = (host.is_empty(), at) {
            let known = hosts.entry(host).or_insert(at);
            *known = (*known).max(at);
        }
    }
    Ok(hosts)
}
