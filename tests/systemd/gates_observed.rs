//! What kube-scheduler and kube-controller-manager report about their gates on their own ports, on a booted machine.
//! The stand-in for rke2-server runs kube-apiserver alone; beside it the real ones run as units, with the gates that
//! RKE2 would pass to them.

use assets::Minor;
use gate_node::{DROP_IN, SERVER, WISHES, findings, gates, node, said, status};
use machine::{Builder, Machine};
use serde_json::Value;

use crate::support::cluster::assets;
use crate::support::gate_node;
use crate::support::machine;

/// While this file exists, components do not get the gates that the drop-in asks for.
const DEAF: &str = "/run/deaf";

/// A component with the arguments that RKE2 gives it (k3s `pkg/daemons/control/server.go`), started after rke2-server and
/// again with it.
fn component(node: Builder, name: &str) -> Builder {
    let program = assets::find(Minor::V1_36, name).expect("the parts are here");
    let start = format!("/usr/local/bin/start-{name}");
    node.bind(program, &format!("/opt/k8s-1.36/{name}"))
        .script(
            &start,
            &format!(
                "#!/bin/sh\n\
                 [ -e {DEAF} ] || gates=$(sed -n '/^{name}-arg/,/^[a-z]/s/.*\"feature-gates+=\\(.*\\)\"/--feature-gates=\\1/p' {DROP_IN})\n\
                 admin=/etc/rancher/rke2/rke2.yaml\n\
                 exec /opt/k8s-1.36/{name} --kubeconfig=$admin --authentication-kubeconfig=$admin --authorization-kubeconfig=$admin \
                 --bind-address=127.0.0.1 --leader-elect=false $gates\n"
            ),
        )
        .file(
            &format!("/etc/systemd/system/{name}.service"),
            format!("[Unit]\nAfter={SERVER}\nPartOf={SERVER}\n[Service]\nExecStart={start}\nRestart=always\n"),
        )
        .drop_in(&format!("{name}.service"), "[Unit]\nStartLimitIntervalSec=0\n")
}

/// The output of `windrow gates check` about a component.
fn shown(machine: &Machine, component: &str) -> Value {
    let text = said(&gates(machine, &["check", "-o", "json"]), 0);
    let report: Value = serde_json::from_str(&text).expect("a document");
    let components = report["components"].as_array().expect("components");
    let mut found = components
        .iter()
        .filter(|found| found["component"] == component);
    found.next().cloned().unwrap_or_default()
}

#[test]
fn a_trial_asks_the_other_components_on_their_own_ports_and_show_tells_what_they_say() {
    const SCHEDULER: &str = "kube-scheduler";
    const MANAGER: &str = "kube-controller-manager";
    const BOTH: &str = "  kubeScheduler: {SchedulerAsyncPreemption: false}\n  kubeControllerManager: {DeploymentReplicaSetTerminatingReplicas: false}\n";
    let Some(node) = node(Minor::V1_36) else {
        return;
    };
    let node = component(component(node, SCHEDULER), MANAGER);
    let machine = node
        .file(
            "/etc/rancher/rke2/config.yaml.d/50-site.yaml",
            "debug: false\n",
        )
        .boot();
    machine.wait_unit(SERVER, "active");
    machine.sh(&format!("systemctl start {SCHEDULER} {MANAGER}"));
    let wish = |gates: &str| {
        machine.write(WISHES, &format!("featureGates:\n{gates}"));
        machine.sh("systemctl reload windrow");
    };

    wish(BOTH);
    let kept = said(&gates(&machine, &["apply", "--yes"]), 0);
    assert!(kept.contains("kept"), "{kept}");
    assert_eq!(
        findings(&machine, "gate-unverified"),
        Vec::<String>::new(),
        "both have said that it is in effect"
    );
    for (name, gate) in [
        (SCHEDULER, "SchedulerAsyncPreemption"),
        (MANAGER, "DeploymentReplicaSetTerminatingReplicas"),
    ] {
        let shown = shown(&machine, name);
        assert_eq!(shown["gates"][0]["gate"], gate, "{shown}");
        assert_eq!(shown["gates"][0]["inEffect"], false, "{shown}");
    }

    // A component that starts without its gates reports that.
    let before = machine.read(DROP_IN);
    machine.sh(&format!("touch {DEAF}"));
    wish("  kubeScheduler: {SchedulerAsyncPreemption: false, SchedulerAsyncAPICalls: true}\n");
    let rolled_back = said(&gates(&machine, &["apply", "--yes"]), 4);
    assert!(
        rolled_back.contains("kube-scheduler says that"),
        "{rolled_back}"
    );
    assert!(
        rolled_back.contains("SchedulerAsyncAPICalls is false"),
        "{rolled_back}"
    );
    assert_eq!(machine.read(DROP_IN), before);
    assert_eq!(status(&machine)["gates"]["trial"]["outcome"], "rolled-back");

    wish(BOTH);
    machine.sh(&format!("systemctl stop {MANAGER}"));
    let silent = shown(&machine, MANAGER);
    assert!(silent["unobserved"].is_string(), "{silent}");
    assert!(silent["gates"][0]["inEffect"].is_null(), "{silent}");
}

#[test]
fn a_removal_is_kept_only_once_a_new_process_of_the_component_runs() {
    const SCHEDULER: &str = "kube-scheduler";
    let Some(node) = node(Minor::V1_36) else {
        return;
    };
    let machine = component(node, SCHEDULER)
        .file(
            "/etc/rancher/rke2/config.yaml.d/50-site.yaml",
            "debug: false\n",
        )
        .file(
            "/etc/windrow/conf.d/policy.yaml",
            "gates: {patience: 60s}\n",
        )
        .boot();
    machine.wait_unit(SERVER, "active");
    machine.sh(&format!("systemctl start {SCHEDULER}"));
    let wish = |gates: &str| {
        machine.write(WISHES, &format!("featureGates: {gates}\n"));
        machine.sh("systemctl reload windrow");
    };
    wish("{kubeScheduler: {SchedulerAsyncPreemption: false}}");
    let kept = said(&gates(&machine, &["apply", "--yes"]), 0);
    assert!(kept.contains("kept"), "{kept}");

    // The scheduler of before goes on with the gate.
    let unit = format!("/etc/systemd/system/{SCHEDULER}.service");
    machine.sh(&format!(
        "cp {unit} /run/kept.service; sed -i /^PartOf/d {unit}; systemctl daemon-reload"
    ));
    let before = machine.read(DROP_IN);
    wish("{}");
    let rolled_back = said(&gates(&machine, &["apply", "--yes"]), 4);
    assert!(
        rolled_back.contains("kube-scheduler: its previous process still runs"),
        "{rolled_back}"
    );
    assert_eq!(machine.read(DROP_IN), before);

    machine.sh(&format!(
        "cp /run/kept.service {unit}; systemctl daemon-reload"
    ));
    let kept = said(&gates(&machine, &["apply", "--force", "--yes"]), 0);
    assert!(kept.contains("kept: no feature gate"), "{kept}");
    assert!(!machine.exists(DROP_IN));
}
