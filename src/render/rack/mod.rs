//! Many nodes: a table for terminals, pages for browsers. Pure.

mod page;
mod table;
mod timeline;
mod words;

#[cfg(test)]
mod tests;

pub use page::{ChainFile, ChainLink, NodePage, node_page, policy, rack_page, rack_part};
pub use table::{RackSegment, rack_lines, rack_table};
