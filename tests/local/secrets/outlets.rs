//! The outlets of a daemon with secrets in all its files and an API that quotes secrets back, and the output of each
//! command on the same files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::apiserver::{Answer, ApiServer};
use super::bus::{Bus, Who};
use super::console::console;
use super::node::planted;
use super::plant::{Class, Planter, corpus, lines};
use super::support::Node;
use super::windrow;

/// Far longer than anything takes: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(180);
const HARVESTER: &str = "/oem/harvester.config";

/// A text and the outlet that it came from.
pub(crate) type Said = Vec<(String, Vec<u8>)>;

pub(crate) fn nothing_in(planter: &Planter, said: &Said) {
    let texts = said.iter();
    planter.nothing_in(texts.map(|(of, text)| (of.clone(), text.as_slice())));
}

/// Everything that a command prints.
pub(crate) fn say(node: &Node, said: &mut Said, arguments: &[&str]) {
    let output = windrow(node, arguments);
    let of = arguments.join(" ");
    let code = output.status.code();
    assert!(code.is_some_and(|code| code < 100), "{of}: {output:?}");
    said.push((of.clone(), output.stdout));
    said.push((format!("{of}, standard error"), output.stderr));
}

/// Every file below a directory.
pub(crate) fn files(below: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    let mut open = vec![below.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => open.push(entry.path()),
                kind if kind.is_file() => {
                    all.insert(entry.path());
                }
                _ => {}
            }
        }
    }
    all
}

/// Manifests that cannot be read, each for a different reason, with a secret at the fault or beside it.
fn unreadable(planter: &mut Planter, node: &Node) {
    let mut secret = |what: &str| planter.password(&format!("unreadable: {what}"));
    let head = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n";
    let whole = [
        (
            "alias",
            format!("{head}stringData: {{password: *{}}}\n", secret("alias")),
        ),
        (
            "tag",
            format!("{head}stringData:\n  password: !{} x\n", secret("tag")),
        ),
        (
            "anchor",
            format!(
                "{head}stringData:\n  a: &{0} x\n  password: \"{0}\n",
                secret("anchor")
            ),
        ),
        (
            "quote",
            format!("{head}stringData:\n  password: \"{}\n", secret("quote")),
        ),
        (
            "bare",
            format!("{head}stringData:\n  user: ann\n  {}\n", secret("bare")),
        ),
        (
            "two",
            format!(
                "{head}stringData:\n  {0}: a\n  {0}: b\n",
                secret("two keys")
            ),
        ),
        (
            "tab",
            format!("{head}stringData:\n\tpassword: {}\n", secret("tab")),
        ),
        (
            "colon",
            format!("{head}stringData:\n  password: a: {}\n", secret("colon")),
        ),
        (
            "escape",
            format!(
                "{head}stringData:\n  password: \"\\{}\"\n",
                secret("escape")
            ),
        ),
        (
            "percent",
            format!("{head}stringData:\n  password: %{}\n", secret("percent")),
        ),
        (
            "at",
            format!("{head}stringData:\n  password: @{}\n", secret("at")),
        ),
        (
            "brace",
            format!("{head}stringData: {{password: {}\n", secret("brace")),
        ),
        (
            "base64",
            format!("{head}data: {{password: {}!}}\n", secret("base64")),
        ),
        ("list", format!("{head}data: [{}]\n", secret("list"))),
        ("text", format!("{head}data: {}\n", secret("text"))),
        ("scalar", format!("{}\n", secret("scalar"))),
        (
            "version",
            format!(
                "apiVersion: [{}]\nkind: Secret\nmetadata: {{name: s}}\n",
                secret("version")
            ),
        ),
        (
            "kind",
            format!(
                "apiVersion: v1\nkind: {{a: {}}}\nmetadata: {{name: s}}\n",
                secret("kind")
            ),
        ),
        (
            "metadata",
            format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {}\n",
                secret("metadata")
            ),
        ),
        (
            "name",
            format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: [{}]}}\n",
                secret("name")
            ),
        ),
        (
            "directive",
            format!("%{} x\n---\n{head}", secret("directive")),
        ),
        (
            "json",
            format!(
                "{{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"data\": {{\"password\": {}}}\n",
                secret("json")
            ),
        ),
        (
            "chart",
            format!(
                "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {{name: c}}\nspec: {{valuesContent: \"password: *{}\"}}\n",
                secret("chart")
            ),
        ),
        (
            "setting",
            format!(
                "apiVersion: harvesterhci.io/v1beta1\nkind: Setting\nmetadata: {{name: storage-network}}\nvalue: '{{\"password\": {}'\n",
                secret("setting")
            ),
        ),
    ];
    for (name, text) in whole {
        let path = format!("/var/lib/rancher/rke2/server/manifests/00-{name}.yaml");
        node.write(&path, &text);
    }
}

