//! The host machine: its facts ([`HostFacts`]), its health ([`health`]), and the completeness of its hardware
//! ([`HardwareInventory`]).
//!
//! May know: the crate `harvester`. The crate `preflight` judges whether the machine can become a node; the
//! console and the probes need the facts without this verdict.
//!
//! Invariants: readings are the input, a document is the output. A fact that could not be read is unknown with its reason, and
//! Windrow concludes nothing from it.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what is shipped")
)]

mod class;
mod facts;
pub mod health;
mod inventory;
mod reading;
pub mod smbios;

pub use class::hardware_class;
pub use facts::{
    BlockDevice, ClockState, Cpus, DirectoryRole, DirectorySpace, DiskKind, Firmware, HostFacts,
    HostLink, LinkState, LoadAverage, MachineIdentity, Memory, MemoryModule, Temperature,
};
pub use inventory::{HardwareInventory, KnownDisk, KnownLink};
pub use reading::Reading;
