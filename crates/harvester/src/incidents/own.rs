//! Detects incidents of a single node from its files, and from the objects of the cluster if they contain more. Pure: the caller
//! reads the files.

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
use super::{Detector, Find, Found, look_at_own, storm, upgrade, vip};
use crate::network::OwnNetwork;
use crate::objects::{ObjectKind, Objects, Unlisted, text};
use crate::system_image::SystemImages;

/// A change by another server counts only after this server has had time for a pass in response.
const ANSWERED: SignedDuration = SignedDuration::from_mins(1);
/// Limit of missing files that are shown one by one.
const MOST_FILES: usize = 16;
/// Limit of steps of an interrupted repair that are shown one by one.
const MOST_STEPS: usize = 4;

/// Observations from the files of a node. What could not be read is absent, and has no findings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnNode {
    /// Name of the node.
    pub name: String,
    /// Name that RKE2 will register at its next start, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_name: Option<String>,
    /// Message of kube-vip when it could not bind UDP port 68.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_68_refused: Option<String>,
    /// Configured source of the VIP address in the installer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip_mode: Option<String>,
    /// End of validity of the kubelet's own certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet_until: Option<Timestamp>,
    /// Component that does not start because of a feature gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateRefused>,
    /// Manifests that RKE2 reads on this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<OwnManifest>,
    /// Missing files of Harvester's configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_files: Vec<String>,
    /// Key of these files in that configuration.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub missing_under: String,
    /// Links and the neighbours on them.
    #[serde(default, skip_serializing_if = "OwnNetwork::is_empty")]
    pub network: OwnNetwork,
    /// Boot images, on a node of Harvester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<SystemImages>,
    /// Harvester's own markers, with which a running upgrade hides a manifest from RKE2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub harvesters_markers: Vec<ManifestPath>,
    /// Interrupted repairs whose temporary changes are not reversed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfinished_repairs: Vec<UnfinishedRepair>,
    /// Failures of rancher-webhook, while rancherd has not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_breaks: Option<WebhookBreaks>,
    /// Starts of rke2-server, while systemd restarts it repeatedly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_starts: Option<ServerStarts>,
}

/// A component that does not start because of a feature gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateRefused {
    /// Component.
    pub component: String,
    /// Rejected feature gate.
    pub gate: String,
    /// Log line of the component.
    pub line: String,
    /// Place in RKE2's configuration that sets the gate.
    pub at: String,
}

/// An interrupted repair whose temporary changes are not reversed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnfinishedRepair {
    /// File name of its record.
    pub record: String,
    /// Repaired subject.
    pub subject: String,
    /// Server that started it; empty for this node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// Start of the repair.
    pub since: Timestamp,
    /// Steps that restore the changes, one line each.
    pub steps: Vec<String>,
}

/// A manifest file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnManifest {
    /// Path below the manifests directory.
    pub path: ManifestPath,
    /// Addon that RKE2 creates from it.
    pub addon: AddonName,
    /// Hex SHA-256 of its bytes.
    pub sha256: String,
}

pub(super) const DETECTORS: &[Detector] = &[
    of_node("dhcp-port", "the DHCP client's port", |own, _, _| {
        Ok(dhcp(own))
    }),
    of_node(
        "kubelet-credential",
        "the kubelet's credential",
        |own, _, now| Ok(credential(own, now)),
    ),
    of_node("node-name", "a Node that gets another name", |own, _, _| {
        Ok(renamed(own))
    }),
    of_node(
        "feature-gate",
        "a component that a feature gate keeps from starting",
        |own, _, _| Ok(gate(own)),
    ),
    of_node("addon-names", "manifests of one Addon name", |own, _, _| {
        Ok(names(own))
    }),
    of_node(
        "defined-files",
        "files that Harvester's configuration defines",
        |own, _, _| Ok(files(own)),
    ),
    of_node(
        "manifests-of-servers",
        "manifests that differ between servers",
        servers,
    ),
    of_node("repairs", "repairs that were interrupted", |own, _, _| {
        Ok(unfinished_repairs(own))
    }),
    Detector::by(
        "vip-conflict",
        "a VIP at a foreign hardware address",
        Find::Network(vip::conflict),
    ),
    Detector::by("vip-leftover", "a leftover VIP", Find::Network(vip::stale)),
    of_node(
        "rancher-webhook",
        "rancher-webhook's panic in rancherd's bootstrap",
        bootstrap::webhook,
    ),
    of_node(
        "rke2-restarts",
        "an RKE2 server that keeps restarting",
        |own, _, _| Ok(bootstrap::restart_loop(own)),
    ),
];

const fn of_node(
    id: &'static str,
    name: &'static str,
    find: fn(&OwnNode, &Objects, Timestamp) -> Found,
) -> Detector {
    Detector::by(id, name, Find::Node(find))
}

/// Adds the results from the node's own files to the results from the cluster: findings, and evidence for findings about this
/// node.
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

pub(super) fn node(own: &OwnNode) -> String {
    format!("Node {}", own.name)
}

/// The VIP address comes from DHCP, and kube-vip cannot bind the port (harvester#8389). The number of sockets on this port proves
/// nothing, because wickedd alone may have two (harvester#1835).
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

/// An expired credential: the kubelet cannot report that the node is alive, so kube-apiserver shows it as NotReady permanently.
/// RKE2 renews the credential only when it starts.
fn credential(own: &OwnNode, now: Timestamp) -> Vec<IncidentFinding> {
    let Some(until) = own.kubelet_until.filter(|until| *until < now) else {
        return Vec::new();
    };
    let why = format!("its certificate was good until {until}");
    let evidence = Evidence::new("agent/client-kubelet.crt", "notAfter", until.to_string());
    vec![IncidentFinding::new(Code::KubeletCredentialExpired, node(own), &why).seen([evidence])]
}

/// RKE2 reads the host name when it starts, and joins as a new Node if the name has changed.
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

/// Uses the same text as the daemon's guard of RKE2's starts.
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

/// Files with the same Addon: each of them prunes the objects of the other.
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

/// Every temporary change is reversed or reported.
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

/// Another server applied different content under the same name, after this server had applied its own.
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

/// When each server last applied an Addon (k3s `pkg/deploy/controller.go`: the host of the event is the node).
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
