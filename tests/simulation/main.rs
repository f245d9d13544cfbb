//! Level 2, simulation: Windrow's core against a simulated node, by seed, with faults.

#[path = "../support/mod.rs"]
mod support;

mod bootstraps;
mod same_pass;
