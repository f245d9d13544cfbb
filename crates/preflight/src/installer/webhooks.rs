//! The installer's webhooks. One that it cannot use makes it do without all of them (harvester-installer
//! `pkg/console/webhooks.go`, PrepareWebhooks, and `install_panels.go`; alike in v1.4.0 to v1.8.1).

use windrow_model::suggest::nearest;

use super::remark::{Remark, RemarkKind, Remarks};
use super::rules::{entry, text};
use windrow_model::manifest::Node;

const EVENTS: [&str; 3] = ["STARTED", "SUCCEEDED", "FAILED"];
/// Accepted in any case.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE",
];

pub(super) fn check(install: Option<&Node>, remarks: &mut Remarks) {
    let list = install.and_then(|install| entry(install, "webhooks"));
    for (number, hook) in list
        .map_or(&[][..], |list| list.value.items())
        .iter()
        .enumerate()
    {
        let (event, event_line) = text(Some(hook), "event").unwrap_or(("", hook.line));
        if !EVENTS.contains(&event) {
            remarks.push(fault(number, "event", event, &EVENTS, event_line));
        }
        let (method, method_line) = text(Some(hook), "method").unwrap_or(("", hook.line));
        if !METHODS.contains(&method.to_uppercase().as_str()) {
            remarks.push(fault(number, "method", method, &METHODS, method_line));
        }
    }
}

fn fault(number: usize, key: &str, written: &str, known: &[&str], line: u32) -> Remark {
    let hint = match nearest(written, known.iter().copied()) {
        Some(meant) if !written.is_empty() => format!("did you mean {meant}?"),
        _ => format!("write one of {}", known.join(", ")),
    };
    Remark {
        line,
        kind: RemarkKind::Unintended,
        why: format!(
            "it sends none of its webhooks, because it has no {key} `{written}` (`install.webhooks[{number}].{key}`); {hint}"
        ),
    }
}
