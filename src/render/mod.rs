//! A plan for users and for programs: table, JSON, DOT, Mermaid, SVG.
//!
//! Pure: a [`Plan`](windrow_plan::Plan) comes in, text goes out. Nothing here decides anything.

mod check;
mod checks;
mod cluster;
mod diagnosis;
mod dot;
mod drain;
mod gates;
mod graph;
mod knowledge;
mod markup;
mod mermaid;
mod page;
mod preflight;
mod rack;
mod rehearsal;
mod report;
mod svg;
mod table;
mod text;
mod timeline;
mod timing;
mod upgrade_check;

pub use check::{check_details, check_github, check_junit, check_sarif, check_table};
pub use diagnosis::{cure_text, diagnosis_table, request_text};
pub use dot::dot;
pub use drain::{drain_list_table, drain_table};
pub use gates::{ComponentReport, GateReport, GatesReport, LeftOutReport};
pub use knowledge::knowledge_table;
pub use mermaid::mermaid;
pub use page::check_page;
pub use preflight::preflight_table;
pub use rack::{
    ChainFile, ChainLink, NodePage, RackSegment, node_page, policy, rack_lines, rack_page,
    rack_part, rack_table,
};
pub use rehearsal::rehearsal;
pub use report::{DocumentReport, FileReport, PlanReport, RequirementReport};
pub use svg::{boot_picture, svg};
pub use table::{Style, findings, table};
pub(crate) use text::point_in_time;
pub use text::wrap;
pub use timeline::{timeline_summary, timeline_table};
pub use upgrade_check::upgrade_table;
pub use windrow_model::text::fit;
pub(crate) use windrow_model::text::lasted;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
