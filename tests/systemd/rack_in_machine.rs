//! The rack's unit on a booted machine: a user of its own, its token as a credential, HTTPS with a certificate that stays.

use machine::{Builder, Machine, skipped};
use serde_json::Value;

use crate::support::machine;

const UNIT: &str = "windrow-rack.service";
const TOKEN: &str = "0123456789abcdef";
const CREDENTIAL: &str = "/etc/credstore/windrow-rack.token";
/// As docs/rack.md writes it.
const ELSEWHERE: &str = "[Service]\nExecStart=\nExecStart=/usr/bin/windrow rack --listen 0.0.0.0:9347 --nodes /etc/windrow-rack/nodes.csv\n";
const ONCE: &str = "windrow rack --once -o json --listen 0.0.0.0:9347 --token-file /etc/credstore/windrow-rack.token";

/// The fingerprint that the unit has said since its last start.
fn said(machine: &Machine) -> String {
    let invocation = machine.unit(UNIT, "InvocationID");
    let of = format!("_SYSTEMD_INVOCATION_ID={invocation}");
    machine.wait_for("it says its fingerprint", |machine| {
        let lines = machine.journal(&[&of]);
        let texts = lines.iter().filter_map(|line| line["MESSAGE"].as_str());
        texts
            .filter_map(|text| text.split_once("SHA-256 "))
            .map(|(_, fingerprint)| fingerprint.to_owned())
            .next()
    })
}

#[test]
fn the_racks_unit_takes_a_nodes_events_over_https_has_no_rights_and_comes_back_with_all_it_knew() {
    if skipped() {
        return;
    }
    let unit = format!("/usr/lib/systemd/system/{UNIT}");
    let machine = Builder::node()
        .copy("systemd/windrow-rack.service", &unit)
        .drop_in(UNIT, ELSEWHERE)
        .file(CREDENTIAL, format!("{TOKEN}\n"))
        .file("/etc/windrow-rack/nodes.csv", "name,host\nr1-n01,other\n")
        .boot();
    let judged = machine.run(&["systemd-analyze", "verify", "--man=no", &unit]);
    let warnings = String::from_utf8_lossy(&judged.stderr);
    // It loads windrow.service too. systemd before 254 has no RestartMode=.
    let ours = warnings
        .lines()
        .find(|line| !line.contains("'RestartMode'"));
    assert!(judged.status.success() && ours.is_none(), "{judged:?}");
    machine.sh(&format!(
        "chmod 0700 /etc/credstore; chmod 0600 {CREDENTIAL}"
    ));
    machine.ok(&["systemctl", "start", UNIT]);
    machine.wait_unit(UNIT, "active");
    let fingerprint = said(&machine);

    // The machine's own Windrow sends to it, under that certificate.
    machine.write(
        "/etc/rancher/windrow/conf.d/60-rack.yaml",
        &format!(
            "webhooks:\n- event: NODE_SEEN\n  url: https://127.0.0.1:9347/events\n  fingerprint: \"{fingerprint}\"\n  \
             headers: {{Authorization: [Bearer {TOKEN}]}}\n"
        ),
    );
    machine.wait_unit("windrow.service", "active");
    machine.ok(&["systemctl", "reload", "windrow.service"]);
    let reported = |machine: &Machine| -> Option<Value> {
        let shown = machine.run(&["sh", "-euc", ONCE]);
        let view: Value = serde_json::from_slice(&shown.stdout).ok()?;
        let nodes = view["nodes"].as_array()?;
        nodes.iter().find(|node| node["source"] == "event").cloned()
    };
    let node = machine.wait_for("the node is on the page", reported);
    assert_eq!(node["expected"], false, "{node}");

    let pid = machine.unit(UNIT, "MainPID");
    let rights = machine.ok(&["cat", &format!("/proc/{pid}/status")]);
    let field = |name: &str| {
        let line = rights.lines().find(|line| line.starts_with(name));
        let line = line.expect("a field");
        line.split_whitespace().nth(1).expect("a value").to_owned()
    };
    assert_ne!(field("Uid:"), "0");
    assert_eq!(field("CapEff:"), "0000000000000000");
    assert_eq!(field("CapBnd:"), "0000000000000000");
    assert_eq!(field("NoNewPrivs:"), "1");
    assert_eq!(field("Seccomp:"), "2");

    machine.ok(&["systemctl", "kill", "--signal=KILL", UNIT]);
    machine.wait_until("it runs again", |machine| {
        let again = machine.unit(UNIT, "MainPID");
        again != "0" && again != pid && machine.unit(UNIT, "ActiveState") == "active"
    });
    assert_eq!(said(&machine), fingerprint);
    let again = machine.wait_for("it knows the node", reported);
    assert_eq!(again["boot"], node["boot"]);
    machine.ok(&["systemctl", "stop", UNIT]);
    assert_eq!(machine.unit(UNIT, "Result"), "success");
}
