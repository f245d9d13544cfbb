//! Checks before something begins: can this machine become the node of a configuration ([`preflight`])? Does the installer accept
//! its file ([`installer`])? Would an upgrade begin and end ([`upgrade_check`])? Is an address free ([`address_claims`], [`who_has`])?
//!
//! May know: the crates `model`, `plan`, `harvester` and `host`. The verbs use it, and the daemon does not depend on it.
//!
//! Invariants: readings and objects are the input, a document is the output. A fact that could not be read is unknown with its
//! reason, and Windrow concludes nothing from it.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what is shipped")
)]

pub mod address_claims;
mod checks;
pub mod console;
pub mod dns;
mod enabled_addons;
pub mod installer;
pub mod minimums;
pub mod ntp;
mod report;
pub mod sockets;
mod surroundings;
pub mod upgrade_check;
mod wanted;
pub mod who_has;

pub use checks::preflight;
pub use enabled_addons::named_by_installer;
pub use report::Preflight;
pub use surroundings::{
    DeviceReading, DnsReading, FsyncReading, JoinReading, NoAnswer, NtpReading, PortHolder,
    Surroundings, Unanswered, VipReading,
};
pub use wanted::{
    ConfiguredValue, DiskChoice, ManagementLinks, PlannedRole, WantedLink, WantedNode,
    cloud_init_node, harvester_node, host_of,
};
