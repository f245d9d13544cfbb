//! A check for people and for what reads it in a pipeline.

mod github;
mod junit;
mod place;
mod sarif;
mod table;
mod words;

pub use github::check_github;
pub use junit::check_junit;
pub use sarif::check_sarif;
pub use table::check_table;
