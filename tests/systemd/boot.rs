//! Windrow on a booted machine: systemd as PID 1, its own units, cloud-init, and a stand-in for rke2-server.
//!
//! It uses what a user has: the program, the units, the files. `tests/machine/build-root` makes the machine's root
//! once; without it, or without root, each test prints one line and is skipped.

use machine::{Builder, Machine, say, skipped};
use serde_json::Value;
use windrow_replay::{Flights, Replay};

use crate::support::machine;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
const LEDGER: &str = "/var/lib/rancher/windrow/ledger.json";
const FLIGHT: &str = "/var/lib/rancher/windrow/flight.jsonl";
const APPLIED: &str = "/var/lib/rancher/rke2/applied";

/// Can be applied at once.
const FREE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: free, namespace: default}\n";
/// Its kind is not served: held, and harmless if RKE2 tries it all the same.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget, namespace: default}\n";
/// Applying it too early does harm that lasts (harvester#8407): held, whatever happens to Windrow.
const VM: &str = "\
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: first, namespace: default}
spec:
  runStrategy: Always
  template:
    spec:
      domain: {devices: {}}
";

fn manifest(name: &str) -> String {
    format!("{MANIFESTS}/{name}")
}

fn marker(name: &str) -> String {
    format!("{MANIFESTS}/{name}.skip")
}

/// A Harvester node before its first boot, with one manifest of each sort.
fn node() -> Builder {
    Builder::node()
        .file(
            "/usr/lib/windrow/conf.d/10-image.yaml",
            "platform: harvester\n",
        )
        .file(&manifest("free.yaml"), FREE)
        .file(&manifest("widget.yaml"), WIDGET)
        .file(&manifest("vm.yaml"), VM)
}

/// A marker as JSON, if it is there and Windrow's.
fn mark(machine: &Machine, name: &str) -> Option<Value> {
    let content = machine.read(&marker(name))?;
    let mark: Value = serde_json::from_str(&content).ok()?;
    (mark["by"] == "windrow").then_some(mark)
}

fn applied(machine: &Machine, name: &str) -> bool {
    machine
        .read(APPLIED)
        .is_some_and(|names| names.lines().any(|line| line == name))
}

/// Waits until the stand-in has looked at the directory twice from now on: a file that it has not applied then, it
/// never will.
fn wait_two_passes(machine: &Machine) {
    let passes = |machine: &Machine| {
        let count = machine.read("/run/rke2-passes");
        count.map_or(0, |passes| passes.lines().count())
    };
    let before = passes(machine);
    machine.wait_until("RKE2 has made two passes", |machine| {
        passes(machine) >= before + 2
    });
}

/// Everything that must survive the daemon: the markers and the ledger, without the number of its starts.
fn kept(machine: &Machine) -> (Vec<(String, String)>, Value) {
    let names = machine.sh(&format!("cd {MANIFESTS} && find . -name '*.skip' | sort"));
    let markers = names.lines().map(|name| {
        let path = format!("{MANIFESTS}/{}", name.trim_start_matches("./"));
        (name.to_owned(), machine.read(&path).expect("a marker"))
    });
    let ledger = machine.read(LEDGER).expect("a ledger");
    let mut ledger: Value = serde_json::from_str(&ledger).expect("a ledger in JSON");
    if let Some(ledger) = ledger.as_object_mut() {
        ledger.remove("boot");
    }
    (markers.collect(), ledger)
}

/// Waits until the daemon has been restarted by systemd and is ready again.
fn wait_restarted(machine: &Machine) {
    machine.wait_until("windrow is restarted and ready", |machine| {
        machine.unit("windrow.service", "NRestarts") != "0"
            && machine.unit("windrow.service", "SubState") == "running"
    });
}

/// Makes windrow.service fail at every start, without waiting between them.
const NEVER_STARTS: &str = "[Service]\nExecStart=\nExecStart=/bin/false\nRestartSec=0\n";

