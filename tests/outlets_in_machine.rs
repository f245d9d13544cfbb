//! What others see of Windrow on a booted machine: the real system bus with the policy that is installed.

#[path = "support/machine.rs"]
mod machine;

use machine::{Builder, Machine, skipped};
use serde_json::Value;

/// Waits for a kind that nobody brings.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget, namespace: default}\n";
const MANIFEST: &str = "/var/lib/rancher/rke2/server/manifests/widget.yaml";

/// `busctl` as `nobody`.
const NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";
const OBJECT: &str = "dev.windrow.Agent1 /dev/windrow/Agent1";

fn get(machine: &Machine, property: &str) -> Option<Value> {
    let script =
        format!("{NOBODY} busctl --json=short get-property {OBJECT} dev.windrow.Agent1 {property}");
    let output = machine.run(&["sh", "-euc", &script]);
    let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(answer["data"].clone())
}

#[test]
fn everybody_reads_over_the_system_bus_and_only_root_releases() {
    if skipped() {
        return;
    }
    let machine = Builder::node().file(MANIFEST, WIDGET).boot();
    machine.wait_unit("windrow.service", "active");
    machine.wait_until("the file is held, as nobody sees it", |machine| {
        get(machine, "Held") == Some(Value::from(1))
    });
    assert_ne!(get(&machine, "Summary"), Some(Value::from("")));
    let call = |who: &str, method: &str| {
        let script = format!("{who} busctl call {OBJECT} dev.windrow.Agent1 {method}");
        machine.run(&["sh", "-euc", &script])
    };
    let why = call(NOBODY, "Why s widget.yaml");
    assert!(why.status.success(), "{why:?}");
    let release = "Release ass 1 widget.yaml test";
    let refused = call(NOBODY, release);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "nobody released a file");
    assert!(said.contains("Access denied"), "{said}");
    assert!(machine.exists(&format!("{MANIFEST}.skip")));
    let take = format!(
        "{NOBODY} busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus \
         RequestName su dev.windrow.Agent1 0"
    );
    let taken = machine.run(&["sh", "-euc", &take]);
    let said = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(said.contains("Access denied"), "{taken:?}");

    let done = call("", release);
    assert!(done.status.success(), "{done:?}");
    machine.wait_until("the release is known", |machine| {
        !machine.exists(&format!("{MANIFEST}.skip")) && get(machine, "Held") == Some(Value::from(0))
    });

    // The bus goes and comes back; Windrow stays, and takes its name again.
    let pid = machine.unit("windrow.service", "MainPID");
    machine.sh("systemctl kill --signal=KILL dbus.service");
    machine.wait_until("Windrow is on the bus again", |machine| {
        get(machine, "Held") == Some(Value::from(0))
    });
    assert_eq!(machine.unit("windrow.service", "MainPID"), pid);
}
