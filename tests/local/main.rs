//! Level 3, real file system and bus: what runs on any Linux machine.

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod api_objects;
mod appearances;
mod blame;
mod cases;
mod check;
mod check_outputs;
mod cli;
mod cluster_faults;
mod config;
mod configuration_findings;
mod console;
mod daemon;
mod dbus;
mod documents;
mod flight;
mod forms;
mod gates;
mod generated;
mod guide;
mod hardening;
mod hostile_manifests;
mod inputs;
mod installers;
mod knowledge;
mod learn;
mod markers_on_disk;
mod metrics;
mod outlets;
mod pipeline;
mod preflight;
mod rack;
mod rack_of_daemons;
mod reading_manifests;
mod recipes_of_distributions;
mod rehearse;
mod release;
mod report;
mod sandbox;
mod secrets;
mod verbs;
mod vip_check;
mod words;
