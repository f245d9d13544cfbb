//! What is the same of every verb: each JSON document is written as YAML too, and `-` stands for each file that is read.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use clap::Arg;
use serde_json::Value;
use tempfile::TempDir;
use windrow_model::manifest::yaml;

use super::cli::STATUS;
use super::preflight::MACHINE;
use crate::support::rooted::root_for;

const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: nowhere}\n";
const GATES: &str = "kube-apiserver-arg:\n- feature-gates=AuthorizeNodeWithSelectors=false\n";
const SETTINGS: &str = "staging: {advisoryDeadline: 5m}\n";
const PACK: &str = "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: site}\nprovides:\n  - {by: our image, objects: [{kind: Namespace, name: nowhere}]}\n";
const KNOWLEDGE: &str = "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {name: site}\nentries:\n- {name: a, by: {chart: a}, namespaces: [a], source: a 1.0}\n";
const ACCEPTED: &str = "apiVersion: windrow.dev/v1\nkind: AcceptedFindings\naccept:\n- code: object-without-provider\n  reason: our image has it\n";
const OBJECTS: &str =
    r#"{"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n1"}}]}"#;
/// Refused before anything is sent.
const IPV6: &str = "install: {vip: '2001:db8::1'}\n";
const NODES: &str = "name,mac\nn1,52:54:00:00:00:01\n";
const IMAGES: &str = "example.com/a:v1\n";

fn flight() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flights/first-vm.jsonl");
    fs::read_to_string(path).unwrap()
}

