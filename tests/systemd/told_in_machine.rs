//! Level 5: from a node that is being set up to one that is Ready, degrades, fails and recovers: the installed daemon,
//! against a real systemd and a real kube-apiserver, and the webhooks that a console gets.

use assets::Minor;
use gate_node::status;
use machine::Machine;

use crate::support::cluster::assets;
use crate::support::gate_node;
use crate::support::machine;
use crate::support::receiver;
use crate::support::rest_of_rke2;

const CONFIGURATION: &str = "\
platform: rke2
outlets: {nodeCondition: true}
probes:
  custom:
    wanted: {file: {path: /run/degrade, state: absent}, period: 5s, fall: 1}
    required: {file: {path: /run/fail, state: absent}, period: 5s, fall: 1, severity: required}
webhooks:
- {event: NODE_READY, url: 'http://127.0.0.1:8080/{{.Event}}'}
- {event: NODE_DEGRADED, url: 'http://127.0.0.1:8080/{{.Event}}'}
- {event: NODE_FAILED, url: 'http://127.0.0.1:8080/{{.Event}}'}
- {event: CLUSTER_READY, url: 'http://127.0.0.1:8080/{{.Event}}'}
";
/// What the console got, each as the event and its readiness.
fn told(machine: &Machine) -> Vec<String> {
    receiver::events(machine)
        .iter()
        .map(|event| {
            let kind = event["type"].as_str().unwrap_or_default();
            let readiness = event["data"]["readiness"].as_str().unwrap_or_default();
            let kind = kind.trim_start_matches("dev.windrow.");
            format!("{kind}: {readiness}")
        })
        .collect()
}

fn wait_told(machine: &Machine, expected: &[&str]) {
    machine.wait_until(format!("the console got {expected:?}"), |machine| {
        told(machine).len() >= expected.len()
    });
    let mut heard = told(machine);
    // Two webhooks to one console: the order of the first two is not promised.
    if let Some(first) = heard.get_mut(..2) {
        first.sort();
    }
    assert_eq!(heard, expected, "{:#}", status(machine)["reason"]);
}

fn wait_readiness(machine: &Machine, word: &str) {
    machine.wait_until(format!("the node is {word}"), |machine| {
        status(machine)["readiness"] == word
    });
}

#[test]
fn a_console_hears_how_the_node_gets_on_in_order_and_last_how_it_is() {
    let Some(node) = gate_node::node(Minor::V1_36) else {
        return;
    };
    let node = receiver::installed(rest_of_rke2::installed(node));
    let machine = node
        .file("/etc/windrow/conf.d/50-test.yaml", CONFIGURATION)
        .boot();
    rest_of_rke2::without_time_service(&machine);
    receiver::start(&machine, "console");
    machine.wait_unit("rke2-server.service", "active");
    wait_readiness(&machine, "SettingUp");
    assert_eq!(told(&machine), [""; 0]);

    rest_of_rke2::start(&machine);
    wait_readiness(&machine, "Ready");
    wait_told(&machine, &["cluster.ready: Ready", "node.ready: Ready"]);

    machine.write("/run/degrade", "");
    wait_readiness(&machine, "Degraded");
    let mut expected = vec![
        "cluster.ready: Ready",
        "node.ready: Ready",
        "node.degraded: Degraded",
    ];
    wait_told(&machine, &expected);
    machine.ok(&["rm", "/run/degrade"]);
    wait_readiness(&machine, "Ready");
    expected.push("node.ready: Ready");
    wait_told(&machine, &expected);

    // While the console is away the node fails and recovers: it gets the final state.
    machine.ok(&["systemctl", "stop", "console.service"]);
    machine.write("/run/fail", "");
    wait_readiness(&machine, "Failed");
    machine.wait_journal(&["--unit=windrow.service"], "webhook NODE_FAILED to");
    machine.ok(&["rm", "/run/fail"]);
    wait_readiness(&machine, "Ready");
    receiver::start(&machine, "console-again");
    expected.push("node.ready: Ready");
    wait_told(&machine, &expected);
}

#[test]
fn a_boot_that_cannot_go_on_is_told_by_every_outlet_of_the_machine() {
    if machine::skipped() {
        return;
    }
    let machine = receiver::installed(machine::Builder::node())
        .disabled("rke2-server.service")
        .file(
            "/etc/windrow/conf.d/50-test.yaml",
            "platform: rke2\nwebhooks:\n- {event: NODE_STALLED, url: 'http://127.0.0.1:8080/'}\n",
        )
        .boot();
    receiver::start(&machine, "console");
    machine.wait_unit("windrow.service", "active");
    machine.ok(&["systemctl", "mask", "--runtime", "rke2-server.service"]);
    let id = windrow_model::reasons::Code::BootStuck.reason().message_id;
    let entry = machine.wait_for("the journal says that it is stuck", |machine| {
        machine.journal(&[&format!("MESSAGE_ID={id}")]).pop()
    });
    assert_eq!(entry["PRIORITY"], "4", "{entry}");
    assert_eq!(entry["WINDROW_READINESS"], "Failed", "{entry}");
    let began = "Failed (install RKE2";
    let is_stuck = |text: &str| text.contains(began) && text.contains("stuck): ");
    machine.wait_until("systemctl shows it", |machine| {
        is_stuck(&machine.unit("windrow.service", "StatusText"))
    });
    for path in ["/run/motd.d/windrow", "/run/issue.d/windrow.issue"] {
        machine.wait_until(path, |machine| {
            machine.read(path).is_some_and(|text| is_stuck(&text))
        });
    }
    let line = machine.sh("windrow console --once || true");
    assert!(is_stuck(&line), "{line}");
    let event = machine.wait_for("the console hears it", |machine| {
        receiver::events(machine).into_iter().next()
    });
    assert_eq!(event["type"], "dev.windrow.node.stalled");
    assert_eq!(event["data"]["hostname"], "node1");
    assert_eq!(event["data"]["pace"], "stuck");
    let status = status(&machine);
    assert_eq!(status["host"], "node1");
    assert_eq!(status["pace"], "stuck");
    let property = |name: &str| {
        let object = "dev.windrow.Agent1 /dev/windrow/Agent1 dev.windrow.Agent1";
        machine.sh(&format!("busctl get-property {object} {name}"))
    };
    assert_eq!(property("Pace").trim(), "s \"stuck\"");
    assert_eq!(property("Host").trim(), "s \"node1\"");
}
