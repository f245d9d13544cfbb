//! The names and texts of Windrow's condition on a Node.
//!
//! ```text
//! status: "False"   message: "Degraded: a disk is nearly full"
//!                             ╰── headline ─╯  ╰────── reason ─────╯
//! ```
//!
//! As in the conditions of the kubelet and node-problem-detector, `True` is bad. A condition has three statuses and a node has
//! five states, so the headline distinguishes states with the same status.

use serde_json::Value;
use windrow_model::object::Condition;
use windrow_plan::readiness::node::{NodeRole, Phase, Readiness};
use windrow_plan::rules::Platform;

/// Type of the condition (`docs/outlets.md`).
pub const CONDITION: &str = "windrow.dev/BootstrapIncomplete";
/// Type in earlier versions, whose `True` was good and kept Harvester from promoting nodes. The daemon removes it from its Node.
pub const FORMER_CONDITION: &str = "WindrowBootstrap";
/// Name of the annotation with details. It is not in `*.kubernetes.io`, because NodeRestriction reserves that domain.
pub const ANNOTATION: &str = "windrow.dev/bootstrap";

pub fn own_condition(node: &Value) -> Option<Condition<'_>> {
    Condition::of(node, CONDITION)
}

/// True if a Node has anything that Windrow writes or wrote: the condition, its former type, or the annotation.
pub fn has_own_entries(node: &Value) -> bool {
    let annotations = &node["metadata"]["annotations"];
    own_condition(node).is_some()
        || Condition::of(node, FORMER_CONDITION).is_some()
        || annotations.get(ANNOTATION).is_some()
}

/// The status of the condition. Harvester promotes an agent only if no condition except `Ready` is `True`. The promotion must not
/// depend on Windrow's probes or on a daemon that may have ended, so on an agent of Harvester the status is never `True`.
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

pub fn condition_message(headline: &str, reason: &str) -> String {
    format!("{headline}: {reason}")
}

pub fn parts(message: &str) -> (&str, &str) {
    message.split_once(": ").unwrap_or((message, ""))
}

pub fn readiness(status: &str, headline: &str) -> Readiness {
    let is_failed = headline.starts_with("Failed");
    match status {
        "False" if headline.starts_with("Degraded") => Readiness::Degraded,
        "False" => Readiness::Ready,
        "True" | "Unknown" if is_failed => Readiness::Failed,
        "Unknown" if !headline.starts_with("Setting up") => Readiness::Unknown,
        "True" | "Unknown" => Readiness::SettingUp,
        _ => Readiness::Unknown,
    }
}

/// The key of the phase in a headline such as `Setting up (kube-apiserver, 20+ min, stalled)`.
pub fn phase(headline: &str) -> &str {
    let inside = headline.split_once('(').map_or("", |(_, inside)| inside);
    let mut words = inside.trim_end_matches(')').split(", ");
    let titled = |word: &str| Phase::ALL.iter().find(|phase| phase.title() == word);
    let found = words.find_map(titled);
    found.map_or("", |phase| phase.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_of_a_headline_is_found_by_its_label() {
        for step in Phase::ALL {
            let headline = format!("Setting up ({}, 20+ min, stalled)", step.title());
            assert_eq!(phase(&headline), step.as_str());
        }
        assert_eq!(phase("Ready"), "");
    }

    #[test]
    fn the_word_of_a_headline_tells_the_readiness() {
        for (status, headline, expected) in [
            ("False", "Ready", Readiness::Ready),
            ("False", "Degraded", Readiness::Degraded),
            ("True", "Failed (kube-apiserver)", Readiness::Failed),
            ("True", "Setting up (network)", Readiness::SettingUp),
            ("Unknown", "Unknown (refused, network)", Readiness::Unknown),
        ] {
            assert_eq!(readiness(status, headline), expected, "{headline}");
        }
    }
}
