//! The machine itself: what it is ([`HostFacts`]), whether it can become the node that a configuration asks for ([`preflight`]), and
//! whether it is well ([`health`]) and all of it still there ([`HardwareInventory`]).
//!
//! May know: the crates `model`, `plan` and `harvester`. A crate of its own, because what is asked here is asked of machines
//! for plain RKE2 as well, and because the console and the probes need the facts without the verdict.
//!
//! Invariants: readings come in, a document goes out; a fact that could not be read is unknown with its reason, and nothing is
//! concluded from it.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what is shipped")
)]

mod checks;
mod class;
pub mod dns;
mod facts;
pub mod health;
mod inventory;
pub mod minimums;
pub mod ntp;
mod reading;
mod report;
pub mod smbios;
pub mod sockets;
mod surroundings;
mod wanted;

pub use checks::preflight;
pub use class::hardware_class;
pub use facts::{
    BlockDevice, ClockState, Cpus, DirectoryRole, DirectorySpace, DiskKind, Firmware, HostFacts,
    HostLink, LinkState, LoadAverage, MachineIdentity, Memory, MemoryModule, Temperature,
};
pub use inventory::{HardwareInventory, KnownDisk, KnownLink};
pub use reading::Reading;
pub use report::{Preflight, PreflightOutcome, PreflightRow, PreflightVerdict, RowWeight};
pub use surroundings::{
    DeviceReading, DnsReading, FsyncReading, JoinReading, NoAnswer, NtpReading, PortHolder,
    Surroundings, Unanswered, VipReading,
};
pub use wanted::{
    ConfiguredValue, DiskChoice, ManagementLinks, PlannedRole, WantedLink, WantedNode,
    cloud_init_node, harvester_node, host_of,
};
