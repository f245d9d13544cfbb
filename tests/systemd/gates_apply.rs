//! Trials of feature gates on a booted machine: `windrow gates apply` and `rollback` against a real kube-apiserver
//! under systemd, and the state after a crash in the middle.
//!
//! It uses what a user has: the program, the units, the files, the journal, the API. Without the machine's root, root's
//! rights or the cluster's binaries each test prints one line and is skipped.

use std::fs;
use std::path::{Path, PathBuf};

use assets::Minor;
use gate_node::{
    DROP_IN, GATES, RKE2, SERVER, WISHES, findings, gates, in_effect, node, rke2, said, status,
    wait_in_effect, wishes,
};
use machine::{Builder, Machine};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::cluster::assets;
use crate::support::gate_node;
use crate::support::machine;
use crate::support::stepwise;

const TRIAL: &str = "/var/lib/rancher/windrow/gates/trial.json";
/// RKE2's directory is there before Windrow starts, as on a node that has been installed.
const SITE: &str = "/etc/rancher/rke2/config.yaml.d/50-site.yaml";

/// Starts `windrow gates …`; its output and exit code go to a file.
fn gates_begun(machine: &Machine, arguments: &str) {
    machine.sh(&format!(
        "rm -f /run/applied; (code=0; {GATES} {arguments} >/run/applying 2>&1 || code=$?; echo \"exit $code\" >>/run/applying; mv /run/applying /run/applied) >/dev/null 2>&1 &"
    ));
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

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/windrow-gates";

fn lease(machine: &Machine) -> Option<Value> {
    serde_json::from_str(&gate_node::get(machine, LEASE)?).ok()
}

/// The holder of the cluster's lease, from kube-apiserver; empty when there is none.
fn lease_holder(machine: &Machine) -> Option<String> {
    let lease = lease(machine)?;
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
    assert!(said(&asked, 64).contains("--yes"), "there was no prompt");
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
    // As at a boot: a rollback by hand is not undone by itself.
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
    let shown = said(&gates(&machine, &["check"]), 0);
    assert!(shown.contains("1 of 1 in effect as set"), "{shown}");
    assert!(shown.contains("kept"), "{shown}");
}

/// What a killed daemon has left on the disk.
struct Left(PathBuf);

impl Left {
    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.0.join(path.trim_start_matches('/'))).ok()
    }

    fn trial(&self) -> Value {
        let text = self.text(TRIAL).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Is there a trial in this state?
    fn is(&self, state: &str) -> bool {
        let trial = self.trial();
        trial["state"] == state && trial["outcome"].is_null()
    }

    fn is_over(&self, outcome: &str) -> bool {
        let trial = self.trial();
        trial["state"] == outcome && trial["outcome"] == outcome
    }

    fn has_saved(&self) -> bool {
        self.trial()["saved"].is_object()
    }

    fn sets(&self, gate: &str) -> bool {
        self.text(DROP_IN).is_some_and(|text| text.contains(gate))
    }

    /// Is there a drop-in under its temporary name?
    fn is_half_written(&self) -> bool {
        let directory = Path::new(DROP_IN.trim_start_matches('/')).parent();
        let entries = fs::read_dir(self.0.join(directory.expect("a directory")));
        entries.is_ok_and(|entries| {
            let mut names = entries.flatten().map(|entry| entry.file_name());
            names.any(|name| name.to_string_lossy().ends_with(".tmp"))
        })
    }

    fn remembers(&self, file: &str, gate: &str) -> bool {
        let path = format!("/var/lib/rancher/windrow/gates/{file}");
        self.text(&path).is_some_and(|text| text.contains(gate))
    }
}

