//! Files that are to be applied once.

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
    let code = |decision: Decision| decision.status.staging.held[0].code;
    assert_eq!(code(node.tick()), Code::OnceUnconfirmed);
    assert_eq!(node.held(), ["a.yaml"]);
    node.api();
    node.applied("a.yaml");
    assert_eq!(code(node.tick()), Code::HeldAppliedOnce);
}

#[test]
fn a_marker_says_that_a_file_was_applied_where_the_ledger_was_not_written_after_it() {
    let mut node = node();
    let before = node.ledger_on_disk.clone();
    node.applied("a.yaml");
    node.tick();
    for known in [before, other_content()] {
        node.ledger_on_disk = known;
        // The node was switched off, and kube-apiserver does not answer yet.
        node.restart();
        let decision = node.tick();
        assert!(node.markers.contains_key(&marker_of("a.yaml")));
        assert_eq!(decision.status.staging.held[0].code, Code::HeldAppliedOnce);
    }
}

/// The ledger of a time at which the file had other objects.
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
    // The node was switched off before the marker was removed.
    node.markers = marker;
    node.restart();
    node.tick();
    assert!(node.markers.is_empty());
}

fn member(datastore: Option<&str>) -> ClusterIdentity {
    ClusterIdentity {
        ca: Some("one".to_owned()),
        datastore: datastore.map(str::to_owned),
    }
}

/// A server that has applied `a.yaml` once, and whose `server/db` was removed. The daemon runs, or is restarted.
fn member_without_datastore(restarts: bool) -> Node {
    let mut node = node();
    node.state.set_cluster(member(Some("d")));
    node.applied("a.yaml");
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    if restarts {
        node.restart();
    }
    node.state.set_cluster(member(None)).unwrap();
    node
}

#[test]
fn apply_once_is_not_applied_again_on_a_server_that_rejoins_its_cluster() {
    for restarts in [false, true] {
        let mut node = member_without_datastore(restarts);
        node.tick();
        assert_eq!(node.held(), ["a.yaml"], "{restarts}");
        node.restart();
        assert_eq!(node.state.set_cluster(member(Some("e"))), None);
        node.tick();
        assert_eq!(node.held(), ["a.yaml"], "{restarts}");
        let mark = node.markers["a.yaml.skip"].as_ref().unwrap();
        assert_eq!(mark.on_failure, OnFailure::Keep);
    }
}

#[test]
fn apply_once_is_applied_in_a_cluster_that_does_not_have_it_and_kept_in_one_that_has() {
    let other = Addon {
        checksum: "of other bytes".to_owned(),
        source: "/var/lib/rancher/rke2/server/manifests/a.yaml".to_owned(),
    };
    for (addon, is_kept) in [(None, false), (Some(other), true)] {
        let mut node = member_without_datastore(false);
        node.tick();
        let mut addons = foldhash::HashMap::default();
        addons.insert(
            "rke2-canal".into(),
            Addon {
                checksum: "c".to_owned(),
                source: String::new(),
            },
        );
        addons.extend(addon.map(|addon| ("a".into(), addon)));
        node.state.set_cluster(member(Some("e")));
        let renewed = node.state.interests().renewed;
        node.observe(ClusterEvent::Addons(addons.clone()));
        node.tick();
        assert_eq!(
            node.held(),
            ["a.yaml"],
            "asked before the cluster was another one"
        );
        node.observe(ClusterEvent::SessionBegins { renewed });
        node.observe(ClusterEvent::ApiReachable);
        node.observe(ClusterEvent::Addons(addons));
        let before = node.ledger_on_disk.clone();
        let decision = node.tick();
        assert_eq!(!node.held().is_empty(), is_kept);
        assert!(!node.reported_codes().contains(&Code::Escaped));
        if is_kept {
            assert_eq!(decision.status.staging.held[0].code, Code::HeldAppliedOnce);
            // The node was switched off before the ledger was written.
            node.ledger_on_disk = before;
            node.restart();
            node.tick();
            assert_eq!(node.held(), ["a.yaml"]);
        }
    }
}

