//! The owners of markers, when markers are created and removed, and how the status shows them.

use super::*;

#[test]
fn a_foreign_marker_is_left_alone_and_shown() {
    let mut node = Node::new(&[("a.yaml", WIDGET), ("b.yaml", &free("b"))]);
    node.markers.insert(marker_of("b.yaml"), None);
    node.markers.insert(marker_of("a.yaml"), None);
    node.scan();
    let decision = node.tick();
    assert!(
        decision
            .actions
            .iter()
            .all(|action| matches!(action, Action::SaveLedger(_)))
    );
    let held = &decision.status.staging.held;
    assert_eq!(held.len(), 2);
    assert!(
        held.iter()
            .all(|file| file.by == Holder::Other && file.code == Code::HeldByOther)
    );
}

#[test]
fn packaged_files_are_never_touched() {
    let mut node = Node::new(&[
        ("rke2-canal.yaml", WIDGET),
        ("rancher/cluster-agent.yaml", WIDGET),
    ]);
    let decision = node.tick();
    assert_eq!(decision.actions, []);
    assert_eq!(decision.status.staging.total, 0);
}

#[test]
fn a_file_that_rke2_was_quicker_with_is_reported_as_escaped() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.tick();
    node.api();
    node.applied("a.yaml");
    node.tick();
    assert!(node.reported_codes().contains(&Code::Escaped));
    assert!(node.held().is_empty());
}

#[test]
fn what_was_applied_before_this_process_asked_has_not_escaped() {
    for text in [
        WIDGET,
        &WIDGET.replace(
            "{name: w}",
            "{name: w, annotations: {windrow.dev/apply: once}}",
        ),
    ] {
        let mut node = Node::new(&[("a.yaml", text), ("b.yaml", text)]);
        node.tick();
        assert_eq!(node.held(), ["a.yaml", "b.yaml"]);
        let [a, b] = ["a.yaml", "b.yaml"].map(|path| node.addon_of_applied(path));
        node.observe(ClusterEvent::ApiReachable);
        node.observe(ClusterEvent::Addons([a].into_iter().collect()));
        node.tick();
        assert!(!node.reported_codes().contains(&Code::Escaped));
        let entry = &node.ledger_on_disk.files["a.yaml"];
        let cause = Cause::Free;
        assert_eq!(entry.state, FileStage::Applied { cause }, "{text}");
        node.observe(ClusterEvent::Addon(b.0, Some(b.1)));
        node.tick();
        assert!(node.reported_codes().contains(&Code::Escaped), "{text}");
    }
}

#[test]
fn an_addon_that_was_applied_again_since_the_first_list_may_have_escaped() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.tick();
    let (name, addon) = node.addon_of_applied("a.yaml");
    let other = Addon {
        checksum: "of other content".to_owned(),
        ..addon.clone()
    };
    let list =
        |addon: &Addon| ClusterEvent::Addons([(name.clone(), addon.clone())].into_iter().collect());
    node.observe(ClusterEvent::ApiReachable);
    node.observe(list(&other));
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    node.observe(list(&addon));
    node.tick();
    assert!(node.reported_codes().contains(&Code::Escaped));
}

#[test]
fn what_another_server_applies_while_it_is_held_here_has_not_escaped() {
    for text in [
        WIDGET,
        &WIDGET.replace(
            "{name: w}",
            "{name: w, annotations: {windrow.dev/apply: once}}",
        ),
    ] {
        let mut node = Node::new(&[("a.yaml", text)]);
        node.api();
        node.tick();
        node.later(5);
        node.tick();
        node.applied("a.yaml");
        node.tick();
        let cause = Cause::Elsewhere;
        let entry = &node.ledger_on_disk.files["a.yaml"];
        assert_eq!(entry.state, FileStage::Applied { cause }, "{text}");
        let reported = node.events.last().unwrap();
        assert_eq!(reported.code, Code::Applied);
        assert!(reported.message.contains("another server"), "{reported:?}");
    }
}

#[test]
fn a_new_file_is_marked_before_it_is_read_and_the_mark_goes_when_nothing_holds_it() {
    let mut node = Node::new(&[]);
    node.tick();
    let mark = node
        .state
        .provisional_hold(&"new.yaml".into(), node.now)
        .unwrap();
    node.act(&mark);
    assert_eq!(node.tick().actions, [], "the marker waits for its file");
    node.files.insert("new.yaml".to_owned(), free("new"));
    node.scan();
    node.tick();
    assert!(node.held().is_empty());
    assert_eq!(
        node.state
            .provisional_hold(&"rke2-canal.yaml".into(), node.now),
        None
    );
}

