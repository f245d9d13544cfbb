//! One verdict over everything that can be known before an image is burned: configuration, plan, feature gates, rehearsal.
//!
//! Pure: what each part found comes in, one report goes out. `verdict` says what a finding comes to, `acceptance` which findings
//! a person has accepted, `outcome` makes findings of how the rehearsal ended, `report` puts them together.

pub mod acceptance;
mod finding;
pub mod input_schema;
mod outcome;
mod report;
#[cfg(test)]
mod tests;
mod verdict;

pub use self::finding::{AcceptedBecause, CheckedFinding};
pub use self::outcome::CutShort;
pub use self::report::{CheckReport, CheckedNode, NodeVerdict, PartVerdict};
pub use self::verdict::{CheckPart, CheckVerdict};