/// A moment in a trial, by the state of the disk.
type Moment = (&'static str, fn(&Left) -> bool);

/// Asks for a trial, and kills the daemon at each of these moments in turn; systemd starts it again, and it stands still
/// at its start.
fn killed_at_each(machine: &Machine, moments: &[Moment]) {
    machine.sh("touch /run/stepwise; systemctl restart --no-block windrow");
    for (number, (moment, is_now)) in moments.iter().enumerate() {
        let daemon = machine.wait_for(format!("a daemon to kill: {moment}"), |machine| {
            machine.stopped("windrow.service")
        });
        let (left, is_now) = (Left(machine.inside("/")), *is_now);
        let killed = std::thread::spawn(move || {
            stepwise::kill_when(Pid::from_raw(daemon), || is_now(&left))
        });
        if number == 0 {
            machine.wait_unit("windrow.service", "active");
            gates_begun(machine, "apply --force --yes");
        }
        let killed = killed.join().expect("the thread that traces it");
        let left = Left(machine.inside("/"));
        if killed.is_err() || !is_now(&left) {
            machine.give_up(format!("{moment}: {killed:?}: {}", left.trial()));
        }
    }
}

/// The daemon goes on, and the trial ends.
fn goes_on(machine: &Machine, outcome: &str) {
    machine.sh("rm /run/stepwise");
    machine.wait_until(format!("the trial is {outcome}"), |machine| {
        // A process of the previous round may still be stopped.
        if let Some(daemon) = machine.stopped("windrow.service") {
            kill(Pid::from_raw(daemon), Signal::SIGCONT).expect("it goes on");
        }
        status(machine)["gates"]["trial"]["outcome"] == outcome
    });
}

fn lease_is_given_back(machine: &Machine) {
    machine.wait_until("the lease is given back", |machine| {
        lease_holder(machine).as_deref() == Some("")
    });
}

/// A node whose daemon is traced, and killed at a moment.
fn traced_node() -> Option<Builder> {
    let node = node(Minor::V1_36)?
        .file(SITE, "debug: false\n")
        .script(
            "/usr/local/bin/windrow-stepwise",
            "#!/bin/sh\n[ ! -e /run/stepwise ] || kill -STOP $$\nexec /usr/bin/windrowd\n",
        )
        // It stops at every system call, and is killed more often than systemd allows.
        .drop_in(
            "windrow.service",
            "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=\nExecStart=/usr/local/bin/windrow-stepwise\n\
             RestartSec=100ms\nTimeoutStartSec=5min\nWatchdogSec=10min\nNice=-15\n",
        )
        // Only the trial restarts it: the hook before its starts would end the trial at the third one.
        .drop_in(SERVER, "[Service]\nRestartSec=1h\nTimeoutStopSec=3s\n");
    Some(node)
}

#[test]
fn a_daemon_that_is_killed_at_every_step_of_a_trial_finishes_it() {
    let Some(node) = traced_node() else {
        return;
    };
    let machine = node.boot();
    machine.wait_unit(SERVER, "active");
    wish(&machine, "    APIResponseCompression: false\n");
    killed_at_each(
        &machine,
        &[
            ("it is asked for", |left| left.is("idle")),
            ("the lease is taken", |left| {
                left.is("leased") && !left.has_saved()
            }),
            ("what works is saved", |left| {
                left.is("leased") && left.has_saved()
            }),
            ("it is to be written", |left| {
                left.is("saved") && !left.sets("APIResponseCompression") && !left.is_half_written()
            }),
            ("it is written under its temporary name", |left| {
                left.is("saved") && !left.sets("APIResponseCompression") && left.is_half_written()
            }),
            ("it is written", |left| {
                left.is("saved") && left.sets("APIResponseCompression")
            }),
            ("it is known to be written", |left| left.is("written")),
            ("rke2-server is to be restarted", |left| {
                left.is("restarting")
            }),
            ("rke2-server was restarted", |left| left.is("verifying")),
            ("it is remembered as good", |left| {
                left.is("verifying")
                    && left.remembers("last-known-good/gates.json", "APIResponseCompression")
            }),
            ("it is kept", |left| left.is_over("kept")),
        ],
    );
    goes_on(&machine, "kept");
    lease_is_given_back(&machine);
    assert_eq!(in_effect(&machine, "APIResponseCompression"), Some(false));
    let good = machine.read(DROP_IN).expect("a drop-in");

    wish(
        &machine,
        "    APIResponseCompression: false\n    NotAGate: true\n",
    );
    killed_at_each(
        &machine,
        &[
            ("it is written", |left| {
                left.is("saved") && left.sets("NotAGate")
            }),
            ("its refusal is remembered", |left| {
                left.is("verifying") && left.remembers("refused.json", "NotAGate")
            }),
            ("what was saved is to be put back", |left| {
                left.is("rolling-back") && left.sets("NotAGate")
            }),
            ("what was saved is back", |left| {
                left.is("rolling-back") && !left.sets("NotAGate")
            }),
            ("it is rolled back", |left| left.is_over("rolled-back")),
        ],
    );
    goes_on(&machine, "rolled-back");
    lease_is_given_back(&machine);
    assert_eq!(machine.read(DROP_IN), Some(good));
    wait_in_effect(&machine, "APIResponseCompression", false);
}

#[test]
fn a_daemon_that_comes_back_when_another_server_has_its_turn_restarts_nothing() {
    let Some(node) = traced_node() else {
        return;
    };
    let machine = node
        .file("/etc/windrow/conf.d/policy.yaml", "gates: {patience: 5s}\n")
        .boot();
    machine.wait_unit(SERVER, "active");
    let runs = machine.unit(SERVER, "InvocationID");
    wish(&machine, "    APIResponseCompression: false\n");
    killed_at_each(&machine, &[("it is written", |left| left.is("written"))]);
    // It was away for so long that its lease ran out.
    let mut taken = lease(&machine).expect("the lease");
    taken["spec"]["holderIdentity"] = "another server".into();
    taken["spec"]["leaseDurationSeconds"] = 86_400.into();
    let written = gate_node::request(&machine, "PUT", LEASE, &taken.to_string());
    written.expect("the lease is the other server's");
    goes_on(&machine, "not-tried");
    let why = status(&machine)["gates"]["trial"]["why"].to_string();
    assert!(why.contains("its turn in the cluster was lost"), "{why}");
    assert!(why.contains("another server has the lease"), "{why}");
    assert!(!machine.exists(DROP_IN));
    assert_eq!(machine.unit(SERVER, "InvocationID"), runs);
    assert_eq!(lease_holder(&machine).as_deref(), Some("another server"));
    // It says nothing about the gate.
    gate_node::request(&machine, "DELETE", LEASE, "").expect("the lease is free");
    machine.sh("printf 'gates: {patience: 10m}\n' >/etc/windrow/conf.d/policy.yaml; systemctl reload windrow");
    said(&gates(&machine, &["apply", "--yes"]), 0);
    assert_eq!(in_effect(&machine, "APIResponseCompression"), Some(false));
}

#[test]
fn who_asked_for_a_trial_is_told_by_the_daemon_that_comes_after_one_that_was_killed() {
    let Some(node) = node(Minor::V1_36) else {
        return;
    };
    let machine = node.file(SITE, "debug: false\n").boot();
    machine.wait_unit(SERVER, "active");
    wish(&machine, "    APIResponseCompression: false\n");
    gates_begun(&machine, "apply --yes");
    machine.wait_until("the trial is under way", |machine| {
        trial(machine)["state"] == "restarting" || trial(machine)["state"] == "verifying"
    });
    machine.sh("systemctl kill --signal=KILL --kill-whom=main windrow");
    machine.wait_until("it ends as it should", |machine| {
        let said = machine.read("/run/applied");
        said.is_some_and(|text| text.contains("kept: ") && text.contains("exit 0"))
    });
    wait_in_effect(&machine, "APIResponseCompression", false);
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
    // It is restarted, whether or not the restart was queued before.
    machine.sh(&format!(
        "systemctl mask --runtime windrow; systemctl kill --signal=KILL --kill-whom=main windrow; systemctl restart --no-block {SERVER}"
    ));
    machine.wait_until("it is put back", |machine| !machine.exists(DROP_IN));
    // RKE2 fails with it again and again, until the hook before its start removes it.
    wait_in_effect(&machine, "APIResponseCompression", true);
    assert!(!machine.exists(DROP_IN));
    let refused = machine
        .read("/var/lib/rancher/windrow/gates/refused.json")
        .expect("it is remembered");
    assert!(
        refused.contains("unrecognized feature gate: NotAGate"),
        "{refused}"
    );

    let refused = said(&gates(&machine, &["apply", "--yes"]), 1);
    assert!(refused.contains("it does not run"), "{refused}");
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
