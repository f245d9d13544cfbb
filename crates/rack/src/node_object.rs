//! Converts a Node of Kubernetes with Windrow's condition and annotation into a report.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::object::Condition;
use windrow_plan::readiness::node::Readiness;

use crate::event;
use crate::fields::Fields;
use crate::identity::NodeIdentity;
use crate::report::{MOST_ADDRESSES, NodeReport, NodeState, ReportSource};
use crate::text::{MESSAGE, NAME, WORD, clean};
use windrow_harvester::node_condition::{
    ANNOTATION, FORMER_CONDITION, own_condition, parts, phase, readiness,
};

/// Size limit of the annotation: twice the size that Windrow writes.
const LARGEST: usize = 1024;
/// The daemon renews the condition every ten minutes. An older condition is no longer maintained.
const STALE: i64 = 15 * 60;
pub(crate) const STALE_HEADLINE: &str = "Unknown (the condition is stale)";

/// How to tell whether a condition is still maintained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heartbeat {
    /// By its timestamp, which comes from the clock of the node.
    ByItsClock,
    /// The receiver saw it change just now.
    Seen,
}

/// Reads a Node that was received at this time. `None` if it has no name, or no condition of Windrow.
pub fn read_node(node: &Value, received: Timestamp, heartbeat: Heartbeat) -> Option<NodeReport> {
    let name = node["metadata"]["name"].as_str()?;
    let (own, status) = condition(node)?;
    let text = |value: &Value, longest| clean(value.as_str().unwrap_or_default(), longest);
    // A clock that is ahead does not make a condition stale.
    let is_stale = heartbeat == Heartbeat::ByItsClock
        && own
            .time("lastHeartbeatTime")
            .is_some_and(|beat| received.duration_since(beat).as_secs() > STALE);
    let message = clean(own.message, MESSAGE);
    let (headline, blocker) = parts(&message);
    let readiness = match is_stale {
        true => Readiness::Unknown,
        false => readiness(status, headline),
    };
    let info = &node["status"]["nodeInfo"];
    let labels = &node["metadata"]["labels"];
    let is_server = labels
        .get("node-role.kubernetes.io/control-plane")
        .or_else(|| labels.get("node-role.kubernetes.io/etcd"))
        .is_some();
    let addresses = node["status"]["addresses"].as_array();
    let addresses = addresses.into_iter().flatten();
    let addresses = addresses
        .filter(|one| one["type"] == "InternalIP" || one["type"] == "ExternalIP")
        .filter_map(|one| one["address"].as_str()?.parse::<std::net::IpAddr>().ok())
        .take(MOST_ADDRESSES)
        .map(|address| address.to_string());
    let host = match own_host(node) {
        "" => name,
        host => host,
    };
    // If the state is unknown, the annotation is outdated too.
    let more = annotation(node).filter(|_| readiness != Readiness::Unknown);
    let state = NodeState {
        readiness,
        headline: match is_stale {
            true => STALE_HEADLINE.to_owned(),
            false => headline.to_owned(),
        },
        reason: clean(own.reason, WORD),
        message: blocker.to_owned(),
        role: if is_server { "server" } else { "agent" }.to_owned(),
        node_name: clean(name, NAME),
        addresses: addresses.collect(),
        rke2_version: text(&info["kubeletVersion"], WORD),
        ..more.unwrap_or_else(|| NodeState {
            phase: phase(headline).to_owned(),
            since: own.time("lastTransitionTime"),
            ..NodeState::unknown()
        })
    };
    Some(NodeReport {
        received,
        source: ReportSource::Condition,
        id: String::new(),
        identity: NodeIdentity::new("", "", host),
        boot: text(&info["bootID"], WORD),
        sequence: None,
        generation: None,
        uptime: None,
        sent: None,
        state,
    })
}

/// Windrow's condition and its status with today's meaning: in versions before 0.1.0 `True` is good.
fn condition(node: &Value) -> Option<(Condition<'_>, &str)> {
    if let Some(own) = own_condition(node) {
        return Some((own, own.status));
    }
    let former = Condition::of(node, FORMER_CONDITION)?;
    let status = match former.status {
        "True" => "False",
        "False" => "True",
        other => other,
    };
    Some((former, status))
}

/// The content of the annotation; `None` if it is absent or unreadable.
fn annotation(node: &Value) -> Option<NodeState> {
    let text = node["metadata"]["annotations"][ANNOTATION].as_str();
    let text = text.filter(|text| text.len() <= LARGEST)?;
    let value: Value = serde_json::from_str(text).ok().filter(Value::is_object)?;
    let mut fields = Fields::new(&value, "");
    let state = event::state(&mut fields);
    fields.wrong().is_empty().then_some(state)
}

/// The host name that the kubelet reports. It may differ from the name of the Node.
fn own_host(node: &Value) -> &str {
    node["metadata"]["labels"]["kubernetes.io/hostname"]
        .as_str()
        .unwrap_or_default()
}
