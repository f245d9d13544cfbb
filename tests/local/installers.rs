//! Charts and operators beside what they bring: Windrow makes no boot later than RKE2 alone, says that it
//! does not know what comes of an installer, and splits the files where that helps.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::manifest::{FileContent, GroupKind, ObjectRef};
use windrow_plan::rules::RuleSet;
use windrow_simulate::{
    BootstrapVerdict, Chance, Faults, HappeningKind, MayBring, Run, Scenario, Setup,
    SimulatedDirectory, with_windrow, without_windrow,
};

fn start() -> Timestamp {
    // 2026-01-01T00:00:00Z
    Timestamp::constant(1_767_225_600, 0)
}

/// A directory with charts that bring kinds and namespaces, spread over files whose names say nothing.
struct Drawn {
    setup: Setup,
    /// Files that have a chart in them.
    charts: BTreeSet<String>,
}

fn draw(seed: u64) -> Drawn {
    let mut chance = Chance::new(seed ^ 0xC4A7);
    let count = 2 + chance.below(5);
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let paths: Vec<String> = (0..count)
        .map(|number| format!("{:02}-{number}.yaml", chance.below(100)))
        .collect();
    let mut scenario = Scenario::rke2(start());
    let mut charts = BTreeSet::new();
    let mut put = |chance: &mut Chance, text: String| -> String {
        let path = &paths[chance.below(count) as usize];
        let documents = texts.entry(path.clone()).or_default();
        let at = chance.below(documents.len() as u64 + 1) as usize;
        documents.insert(at, text);
        path.clone()
    };
    for chart in 0..1 + chance.below(3) {
        let created = chance.one_in(2);
        let target = match created {
            true => format!(", targetNamespace: made-{chart}, createNamespace: true"),
            false if chance.one_in(3) => ", targetNamespace: declared".to_owned(),
            false => String::new(),
        };
        let text = format!(
            "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {{name: chart-{chart}, namespace: kube-system}}\nspec: {{chart: c{target}}}\n"
        );
        let file = put(&mut chance, text);
        charts.insert(file.clone());
        let mut guess = MayBring {
            file: file.into(),
            ..MayBring::default()
        };
        for kind in 0..chance.below(3) {
            let kind = format!("Kind{chart}{kind}");
            guess
                .kinds
                .insert(GroupKind::new("example.com", kind.as_str()), true);
            for object in 0..1 + chance.below(2) {
                let name = format!("{}-{object}", kind.to_lowercase());
                put(
                    &mut chance,
                    format!(
                        "apiVersion: example.com/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: default}}\n"
                    ),
                );
            }
        }
        let namespaces = [("made", created), ("declared", true)];
        for (namespace, _) in namespaces.into_iter().filter(|(_, there)| *there) {
            let namespace = match namespace {
                "made" => format!("made-{chart}"),
                other => other.to_owned(),
            };
            put(
                &mut chance,
                format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings-{chart}, namespace: {namespace}}}\n"
                ),
            );
        }
        let name = ObjectRef::namespaced(
            "helm.cattle.io",
            "HelmChart",
            "kube-system",
            format!("chart-{chart}"),
        );
        scenario.may_bring.insert(name, guess);
    }
    put(
        &mut chance,
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: declared}\n".to_owned(),
    );
    let mut files = SimulatedDirectory::new();
    for (path, documents) in texts {
        files.write(path, documents.join("---\n"), start());
    }
    Drawn {
        setup: Setup {
            scenario,
            files,
            changes: Vec::new(),
            settings: Arc::default(),
            rules: RuleSet::shipped().into(),
            joins: Vec::new(),
        },
        charts,
    }
}

/// In which of RKE2's passes a file was looked at first, however it went.
fn first_pass(run: &Run, path: &str) -> Option<usize> {
    let mut passes = 0;
    for one in &run.log {
        match &one.what {
            HappeningKind::PassBegan { .. } => passes += 1,
            HappeningKind::Applied { file } | HappeningKind::ApplyFailed { file, .. }
                if file == path =>
            {
                return Some(passes);
            }
            _ => {}
        }
    }
    None
}

/// How many passes it took from the last kind or chart's Job that came until every file was applied.
fn passes_after_the_last_kind(run: &Run) -> usize {
    let comes = |what: &HappeningKind| matches!(what, HappeningKind::Served { .. });
    let last = run.log.iter().rposition(|one| comes(&one.what));
    let first_time: BTreeMap<&str, usize> = run
        .log
        .iter()
        .enumerate()
        .rev()
        .filter_map(|(at, one)| match &one.what {
            HappeningKind::Applied { file } => Some((file.as_str(), at)),
            _ => None,
        })
        .collect();
    let end = first_time.values().max().copied().unwrap_or_default();
    let from = last.unwrap_or_default().min(end);
    let between = &run.log[from..end];
    between
        .iter()
        .filter(|one| matches!(one.what, HappeningKind::PassBegan { .. }))
        .count()
}

/// Does it have anything in or for a namespace that something else of the directory brings?
fn waits_for_a_namespace(files: &SimulatedDirectory, path: &str) -> bool {
    let file = files.get(path).unwrap();
    let FileContent::Bytes(bytes) = &**file.content() else {
        return false;
    };
    let text = String::from_utf8_lossy(bytes);
    [
        "namespace: made-",
        "namespace: declared",
        "targetNamespace: declared",
    ]
    .iter()
    .any(|part| text.contains(part))
}

