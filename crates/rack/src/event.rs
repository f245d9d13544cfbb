//! Converts a CloudEvent of a node into a report.

use jiff::Timestamp;
use serde_json::Value;
use windrow_plan::readiness::node::Readiness;

use crate::fields::Fields;
use crate::identity::NodeIdentity;
use crate::report::{
    BlockingFile, FileCounts, LARGEST_REPORT, LONGEST_UPTIME, MOST_ADDRESSES, MOST_FINDINGS,
    MOST_PHASES, NodeFinding, NodeReport, NodeState, PhaseReport, ReportSource, StatusServer,
};
use crate::text::{MESSAGE, NAME, WORD};

/// Prefix of the types of Windrow's events.
const TYPES: &str = "dev.windrow.";
const SEEN: &str = "dev.windrow.node.seen";

/// Reads an event (CloudEvents 1.0, structured JSON) that was received at this time.
///
/// # Errors
///
/// All errors in the event, one per line.
pub fn read_event(bytes: &[u8], received: Timestamp) -> Result<NodeReport, Vec<String>> {
    if bytes.len() > LARGEST_REPORT {
        let most = LARGEST_REPORT >> 10;
        return Err(vec![format!("the event is larger than {most} KiB")]);
    }
    let event: Value = serde_json::from_slice(bytes)
        .map_err(|error| vec![format!("line {}: the event is not JSON", error.line())])?;
    if !event.is_object() {
        return Err(vec![
            "send a CloudEvent in structured JSON: a map".to_owned(),
        ]);
    }
    let mut fields = Fields::new(&event, "");
    if fields.text("specversion", WORD) != "1.0" {
        fields.complain("specversion", "this is not a CloudEvent of version 1.0");
    }
    let kind = fields.text("type", WORD);
    if !kind.starts_with(TYPES) {
        fields.complain("type", "Windrow's events begin with dev.windrow.");
    }
    let id = fields.text("id", WORD);
    if id.is_empty() {
        fields.complain("id", "write the event's id");
    }
    let Some(data) = fields.map("data") else {
        fields.complain("data", "it has none");
        return Err(fields.wrong());
    };
    let mut data = Fields::new(data, "data");
    let identity = NodeIdentity::new(
        &data.text("macAddress", WORD),
        &data.text("serial", WORD),
        &data.text("hostname", NAME),
    );
    if identity.is_empty() {
        data.complain(
            "hostname",
            "the event names no node: it needs macAddress, serial or hostname",
        );
    }
    let report = NodeReport {
        received,
        source: ReportSource::Event { seen: kind == SEEN },
        id,
        identity,
        boot: data.text("bootId", WORD),
        sequence: data.count("sequence"),
        generation: data.count("generation"),
        uptime: data
            .count("uptimeSeconds")
            .map(|uptime| uptime.min(LONGEST_UPTIME)),
        sent: data.time("sentAt"),
        state: state(&mut data),
    };
    fields.absorb(data.wrong());
    match fields.wrong() {
        wrong if wrong.is_empty() => Ok(report),
        wrong => Err(wrong),
    }
}

pub(crate) fn state(data: &mut Fields<'_>) -> NodeState {
    let mut addresses: Vec<String> = Vec::new();
    for value in data.list("addresses", MOST_ADDRESSES) {
        match value.as_str().map(str::parse::<std::net::IpAddr>) {
            Some(Ok(address)) => addresses.push(address.to_string()),
            _ => data.complain("addresses", "write IP addresses"),
        }
    }
    if addresses.is_empty() {
        let both = ["ipv4", "ipv6"].map(|key| data.text(key, WORD));
        addresses.extend(both.into_iter().filter(|text| !text.is_empty()));
    }
    let first_blocker = data.map("firstBlocker").map(|value| {
        let mut fields = Fields::new(value, "data.firstBlocker");
        let blocker = BlockingFile {
            file: fields.text("file", NAME),
            why: fields.text("why", MESSAGE),
        };
        data.absorb(fields.wrong());
        blocker
    });
    let files = data.map("staging").map(|value| {
        let mut fields = Fields::new(value, "data.staging");
        let mut count = |key| fields.count(key).unwrap_or_default();
        let counts = FileCounts {
            total: count("total"),
            held: count("held"),
            applied: count("applied"),
            failed: count("failed"),
        };
        data.absorb(fields.wrong());
        counts
    });
    let server = data.map("statusServer").map(|value| {
        let mut fields = Fields::new(value, "data.statusServer");
        let server = StatusServer {
            url: fields.text("url", MESSAGE),
            fingerprint: fields.text("fingerprint", WORD).to_lowercase(),
        };
        data.absorb(fields.wrong());
        server
    });
    let (reason, message) = reason(data);
    NodeState {
        readiness: data.word("readiness").unwrap_or(Readiness::Unknown),
        phase: data.text("phase", WORD),
        pace: data.word("pace"),
        since: data.time("since"),
        phase_since: data.time("phaseSince"),
        headline: data.text("headline", WORD),
        reason,
        message,
        first_blocker,
        role: data.text("role", WORD),
        node_name: data.text("nodeName", NAME),
        addresses,
        version: data.text("version", WORD),
        rke2_version: data.text("rke2Version", WORD),
        files,
        findings: findings(data, |fields| fields.text("subject", NAME)),
        phases: phases(data, "since", "took"),
        server,
    }
}

/// Code and message of the reason.
pub(crate) fn reason(data: &mut Fields<'_>) -> (String, String) {
    let Some(value) = data.map("reason") else {
        return Default::default();
    };
    let mut fields = Fields::new(value, "reason");
    let found = (fields.text("code", WORD), fields.text("message", MESSAGE));
    data.absorb(fields.wrong());
    found
}

pub(crate) fn findings(
    data: &mut Fields<'_>,
    subject: impl Fn(&mut Fields<'_>) -> String,
) -> Vec<NodeFinding> {
    let mut found = Vec::new();
    for value in data.list("findings", MOST_FINDINGS) {
        let mut fields = Fields::new(value, "findings");
        found.push(NodeFinding {
            code: fields.text("code", WORD),
            severity: fields.text("severity", WORD),
            subject: subject(&mut fields),
        });
        data.absorb(fields.wrong());
    }
    found
}

pub(crate) fn phases(data: &mut Fields<'_>, since: &str, took: &str) -> Vec<PhaseReport> {
    let mut found = Vec::new();
    for value in data.list("phases", MOST_PHASES) {
        let mut fields = Fields::new(value, "phases");
        let phase = PhaseReport {
            name: fields.text("name", WORD),
            since: fields.time(since),
            took: fields.count(took).map(|took| took.min(LONGEST_UPTIME)),
        };
        data.absorb(fields.wrong());
        if !phase.name.is_empty() && (phase.since.is_some() || phase.took.is_some()) {
            found.push(phase);
        }
    }
    found
}