#[test]
fn a_provisional_mark_becomes_the_real_one() {
    let mut node = Node::new(&[]);
    let mark = node
        .state
        .provisional_hold(&"new.yaml".into(), node.now)
        .unwrap();
    node.act(&mark);
    node.files.insert("new.yaml".to_owned(), WIDGET.to_owned());
    node.scan();
    node.tick();
    assert_eq!(
        node.markers["new.yaml.skip"].as_ref().unwrap().code,
        Code::WaitsForCluster
    );
}

#[test]
fn the_marker_of_a_machine_outlives_its_file_for_a_while_and_any_other_goes_with_it() {
    let vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: default}\nspec: {runStrategy: Always}\n";
    let mut node = Node::on(
        Some(Platform::Harvester),
        &[("vm.yaml", vm), ("w.yaml", WIDGET)],
    );
    node.api();
    node.tick();
    assert_eq!(node.held(), ["vm.yaml", "w.yaml"]);
    let files = std::mem::take(&mut node.files);
    node.scan();
    node.tick();
    assert_eq!(
        node.held(),
        ["vm.yaml"],
        "should it be written again, RKE2 must not be quicker"
    );
    node.files = files;
    node.scan();
    node.tick();
    assert_eq!(node.held(), ["vm.yaml", "w.yaml"]);
    node.files.clear();
    node.scan();
    node.tick();
    node.later(10);
    node.tick();
    assert!(node.held().is_empty());
    assert!(node.ledger_on_disk.files.is_empty());
}

#[test]
fn what_the_plan_shows_as_held_is_what_the_daemon_holds_on_a_fresh_node() {
    use windrow_inputs::extract;
    use windrow_model::manifest::ReadLimits;
    let example = include_str!("../../../../examples/first-vm/harvester-config.yaml");
    let extraction = extract::extract("config.yaml", example, &ReadLimits::default());
    let mut files: BTreeMap<String, String> = extraction
        .files
        .iter()
        .map(|one| {
            (
                one.path.clone(),
                String::from_utf8(one.content.clone()).unwrap(),
            )
        })
        .collect();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: elsewhere}}]}\n";
    let mixed = format!("{}---\n{WIDGET}", free("part"));
    let cycle = |name: &str, on: &str| {
        waits_for(
            name,
            &format!("/namespaces/default/ConfigMap/{on} (exists)"),
        )
    };
    let further = [
        ("free.yaml", free("free")),
        ("pod.yaml", pod.to_owned()),
        ("mixed.yaml", mixed),
        ("bad.yaml", "}\n".to_owned()),
        ("Upper.yaml", free("upper")),
        ("hold.yaml", annotated("hold", "windrow.dev/hold: yes")),
        ("once.yaml", annotated("once", "windrow.dev/apply: once")),
        ("rke2-canal.yaml", WIDGET.to_owned()),
        ("one.yaml", cycle("one", "two")),
        ("two.yaml", cycle("two", "one")),
        ("needs-cycle.yaml", cycle("three", "one")),
    ];
    files.extend(further.map(|(path, text)| (path.to_owned(), text)));
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let mut node = Node::on(Some(Platform::Harvester), &files);
    node.tick();
    let shown: Vec<&str> = node
        .state
        .plan()
        .files
        .iter()
        .filter(|file| file.held_at_boot().is_some())
        .map(|file| file.path.as_str())
        .collect();
    assert!(shown.len() > 6, "{shown:?}");
    assert_eq!(node.held(), shown);
}

#[test]
fn what_is_wrong_with_the_directory_is_told_once_and_again_when_it_comes_back() {
    let mut node = Node::new(&[("foo.yaml", &free("a")), ("foo.bar.yaml", &free("b"))]);
    let collisions = |node: &Node| {
        node.reported_codes()
            .iter()
            .filter(|&&code| code == Code::AddonCollision)
            .count()
    };
    node.tick();
    node.tick();
    assert_eq!(collisions(&node), 1);
    let bar = node.files.remove("foo.bar.yaml").unwrap();
    node.scan();
    node.tick();
    node.files.insert("foo.bar.yaml".to_owned(), bar);
    node.scan();
    node.tick();
    assert_eq!(collisions(&node), 2);
}

