//! Certificates of a node that end soon. RKE2 compares them every half hour, and tells it in an Event of the node (k3s 037a0b6a
//! `pkg/certmonitor/certmonitor.go`): from 120 days before their end, in one message for all of them. It renews them at its next start.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};

use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::quoted;
use crate::objects::{Objects, Unlisted, text};

const REASON: &str = "CertificateExpirationWarning";
/// A month of maintenance windows.
const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);
const VERY_SOON: SignedDuration = SignedDuration::from_hours(7 * 24);
const ADVICE: &str = "Restart rke2-server or rke2-agent on this node: RKE2 renews its certificates when it starts. On a server, restart one \
    node after the other.";

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let warnings = objects.node_warnings()?.into_iter();
    let told = warnings.filter(|event| text(event, "/reason") == REASON);
    let mut newest: Vec<(&str, Timestamp, &Value)> = Vec::new();
    for event in told {
        let node = text(event, "/involvedObject/name");
        let Some(end) = ends(text(event, "/message")).min() else {
            continue;
        };
        match newest.iter_mut().find(|(other, ..)| *other == node) {
            Some(known) if last(event) >= last(known.2) => *known = (node, end, event),
            Some(_) => {}
            None => newest.push((node, end, event)),
        }
    }
    newest.sort_by_key(|(node, ..)| *node);
    let soon = newest
        .into_iter()
        .filter(|(_, end, _)| end.duration_since(now) < SOON);
    Ok(soon
        .map(|(node, end, event)| {
            let why = format!("its first certificate ends at {end}");
            let seen = Evidence::new(
                format!("Event {}", crate::objects::named(event)),
                "message",
                quoted(text(event, "/message")),
            );
            let mut finding =
                IncidentFinding::new(Code::ProblemStays, format!("RKE2 of {node}"), &why)
                    .seen([seen]);
            if end.duration_since(now) < VERY_SOON {
                finding.severity = Severity::Error;
            }
            ADVICE.clone_into(&mut finding.advice);
            finding
        })
        .collect())
}

fn last(event: &Value) -> Option<Timestamp> {
    text(event, "/lastTimestamp").parse().ok()
}

/// The ends in a message, of the form `… will expire within 120 days at END` or `… expired at END`. A message that was cut off may have
/// a part of a time at its end.
fn ends(message: &str) -> impl Iterator<Item = Timestamp> + '_ {
    let parts = message.split(" at ").skip(1);
    parts.filter_map(|part| {
        let time = part.split([',', ' ', '\n']).next()?;
        time.parse().ok()
    })
}