#[test]
fn apply_once_waits_until_the_addons_are_listed_and_no_longer_than_the_blind_deadline() {
    let once = annotated("a", "windrow.dev/apply: once");
    let mut node = Node::new(&[("a.yaml", &once), ("b.yaml", &once)]);
    node.tick();
    assert_eq!(node.held(), ["a.yaml", "b.yaml"]);
    let [a] = ["a.yaml"].map(|path| node.addon_of_applied(path));
    node.observe(ClusterEvent::ApiReachable);
    node.observe(ClusterEvent::Addons([a].into_iter().collect()));
    node.tick();
    assert_eq!(node.held(), ["a.yaml"], "another server has applied it");
    let mut node = Node::new(&[("a.yaml", &once)]);
    node.tick();
    node.later(30);
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn what_answers_from_a_removed_datastore_does_not_count() {
    let mut node = node();
    node.state.set_cluster(member(Some("d")));
    node.applied("a.yaml");
    node.tick();
    // RKE2 still runs while `server/db` is removed, and the node is restarted then.
    node.state.set_cluster(member(None)).unwrap();
    let renewed = node.state.interests().renewed;
    let addon = node.addon_of_applied("a.yaml");
    let answers = |node: &mut Node| {
        node.observe(ClusterEvent::SessionBegins { renewed });
        node.observe(ClusterEvent::ApiReachable);
        node.observe(ClusterEvent::Addons([addon.clone()].into_iter().collect()));
        node.tick().status.staging.held[0].code
    };
    assert_eq!(answers(&mut node), Code::OnceUnconfirmed);
    node.restart();
    assert_eq!(answers(&mut node), Code::OnceUnconfirmed);
    node.observe(ClusterEvent::ApiUnreachable {
        why: "stopped".to_owned(),
    });
    node.state.set_cluster(member(Some("e")));
    node.tick();
    let renewed = node.state.interests().renewed;
    node.observe(ClusterEvent::SessionBegins { renewed });
    node.api();
    node.tick();
    assert_eq!(node.held(), [""; 0], "the new datastore does not have it");
}

#[test]
fn a_marker_says_that_a_file_was_applied_where_the_ledger_says_that_it_waits() {
    let once = annotated("a", "windrow.dev/apply: once");
    let mut node = Node::new(&[("a.yaml", &once)]);
    node.tick();
    let before = node.ledger_on_disk.clone();
    assert!(matches!(
        before.files["a.yaml"].state,
        FileStage::Held { .. }
    ));
    let [a] = ["a.yaml"].map(|path| node.addon_of_applied(path));
    node.observe(ClusterEvent::ApiReachable);
    node.observe(ClusterEvent::Addons([a].into_iter().collect()));
    node.tick();
    // The disk was full whenever the ledger was to be written, and the node was switched off twice.
    for unreadable in [vec![], vec!["a.yaml"]] {
        let mut node = node.clone();
        node.unreadable = unreadable.clone();
        for time in ["first", "second"] {
            node.ledger_on_disk = before.clone();
            node.restart();
            let decision = node.tick();
            let code = decision.status.staging.held[0].code;
            assert_eq!(code, Code::OnceUnconfirmed, "{time} {unreadable:?}");
            let mark = node.markers["a.yaml.skip"].as_ref().unwrap();
            assert_eq!(mark.on_failure, OnFailure::Keep, "{time} {unreadable:?}");
        }
    }
}

#[test]
fn a_file_that_waits_takes_no_marker_from_one_of_its_name_that_was_applied_once() {
    let once = annotated("a", "windrow.dev/apply: once");
    let files = [("a/x.yaml", once.as_str()), ("b/x.yaml", WIDGET)];
    let mut node = Node::new(&files);
    node.api();
    node.tick();
    node.applied("a/x.yaml");
    node.tick();
    let code = |node: &Node| {
        let marks = node.markers.values().flatten();
        marks.map(|mark| mark.code).collect::<Vec<_>>()
    };
    for _ in 0..3 {
        assert_eq!(code(&node), [Code::HeldAppliedOnce]);
        node.tick();
    }
}

#[test]
fn a_marker_of_a_server_that_rejoins_counts_where_the_ledger_knows_other_content() {
    let mut node = member_without_datastore(false);
    node.tick();
    // The file had other content for a moment, and the disk was full when the marker for this content was to be
    // written.
    node.ledger_on_disk = other_content();
    node.restart();
    let decision = node.tick();
    assert_eq!(decision.status.staging.held[0].code, Code::OnceUnconfirmed);
}

#[test]
fn a_marker_of_a_server_that_rejoins_counts_where_the_ledger_was_not_written_after_it() {
    let mut node = node();
    node.state.set_cluster(member(Some("d")));
    node.tick();
    let before = node.ledger_on_disk.clone();
    node.applied("a.yaml");
    node.tick();
    node.state.set_cluster(member(None)).unwrap();
    node.tick();
    // The ledger was not written since RKE2 applied the file.
    node.ledger_on_disk = before;
    node.restart();
    node.state.set_cluster(member(None)).unwrap();
    let decision = node.tick();
    assert_eq!(decision.status.staging.held[0].code, Code::OnceUnconfirmed);
    let mark = node.markers["a.yaml.skip"].as_ref().unwrap();
    assert_eq!(mark.on_failure, OnFailure::Keep);
}

/// In a cluster that never had the file, neither its marker nor the ledger can be written, and the marker cannot be removed.
#[test]
fn a_marker_that_could_not_be_changed_takes_nothing_from_a_release() {
    let mut node = node();
    node.state.set_cluster(member(Some("d")));
    node.applied("a.yaml");
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    let other = ClusterIdentity {
        ca: Some("two".to_owned()),
        datastore: Some("e".to_owned()),
    };
    node.state.set_cluster(other).unwrap();
    let renewed = node.state.interests().renewed;
    let stuck = |node: &mut Node| {
        node.state.decide(node.now);
        let why = "the file system is read-only".to_owned();
        let troubles = [("a.yaml".into(), MarkerTrouble::NotRemoved(why))];
        node.state.set_marker_troubles(troubles.into());
        node.scan();
    };
    stuck(&mut node);
    node.observe(ClusterEvent::SessionBegins { renewed });
    node.api();
    for _ in 0..3 {
        stuck(&mut node);
    }
    node.state.set_marker_troubles(Default::default());
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}
