//! Trials of feature gates and what else happens in the cluster: upgrades, the other servers, and what these have tried.
//!
//! It uses what a user has: the program, the units, the files, the journal, the API. Without the machine's root, root's
//! rights or the cluster's binaries each test prints one line and is skipped.

use assets::Minor;
use gate_node::{
    DROP_IN, SERVER, WISHES, findings, gates, in_effect, request, running_node, said, status,
    wishes,
};
use machine::Machine;
use serde_json::{Value, json};

use crate::support::cluster::assets;
use crate::support::gate_node;
use crate::support::machine;

const POLICY: &str = "/etc/windrow/conf.d/policy.yaml";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/windrow-gates";
const UPGRADES: &str = "/apis/harvesterhci.io/v1beta1/namespaces/harvester-system/upgrades";
const NOTE: &str = "windrow.dev/note";

fn wish(machine: &Machine, gates: &str) {
    machine.write(WISHES, &wishes(gates));
    machine.sh("systemctl reload windrow");
}

fn post(machine: &Machine, path: &str, object: &Value) {
    let made = request(machine, "POST", path, &object.to_string());
    made.unwrap_or_else(|| machine.give_up(format!("not made: {path}")));
}

/// Makes Harvester's Upgrade, in a state; the release has the Kubernetes that runs.
fn start_upgrade(machine: &Machine) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "upgrades.harvesterhci.io"},
        "spec": {"group": "harvesterhci.io", "scope": "Namespaced",
            "names": {"kind": "Upgrade", "plural": "upgrades", "singular": "upgrade"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(machine, definitions, &definition);
    let namespace = json!({"metadata": {"name": "harvester-system"}});
    post(machine, "/api/v1/namespaces", &namespace);
    machine.wait_until("Upgrades are served", |machine| {
        gate_node::get(machine, UPGRADES).is_some()
    });
    let upgrade = json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
        "metadata": {"name": "up", "labels": {
            "harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": "UpgradingNodes"}},
        "spec": {"version": ""},
        "status": {"repoInfo": "release:\n  kubernetes: v1.36.3+rke2r1\n"}
    });
    post(machine, UPGRADES, &upgrade);
}

fn end_upgrade(machine: &Machine) {
    let path = format!("{UPGRADES}/up");
    let upgrade = gate_node::get(machine, &path).expect("the Upgrade");
    let mut upgrade: Value = serde_json::from_str(&upgrade).expect("an object");
    upgrade["metadata"]["labels"]["harvesterhci.io/upgradeState"] = json!("Succeeded");
    request(machine, "PUT", &path, &upgrade.to_string()).expect("it has ended");
}

#[test]
fn no_gate_is_tried_during_an_upgrade_and_an_automatic_trial_comes_after_it() {
    let Some(machine) = running_node(Minor::V1_36) else {
        return;
    };
    start_upgrade(&machine);
    let runs = machine.unit(SERVER, "InvocationID");
    wish(&machine, "    APIResponseCompression: false\n");
    let upgrade = "an upgrade is in progress: Upgrade harvester-system/up: UpgradingNodes";
    let refused = said(&gates(&machine, &["apply", "--yes"]), 3);
    assert!(refused.contains(upgrade), "{refused}");
    machine.write(POLICY, "gates: {onChange: try}\n");
    machine.sh("systemctl reload windrow");
    machine.wait_journal(
        &["_SYSTEMD_UNIT=windrow.service"],
        &format!("were not tried (from the configuration): {upgrade}"),
    );
    assert!(!machine.exists(DROP_IN));
    assert_eq!(machine.unit(SERVER, "InvocationID"), runs);

    end_upgrade(&machine);
    machine.wait_until("it is tried and kept", |machine| {
        status(machine)["gates"]["trial"]["outcome"] == "kept"
    });
    assert_eq!(in_effect(&machine, "APIResponseCompression"), Some(false));
}

/// The Lease's note for the other servers.
fn note(machine: &Machine) -> Value {
    let lease = gate_node::get(machine, LEASE).expect("the lease");
    let lease: Value = serde_json::from_str(&lease).expect("an object");
    let note = lease["metadata"]["annotations"][NOTE].as_str();
    serde_json::from_str(note.unwrap_or("null")).expect("a note")
}

