//! Level 5, real systemd: a machine in a container, or an image under QEMU. `tests/run` brings what it needs.

#[path = "../support/mod.rs"]
mod support;

mod before_installer;
mod boot;
mod day2;
mod deliberate_restarts;
mod full_disk;
mod gates_apply;
mod gates_observed;
mod gates_of_servers;
mod gates_trial;
mod image;
mod journal;
mod many_files_in_machine;
mod node;
mod outlets_in_machine;
mod own_node_in_machine;
mod package;
mod power_cuts;
mod rack_in_machine;
mod recipes;
mod rke2_loop_in_machine;
mod sandboxes;
mod seen_in_machine;
mod situations;
mod told_in_machine;
mod ways_out;
