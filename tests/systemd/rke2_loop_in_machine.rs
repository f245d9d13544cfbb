//! Level 5: an rke2-server that systemd restarts without end, told from one that restarted once, hangs, crashes or was stopped.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use gate_node::{SERVER, findings, status};
use machine::{Builder, Machine, skipped};
use serde_json::Value;

use crate::support::gate_node;
use crate::support::machine;

const CODE: &str = "rke2-bootstrap-loop";
const RECONCILING: &str = "Reconciling bootstrap data between datastore and disk";

/// It says what RKE2 says in rke2#11056. The first start leaves an etcd behind, as RKE2 does with KillMode=process. While CUT is
/// there it loses its election and cannot read from that etcd any more; CRASHES lets each start come further before it ends, and
/// HANGS holds it up.
const RKE2: &str = r#"#!/bin/bash
CUT=/run/test-cut CRASHES=/run/test-crashes HANGS=/run/test-hangs
say() { printf 'time="%(%FT%TZ)T" level=%s msg="%s"\n' -1 "$1" "$2"; }
if [[ ! -e /run/test-etcd ]]; then
  /usr/bin/etcd --data-dir=/run/test-etcd --listen-metrics-urls=http://127.0.0.1:2381 &>/run/test-etcd.log &
  echo $! >/run/test-etcd.pid
fi
say info "Applying Pod Security Admission Configuration"
say info "Starting rke2 v1.33.13+rke2r1 (879e8b14ad619278d61dd81c116e08f3e1885715)"
say info "Managed etcd cluster bootstrap already complete and initialized"
say info "Reconciling bootstrap data between datastore and disk"
while [[ -e $HANGS ]]; do sleep 0.1; done
say info "Opening etcd client connection with endpoints [https://127.0.0.1:2379]"
if [[ -e $CUT ]]; then
  echo '{"level":"warn","logger":"k3s.remotestore","msg":"retrying of unary invoker failed","method":"/etcdserverpb.KV/Range","attempt":0}'
  say fatal "starting kubernetes: preparing server: context deadline exceeded"
  exit 1
fi
say info "Running kube-apiserver --advertise-address=10.0.0.1"
if [[ -e $CRASHES ]]; then
  say fatal "kube-apiserver exited"
  exit 1
fi
# On behalf of this process: rke2 is a Type=notify service, which listens to its main process only.
systemd-notify --ready --pid=$$
while [[ ! -e $CUT ]]; do sleep 0.1; done
say fatal "leaderelection lost for rke2"
exit 1
"#;

fn machine() -> Option<Machine> {
    if skipped() {
        return None;
    }
    let builder = Builder::node().script("/usr/local/bin/rke2", RKE2).file(
        "/etc/windrow/conf.d/20-site.yaml",
        "diagnosis:\n  interval: 5s\n",
    );
    let machine = builder.boot();
    machine.wait_unit(SERVER, "active");
    machine.wait_until("etcd is well", |machine| {
        const GET: &str = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:2381/health').read())";
        machine.run(&["python3", "-c", GET]).status.success()
    });
    Some(machine)
}

/// What `windrow diagnose` on the node says of the loop; null when it has not found it.
fn diagnosed(machine: &Machine) -> Value {
    let output = machine.run(&["windrow", "diagnose", "-o", "json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = found["findings"].as_array().unwrap();
    let found = findings.iter().find(|one| one["code"] == CODE).cloned();
    assert_eq!(
        found.is_some(),
        output.status.code() == Some(4),
        "{output:?}"
    );
    found.unwrap_or_default()
}

fn restarts(machine: &Machine) -> u32 {
    machine.unit(SERVER, "NRestarts").parse().unwrap()
}

/// Waits until systemd has restarted it so often.
fn wait_restarts(machine: &Machine, many: u32) {
    machine.wait_until(format!("{many} restarts"), |machine| {
        restarts(machine) >= many
    });
}

fn evidence<'f>(finding: &'f Value, field: &str) -> &'f str {
    let all = finding["evidence"].as_array().unwrap().iter();
    let mut all = all.filter(|one| one["field"] == field);
    all.next()
        .and_then(|one| one["value"].as_str())
        .unwrap_or_default()
}