#[test]
fn windrow_is_ready_with_its_markers_before_rke2_starts_and_does_not_wait_for_it() {
    if skipped() {
        return;
    }
    let machine = node().file("/etc/rke2-wait", "").boot();
    machine.wait_unit("rke2-server.service", "activating");
    // The hook before it belongs to the same job.
    machine.wait_until("rke2-server itself is started", |machine| {
        machine.monotonic("rke2-server.service", "ExecMainStartTimestamp") > 0
    });
    assert_eq!(machine.unit("windrow.service", "ActiveState"), "active");
    assert!(mark(&machine, "widget.yaml").is_some());
    assert!(mark(&machine, "vm.yaml").is_some());
    assert!(!machine.exists(&marker("free.yaml")));

    let started = machine.monotonic("windrow.service", "ExecMainStartTimestamp");
    let ready = machine.monotonic("windrow.service", "ActiveEnterTimestamp");
    let rke2 = machine.monotonic("rke2-server.service", "ExecMainStartTimestamp");
    // The first line is written by the process itself: what came before it is systemd setting up the sandbox.
    let journal = machine.journal(&["_SYSTEMD_UNIT=windrow.service"]);
    let first = journal[0]["__MONOTONIC_TIMESTAMP"].as_str();
    let first: u64 = first
        .and_then(|text| text.parse().ok())
        .expect("microseconds");
    say(&format!(
        "start to READY=1: {:.1} ms, {:.1} ms of it after the first line; READY=1 to the start of rke2-server: {:.1} ms",
        (ready - started) as f64 / 1000.0,
        ready.saturating_sub(first) as f64 / 1000.0,
        (rke2 - ready) as f64 / 1000.0
    ));
    assert!(started < ready && ready <= rke2);

    machine.sh("rm /etc/rke2-wait");
    machine.wait_unit("rke2-server.service", "active");
    machine.wait_until("RKE2 applies what is free", |machine| {
        applied(machine, "free.yaml")
    });
    assert!(!applied(&machine, "widget.yaml") && !applied(&machine, "vm.yaml"));
}

