//! The shared parts of tests against real systems: a daemon on a directory, a bus, a Kubernetes on loopback, a machine
//! with systemd as PID 1.

// Each level uses a part of it.
#![allow(dead_code, unused_imports)]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

pub(crate) mod apiserver;
pub(crate) mod as_node;
pub(crate) mod bus;
pub(crate) mod cluster;
pub(crate) mod console;
pub(crate) mod daemon;
pub(crate) mod faults;
pub(crate) mod first_boot;
// The boots that the crate's own tests learn from.
#[path = "../../crates/learn/src/tests/flight_lines.rs"]
pub(crate) mod flight_lines;
pub(crate) mod flood;
pub(crate) mod gate_node;
pub(crate) mod harvester_webhook;
pub(crate) mod helm;
pub(crate) mod kubevirt;
pub(crate) mod machine;
pub(crate) mod manual;
pub(crate) mod markdown;
pub(crate) mod messages_page;
pub(crate) mod objects;
pub(crate) mod own_directory;
pub(crate) mod pages;
pub(crate) mod person;
pub(crate) mod qemu;
pub(crate) mod receiver;
pub(crate) mod rest_of_rke2;
pub(crate) mod rooted;
pub(crate) mod said;
pub(crate) mod stepwise;
pub(crate) mod terminal;
pub(crate) mod verb_pages;
pub(crate) mod versions_page;
pub(crate) mod webhook;
pub(crate) mod widgets;
pub(crate) mod wire;
