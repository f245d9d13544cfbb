//! How the status, the events and the record show a decision.

use windrow_plan::readiness::ObservedCluster;

use super::*;
use crate::flight::{Recorder, Tap};

fn order_by(who: &str, hold: bool, at: Timestamp) -> Manual {
    Manual {
        hold,
        by: who.to_owned(),
        at,
        reason: "testing".to_owned(),
    }
}

fn count(node: &Node, code: Code) -> usize {
    node.reported_codes()
        .iter()
        .filter(|&&told| told == code)
        .count()
}

#[test]
fn markers_that_cannot_be_made_or_removed_are_findings_one_for_each_reason() {
    let waits = waits_for("b", "/namespaces/default/ConfigMap/x (exists)");
    let mut node = Node::new(&[
        ("a.yaml", WIDGET),
        ("b.yaml", &waits),
        ("c.yaml", &free("c")),
    ]);
    node.api();
    let mark = Action::Hold {
        path: marker_of("c.yaml"),
        mark: Arc::new(Mark::provisional(&"c.yaml".into(), node.now)),
    };
    node.act(&mark);
    let full = "the disk is full";
    let troubles = [
        ("a.yaml", MarkerTrouble::NotMade(full.to_owned())),
        ("b.yaml", MarkerTrouble::NotMade(full.to_owned())),
        ("c.yaml", MarkerTrouble::NotRemoved(full.to_owned())),
    ];
    let troubles = troubles.map(|(name, trouble)| (name.into(), trouble));
    node.state.set_marker_troubles(troubles.into());
    // No action is carried out.
    let status = node.state.decide(node.now).status;
    let told: Vec<(Code, Vec<&str>)> = status
        .findings
        .iter()
        .filter(|finding| finding.message.contains(full))
        .map(|finding| {
            let files = finding.at.iter().map(|at| at.file.as_str());
            (finding.code, files.collect())
        })
        .collect();
    assert_eq!(
        told,
        [
            (Code::NotHeld, vec!["a.yaml", "b.yaml"]),
            (Code::MarkerStays, vec!["c.yaml"])
        ]
    );
    assert_eq!(status.staging.not_held.len(), 2);
    assert_eq!(status.staging.held[0].code, Code::MarkerStays);
    assert_eq!(status.staging.total, 3);
}

#[test]
fn a_file_that_is_not_held_is_the_reason_before_any_hold_and_any_silence() {
    let mut node = Node::new(&[("a.yaml", WIDGET), ("b.yaml", WIDGET)]);
    node.tick();
    let trouble = MarkerTrouble::NotMade("Operation not permitted".to_owned());
    node.markers.remove("b.yaml.skip");
    node.scan();
    node.state
        .set_marker_troubles([("b.yaml".into(), trouble)].into());
    for answers in [false, true] {
        if answers {
            node.api();
        }
        let status = node.state.decide(node.now).status;
        assert_eq!(
            (status.readiness, status.reason.code),
            (Readiness::SettingUp, Code::NotHeld)
        );
        assert!(status.reason.message.starts_with("b.yaml cannot be held"));
    }
}

#[test]
fn a_held_file_whose_new_content_waits_for_nothing_is_reported_as_released() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    node.tick();
    assert_eq!(count(&node, Code::Held), 1);
    node.files.insert("a.yaml".to_owned(), free("a"));
    node.scan();
    node.tick();
    assert_eq!(count(&node, Code::Released), 1);
}

#[test]
fn a_file_has_failed_since_rke2_first_refused_it() {
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    node.api();
    node.tick();
    node.later(5);
    let refused = node.now;
    node.fails("a.yaml", "no");
    node.tick();
    node.later(7);
    node.fails("a.yaml", "no");
    let failed = &node.tick().status.staging.failed[0];
    assert_eq!(failed.since, refused);
}

#[test]
fn the_node_waits_for_what_windrow_holds_and_not_for_what_others_hold() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    let status = node.tick().status;
    assert_eq!(
        (status.readiness, status.phase),
        (Readiness::SettingUp, Phase::Staging)
    );
    assert!(status.reason.message.starts_with("a.yaml: "));
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.markers.insert(marker_of("a.yaml"), None);
    node.scan();
    node.api();
    let status = node.tick().status;
    assert_eq!(
        (status.readiness, status.phase, status.reason.code),
        (Readiness::Unknown, Phase::Staged, Code::NotProbed)
    );
}

