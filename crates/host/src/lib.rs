//! The host machine: its facts ([`HostFacts`]), whether it can become the node of a configuration ([`preflight`]), its health
//! ([`health`]), and the completeness of its hardware ([`HardwareInventory`]).
//!
//! May know: the crates `model`, `plan` and `harvester`. It is a separate crate because machines for plain RKE2 need the same
//! checks, and because the console and the probes need the facts without the verdict.
//!
//! Invariants: readings are the input, a document is the output. A fact that could not be read is unknown with its reason, and
//! Windrow concludes nothing from it.
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
pub use report::Preflight;
pub use surroundings::{
    DeviceReading, DnsReading, FsyncReading, JoinReading, NoAnswer, NtpReading, PortHolder,
    Surroundings, Unanswered, VipReading,
};
pub use wanted::{
    ConfiguredValue, DiskChoice, ManagementLinks, PlannedRole, WantedLink, WantedNode,
    cloud_init_node, harvester_node, host_of,
};
