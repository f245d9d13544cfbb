//! Trials of feature gates on a booted machine: `windrow gates apply` and `rollback` against a real kube-apiserver under
//! systemd, and what a crash in the middle leaves.
//!
//! What a user has: the program, the units, the files, the journal, the API. Without the machine's root, root's rights or
//! the cluster's binaries each test says so in a line and is skipped.

#[path = "support/cluster/assets.rs"]
mod assets;
#[path = "support/gate_node.rs"]
mod gate_node;
#[path = "support/machine.rs"]
mod machine;

use std::process::Output;

use assets::Minor;
use gate_node::{
    DROP_IN, RKE2, SERVER, WISHES, findings, in_effect, node, rke2, status, wait_in_effect, wishes,
};
use machine::Machine;
use serde_json::Value;

const TRIAL: &str = "/var/lib/rancher/windrow/gates/trial.json";
/// RKE2's directory is there before Windrow starts, as on a node that has been installed.
const SITE: &str = "/etc/rancher/rke2/config.yaml.d/50-site.yaml";

/// `windrow gates …`, where /proc/sys is what the daemon sees: nspawn lays a boot id of its own over the kernel's, and the
/// daemon's sandbox takes that away.
const GATES: &str =
    "systemd-run --quiet --wait --pipe --property=ProtectKernelTunables=yes windrow gates";

fn gates(machine: &Machine, arguments: &[&str]) -> Output {
    let mut command: Vec<&str> = GATES.split(' ').collect();
    command.extend(arguments);
    machine.run(&command)
}

/// The same, and what it says and how it ends goes to a file.
fn gates_begun(machine: &Machine, arguments: &str) {
    machine.sh(&format!(
        "rm -f /run/applied; (code=0; {GATES} {arguments} >/run/applying 2>&1 || code=$?; echo \"exit $code\" >>/run/applying; mv /run/applying /run/applied) >/dev/null 2>&1 &"
    ));
}

/// What a command said, and that it ended as it should.
fn said(output: &Output, exit: i32) -> String {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(exit), "{text}");
    text
}

fn wish(machine: &Machine, gates: &str) {
    machine.write(WISHES, &wishes(gates));
    machine.sh("systemctl reload windrow");
}

