//! Feature gates on a booted machine: Windrow's units, and under rke2-server.service a real kube-apiserver that takes its
//! arguments from RKE2's configuration files (`tests/cluster/node/rke2-standin`).
//!
//! It uses what a user has: the program, the units, the files, the journal, the API. Without the machine's root, root's
//! rights or the cluster's binaries each test prints one line and is skipped.

use assets::Minor;
use gate_node::{
    DROP_IN, RKE2, SERVER, WISHES, findings, in_effect, node, rke2, running_node, status,
    wait_in_effect, wishes,
};

use crate::support::cluster::assets;
use crate::support::gate_node;

#[test]
fn gates_are_in_place_before_the_first_start_and_what_an_upgrade_refuses_is_gone_before_its_start()
{
    let Some(node) = node(Minor::V1_33) else {
        return;
    };
    let machine = node
        .file(
            WISHES,
            wishes("    APIResponseCompression: false\n    AuthorizeNodeWithSelectors: {value: false, reason: old consoles}\n"),
        )
        .boot();
    machine.wait_unit(SERVER, "active");
    wait_in_effect(&machine, "AuthorizeNodeWithSelectors", false);
    assert_eq!(in_effect(&machine, "APIResponseCompression"), Some(false));
    let mode = machine.ok(&["stat", "--format=%a %U", DROP_IN]);
    assert_eq!(mode, "600 root");
    assert_eq!(
        status(&machine)["gates"]["asked"][1]["reason"],
        "old consoles"
    );

    // As in an upgrade: the binary is replaced and the service restarted, without a word to Windrow.
    machine.write(RKE2, &rke2(Minor::V1_36));
    machine.sh(&format!(
        "chmod +x {RKE2}; systemctl restart --no-block {SERVER}"
    ));
    wait_in_effect(&machine, "AuthorizeNodeWithSelectors", true);
    assert_eq!(in_effect(&machine, "APIResponseCompression"), Some(false));
    let drop_in = machine.read(DROP_IN).expect("a drop-in");
    assert!(!drop_in.contains("AuthorizeNodeWithSelectors"), "{drop_in}");
    assert_eq!(machine.unit(SERVER, "NRestarts"), "0", "it never failed");
    // `journalctl --unit=rke2-server` looks for this too: the hook may have ended before journald looks up its unit.
    machine.wait_journal(
        &["OBJECT_SYSTEMD_UNIT=rke2-server.service"],
        "locked to true in Kubernetes 1.36",
    );
    machine.sh("systemctl reload windrow");
    machine.wait_until("the status says so", |machine| {
        findings(machine, "gate-left-out")
            .iter()
            .any(|message| message.contains("locked"))
    });
}

#[test]
fn a_changed_configuration_waits_while_the_server_runs_and_is_written_once_it_does_not() {
    let Some(machine) = running_node(Minor::V1_36) else {
        return;
    };
    assert!(!machine.exists(DROP_IN), "nothing to set, no file");
    machine.write(WISHES, &wishes("    APIResponseCompression: false\n"));
    machine.sh("systemctl reload windrow");
    machine.wait_until("the status says that it waits", |machine| {
        !findings(machine, "gate-pending").is_empty()
    });
    machine.sh(&format!("systemctl restart {SERVER}"));
    assert!(
        !machine.exists(DROP_IN),
        "a restart by others tries nothing"
    );

    // As at a boot: RKE2 does not run yet when Windrow starts.
    machine.sh(&format!(
        "systemctl stop {SERVER}; systemctl restart windrow"
    ));
    assert!(machine.exists(DROP_IN), "written before READY=1");
    machine.sh(&format!("systemctl start {SERVER}"));
    wait_in_effect(&machine, "APIResponseCompression", false);
}
