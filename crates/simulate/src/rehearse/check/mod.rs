//! Combines all checks of an image before its installation into one verdict: configuration, plan, feature gates and rehearsal.
//!
//! Pure: the findings of each part are the input, one report is the output. `verdict` evaluates findings, `acceptance` marks
//! accepted ones, `outcome` converts the end of the rehearsal into findings, and `report` combines everything.

pub mod acceptance;
mod counts;
mod finding;
pub mod input_schema;
mod outcome;
mod report;
#[cfg(test)]
mod tests;
mod verdict;

pub use self::counts::{CheckCounts, InputSize, InputSizes, keys_in};
pub use self::finding::{AcceptedBecause, CheckedFinding};
pub use self::outcome::CutShort;
pub use self::report::{CheckReport, CheckedNode, NodeVerdict, PartVerdict, StoppedBy};
pub use self::verdict::{CheckPart, CheckVerdict};