/// A directory with a file of each kind.
fn files() -> TempDir {
    let directory = TempDir::new().unwrap();
    for (name, text) in [
        ("manifest.yaml", MANIFEST),
        ("gates.yaml", GATES),
        ("settings.yaml", SETTINGS),
        ("status.json", STATUS),
        ("objects.json", OBJECTS),
        ("flight.jsonl", &flight()),
        ("machine.json", MACHINE),
        ("knowledge.yaml", KNOWLEDGE),
        ("nodes.csv", NODES),
        ("run/windrow/status.json", STATUS),
    ] {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn run(directory: &TempDir, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(root_for(directory.path(), arguments))
        .args(arguments)
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A verb that reads nothing may be gone already.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

/// Every verb and verb of a verb, by its words.
fn verbs() -> Vec<(String, Vec<Arg>)> {
    fn walk(command: &clap::Command, above: &str, found: &mut Vec<(String, Vec<Arg>)>) {
        for verb in command.get_subcommands() {
            let words = format!("{above} {}", verb.get_name()).trim().to_owned();
            found.push((words.clone(), verb.get_arguments().cloned().collect()));
            walk(verb, &words, found);
        }
    }
    let mut found = Vec::new();
    walk(&windrow::cli::command(), "", &mut found);
    found
}

/// A command line for every verb that has a JSON document.
const DOCUMENTS: &[(&str, &str)] = &[
    ("timeline", "--from flight.jsonl"),
    ("check", "--runs 2 manifest.yaml"),
    ("config show", "--origin"),
    ("diagnose", "--from objects.json"),
    ("drain-check", "n1 --from objects.json"),
    ("drain-check", "--all --from objects.json"),
    ("gates check", "--rke2 v1.33 gates.yaml"),
    ("knowledge show", "--rules knowledge.yaml"),
    ("plan", "manifest.yaml"),
    ("preflight", "--platform harvester --from machine.json"),
    ("rack", "--once --listen 127.0.0.1:1 --nodes nodes.csv"),
    ("check", "--details --runs 2 manifest.yaml"),
    ("replay", "flight.jsonl"),
    ("replay", "flight.jsonl --harvester v1.5.1"),
    ("status", ""),
    ("upgrade-check", "--harvester v1.8.2 --from objects.json"),
    ("version", ""),
    ("why", "vm.yaml --from status.json"),
];

#[test]
fn every_verb_with_a_json_document_writes_the_same_value_as_yaml() {
    let formats = |arg: &Arg| -> BTreeSet<String> {
        let values = arg.get_possible_values();
        values.iter().map(|one| one.get_name().to_owned()).collect()
    };
    let verbs = verbs();
    let with_json = verbs.iter().filter(|(_, arguments)| {
        let mut arguments = arguments.iter();
        arguments.any(|arg| arg.get_id() == "output" && formats(arg).contains("json"))
    });
    let with_json: BTreeSet<&str> = with_json.map(|(verb, _)| verb.as_str()).collect();
    let tried: BTreeSet<&str> = DOCUMENTS.iter().map(|(verb, _)| *verb).collect();
    assert_eq!(with_json, tried);
    let directory = files();
    for (verb, arguments) in DOCUMENTS {
        let run = |format: &str| {
            let words = verb.split(' ').chain(arguments.split_whitespace());
            let words: Vec<&str> = words.chain(["-o", format]).collect();
            run(&directory, &words, "")
        };
        let (json, yaml) = (run("json"), run("yaml"));
        assert_eq!(json.status.code(), yaml.status.code(), "{verb}");
        let mut expected: Value = serde_json::from_slice(&json.stdout)
            .unwrap_or_else(|error| panic!("{verb}: {error}: {json:?}"));
        let text = String::from_utf8(yaml.stdout.clone()).unwrap();
        assert!(!text.starts_with('{'), "{verb}: {text}");
        let root = yaml::parse_configuration(&text);
        let mut value = root
            .unwrap_or_else(|why| panic!("{verb}: {why:?}\n{text}"))
            .unwrap()
            .to_json();
        assert!(expected["kind"].is_string(), "{verb}: {expected}");
        // Saved lists do not say when they were saved, and a rack says when it is.
        if matches!(*verb, "diagnose" | "rack") {
            expected["at"] = Value::Null;
            value["at"] = Value::Null;
        }
        assert_eq!(
            with_plain_numbers(value),
            with_plain_numbers(expected),
            "{verb}"
        );
    }
}

#[test]
fn quiet_leaves_the_exit_code_and_nothing_on_standard_output() {
    let directory = files();
    let mut tried = BTreeSet::new();
    for (verb, arguments) in DOCUMENTS {
        let words: Vec<&str> = verb.split(' ').collect();
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let takes_quiet = verbs().iter().any(|(name, options)| {
            name == verb && options.iter().any(|arg| arg.get_id() == "quiet")
        });
        if !takes_quiet {
            continue;
        }
        tried.insert(*verb);
        let loud = run(&directory, &[&words[..], &arguments[..]].concat(), "");
        let words = [&words[..], &["--quiet"], &arguments[..]].concat();
        let quiet = run(&directory, &words, "");
        assert!(!loud.stdout.is_empty(), "{verb}: {loud:?}");
        assert_eq!(quiet.stdout, b"", "{verb}");
        assert_eq!(quiet.status.code(), loud.status.code(), "{verb}");
    }
    let expected = [
        "check",
        "plan",
        "preflight",
        "gates check",
        "diagnose",
        "upgrade-check",
        "drain-check",
    ];
    assert_eq!(tried, expected.into());
}

/// JSON's 1.0 is the same number as 1.
fn with_plain_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::from(number.as_f64()),
        Value::Array(items) => items.into_iter().map(with_plain_numbers).collect(),
        Value::Object(entries) => {
            let entries = entries.into_iter();
            entries
                .map(|(key, value)| (key, with_plain_numbers(value)))
                .collect()
        }
        value => value,
    }
}

/// Files that a command line names and that are not read, or not by a verb that could read them elsewhere.
const NOT_READ: &[(&str, &str)] = &[
    // Written.
    ("check", "fix"),
    ("check", "write"),
    ("report", "output_file"),
    ("knowledge learn", "output_file"),
    ("sandbox", "directory"),
    // Directories of the installer image.
    ("installer", "host"),
    ("installer", "image"),
    // Names of manifests that are there.
    ("hold", "files"),
    ("release", "files"),
    // Read again whenever they change.
    ("diagnose", "kubeconfig"),
    ("drain-check", "kubeconfig"),
    ("repair", "kubeconfig"),
    ("report", "kubeconfig"),
    ("upgrade-check", "kubeconfig"),
    ("rack", "kubeconfig"),
    ("rack", "tls_cert_file"),
    ("rack", "tls_key_file"),
    ("rack", "token_file"),
    ("rack", "ask_token_file"),
    ("rack", "ca_file"),
    ("rack", "state"),
    // A directory that is written to.
    ("preflight", "disk_test"),
];

/// A command line for every file that is read, in which `@` is the file; and its content.
const READ: &[(&str, &str, &str, &str)] = &[
    ("check", "paths", "--runs 1 -o json @", MANIFEST),
    ("check", "node", "--runs 1 -o json --node n1=@", MANIFEST),
    (
        "check",
        "rules",
        "--runs 1 -o json manifest.yaml --rules @",
        PACK,
    ),
    (
        "check",
        "accept",
        "--runs 1 -o json manifest.yaml --accept @",
        ACCEPTED,
    ),
    (
        "check",
        "images",
        "--runs 1 -o json manifest.yaml --images @",
        IMAGES,
    ),
    ("plan", "paths", "-o json @", MANIFEST),
    ("plan", "rules", "-o json manifest.yaml --rules @", PACK),
    (
        "rack",
        "nodes",
        "--once --listen 127.0.0.1:1 --nodes @",
        "- n1\n",
    ),
    ("gates check", "paths", "--rke2 v1.34 -o json @", GATES),
    ("config check", "paths", "@", SETTINGS),
    ("preflight", "config", "-o json --from machine.json @", IPV6),
    (
        "preflight",
        "from",
        "--platform harvester -o json --from @",
        MACHINE,
    ),
    ("knowledge show", "rules", "-o json --rules @", KNOWLEDGE),
    ("knowledge learn", "from", "@", "a flight"),
    ("why", "from", "vm.yaml -o json --from @", STATUS),
    ("timeline", "from", "-o json --from @", "a flight"),
    ("diagnose", "from", "@from", OBJECTS),
    ("drain-check", "from", "n1 -o json --from @", OBJECTS),
    ("upgrade-check", "from", "-o json --from @", OBJECTS),
    ("replay", "flight", "-o json @", "a flight"),
    ("replay", "rules", "-o json flight.jsonl --rules @", PACK),
    ("add", "files", "@", MANIFEST),
    // Refused: playing one takes long.
    ("sandbox", "config", "--config @", MANIFEST),
];

#[test]
fn a_dash_is_standard_input_for_every_file_that_is_read() {
    let named: BTreeSet<&str> = [
        "FILE",
        "PATH",
        "CONFIG",
        "FLIGHT",
        "DIR",
        "NAME=CONFIG",
        "FORMAT=FILE",
        "FLIGHT|REPORT|DIRECTORY",
        "BEFORE",
        "AFTER",
    ]
    .into();
    let mut expected = BTreeSet::new();
    for (verb, arguments) in verbs() {
        for arg in arguments.iter().filter(|arg| arg.get_id() != "root") {
            let names = arg.get_value_names().unwrap_or_default();
            if names.iter().any(|name| named.contains(name.as_str())) {
                expected.insert((verb.clone(), arg.get_id().to_string()));
            }
        }
    }
    let read = READ.iter().map(|(verb, arg, ..)| (*verb, *arg));
    let known = read.chain(NOT_READ.iter().copied());
    let known: BTreeSet<(String, String)> = known
        .map(|(verb, arg)| (verb.to_owned(), arg.to_owned()))
        .collect();
    assert_eq!(expected, known);
    for (verb, arg, line, content) in READ {
        let flight = flight();
        let content = match *content {
            "a flight" => flight.as_str(),
            content => content,
        };
        let try_with = |name: &str, input: &str| {
            let directory = files();
            let manifests = directory
                .path()
                .join("var/lib/rancher/rke2/server/manifests");
            fs::create_dir_all(manifests).unwrap();
            fs::write(directory.path().join("stdin.yaml"), content).unwrap();
            let line = match *line {
                // Its document has the time.
                "@from" => "--from @",
                line => line,
            };
            let line = line.replace('@', name);
            let mut words: Vec<&str> = verb.split(' ').chain(line.split(' ')).collect();
            if (*verb, name) == ("add", "-") {
                words.extend(["--name", "stdin.yaml"]);
            }
            let output = run(&directory, &words, input);
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8(said).unwrap();
            (
                output.status.code(),
                said.replace("standard input", "stdin.yaml")
                    .replace(directory.path().to_str().unwrap(), "DIRECTORY"),
            )
        };
        let file = try_with("stdin.yaml", "");
        assert!(
            *verb == "sandbox" || file.0.is_some_and(|code| code != 1 && code != 64),
            "{verb} {arg}: {file:?}"
        );
        let (code, said) = try_with("-", content);
        assert_eq!((code, said), file, "{verb} {arg}");
    }
}

#[test]
fn standard_input_is_read_once_and_an_empty_one_is_no_pass() {
    let directory = files();
    let said = |arguments: &[&str], input: &str| {
        let output = run(&directory, arguments, input);
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let twice = said(&["plan", "-", "-"], MANIFEST);
    assert!(twice.contains("`-` appears twice"), "{twice}");
    for verb in ["check", "plan", "replay"] {
        let empty = said(&[verb, "-"], "");
        assert!(
            empty.contains("standard input: it is empty"),
            "{verb}: {empty}"
        );
    }
    let step = said(&["replay", "-", "--step"], &flight());
    assert!(step.contains("--step"), "{step}");
}
