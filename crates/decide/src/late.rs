//! Released files that RKE2 should have applied by now, without a sign that it has.
//!
//! RKE2 reports a failure as an event, and client-go drops events that repeat (25 of one object, then one in 300 s:
//! client-go, `tools/record/events_cache.go`). An Addon's checksum belongs to the content that any server applied last.
//! So a file without a report is not necessarily about to be applied.

use std::time::Duration;

use jiff::Timestamp;
use windrow_plan::PlanFile;

use super::observation::Addon;
use super::outcome::DecisionContext;

/// Twenty passes of RKE2, which run every 15 s (k3s, `pkg/deploy/controller.go`).
const LATE: Duration = Duration::from_secs(5 * 60);

impl DecisionContext<'_> {
    /// When RKE2 should have applied a file released at this time; `None` while Windrow cannot see what RKE2 applies.
    pub(super) fn late_from(&self, released: Timestamp) -> Option<Timestamp> {
        let observation = self.observation;
        let api = &observation.api;
        if api.unreachable.is_some() || observation.addons.is_none() {
            return None;
        }
        let from = released.max(observation.started).max(api.first_reachable?);
        from.checked_add(LATE).ok()
    }

    /// Why RKE2 has not applied a late file, as far as Windrow knows.
    pub(super) fn why_late(&self, file: &PlanFile, released: Timestamp) -> Option<String> {
        let is_late = self.late_from(released)? <= self.now && !self.is_overtaken(&file.path);
        is_late.then(|| {
            let (observation, addon) = (self.observation, &file.addon);
            if let Some(failure) = self.failure_of(file) {
                let why = failure.in_words();
                return format!("before its release RKE2 failed with it: {why}");
            }
            let mut addons = observation.addons.iter();
            match addons.find_map(|addons| addons.get(addon)) {
                Some(Addon { source, .. }) => {
                    format!("Addon {addon} is of another content, from {source}")
                }
                None => format!("there is neither an Addon {addon} nor a failure of it"),
            }
        })
    }
}
