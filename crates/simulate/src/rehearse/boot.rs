//! The time breakdown of one simulated bootstrap, as `windrow timeline` would show it for the node.

use windrow_replay::{BootTimeline, Flights, boots};

use crate::{Faults, Setup, recorded};

/// The last boot of the node that creates the cluster, with Windrow, for one seed. `packs` contains its rules as texts. `None` if
/// Windrow made no decision.
pub fn boot_timeline(setup: &Setup, packs: &[(String, String)], seed: u64) -> Option<BootTimeline> {
    let (_, lines) = recorded(setup, packs, &Faults::NONE, seed);
    let flights = Flights::from_lines(lines)?;
    let boots = boots(&flights);
    let (last, _) = boots.split_last()?;
    BootTimeline::from_boot(last, &[]).ok()
}
