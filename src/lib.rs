//! Windrow: the bootstrap agent of a bare-metal RKE2 / Harvester node.
//!
//! Data flows one way round: `observe` fills an [`decide::Observation`], [`decide::decide`] turns
//! it into actions and a status, `act` carries the actions out and `report` tells. Everything
//! between observing and acting is pure: no I/O, no clock, no randomness. `tests/purity.rs` holds
//! that line.
#![forbid(unsafe_code)]

pub mod act;
pub mod archive;
mod backoff;
pub mod cli;
mod console;
pub mod daemon;
pub mod decide;
pub mod files;
pub mod flight;
pub mod gates;
pub mod harvester;
pub mod kubeconfig;
pub mod layout;
pub mod manifest;
mod memo;
pub mod observe;
pub mod plan;
mod printable;
pub mod readiness;
pub mod reasons;
pub mod redact;
pub mod rehearse;
pub mod render;
pub mod report;
pub mod rke2;
pub mod rules;
pub mod settings;
pub mod simulate;
mod suggest;
#[cfg(test)]
mod testing;

/// The allocator of the static program's libc is slow, and slower where threads share it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