#[test]
fn two_files_of_one_name_are_held_and_released_together() {
    let mut node = Node::new(&[("a/x.yaml", WIDGET), ("b/x.yaml", &free("x"))]);
    node.api();
    node.tick();
    assert_eq!(node.held(), ["a/x.yaml"]);
    node.tick();
    assert_eq!(node.held(), ["a/x.yaml"]);
    node.observe(ClusterEvent::Kind(
        GroupKind::new("example.com", "Widget"),
        KindSeen::SERVED,
    ));
    node.tick();
    assert!(node.held().is_empty());
}

#[test]
fn a_marker_of_ours_that_comes_back_without_its_file_is_lifted() {
    let mut node = Node::new(&[("a.yaml", &free("a")), ("b.yaml", WIDGET)]);
    node.api();
    node.tick();
    let mark = node.markers["b.yaml.skip"].clone();
    node.observe(ClusterEvent::Kind(
        GroupKind::new("example.com", "Widget"),
        KindSeen::SERVED,
    ));
    node.tick();
    node.applied("b.yaml");
    node.tick();
    node.files.remove("b.yaml");
    node.scan();
    node.tick();
    assert!(node.held().is_empty());
    node.markers.insert(marker_of("b.yaml"), mark);
    node.scan();
    node.tick();
    assert!(node.held().is_empty());
}

#[test]
fn of_a_marker_and_its_copies_the_first_is_taken_over_where_the_ledger_is_lost() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.tick();
    let mark = node.markers["a.yaml.skip"].clone().unwrap();
    for number in 0..8 {
        let copy = Mark {
            why: format!("copy {number}").into(),
            code: Code::HeldByHand,
            ..mark.clone()
        };
        let path = marker_of(&format!("{}.yaml", (b'b' + number) as char));
        node.markers.insert(path, Some(copy));
    }
    node.markers.remove("a.yaml.skip");
    node.ledger_on_disk = Ledger::default();
    node.restart();
    let entry = node.state.ledger().files.get("a.yaml");
    assert_eq!(entry.unwrap().manual.as_ref().unwrap().reason, "copy 0");
}

#[test]
fn files_of_one_name_agree_on_what_the_failsafe_does_and_their_marker_comes_to_rest() {
    let vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: default}\nspec: {runStrategy: Always}\n";
    let mut node = Node::on(
        Some(Platform::Harvester),
        &[
            ("a/pair.yaml", &free("a")),
            ("pair.yaml", WIDGET),
            ("sub/pair.yaml", vm),
        ],
    );
    node.api();
    node.tick();
    let marker = |node: &Node| node.markers.values().flatten().next().cloned().unwrap();
    assert_eq!(marker(&node).on_failure, OnFailure::Keep);
    assert_eq!(node.tick().actions, []);
    assert_eq!(node.markers.len(), 1);
}

#[test]
fn a_file_that_was_applied_does_not_uncover_one_of_its_name_that_waits() {
    let mut node = Node::new(&[("pair.yaml", &free("c"))]);
    node.api();
    node.tick();
    node.applied("pair.yaml");
    node.tick();
    node.files
        .insert("sub/pair.yaml".to_owned(), WIDGET.to_owned());
    node.scan();
    node.tick();
    let markers = node.markers.len();
    for _ in 0..3 {
        node.scan();
        assert_eq!(node.tick().actions, []);
        assert_eq!((node.markers.len(), markers), (1, 1));
    }
}

#[test]
fn a_person_holds_and_releases_all_files_of_a_name() {
    let mut node = Node::new(&[("pair.yaml", &free("c")), ("sub/pair.yaml", WIDGET)]);
    node.api();
    node.tick();
    for hold in [false, true, false] {
        let manual = Manual {
            hold,
            by: "ann".to_owned(),
            at: node.now,
            reason: "test".to_owned(),
        };
        node.state
            .hold_or_release(&"pair.yaml".into(), &BTreeMap::new(), manual, node.now)
            .unwrap();
        node.tick();
        assert_eq!(node.tick().actions, [], "hold: {hold}");
        assert_eq!(node.markers.len(), usize::from(hold));
        for entry in node.ledger_on_disk.files.values() {
            assert_eq!(matches!(entry.state, FileStage::Held { .. }), hold);
        }
    }
}

#[test]
fn a_marker_stays_while_its_file_is_being_written_and_goes_when_it_is_whole() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    node.tick();
    let kind = GroupKind::new("example.com", "Widget");
    node.observe(ClusterEvent::Kind(kind, KindSeen::SERVED));
    node.state.set_being_written(["a.yaml".into()].into());
    let decision = node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    let held = &decision.status.staging.held;
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].code, Code::Provisional);
    assert_eq!(decision.status.staging.released, []);
    node.state.set_being_written(Default::default());
    let decision = node.tick();
    assert_eq!(node.held(), [""; 0]);
    assert_eq!(decision.status.staging.released.len(), 1);
}

