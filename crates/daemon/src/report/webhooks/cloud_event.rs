//! The CloudEvent (1.0, structured JSON) that a webhook sends unless a payload is configured. Pure.
//!
//! `docs/event.schema.json` is generated from these types. A receiver sees nodes of several releases: fields may be
//! added, and none changes its meaning.

use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use windrow_decide::settings::WebhookEvent;
use windrow_decide::{
    CertificateSource, Holder, NodeRole, Pace, Phase, PhaseExpectation, PhaseState, PhaseStatus,
    Readiness, ServerStatus, Status, StatusReason,
};
use windrow_model::findings::Finding;
use windrow_model::manifest::sha256_hex;
use windrow_model::reasons::{Code, Severity};

use super::event::blocked;
use super::payload::NodeIdentity;
use super::queue::DeliveryTry;

/// How many files, findings and addresses are listed.
const NAMED: usize = 20;
/// Longest foreign text, in characters.
const LONGEST: usize = 300;

#[derive(Clone, Copy)]
pub(super) struct NodeFacts<'f> {
    pub(super) status: &'f Status,
    pub(super) node: &'f NodeIdentity,
    pub(super) server: Option<&'f ServerStatus>,
    pub(super) now: Timestamp,
}

/// A CloudEvent of a node.
#[derive(Serialize, JsonSchema)]
pub(super) struct CloudEvent<'e> {
    /// `1.0`
    specversion: &'static str,
    /// The same for every try of one occurrence.
    id: String,
    /// `//windrow.dev/nodes/HOST`
    source: String,
    /// `dev.windrow.node.ready` and the like.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The node's host name.
    subject: &'e str,
    /// Since when the event is true, by the node's clock.
    time: Timestamp,
    /// `application/json`
    datacontenttype: &'static str,
    /// `data.sequence` with twenty digits.
    sequence: String,
    /// The node's state at the moment of sending.
    data: EventData<'e>,
}

/// The node's state at the moment of sending.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EventData<'e> {
    /// Host name; empty when it has none.
    hostname: &'e str,
    /// The name of its Node.
    node_name: &'e str,
    /// Hardware address of the management interface; empty when it has none.
    mac_address: &'e str,
    /// The machine's serial number; empty when it has none.
    serial: &'e str,
    /// First IPv4 address of the management interface, or empty.
    ipv4: &'e str,
    /// First IPv6 address of the management interface, or empty.
    ipv6: &'e str,
    /// At most 20 addresses that other machines can use, those of the management interface first; no link-local ones.
    addresses: Vec<IpAddr>,
    /// Which boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    boot_id: Option<&'e str>,
    /// Greater than that of every event that the node wrote before, in this boot and earlier ones; not without gaps.
    sequence: u64,
    /// When this was written, by the node's clock.
    sent_at: Timestamp,
    /// The seconds since the boot, whatever the node's clock shows; null where that is not known.
    uptime_seconds: Option<u64>,
    /// Windrow's version.
    version: &'e str,
    /// The version of RKE2, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    rke2_version: Option<&'e str>,
    /// Where the node stands.
    readiness: Readiness,
    /// Which part of the bootstrap it is in.
    phase: Phase,
    /// Since when readiness and phase are as they are.
    since: Timestamp,
    /// Since when it is in that part.
    phase_since: Option<Timestamp>,
    /// Whether the bootstrap goes on as fast as it should; null when it is over.
    pace: Option<Pace>,
    /// Since when that is so.
    pace_since: Option<Timestamp>,
    /// How long the phase may take before it is slow.
    expected: Option<&'e PhaseExpectation>,
    /// The word for the readiness, with the step, for how long and how it gets on.
    headline: &'e str,
    /// The first blocker, or why there is none.
    reason: &'e StatusReason,
    /// The headline and the reason in one line.
    summary: &'e str,
    /// What the node is in its cluster.
    role: NodeRole,
    /// Of the status document.
    generation: u64,
    /// How many manifest files there are.
    staging: FileCounts,
    /// The bootstrap from its first phase to its last.
    phases: Vec<EventPhase>,
    /// At most 20 known problems.
    findings: Vec<EventFinding>,
    /// The first file that is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_blocker: Option<NamedFile>,
    /// Where the node's status is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    status_server: Option<EventServer<'e>>,
    /// Of `dev.windrow.staging.blocked`: the files that are stuck.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<BlockedFiles>,
}

/// How many manifest files there are.
#[derive(Serialize, JsonSchema)]
struct FileCounts {
    /// All that are staged.
    total: usize,
    /// Kept from RKE2.
    held: usize,
    /// Applied.
    applied: usize,
    /// Released, and RKE2 cannot apply them.
    failed: usize,
}