#[test]
fn what_failed_on_another_server_and_what_would_leave_none_is_tried_only_if_it_is_forced() {
    let Some(machine) = running_node(Minor::V1_36) else {
        return;
    };
    machine.write(POLICY, "gates: {patience: 60s}\n");
    wish(&machine, "    NotAGate: true\n");
    said(&gates(&machine, &["apply", "--force", "--yes"]), 4);
    machine.wait_until("the other servers know how it ended", |machine| {
        let why = note(machine)[0]["why"].to_string();
        why.contains("unrecognized feature gate: NotAGate")
    });
    wish(&machine, "    APIResponseCompression: false\n");
    said(&gates(&machine, &["apply", "--yes"]), 0);
    machine.wait_until("what works is no news", |machine| {
        note(machine).as_array().map(Vec::len) == Some(1)
    });
    let content = machine.read(DROP_IN).expect("a drop-in");
    said(&gates(&machine, &["rollback", "--yes"]), 0);

    // Another server has tried the same.
    machine.wait_until("the lease is free", |machine| {
        let lease = gate_node::get(machine, LEASE).unwrap_or_default();
        !lease.contains("holderIdentity")
    });
    let lease = gate_node::get(&machine, LEASE).expect("the lease");
    let mut lease: Value = serde_json::from_str(&lease).expect("an object");
    let mut failed = note(&machine)[0].clone();
    failed["by"] = json!("another-server");
    failed["content"] = json!(content);
    lease["metadata"]["annotations"][NOTE] = json!(json!([failed]).to_string());
    request(&machine, "PUT", LEASE, &lease.to_string()).expect("the note is another server's");
    let runs = machine.unit(SERVER, "InvocationID");
    let refused = said(&gates(&machine, &["apply", "--yes"]), 3);
    assert!(
        refused.contains("another-server tried the same on 1.36.3"),
        "{refused}"
    );
    assert_eq!(machine.unit(SERVER, "InvocationID"), runs);
    said(&gates(&machine, &["apply", "--force", "--yes"]), 0);
    assert_eq!(in_effect(&machine, "APIResponseCompression"), Some(false));

    // Another server is not ready.
    let labels = json!({"node-role.kubernetes.io/control-plane": "true"});
    let other = json!({"metadata": {"name": "other", "labels": labels}});
    post(&machine, "/api/v1/nodes", &other);
    machine.write(POLICY, "gates: {patience: 3s}\n");
    wish(&machine, "    WatchList: false\n");
    let runs = machine.unit(SERVER, "InvocationID");
    let refused = said(&gates(&machine, &["apply", "--yes"]), 3);
    assert!(refused.contains("node other is not Ready"), "{refused}");
    assert_eq!(machine.unit(SERVER, "InvocationID"), runs);
}

#[test]
fn a_start_is_watched_while_the_lease_of_a_trial_cannot_be_returned() {
    let Some(machine) = running_node(Minor::V1_36) else {
        return;
    };
    machine.write(POLICY, "gates: {patience: 40s}\n");
    wish(&machine, "    NotAGate: true\n");
    machine.sh("systemd-run --quiet windrow gates apply --force --yes");
    machine.wait_until("it is tried", |machine| {
        status(machine)["gates"]["trial"]["state"] == "restarting"
            || status(machine)["gates"]["trial"]["state"] == "verifying"
    });
    // The cause that stays is not the trial's.
    machine.write(
        "/etc/rancher/rke2/config.yaml.d/50-site.yaml",
        "debug: false\nkube-apiserver-arg:\n- feature-gates=NotOurs=true\n",
    );
    machine.wait_until(
        "the gate is named although the lease is not returned",
        |machine| {
            let found = findings(machine, "gate-fatal");
            let state = status(machine)["gates"]["trial"]["state"].clone();
            found.iter().any(|message| message.contains("NotOurs")) && state == "rolled-back"
        },
    );
}
