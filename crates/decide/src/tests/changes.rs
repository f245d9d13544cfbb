//! A decision follows every change: of markers, of kube-apiserver, of the clock, of the objects to watch.

use windrow_plan::readiness::ObservedCluster;

use super::*;

fn holders(decision: &Decision) -> Vec<(&str, Holder)> {
    let held = decision.status.staging.held.iter();
    held.map(|file| (file.file.as_str(), file.by)).collect()
}

#[test]
fn a_foreign_marker_counts_from_the_look_that_finds_it_until_the_one_that_does_not() {
    let mut node = Node::new(&[("a.yaml", WIDGET), ("b.yaml", &free("b"))]);
    node.api();
    node.tick();
    assert_eq!(holders(&node.tick()), [("a.yaml", Holder::Windrow)]);
    node.markers.insert(marker_of("b.yaml"), None);
    node.scan();
    let both = [("a.yaml", Holder::Windrow), ("b.yaml", Holder::Other)];
    assert_eq!(holders(&node.tick()), both);
    node.markers.remove("b.yaml.skip");
    node.scan();
    assert_eq!(holders(&node.tick()), [("a.yaml", Holder::Windrow)]);
}

#[test]
fn why_a_file_waits_is_said_again_when_kube_apiserver_goes_and_when_it_comes_back() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    let why = |node: &mut Node| node.tick().status.staging.held[0].why.clone();
    assert!(why(&mut node).contains("does not answer yet"));
    node.api();
    let asked = why(&mut node);
    assert!(asked.contains("kube-apiserver is being asked"), "{asked}");
    let refused = "connection refused".to_owned();
    node.observe(ClusterEvent::ApiUnreachable { why: refused });
    let gone = why(&mut node);
    assert!(
        gone.contains("cannot be asked: connection refused"),
        "{gone}"
    );
    node.observe(ClusterEvent::ApiReachable);
    assert_eq!(why(&mut node), asked);
}

#[test]
fn a_look_that_finds_nothing_new_leaves_what_has_to_be_watched_as_it_is() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    node.tick();
    let before = node.state.interests();
    node.scan();
    assert_eq!(before, node.state.interests());
    node.files.insert(
        "b.yaml".to_owned(),
        waits_for("b", "/namespaces/default/ConfigMap/c"),
    );
    node.scan();
    let after = node.state.interests();
    assert!(after.objects.contains_key(&config_map("c")));
}

#[test]
fn what_is_wanted_again_after_it_was_forgotten_is_to_be_told_again() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    let widget = GroupKind::new("example.com", "Widget");
    node.observe(ClusterEvent::Kind(widget, KindSeen::NotServed));
    let renewed = |node: &mut Node, text: &str| {
        node.files.insert("a.yaml".to_owned(), text.to_owned());
        node.scan();
        node.state.interests().renewed
    };
    assert_eq!(renewed(&mut node, &free("a")), 0);
    // A watcher may have missed the state in between.
    assert_eq!(renewed(&mut node, WIDGET), 1);
    assert_eq!(renewed(&mut node, &format!("{WIDGET}# the same\n")), 1);
}

#[test]
fn a_pipe_that_is_found_again_is_the_same_pipe_and_nothing_is_planned_again() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    let look = |node: &mut Node| {
        let pipe = FileChange {
            path: "pipe.yaml".into(),
            content: Some(Arc::new(FileContent::Fifo)),
        };
        node.state.take_directory(Directory {
            files: vec![pipe],
            markers: Vec::new(),
        });
        node.tick();
        std::ptr::from_ref(node.state.plan())
    };
    assert_eq!(look(&mut node), look(&mut node));
}

#[test]
fn what_is_watched_no_longer_is_forgotten_and_asked_for_again() {
    let waits = waits_for("a", "/namespaces/default/ConfigMap/x (exists)");
    let mut node = Node::new(&[("a.yaml", &waits)]);
    node.api();
    node.exists(config_map("x"));
    node.files.clear();
    node.scan();
    node.files.insert("a.yaml".to_owned(), waits);
    node.scan();
    let known = node.state.observation().object(&config_map("x")).clone();
    assert_eq!(known, ObjectSeen::NotAsked);
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
}

#[test]
fn what_was_not_carried_out_is_asked_for_again_and_again() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    let holds = |decision: &Decision| {
        let actions = decision.actions.iter();
        actions
            .filter(|action| matches!(action, Action::Hold { .. }))
            .count()
    };
    for _ in 0..3 {
        let decision = node.state.decide(node.now);
        assert_eq!(holds(&decision), 1, "the disk is full, nothing was done");
    }
    assert_eq!(holds(&node.tick()), 1);
    assert_eq!(holds(&node.tick()), 0, "it was done");
}

#[test]
fn when_the_clock_is_set_back_the_next_deadline_comes_no_later() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    node.tick();
    let wake = node.tick().next_wake.unwrap();
    let back = SignedDuration::from_hours(-1);
    node.state.shift_clock(back);
    node.now += back;
    assert_eq!(node.tick().next_wake, Some(wake + back));
}

