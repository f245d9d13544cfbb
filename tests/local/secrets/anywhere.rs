//! Secrets of random forms in every field of every input (`inputs/*.yaml`), held to the promises of docs/report.md: a
//! secret where secrets belong does not come out, whatever its form (`@S`, `@A`, `@B`), and one of a known shape does
//! not, whatever text it stands in.

use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde_json::Value;
use windrow_model::manifest::{ReadLimits, yaml};

use super::node::yaml as written;
use super::outlets::{Said, files, nothing_in, say};
use super::plant::{Planter, base64};
use super::support::Node;

const MANIFESTS: &str = include_str!("inputs/manifests.yaml");
const HARVESTER: &str = include_str!("inputs/harvester.yaml");
const CLOUD_INIT: &str = include_str!("inputs/cloud-init.yaml");
const RKE2: &str = include_str!("inputs/rke2.yaml");
const REGISTRIES: &str = include_str!("inputs/registries.yaml");
const KUBECONFIG: &str = include_str!("inputs/kubeconfig.yaml");
const WINDROW: &str = include_str!("inputs/windrow.yaml");
const RULES: &str = include_str!("inputs/rules.yaml");

/// Keys whose texts are shown unchanged, because they name what a message is about: docs/report.md lists them.
const NAMES: &[&str] = &[
    "apiVersion",
    "kind",
    "name",
    "namespace",
    "labels",
    "matchLabels",
    "hostname",
    "node-name",
    "image",
    "rules",
    "windrow.dev/depends-on",
    "sshAuthorizedKeys",
    "path",
    "config_path",
    "event",
    "interfaces",
    "network",
    "conditions",
    "chart",
];

/// A tree with a secret in each of its places for secrets.
fn planted(tree: &mut Value, planter: &mut Planter, place: &str) {
    match tree {
        Value::String(text) if text == "@S" => *text = planter.secret(place),
        Value::String(text) if text == "@B" => *text = base64(&planter.secret(place)),
        Value::String(text) => {
            while text.contains("@A") {
                *text = text.replacen("@A", &planter.password(place), 1);
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| planted(item, planter, place)),
        Value::Object(fields) => {
            for (key, value) in fields {
                planted(value, planter, &format!("{place}.{key}"));
            }
        }
        _ => {}
    }
}

/// Every place that may hold any text or list or map, as a JSON pointer.
fn texts(tree: &Value, at: &str, all: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match tree {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(at, item)| (at.to_string(), item))
            .collect(),
        _ => return,
    };
    for (key, value) in below {
        // A flag's name tells what the next argument is.
        let is_flag = value.as_str().is_some_and(|text| text.starts_with("--"));
        if !NAMES.contains(&key.as_str()) && !is_flag {
            let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
            all.push(at.clone());
            texts(value, &at, all);
        }
    }
}

/// The documents of an input, planted, each with a secret of a known shape in one place.
fn input(text: &str, planter: &mut Planter, place: &str, disturb: bool) -> String {
    let mut out = String::new();
    for document in text.split("\n---\n") {
        let node = yaml::parse(document, 1, &ReadLimits::default())
            .unwrap()
            .unwrap();
        let mut tree = node.to_json();
        planted(&mut tree, planter, place);
        let mut all = Vec::new();
        texts(&tree, "", &mut all);
        if disturb && !all.is_empty() {
            let at = &all[planter.below(all.len())];
            let shape = planter.shape(&format!("{place}{at}"));
            let whole = tree.pointer_mut(at).unwrap();
            *whole = match planter.below(5) {
                0 => shape.into(),
                1 => format!("see {shape} there").into(),
                2 => format!("https://x.example/{shape}/y").into(),
                3 => serde_json::json!([shape]),
                _ => serde_json::json!({ "x": shape }),
            };
        }
        out += &format!("{}---\n", written(&tree));
    }
    out.trim_end_matches("---\n").to_owned()
}

