//! Where the time of one rehearsed bootstrap went, as `windrow blame` would say it of the node.

use windrow_decide::flight::{BootTimeline, Flights, boots};

use crate::{Faults, Setup, recorded};

/// The last boot of the node that founds the cluster, with Windrow, by one seed. `packs` are its rules as texts. `None` where Windrow
/// decided nothing.
pub fn boot_timeline(setup: &Setup, packs: &[(String, String)], seed: u64) -> Option<BootTimeline> {
    let (_, lines) = recorded(setup, packs, &Faults::NONE, seed);
    let flights = Flights::from_lines(lines)?;
    let boots = boots(&flights);
    let (last, _) = boots.split_last()?;
    BootTimeline::from_boot(last, &[]).ok()
}
