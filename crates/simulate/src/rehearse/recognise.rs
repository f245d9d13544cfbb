//! Detects known incidents in the final state of a simulated bootstrap, with the detectors of `windrow diagnose`, which know
//! nothing about the simulation.

use std::time::Duration;

use windrow_harvester::incidents::{IncidentFinding, look, summed_up, wanted};
use windrow_harvester::objects::{KindListing, Objects};

use crate::Run;

/// The final state is read this much later, because nothing changes any more, and a slow operation is not an incident.
const LATER: Duration = Duration::from_secs(3600);

/// The findings of the detectors. They get only the requested kinds, which are few for a healthy cluster, because this runs for
/// every seed.
pub(super) fn recognised(run: &Run) -> Vec<IncidentFinding> {
    let now = run.ended + LATER;
    let mut objects = Objects::to_be_asked();
    loop {
        let looked = look(&objects, now);
        let kinds = wanted(&looked);
        if kinds.is_empty() {
            return summed_up(looked, now).findings;
        }
        for kind in kinds {
            let all = run.cluster.list(kind.group, kind.kind);
            // The simulation has neither Helm nor Rancher, which would store their own Secrets.
            let all = all.filter(|_| kind.kept_metadata().is_none());
            let all = all.map(|(_, object)| object).collect();
            objects.insert(kind.group_kind(), KindListing::Objects(all));
        }
    }
}