#[test]
fn what_has_to_be_watched_follows_the_objects() {
    let text = waits_for("a", "/namespaces/default/PersistentVolumeClaim/data");
    let mut node = Node::new(&[("a.yaml", &text)]);
    let claim = ObjectRef::namespaced("", "PersistentVolumeClaim", "default", "data");
    for name in ["fast", "slow", "fast"] {
        let value = json!({"spec": {"storageClassName": name}, "status": {"phase": "Pending"}});
        let seen = ObjectSeen::Present(Arc::new(value));
        node.observe(ClusterEvent::Object(claim.clone(), seen));
        let interests = node.state.interests();
        let classes: Vec<&str> = interests
            .objects
            .keys()
            .filter(|object| object.kind == "StorageClass")
            .map(|class| class.name.as_str())
            .collect();
        assert_eq!(classes, [name]);
        node.tick();
    }
}

#[test]
fn a_process_that_starts_again_with_the_same_files_decides_as_a_new_one() {
    let files = [("a.yaml", WIDGET), ("b.yaml", &free("b"))];
    let mut node = Node::new(&files);
    node.api();
    node.tick();
    let ledger = Arc::clone(node.state.ledger());
    let mut again = node.state.restarted(Arc::clone(&ledger), node.now);
    let mut new = new_state(Ledger::clone(&ledger), Some(Platform::Rke2), node.now);
    let (again, new) = [&mut again, &mut new]
        .map(|state| {
            let changes = files.iter().map(|(path, text)| FileChange {
                path: (*path).into(),
                content: Some(Arc::new(FileContent::Bytes(text.as_bytes().to_vec()))),
            });
            state.take_directory(Directory {
                files: changes.collect(),
                markers: Vec::new(),
            });
            state.decide(node.now)
        })
        .into();
    assert_eq!(again.actions, new.actions);
    assert_eq!(again.events, new.events);
    assert_eq!(again.status, new.status);
}

#[test]
fn what_rke2_cannot_apply_is_reported_once_for_each_reason() {
    let mut node = Node::new(&[("a.yaml", &free("a")), ("b.yaml", &free("b"))]);
    node.api();
    node.tick();
    let failures = |node: &Node| -> Vec<String> {
        let failed = |event: &&Event| event.code == Code::ApplyFailed;
        let events = node.events.iter().filter(failed);
        events
            .map(|event| format!("{:?} {}", event.file, event.message))
            .collect()
    };
    node.fails("a.yaml", "quota exceeded");
    node.tick();
    node.fails("a.yaml", "quota exceeded");
    node.tick();
    let first = failures(&node);
    assert_eq!(first.len(), 1, "{first:?}");
    assert!(first[0].starts_with("Some(\"a.yaml\")"), "{first:?}");
    assert!(first[0].contains("quota exceeded"), "{first:?}");
    node.fails("a.yaml", "the webhook refuses it");
    node.tick();
    let both = failures(&node);
    assert_eq!(both.len(), 2, "another reason is another event: {both:?}");
    assert!(both[1].contains("the webhook refuses it"), "{both:?}");
}

#[test]
fn a_marker_that_says_what_does_not_hold_any_more_is_written_again() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    node.tick();
    let right = node.markers["a.yaml.skip"].clone().unwrap();
    let provisional = Mark {
        code: Code::Provisional,
        ..right.clone()
    };
    let kept = Mark {
        on_failure: OnFailure::Keep,
        ..right.clone()
    };
    assert_eq!(right.on_failure, OnFailure::Lift);
    for outdated in [provisional, kept] {
        node.markers.insert(marker_of("a.yaml"), Some(outdated));
        node.scan();
        node.tick();
        assert_eq!(node.markers["a.yaml.skip"].as_ref(), Some(&right));
    }
}

#[test]
fn a_marker_with_the_content_of_before_is_written_again_and_one_that_is_right_stays() {
    let rewritten = |node: &mut Node| {
        let decision = node.tick();
        let actions = decision.actions.iter();
        let holds = actions.filter(|action| matches!(action, Action::Hold { .. }));
        holds.count()
    };
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    node.tick();
    node.scan();
    assert_eq!(rewritten(&mut node), 0, "nothing has changed");
    let other = WIDGET.replace("name: w", "name: w, namespace: other");
    node.files.insert("a.yaml".to_owned(), other);
    node.scan();
    assert_eq!(rewritten(&mut node), 1, "its digest is of the old content");
    node.scan();
    assert_eq!(rewritten(&mut node), 0);
    // A second file with the base name does not change the marker: it names the first file.
    node.files
        .insert("sub/a.yaml".to_owned(), WIDGET.to_owned());
    node.scan();
    node.tick();
    node.scan();
    assert_eq!(rewritten(&mut node), 0, "each marker names its own file");
}