#[test]
fn a_marker_that_has_no_file_yet_stays_while_the_file_is_being_written() {
    let mut node = Node::new(&[]);
    node.api();
    let mark = node
        .state
        .provisional_hold(&"a.yaml".into(), node.now)
        .unwrap();
    node.act(&mark);
    node.later(20);
    node.state.set_being_written(["a.yaml".into()].into());
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    node.state.set_being_written(Default::default());
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn a_marker_that_could_not_be_made_was_not_lost() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    let trouble = MarkerTrouble::NotMade("the disk is full".to_owned());
    let lost = |events: &[Event]| events.iter().any(|event| event.code == Code::MarkerLost);
    // No action is carried out.
    node.state.decide(node.now);
    node.state
        .set_marker_troubles([("a.yaml".into(), trouble)].into());
    assert!(!lost(&node.state.decide(node.now).events));
    // Now the actions are carried out.
    assert!(!lost(&node.tick().events));
    node.state.set_marker_troubles(Default::default());
    assert_eq!(node.held(), ["a.yaml"]);
    assert!(!lost(&node.tick().events));
    node.markers.clear();
    node.scan();
    assert!(lost(&node.state.decide(node.now).events));
}

#[test]
fn a_failure_of_one_file_of_an_addon_is_none_of_the_other() {
    let mut node = Node::new(&[("app.yaml", &free("a")), ("sub/app.yaml", &free("b"))]);
    node.api();
    node.tick();
    let failure = "Applying manifest at \"/var/lib/rancher/rke2/server/manifests/sub/app.yaml\" failed: quota exceeded";
    node.fails("sub/app.yaml", failure);
    let failed = |node: &mut Node| {
        let failed = node.tick().status.staging.failed;
        let files = failed.into_iter().map(|file| file.file.to_string());
        files.collect::<Vec<_>>()
    };
    assert_eq!(failed(&mut node), ["sub/app.yaml"]);
    let failure = failure.replace("sub/", "");
    node.fails("app.yaml", &failure);
    assert_eq!(failed(&mut node), ["app.yaml"]);
    // RKE2 applies both, and an Addon names only the last one.
    node.applied("app.yaml");
    assert!(node.tick().status.staging.settled);
}

#[test]
fn of_files_of_one_addon_the_node_waits_for_one_and_it_does_not_matter_which_was_seen() {
    let new = || {
        let mut node = Node::new(&[
            ("app.yaml", &free("a")),
            ("sub/app.yaml", &free("b")),
            ("web.yaml", &free("c")),
        ]);
        node.api();
        node.tick();
        node.applied("web.yaml");
        node
    };
    let settled = |node: &mut Node| node.tick().status.staging.settled;
    let mut node = new();
    assert!(!settled(&mut node));
    // RKE2 applies both within a moment, and an Addon reports only the last one as applied.
    for last in ["app.yaml", "sub/app.yaml"] {
        let mut node = new();
        node.applied(last);
        assert!(settled(&mut node), "{last}");
        node.restart();
        node.observe(ClusterEvent::ApiReachable);
        assert!(!settled(&mut node), "the Addons are not listed yet");
        node.observe(ClusterEvent::Addons(foldhash::HashMap::default()));
        assert!(!settled(&mut node), "RKE2 has none of them");
        node.applied("web.yaml");
        assert!(!settled(&mut node), "RKE2 has neither");
        node.applied(last);
        assert!(settled(&mut node), "{last}");
    }
    // RKE2's events about one of them count, and so does an Addon whose file has changed since then.
    let mut node = new();
    node.applied("app.yaml");
    node.fails("sub/app.yaml", "there is no such kind");
    assert!(!settled(&mut node));
    let mut node = new();
    node.applied("app.yaml");
    node.files.insert("app.yaml".to_owned(), free("d"));
    node.scan();
    assert!(!settled(&mut node));
    node.files.remove("sub/app.yaml");
    node.scan();
    assert!(!settled(&mut node));
    node.applied("app.yaml");
    assert!(settled(&mut node));
}

