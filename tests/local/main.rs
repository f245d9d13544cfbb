//! Level 3, real file system and bus: what runs on any Linux machine.

#[path = "../support/mod.rs"]
mod support;

mod api_objects;
mod cases;
mod check;
mod check_outputs;
mod cli;
mod cluster_faults;
mod config;
mod console;
mod daemon;
mod dbus;
mod flight;
mod gates;
mod generated;
mod guide;
mod hostile_manifests;
mod inputs;
mod installers;
mod knowledge;
mod markers_on_disk;
mod outlets;
mod pipeline;
mod reading_manifests;
mod rehearse;
mod report;
mod sandbox;
mod secrets;
mod verbs;
mod vip_check;
mod words;
