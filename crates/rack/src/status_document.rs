//! Converts a status document (`docs/status.schema.json`) into a report. It is read field by field, because a newer node may send
//! more fields.

use jiff::Timestamp;
use serde_json::Value;
use windrow_plan::readiness::node::Readiness;

use crate::event::{findings, phases, reason};
use crate::fields::Fields;
use crate::identity::{NodeIdentity, host_of};
use crate::inventory::Inventory;
use crate::report::{BlockingFile, FileCounts, NodeReport, NodeState, ReportSource};
use crate::text::{MESSAGE, NAME, WORD, clean};

#[derive(Debug, Clone)]
pub struct ReadDocument {
    pub report: NodeReport,
    /// The node name in the document, if it differs from the name of the queried node.
    pub contradiction: Option<String>,
}

/// Reads a document that was received at this time. `sent` is the clock of the node, if the answer contains it. `asked` is the
/// queried node and its list. The certificate or the address identifies the node, and a name in the document cannot change that.
///
/// # Errors
///
/// All errors in the document, one per line.
pub fn read_document(
    document: &Value,
    received: Timestamp,
    sent: Option<Timestamp>,
    asked: Option<(&NodeIdentity, &Inventory)>,
) -> Result<ReadDocument, Vec<String>> {
    let mut fields = Fields::new(document, "");
    if fields.text("kind", WORD) != "Status" {
        fields.complain("kind", "this is not a status document");
        return Err(fields.wrong());
    }
    let host = NodeIdentity::new("", "", &fields.text("host", NAME)).host;
    let node_name = fields.text("nodeName", NAME);
    // A Node of Kubernetes may have a different name.
    let is_other = |name: &str, may_differ: bool| {
        let asked = asked.filter(|_| !name.is_empty());
        asked.is_some_and(|(node, list)| !may_be_called(node, list, name, may_differ))
    };
    let other_host = is_other(&host, false);
    let other_node = is_other(&node_name, true);
    let contradiction = match (other_host, other_node) {
        (true, _) => Some(host.clone()),
        (false, true) => Some(node_name.clone()),
        (false, false) => None,
    };
    let identity = match asked {
        Some((asked, _)) if !asked.host.is_empty() || other_host => asked.clone(),
        Some((asked, _)) => NodeIdentity {
            host,
            ..asked.clone()
        },
        None => NodeIdentity {
            host,
            ..NodeIdentity::default()
        },
    };
    let node_name = match other_node {
        true => String::new(),
        false => node_name,
    };
    if identity.is_empty() {
        fields.complain("host", "the document names no node");
    }
    let (reason, message) = reason(&mut fields);
    let state = NodeState {
        readiness: fields.word("readiness").unwrap_or(Readiness::Unknown),
        phase: fields.text("phase", WORD),
        pace: fields.word("pace"),
        since: fields.time("since"),
        phase_since: fields.time("phaseSince"),
        headline: fields.text("headline", WORD),
        reason,
        message,
        first_blocker: first_blocker(document),
        role: fields.text("role", WORD),
        node_name,
        addresses: Vec::new(),
        version: fields.text_in(&["versions", "windrow"]),
        rke2_version: fields.text_in(&["versions", "rke2"]),
        files: counts(document),
        findings: findings(&mut fields, subject),
        phases: phases(&mut fields, "began", "seconds"),
        server: None,
    };
    let report = NodeReport {
        received,
        source: ReportSource::Document,
        id: String::new(),
        identity,
        boot: fields.text_in(&["writer", "bootId"]),
        sequence: None,
        generation: fields.count("generation"),
        uptime: None,
        sent,
        state,
    };
    match fields.wrong() {
        wrong if wrong.is_empty() => Ok(ReadDocument {
            report,
            contradiction,
        }),
        wrong => Err(wrong),
    }
}

/// Whether the queried node may use this name. The list gives the same name, with or without the domain. If the list gives no
/// name, or the name may differ, it must not belong to another node.
fn may_be_called(asked: &NodeIdentity, list: &Inventory, name: &str, may_differ: bool) -> bool {
    fn short(name: &str) -> &str {
        name.split('.').next().unwrap_or_default()
    }
    let name = host_of(name);
    match asked.own_host() {
        Some(host) if !may_differ => {
            host == name || (short(host) == short(&name) && is_short(host, &name))
        }
        Some(_) | None => !list.nodes.iter().any(|node| {
            node.identity != *asked && [&node.identity.host, &host_of(&node.name)].contains(&&name)
        }),
    }
}

/// True if one of the two names has no domain.
fn is_short(one: &str, other: &str) -> bool {
    !one.contains('.') || !other.contains('.')
}

fn files<'v>(document: &'v Value, state: &str) -> &'v [Value] {
    let found = &document["staging"][state];
    found.as_array().map_or(&[], Vec::as_slice)
}

fn first_blocker(document: &Value) -> Option<BlockingFile> {
    let failed = files(document, "failed")
        .iter()
        .map(|file| (file, "message"));
    let held = files(document, "held").iter().map(|file| (file, "why"));
    let (file, why) = failed.chain(held).next()?;
    let text = |key: &str, longest| clean(file[key].as_str().unwrap_or_default(), longest);
    Some(BlockingFile {
        file: text("file", NAME),
        why: text(why, MESSAGE),
    })
}

fn counts(document: &Value) -> Option<FileCounts> {
    let count = |state| files(document, state).len() as u64;
    Some(FileCounts {
        total: document["staging"]["total"].as_u64()?,
        held: count("held"),
        applied: count("applied"),
        failed: count("failed"),
    })
}

/// The subject of a finding: the object of an incident, or else its first location.
fn subject(finding: &mut Fields<'_>) -> String {
    let subject = finding.text_in(&["incident", "subject"]);
    match subject.is_empty() {
        false => subject,
        true => {
            let places = finding.list("at", 1);
            let file = places.first().and_then(|place| place["file"].as_str());
            clean(file.unwrap_or_default(), NAME)
        }
    }
}
