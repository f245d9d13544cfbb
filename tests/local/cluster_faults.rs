//! Level 3: the real program against a kube-apiserver that refuses, lies, hangs and goes away.
//!
//! Every fault is Unknown with the reason: it releases nothing, and is no verdict on the node. Once the server answers
//! well, the waiting files are released.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;

use apiserver::{Answer, ApiServer, list};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::{Daemon, Node};

use crate::support::apiserver;
use crate::support::daemon as support;

const KUBECONFIG: &str = "/etc/rancher/rke2/rke2.yaml";

/// A file that waits for one object.
fn waits_for(reference: &str) -> String {
    let name = reference.rsplit('/').next().unwrap_or_default();
    let name = name.trim_end_matches(" (ready)");
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: after-{name}\n  namespace: default\n  annotations: \
         {{windrow.dev/depends-on: '{reference}'}}\n"
    )
}

/// A node with one file for each of these ConfigMaps, each waiting for it: `<name>.yaml`.
fn node(names: &[&str], server: &ApiServer) -> Node {
    let node = Node::with(&[]);
    for name in names {
        let text = waits_for(&format!("/namespaces/default/ConfigMap/{name} (ready)"));
        fs::write(node.manifest(&format!("{name}.yaml")), text).unwrap();
    }
    node.write(KUBECONFIG, &server.kubeconfig("first"));
    node
}

/// Requests for the ConfigMap of this name: lists, and watches.
fn of(name: &str) -> String {
    format!("metadata.name={name}&")
}

fn held(node: &Node, name: &str) -> Option<Value> {
    let file = format!("{name}.yaml");
    let held = node.status()["staging"]["held"].clone();
    held.as_array()?
        .iter()
        .find(|held| held["file"] == file.as_str())
        .cloned()
}

/// It is held, and unknown for this reason.
fn is_unknown(node: &Node, name: &str, why: &str) -> bool {
    let status = node.status();
    let readiness = status["readiness"].as_str().unwrap();
    assert!(
        ["SettingUp", "Unknown"].contains(&readiness),
        "a fault of a request is no verdict on the node: {readiness}"
    );
    assert!(node.is_marked(&format!("{name}.yaml")), "released: {name}");
    held(node, name).is_some_and(|held| {
        let said = held["why"].as_str().unwrap_or_default();
        held["code"] == "waits-for-cluster" && said.contains(why)
    })
}

/// Waits until the file is released, as it is once the daemon has recovered.
fn recovers(daemon: &Daemon, node: &Node, name: &str) {
    daemon.until(&format!("the release of {name}"), || {
        !node.is_marked(&format!("{name}.yaml"))
    });
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {}})
}

/// An object that is nested deeper than a JSON parser allows.
fn deep(name: &str) -> String {
    let nested = "[".repeat(1000) + &"]".repeat(1000);
    format!(
        r#"{{"kind":"ConfigMap","metadata":{{"name":"{name}","resourceVersion":"2"}},"data":{nested}}}"#
    )
}

