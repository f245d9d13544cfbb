//! Tests that exactly the simulated and better layouts are advised.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{FileContent, ManifestPath, ReadLimits};
use windrow_model::reasons::Code;
use windrow_plan::rules::{Platform, RuleSet};
use windrow_plan::{SourceMap, examine_content, link};

use super::Progress;
use super::cut::cut;
use super::layout::{LayoutProposal, LayoutTrial};
use crate::{PreparedSetup, Scenario, Setup, SimulatedDirectory};

fn start() -> Timestamp {
    // 2026-01-01T00:00:00Z
    Timestamp::constant(1_767_225_600, 0)
}

fn namespace(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

fn secret(name: &str, namespace: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
}

/// The first proposal that is better in each of some seeds, or the rejected proposals.
fn advice(files: &[(&str, &str)]) -> Result<Finding, Vec<LayoutProposal>> {
    let rules = RuleSet::default();
    let examined: Vec<_> = files
        .iter()
        .map(|(path, text)| {
            let content = FileContent::Bytes(text.as_bytes().to_vec());
            let shown = SourceMap::itself(*path);
            let path = ManifestPath::from(*path);
            let limits = ReadLimits::default();
            let platform = Some(Platform::Rke2);
            Arc::new(examine_content(
                &path, &content, &limits, shown, &rules, platform,
            ))
        })
        .collect();
    let plan = link(&examined, &rules, Some(Platform::Rke2));
    let mut directory = SimulatedDirectory::new();
    for (path, text) in files {
        directory.write(*path, text.as_bytes(), start());
    }
    let setup = Setup {
        scenario: Scenario::rke2(start()),
        files: directory,
        changes: Vec::new(),
        settings: Arc::default(),
        rules: rules.into(),
        joins: Vec::new(),
    };
    let proposals = LayoutProposal::all(&plan);
    for proposal in &proposals {
        let Some(other) = proposal.lay_out(&setup, &ReadLimits::default()) else {
            continue;
        };
        let endless = Progress {
            go_on: &|| true,
            played: &|| {},
        };
        let trial = LayoutTrial::play_while(
            proposal,
            (
                (&setup, &PreparedSetup::read(&setup)),
                (&other, &PreparedSetup::read(&other)),
            ),
            1..=10,
            &endless,
        );
        if trial.is_better_in_all(10) {
            let at: BTreeMap<_, _> = files
                .iter()
                .map(|(path, _)| (ManifestPath::from(*path), Location::file(*path)))
                .collect();
            return Ok(proposal.finding(&trial, &at));
        }
    }
    Err(proposals)
}

#[test]
fn a_name_is_advised_with_the_seconds_that_it_saved() {
    let files = [
        ("cluster.yaml", &*secret("s", "t")),
        ("common.yaml", &*namespace("t")),
    ];
    let finding = advice(&files).unwrap();
    assert_eq!(finding.code, Code::NameSparesPass);
    assert_eq!(
        finding.message,
        "cluster.yaml: named zz-cluster.yaml it is applied in RKE2's first pass: saves 15 s in every simulated boot"
    );
    assert_eq!(finding.at, [Location::file("cluster.yaml")]);
}

#[test]
fn files_that_need_each_other_are_advised_to_be_split() {
    let first = [namespace("t"), secret("s", "u"), secret("r", "u")].join("---\n");
    let second = format!("{}---\n{}", namespace("u"), secret("s", "t"));
    let finding = advice(&[("a.yaml", &first), ("b.yaml", &second)]).unwrap();
    assert_eq!(finding.code, Code::SplitSparesPass);
    assert_eq!(
        finding.message,
        "Secret u/s, Secret u/r moved from a.yaml to zz-a.yaml: RKE2 needs one pass instead of 2: saves 15 s in every simulated boot"
    );
}

#[test]
fn what_playing_does_not_find_better_is_not_advised() {
    // The definition is directly before its object: wherever it moves, the kind is not served in time.
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Widget, plural: widgets}\n  versions: [{name: v1, served: true, storage: true}]\n";
    let widget =
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";
    let both = format!("{definition}---\n{widget}");
    let proposals = advice(&[("a.yaml", &both)]).unwrap_err();
    assert_eq!(proposals.len(), 1, "{proposals:?}");
    // With enough files between them it is.
    let maps: Vec<String> = (0..30)
        .map(|number| secret(&format!("s{number}"), "default"))
        .collect();
    let finding = advice(&[("a.yaml", &both), ("b.yaml", &maps.join("---\n"))]).unwrap();
    assert!(
        finding
            .message
            .contains("Widget default/w moved from a.yaml to zz-a.yaml")
    );
}

#[test]
fn a_split_is_not_tried_where_a_document_has_what_stays_and_what_moves() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: t}}\n- {apiVersion: v1, kind: Secret, metadata: {name: s, namespace: u}}\n";
    let second = format!("{}---\n{}", namespace("u"), secret("s", "t"));
    let proposals = advice(&[("a.yaml", list), ("b.yaml", &second)]).unwrap_err();
    assert_eq!(proposals.len(), 1, "{proposals:?}");
}

#[test]
fn documents_keep_their_bytes_their_comments_and_their_order() {
    let text = "# License\n\napiVersion: v1\nkind: Namespace\nmetadata:   {name: t} # odd\n---\n# of the secret\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: u}\nstringData:\n  a: |\n    ---\n    # no comment\n\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: r, namespace: u}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: last}";
    let lines = BTreeSet::from([8, 21]);
    let limits = ReadLimits::default();
    let cut = |lines: &BTreeSet<u32>| cut(&"a.yaml".into(), text.as_bytes(), lines, &limits);
    let (stays, moves) = cut(&lines).unwrap();
    assert_eq!(
        stays,
        "# License\n\napiVersion: v1\nkind: Namespace\nmetadata:   {name: t} # odd\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: last}\n"
    );
    assert_eq!(
        moves,
        "# of the secret\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: u}\nstringData:\n  a: |\n    ---\n    # no comment\n\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: r, namespace: u}\n"
    );
    assert_eq!(
        cut(&BTreeSet::from([3, 8, 17, 21, 25])),
        None,
        "nothing stays"
    );
}
