//! Level 4: a VIP at a hardware address that is no node's is recognised in a real cluster and in a report of it, and its
//! healthy and its unknown neighbour are told apart. The node's neighbour table is played.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use support::cluster::{Cluster, Who};
use support::objects::{Gvk, NODE, api, make, namespace, node, status};

use crate::support;

const CONFIG_MAP: Gvk = ("", "v1", "ConfigMap");
const VIP: &str = "198.51.100.10";

/// The findings and what is unknown, of the cluster or of a report.
fn diagnose(root: &Path, from: &[&str]) -> (Vec<String>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .args(["diagnose", "-o", "json"])
        .args(from)
        .output()
        .unwrap();
    let mut said: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    // Nothing runs here, which is a symptom. These tests are about known incidents.
    let findings = said["findings"].as_array_mut().unwrap();
    findings.retain(|finding| finding["unexplained"] != true);
    let findings = said["findings"].as_array().unwrap().iter();
    let codes = findings.map(|one| one["code"].as_str().unwrap().to_owned());
    (codes.collect(), said["unknown"].to_string())
}

/// Writes the neighbour table: the VIP, n1 and n2, where each is known.
fn neighbours(root: &Path, heard: &[(&str, &str)]) {
    let lines = heard
        .iter()
        .map(|(address, mac)| format!("{address} 0x1 0x2 {mac} * mgmt-br\n"));
    let table = format!(
        "IP address HW type Flags HW address Mask Device\n{}",
        lines.collect::<String>()
    );
    let path = root.join("proc/net/arp");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, table).unwrap();
}

#[tokio::test]
async fn a_vip_at_a_foreign_hardware_address_is_recognised_live_and_in_a_report() {
    let Some((cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let kubeconfig = root.join("etc/rancher/rke2/rke2.yaml");
    fs::create_dir_all(kubeconfig.parent().unwrap()).unwrap();
    fs::copy(cluster.kubeconfig(Who::Admin), &kubeconfig).unwrap();
    let live = ["--kubeconfig", kubeconfig.to_str().unwrap()];

    namespace(&client, "harvester-system").await;
    for (name, address) in [("n1", "198.51.100.1"), ("n2", "198.51.100.2")] {
        node(&client, name, json!({}), json!([])).await;
        let addresses = json!([{"type": "InternalIP", "address": address}]);
        status(
            &api(&client, NODE, ""),
            name,
            json!({"addresses": addresses}),
        )
        .await;
    }
    let nodes = [
        ("198.51.100.1", "52:54:00:00:00:01"),
        ("198.51.100.2", "52:54:00:00:00:02"),
    ];
    let foreign = [nodes[0], nodes[1], (VIP, "52:54:00:00:00:99")];
    neighbours(root, &foreign);
    assert_eq!(diagnose(root, &live).0, [""; 0], "no Harvester");

    let data = json!({"ip": VIP, "mode": "static", "hwAddress": "", "enabled": "true"});
    // Another of that name is not asked for.
    for (namespace, address) in [("default", "198.51.100.1"), ("harvester-system", VIP)] {
        let mut data = data.clone();
        data["ip"] = json!(address);
        make(
            &client,
            CONFIG_MAP,
            namespace,
            json!({"metadata": {"name": "vip"}, "data": data}),
        )
        .await;
    }
    assert_eq!(diagnose(root, &live).0, ["vip-conflict"]);
    let report = root.join("report.tar.gz");
    let made = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .arg("report")
        .args(live)
        .arg("--output-file")
        .arg(&report)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let (found, _) = diagnose(root, &["--from", report.to_str().unwrap()]);
    assert_eq!(found, ["vip-conflict"], "{made:?}");

    neighbours(root, &[nodes[0], nodes[1], (VIP, nodes[1].1)]);
    assert_eq!(
        diagnose(root, &live),
        (Vec::new(), "[]".to_owned()),
        "n2 leads"
    );
    neighbours(root, &[nodes[0], foreign[2]]);
    let (found, unknown) = diagnose(root, &live);
    assert_eq!(found, [""; 0]);
    assert!(unknown.contains("not heard from n2"), "{unknown}");
}