#[test]
fn the_units_are_valid_and_order_no_cycle() {
    if skipped() {
        return;
    }
    let machine = node()
        .user_data("#cloud-config\nruncmd: [[touch, /run/ran]]\n")
        .boot();
    machine.wait_booted();
    let units = [
        "windrow.service",
        "windrow-failsafe.service",
        "windrow-ready.service",
        "windrow-ready.target",
        "windrow-retry.timer",
    ];
    for unit in units {
        let path = format!("/usr/lib/systemd/system/{unit}");
        // It also loads the units that ours names; only its messages about ours count.
        let output = machine.run(&["systemd-analyze", "verify", "--man=no", &path]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // systemd before 254 has no RestartMode=.
        let ours = said
            .lines()
            .find(|line| line.contains("windrow") && !line.contains("'RestartMode'"));
        assert!(output.status.success() && ours.is_none(), "{said}");
    }
    for entry in machine.journal(&["--boot"]) {
        let message = entry["MESSAGE"].as_str().unwrap_or_default();
        assert!(!message.contains("ordering cycle"), "{message}");
    }
    assert!(
        machine.exists("/run/ran"),
        "cloud-init took part in this boot"
    );
    assert_eq!(machine.unit("windrow.service", "ActiveState"), "active");
}

#[test]
fn a_node_configured_by_cloud_init_holds_what_write_files_brought() {
    if skipped() {
        return;
    }
    let user_data = format!(
        "#cloud-config\nwrite_files:\n- path: {}\n  content: {:?}\n",
        manifest("late.yaml"),
        WIDGET
    );
    let machine = node().user_data(&user_data).boot();
    machine.wait_unit("rke2-server.service", "active");
    assert!(mark(&machine, "late.yaml").is_some());
    wait_two_passes(&machine);
    assert!(!applied(&machine, "late.yaml"));
}

#[test]
fn the_daemon_goes_by_the_configuration_that_write_files_brought() {
    if skipped() {
        return;
    }
    let file = "/etc/windrow/conf.d/20-site.yaml";
    let user_data = format!(
        "#cloud-config\nwrite_files:\n- path: {file}\n  content: |\n    staging:\n      enabled: false\n"
    );
    let machine = node().user_data(&user_data).boot();
    machine.wait_until("RKE2 applies all, as staging is off", |machine| {
        applied(machine, "widget.yaml") && applied(machine, "vm.yaml")
    });
    assert!(!machine.exists(&marker("vm.yaml")));
    let shown = machine.ok(&["windrow", "config", "show", "--origin", "-o", "json"]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let shown = shown.to_string();
    assert!(shown.contains(file), "{shown}");
}

#[test]
fn bad_configuration_is_named_by_file_and_line_and_windrow_goes_on_without_it() {
    if skipped() {
        return;
    }
    let file = "/etc/windrow/conf.d/20-site.yaml";
    let machine = node()
        .file(file, "# one line\nstagin:\n  enabled: true\n")
        .boot();
    machine.wait_unit("rke2-server.service", "active");
    machine.wait_journal(&["--unit=windrow.service"], &format!("{file}:2"));
    assert_eq!(machine.unit("windrow.service", "ActiveState"), "active");
    assert!(mark(&machine, "vm.yaml").is_some());
}

#[test]
fn runcmd_that_writes_a_manifest_and_starts_rke2_neither_hangs_nor_escapes() {
    if skipped() {
        return;
    }
    let user_data = format!(
        "#cloud-config\nwrite_files:\n- path: /root/late.yaml\n  content: {WIDGET:?}\nruncmd:\n\
         - [mkdir, -p, {MANIFESTS}]\n- [mv, /root/late.yaml, {MANIFESTS}/late.yaml]\n\
         - [systemctl, start, rke2-server.service]\n"
    );
    // A real RKE2 makes its first pass seconds after its start. The stand-in waits as long as this machine needs.
    let machine = node()
        .disabled("rke2-server.service")
        .file("/etc/rke2-wait", "")
        .user_data(&user_data)
        .boot();
    machine.wait_unit("rke2-server.service", "activating");
    machine.wait_until("the late manifest is held", |machine| {
        mark(machine, "late.yaml").is_some()
    });
    machine.sh("rm /etc/rke2-wait");
    machine.wait_unit("rke2-server.service", "active");
    machine.wait_unit("cloud-final.service", "active");
    wait_two_passes(&machine);
    assert!(!applied(&machine, "late.yaml"));
}

#[test]
fn a_manifest_that_arrives_while_rke2_runs_is_held_before_its_next_pass() {
    if skipped() {
        return;
    }
    let machine = node().boot();
    machine.wait_unit("rke2-server.service", "active");
    machine.write("/run/rke2-rest", "");
    machine.wait_until("the stand-in is between two passes", |machine| {
        machine.exists("/run/rke2-rests")
    });
    machine.write(&manifest("late.yaml"), WIDGET);
    machine.wait_until("what is new is held", |machine| {
        mark(machine, "late.yaml").is_some()
    });
    machine.ok(&["rm", "/run/rke2-rest"]);
    wait_two_passes(&machine);
    assert!(mark(&machine, "late.yaml").is_some());
    assert!(!applied(&machine, "late.yaml"));
}

#[test]
fn kill_9_loses_neither_markers_nor_ledger() {
    if skipped() {
        return;
    }
    let machine = node().boot();
    machine.wait_unit("rke2-server.service", "active");
    let before = kept(&machine);
    assert_eq!(before.0.len(), 2, "{before:?}");
    machine.ok(&["systemctl", "kill", "--signal=KILL", "windrow.service"]);
    wait_restarted(&machine);
    wait_two_passes(&machine);
    assert_eq!(kept(&machine), before);
    assert!(!applied(&machine, "vm.yaml"));
}

#[test]
fn the_watchdog_replaces_a_stopped_daemon_and_the_new_one_goes_on() {
    if skipped() {
        return;
    }
    let machine = node()
        .drop_in(
            "windrow.service",
            "[Service]\nWatchdogSec=10s\nTimeoutAbortSec=1s\n",
        )
        .boot();
    machine.wait_unit("rke2-server.service", "active");
    let before = kept(&machine);
    machine.ok(&["systemctl", "kill", "--signal=STOP", "windrow.service"]);
    wait_restarted(&machine);
    machine.wait_journal(&["--unit=windrow.service"], "Watchdog timeout");
    assert_eq!(kept(&machine), before);
    machine.write(&manifest("late.yaml"), WIDGET);
    machine.wait_until("the new daemon holds what is new", |machine| {
        mark(machine, "late.yaml").is_some()
    });
}

#[test]
fn stopping_windrow_leaves_its_holds_in_place() {
    if skipped() {
        return;
    }
    let machine = node().boot();
    machine.wait_unit("rke2-server.service", "active");
    let before = kept(&machine);
    machine.ok(&["systemctl", "stop", "windrow.service"]);
    assert_eq!(machine.unit("windrow.service", "Result"), "success");
    wait_two_passes(&machine);
    assert_eq!(kept(&machine), before);
    assert!(!applied(&machine, "widget.yaml") && !applied(&machine, "vm.yaml"));
    let failsafe = machine.unit("windrow-failsafe.service", "ActiveEnterTimestamp");
    assert_eq!(failsafe, "", "an orderly stop is no failure");
}

#[test]
fn a_reboot_keeps_the_holds_and_rke2_finds_them() {
    if skipped() {
        return;
    }
    let mut machine = node().boot();
    machine.wait_unit("rke2-server.service", "active");
    let before = kept(&machine);
    machine.reboot();
    machine.wait_unit("rke2-server.service", "active");
    wait_two_passes(&machine);
    assert_eq!(kept(&machine), before);
    assert!(!applied(&machine, "widget.yaml") && !applied(&machine, "vm.yaml"));
    // The recorded decisions of both boots are made again with the same result.
    machine.sh("systemctl stop windrow.service");
    let flight = machine.read(FLIGHT).expect("a flight");
    let flights = Flights::read(&flight).expect("flights");
    assert_eq!(flights.segments.len(), 2, "{:?}", flights.damage);
    for segment in &flights.segments {
        let mut replay = Replay::new(segment);
        let mut decisions = 0;
        while let Some(moment) = replay.step().expect("a decision") {
            assert_eq!(moment.differences, [], "line {}", moment.line);
            decisions += 1;
        }
        assert!(decisions > 0);
    }
}

#[test]
fn when_windrow_keeps_failing_the_failsafe_lifts_what_may_be_lifted_and_another_try_is_due() {
    if skipped() {
        return;
    }
    let machine = node().boot();
    machine.wait_unit("rke2-server.service", "active");
    assert_eq!(
        mark(&machine, "widget.yaml").expect("a mark")["onFailure"],
        "lift"
    );
    assert_eq!(
        mark(&machine, "vm.yaml").expect("a mark")["onFailure"],
        "keep"
    );
    machine.write(&manifest("theirs.yaml"), FREE);
    machine.write(&marker("theirs.yaml"), "\"onFailure\": \"lift\"\n");
    machine.write(
        "/etc/systemd/system/windrow.service.d/test.conf",
        NEVER_STARTS,
    );
    machine.ok(&["systemctl", "daemon-reload"]);
    machine.ok(&["systemctl", "kill", "--signal=KILL", "windrow.service"]);
    machine.wait_unit("windrow.service", "failed");
    machine.wait_until("RKE2 applies what was lifted", |machine| {
        applied(machine, "widget.yaml")
    });
    wait_two_passes(&machine);
    assert!(mark(&machine, "vm.yaml").is_some() && !applied(&machine, "vm.yaml"));
    assert!(
        machine.exists(&marker("theirs.yaml")),
        "another's marker stays"
    );
    machine.wait_unit("windrow-retry.timer", "active");
    // Whoever stops a unit that has failed does not want it in ten minutes either.
    machine.ok(&["systemctl", "stop", "windrow.service"]);
    machine.wait_unit("windrow-retry.timer", "inactive");
    let journal = machine.journal(&["--unit=windrow-failsafe.service"]);
    assert!(
        !journal.iter().any(|entry| entry["MESSAGE"]
            .as_str()
            .unwrap_or_default()
            .contains("instead")),
        "the program itself can, under this unit's sandbox: {journal:?}"
    );

    // What the timer does in the end, once the fault is gone.
    machine.sh("rm /etc/systemd/system/windrow.service.d/test.conf; systemctl daemon-reload");
    machine.ok(&["systemctl", "reset-failed", "windrow.service"]);
    machine.ok(&["systemctl", "start", "windrow.service"]);
    assert!(mark(&machine, "vm.yaml").is_some());
}

/// A manifest's name with this many bytes.
fn name_of(length: usize) -> String {
    format!("{}.yaml", "n".repeat(length - 5))
}

#[test]
fn the_failsafe_lifts_pairs_long_names_and_markers_of_any_size_and_the_journal_says_so() {
    if skipped() {
        return;
    }
    let long = name_of(250);
    let machine = node()
        .file(&manifest("pair.yaml"), WIDGET)
        .file(
            &manifest("sub/pair.yaml"),
            WIDGET.replace("widget", "other"),
        )
        .file(&manifest(&long), WIDGET.replace("widget", "long"))
        .boot();
    machine.wait_unit("rke2-server.service", "active");
    let files = ["widget.yaml", "pair.yaml", &long];
    for file in files {
        assert!(mark(&machine, file).is_some(), "{file}");
    }
    // As a version without a limit wrote it.
    let text = machine.read(&marker("widget.yaml")).expect("a marker");
    let huge = text.replacen(
        "\"why\": \"",
        &format!("\"why\": \"{}", "x".repeat(70_000)),
        1,
    );
    assert!(huge.len() > 70_000, "{text}");
    machine.write(&marker("widget.yaml"), &huge);
    machine.write(
        "/etc/systemd/system/windrow.service.d/test.conf",
        NEVER_STARTS,
    );
    machine.ok(&["systemctl", "daemon-reload"]);
    machine.ok(&["systemctl", "kill", "--signal=KILL", "windrow.service"]);
    machine.wait_unit("windrow.service", "failed");
    for file in files {
        machine.wait_until(format!("RKE2 applies {file}"), |machine| {
            applied(machine, file)
        });
    }
    machine.sh("rm /etc/systemd/system/windrow.service.d/test.conf; systemctl daemon-reload");
    machine.ok(&["systemctl", "reset-failed", "windrow.service"]);
    machine.ok(&["systemctl", "start", "windrow.service"]);
    machine.wait_journal(&["--unit=windrow.service"], "the fail-safe lifted its hold");
    let journal = machine.journal(&["--unit=windrow.service"]);
    let by_hand = journal.iter().find(|entry| {
        let message = entry["MESSAGE"].as_str().unwrap_or_default();
        message.contains("released by hand") || message.contains("removed by someone else")
    });
    assert_eq!(by_hand, None);
    for file in files {
        assert!(!machine.exists(&marker(file)), "{file}");
    }
    assert!(mark(&machine, "vm.yaml").is_some());
}

#[test]
fn a_program_that_cannot_be_executed_keeps_neither_rke2_nor_what_may_be_lifted() {
    if skipped() {
        return;
    }
    // What an earlier boot left behind.
    let mark = |on_failure| {
        format!(
            "{{\n  \"by\": \"windrow\",\n  \"file\": \"x\",\n  \"onFailure\": \"{on_failure}\",\n  \"why\": \"x\"\n}}\n"
        )
    };
    let machine = node()
        .programs_replaced("\u{7f}ELF and then nothing")
        .file(&marker("widget.yaml"), mark("lift"))
        .file(&marker("vm.yaml"), mark("keep"))
        .boot();
    machine.wait_unit("windrow.service", "failed");
    machine.wait_unit("rke2-server.service", "active");
    machine.wait_until("RKE2 applies what was lifted", |machine| {
        applied(machine, "widget.yaml")
    });
    assert!(machine.exists(&marker("vm.yaml")) && !applied(&machine, "vm.yaml"));
}

#[test]
fn a_start_that_hangs_delays_rke2_no_longer_than_its_time_limit() {
    if skipped() {
        return;
    }
    // Alive, never ready. The limit is shortened to shorten the test.
    let machine = node()
        .programs_replaced("#!/bin/sh\nexec sleep infinity\n")
        .drop_in("windrow.service", "[Service]\nTimeoutStartSec=1s\n")
        .boot();
    machine.wait_unit("rke2-server.service", "active");
    machine.wait_journal(&["--unit=windrow.service"], "start operation timed out");
}

/// Changes the readiness in the document that the daemon left, in the name of a living process.
const SPEAK: &str = "
import json, os, sys
path = '/run/windrow/status.json'
status = json.load(open(path))
status['readiness'] = sys.argv[1]
pid = sys.argv[2]
ticks = open('/proc/' + pid + '/stat').read().rsplit(')', 1)[1].split()[19]
boot = open('/proc/sys/kernel/random/boot_id').read().strip()
status['writer'] = {'pid': int(pid), 'startTicks': int(ticks), 'bootId': boot}
json.dump(status, open(path + '.new', 'w'))
os.chmod(path + '.new', 0o644)
os.rename(path + '.new', path)
";

#[test]
fn the_target_is_reached_when_the_node_is_ready_and_not_before_whoever_starts_it() {
    if skipped() {
        return;
    }
    let machine = node()
        .file(
            "/etc/systemd/system/after.service",
            "[Unit]\nAfter=windrow-ready.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
             ExecStart=/bin/true\n[Install]\nWantedBy=windrow-ready.target\n",
        )
        .boot();
    machine.wait_booted();
    assert_eq!(
        machine.unit("windrow-ready.target", "ActiveState"),
        "inactive"
    );
    machine.sh("systemctl enable after.service; systemctl stop windrow.service");
    // A daemon by its name, which is how it is known where boot ids differ.
    machine.sh("ln -s /bin/sleep /root/windrow; systemd-run --unit=speaker /root/windrow infinity");
    let pid = machine.unit("speaker.service", "MainPID");
    let speak = |readiness: &str| {
        machine.ok(&["python3", "-c", SPEAK, readiness, &pid]);
    };
    speak("SettingUp");
    machine.ok(&["systemctl", "start", "--no-block", "windrow-ready.target"]);
    machine.wait_unit("windrow-ready.service", "activating");
    assert_eq!(machine.unit("after.service", "ActiveState"), "inactive");
    speak("Ready");
    machine.wait_unit("windrow-ready.target", "active");
    machine.wait_unit("after.service", "active");
}
