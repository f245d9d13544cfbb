//! A restart on purpose is not a failure: it lifts no hold and never leaves the node without a daemon.

use machine::{Builder, Machine, skipped};

use crate::support::machine;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
const UNIT: &str = "windrow.service";
/// More than the unit may be started within its interval.
const RESTARTS: usize = 12;
/// Its kind is not served: Windrow holds it, and the fail-safe may lift the hold.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget, namespace: default}\n";

fn is_held(machine: &Machine) -> bool {
    machine.exists(&format!("{MANIFESTS}/widget.yaml.skip"))
}

/// A machine on which Windrow runs and holds a file.
fn holding() -> Option<Machine> {
    if skipped() {
        return None;
    }
    let machine = Builder::node()
        .file(&format!("{MANIFESTS}/widget.yaml"), WIDGET)
        .boot();
    machine.wait_booted();
    machine.wait_unit(UNIT, "active");
    machine.wait_until("the file is held", is_held);
    Some(machine)
}

#[test]
fn a_daemon_that_is_restarted_again_and_again_runs_and_keeps_its_holds() {
    let Some(machine) = holding() else { return };
    for _ in 0..RESTARTS {
        machine.ok(&["systemctl", "restart", UNIT]);
        assert!(is_held(&machine));
    }
    for _ in 0..RESTARTS {
        machine.ok(&["systemctl", "stop", UNIT]);
        machine.ok(&["systemctl", "start", UNIT]);
    }
    assert!(is_held(&machine));
    assert_eq!(machine.unit(UNIT, "ActiveState"), "active");
    let started = machine.monotonic("windrow-failsafe.service", "ConditionTimestamp");
    assert_eq!(started, 0, "the fail-safe was not asked for");
}

/// The count of starts is not reset, as when systemd does not answer in time.
#[test]
fn a_start_limit_that_no_failure_reached_lifts_no_hold_and_the_daemon_is_started_again() {
    let Some(machine) = holding() else { return };
    machine.write(
        "/etc/systemd/system/windrow.service.d/test.conf",
        "[Service]\nExecStopPost=\n",
    );
    machine.ok(&["systemctl", "daemon-reload"]);
    let refused = (0..RESTARTS).any(|_| {
        let restarted = machine.run(&["systemctl", "restart", UNIT]);
        !restarted.status.success()
    });
    assert!(refused, "systemd refuses more starts than the limit");
    let journal = ["--boot", "--unit=windrow-failsafe.service"];
    machine.wait_journal(&journal, "did not fail: its holds stay");
    machine.wait_unit(UNIT, "active");
    assert!(is_held(&machine));
    assert_eq!(
        machine.unit(
            "windrow-failsafe.service",
            "ExecMainStartTimestampMonotonic"
        ),
        "0",
        "the fail-safe itself did not run"
    );
}