fn trial(machine: &Machine) -> Value {
    let text = machine.read(TRIAL);
    text.and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

fn wait_outcome(machine: &Machine, outcome: &str) {
    machine.wait_until(format!("the trial is {outcome}"), |machine| {
        status(machine)["gates"]["trial"]["outcome"] == outcome
    });
}

/// The holder of the cluster's lease, as kube-apiserver says it; empty when nobody has it.
fn lease_holder(machine: &Machine) -> Option<String> {
    let text = gate_node::get(
        machine,
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/windrow-gates",
    )?;
    let lease: Value = serde_json::from_str(&text).ok()?;
    Some(
        lease["spec"]["holderIdentity"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    )
}

#[test]
fn a_good_gate_is_kept_then_rolled_back_by_hand_and_an_upgrade_loses_what_it_refuses() {
    let Some(node) = node(Minor::V1_33) else {
        return;
    };
    let machine = node.file(SITE, "debug: false\n").boot();
    machine.wait_unit(SERVER, "active");
    wish(&machine, "    APIResponseCompression: false\n");
    let asked = gates(&machine, &["apply"]);
    assert!(said(&asked, 64).contains("--yes"), "nobody was asked");
    assert!(!machine.exists(DROP_IN));

    let kept = said(&gates(&machine, &["apply", "--yes"]), 0);
    assert!(kept.contains("restarts rke2-server"), "{kept}");
    assert!(
        kept.contains("kept: APIResponseCompression=false"),
        "{kept}"
    );
    assert_eq!(in_effect(&machine, "APIResponseCompression"), Some(false));
    assert_eq!(machine.unit(SERVER, "NRestarts"), "0", "it never failed");
    machine.wait_until("the lease is given back", |machine| {
        lease_holder(machine).as_deref() == Some("")
    });
    let again = said(&gates(&machine, &["apply", "--yes"]), 0);
    assert!(again.contains("nothing was changed"), "{again}");

    let back = said(&gates(&machine, &["rollback", "--yes"]), 0);
    assert!(back.contains("kept: no feature gate"), "{back}");
    assert!(!machine.exists(DROP_IN));
    wait_in_effect(&machine, "APIResponseCompression", true);
    // As at a boot: what was rolled back by hand is not taken up again by itself.
    machine.sh(&format!("systemctl stop {SERVER}; rm -f /run/windrow/rke2-started; systemctl restart windrow; systemctl start --no-block {SERVER}"));
    machine.wait_unit(SERVER, "active");
    assert!(!machine.exists(DROP_IN));

    // Valid on this minor, locked on a later one.
    wish(
        &machine,
        "    APIResponseCompression: false\n    AuthorizeNodeWithSelectors: false\n",
    );
    said(&gates(&machine, &["apply", "--yes"]), 0);
    assert_eq!(
        in_effect(&machine, "AuthorizeNodeWithSelectors"),
        Some(false)
    );
    machine.write(RKE2, &rke2(Minor::V1_36));
    machine.sh(&format!(
        "chmod +x {RKE2}; systemctl restart --no-block {SERVER}"
    ));
    wait_in_effect(&machine, "AuthorizeNodeWithSelectors", true);
    assert_eq!(in_effect(&machine, "APIResponseCompression"), Some(false));
    assert_eq!(machine.unit(SERVER, "NRestarts"), "0", "it never failed");
}

#[test]
fn what_kube_apiserver_refuses_is_rolled_back_with_its_own_words_and_not_tried_again_by_itself() {
    let Some(node) = node(Minor::V1_36) else {
        return;
    };
    let machine = node
        .file(WISHES, wishes("    APIResponseCompression: false\n"))
        .boot();
    machine.wait_unit(SERVER, "active");
    let before = machine.read(DROP_IN).expect("a drop-in from the boot");
    for (gate, words) in [
        ("NotAGate: true", "unrecognized feature gate: NotAGate"),
        (
            "AuthorizeNodeWithSelectors: false",
            "cannot set feature gate AuthorizeNodeWithSelectors to false",
        ),
    ] {
        wish(
            &machine,
            &format!("    APIResponseCompression: false\n    {gate}\n"),
        );
        let refused = said(&gates(&machine, &["apply", "--yes"]), 4);
        assert!(refused.contains("nothing was changed"), "{refused}");
        let rolled_back = said(&gates(&machine, &["apply", "--force", "--yes"]), 4);
        assert!(rolled_back.contains("rolled back"), "{rolled_back}");
        assert!(rolled_back.contains(words), "{rolled_back}");
        assert_eq!(machine.read(DROP_IN).as_deref(), Some(before.as_str()));
        wait_in_effect(&machine, "APIResponseCompression", false);
        machine.wait_until("the finding has its words", |machine| {
            findings(machine, "gate-trial-rolled-back")
                .iter()
                .any(|message| message.contains(words))
        });
    }
    // As at a boot.
    machine.sh(&format!("systemctl stop {SERVER}; rm -f /run/windrow/rke2-started; systemctl restart windrow; systemctl start --no-block {SERVER}"));
    machine.wait_unit(SERVER, "active");
    assert_eq!(machine.read(DROP_IN).as_deref(), Some(before.as_str()));
}

#[test]
fn a_gate_that_does_not_come_into_effect_is_rolled_back() {
    let Some(node) = node(Minor::V1_36) else {
        return;
    };
    let machine = node
        .file(
            "/etc/rancher/rke2/config.yaml.d/99-zzz-last.yaml",
            "kube-apiserver-arg:\n- v=1\n",
        )
        .boot();
    machine.wait_unit(SERVER, "active");
    wish(&machine, "    APIResponseCompression: false\n");
    let rolled_back = said(&gates(&machine, &["apply", "--yes"]), 4);
    assert!(
        rolled_back.contains("APIResponseCompression is true"),
        "{rolled_back}"
    );
    assert!(rolled_back.contains("another file"), "{rolled_back}");
    assert!(!machine.exists(DROP_IN));
    assert_eq!(machine.unit(SERVER, "NRestarts"), "0");
}

#[test]
fn a_changed_configuration_is_tried_by_itself_where_the_settings_say_so() {
    let Some(node) = node(Minor::V1_36) else {
        return;
    };
    let machine = node
        .file(
            "/etc/windrow/conf.d/policy.yaml",
            "gates: {onChange: try}\n",
        )
        .boot();
    machine.wait_unit(SERVER, "active");
    wish(&machine, "    APIResponseCompression: false\n");
    wait_outcome(&machine, "kept");
    assert_eq!(in_effect(&machine, "APIResponseCompression"), Some(false));
    machine.wait_until("nothing waits any more", |machine| {
        status(machine)["gates"]["pending"].is_null()
            && findings(machine, "gate-pending").is_empty()
    });
    let shown = said(&gates(&machine, &["show"]), 0);
    assert!(shown.contains("1 of 1 in effect as set"), "{shown}");
    assert!(shown.contains("kept"), "{shown}");
}

#[test]
fn a_daemon_that_is_killed_in_a_trial_goes_on_with_it() {
    let Some(node) = node(Minor::V1_36) else {
        return;
    };
    let machine = node.file(SITE, "debug: false\n").boot();
    machine.wait_unit(SERVER, "active");
    // Each is met for certain: rke2-server takes seconds to restart and to come up.
    for (state, gate, outcome) in [
        ("restarting", "    APIResponseCompression: false\n", "kept"),
        ("verifying", "    APIResponseCompression: true\n", "kept"),
        ("rolling-back", "    NotAGate: true\n", "rolled-back"),
    ] {
        wish(&machine, gate);
        machine.sh("systemctl reset-failed windrow");
        gates_begun(&machine, "apply --force --yes");
        machine.wait_until(format!("the trial is {state}"), |machine| {
            trial(machine)["state"] == state && trial(machine)["outcome"].is_null()
        });
        machine.sh("systemctl kill --signal=KILL --kill-whom=main windrow");
        // The command that asked for it is told by the daemon that comes after.
        let exit = if outcome == "kept" {
            "exit 0"
        } else {
            "exit 4"
        };
        machine.wait_until(format!("killed in {state}, it ends {outcome}"), |machine| {
            machine
                .read("/run/applied")
                .is_some_and(|text| text.contains(exit))
        });
        wait_outcome(&machine, outcome);
        let value = state != "restarting";
        wait_in_effect(&machine, "APIResponseCompression", value);
    }
    machine.wait_until("the lease is given back", |machine| {
        lease_holder(machine).as_deref() == Some("")
    });
}

#[test]
fn a_trial_that_a_crash_left_at_any_step_is_finished() {
    let Some(node) = node(Minor::V1_36) else {
        return;
    };
    let machine = node.file(SITE, "debug: false\n").boot();
    machine.wait_unit(SERVER, "active");
    wish(&machine, "    APIResponseCompression: false\n");
    said(&gates(&machine, &["apply", "--yes"]), 0);
    let record = trial(&machine);
    let asked = machine.read(DROP_IN).expect("a drop-in");
    said(&gates(&machine, &["rollback", "--yes"]), 0);

    // What is on the disk when the power is cut right after a state was written, and after its step was taken.
    for (state, written) in [
        ("idle", false),
        ("leased", false),
        ("saved", false),
        ("saved", true),
        ("written", true),
    ] {
        machine.sh("systemctl reset-failed windrow; systemctl stop windrow");
        let mut record = record.clone();
        record["request"] = Value::from(format!("crashed-{state}-{written}"));
        record["state"] = Value::from(state);
        record["since"] = Value::from(machine.sh("date -u +%Y-%m-%dT%H:%M:%SZ"));
        record["outcome"] = Value::Null;
        record["baseline"] = Value::Null;
        record["saved"] = serde_json::json!({"content": null});
        machine.write(TRIAL, &record.to_string());
        if written {
            machine.write(DROP_IN, &asked);
        }
        machine.sh("systemctl start windrow");
        wait_outcome(&machine, "kept");
        assert_eq!(
            in_effect(&machine, "APIResponseCompression"),
            Some(false),
            "{state}"
        );
        said(&gates(&machine, &["rollback", "--yes"]), 0);
        assert!(!machine.exists(DROP_IN), "{state}");
    }
}

#[test]
fn without_a_daemon_the_gates_of_a_trial_are_put_back_before_rke2_starts_again() {
    let Some(node) = node(Minor::V1_36) else {
        return;
    };
    let machine = node.file(SITE, "debug: false\n").boot();
    machine.wait_unit(SERVER, "active");
    wish(&machine, "    NotAGate: true\n");
    // As if it could never be started again.
    gates_begun(&machine, "apply --force --yes");
    machine.wait_until("rke2-server restarts with it", |machine| {
        let state = trial(machine)["state"].clone();
        state == "restarting" || state == "verifying"
    });
    // Whether or not the restart was queued before: somebody restarts it.
    machine.sh(&format!(
        "systemctl mask --runtime windrow; systemctl kill --signal=KILL --kill-whom=main windrow; systemctl restart --no-block {SERVER}"
    ));
    machine.wait_until("it is put back", |machine| !machine.exists(DROP_IN));
    // RKE2 fails with it, again and again, until what runs before its start takes it away.
    wait_in_effect(&machine, "APIResponseCompression", true);
    assert!(!machine.exists(DROP_IN));
    let refused = machine
        .read("/var/lib/rancher/windrow/gates/refused.json")
        .expect("it is remembered");
    assert!(
        refused.contains("unrecognized feature gate: NotAGate"),
        "{refused}"
    );

    let nobody = said(&gates(&machine, &["apply", "--yes"]), 1);
    assert!(nobody.contains("the daemon does not run"), "{nobody}");
    machine.sh("systemctl unmask --runtime windrow; systemctl daemon-reload; systemctl reset-failed windrow; systemctl start windrow");
    wait_outcome(&machine, "rolled-back");
    assert!(!machine.exists(DROP_IN));
}

#[test]
fn a_gate_of_others_that_keeps_kube_apiserver_down_is_named_with_file_and_line() {
    let Some(node) = node(Minor::V1_36) else {
        return;
    };
    let machine = node.boot();
    machine.wait_unit(SERVER, "active");
    machine.write(
        SITE,
        "debug: false\nkube-apiserver-arg:\n- feature-gates=NotOurs=true\n",
    );
    machine.sh(&format!("systemctl restart --no-block {SERVER}"));
    let finding = machine.wait_for("a finding", |machine| {
        let status = status(machine);
        let mut found = status["findings"].as_array()?.iter();
        found.find(|found| found["code"] == "gate-fatal").cloned()
    });
    let message = finding["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("unrecognized feature gate: NotOurs"),
        "{message}"
    );
    assert_eq!(finding["at"][0]["file"], SITE);
    assert_eq!(finding["at"][0]["line"], 3);
    assert_eq!(
        machine.read(SITE).map(|text| text.contains("NotOurs")),
        Some(true),
        "never edited"
    );
    machine.write(SITE, "debug: false\n");
    wait_in_effect(&machine, "APIResponseCompression", true);
    machine.wait_until("it is gone from the status", |machine| {
        findings(machine, "gate-fatal").is_empty()
    });
}
