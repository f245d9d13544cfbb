//! Looks at a node, its cluster and its surroundings for a verb, and never for the daemon: the files of `windrow report`, saved lists of
//! objects, the answers of servers and neighbours.
//!
//! May know: the crate `daemon`, and `archive`. Nothing here decides or prints.

pub(crate) mod collect;
pub(crate) mod disk_timing;
pub(crate) mod harvester_console;
mod json_stream;
mod link_masters;
pub(crate) mod saved;
pub(crate) mod servers;
pub(crate) mod sockets;
mod support_bundle;
#[cfg(test)]
mod testing;
pub(crate) mod upgrade_check;
pub(crate) mod who_has;
mod zip;
