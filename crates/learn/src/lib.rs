//! Learning from recorded boots: which provider creates which objects, how long things take, and which requests are
//! refused.
//!
//! ```text
//!   flights ──> rows, one a boot ──┐
//!                                  ├──> union by boot ──> summary ──> a knowledge file, its rows included
//!   knowledge files ──> their rows ┘
//! ```
//!
//! The summary is a pure function of the set of rows. So files can be merged in any order, in any grouping and any
//! number of times, with the same bytes as the result.
//!
//! A single boot never reverses knowledge: it counts for a thing, or against it. A thing that fewer than half of the
//! boots confirm gets no entry.
//!
//! May know: the crates `model`, `plan` and `decide`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails so"))]

pub mod bounds;
pub mod interval;

mod boot_set;
mod known;
mod observe;
mod row;
mod summary;
#[cfg(test)]
mod tests;
mod text;

pub use boot_set::{BootSet, KnowledgeFile, MOST_BOOTS};
pub use known::{
    EntryReport, KnowledgeReport, PhaseReport, RefusalReport, SeenReport, TimesReport,
};
pub use observe::{Observed, observe};
pub use row::{
    ObservedBoot, ObservedBringer, ObservedPhase, ObservedRefusal, ObservedThing, PhaseName,
    ROW_FORMAT, Who, thing_words,
};
pub use summary::{LearnedEntry, PhaseEntry, Provider, RefusalEntry, Summary, VersionSpan};
pub use windrow_model::duration_text;
