//! Manifests directories drawn by seed: definitions, objects of their kinds, namespaces, workloads and what depends on them,
//! spread over files whose names do not show the dependencies. Everything in them can work in the end, except what is held on
//! purpose. Files may need each other in circles, which RKE2 solves by trying again, but a user's annotation always points to
//! earlier files.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::{FileContent, GroupKind, ObjectRef};
use windrow_plan::rules::RuleSet;
use windrow_simulate::{
    Arrival, Chance, DirectoryChange, JoinRole, JoiningNode, Scenario, Setup, SimulatedDirectory,
};

use crate::oddities;

/// A directory, and the files in it that stay held on purpose.
pub(crate) struct Drawn {
    pub(crate) setup: Setup,
    /// Files that only a user may release.
    pub(crate) kept: Vec<String>,
}

const KINDS: u64 = 5;
const NAMESPACES: u64 = 3;

pub(crate) fn draw(seed: u64, rules: &RuleSet, start: Timestamp) -> Drawn {
    let mut chance = Chance::new(seed ^ 0x5EED);
    let mut texts: Vec<String> = vec![String::new(); 3 + chance.below(8) as usize];
    let mut arrivals = Vec::new();
    // The first files create objects, the others depend on objects of earlier files.
    let bringing = 1 + chance.below(texts.len() as u64 - 1) as usize;
    let put = |texts: &mut Vec<String>, chance: &mut Chance, text: &str| {
        let file = chance.below(bringing as u64) as usize;
        texts[file].push_str("---\n");
        texts[file].push_str(text);
    };
    for kind in 0..KINDS {
        // Every kind has one source: a file, or a later addition from outside.
        match chance.below(3) {
            0 => arrivals.push(Arrival {
                after: Duration::from_secs(chance.below(900)),
                kinds: vec![(GroupKind::new("example.com", format!("Kind{kind}")), true)],
                ..Arrival::default()
            }),
            _ => put(&mut texts, &mut chance, &definition(kind)),
        }
    }
    for namespace in 0..NAMESPACES {
        match chance.below(3) {
            0 => arrivals.push(Arrival {
                after: Duration::from_secs(chance.below(900)),
                objects: vec![(
                    ObjectRef::cluster("", "Namespace", format!("space-{namespace}")),
                    serde_json::json!({"apiVersion": "v1", "kind": "Namespace",
                        "status": {"phase": "Active"}}),
                )],
                ..Arrival::default()
            }),
            _ => {
                let text = format!(
                    "apiVersion: v1\nkind: Namespace\nmetadata: {{name: space-{namespace}}}\n"
                );
                put(&mut texts, &mut chance, &text);
            }
        }
    }
    let mut earlier: Vec<(usize, String)> = Vec::new();
    for number in 0..4 + chance.below(14) {
        let file = chance.below(texts.len() as u64) as usize;
        let before: Vec<&str> = earlier
            .iter()
            .filter(|(other, _)| *other < file && file >= bringing)
            .map(|(_, reference)| reference.as_str())
            .collect();
        let (text, reference) = object(number, &mut chance, &before);
        texts[file].push_str("---\n");
        texts[file].push_str(&text);
        earlier.push((file, reference));
    }
    let mut drawn = place(texts, arrivals, chance, rules, start);
    draw_platform(&mut drawn.setup, &mut Chance::new(seed).branch(77));
    oddities::draw(&mut drawn, &mut Chance::new(seed).branch(78));
    oddities::draw_waits(&mut drawn, &mut Chance::new(seed).branch(79));
    oddities::draw_moves(&mut drawn, &mut Chance::new(seed).branch(80));
    drawn
}

/// One node in four is Harvester's, with a preset storage network or without, and one cluster in four has a second server with
/// the same files.
fn draw_platform(setup: &mut Setup, chance: &mut Chance) {
    let (start, arrivals) = (setup.scenario.start, setup.scenario.arrivals.clone());
    let is_harvester = chance.one_in(4);
    if is_harvester {
        let versions = [(1, 5, 0), (1, 5, 1), (1, 6, 1), (1, 7, 0)];
        let (major, minor, patch) = versions[chance.below(4) as usize];
        let preset = chance.one_in(2).then_some("{\"vlan\":1}");
        let version = HarvesterVersion::new(major, minor, patch);
        setup.scenario = Scenario::harvester(version, preset, start);
        setup.scenario.arrivals = arrivals;
    }
    if chance.one_in(4) {
        // At each boot yip writes the files of the image again, on the server that boots: no file has changed by then.
        let files = &setup.files;
        setup
            .changes
            .retain(|change| files.get(&change.path).is_none());
        let role = match is_harvester {
            true => JoinRole::Promoted,
            false => JoinRole::Server,
        };
        setup.joins.push(JoiningNode {
            name: "the second node".to_owned(),
            role,
            files: setup.files.clone(),
            changes: setup.changes.clone(),
            settings: Arc::clone(&setup.settings),
            rules: Arc::clone(&setup.rules),
        });
    }
}

