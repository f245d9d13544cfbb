//! The simulation of a boot, for `windrow check`: reads the files of each node, searches them for proofs, and simulates the
//! boots.

mod args;
mod findings;
mod fix;
mod fleet;
mod layout;
mod play;
mod read_node;
mod rehearsed;
mod unjudged;

pub(super) use self::args::SetupArgs;
pub(super) use self::findings::FoundOnNode;
pub(super) use self::rehearsed::{Rehearsed, SimulatedBoots, rehearse};
