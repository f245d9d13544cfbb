//! Known incidents, recognised in what a simulated bootstrap left: by the detectors of `windrow
//! diagnose`, which know nothing of the simulation.

use std::time::Duration;

use super::Recognised;
use crate::harvester::incidents::diagnose;
use crate::harvester::objects::{Kind, Listed, Objects};
use crate::simulate::Run;

/// Nothing changes any more, and what is only slow is no incident: it is looked at so much later.
const LATER: Duration = Duration::from_secs(3600);

pub(super) fn recognised(run: &Run) -> Vec<Recognised> {
    let mut objects = Objects::default();
    for kind in Kind::ALL {
        objects.insert(kind.group_kind(), Listed::Objects(Vec::new()));
    }
    for (_, object) in run.cluster.objects() {
        objects.add((**object).clone());
    }
    diagnose(&objects, run.ended + LATER)
        .findings
        .into_iter()
        .map(|finding| Recognised {
            code: finding.code,
            message: finding.message,
        })
        .collect()
}