#[test]
fn a_server_that_loops_at_the_reconcile_is_told_and_one_that_restarted_once_hangs_or_was_stopped_is_not()
 {
    let Some(machine) = machine() else { return };
    let etcd = machine.read("/run/test-etcd.pid").unwrap();
    assert_eq!(diagnosed(&machine), Value::Null, "it is well");

    // It loses its election. The next start hangs at the same line, for as long as it likes.
    machine.sh("touch /run/test-hangs /run/test-cut");
    wait_restarts(&machine, 1);
    machine.wait_journal(&["--unit", SERVER], "leaderelection lost");
    assert_eq!(diagnosed(&machine), Value::Null, "one restart is none");

    machine.sh("rm /run/test-hangs");
    let finding = machine.wait_for("it is found", |machine| {
        Some(diagnosed(machine)).filter(|found| !found.is_null())
    });
    assert_eq!(finding["severity"], "error", "{finding:#}");
    assert_eq!(evidence(&finding, "last step of each start"), RECONCILING);
    assert_eq!(evidence(&finding, "before"), "leaderelection lost");
    assert_eq!(
        evidence(&finding, "GET http://127.0.0.1:2381/health"),
        "true"
    );
    assert!(evidence(&finding, "NRestarts").parse::<u32>().unwrap() >= 5);
    // The daemon finds it from within its sandbox, twice, and the node is not called Ready.
    machine.wait_until("the daemon tells it", |machine| {
        !findings(machine, CODE).is_empty()
    });
    let told = &findings(&machine, CODE)[0];
    assert!(told.contains("keeps restarting"), "{told}");
    let status = status(&machine);
    assert_ne!(status["readiness"], "Ready");
    let mut told_in_status = status["findings"].as_array().unwrap().iter();
    let told_in_status = told_in_status.find(|one| one["code"] == CODE).unwrap();
    assert_eq!(
        evidence(&told_in_status["incident"], "before"),
        "leaderelection lost"
    );
    machine.wait_journal(&["--unit", "windrow.service"], told);
    // So does who has the report alone.
    machine.sh("windrow report --output-file /run/report.tar.gz");
    let from = machine.run(&["windrow", "diagnose", "--from", "/run/report.tar.gz"]);
    assert!(
        String::from_utf8_lossy(&from.stdout).contains(CODE),
        "{from:?}"
    );
    assert_eq!(machine.read("/run/test-etcd.pid").unwrap(), etcd);
    machine.sh("kill -0 $(cat /run/test-etcd.pid)");

    // Somebody stops it. systemd keeps the count, and etcd goes on: nothing starts again and again.
    machine.ok(&["systemctl", "stop", SERVER]);
    assert!(restarts(&machine) >= 5);
    assert_eq!(diagnosed(&machine), Value::Null, "it was stopped");
    machine.wait_until("the daemon says that it is over", |machine| {
        findings(machine, CODE).is_empty()
    });

    // It is mended.
    machine.sh("rm /run/test-cut");
    machine.ok(&["systemctl", "start", SERVER]);
    assert_eq!(diagnosed(&machine), Value::Null, "it runs");
}

#[test]
fn a_server_that_comes_further_before_it_crashes_is_not_in_the_loop() {
    let Some(machine) = machine() else { return };
    machine.sh("touch /run/test-crashes /run/test-cut");
    machine.wait_journal(&["--unit", SERVER], "leaderelection lost");
    machine.sh("rm /run/test-cut");
    wait_restarts(&machine, 7);
    assert_eq!(diagnosed(&machine), Value::Null);
    assert_eq!(findings(&machine, CODE), [""; 0]);
}