fn place(
    texts: Vec<String>,
    arrivals: Vec<Arrival>,
    mut chance: Chance,
    rules: &RuleSet,
    start: Timestamp,
) -> Drawn {
    let mut files = SimulatedDirectory::new();
    let mut changes = Vec::new();
    let mut kept = Vec::new();
    // The file that is written again with more content, and when.
    let grows = chance.below(2 * texts.len() as u64) as usize;
    for (number, text) in texts.into_iter().enumerate() {
        let folder = if chance.one_in(5) { "sub/" } else { "" };
        let path = format!("{folder}{:02}-{number}.yaml", chance.below(100));
        if number == grows {
            let (more, _) = object(99, &mut chance, &[]);
            changes.push(DirectoryChange {
                after: Duration::from_secs(600 + chance.below(600)),
                path: path.clone(),
                content: Some(FileContent::Bytes(
                    format!("{text}---\n{more}").into_bytes(),
                )),
                ..Default::default()
            });
        }
        if chance.one_in(4) {
            changes.push(DirectoryChange {
                after: Duration::from_secs(chance.below(600)),
                path,
                content: Some(FileContent::Bytes(text.into_bytes())),
                ..Default::default()
            });
        } else {
            files.write(path, text, start);
        }
    }
    if chance.one_in(4) {
        files.put("pipe.yaml", FileContent::Fifo, start);
        kept.push("pipe.yaml".to_owned());
    }
    if chance.one_in(4) {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: by-hand\n  annotations: {windrow.dev/hold: not yet}\n";
        files.write("by-hand.yaml", text, start);
        kept.push("by-hand.yaml".to_owned());
    }
    if chance.one_in(4) {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: once\n  annotations: {windrow.dev/apply: once}\n";
        files.write("once.yaml", text, start);
        kept.push("once.yaml".to_owned());
    }
    if chance.one_in(4) {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: advised\n  annotations: {windrow.dev/depends-on: /namespaces/default/Secret/never (advisory)}\n";
        files.write("advised.yaml", text, start);
    }
    let mut scenario = Scenario::rke2(start);
    scenario.arrivals = arrivals;
    Drawn {
        setup: Setup {
            scenario,
            files,
            changes,
            settings: Arc::default(),
            rules: rules.clone().into(),
            joins: Vec::new(),
        },
        kept,
    }
}

fn definition(kind: u64) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: kind{kind}s.example.com}}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {{kind: Kind{kind}, plural: kind{kind}s}}\n  versions: [{{name: v1, served: true, storage: true}}]\n"
    )
}

/// One object, and the reference with which a later one may depend on it.
pub(crate) fn object(number: u64, chance: &mut Chance, earlier: &[&str]) -> (String, String) {
    let (api, group, kind) = match chance.below(5) {
        0 => ("v1", "", "ConfigMap".to_owned()),
        1 => ("batch/v1", "batch", "Job".to_owned()),
        2 => ("apps/v1", "apps", "Deployment".to_owned()),
        _ => {
            let kind = format!("Kind{}", chance.below(KINDS));
            ("example.com/v1", "example.com", kind)
        }
    };
    let namespace = match chance.below(NAMESPACES + 1) {
        NAMESPACES => "default".to_owned(),
        namespace => format!("space-{namespace}"),
    };
    let mut text = format!(
        "apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: object-{number}\n  namespace: {namespace}\n"
    );
    if chance.one_in(3)
        && let Some(on) = chance.pick(earlier)
    {
        let state = ["", " (exists)", " (advisory)"][chance.below(3) as usize];
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "  annotations:\n    windrow.dev/depends-on: \"{on}{state}\""
        );
    }
    let reference = format!("{group}/namespaces/{namespace}/{kind}/object-{number}");
    (text, reference)
}
