//! The daemon: it stages the manifests of a node, writes feature gates and reports whether the node is ready.
//!
//! Data flows one way: `observe` fills a [`windrow_decide::Observation`], [`windrow_decide::decide`] turns it into
//! actions and a status, `act` carries the actions out and `report` publishes. `observe`, `act` and `report` never use
//! each other; `daemon` joins them.
#![forbid(unsafe_code)]

pub mod act;
pub mod addresses;
pub mod apiserver;
pub mod background;
pub mod backoff;
pub mod causes;
pub mod configuration;
pub mod daemon;
pub mod exit;
pub mod files;
pub mod fs;
pub mod https;
pub mod json_values;
pub mod kubeconfig;
pub mod layout;
pub mod lock;
pub mod locked;
pub mod observe;
pub mod orders;
pub mod panics;
pub mod pinned;
pub mod printable;
pub mod report;
mod run;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "a test ends where it panics")]
pub mod testing;
pub mod token_bucket;

pub use run::{VERSION, main};