/// A node with all of it.
fn node(planter: &mut Planter, disturb: bool) -> Node {
    let node = Node::empty();
    node.write("/proc/sys/kernel/hostname", "n1\n");
    for (path, text) in [
        ("/var/lib/rancher/rke2/server/manifests/all.yaml", MANIFESTS),
        ("/oem/harvester.config", HARVESTER),
        ("/oem/90_custom.yaml", CLOUD_INIT),
        ("/etc/rancher/rke2/config.yaml", RKE2),
        ("/etc/rancher/rke2/registries.yaml", REGISTRIES),
        ("/etc/rancher/rke2/rke2.yaml", KUBECONFIG),
        ("/var/lib/rancher/rke2/agent/kubelet.kubeconfig", KUBECONFIG),
        ("/etc/windrow/conf.d/50-site.yaml", WINDROW),
        ("/etc/windrow/rules.d/90-site.yaml", RULES),
    ] {
        // A rule pack is kept whole in the flight, as docs/report.md says.
        let whole = input(text, planter, path, disturb && text != RULES);
        let head = if text.starts_with("#cloud") {
            "#cloud-config\n"
        } else {
            ""
        };
        node.write(path, &format!("{head}{whole}"));
    }
    node
}

/// What commands print about it.
fn commands(node: &Node, said: &mut Said) {
    for arguments in [
        &["report", "--output-file", "-"][..],
        &["report", "--output-file", "-", "--with-manifests"],
        &["plan"],
        &["plan", "-o", "json"],
        &["config", "show"],
        &["config", "check"],
        &["gates"],
    ] {
        say(node, said, arguments);
    }
    // An archive is packed.
    for (of, bytes) in said.clone() {
        if of.starts_with("report") && !of.ends_with("error") {
            let archive = windrow::archive::Archive::read(bytes.as_slice()).unwrap();
            said.extend(
                archive
                    .files
                    .into_iter()
                    .map(|(path, text)| (format!("{of}: {path}"), text)),
            );
        }
    }
    let path = |of: &str| node.path(of).to_str().unwrap().to_owned();
    for of in [
        "/oem/harvester.config",
        "/oem/90_custom.yaml",
        "/var/lib/rancher/rke2/server/manifests",
    ] {
        let of = path(of);
        for output in ["text", "json", "html"] {
            say(
                node,
                said,
                &["check", "--details", "--runs", "1", "-o", output, &of],
            );
        }
        for output in ["table", "json", "svg", "dot", "mermaid"] {
            say(node, said, &["plan", "-o", output, &of]);
        }
    }
}

/// Only a few cases, always the same: use `PROPTEST_CASES` and a seed for more.
fn cases(few: u32) -> Config {
    let number = |name: &str| std::env::var(name).ok().and_then(|one| one.parse().ok());
    Config {
        cases: number("PROPTEST_CASES").map_or(few, |cases: u64| cases.try_into().unwrap()),
        rng_seed: RngSeed::Fixed(number("WINDROW_SEED").unwrap_or(1)),
        failure_persistence: None,
        max_shrink_iters: 0,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(cases(6))]

    #[test]
    fn no_secret_anywhere_in_the_inputs_comes_out_of_a_command(seed in any::<u64>(), disturb in prop::bool::weighted(0.8)) {
        let mut planter = Planter::with(seed);
        let node = node(&mut planter, disturb);
        let mut said = Said::new();
        commands(&node, &mut said);
        nothing_in(&planter, &said);
    }
}

proptest! {
    #![proptest_config(cases(2))]

    #[test]
    fn no_secret_anywhere_in_the_inputs_comes_out_of_the_daemon(seed in any::<u64>(), disturb in any::<bool>()) {
        let mut planter = Planter::with(seed);
        let node = node(&mut planter, disturb);
        let before = files(node.root.path());
        let daemon = node.ready();
        let flight = node.path("/var/lib/rancher/windrow/flight.jsonl");
        daemon.until("a decision on the disk", || {
            fs::read_to_string(&flight).is_ok_and(|text| text.contains("\"is\":\"decision\""))
        });
        let mut said = vec![("the daemon's log".to_owned(), daemon.said().into_bytes())];
        for path in files(node.root.path()).difference(&before) {
            said.push((path.display().to_string(), fs::read(path).unwrap_or_default()));
        }
        nothing_in(&planter, &said);
    }
}
