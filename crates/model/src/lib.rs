//! Reads bytes into documents, and documents into objects with file and line, as RKE2 does. Also has the terms that all
//! crates share.
//!
//! - [`manifest`]: manifests, and manifests inside other files (cloud-init, yip, Harvester's configuration, archives),
//!   with limits.
//! - [`reasons`]: the one table of reason codes with severity, text, advice and message id.
//! - [`checks`]: lists of checks, with rows, outcomes and verdict.
//! - [`container_image`]: names of container images.
//! - [`findings`]: problems, with the line or the evidence for them.
//! - [`grammars`]: the names and labels that Kubernetes accepts.
//! - [`hidden`]: characters that control, reorder or hide.
//! - [`object`]: parts of Kubernetes objects that several crates read.
//! - [`quantity`]: amounts, as Kubernetes reads them.
//! - [`redact`]: removes secrets from everything that leaves the node.
//! - [`suggest`]: "did you mean".
//! - [`text`]: shortens and formats text of other programs for display.
//!
//! May know: how RKE2, cloud-init, yip and Harvester's installer read files. Knows no rules, no plan, no cluster.
//!
//! Invariants: every object keeps its line in the file. Everything that Windrow does not understand is reported, and so
//! is everything that exceeds the limits. No input panics.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "a test takes its number of cases from the environment"
    )
)]

pub mod addresses;
pub mod checks;
pub mod container_image;
pub mod findings;
pub mod grammars;
pub mod hidden;
pub mod manifest;
pub mod object;
pub mod quantity;
pub mod reasons;
pub mod redact;
pub mod schedule;
mod span;
pub mod suggest;
pub mod text;
pub mod unchecked;

pub use span::{duration_text, span};
