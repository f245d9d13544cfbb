//! Level 2, simulation: Windrow's core against a simulated node, by seed, with faults.

mod bootstraps;
mod four_days;
mod oddities;
mod rules;
mod same_pass;
mod scenarios;
mod seeds;
