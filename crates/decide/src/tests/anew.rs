//! What was decided is decided again when something changes that it rests on: with debug assertions the
//! core compares every decision with one of everything, so missing a change fails here too.

use super::*;

fn by(decision: &Decision) -> Vec<(&str, Holder)> {
    let held = decision.status.staging.held.iter();
    held.map(|file| (file.file.as_str(), file.by)).collect()
}

#[test]
fn a_marker_of_somebody_else_counts_from_the_look_that_finds_it_until_the_one_that_does_not() {
    let mut node = Node::new(&[("a.yaml", WIDGET), ("b.yaml", &free("b"))]);
    node.api();
    node.tick();
    assert_eq!(by(&node.tick()), [("a.yaml", Holder::Windrow)]);
    node.markers.insert("b.yaml.skip".to_owned(), None);
    node.scan();
    let both = [("a.yaml", Holder::Windrow), ("b.yaml", Holder::Other)];
    assert_eq!(by(&node.tick()), both);
    node.markers.remove("b.yaml.skip");
    node.scan();
    assert_eq!(by(&node.tick()), [("a.yaml", Holder::Windrow)]);
}

#[test]
fn why_a_file_waits_is_told_anew_when_kube_apiserver_goes_and_when_it_comes_back() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    let why = |node: &mut Node| node.tick().status.staging.held[0].why.clone();
    assert!(why(&mut node).contains("does not answer yet"));
    node.api();
    let asked = why(&mut node);
    assert!(asked.contains("was not asked for yet"), "{asked}");
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
    let before = node.engine.interests();
    node.scan();
    assert!(Arc::ptr_eq(&before, &node.engine.interests()));
    node.files.insert(
        "b.yaml".to_owned(),
        waits_for("b", "/namespaces/default/ConfigMap/c"),
    );
    node.scan();
    let after = node.engine.interests();
    assert!(after.objects.contains_key(&config_map("c")));
}

#[test]
fn what_was_not_carried_out_is_asked_for_again_and_again() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    let holds = |decision: &Decision| {
        let actions = decision.steps.actions.iter();
        actions
            .filter(|action| matches!(action, Action::Hold { .. }))
            .count()
    };
    for _ in 0..3 {
        let decision = node.engine.decide(node.now);
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
    let wake = node.tick().steps.next_wake.unwrap();
    let back = SignedDuration::from_hours(-1);
    node.engine.clock_jumped(back);
    node.now += back;
    assert_eq!(node.tick().steps.next_wake, Some(wake + back));
}

#[test]
fn considered_anew_everything_is_as_it_was() {
    let mut node = Node::new(&[("a.yaml", WIDGET), ("b.yaml", &free("b"))]);
    node.api();
    node.tick();
    let before = node.tick();
    node.engine.reconsider();
    let after = node.tick();
    assert_eq!(after.steps, before.steps);
    assert_eq!(after.status, before.status);
    assert_eq!(node.held(), ["a.yaml"]);
}

#[test]
fn steps_are_those_of_the_decision_with_its_status_and_events() {
    let mut one = Node::new(&[("a.yaml", WIDGET), ("b.yaml", &free("b"))]);
    let mut other = Node::new(&[("a.yaml", WIDGET), ("b.yaml", &free("b"))]);
    let mut told = 0;
    for _ in 0..2 {
        let steps = one.engine.steps(one.now);
        let mut decided = other.engine.decide(other.now).steps;
        told += decided.events.drain(..).count();
        assert_eq!(steps, decided);
        for action in &steps.actions {
            one.act(action);
            other.act(action);
        }
        one.api();
        other.api();
    }
    assert!(told > 0);
}

#[test]
fn what_has_to_be_watched_follows_the_objects_in_an_engine_of_known_files_too() {
    let text = waits_for("a", "/namespaces/default/PersistentVolumeClaim/data");
    let content = Arc::new(Content::Bytes(text.into_bytes()));
    let settings = Settings::default();
    let library = Library::of(
        [("a.yaml", &content)].into_iter(),
        &settings.staging.limits,
        &rules(),
        Some(Platform::Rke2),
    );
    let mut engine =
        engine(Ledger::default(), Some(Platform::Rke2), start()).knowing(Arc::new(library));
    engine.scanned(Directory {
        files: vec![FileChange {
            path: "a.yaml".to_owned(),
            content: Some(Arc::clone(&content)),
        }],
        markers: Vec::new(),
    });
    let claim = ObjectRef::namespaced("", "PersistentVolumeClaim", "default", "data");
    let of_class = |name: &str| {
        ObjectSeen::Present(Arc::new(serde_json::json!({
            "spec": {"storageClassName": name}, "status": {"phase": "Pending"}})))
    };
    // The third is what the first was.
    let (fast, slow) = (of_class("fast"), of_class("slow"));
    for (seen, name) in [(&fast, "fast"), (&slow, "slow"), (&fast, "fast")] {
        engine.observed(ClusterEvent::Object(claim.clone(), seen.clone()), start());
        let interests = engine.interests();
        let classes: Vec<&str> = interests
            .objects
            .keys()
            .filter(|object| object.kind == "StorageClass")
            .map(|class| class.name.as_str())
            .collect();
        assert_eq!(classes, [name]);
        engine.decide(start());
    }
}