#[test]
fn who_releases_a_name_releases_a_file_of_it_that_is_gone_for_the_moment() {
    let mut node = Node::new(&[("a/x.yaml", &free("a")), ("b/x.yaml", &free("b"))]);
    node.api();
    node.tick();
    let order = |node: &mut Node, hold: bool| {
        let manual = Manual {
            hold,
            by: "ann".to_owned(),
            at: node.now,
            reason: "not yet".to_owned(),
        };
        let now = node.now;
        let path = "a/x.yaml".into();
        node.state
            .hold_or_release(&path, &BTreeMap::new(), manual, now)
            .unwrap();
        node.tick();
    };
    order(&mut node, true);
    assert_eq!(node.held(), ["a/x.yaml"]);
    let other = node.files.remove("b/x.yaml").unwrap();
    node.scan();
    node.tick();
    order(&mut node, false);
    node.files.insert("b/x.yaml".to_owned(), other);
    node.scan();
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn a_ledger_that_can_be_read_later_counts_with_what_a_person_ordered_meanwhile() {
    let text = waits_for("a", "/namespaces/default/ConfigMap/x (exists)");
    let mut node = Node::new(&[("a.yaml", &text), ("b.yaml", &free("b"))]);
    node.state.set_cluster(ClusterIdentity {
        ca: Some("one".to_owned()),
        datastore: Some("d".to_owned()),
    });
    let manual = |hold: bool, at| Manual {
        hold,
        by: "root".to_owned(),
        at,
        reason: "testing".to_owned(),
    };
    let now = node.now;
    let order = |node: &mut Node, path: &str, hold: bool| {
        let (path, manual) = (path.into(), manual(hold, node.now));
        let ordered = node
            .state
            .hold_or_release(&path, &BTreeMap::new(), manual, node.now);
        ordered.unwrap();
    };
    order(&mut node, "a.yaml", false);
    node.tick();
    let earlier = std::mem::take(&mut node.ledger_on_disk);
    node.later(1);
    node.restart();
    node.tick();
    assert_eq!(node.held(), ["a.yaml"], "its release is unknown");
    order(&mut node, "b.yaml", true);
    node.state.recover_ledger(earlier);
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
    let saved = &node.ledger_on_disk;
    assert_eq!(saved.datastore.as_deref(), Some("d"));
    assert_eq!(saved.files["a.yaml"].first_seen, now);
}

/// The marker stays at the old path of the file, and is rewritten for the file that it holds now.
#[test]
fn a_held_file_that_is_moved_or_has_another_of_its_name_is_reported_gone_once() {
    for text in [WIDGET, VM] {
        for before in [&["x.yaml"][..], &["x.yaml", "sub/x.yaml"]] {
            let files: Vec<(&str, &str)> = before.iter().map(|path| (*path, text)).collect();
            let mut node = Node::on(Some(Platform::Harvester), &files);
            node.tick();
            node.files.remove("x.yaml");
            node.files.insert("sub/x.yaml".to_owned(), text.to_owned());
            for _ in 0..30 {
                node.later(1);
                node.scan();
                node.tick();
            }
            let codes = node.reported_codes();
            let gone = codes.iter().filter(|code| **code == Code::Vanished);
            assert_eq!(gone.count(), 1, "{before:?} {text}");
        }
    }
}

#[test]
fn an_order_counts_although_the_clock_was_ahead_when_the_unread_ledger_was_written() {
    for first in [true, false] {
        let mut node = Node::new(&[("a.yaml", &free("a"))]);
        order(&mut node, "a.yaml", first).unwrap();
        node.tick();
        let earlier = std::mem::take(&mut node.ledger_on_disk);
        node.now -= SignedDuration::from_hours(8);
        node.restart();
        node.tick();
        node.later(1);
        order(&mut node, "a.yaml", !first).unwrap();
        node.tick();
        assert_eq!(node.held().is_empty(), first);
        node.later(1);
        node.state.recover_ledger(earlier);
        node.tick();
        assert_eq!(node.held().is_empty(), first, "first {first}");
    }
}

/// `windrow release --all` and the fail-safe name the file next to the marker, or the one that it was made for.
#[test]
fn a_release_of_a_held_file_that_was_moved_lets_it_go() {
    let mut node = Node::new(&[("x.yaml", WIDGET)]);
    node.tick();
    node.files.remove("x.yaml");
    node.files
        .insert("sub/x.yaml".to_owned(), WIDGET.to_owned());
    node.scan();
    node.tick();
    assert_eq!(node.held(), ["x.yaml"], "its marker stays where it was");
    release(&mut node, "x.yaml");
    node.tick();
    assert_eq!(node.held(), [""; 0]);
    node.scan();
    assert_eq!(node.tick().actions, []);
}