/// A phase of the bootstrap.
#[derive(Serialize, JsonSchema)]
struct EventPhase {
    /// Which.
    name: Phase,
    /// When the node first came to it in this boot; absent as long as it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// How long it took in this boot, in seconds; absent before its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    took: Option<u64>,
}

/// A known problem.
#[derive(Serialize, JsonSchema)]
struct EventFinding {
    /// Its stable code.
    code: Code,
    /// How much it matters.
    severity: Severity,
    /// What it is about: an object, or the first place in a file; empty when it is the node.
    subject: String,
}

/// A file, and why it waits or cannot be applied.
#[derive(Serialize, JsonSchema)]
struct NamedFile {
    /// Path below the manifests directory.
    file: String,
    /// Why, in a line.
    why: String,
}

/// The files that are stuck.
#[derive(Serialize, JsonSchema)]
struct BlockedFiles {
    /// How many.
    count: usize,
    /// At most 20 of them.
    files: Vec<NamedFile>,
}

/// The HTTPS status server.
#[derive(Serialize, JsonSchema)]
struct EventServer<'e> {
    /// The address of the document.
    url: String,
    /// Which certificate it serves with.
    certificate: CertificateSource,
    /// SHA-256 of that certificate (DER), in hexadecimal.
    fingerprint: &'e str,
}

impl<'e> CloudEvent<'e> {
    pub(super) fn new(tried: &DeliveryTry, facts: &NodeFacts<'e>) -> Self {
        let NodeFacts { node, now, .. } = *facts;
        let event = tried.hook.event;
        Self {
            specversion: "1.0",
            id: id(tried, &node.hostname),
            source: format!("//windrow.dev/nodes/{}", node.hostname),
            kind: kind(event),
            subject: &node.hostname,
            time: match tried.repeat {
                None => tried.occurrence.since,
                Some(_) => now,
            },
            datacontenttype: "application/json",
            sequence: format!("{:020}", tried.sequence),
            data: EventData::new(event, tried.sequence, facts),
        }
    }
}

impl<'e> EventData<'e> {
    fn new(event: WebhookEvent, sequence: u64, facts: &NodeFacts<'e>) -> Self {
        let NodeFacts {
            status, node, now, ..
        } = *facts;
        let (staging, gates) = (&status.staging, &status.gates);
        let current = status.phases.iter().find(|one| one.name == status.phase);
        // One of several is only a guess.
        let mut rke2 = gates.iter().filter_map(|gates| match &gates.versions[..] {
            [version] => Some(version.as_str()),
            _ => None,
        });
        let held = staging.held.iter();
        let first = held.clone().find(|held| held.by == Holder::Windrow);
        let first = first.or(staging.held.first());
        Self {
            hostname: &node.hostname,
            node_name: status.node_name.as_deref().unwrap_or(&node.hostname),
            mac_address: &node.mac,
            serial: &node.serial,
            ipv4: &node.ipv4,
            ipv6: &node.ipv6,
            addresses: addresses(node),
            boot_id: status.writer.as_ref().map(|one| one.boot_id.as_str()),
            sequence,
            sent_at: now,
            uptime_seconds: node.uptime.map(|uptime| uptime.as_secs()),
            version: &status.versions.windrow,
            rke2_version: rke2.next_back(),
            readiness: status.readiness,
            phase: status.phase,
            since: status.since,
            phase_since: status.phase_since,
            pace: status.pace,
            pace_since: status.pace_since,
            expected: current.and_then(|current| current.expected.as_ref()),
            headline: &status.headline,
            reason: &status.reason,
            summary: &status.summary,
            role: status.role,
            generation: status.generation,
            staging: FileCounts {
                total: staging.total,
                held: staging.held.len(),
                applied: staging.applied.len(),
                failed: staging.failed.len(),
            },
            phases: status.phases.iter().map(EventPhase::new).collect(),
            findings: findings(&status.findings),
            first_blocker: first.map(|held| NamedFile::new(held.file.as_str(), &held.why)),
            status_server: facts.server.map(|server| EventServer::new(server, node)),
            blocked: (event == WebhookEvent::StagingBlocked).then(|| {
                let files = blocked(status);
                let named = files.iter().take(NAMED);
                BlockedFiles {
                    count: files.len(),
                    files: named.map(|(file, why)| NamedFile::new(file, why)).collect(),
                }
            }),
        }
    }
}

impl EventPhase {
    fn new(phase: &PhaseStatus) -> Self {
        Self {
            name: phase.name,
            since: phase.began,
            // For the current phase, the document has the duration of earlier stays.
            took: phase.seconds.filter(|_| phase.state == PhaseState::Done),
        }
    }
}

impl NamedFile {
    fn new(file: &str, why: &str) -> Self {
        Self {
            file: cut(file),
            why: cut(why),
        }
    }
}

