//! Bytes become documents, documents become objects with file and line, as RKE2 reads them; and the words that all crates share.
//!
//! - [`manifest`]: manifests, and manifests inside other files (cloud-init, yip, Harvester's configuration, archives), with limits.
//! - [`reasons`]: the one table of reason codes with severity, text, advice and message id.
//! - [`container_image`]: names of container images.
//! - [`findings`]: what is wrong, with the line or the evidence that proves it.
//! - [`grammars`]: which names and labels Kubernetes takes.
//! - [`hidden`]: characters that control, reorder or hide.
//! - [`object`]: parts of Kubernetes objects that several crates read.
//! - [`quantity`]: amounts, as Kubernetes reads them.
//! - [`redact`]: takes secrets out of whatever leaves the node.
//! - [`suggest`]: "did you mean".
//! - [`text`]: texts of others, fit to be shown.
//!
//! May know: how RKE2, cloud-init, yip and Harvester's installer read files. Knows no rules, no plan, no cluster.
//!
//! Invariants: every object keeps the line it came from; nothing that was not understood is dropped in silence; what does not fit into
//! the limits is named; no input panics.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "a test takes its number of cases from the environment"
    )
)]

pub mod addresses;
pub mod container_image;
pub mod findings;
pub mod grammars;
pub mod hidden;
pub mod manifest;
pub mod object;
pub mod quantity;
pub mod reasons;
pub mod redact;
mod span;
pub mod suggest;
pub mod text;

pub use span::{duration_text, span};