#[test]
fn an_answer_that_is_none_is_unknown_with_its_reason_and_releases_nothing() {
    let server = ApiServer::start();
    let refuse = |code, reason, message| Answer::Refuse(code, reason, message);
    let in_list = |item: &str| list(&[], 1).to_string().replace("[]", &format!("[{item}]"));
    let faults = [
        ("busy", refuse(429, "TooManyRequests", "later"), "429"),
        ("broken", refuse(500, "InternalError", "etcd"), "500"),
        ("away", refuse(503, "ServiceUnavailable", "soon"), "503"),
        (
            "garbage",
            Answer::Body("<html>hello".to_owned()),
            "it is not JSON, or nested too deeply (line 1, column 1)",
        ),
        (
            "shape",
            Answer::Body(r#"{"items": 7}"#.to_owned()),
            "no list of objects",
        ),
        (
            "cut",
            Answer::Cut,
            "end of file before message length reached",
        ),
        (
            "deep",
            Answer::Body(in_list(&deep("deep"))),
            "nested too deeply",
        ),
        (
            "version",
            Answer::Body(in_list(r#"{"metadata": {"name": 5}}"#)),
            "invalid type",
        ),
    ];
    let names: Vec<&str> = faults.iter().map(|(name, ..)| *name).collect();
    let node = node(&names, &server);
    for (name, answer, _) in &faults {
        server.put("configmaps", name, config_map());
        server.fault(&of(name), answer.clone());
    }
    let daemon = node.ready();
    for (name, _, why) in &faults {
        let so = || is_unknown(&node, name, why);
        daemon.until(&format!("{name}: {why}"), so);
    }
    server.heal();
    for name in names {
        recovers(&daemon, &node, name);
    }
}

#[test]
fn a_request_that_hangs_is_given_up_and_made_again() {
    let server = ApiServer::start();
    let node = node(&["slow", "quick"], &server);
    for name in ["slow", "quick"] {
        server.put("configmaps", name, config_map());
    }
    server.fault(&of("slow"), Answer::Hang);
    let daemon = node.ready();
    recovers(&daemon, &node, "quick");
    daemon.until("the end of patience", || {
        is_unknown(&node, "slow", "no answer within")
    });
    server.heal();
    recovers(&daemon, &node, "slow");
}

#[test]
fn what_is_forbidden_is_unknown_says_what_was_asked_and_is_told_once() {
    let server = ApiServer::start();
    let node = node(&["secret"], &server);
    server.put("configmaps", "secret", config_map());
    let message =
        "configmaps \"secret\" is forbidden: no relationship found between node and this object";
    server.fault(&of("secret"), Answer::Refuse(403, "Forbidden", message));
    let daemon = node.ready();
    daemon.until("the refusal", || is_unknown(&node, "secret", message));
    let held = held(&node, "secret").unwrap();
    assert!(
        held["blockers"][0]["what"]
            .as_str()
            .unwrap()
            .contains("secret"),
        "{held}"
    );
    // It is asked again and again.
    daemon.until("three requests", || server.asked(&of("secret")) >= 3);
    assert!(is_unknown(&node, "secret", message));
    let said = daemon.said();
    let told: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("refused"))
        .collect();
    assert_eq!(told.len(), 1, "{said}");
    let asked = "/api/v1/namespaces/default/configmaps with metadata.name=secret";
    assert!(
        told[0].starts_with("warning") && told[0].contains(asked),
        "{}",
        told[0]
    );
    assert!(told[0].contains(message), "{}", told[0]);
    server.heal();
    recovers(&daemon, &node, "secret");
}

#[test]
fn a_group_whose_discovery_is_forbidden_is_unknown_and_one_that_is_not_served_is_waited_for() {
    let server = ApiServer::start();
    let node = node(&[], &server);
    let text = waits_for("apps/namespaces/default/Deployment/d (ready)");
    fs::write(node.manifest("d.yaml"), text).unwrap();
    let available = json!({"spec": {"replicas": 1}, "status": {"observedGeneration": 1,
        "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1,
        "conditions": [{"type": "Available", "status": "True"}]}});
    server.put("deployments", "d", available);
    server.fault(
        "/apis/apps",
        Answer::Refuse(403, "Forbidden", "not for you"),
    );
    let daemon = node.ready();
    daemon.until("the refusal", || is_unknown(&node, "d", "not for you"));
    assert!(
        daemon.said().contains("/apis/apps is refused: "),
        "{}",
        daemon.said()
    );
    server.heal();
    server.fault(
        "/apis/apps",
        Answer::Refuse(404, "NotFound", "no such group"),
    );
    daemon.until("the absence", || {
        held(&node, "d").is_some_and(|held| held["code"] != "waits-for-cluster")
    });
    assert!(node.is_marked("d.yaml"));
    server.heal();
    recovers(&daemon, &node, "d");
}

#[test]
fn a_status_of_wrong_types_is_unknown_and_never_ready() {
    let server = ApiServer::start();
    let node = node(&[], &server);
    let text = waits_for("apps/namespaces/default/Deployment/d (ready)");
    fs::write(node.manifest("d.yaml"), text).unwrap();
    let with = |status: Value| json!({"spec": {"replicas": 1}, "status": status});
    let daemon = node.ready();
    let lies = [
        (
            json!({"observedGeneration": [1]}),
            "observedGeneration is a list",
        ),
        (
            json!({"observedGeneration": 1, "readyReplicas": {}}),
            "readyReplicas is a map",
        ),
        (
            json!({"observedGeneration": 1, "conditions": "all"}),
            "conditions is a string",
        ),
    ];
    for (status, why) in lies {
        server.put("deployments", "d", with(status));
        daemon.until(why, || is_unknown(&node, "d", why));
    }
    server.put(
        "deployments",
        "d",
        with(
            json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1,
            "availableReplicas": 1, "readyReplicas": 1,
            "conditions": [{"type": "Available", "status": "True"}]}),
        ),
    );
    recovers(&daemon, &node, "d");
}

