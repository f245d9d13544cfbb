//! Secrets are planted wherever a node has input, and none may come out of anything that Windrow prints or writes
//! (`secrets/corpus.tsv`: shapes of a published rule set, keys, texts, commands).

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod anywhere;
mod node;
mod outlets;
mod plant;

use std::process::{Command, Output};

use jiff::Timestamp;
use node::planted;
pub(crate) use plant::Random;
use plant::{Planter, corpus, lines};
use serde_json::{Value, json};
use support::Node;
use windrow::archive::{Archive, ArchiveOwner, Collected, CollectedContent, CollectedItem, pack};

use crate::support::apiserver;
use crate::support::bus;
use crate::support::console;
use crate::support::daemon as support;
use crate::support::rooted::root_for;
use crate::support::widgets;

pub(crate) fn windrow(node: &Node, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(root_for(node.root.path(), arguments))
        .args(arguments)
        .env_remove("KUBECONFIG")
        .output()
        .unwrap()
}

/// Everything in an archive.
fn texts(archive: &Archive) -> Vec<(String, &[u8])> {
    let files = archive.files.iter();
    files
        .map(|(path, content)| (path.clone(), content.as_slice()))
        .collect()
}

#[test]
fn the_corpus_is_large_and_no_two_secrets_are_the_same() {
    let corpus = corpus();
    assert!(corpus.len() >= 420, "{}", corpus.len());
    let mut planter = Planter::new();
    let made: std::collections::BTreeSet<String> = corpus
        .iter()
        .map(|entry| planter.plant(entry, "x"))
        .collect();
    assert_eq!(made.len(), corpus.len());
}

#[test]
fn nothing_planted_comes_out_of_a_report_with_or_without_the_manifests() {
    let mut planter = Planter::new();
    let node = planted(&mut planter, "http://127.0.0.1:1");
    for with in [
        &["--output-file", "-"][..],
        &["--output-file", "-", "--with-manifests"][..],
    ] {
        let output = windrow(&node, &[&["report"], with].concat());
        assert!(output.status.success(), "{output:?}");
        let archive = Archive::read(&output.stdout[..]).unwrap();
        let missing = serde_json::to_string(&archive.index.missing).unwrap();
        assert_eq!(
            archive.files.contains_key("manifests/10-secret.yaml"),
            with.len() == 3,
            "{missing}"
        );
        for path in [
            "harvester/harvester.config",
            "rke2/config.yaml",
            "host/cmdline",
            "settings.json",
        ] {
            assert!(archive.files.contains_key(path), "{path}: {missing}");
        }
        let mut all = texts(&archive);
        all.push(("standard error".to_owned(), &output.stderr));
        planter.nothing_in(all);
    }
    assert!(planter.planted() > 5000, "{}", planter.planted());
}

#[test]
fn nothing_planted_in_a_journal_or_an_answer_of_the_cluster_comes_out_of_an_archive() {
    let mut planter = Planter::new();
    let mut collected = Collected::default();
    let mut add = |path: &str, content| {
        collected.items.push(CollectedItem {
            path: path.to_owned(),
            what: "x".to_owned(),
            source: "x".to_owned(),
            content,
            truncated: false,
        });
    };
    let lead = "2026-11-22T18:27:48.123456+0000 rke2[1234]: ";
    add(
        "journal/rke2-server.log",
        CollectedContent::Text(lines(&mut planter, "journal", lead).join("\n")),
    );
    let go = "2026-11-22T18:27:48+0000 rke2[1]: time=\"2026-11-22T18:27:48Z\" level=error msg=\"it failed\" error=";
    add(
        "journal/rancherd.log",
        CollectedContent::Text(lines(&mut planter, "journal of rancherd", go).join("\n")),
    );
    add(
        "host/routes",
        CollectedContent::Text(lines(&mut planter, "text", "").join("\n")),
    );
    let messages: Vec<Value> = lines(&mut planter, "a condition's message", "")
        .into_iter()
        .map(|text| json!({"type": "Ready", "status": "False", "message": text}))
        .collect();
    add(
        "cluster/x.json",
        CollectedContent::Tree(
            json!({"kind": "X", "apiVersion": "v1", "status": {"conditions": messages}}),
        ),
    );
    collected.missing(
        "the cluster",
        lines(&mut planter, "an API error", "403: ").join("\n"),
    );
    let head = ArchiveOwner {
        host: "n1".to_owned(),
        created: Timestamp::UNIX_EPOCH,
    };
    let mut bytes = Vec::new();
    pack(collected, &head, &mut bytes).unwrap();
    let archive = Archive::read(&bytes[..]).unwrap();
    planter.nothing_in(texts(&archive));
}
