//! `windrow knowledge learn` on real files: what is merged, what is left out and why, and what a plan knows afterwards.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::flight_lines::BootScript;

const WIDGET: &str =
    "apiVersion: widgets.example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";
const CHART: &str = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: widgets, namespace: default}\n\
                     spec: {chart: widgets, version: 1.4.2, repo: \"https://charts.example.com/stable\"}\n";

fn windrow(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn complained(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A directory of flights, one a boot.
fn flights(count: i64) -> (TempDir, Vec<PathBuf>) {
    let directory = TempDir::new().unwrap();
    let paths = (0..count).map(|number| {
        let path = directory.path().join(format!("boot-{number}.jsonl"));
        fs::write(&path, BootScript::new(number).lines()).unwrap();
        path
    });
    let paths = paths.collect();
    (directory, paths)
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_used() {
    let (directory, paths) = flights(3);
    let at = |name: &str| directory.path().join(name);
    let torn = BootScript::new(3).lines();
    fs::write(at("torn.jsonl"), &torn[..torn.len() - 20]).unwrap();
    fs::write(at("foreign.txt"), "hello\n").unwrap();
    fs::write(at("packed.tar.gz"), [0x1f, 0x8b, 8, 0]).unwrap();
    fs::create_dir(at("deeper")).unwrap();
    fs::write(at("deeper/boot-9.jsonl"), BootScript::new(9).lines()).unwrap();
    symlink(&paths[0], at("link.jsonl")).unwrap();
    fs::write(
        at("site.yaml"),
        "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {name: site}\n",
    )
    .unwrap();
    let huge = fs::File::create(at("huge.jsonl")).unwrap();
    huge.set_len(300 << 20).unwrap();
    let output = windrow(directory.path(), &["knowledge", "learn", "."]);
    let (text, why) = (said(&output), complained(&output));
    assert_eq!(output.status.code(), Some(5), "{why}");
    for words in [
        "torn.jsonl: line 10: torn, and left out",
        "foreign.txt: not a boot log, a report or a knowledge file: not read",
        "packed.tar.gz: ",
        "link.jsonl: a link: not read",
        "site.yaml: it has no `boots`",
        "huge.jsonl: cannot be read: it is larger than 64 MiB",
        "windrow: 5 boots: 1 entry, 2 phases, 0 refusals",
    ] {
        assert!(why.contains(words), "{words:?} is not in\n{why}");
    }
    // The torn one did not come to its end, as far as is known: its kind came all the same.
    assert!(
        text.contains("seen: {boots: 5, of: 5, last: 2026-01-10}"),
        "{text}"
    );
}

#[test]
fn boots_merge_to_the_same_bytes_in_every_order_and_through_files() {
    let (directory, paths) = flights(4);
    let learn = |from: &[&str]| {
        let output = windrow(directory.path(), &[&["knowledge", "learn"], from].concat());
        assert_eq!(output.status.code(), Some(0), "{}", complained(&output));
        said(&output)
    };
    let names: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let whole = learn(&names);
    let turned: Vec<&str> = names.iter().rev().copied().collect();
    assert_eq!(learn(&turned), whole);
    for order in [[0, 1], [1, 0]] {
        let parts = [&names[..3], &names[2..]];
        for number in order {
            fs::write(
                directory.path().join(format!("{number}.yaml")),
                learn(parts[number]),
            )
            .unwrap();
        }
        let files = order.map(|number| format!("{number}.yaml"));
        assert_eq!(learn(&[&files[0], &files[1], names[1]]), whole);
    }
}

#[test]
fn what_a_person_wrote_is_not_written_over_and_what_was_learned_is() {
    let (directory, _) = flights(2);
    let target = directory.path().join("out/learned.yaml");
    fs::create_dir(target.parent().unwrap()).unwrap();
    let learn = |from: &str| {
        windrow(
            directory.path(),
            &[
                "knowledge",
                "learn",
                from,
                "--output-file",
                "out/learned.yaml",
            ],
        )
    };
    assert_eq!(learn("boot-0.jsonl").status.code(), Some(0));
    let first = fs::read_to_string(&target).unwrap();
    assert_eq!(learn("boot-1.jsonl").status.code(), Some(0));
    assert_ne!(fs::read_to_string(&target).unwrap(), first);
    let own = "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {name: site}\nentries: []\n";
    fs::write(&target, own).unwrap();
    let refused = learn("boot-0.jsonl");
    assert_eq!(refused.status.code(), Some(64));
    assert!(
        complained(&refused).contains("it has no `boots`"),
        "{}",
        complained(&refused)
    );
    assert_eq!(fs::read_to_string(&target).unwrap(), own);
}

#[test]
fn boots_that_a_file_loses_are_counted_and_those_of_a_newer_version_are_kept() {
    let (directory, _) = flights(2);
    let learn = |from: &str| {
        windrow(
            directory.path(),
            &["knowledge", "learn", from, "--output-file", "learned.yaml"],
        )
    };
    let first = learn("boot-0.jsonl");
    assert_eq!(first.status.code(), Some(0), "{}", complained(&first));
    let in_place = learn("learned.yaml");
    assert_eq!(in_place.status.code(), Some(0));
    assert!(!complained(&in_place).contains("any more"));
    let other = learn("boot-1.jsonl");
    assert_eq!(other.status.code(), Some(0));
    let words = "learned.yaml: it had boots that are in none of the inputs: 1;";
    let why = complained(&other);
    assert!(why.contains(words), "{why}");

    let target = directory.path().join("learned.yaml");
    let text = fs::read_to_string(&target).unwrap();
    let newer = text.replace("{\"format\":1,", "{\"format\":2,");
    fs::write(&target, &newer).unwrap();
    for from in ["learned.yaml", "boot-0.jsonl"] {
        let refused = learn(from);
        let why = complained(&refused);
        assert_eq!(refused.status.code(), Some(64), "{why}");
        assert!(why.contains("its format is 2"), "{why}");
        assert_eq!(fs::read_to_string(&target).unwrap(), newer);
    }
}

#[test]
fn a_file_whose_name_ends_in_1_is_read_by_itself_where_the_other_is_no_flight() {
    let directory = TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name);
    let read = |from: &[&str]| {
        let output = windrow(directory.path(), &[&["knowledge", "learn"], from].concat());
        let (code, why) = (output.status.code(), complained(&output));
        for name in from {
            fs::remove_file(at(name)).unwrap();
        }
        (code, why)
    };
    let lines = |number| BootScript::new(number).lines();
    let learned = |number| {
        fs::write(at("boot.jsonl"), lines(number)).unwrap();
        said(&windrow(
            directory.path(),
            &["knowledge", "learn", "boot.jsonl"],
        ))
    };
    fs::write(at("x.yaml"), learned(0)).unwrap();
    fs::write(at("x.yaml.1"), learned(1)).unwrap();
    let (code, why) = read(&["x.yaml", "x.yaml.1"]);
    assert!(code == Some(0) && why.contains("2 boots"), "{why}");

    fs::write(at("x.jsonl"), [0xff, 0xfe]).unwrap();
    fs::write(at("x.jsonl.1"), lines(0)).unwrap();
    let (code, why) = read(&["x.jsonl", "x.jsonl.1"]);
    assert!(code == Some(5) && why.contains("1 boot:"), "{why}");

    let huge = fs::File::create(at("x.jsonl")).unwrap();
    huge.set_len(300 << 20).unwrap();
    fs::write(at("x.jsonl.1"), lines(0)).unwrap();
    let (code, why) = read(&["x.jsonl", "x.jsonl.1"]);
    assert!(code == Some(5) && why.contains("1 boot:"), "{why}");

    // The newer half begins in the middle of a boot, and a third file is nobody's half.
    let whole = lines(0);
    let middle = whole.match_indices('\n').nth(4).unwrap().0 + 1;
    let head = whole.split_inclusive('\n').next().unwrap();
    fs::write(at("x.jsonl.1"), &whole[..middle]).unwrap();
    fs::write(at("x.jsonl"), format!("{head}{}", &whole[middle..])).unwrap();
    fs::write(at("x.jsonl.1.1"), lines(1)).unwrap();
    let (code, why) = read(&["x.jsonl", "x.jsonl.1", "x.jsonl.1.1"]);
    assert!(code == Some(0) && why.contains("2 boots: 1 entry"), "{why}");
}

#[test]
fn a_chart_that_was_learned_is_not_unknown_to_a_plan_any_more() {
    let (directory, _) = flights(3);
    fs::create_dir(directory.path().join("manifests")).unwrap();
    fs::write(directory.path().join("manifests/chart.yaml"), CHART).unwrap();
    fs::write(directory.path().join("manifests/widget.yaml"), WIDGET).unwrap();
    let plan = |rules: &[&str]| {
        let arguments = [&["plan", "--platform", "rke2"], rules, &["manifests"]].concat();
        windrow(directory.path(), &arguments)
    };
    assert_eq!(plan(&[]).status.code(), Some(5));
    let learned = windrow(
        directory.path(),
        &["knowledge", "learn", ".", "--output-file", "learned.yaml"],
    );
    // The manifests are no flights.
    assert_eq!(learned.status.code(), Some(5), "{}", complained(&learned));
    let known = plan(&["--rules", "learned.yaml"]);
    assert_eq!(
        known.status.code(),
        Some(0),
        "{}{}",
        said(&known),
        complained(&known)
    );
}

#[test]
fn a_node_that_lies_gives_nothing_that_a_terminal_or_yaml_reads_otherwise() {
    let directory = TempDir::new().unwrap();
    let mut script = BootScript::new(0);
    script.kinds = vec![
        ("Wid\u{1b}[31mget".to_owned(), 20),
        ("Widget: {a: b}\n- x".to_owned(), 20),
        ("Widget".to_owned(), 20),
    ];
    let mut future = BootScript::new(20_000);
    future.version = Some("x\ny".to_owned());
    fs::write(directory.path().join("a.jsonl"), script.lines()).unwrap();
    fs::write(directory.path().join("b.jsonl"), future.lines()).unwrap();
    let output = windrow(
        directory.path(),
        &[
            "knowledge",
            "learn",
            "a.jsonl",
            "b.jsonl",
            "--output-file",
            "learned.yaml",
        ],
    );
    assert_eq!(output.status.code(), Some(5));
    assert!(
        complained(&output).contains("began in the future"),
        "{}",
        complained(&output)
    );
    let text = fs::read_to_string(directory.path().join("learned.yaml")).unwrap();
    assert!(
        text.contains("namespaced: [Widget]}") && !text.contains("31m"),
        "{text}"
    );
    let checked = windrow(directory.path(), &["config", "check", "learned.yaml"]);
    assert_eq!(checked.status.code(), Some(0), "{}", complained(&checked));
}

#[test]
fn what_is_shipped_is_known_and_a_copy_of_it_on_disk_changes_nothing() {
    let root = TempDir::new().unwrap();
    let show = || {
        let output = windrow(
            root.path(),
            &["--root", ".", "knowledge", "show", "-o", "json"],
        );
        assert_eq!(output.status.code(), Some(0), "{}", complained(&output));
        said(&output)
    };
    let before = show();
    assert!(before.contains("charts/cert-manager"));
    let place = root.path().join("usr/lib/windrow/knowledge.d");
    fs::create_dir_all(&place).unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/plan/data/knowledge");
    for entry in fs::read_dir(shipped).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), place.join(entry.file_name())).unwrap();
    }
    assert_eq!(show(), before);
}
