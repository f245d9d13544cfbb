//! The body of a request: the configured payload, or a CloudEvent (1.0, structured JSON). Pure.

use std::net::IpAddr;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use windrow_decide::settings::{Field, WebhookTemplate};

use super::cloud_event::{CloudEvent, NodeFacts};
use super::queue::DeliveryTry;
use crate::printable::json;

/// Media type of a CloudEvent in structured mode.
pub(super) const CLOUD_EVENT: &str = "application/cloudevents+json";
/// The characters of a field that are encoded in a URL: all except RFC 3986's unreserved characters and the `:` of MAC
/// and IPv6 addresses. A DHCP server may set a machine's name, and the name must not change the target of the request.
const NOT_IN_URL: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// The node, as consoles identify it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeIdentity {
    pub hostname: String,
    /// Hardware address of the management interface; empty when it has none.
    pub mac: String,
    /// The machine's serial number; empty when it has none.
    pub serial: String,
    /// The first IPv4 address of the management interface, or nothing.
    pub ipv4: String,
    /// Its first IPv6 address, or nothing.
    pub ipv6: String,
    pub addresses: Vec<IpAddr>,
    /// The address of this process; with `--root` the node is another machine.
    pub reached_at: Option<IpAddr>,
    pub uptime: Option<Duration>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct WebhookMessage {
    pub(super) url: String,
    pub(super) body: Option<String>,
    /// If the configuration sets none.
    pub(super) content_type: Option<&'static str>,
}

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
        url: address(&hook.url, value),
        body,
        content_type,
    }
}

fn address<'v>(url: &WebhookTemplate, value: impl Fn(Field) -> &'v str) -> String {
    url.render(|field| utf8_percent_encode(value(field), NOT_IN_URL).to_string())
}

#[cfg(test)]
mod tests {
    use reqwest::Url;

    use super::*;

    #[test]
    fn a_name_does_not_say_where_the_request_goes() {
        let template = WebhookTemplate::parse("https://console.example/{{.Hostname}}?a=1").unwrap();
        let url = address(&template, |_| "no/../de?b=2#c d");
        assert_eq!(
            url,
            "https://console.example/no%2F..%2Fde%3Fb%3D2%23c%20d?a=1"
        );
        let template = WebhookTemplate::parse("https://{{.Hostname}}.example/").unwrap();
        assert_eq!(address(&template, |_| "node-1"), "https://node-1.example/");
        for evil in [
            "evil.example/",
            "user@evil.example/",
            "evil.example:99/",
            "a#",
        ] {
            let url = Url::parse(&address(&template, |_| evil));
            let host = url.ok().and_then(|url| url.host_str().map(str::to_owned));
            assert!(
                host.is_none_or(|host| host.ends_with(".example") && host != "evil.example"),
                "{evil}"
            );
        }
        let template = WebhookTemplate::parse("https://[{{.IPAddrV6}}]/{{.MACAddr}}").unwrap();
        let value = |field| match field {
            Field::MacAddr => "52:54:00:00:00:01",
            _ => "fd00::1",
        };
        assert_eq!(
            address(&template, value),
            "https://[fd00::1]/52:54:00:00:00:01"
        );
    }
}