#[test]
fn who_released_a_file_is_told() {
    for (who, words) in [
        (Manual::FAILSAFE, "the fail-safe lifted its hold"),
        (Manual::CLEANUP, "when Windrow was removed"),
        ("ann", "released by hand"),
    ] {
        let mut node = Node::new(&[("a.yaml", WIDGET)]);
        node.api();
        node.tick();
        let now = node.now;
        node.state
            .hold_or_release(
                &"a.yaml".into(),
                &BTreeMap::new(),
                order_by(who, false, now),
                now,
            )
            .unwrap();
        node.tick();
        let mut events = node.events.iter();
        let released = events.find(|event| event.code == Code::Released).unwrap();
        assert!(released.message.contains(words), "{}", released.message);
    }
}

#[test]
fn a_blocker_says_how_many_objects_need_it_and_which_file_brings_it() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: widgets.example.com\n  annotations: {windrow.dev/hold: not today}\nspec:\n  group: example.com\n  names: {kind: Widget, plural: widgets}\n  scope: Namespaced\n  versions: [{name: v1, served: true, storage: true}]\n";
    let more = |names: &[&str]| -> String {
        let widgets = names
            .iter()
            .map(|name| WIDGET.replace("name: w", &format!("name: {name}")));
        widgets.collect::<Vec<_>>().join("---\n")
    };
    let mut node = Node::new(&[
        ("crd.yaml", crd),
        ("one.yaml", &more(&["a"])),
        ("two.yaml", &more(&["b", "c"])),
        ("three.yaml", &more(&["d", "e", "f"])),
    ]);
    node.api();
    let held = node.tick().status.staging.held;
    let blocker = |path: &str| {
        let file = held.iter().find(|held| held.file == path).unwrap();
        assert_eq!(file.blockers.len(), 1, "{path}");
        file.blockers[0].clone()
    };
    for (path, end) in [
        ("one.yaml", "a"),
        ("two.yaml", "b and 1 more"),
        ("three.yaml", "d and 2 more"),
    ] {
        let blocker = blocker(path);
        assert!(blocker.required_by.ends_with(end), "{blocker:?}");
        assert_eq!(blocker.brought_by.as_deref(), Some("crd.yaml"));
    }
}

#[test]
fn what_is_held_only_for_its_name_waits_for_nothing_itself() {
    let text = waits_for("x", "/namespaces/default/ConfigMap/y (exists)");
    let mut node = Node::new(&[("a/x.yaml", WIDGET), ("b/x.yaml", &text)]);
    node.api();
    node.exists(config_map("y"));
    let held = node.tick().status.staging.held;
    let blockers: Vec<(Code, usize)> = held
        .iter()
        .map(|held| (held.code, held.blockers.len()))
        .collect();
    assert_eq!(blockers.len(), 2);
    assert_eq!(blockers[0].1, 1);
    assert_eq!(blockers[1], (Code::SameBaseName, 0));
    let why = "held together with a/x.yaml, which has the same name";
    assert_eq!(held[1].why, why);
}

#[test]
fn what_is_kept_after_it_was_applied_stands_in_the_ledger_as_applied() {
    let once = annotated("a", "windrow.dev/apply: once");
    let mut node = Node::new(&[("a.yaml", &once)]);
    node.api();
    node.tick();
    node.applied("a.yaml");
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    let entry = node.ledger_on_disk.files.get("a.yaml").unwrap();
    assert!(
        matches!(entry.state, FileStage::Applied { .. }),
        "{entry:?}"
    );
}

#[test]
fn that_a_held_file_is_gone_is_told_once_and_of_one_that_was_released_never() {
    let vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: default}\nspec: {runStrategy: Always}\n";
    let mut node = Node::on(
        Some(Platform::Harvester),
        &[("free.yaml", &free("free")), ("vm.yaml", vm)],
    );
    node.api();
    node.tick();
    node.applied("free.yaml");
    node.tick();
    node.files.clear();
    node.scan();
    for _ in 0..3 {
        node.tick();
    }
    assert_eq!(count(&node, Code::Vanished), 1);
}

#[test]
fn what_was_decided_of_a_file_holds_when_it_comes_back_however_long_it_was_gone() {
    let waits = waits_for("a", "/namespaces/default/ConfigMap/x (exists)");
    let files = [("a.yaml", waits.as_str()), ("b.yaml", &free("b"))];
    let mut node = Node::new(&files);
    node.api();
    node.exists(config_map("x"));
    node.tick();
    let (hold, now) = (order_by("root", true, node.now), node.now);
    node.state
        .hold_or_release(&"b.yaml".into(), &BTreeMap::new(), hold, now)
        .unwrap();
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
    node.observe(ClusterEvent::Object(config_map("x"), ObjectSeen::Absent));
    node.files.clear();
    node.scan();
    node.tick();
    node.later(60);
    node.tick();
    let back = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    node.files = back.into();
    node.scan();
    node.tick();
    assert_eq!(
        node.held(),
        ["b.yaml"],
        "one was released, the other is held by hand"
    );
}

