//! Windrow: the bootstrap agent for bare-metal RKE2 and Harvester nodes. This is the command line; the daemon is `crates/daemon`, and what
//! both decide is in the other crates.
//!
//! `cli` has a file per verb; `console` is a client of the status document; `sandbox` runs the daemon on a simulated node.
#![forbid(unsafe_code)]

pub mod archive;
pub mod cli;
mod console;
#[doc(hidden)]
pub mod hostile;
mod inspect;
mod rack;
pub mod render;
pub mod sandbox;

#[cfg(test)]
pub(crate) use windrow_daemon::testing;
pub use windrow_daemon::{
    act, apiserver, background, configuration, daemon, files, https, kubeconfig, layout, observe,
    orders, report,
};
pub(crate) use windrow_daemon::{
    addresses, backoff, causes, exit, fs, json_values, lock, locked, panics, pinned, printable,
    token_bucket,
};