#[test]
fn a_watch_that_breaks_in_whatever_way_is_taken_up_again() {
    let server = ApiServer::start();
    let gone = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
    let failed = r#"{"type":"ERROR","object":{"kind":"Status","code":500,"reason":"InternalError","message":"x"}}"#;
    let says = |text: &str| Answer::Says(text.to_owned() + "\n");
    let faults = [
        ("expired", says(gone)),
        (
            "stale",
            Answer::Refuse(410, "Expired", "too old resource version"),
        ),
        ("failed", says(failed)),
        ("cut", Answer::Breaks(String::new())),
        ("garbage", says("}{")),
        ("unknown", says(r#"{"type":"DANCED","object":{}}"#)),
        (
            "deep",
            says(&format!(r#"{{"type":"ADDED","object":{}}}"#, deep("deep"))),
        ),
        (
            "other",
            says(r#"{"type":"ADDED","object":{"metadata":{"name":"another"}}}"#),
        ),
    ];
    let names: Vec<&str> = faults.iter().map(|(name, _)| *name).collect();
    let node = node(&names, &server);
    for (name, answer) in &faults {
        server.fault(&format!("watch=true {}", of(name)), answer.clone());
    }
    let daemon = node.ready();
    for name in &names {
        // A document that lacks fields, but has no wrong ones, stays open.
        let wanted = if *name == "other" { 1 } else { 2 };
        let watches = format!("watch=true {}", of(name));
        let so = || server.asked(&watches) >= wanted && held(&node, name).is_some();
        daemon.until(&format!("{name}: {wanted} watches"), so);
        assert!(node.is_marked(&format!("{name}.yaml")));
    }
    let said = daemon.said();
    // A line begins with its severity. The missing bus is reported too, but is another matter.
    let news = said.lines().any(|line| {
        (line.starts_with("warning") || line.starts_with("error")) && !line.contains("D-Bus")
    });
    assert!(!news, "no news: {said}");
    // The watches stay broken: lists bring the object.
    for name in &names {
        server.put("configmaps", name, config_map());
    }
    for name in names {
        recovers(&daemon, &node, name);
    }
}

#[test]
fn a_refused_credential_is_read_anew_and_a_rotated_one_taken_up() {
    let server = ApiServer::start();
    server.only("second");
    let node = node(&["it"], &server);
    server.put("configmaps", "it", config_map());
    let daemon = node.ready();
    // Twice: the second time with the new kubeconfig.
    daemon.until("two requests", || server.asked("/version") >= 2);
    assert_eq!(node.status()["readiness"], "Unknown");
    assert!(node.is_marked("it.yaml"));
    let refusal = format!(
        "refuses the credential of {}",
        node.path(KUBECONFIG).display()
    );
    daemon.until("the refusal", || is_unknown(&node, "it", &refusal));
    assert!(daemon.said().contains(&refusal), "{}", daemon.said());
    assert_eq!(
        server.asked("configmaps"),
        0,
        "nothing is asked with a refused credential"
    );
    node.write(KUBECONFIG, "clusters: [");
    let not_valid = format!("{}:1: not valid YAML", node.path(KUBECONFIG).display());
    daemon.until("the file's fault", || is_unknown(&node, "it", &not_valid));
    node.write(KUBECONFIG, &server.kubeconfig("second"));
    recovers(&daemon, &node, "it");

    // And in the middle of a session.
    let text = waits_for("/namespaces/default/ConfigMap/late (ready)");
    server.only("third");
    server.put("configmaps", "late", config_map());
    fs::write(node.manifest("late.yaml"), text).unwrap();
    daemon.until("the marker", || node.is_marked("late.yaml"));
    daemon.until("the refusal", || is_unknown(&node, "late", "401"));
    node.write(KUBECONFIG, &server.kubeconfig("third"));
    recovers(&daemon, &node, "late");
}

#[test]
fn a_server_that_is_away_or_answers_nothing_well_is_waited_for() {
    let server = ApiServer::start();
    let node = node(&["it"], &server);
    let port = server.port();
    server.put("configmaps", "it", config_map());
    server.fault("/", Answer::Refuse(503, "ServiceUnavailable", "starting"));
    let daemon = node.ready();
    daemon.until("503", || server.asked("/version") >= 2);
    server.heal();
    server.fault("/", Answer::Body("not JSON".to_owned()));
    let before = server.asked("/version");
    daemon.until("garbage", || server.asked("/version") >= before + 2);
    assert_eq!(node.status()["readiness"], "Unknown");
    assert!(node.is_marked("it.yaml"));
    drop(server);
    daemon.ticks(2);

    let server = ApiServer::on(port);
    daemon.until("the absence", || {
        held(&node, "it").is_some_and(|held| held["code"] == "waits-for-object")
    });
    // The server goes while a watch is open, and comes back with the object.
    drop(server);
    daemon.until("the refused connection", || {
        daemon.said().contains("kube-apiserver does not answer: ")
    });
    assert!(node.is_marked("it.yaml"));
    let server = ApiServer::on(port);
    server.put("configmaps", "it", config_map());
    recovers(&daemon, &node, "it");
    assert!(daemon.end(Signal::SIGTERM).success());
}

#[test]
fn no_command_that_its_kubeconfig_names_is_run_by_the_daemon() {
    let server = ApiServer::start();
    let node = node(&["first"], &server);
    let ran = node.path("/command-ran");
    let text = server.kubeconfig("first");
    let user = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: touch, args: ['{}']}}",
        ran.display()
    );
    let exec = text.replace("token: first", &user);
    assert_ne!(exec, text);
    node.write(KUBECONFIG, &exec);
    let daemon = node.ready();
    let is_refused = || is_unknown(&node, "first", "kube-apiserver cannot be asked");
    daemon.until("the refusal", is_refused);
    daemon.ticks(3);
    assert!(!ran.exists());
    // A person's verb runs it. It is no plugin, which is said.
    let checked = std::process::Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["drain-check", "n1", "--kubeconfig"])
        .arg(node.path(KUBECONFIG))
        .output()
        .unwrap();
    let said = String::from_utf8(checked.stderr).unwrap();
    assert!(said.contains("has printed no ExecCredential"), "{said}");
    assert!(ran.exists());
    server.put("configmaps", "first", config_map());
    node.write(KUBECONFIG, &text);
    recovers(&daemon, &node, "first");
}

#[test]
fn a_server_whose_kubeconfig_is_written_elsewhere_is_asked_too() {
    let server = ApiServer::start();
    server.put("configmaps", "web", config_map());
    let places: [(&str, &str); 2] = [
        ("/srv/kube.yaml", "the configured path"),
        (
            "/var/lib/rancher/rke2/server/cred/admin.kubeconfig",
            "RKE2's own, if the sandbox hides the configured path",
        ),
    ];
    for (path, what) in places {
        let node = node(&["web"], &server);
        fs::remove_file(node.path(KUBECONFIG)).unwrap();
        node.write(
            "/etc/rancher/rke2/config.yaml",
            "write-kubeconfig: /srv/kube.yaml\nwrite-kubeconfig-mode: '0600'\n",
        );
        let daemon = node.ready();
        assert!(node.is_marked("web.yaml"), "{what}");
        // RKE2 writes it during its start.
        node.write(path, &server.kubeconfig("first"));
        recovers(&daemon, &node, "web");
    }
}
