//! Usual times: the median of earlier boots of the same node, and their number.

use std::collections::BTreeMap;

use windrow_decide::{Phase, PhaseExpectation};
use windrow_plan::readiness::node::median;

use super::course::BootCourse;
use super::{MedianTime, PhaseStay};
use crate::boots::RecordedBoot;

/// Compares a boot with earlier boots of the same sort that ended. A boot in which RKE2 had to apply files takes longer
/// than one without.
pub(super) fn compare(
    boot: &BootCourse,
    phases: &mut [PhaseStay],
    earlier: &[RecordedBoot<'_>],
) -> Option<MedianTime> {
    let earlier: Vec<BootCourse> = earlier
        .iter()
        .filter_map(BootCourse::read)
        .filter(|other| other.arrived.is_some() && !other.is_cut)
        .filter(|other| other.had_files == boot.had_files)
        .collect();
    let spent: Vec<Vec<PhaseStay>> = earlier.iter().map(BootCourse::phases).collect();
    for phase in phases {
        let lasted = spent.iter().filter_map(|phases| {
            let same = phases.iter().filter(|other| other.name == phase.name);
            let lasted: Vec<f64> = same.map(|other| other.to - other.from).collect();
            (!lasted.is_empty()).then(|| lasted.iter().sum())
        });
        phase.usual = median_time(lasted.collect());
    }
    median_time(earlier.iter().map(BootCourse::last).collect())
}

/// With fewer boots than this in the flight, the node's own expectation is more reliable, if it is based on more boots.
const FEWEST_IN_FLIGHT: usize = 3;

/// If the flight has too few boots for a phase, compares it with the node's expectation at that time: from the boots
/// that it remembered, or from boots of similar nodes.
pub(super) fn add_expected(phases: &mut [PhaseStay], expected: &BTreeMap<Phase, PhaseExpectation>) {
    for phase in phases {
        let in_flight = phase.usual.map_or(0, |usual| usual.boots);
        let known = expected.get(&phase.name);
        let Some((from, usual)) = known.and_then(|known| Some((known.from, known.usual?))) else {
            continue;
        };
        if in_flight < FEWEST_IN_FLIGHT && usual.boots > in_flight {
            phase.usual = Some(MedianTime {
                boots: usual.boots,
                // Seconds of a boot: far below the numbers at which a float loses a unit.
                median_seconds: usual.median as f64,
                from: Some(from),
            });
        }
    }
}

fn median_time(seconds: Vec<f64>) -> Option<MedianTime> {
    Some(MedianTime {
        boots: seconds.len(),
        median_seconds: median(seconds)?,
        from: None,
    })
}