#[test]
fn only_a_loss_of_what_was_asked_for_is_a_regression_not_one_of_what_was_inferred() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    let kind = GroupKind::new("example.com", "Widget");
    node.api();
    node.tick();
    node.observe(ClusterEvent::Kind(kind.clone(), KindSeen::SERVED));
    node.tick();
    assert!(node.held().is_empty());
    node.observe(ClusterEvent::Kind(kind, KindSeen::NotServed));
    node.tick();
    assert_eq!(count(&node, Code::Regressed), 0);
}

#[test]
fn the_ledger_writes_down_of_a_file_only_what_there_is() {
    let mut node = Node::new(&[("a.yaml", WIDGET), ("b.yaml", &free("b"))]);
    node.api();
    node.tick();
    node.fails("b.yaml", "quota exceeded");
    node.tick();
    let ledger = serde_json::to_value(&node.ledger_on_disk).unwrap();
    assert_eq!(ledger["files"]["a.yaml"].get("told"), None);
    assert_eq!(
        ledger["files"]["b.yaml"]["told"],
        json!({"failure": "ApplyManifestFailed: quota exceeded", "failedSince": node.now})
    );
}

#[test]
fn the_failure_that_is_heard_of_last_counts_whatever_time_it_has() {
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    node.api();
    node.tick();
    let failure = |node: &Node| {
        let failures = &node.state.observation().failures;
        let failure = failures.values().next().unwrap();
        (failure.message.clone(), failure.at)
    };
    let ahead = node.now + SignedDuration::from_hours(2);
    node.fails_at("a.yaml", "from a clock that is ahead", ahead);
    let heard = node.now;
    assert_eq!(
        failure(&node),
        ("from a clock that is ahead".to_owned(), heard)
    );
    node.fails("a.yaml", "last");
    assert_eq!(failure(&node), ("last".to_owned(), heard));
}

#[test]
fn a_failure_of_before_does_not_count_for_new_content_when_the_clock_is_set_back() {
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    node.api();
    node.tick();
    node.later(150);
    node.fails("a.yaml", "old");
    assert_eq!(node.tick().status.staging.failed.len(), 1);
    let back = SignedDuration::from_hours(-2);
    node.state.shift_clock(back);
    node.now += back;
    node.later(1);
    node.files.insert("a.yaml".to_owned(), free("b"));
    node.scan();
    assert_eq!(node.tick().status.staging.failed, []);
    node.fails("a.yaml", "new");
    assert_eq!(node.tick().status.staging.failed[0].message, "new");
}

#[test]
fn a_job_that_was_done_stays_done_however_often_it_is_seen_to_be_gone() {
    let job = ObjectRef::namespaced("batch", "Job", "default", "j");
    let text = waits_for("a", "batch/namespaces/default/Job/j");
    let mut node = Node::new(&[("a.yaml", &text)]);
    node.api();
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    let complete =
        json!({"status": {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}});
    let seen = [
        ObjectSeen::Present(Arc::new(complete)),
        ObjectSeen::Absent,
        ObjectSeen::Absent,
    ];
    for seen in seen {
        node.observe(ClusterEvent::Object(job.clone(), seen));
    }
    assert_eq!(*node.state.observation().object(&job), ObjectSeen::Done);
    node.tick();
    assert!(node.held().is_empty());
}

#[test]
fn only_a_marker_of_windrows_own_counts_as_hiding_a_file() {
    let mut node = Node::new(&[("a.yaml", WIDGET), ("b.yaml", &free("b"))]);
    node.markers.insert(marker_of("b.yaml"), None);
    node.scan();
    node.tick();
    let hides = |name: &str| node.state.hides(&name.into());
    assert_eq!(
        (hides("a.yaml"), hides("b.yaml"), hides("c.yaml")),
        (true, false, false)
    );
}

