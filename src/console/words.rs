//! The words of Harvester's own console, as far as they are true.

use ratatui::style::Color;
use windrow_decide::sentence::expected_time;
use windrow_decide::{Pace, Phase, Readiness, Status, Transition};
use windrow_plan::rules::Platform;

/// The word for a state, and its colour.
///
/// A failed node with the pace *stuck* provably cannot become ready; others may recover.
pub(super) fn word(status: &Status) -> (&'static str, Color) {
    match status.readiness {
        Readiness::Ready => ("Ready", Color::Green),
        // It works, and Harvester's console would call it Ready. The problems are listed below.
        Readiness::Degraded => ("Degraded", Color::Yellow),
        Readiness::SettingUp if sets_up_harvester(status) => ("Setting up Harvester", Color::Cyan),
        Readiness::SettingUp => ("Setting up node", Color::Cyan),
        Readiness::Failed => ("Failed", Color::Red),
        Readiness::Unknown => ("Unknown", Color::Yellow),
    }
}

/// Whether the node itself is ready, and Harvester is being set up.
fn sets_up_harvester(status: &Status) -> bool {
    status.platform == Some(Platform::Harvester)
        && match status.phase {
            Phase::WaitingForApi
            | Phase::Network
            | Phase::Rke2Installed
            | Phase::Api
            | Phase::Node => false,
            Phase::Staging
            | Phase::Staged
            | Phase::Rancher
            | Phase::HarvesterChart
            | Phase::Settings
            | Phase::StorageNetwork
            | Phase::Manifests
            | Phase::Ready => true,
        }
}

/// Its step and its progress in parentheses, as in one line; empty if the word is enough.
pub(super) fn whereabouts(status: &Status) -> String {
    let pace = match status.pace {
        None | Some(Pace::Moving) => "",
        Some(Pace::Slow) => "slow",
        Some(Pace::Stalled) => "stalled",
        Some(Pace::Stuck) => "stuck: this will not recover without help",
    };
    let is_late = matches!(status.pace, Some(Pace::Slow | Pace::Stalled));
    let expected = expected_time(status).filter(|_| is_late);
    let phase = match status.readiness {
        Readiness::SettingUp | Readiness::Failed | Readiness::Unknown
            if !status.phases.is_empty() =>
        {
            status.phase.title()
        }
        _ => "",
    };
    let parts: Vec<&str> = [phase, pace, expected.as_deref().unwrap_or_default()]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("({})", parts.join(", ")),
    }
}

/// Maintenance that is done to the node on purpose.
pub(super) fn transition(kind: Transition) -> &'static str {
    match kind {
        Transition::Shutdown => "Shutting down",
        Transition::Upgrade => "Being upgraded",
        Transition::Drain => "Being drained",
        Transition::Promotion => "Being promoted",
        Transition::Restart => "Being restarted",
    }
}
