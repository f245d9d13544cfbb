//! What is to be applied once.

use super::*;

fn node() -> Node {
    let once = annotated("a", "windrow.dev/apply: once");
    let mut node = Node::new(&[("a.yaml", &once)]);
    node.api();
    node.tick();
    assert!(node.held().is_empty());
    node
}

#[test]
fn apply_once_keeps_the_file_from_rke2_after_it_was_applied_and_over_a_lost_ledger() {
    let mut node = node();
    node.applied("a.yaml");
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    node.ledger_on_disk = Ledger::default();
    node.restart();
    let decision = node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    assert_eq!(decision.status.staging.held[0].code, Code::HeldAppliedOnce);
}

#[test]
fn a_marker_says_that_a_file_was_applied_where_the_ledger_was_not_written_after_it() {
    let mut node = node();
    let before = node.ledger_on_disk.clone();
    node.applied("a.yaml");
    node.tick();
    for known in [before, other_content()] {
        node.ledger_on_disk = known;
        // The machine was switched off, and kube-apiserver does not answer yet.
        node.restart();
        let decision = node.tick();
        assert!(node.markers.contains_key(&marker_of("a.yaml")));
        assert_eq!(decision.status.staging.held[0].code, Code::HeldAppliedOnce);
    }
}

/// The ledger of a time at which other objects were in the file.
fn other_content() -> Ledger {
    let mut node = Node::new(&[("a.yaml", &free("other"))]);
    node.tick();
    node.ledger_on_disk
}

#[test]
fn what_a_person_lets_go_is_applied_again_whatever_its_marker_says() {
    let mut node = node();
    node.applied("a.yaml");
    node.tick();
    let marker = node.markers.clone();
    let manual = Manual {
        hold: false,
        by: "root".to_owned(),
        at: node.now,
        reason: "again".to_owned(),
    };
    node.state
        .hold_or_release(&"a.yaml".into(), &BTreeMap::new(), manual, node.now)
        .unwrap();
    node.tick();
    // The machine was switched off before the marker was gone.
    node.markers = marker;
    node.restart();
    node.tick();
    assert!(node.markers.is_empty());
}
