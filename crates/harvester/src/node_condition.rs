//! Windrow's condition on a Node: its names and words.
//!
//! ```text
//! status: "False"   message: "Ready, degraded: a disk is nearly full"
//!                             ╰── headline ─╯  ╰────── reason ─────╯
//! ```
//!
//! As with the kubelet's and node-problem-detector's conditions, `True` is bad. A condition has three statuses and a node has
//! five states: the headline tells those apart that share one.

use serde_json::Value;
use windrow_plan::readiness::node::{NodeRole, Phase, Readiness};
use windrow_plan::rules::Platform;

use crate::objects;

/// The condition's type (`docs/outlets.md`).
pub const CONDITION: &str = "windrow.dev/BootstrapIncomplete";
/// The type of earlier versions. Its `True` was good, and kept Harvester from promoting nodes. A daemon removes it from its Node.
pub const FORMER_CONDITION: &str = "WindrowBootstrap";
/// The name of the annotation with details. Not one of Kubernetes' own (`*.kubernetes.io`), which NodeRestriction keeps
/// for others.
pub const ANNOTATION: &str = "windrow.dev/bootstrap";

/// The condition on a Node.
pub fn own_condition(node: &Value) -> Option<&Value> {
    objects::condition(node, CONDITION)
}

/// Whether a Node has anything that Windrow writes or wrote: the condition, its former type, or the annotation.
pub fn has_own_entries(node: &Value) -> bool {
    let annotations = &node["metadata"]["annotations"];
    own_condition(node).is_some()
        || objects::condition(node, FORMER_CONDITION).is_some()
        || annotations.get(ANNOTATION).is_some()
}

/// The condition's status. Harvester promotes an agent only if none of its conditions but `Ready` is `True`, and a promotion must
/// not depend on Windrow's probes or on a daemon that may have ended: on an agent of Harvester it is never `True`.
pub fn condition_status(
    readiness: Readiness,
    platform: Option<Platform>,
    role: NodeRole,
) -> &'static str {
    let may_be_promoted = platform != Some(Platform::Rke2) && !role.is_server();
    match readiness {
        Readiness::Ready | Readiness::Degraded => "False",
        Readiness::SettingUp | Readiness::Failed if !may_be_promoted => "True",
        Readiness::SettingUp | Readiness::Failed | Readiness::Unknown => "Unknown",
    }
}

/// The condition's message.
pub fn condition_message(headline: &str, reason: &str) -> String {
    format!("{headline}: {reason}")
}

/// The headline and the reason of a message.
pub fn parts(message: &str) -> (&str, &str) {
    message.split_once(": ").unwrap_or((message, ""))
}

/// The readiness of a node whose condition has this status and this headline.
pub fn readiness(status: Option<&str>, headline: &str) -> Readiness {
    let is_failed = headline.starts_with("Failed") || headline.starts_with("NotReady");
    match status {
        Some("False") if headline.contains("degraded") => Readiness::Degraded,
        Some("False") => Readiness::Ready,
        Some("True" | "Unknown") if is_failed => Readiness::Failed,
        Some("Unknown") if !headline.starts_with("Setting up") => Readiness::Unknown,
        Some("True" | "Unknown") => Readiness::SettingUp,
        _ => Readiness::Unknown,
    }
}

/// The phase in a headline: `Setting up (api, 20+ min, stalled)`.
pub fn phase(headline: &str) -> &str {
    let inside = headline.split_once('(').map_or("", |(_, inside)| inside);
    let mut words = inside.trim_end_matches(')').split(", ");
    let known = |word: &&str| Phase::ALL.iter().any(|phase| phase.as_str() == *word);
    words.find(known).unwrap_or_default()
}
