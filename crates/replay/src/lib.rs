//! Reads a boot log: repeats its decisions ([`Replay`]), finds its boots ([`boots`](fn@boots)), and makes the timeline of a boot
//! ([`BootTimeline`]).
//!
//! May know: the crates `model`, `plan` and `decide`. The daemon writes boot logs and does not depend on this crate.
//!
//! Invariants: the same lines give the same decisions as on the node; a damaged line is reported with its place.
#![forbid(unsafe_code)]

mod boots;
mod read;
mod replay;
mod timeline;

pub use boots::{RecordedBoot, boots};
pub use read::{Flights, Segment};
pub use replay::{
    ChangedTimes, Difference, FileTimes, Replay, ReplayedDecision, changes, recorded_times, restore,
};
pub use timeline::{
    BootEnd, BootState, BootTimeline, ChainStep, FileTime, FileWait, MedianTime, PhaseStay,
    WaitedOn, clock,
};
