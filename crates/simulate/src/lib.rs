//! A simulated node and its clock: RKE2's deploy controller, a small API server, Harvester's controllers, and Windrow's own core
//! driven against them. [`rehearse`] summarizes many simulated bootstraps.
//!
//! May know: the crates `model`, `plan`, `gates`, `harvester` and `decide`. The simulation follows the real controllers, not
//! Windrow: nothing on the simulated node knows of plans or rules.
//!
//! Invariants: the same scenario, files and seed give the same run, event for event. Used by `windrow check`,
//! `windrow sandbox` and the simulation tests.
#![forbid(unsafe_code)]

pub mod rehearse;

pub(crate) mod addresses;
mod agenda;
mod chance;
mod charts;
mod claims;
mod cluster;
mod controllers;
mod declared;
mod deploy;
mod drive;
mod example;
mod faults;
mod files;
mod harvester;
mod lacking;
mod literals;
mod log;
mod longhorn;
mod machines;
mod makers;
mod node;
mod operators;
mod platform_steps;
mod pods;
mod prepared;
mod probes;
mod rancherd;
mod reading;
mod run;
mod scenario;
mod storage_network;
mod tape;
mod timer;
mod times;
mod watch;

pub use chance::Chance;
pub use cluster::SimulatedCluster;
pub use deploy::DeployController;
pub use drive::{recorded, with_windrow, without_windrow, without_windrow_but_faults};
pub use example::FIRST_VM;
pub use faults::Faults;
pub use files::{DirectoryEntry, SimulatedDirectory};
pub use log::{DeployCounts, Happening, HappeningKind};
pub use node::{BootstrapOutcome, BootstrapVerdict, Disks, SimulatedNode};
pub use prepared::PreparedSetup;
pub use probes::simulated_probes;
pub use run::{DirectoryChange, FileRelease, JoinedNode, JoiningNode, Run, Setup};
pub use scenario::{
    Arrival, JoinRole, MadeElsewhere, MayBring, Scenario, SlowDefinitions, Supply, WebhookGate,
};
pub use watch::Watch;

#[cfg(test)]
mod tests;
