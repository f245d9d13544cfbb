//! The body of a request: the configured payload, or a CloudEvent (1.0, structured JSON). Pure.

use std::net::IpAddr;
use std::time::Duration;

use windrow_decide::settings::Field;

use super::cloud_event::{CloudEvent, NodeFacts};
use super::queue::DeliveryTry;
use crate::printable::json;

/// Media type of a CloudEvent in structured mode.
pub(super) const CLOUD_EVENT: &str = "application/cloudevents+json";
/// The node, as consoles identify it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeIdentity {
    /// Its name.
    pub hostname: String,
    /// Hardware address of the management interface; empty when it has none.
    pub mac: String,
    /// The machine's serial number; empty when it has none.
    pub serial: String,
    /// The first IPv4 address of the management interface, or nothing.
    pub ipv4: String,
    /// Its first IPv6 address, or nothing.
    pub ipv6: String,
    /// All addresses that other machines can use.
    pub addresses: Vec<IpAddr>,
    /// Where this process can be reached; below `--root` that is another machine.
    pub reached_at: Option<IpAddr>,
    /// For how long the machine has been up.
    pub uptime: Option<Duration>,
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
pub(super) fn message(tried: &DeliveryTry, facts: &NodeFacts<'_>) -> WebhookMessage {
    let hook = &tried.hook;
    let (status, node) = (facts.status, facts.node);
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
            let event = CloudEvent::new(tried, facts);
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