/// Files that each wait for an object about which the API quotes secrets, in a refusal or a condition.
fn quoted_back(planter: &mut Planter, node: &Node, server: &ApiServer) -> usize {
    let mut messages: Vec<String> = corpus()
        .iter()
        .filter(|entry| matches!(entry.class, Class::Text | Class::Shape))
        .map(|entry| {
            format!(
                "it says {} so",
                planter.plant(entry, "an answer of the API")
            )
        })
        .collect();
    for key in corpus().iter().filter(|entry| entry.class == Class::Key) {
        let field = format!("spec.{}", key.name);
        messages.push(format!(
            "Widget \"w\" is invalid: {field}: Invalid value: \"{}\": {field} in body should be at least 30 chars long",
            planter.plant(key, "a field's error")
        ));
    }
    let some: Vec<String> = messages.chunks(4).map(|some| some.join("; ")).collect();
    for (at, message) in some.iter().enumerate() {
        let path = format!("/var/lib/rancher/rke2/server/manifests/80-after-{at}.yaml");
        let kind = if at % 2 == 0 {
            "ConfigMap"
        } else {
            "Deployment.apps"
        };
        let (group, kind) = kind
            .split_once('.')
            .map_or(("", kind), |(kind, group)| (group, kind));
        let depends = format!("{group}/namespaces/default/{kind}/o{at} (ready)");
        node.write(
            &path,
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("a{at}"),
            "namespace": "default", "annotations": {"windrow.dev/depends-on": depends}}})
            .to_string(),
        );
        if at % 2 == 0 {
            let message: &'static str = message.clone().leak();
            server.fault(
                &format!("metadata.name=o{at}&"),
                Answer::Refuse(403, "Forbidden", message),
            );
        } else {
            server.put("deployments", &format!("o{at}"), json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "spec": {"replicas": 1}, "status": {"observedGeneration": 1, "replicas": 1, "conditions": [
                    {"type": "Available", "status": "False", "reason": "No", "message": message},
                    {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": message}]}}));
        }
    }
    some.len()
}

#[test]
fn nothing_planted_comes_out_of_any_outlet_of_the_daemon() {
    let Some(bus) = Bus::start() else { return };
    let mut planter = Planter::new();
    let server = ApiServer::start();
    let (url, requests) = console();
    let node = planted(&mut planter, &url);
    unreadable(&mut planter, &node);
    let waiting = quoted_back(&mut planter, &node, &server);
    node.write(
        "/etc/rancher/rke2/rke2.yaml",
        &server.kubeconfig(&planter.password("kubeconfig")),
    );
    let before = files(node.root.path());

    let mut program = Command::new(env!("CARGO_BIN_EXE_windrowd"));
    program.env("DBUS_SYSTEM_BUS_ADDRESS", bus.address());
    let daemon = node.start_with(program, false);
    daemon.hear("READY=1");
    let held = || {
        let status = node.status();
        status["staging"]["held"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    daemon.eventually("every answer of the API to be reported", || {
        let told = held()
            .iter()
            .filter(|held| {
                let why = held["why"].as_str().unwrap_or_default();
                held["file"]
                    .as_str()
                    .is_some_and(|file| file.starts_with("80-"))
                    && (why.contains("403")
                        || why.contains("[redacted]")
                        || why.contains("vailable"))
            })
            .count();
        told == waiting
    });
    daemon.eventually("the name on the bus", || bus.is_owned());
    let first = requests.recv_timeout(DEADLINE);
    let (head, body) = first.unwrap_or_else(|_| panic!("nothing arrives: {}", daemon.said()));

    let mut said: Said = vec![
        ("a webhook's head".to_owned(), head.into_bytes()),
        ("a webhook's body".to_owned(), body.into_bytes()),
        ("the daemon's log".to_owned(), daemon.said().into_bytes()),
    ];
    for name in [
        "Readiness",
        "Phase",
        "Summary",
        "ReasonCode",
        "ReasonMessage",
        "ReasonAdvice",
    ] {
        if let Ok(value) = bus.property(Who::Nobody, name) {
            said.push((format!("property {name}"), value.into_bytes()));
        }
    }
    let status = bus.method(Who::Nobody, "Status", &[]).unwrap();
    said.push(("Status".to_owned(), status.into_bytes()));
    for held in held() {
        let file = held["file"].as_str().unwrap();
        let why = loop {
            match bus.method(Who::Nobody, "Why", &[&format!("string:{file}")]) {
                // There are more files than a user may ask about at once.
                Err(refused) if refused.contains("LimitsExceeded") => {}
                answered => break answered.unwrap(),
            }
        };
        said.push((format!("Why {file}"), why.into_bytes()));
    }
    for arguments in [
        &["status"][..],
        &["status", "-o", "json"],
        &["console", "--once"],
        &["why", "80-after-0.yaml"],
        &["why", "80-after-1.yaml", "-o", "json"],
        &["why", "00-alias.yaml"],
        &["why", "10-secret.yaml", "-o", "json"],
        &["why", "registry"],
        &["diagnose"],
        &["diagnose", "-o", "json"],
        &["gates"],
    ] {
        say(&node, &mut said, arguments);
    }
    // Everything that it wrote: status, markers, ledger, flight, login screens.
    let written: Vec<PathBuf> = files(node.root.path())
        .difference(&before)
        .cloned()
        .collect();
    assert!(
        written.iter().any(|path| path.ends_with("flight.jsonl")),
        "{written:?}"
    );
    assert!(
        written
            .iter()
            .any(|path| path.ends_with("10-secret.yaml.skip")
                || path.ends_with("00-alias.yaml.skip")),
        "{written:?}"
    );
    for path in &written {
        said.push((
            path.display().to_string(),
            fs::read(path).unwrap_or_default(),
        ));
    }
    let flight = node.path("/var/lib/rancher/windrow/flight.jsonl");
    let flight = flight.to_str().unwrap();
    for arguments in [
        &["replay", flight][..],
        &["replay", flight, "-o", "json"],
        &["replay", flight, "--why", "80-after-0.yaml"],
        &["timeline", "--from", flight],
        &["timeline", "--from", flight, "-o", "json"],
    ] {
        say(&node, &mut said, arguments);
    }
    let archive = node.path("/archive.tar.gz");
    let archive = archive.to_str().unwrap();
    say(&node, &mut said, &["report", "--output-file", archive]);
    for output in ["table", "json"] {
        say(
            &node,
            &mut said,
            &["diagnose", "--from", archive, "-o", output],
        );
    }
    let packed = windrow::archive::Archive::read(fs::File::open(archive).unwrap()).unwrap();
    said.extend(
        packed
            .files
            .into_iter()
            .map(|(path, text)| (format!("report: {path}"), text)),
    );
    nothing_in(&planter, &said);
}

#[test]
fn nothing_planted_comes_out_of_a_command_that_reads_the_files() {
    let mut planter = Planter::new();
    let node = planted(&mut planter, "http://127.0.0.1:1");
    unreadable(&mut planter, &node);
    let mut said = Said::new();
    for output in ["table", "json", "svg", "dot", "mermaid"] {
        say(&node, &mut said, &["plan", "-o", output]);
    }
    // Those that can be read, and a configuration that carries more.
    let carried = node.path("/carried");
    fs::create_dir_all(&carried).unwrap();
    let config = carried.join("harvester.config");
    fs::copy(node.path(HARVESTER), &config).unwrap();
    for path in files(&node.manifests()) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.starts_with("00-") {
            fs::copy(&path, carried.join(name)).unwrap();
        }
    }
    let paths = [config.to_str().unwrap(), carried.to_str().unwrap()];
    for output in ["table", "json", "svg"] {
        say(
            &node,
            &mut said,
            &[&["plan", "-o", output], &paths[..]].concat(),
        );
    }
    for output in ["text", "json", "html"] {
        say(
            &node,
            &mut said,
            &[
                &["check", "--details", "--runs", "2", "-o", output],
                &paths[..1],
            ]
            .concat(),
        );
        say(
            &node,
            &mut said,
            &[
                &["check", "--details", "--runs", "2", "-o", output],
                &paths[1..],
            ]
            .concat(),
        );
    }
    for arguments in [
        &["config", "show"][..],
        &["config", "show", "--origin"],
        &["config", "show", "-o", "json"],
        &["config", "check"],
        &["config", "check", paths[0]],
        &["gates"],
        &["gates", "-o", "json"],
    ] {
        say(&node, &mut said, arguments);
    }
    nothing_in(&planter, &said);
}

/// A valid configuration of Windrow, with everything in it.
fn right() -> Value {
    json!({
        "staging": {"enabled": true, "rescan": "1h", "blindDeadline": "1s"},
        "webhooks": [{"event": "NODE_READY", "url": "https://console.example/x", "headers": {"X-Any": ["a"]},
            "basicAuth": {"user": "ann", "password": "b"}, "payload": "c"}],
        "probes": {"custom": {"registry": {"http": {"url": "https://registry.example/v2/", "status": 200, "contains": "d"}}}},
        "statusServer": {"enabled": false, "listen": "127.0.0.1:1"},
    })
}

/// Every place in a tree.
fn places(tree: &Value, at: &str, all: &mut Vec<String>) {
    match tree {
        Value::Object(fields) => {
            for (key, value) in fields {
                all.push(format!("{at}/{key}"));
                places(value, &format!("{at}/{key}"), all);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                all.push(format!("{at}/{index}"));
                places(value, &format!("{at}/{index}"), all);
            }
        }
        _ => {}
    }
}

#[test]
fn a_secret_in_a_wrong_place_of_a_configuration_is_not_quoted() {
    let mut planter = Planter::new();
    let node = Node::empty();
    let mut all = Vec::new();
    places(&right(), "", &mut all);
    let (mut conf, mut rke2) = (Vec::new(), Vec::new());
    for (at, place) in all.iter().enumerate() {
        let mut wrong = |form: fn(String) -> Value| {
            let mut tree = right();
            *tree.pointer_mut(place).unwrap() =
                form(planter.password(&format!("wrong at {place}")));
            tree.to_string()
        };
        for (form, text) in [
            wrong(|secret| format!("https://hooks.slack.com/services/T0/B0/{secret}").into()),
            wrong(|secret| json!([format!("token={secret}")])),
            wrong(|secret| json!({"password": secret})),
        ]
        .into_iter()
        .enumerate()
        {
            conf.push((format!("/etc/windrow/conf.d/{}-{form}.yaml", at + 10), text));
        }
    }
    for (at, line) in lines(&mut planter, "a line of a configuration", "")
        .iter()
        .enumerate()
    {
        if at % 20 == 0 {
            rke2.push((
                format!("/etc/rancher/rke2/config.yaml.d/{at}.yaml"),
                format!("{line}\n"),
            ));
            conf.push((
                format!("/etc/windrow/conf.d/{at}-line.yaml"),
                format!("{line}\n"),
            ));
        }
    }
    for (path, text) in conf.iter().chain(&rke2) {
        node.write(path, text);
    }
    let mut said = Said::new();
    for arguments in [
        &["config", "check"][..],
        &["config", "show"],
        &["plan"],
        &["gates"],
        &["status"],
    ] {
        say(&node, &mut said, arguments);
    }
    let daemon = node.ready();
    said.push(("the daemon's log".to_owned(), daemon.said().into_bytes()));
    said.push(("status".to_owned(), node.status().to_string().into_bytes()));
    nothing_in(&planter, &said);
}
