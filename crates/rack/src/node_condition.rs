//! Windrow's condition on a Node, as the daemon writes it and a rack reads it.
//!
//! ```text
//! status: "True"   message: "Ready, degraded: a disk is nearly full"
//!                            ╰── headline ─╯  ╰────── reason ─────╯
//! ```
//!
//! A condition has three states and a node has five: the headline's word tells those apart that share one.

use serde_json::Value;
use windrow_harvester::objects;
use windrow_plan::readiness::node::{Phase, Readiness};

/// The condition's type (`docs/outlets.md`).
pub const CONDITION: &str = "WindrowBootstrap";
/// The name of the annotation that says more. Not one of Kubernetes' own (`*.kubernetes.io`), which NodeRestriction keeps
/// for others.
pub const ANNOTATION: &str = "windrow.dev/bootstrap";

/// The condition on a Node.
pub fn own_condition(node: &Value) -> Option<&Value> {
    objects::condition(node, CONDITION)
}

/// The condition's status.
pub fn condition_status(readiness: Readiness) -> &'static str {
    match readiness {
        // It works; the reason names what else is wrong.
        Readiness::Ready | Readiness::Degraded => "True",
        Readiness::SettingUp | Readiness::Failed => "False",
        Readiness::Unknown => "Unknown",
    }
}

/// The condition's message.
pub fn condition_message(headline: &str, reason: &str) -> String {
    format!("{headline}: {reason}")
}

/// The headline and the reason of a message.
pub(crate) fn parts(message: &str) -> (&str, &str) {
    message.split_once(": ").unwrap_or((message, ""))
}

/// The readiness of a node whose condition has this status and this headline.
pub(crate) fn readiness(status: Option<&str>, headline: &str) -> Readiness {
    match status {
        Some("True") if headline.contains("degraded") => Readiness::Degraded,
        Some("True") => Readiness::Ready,
        Some("False") if headline.starts_with("Failed") || headline.starts_with("NotReady") => {
            Readiness::Failed
        }
        Some("False") => Readiness::SettingUp,
        _ => Readiness::Unknown,
    }
}

/// The phase that stands in a headline: `Setting up (api, 20+ min, stalled)`.
pub(crate) fn phase(headline: &str) -> &str {
    let inside = headline.split_once('(').map_or("", |(_, inside)| inside);
    let mut words = inside.trim_end_matches(')').split(", ");
    let known = |word: &&str| Phase::ALL.iter().any(|phase| phase.as_str() == *word);
    words.find(known).unwrap_or_default()
}
