//! Windrow: the bootstrap agent for bare-metal RKE2 and Harvester nodes. This is the program; its decisions are in `crates/`.
//!
//! Data flows one way: `observe` fills a [`windrow_decide::Observation`], [`windrow_decide::decide`] turns it into
//! actions and a status, `act` carries the actions out and `report` publishes. `observe`, `act` and `report` never use
//! each other; `daemon` joins them; `cli` has a file per verb; `console` is a client of the status document.
#![forbid(unsafe_code)]

pub mod act;
mod addresses;
pub mod apiserver;
pub mod archive;
pub mod background;
mod backoff;
mod causes;
pub mod cli;
pub mod configuration;
mod console;
pub mod daemon;
pub mod files;
mod fs;
#[doc(hidden)]
pub mod hostile;
pub mod https;
pub mod kubeconfig;
pub mod layout;
mod lock;
mod locked;
pub mod observe;
pub mod orders;
mod panics;
mod pinned;
mod printable;
mod rack;
pub mod render;
pub mod report;
#[cfg(test)]
mod testing;
mod token_bucket;
