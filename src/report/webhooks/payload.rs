//! The body of a request: the configured payload, or a CloudEvent (1.0, structured JSON). Pure.

use serde_json::{Value, json};
use windrow_decide::Status;
use windrow_decide::settings::{Field, WebhookEvent};
use windrow_model::manifest::sha256_hex;

use super::event::blocked;
use super::queue::DeliveryTry;
use crate::printable::json;

/// Media type of a CloudEvent in structured mode.
pub(super) const CLOUD_EVENT: &str = "application/cloudevents+json";
/// How many files are named; their total number is always given.
const NAMED: usize = 20;

/// The node, as consoles identify it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeIdentity {
    /// Its name.
    pub hostname: String,
    /// Hardware address of the management interface; empty when it has none.
    pub mac: String,
    /// Its first IPv4 address, or nothing.
    pub ipv4: String,
    /// Its first IPv6 address, or nothing.
    pub ipv6: String,
}

/// The request of one try.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct WebhookMessage {
    pub(super) url: String,
    pub(super) body: Option<String>,
    /// Where the configuration sets none.
    pub(super) content_type: Option<&'static str>,
}

/// Writes the request from the current status.
pub(super) fn message(tried: &DeliveryTry, status: &Status, node: &NodeIdentity) -> WebhookMessage {
    let hook = &tried.hook;
    let readiness = serde_json::to_value(status.readiness).unwrap_or_default();
    let value = |field| match field {
        Field::Hostname => node.hostname.as_str(),
        Field::MacAddr => node.mac.as_str(),
        Field::IpAddrV4 => node.ipv4.as_str(),
        Field::IpAddrV6 => node.ipv6.as_str(),
        Field::Event => hook.event.name(),
        Field::Readiness => readiness.as_str().unwrap_or_default(),
        Field::ReasonCode => status.reason.code.as_str(),
    };
    let (body, content_type) = match &hook.payload {
        Some(payload) => (Some(payload.render(value)), None),
        None if hook.has_body() => {
            let event = cloud_event(tried, status, node);
            (json(&event).ok(), Some(CLOUD_EVENT))
        }
        None => (None, None),
    };
    WebhookMessage {
        url: hook.url.render(value),
        body,
        content_type,
    }
}

fn cloud_event(tried: &DeliveryTry, status: &Status, node: &NodeIdentity) -> Value {
    let occurrence = &tried.occurrence;
    let event = tried.hook.event;
    // It stays the same for every try and every restart, so that a console can drop duplicates.
    let of: Vec<&str> = occurrence.of.iter().map(String::as_str).collect();
    let name = event.name();
    let what = format!(
        "{}\n{name}\n{}\n{}",
        node.hostname,
        occurrence.number,
        of.join("\n")
    );
    let mut id = sha256_hex(what.as_bytes());
    id.truncate(32);
    let staging = &status.staging;
    let current = status.phases.iter().find(|one| one.name == status.phase);
    let mut data = json!({
        "hostname": node.hostname,
        "nodeName": status.node_name.as_deref().unwrap_or(&node.hostname),
        "macAddress": node.mac,
        "ipv4": node.ipv4,
        "ipv6": node.ipv6,
        "readiness": status.readiness,
        "phase": status.phase,
        "since": status.since,
        "phaseSince": status.phase_since,
        "pace": status.pace,
        "paceSince": status.pace_since,
        "expected": current.and_then(|current| current.expected),
        "headline": status.headline,
        "reason": status.reason,
        "summary": status.summary,
        "role": status.role,
        "generation": status.generation,
        "staging": {
            "total": staging.total,
            "held": staging.held.len(),
            "applied": staging.applied.len(),
            "failed": staging.failed.len(),
        },
    });
    if event == WebhookEvent::StagingBlocked {
        let files = blocked(status);
        let named = files.iter().take(NAMED);
        let named = named.map(|(file, why)| json!({"file": file, "why": why}));
        data["blocked"] = json!({"count": files.len(), "files": named.collect::<Vec<_>>()});
    }
    json!({
        "specversion": "1.0",
        "id": id,
        "source": format!("//windrow.dev/nodes/{}", node.hostname),
        "type": kind(event),
        "subject": node.hostname,
        "time": occurrence.since,
        "datacontenttype": "application/json",
        "data": data,
    })
}

/// The type of its CloudEvent.
fn kind(event: WebhookEvent) -> &'static str {
    match event {
        WebhookEvent::NodeReady => "dev.windrow.node.ready",
        WebhookEvent::NodeDegraded => "dev.windrow.node.degraded",
        WebhookEvent::NodeFailed => "dev.windrow.node.failed",
        WebhookEvent::ClusterReady => "dev.windrow.cluster.ready",
        WebhookEvent::StagingBlocked => "dev.windrow.staging.blocked",
        WebhookEvent::NodeStalled => "dev.windrow.node.stalled",
        WebhookEvent::NodePhase => "dev.windrow.node.phase",
    }
}
