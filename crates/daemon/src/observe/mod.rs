//! Adapters that fill an observation with the state of disk, bus and cluster, as values.
//! They decide nothing and change nothing.

pub mod appearances;
pub mod bootstrap;
pub mod cluster;
pub mod effect;
pub mod files;
pub mod host;
pub mod kube_vip;
pub mod kubelet;
pub mod management;
pub mod network;
pub mod objects;
pub mod platform;
mod pod_logs;
pub mod probes;
pub mod process;
mod program;
pub mod requests;
pub mod rke2;
pub mod rke2_binary;
pub mod scan;
pub mod servers;
pub mod system_image;
pub mod systemd;
pub mod unit_sandbox;
pub mod upgrade;