#[test]
fn a_decision_is_recorded_when_it_does_or_says_something_new_with_what_it_rests_on() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    let mut tap = Tap::default();
    let mut record = |node: &mut Node| {
        tap.before(node.state.ledger());
        let decision = node.state.decide(node.now);
        tap.decided(node.now, &decision, node.state.observation());
        for action in &decision.actions {
            node.act(action);
        }
        let made = tap.acted(&decision.actions, &[]);
        made.map(|made| (made.before.is_some(), made.actions.len()))
    };
    assert_eq!(record(&mut node), Some((true, 2)));
    assert_eq!(record(&mut node), None, "nothing has changed");
    node.observe(ClusterEvent::ApiUnreachable {
        why: "connection refused".to_owned(),
    });
    assert_eq!(
        record(&mut node).map(|made| made.0),
        Some(false),
        "the status says something else, on the same ledger"
    );
    while record(&mut node).is_some() {}
    let now = node.now;
    node.state
        .hold_or_release(
            &"a.yaml".into(),
            &BTreeMap::new(),
            order_by("ann", false, now),
            now,
        )
        .unwrap();
    assert_eq!(record(&mut node).map(|made| made.0), Some(true));
}

#[test]
fn the_first_line_of_a_flight_wants_the_whole_ledger_and_so_does_that_of_one_that_begins_again() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    let (mut tap, mut recorder) = (Tap::default(), Recorder::default());
    assert!(recorder.wants_ledger());
    let decision = node.tick();
    tap.decided(node.now, &decision, node.state.observation());
    recorder.record(tap.acted(&decision.actions, &[]).unwrap());
    assert!(!recorder.wants_ledger());
    recorder.start_over();
    assert!(recorder.wants_ledger());
}

#[test]
fn ages_and_cuts_are_written_as_a_person_reads_them() {
    let age = |seconds: i64| {
        let to = start() + SignedDuration::from_secs(seconds);
        crate::text::age(start(), to)
    };
    for (seconds, words) in [
        (-5, "0 s"),
        (59, "59 s"),
        (61, "1 min 1 s"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h 0 min"),
        (7_500, "2 h 5 min"),
    ] {
        assert_eq!(age(seconds), words);
    }
    assert_eq!(crate::text::shorten("four", 4), "four");
    assert_eq!(crate::text::shorten("fiver", 4), "fiv…");
    assert_eq!(crate::text::shorten("two words", 5), "two…");
    assert_eq!(
        crate::text::shorten("three whole words", 13),
        "three whole…"
    );
    assert_eq!(
        crate::text::shorten("three whole words", 12),
        "three whole…"
    );
    assert_eq!(crate::text::shorten("three whole words", 11), "three…");
    assert_eq!(crate::text::shorten("a longerword", 8), "a longe…");
}

#[test]
fn of_several_things_that_a_file_lacks_the_one_that_holds_it_is_told() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: late}}]}\n";
    let never = waits_for("c", "/namespaces/default/ConfigMap/never (exists)");
    let late = annotated("late", "windrow.dev/hold: not today");
    let both = format!("{pod}---\n{never}");
    let mut node = Node::new(&[("a.yaml", &both), ("b.yaml", &late)]);
    node.api();
    node.tick();
    let mark = node.markers[&marker_of("a.yaml")].as_ref().unwrap();
    assert!(mark.why.contains("never"), "{}", mark.why);
}

#[test]
fn of_the_settings_those_are_recorded_that_decide_and_no_others() {
    let recorded = crate::settings::record(&Settings::default());
    let is_recorded = |part: &str| recorded.keys().any(|key| key.starts_with(part));
    assert!(is_recorded("platform") && is_recorded("staging.") && is_recorded("probes."));
    assert!(!is_recorded("webhooks") && !is_recorded("flight."));
    assert_eq!(crate::settings::restore(&recorded).map(|_| ()), Ok(()));
}

#[test]
fn each_incident_that_can_be_cured_can_be_named_in_the_settings() {
    let auto = "repair.auto";
    let key = crate::settings::KEYS
        .iter()
        .find(|key| key.name == auto)
        .unwrap();
    for code in Code::curable() {
        let written = format!("[{code}]");
        let restored = crate::settings::restore(&[(auto.to_owned(), written)].into()).unwrap();
        let shown = key.show(&restored);
        let named = Code::curable().filter(|one| shown.contains(one.as_str()));
        assert_eq!(named.collect::<Vec<_>>(), [code], "{shown}");
    }
}

#[test]
fn a_flight_file_that_would_begin_again_with_every_decision_is_refused() {
    let with = |size: &str| {
        let recorded = [("flight.fileBytes".to_owned(), size.to_owned())];
        crate::settings::restore(&recorded.into()).map(|settings| settings.flight.file_bytes)
    };
    assert_eq!(with("256KiB"), Ok(256 * 1024));
    let refused = with("255KiB").unwrap_err();
    assert!(refused.contains("too small"), "{refused}");
}