#[test]
fn no_chart_is_later_with_windrow_than_without_and_neither_is_the_end() {
    let seeds: u64 = match std::env::var("WINDROW_SEEDS") {
        Ok(seeds) => seeds.parse().unwrap(),
        Err(_) => 150,
    };
    for seed in 1..=seeds {
        let Drawn { setup, charts } = draw(seed);
        let alone = without_windrow(&setup, seed);
        let with = with_windrow(&setup, &Faults::NONE, seed);
        let files: Vec<_> = setup.files.manifests().map(|(path, _)| path).collect();
        assert_eq!(
            alone.outcome.verdict,
            BootstrapVerdict::Complete,
            "seed {seed}"
        );
        assert_eq!(
            with.outcome.verdict,
            BootstrapVerdict::Complete,
            "seed {seed}"
        );
        for chart in &charts {
            assert_eq!(first_pass(&alone, chart), Some(1), "seed {seed}: {chart}");
            let pass = first_pass(&with, chart).unwrap();
            // A namespace that another file declares or another chart creates is known to come, and
            // waited for: a pass for each file on the way, and what the Job of each chart takes. For
            // anything else no chart waits.
            let most = match waits_for_a_namespace(&setup.files, chart) {
                true => 2 + files.len() + 6 * charts.len(),
                false => 1,
            };
            assert!(
                pass <= most,
                "seed {seed}: {chart} is looked at in pass {pass}, not in {most}"
            );
        }
        let passes = passes_after_the_last_kind(&with);
        assert!(
            passes <= passes_after_the_last_kind(&alone) + 2 * files.len(),
            "seed {seed}: {passes} passes after the last kind was served"
        );
    }
}

fn windrow(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(arguments)
        .output()
        .unwrap()
}

const CHART: &str = "# MetalLB answers for addresses of Services.\napiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata:\n  name: metallb\n  namespace: kube-system\nspec:\n  repo: https://charts.example.com/\n  chart: rack-addresses\n  targetNamespace: metallb-system\n  createNamespace: true\n  valuesContent: |\n    a: b\n";
const POOL: &str = "# The rack's own addresses.\napiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata:\n  name: ingress\n  namespace: metallb-system\nspec:\n  addresses: [192.0.2.10/32] # one is enough\n";
const ADVERTISEMENT: &str = "apiVersion: metallb.io/v1beta1\nkind: L2Advertisement\nmetadata:\n  name: ingress\n  namespace: metallb-system\nspec:\n  ipAddressPools: [ingress]\n";

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn failures(node: &Value, side: &str) -> u64 {
    node[side]["work"]["most"]["failed"].as_u64().unwrap()
}

/// Rehearses what lies in two directories: the node of each.
fn rehearsed(given: &Path, split: &Path) -> (Value, Value) {
    let node = |place: &Path| {
        let options = ["--runs", "5", "-o", "json"];
        let output = windrow(
            &[
                &["check", "--details", place.to_str().unwrap()][..],
                &options,
            ]
            .concat(),
        );
        assert_eq!(output.status.code(), Some(5), "{output:?}");
        document(&output)["nodes"][0].clone()
    };
    (node(given), node(split))
}

fn codes(node: &Value) -> Vec<&str> {
    let findings = node["findings"].as_array().unwrap().iter();
    findings.map(|one| one["code"].as_str().unwrap()).collect()
}

#[test]
fn a_chart_and_its_custom_objects_in_one_file_are_not_held_and_two_files_as_advised_never_fail() {
    let directory = tempfile::tempdir().unwrap();
    let write = |place: &str, files: &[(&str, &str)]| {
        let place = directory.path().join(place);
        fs::create_dir(&place).unwrap();
        let taken = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: taken}\n";
        for (name, text) in [files, &[("metallb-objects.yaml", taken)]].concat() {
            fs::write(place.join(name), text).unwrap();
        }
        place
    };
    let all = [POOL, CHART, ADVERTISEMENT].join("---\n");
    let objects = [POOL, ADVERTISEMENT].join("---\n");
    let given = write("given", &[("metallb.yaml", &all)]);
    let advised = "metallb-objects-2.yaml";
    let split = write("split", &[("metallb.yaml", CHART), (advised, &objects)]);
    let (before, after) = rehearsed(&given, &split);
    assert!(
        before.to_string().contains(&format!("to {advised}")),
        "{before}"
    );
    assert!(codes(&before).contains(&"installer-in-file"), "{before}");
    assert_eq!(codes(&after), ["may-be-brought"; 2], "{after}");
    for (side, at_most) in [("without", u64::MAX), ("with", 0)] {
        assert!(failures(&before, side) > 0, "{before}");
        assert!(failures(&after, side) <= at_most, "{side}: {after}");
        for node in [&before, &after] {
            assert_eq!(node[side]["ends"][0]["verdict"], "unknown", "{node}");
            let because = node[side]["ends"][0]["because"].to_string();
            assert!(because.contains("; metallb.yaml may"), "{because}");
        }
    }
    assert!(before["with"]["staysHeld"].is_null(), "{before}");
}

#[test]
fn the_plan_names_the_second_file_and_does_not_promise_what_it_does_not_know() {
    let directory = tempfile::tempdir().unwrap();
    let text = [CHART, POOL].join("---\n");
    fs::write(directory.path().join("metallb.yaml"), text).unwrap();
    let output = windrow(&[
        "plan",
        "--platform",
        "rke2",
        directory.path().to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "installer-in-file",
        "move the dependent objects to metallb-objects.yaml",
        "Windrow cannot tell whether it can work. It can if metallb.yaml brings",
    ] {
        assert!(words.contains(expected), "{expected}\n{said}");
    }
    assert!(
        !words.contains("which no known component provides"),
        "{said}"
    );
    assert!(!words.contains("every file can be released"), "{said}");
}
