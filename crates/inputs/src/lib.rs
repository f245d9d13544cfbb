//! Reads the files that carry manifests and configuration to a node: a Harvester configuration, cloud-init user data, a yip file,
//! Ignition and Butane, a definition of Edge Image Builder.
//!
//! - [`user_data`]: opens a file as cloud-init does: packed, in parts, with templates.
//! - [`extract`](mod@extract): the manifests and configuration files inside.
//! - [`manifest_path`]: where a file is written on a node.
//! - [`registries()`]: RKE2's registries.yaml.
//!
//! May know: the crate `model`. The verbs use it, and the daemon does not depend on it.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what is shipped")
)]

mod data_url;
pub mod extract;
mod input_types;
pub mod manifest_path;
mod registries;
pub mod user_data;

pub use registries::registries;
