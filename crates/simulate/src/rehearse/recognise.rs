//! Known incidents, recognised in what a simulated bootstrap left: by the detectors of `windrow
//! diagnose`, which know nothing of the simulation.

use std::time::Duration;

use windrow_harvester::incidents::{IncidentFinding, look, summed_up, wanted};
use windrow_harvester::objects::{KindListing, Objects};

use crate::Run;

/// Nothing changes any more, and what is only slow is no incident: it is looked at so much later.
const LATER: Duration = Duration::from_secs(3600);

/// What they recognise. They are given only the kinds that they ask for: of a healthy cluster that is
/// little, and it is done for every seed.
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
            // No Helm and no Rancher is played that would keep its own Secrets.
            let all = all.filter(|_| kind.kept_metadata().is_none());
            let all = all.map(|(_, object)| object).collect();
            objects.insert(kind.group_kind(), KindListing::Objects(all));
        }
    }
}