impl<'e> EventServer<'e> {
    fn new(server: &'e ServerStatus, node: &NodeIdentity) -> Self {
        Self {
            url: url(&server.listen, node),
            certificate: server.certificate,
            fingerprint: &server.fingerprint,
        }
    }
}

fn url(listen: &str, node: &NodeIdentity) -> String {
    let at = match listen.parse::<SocketAddr>() {
        Ok(listen) if listen.ip().is_unspecified() => {
            let named = |ip: &str| ip.parse::<IpAddr>().ok();
            let own = named(&node.ipv4).or_else(|| named(&node.ipv6));
            match own.or(node.reached_at) {
                Some(ip) => SocketAddr::new(ip, listen.port()).to_string(),
                None => format!("{}:{}", node.hostname, listen.port()),
            }
        }
        _ => listen.to_owned(),
    };
    format!("https://{at}/status")
}

/// Those of the management interface first.
fn addresses(node: &NodeIdentity) -> Vec<IpAddr> {
    let of_management = |ip: &IpAddr| {
        let ip = ip.to_string();
        ip == node.ipv4 || ip == node.ipv6
    };
    let mut addresses = node.addresses.clone();
    addresses.sort_by_key(|ip| !of_management(ip));
    addresses.truncate(NAMED);
    addresses
}

/// The worst first.
fn findings(findings: &[Finding]) -> Vec<EventFinding> {
    let mut worst: Vec<&Finding> = findings.iter().collect();
    worst.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let of = |finding: &Finding| match (&finding.incident, finding.at.first()) {
        (Some(incident), _) => incident.subject.clone(),
        (None, Some(at)) => at.to_string(),
        (None, None) => String::new(),
    };
    let named = worst.into_iter().take(NAMED);
    let named = named.map(|finding| EventFinding {
        code: finding.code,
        severity: finding.severity,
        subject: cut(&of(finding)),
    });
    named.collect()
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// It stays the same for every try and every restart, so that a console can drop duplicates.
fn id(tried: &DeliveryTry, hostname: &str) -> String {
    let occurrence = &tried.occurrence;
    let of: Vec<&str> = occurrence.of.iter().map(String::as_str).collect();
    let (name, number) = (tried.hook.event.name(), occurrence.number);
    let mut what = format!("{hostname}\n{name}\n{number}\n{}", of.join("\n"));
    // After a reinstallation the numbers begin again.
    what.push_str(&format!("\n\nsince {}", occurrence.since));
    if let Some(repeat) = tried.repeat {
        what.push_str(&format!("\n\nrepeat {repeat}"));
    }
    let mut id = sha256_hex(what.as_bytes());
    id.truncate(32);
    id
}

fn kind(event: WebhookEvent) -> &'static str {
    match event {
        WebhookEvent::NodeReady => "dev.windrow.node.ready",
        WebhookEvent::NodeDegraded => "dev.windrow.node.degraded",
        WebhookEvent::NodeFailed => "dev.windrow.node.failed",
        WebhookEvent::ClusterReady => "dev.windrow.cluster.ready",
        WebhookEvent::StagingBlocked => "dev.windrow.staging.blocked",
        WebhookEvent::NodeStalled => "dev.windrow.node.stalled",
        WebhookEvent::NodePhase => "dev.windrow.node.phase",
        WebhookEvent::NodeSeen => "dev.windrow.node.seen",
    }
}

/// The JSON schema of an event, as committed in `docs/event.schema.json`.
pub(super) fn schema() -> String {
    serde_json::to_string_pretty(&schemars::schema_for!(CloudEvent<'_>)).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use windrow_decide::settings::{Webhook, WebhookTemplate};
    use windrow_model::findings::Location;

    use super::super::queue::Occurrence;
    use super::*;

    fn blocked_since(second: i64, sequence: u64) -> DeliveryTry {
        DeliveryTry {
            lane: sequence,
            hook: Webhook {
                at: Location::line("windrow.yaml", 1),
                event: WebhookEvent::StagingBlocked,
                method: "POST".to_owned(),
                url: WebhookTemplate::parse("http://c/blocked").unwrap(),
                headers: Vec::new(),
                payload: None,
                insecure: false,
                fingerprint: None,
                basic_auth: None,
                every: None,
            },
            occurrence: Occurrence {
                event: WebhookEvent::StagingBlocked,
                of: ["vm.yaml".to_owned()].into(),
                number: 1,
                since: Timestamp::from_second(second).unwrap(),
            },
            repeat: None,
            sequence,
        }
    }

    #[test]
    fn the_same_file_that_blocks_a_second_installation_is_another_event() {
        let first = blocked_since(1_000_000, 1);
        let again = blocked_since(1_000_000, 2);
        let reinstalled = blocked_since(2_000_000, 1);
        assert_eq!(id(&first, "node1"), id(&again, "node1"));
        assert_ne!(id(&first, "node1"), id(&reinstalled, "node1"));
    }
}
