//! Level 4, real Kubernetes: etcd, kube-apiserver and the deploy controller on loopback. `tests/run` brings them.

#[path = "../support/mod.rs"]
mod support;

mod addons_in_cluster;
mod api_schema;
mod api_server;
mod appearances_in_cluster;
mod cleanup_in_cluster;
mod cures_in_cluster;
mod daemon_in_cluster;
mod deploy_controller;
mod diagnosis_in_cluster;
mod drain_cure_in_cluster;
mod drain_in_cluster;
mod fidelity;
mod gates_advice;
mod gates_in_cluster;
mod gates_kubelet;
mod gates_of_servers;
mod harvester_webhook_in_cluster;
mod helm_controller;
mod incidents_in_cluster;
mod learning;
mod many_nodes;
mod names_in_cluster;
mod node_outlet_in_cluster;
mod person_in_cluster;
mod platform_in_cluster;
mod pod_security_in_cluster;
mod promotion_in_cluster;
mod rack_in_cluster;
mod readiness_in_cluster;
mod release_left_in_cluster;
mod repair_in_cluster;
mod repair_stopped_at_writes;
mod repair_undone_in_cluster;
mod repair_webhook_in_cluster;
mod report_in_cluster;
mod staging;
mod upgrade_check_in_cluster;
mod upgrade_in_cluster;
mod vip_in_cluster;
mod virt_controller;
mod watches_in_cluster;
mod webhooks_in_cluster;
mod yaml_as_rke2_reads_it;
