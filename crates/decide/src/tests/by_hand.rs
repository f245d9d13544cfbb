//! Holds and releases by hand.

use super::*;

#[test]
fn hold_and_release_by_hand_win_and_are_remembered() {
    let order = |hold: bool, now| Manual {
        hold,
        by: "root".to_owned(),
        at: now,
        reason: "testing".to_owned(),
    };
    let mut node = Node::new(&[("a.yaml", &free("a")), ("b.yaml", WIDGET)]);
    node.api();
    node.tick();
    let now = node.now;
    node.state
        .hold_or_release(&"a.yaml".into(), &BTreeMap::new(), order(true, now), now)
        .unwrap();
    node.state
        .hold_or_release(&"b.yaml".into(), &BTreeMap::new(), order(false, now), now)
        .unwrap();
    node.tick();
    assert_eq!(node.held(), ["a.yaml"], "a user may hold a released file");
    node.restart();
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    let now = node.now;
    node.state
        .hold_or_release(&"a.yaml".into(), &BTreeMap::new(), order(false, now), now)
        .unwrap();
    node.tick();
    assert!(node.held().is_empty());
    assert!(
        node.state
            .hold_or_release(
                &"nowhere.yaml".into(),
                &BTreeMap::new(),
                order(false, now),
                now
            )
            .is_err()
    );
    assert!(
        node.state
            .hold_or_release(
                &"rke2-canal.yaml".into(),
                &BTreeMap::new(),
                order(true, now),
                now
            )
            .is_err()
    );
}

/// Its marker was made for another reason before.
#[test]
fn a_hold_by_hand_of_a_file_that_waits_already_survives_a_lost_ledger() {
    let mut node = Node::on(Some(Platform::Harvester), &[("vm.yaml", VM)]);
    node.tick();
    let order = Manual {
        hold: true,
        by: "root".to_owned(),
        at: node.now,
        reason: "testing".to_owned(),
    };
    node.state
        .hold_or_release(&"vm.yaml".into(), &BTreeMap::new(), order, node.now)
        .unwrap();
    node.tick();
    assert_eq!(node.tick().actions, [], "the marker is made once");
    node.ledger_on_disk = Ledger::default();
    node.restart();
    let status = node.tick().status;
    assert_eq!(status.staging.held[0].code, Code::HeldByHand);
}

#[test]
fn a_marker_no_longer_says_that_a_person_holds_its_file_once_it_waits_for_something_else() {
    let other = VM.replace("name: web", "name: other");
    let files = [("a/x.yaml", VM), ("b/x.yaml", VM)];
    let mut node = Node::on(Some(Platform::Harvester), &files);
    for hold in [true, false] {
        let order = Manual {
            hold,
            by: "root".to_owned(),
            at: node.now,
            reason: "testing".to_owned(),
        };
        node.state
            .hold_or_release(&"a/x.yaml".into(), &BTreeMap::new(), order, node.now)
            .unwrap();
        if hold {
            node.tick();
        }
    }
    // It is written again before the marker can be removed.
    node.files.insert("b/x.yaml".to_owned(), other);
    node.scan();
    node.tick();
    let mut marks = node.markers.values().flatten();
    assert!(marks.all(|mark| mark.code != Code::HeldByHand));
    assert_eq!(node.held(), ["a/x.yaml"]);
    assert_eq!(node.tick().actions, []);
}

#[test]
fn a_release_of_other_content_does_not_say_that_rke2_applied_it() {
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    node.api();
    node.tick();
    node.applied("a.yaml");
    node.tick();
    node.files.insert("a.yaml".to_owned(), WIDGET.to_owned());
    node.scan();
    release(&mut node, "a.yaml");
    let staging = node.tick().status.staging;
    let released: Vec<&str> = staging.released.iter().map(|one| &*one.file).collect();
    assert_eq!(released, ["a.yaml"]);
    assert!(!staging.settled);
}

#[test]
fn a_release_of_other_content_is_remembered_over_a_restart() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    node.tick();
    release(&mut node, "a.yaml");
    node.tick();
    let other = format!("{WIDGET}---\n{}", free("b"));
    node.files.insert("a.yaml".to_owned(), other);
    node.scan();
    release(&mut node, "a.yaml");
    node.tick();
    assert_eq!(node.held(), [""; 0]);
    node.restart();
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn a_hold_that_is_read_back_from_its_marker_says_the_same() {
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    let manual = Manual {
        hold: true,
        by: "root (uid 0)".to_owned(),
        at: node.now,
        reason: "the disk (sda) is new".to_owned(),
    };
    let path = "a.yaml".into();
    node.state
        .hold_or_release(&path, &BTreeMap::new(), manual, node.now)
        .unwrap();
    let why = |node: &mut Node| node.tick().status.staging.held[0].why.clone();
    let before = why(&mut node);
    node.ledger_on_disk = Ledger::default();
    node.restart();
    assert_eq!(why(&mut node), before);
}

#[test]
fn a_hold_by_hand_is_of_the_name_whichever_files_have_it() {
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    let manual = Manual {
        hold: true,
        by: "root".to_owned(),
        at: node.now,
        reason: "testing".to_owned(),
    };
    node.api();
    node.state
        .hold_or_release(&"a.yaml".into(), &BTreeMap::new(), manual, node.now)
        .unwrap();
    node.tick();
    node.files.remove("a.yaml");
    node.files.insert("sub/a.yaml".to_owned(), free("b"));
    node.scan();
    let decision = node.tick();
    assert_eq!(decision.status.staging.held[0].code, Code::HeldByHand);
    assert!(node.markers.contains_key(&marker_of("a.yaml")));
    node.restart();
    let decision = node.tick();
    assert_eq!(decision.status.staging.held[0].file, "sub/a.yaml");
    release(&mut node, "sub/a.yaml");
    node.tick();
    assert_eq!(node.held(), [""; 0]);
    assert!(node.markers.is_empty());
}

#[test]
fn what_the_fail_safe_let_go_is_not_held_again_after_the_marker_of_another_program_is_gone() {
    let held_after_release_by = |who: &str| {
        let mut node = Node::new(&[("a.yaml", WIDGET)]);
        node.api();
        node.tick();
        assert_eq!(node.held(), ["a.yaml"]);
        // The fail-safe removes Windrow's marker, and another program creates one before the daemon runs again.
        node.markers.insert(marker_of("a.yaml"), None);
        node.restart();
        node.api();
        let order = Manual {
            hold: false,
            by: who.to_owned(),
            at: node.now,
            reason: "Windrow could not run".to_owned(),
        };
        let now = node.now;
        let path = "a.yaml".into();
        let taken = node
            .state
            .hold_or_release(&path, &BTreeMap::new(), order, now);
        node.tick();
        node.markers.remove("a.yaml.skip");
        node.scan();
        node.tick();
        (taken.is_ok(), node.held().len())
    };
    assert_eq!(held_after_release_by(Manual::FAILSAFE), (true, 0));
    assert_eq!(held_after_release_by("ann"), (false, 1));
}
