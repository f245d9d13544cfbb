//! How long a hold may last, and when this time begins.

use super::*;

#[test]
fn advice_expires_counted_from_the_apis_first_answer() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: late}}]}\n";
    let held = annotated("late", "windrow.dev/hold: not today");
    let mut node = Node::new(&[("a.yaml", pod), ("b.yaml", &held)]);
    node.tick();
    node.later(20);
    node.tick();
    assert_eq!(
        node.held(),
        ["a.yaml", "b.yaml"],
        "RKE2 applies nothing yet either"
    );
    node.api();
    let wake = node.tick().next_wake.unwrap();
    assert_eq!(wake, node.now + SignedDuration::from_mins(2));
    node.later(2);
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
    assert!(node.reported_codes().contains(&Code::Yielded));
}

#[test]
fn advice_waits_as_long_as_the_other_file_has_to_and_a_little_longer() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: late}}]}\n";
    let late = waits_for("late", "/namespaces/default/ConfigMap/x (exists)");
    let mut node = Node::new(&[("a.yaml", pod), ("b.yaml", &late)]);
    node.api();
    node.tick();
    node.later(20);
    node.tick();
    assert_eq!(node.held(), ["a.yaml", "b.yaml"]);
    node.exists(config_map("x"));
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    node.later(2);
    node.tick();
    assert!(
        node.held().is_empty(),
        "RKE2 may have trouble with the other file"
    );
}

#[test]
fn advice_does_not_wait_for_ever_for_a_file_that_cannot_be_released() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: late}}]}\n";
    let late = waits_for("late", "/namespaces/default/ConfigMap/never (exists)");
    let mut node = Node::new(&[("a.yaml", pod), ("b.yaml", &late)]);
    node.api();
    node.tick();
    node.later(30);
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
}

#[test]
fn the_first_status_after_a_person_held_the_other_file_has_the_short_deadline() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: late}}]}\n";
    let late = waits_for("late", "/namespaces/default/ConfigMap/never (exists)");
    let mut node = Node::new(&[("a.yaml", pod), ("b.yaml", &late)]);
    node.api();
    let told = |decision: Decision| {
        let mut held = decision.status.staging.held.into_iter();
        let a = held.find(|one| one.file == "a.yaml");
        a.and_then(|one| one.deadline)
    };
    let long = start() + SignedDuration::from_mins(30);
    assert_eq!(told(node.tick()), Some(long));
    let order = Manual {
        hold: true,
        by: "root".to_owned(),
        at: node.now,
        reason: "not yet".to_owned(),
    };
    node.state
        .hold_or_release(&"b.yaml".into(), &BTreeMap::new(), order, node.now)
        .unwrap();
    let short = start() + SignedDuration::from_mins(2);
    assert_eq!(told(node.tick()), Some(short));
}

#[test]
fn a_vm_rule_keeps_its_file_past_the_deadline_and_the_fail_safe_may_not_lift_it() {
    let vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: default}\nspec: {runStrategy: Always}\n";
    let mut node = Node::on(Some(Platform::Harvester), &[("vm.yaml", vm)]);
    node.api();
    node.observe(ClusterEvent::Kind(
        GroupKind::new("kubevirt.io", "VirtualMachine"),
        KindSeen::SERVED,
    ));
    node.tick();
    node.later(600);
    node.tick();
    assert_eq!(node.held(), ["vm.yaml"]);
    let mark = node.markers["vm.yaml.skip"].as_ref().unwrap();
    assert_eq!(mark.on_failure, OnFailure::Keep);
    assert!(mark.why.contains("storage-network"), "{}", mark.why);
}

#[test]
fn without_an_answer_from_the_api_the_blind_deadline_releases_all_but_what_does_harm() {
    let vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: default}\nspec: {runStrategy: Always}\n";
    let ordered = waits_for("a", "/namespaces/default/ConfigMap/x (exists)");
    let mixed = format!("{}---\n{WIDGET}", free("part"));
    let mut node = Node::on(
        Some(Platform::Harvester),
        &[("a.yaml", &ordered), ("m.yaml", &mixed), ("vm.yaml", vm)],
    );
    node.tick();
    node.later(31);
    node.tick();
    assert_eq!(node.held(), ["a.yaml", "vm.yaml"]);
}

#[test]
fn a_file_of_which_nothing_could_be_applied_is_released_too_if_nobody_knows_that() {
    let shop = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n";
    let files = [
        ("apps.yaml", web),
        ("w.yaml", WIDGET),
        ("zz-shop.yaml", shop),
    ];
    let mut node = Node::new(&files);
    node.tick();
    node.later(29);
    node.tick();
    assert_eq!(node.held(), ["apps.yaml", "w.yaml"]);
    node.later(1);
    node.tick();
    assert_eq!(node.held(), [""; 0], "kube-apiserver never answered");
}

#[test]
fn advice_on_a_file_that_the_blind_deadline_released_adds_no_second_one() {
    let mut node = Node::new(&[("w.yaml", WIDGET)]);
    node.tick();
    node.later(10);
    let advised = waits_for("a", "example.com/namespaces/default/Widget/w (advisory)");
    node.files.insert("a.yaml".to_owned(), advised);
    node.scan();
    node.tick();
    node.later(20);
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    node.later(10);
    node.tick();
    assert_eq!(node.held(), [""; 0], "half an hour after it came");
}

#[test]
fn what_is_not_known_any_more_releases_after_the_blind_deadline_and_not_at_once() {
    let mut node = Node::new(&[("w.yaml", WIDGET)]);
    node.api();
    let kind = GroupKind::new("example.com", "Widget");
    node.observe(ClusterEvent::Kind(kind.clone(), KindSeen::NotServed));
    node.tick();
    node.later(300);
    node.tick();
    assert_eq!(node.held(), ["w.yaml"]);
    let why = || "refused".to_owned();
    let unknown = KindSeen::Unknown { why: why() };
    for event in [
        ClusterEvent::Kind(kind, unknown),
        // The session has ended, and its results do not change any more.
        ClusterEvent::CredentialRefused { why: why() },
    ] {
        let mut node = node.clone();
        node.observe(event);
        node.tick();
        node.later(29);
        node.tick();
        assert_eq!(node.held(), ["w.yaml"]);
        node.later(1);
        node.tick();
        assert_eq!(node.held(), [""; 0]);
    }
}

#[test]
fn a_clock_that_is_set_moves_no_deadline() {
    let mixed = format!("{}---\n{WIDGET}", free("part"));
    let mut node = Node::new(&[("m.yaml", &mixed)]);
    node.api();
    node.tick();
    let years = SignedDuration::from_hours(24 * 365 * 20);
    node.now += years;
    node.state.shift_clock(years);
    node.tick();
    assert_eq!(node.held(), ["m.yaml"]);
    node.later(10);
    node.tick();
    assert!(node.held().is_empty());
}

/// A node with a held VM file that was removed after the last scan.
fn without_its_vm() -> Node {
    let vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: default}\nspec: {runStrategy: Always}\n";
    let mut node = Node::on(Some(Platform::Harvester), &[("vm.yaml", vm)]);
    node.tick();
    node.files.clear();
    node.scan();
    node.tick();
    node
}

#[test]
fn a_clock_that_is_set_moves_no_grace_of_a_file_that_is_gone() {
    for hours in [-24, 24] {
        let mut node = without_its_vm();
        let by = SignedDuration::from_hours(hours);
        node.now += by;
        node.state.shift_clock(by);
        node.later(9);
        node.tick();
        assert_eq!(node.held(), ["vm.yaml"], "{hours}");
        node.later(1);
        node.tick();
        assert_eq!(node.held(), [""; 0], "{hours}");
    }
}

#[test]
fn a_clock_that_is_set_forward_shortens_no_grace_of_a_file_that_is_gone_after_a_restart() {
    let mut node = without_its_vm();
    let day = SignedDuration::from_hours(24);
    node.now += day;
    node.state.shift_clock(day);
    node.tick();
    let entry = &node.ledger_on_disk.files[&ManifestPath::from("vm.yaml")];
    assert_eq!(entry.reported.vanished, Some(node.now));
    node.restart();
    node.tick();
    assert_eq!(node.held(), ["vm.yaml"]);
}

#[test]
fn a_file_that_is_gone_at_a_start_may_return_for_ten_minutes_whatever_the_clock_shows() {
    let mut node = without_its_vm();
    // The clock is set while nothing can be written, and the node restarts.
    node.now += SignedDuration::from_hours(24);
    node.restart();
    node.tick();
    assert_eq!(node.held(), ["vm.yaml"]);
    node.later(10);
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn a_mark_for_a_file_to_come_that_is_of_a_day_to_come_does_not_stay() {
    let mut node = Node::new(&[]);
    let tomorrow = node.now + SignedDuration::from_hours(24);
    let mark = node.state.provisional_hold(&"a.yaml".into(), tomorrow);
    node.act(&mark.unwrap());
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn a_refused_file_is_kept_from_rke2_for_a_while_only() {
    let mut node = Node::new(&[("bad.yaml", "}\n"), ("Upper.yaml", &free("u"))]);
    node.api();
    node.tick();
    assert_eq!(node.held(), ["Upper.yaml", "bad.yaml"]);
    node.later(10);
    node.tick();
    assert!(node.held().is_empty());
}

/// A ConfigMap `a` that waits for two others because of custom rules.
fn waits_by_rules(rules: &[(&str, &str, &str)]) -> Node {
    let rules: String = rules
        .iter()
        .map(|(on, deadline, then)| {
            format!(
                "  - name: for-{on}\n    match: {{kind: ConfigMap, name: a}}\n    reason: a needs {on}\n    deadline: {deadline}\n    onDeadline: {then}\n    requires:\n      - object: {{kind: ConfigMap, namespace: default, name: {on}}}\n        condition: exists\n"
            )
        })
        .collect();
    let pack = format!(
        "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {{name: test}}\nrules:\n{rules}"
    );
    let (rules, errors) = RuleSet::load(&[("test.yaml".to_owned(), pack)]);
    assert!(errors.is_empty(), "{errors:?}");
    let mut node = Node::new(&[("a.yaml", &free("a"))]);
    let platform = Some(Platform::Rke2);
    let ledger = Ledger::default();
    node.state = StagingState::new(Settings::default(), rules, platform, ledger, node.now);
    node.scan();
    node.api();
    node
}

#[test]
fn the_deadline_that_is_told_is_the_last_one_that_has_to_pass() {
    let mut node = waits_by_rules(&[("one", "2m", "release"), ("other", "10m", "release")]);
    let ten = start() + SignedDuration::from_mins(10);
    let held = node.tick().status.staging.held.remove(0);
    assert_eq!(held.deadline, Some(ten));
    node.later(5);
    assert_eq!(node.tick().status.staging.held[0].deadline, Some(ten));
    node.later(5);
    node.tick();
    assert!(node.held().is_empty());
}

#[test]
fn a_hold_that_is_kept_has_no_deadline_whatever_else_would_have_one() {
    let mut node = waits_by_rules(&[("one", "2m", "keep"), ("other", "10m", "release")]);
    let told = |decision: Decision| {
        let held = &decision.status.staging.held[0];
        (held.deadline, held.overdue, held.harmful)
    };
    assert_eq!(told(node.tick()), (None, false, true));
    node.later(2);
    assert_eq!(told(node.tick()), (None, true, true));
    // RKE2 could apply nothing of this one: a release does no harm.
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    node.api();
    let kind = GroupKind::new("example.com", "Widget");
    node.observe(ClusterEvent::Kind(kind, KindSeen::NotServed));
    node.tick();
    node.later(60);
    assert_eq!(told(node.tick()), (None, true, false));
}

#[test]
fn what_merely_orders_makes_no_file_hopeless() {
    // RKE2 can apply the pod of this file at once: only the kind of the widget is missing.
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: late}}]}\n";
    let late = annotated("late", "windrow.dev/hold: not today");
    let both = format!("{WIDGET}---\n{pod}");
    let mut node = Node::new(&[("a.yaml", &both), ("b.yaml", &late)]);
    node.api();
    let kind = GroupKind::new("example.com", "Widget");
    node.observe(ClusterEvent::Kind(kind, KindSeen::NotServed));
    node.tick();
    assert_eq!(node.held(), ["a.yaml", "b.yaml"]);
    let pod = &node.state.plan().files[0].documents[1];
    assert!(
        pod.requires
            .iter()
            .any(|one| one.inferred && one.tier == windrow_plan::rules::Tier::Advisory)
    );
    node.later(10);
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
}

#[test]
fn the_fail_safe_may_lift_what_a_rule_releases_itself_and_not_what_it_keeps() {
    for (then, on_failure) in [("release", OnFailure::Lift), ("keep", OnFailure::Keep)] {
        let mut node = waits_by_rules(&[("one", "2m", then)]);
        node.tick();
        let mark = node.markers["a.yaml.skip"].as_ref().unwrap();
        assert_eq!(mark.on_failure, on_failure, "{then}");
    }
}

#[test]
fn a_clock_that_was_set_back_before_a_restart_makes_no_wait_longer() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: late}}]}\n";
    let late = waits_for("late", "/namespaces/default/ConfigMap/never (exists)");
    for ledger_is_lost in [false, true] {
        let mut node = Node::new(&[("a.yaml", pod), ("b.yaml", &late)]);
        node.tick();
        // The times in the ledger and in the markers are in the future.
        node.now -= SignedDuration::from_hours(24);
        if ledger_is_lost {
            node.ledger_on_disk = Ledger::default();
        }
        node.restart();
        node.api();
        node.tick();
        node.later(30);
        node.tick();
        assert_eq!(node.held(), ["b.yaml"], "{ledger_is_lost}");
    }
}

/// A new process of the daemon in a boot that began at the node's start.
fn begin_in_boot(node: &mut Node, boot: &str) {
    let mut ledger = node.ledger_on_disk.clone();
    ledger.enter_boot(boot, start(), node.now);
    node.state = new_state(ledger, node.state.plan().platform, node.now);
    node.state.save_ledger();
    node.scan();
}

/// The same, and kube-apiserver answers at once.
fn restart_in_boot(node: &mut Node, boot: &str) {
    begin_in_boot(node, boot);
    node.api();
}

/// A file that RKE2 can apply in part, so that it is released after `advisoryDeadline` (2 min).
fn partly_free() -> Node {
    let both = format!("{WIDGET}---\n{}", free("c"));
    let mut node = Node::new(&[("a.yaml", &both)]);
    restart_in_boot(&mut node, "boot-1");
    node.observe(ClusterEvent::Kind(
        GroupKind::new("example.com", "Widget"),
        KindSeen::NotServed,
    ));
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    node
}

/// After how many seconds the file is released if the daemon is restarted every `seconds`.
fn released_after(seconds: i64) -> i64 {
    let mut node = partly_free();
    let began = node.now;
    while !node.held().is_empty() {
        node.now += SignedDuration::from_secs(seconds);
        let waited = node.now.duration_since(began).as_secs();
        assert!(waited < 3600, "it is never released");
        // The last moment of the earlier process.
        node.tick();
        restart_in_boot(&mut node, "boot-1");
        node.tick();
    }
    node.now.duration_since(began).as_secs()
}

#[test]
fn a_restart_of_the_daemon_begins_no_deadline_again() {
    assert_eq!(released_after(50), 150);
    // A daemon that never finishes its first scan: twice the deadline.
    assert_eq!(released_after(25), 250);
    assert_eq!(released_after(5), 240);
}

#[test]
fn a_deadline_that_ran_out_while_the_daemon_was_stopped_counts_after_a_first_look() {
    let mut node = partly_free();
    node.later(120);
    restart_in_boot(&mut node, "boot-1");
    node.tick();
    assert_eq!(node.held(), ["a.yaml"], "before the first scan");
    node.later(1);
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn another_boot_begins_the_deadlines_again() {
    let mut node = partly_free();
    node.later(1);
    restart_in_boot(&mut node, "boot-2");
    node.tick();
    node.later(1);
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    node.later(1);
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn a_restart_lets_nothing_go_that_nothing_can_apply() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    let kind = || ClusterEvent::Kind(GroupKind::new("example.com", "Widget"), KindSeen::NotServed);
    restart_in_boot(&mut node, "boot-1");
    node.observe(kind());
    node.tick();
    node.later(300);
    for _ in 0..20 {
        restart_in_boot(&mut node, "boot-1");
        node.tick();
        assert_eq!(node.held(), ["a.yaml"]);
        node.later(2);
        node.tick();
        node.observe(kind());
        node.tick();
        assert_eq!(node.held(), ["a.yaml"]);
    }
}

#[test]
fn restarts_without_an_answer_from_kube_apiserver_double_the_blind_deadline_at_most() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    begin_in_boot(&mut node, "boot-1");
    node.tick();
    let began = node.now;
    while !node.held().is_empty() {
        node.later(20);
        node.tick();
        begin_in_boot(&mut node, "boot-1");
        node.tick();
        assert!(node.now.duration_since(began).as_mins() <= 60, "still held");
    }
}

#[test]
fn a_deadline_that_is_over_at_a_start_waits_for_kube_apiserver() {
    let mut node = partly_free();
    node.later(120);
    begin_in_boot(&mut node, "boot-1");
    for _ in 0..10 {
        node.tick();
        assert_eq!(node.held(), ["a.yaml"], "RKE2 may not run yet either");
        node.later(2);
    }
    node.api();
    node.tick();
    assert_eq!(node.held(), ["a.yaml"], "before the first scan");
    node.later(1);
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn a_file_that_comes_while_kube_apiserver_does_not_answer_a_new_process_waits_for_it() {
    let mut node = partly_free();
    node.api();
    node.later(1);
    begin_in_boot(&mut node, "boot-1");
    node.tick();
    let late = format!("{}---\n{WIDGET}", free("late"));
    node.files.insert("b.yaml".to_owned(), late);
    node.scan();
    node.tick();
    node.later(10);
    node.tick();
    assert!(
        node.held().contains(&"b.yaml"),
        "no process has looked since it came"
    );
    node.api();
    node.tick();
    assert!(node.held().contains(&"b.yaml"));
    node.later(3);
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn advice_on_a_file_that_was_just_released_waits_over_frequent_restarts_too() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: late}}]}\n";
    let late = waits_for("late", "/namespaces/default/ConfigMap/x (exists)");
    let mut node = Node::new(&[("a.yaml", pod), ("b.yaml", &late)]);
    for _ in 0..5 {
        restart_in_boot(&mut node, "boot-1");
        node.tick();
    }
    node.later(20);
    node.exists(config_map("x"));
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
    node.now += SignedDuration::from_secs(1);
    begin_in_boot(&mut node, "boot-1");
    node.tick();
    assert_eq!(
        node.held(),
        ["a.yaml"],
        "kube-apiserver has not answered yet"
    );
    node.later(4);
    node.tick();
    assert_eq!(node.held(), [""; 0], "twice its time is over");
}

#[test]
fn advice_on_a_file_that_was_released_while_kube_apiserver_does_not_answer_waits_for_it() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: late}}]}\n";
    let late = waits_for("late", "/namespaces/default/ConfigMap/x (exists)");
    let mut node = Node::new(&[("a.yaml", pod), ("b.yaml", &late)]);
    for _ in 0..5 {
        restart_in_boot(&mut node, "boot-1");
        node.tick();
    }
    node.later(20);
    begin_in_boot(&mut node, "boot-1");
    node.tick();
    node.now += SignedDuration::from_secs(1);
    let order = Manual {
        hold: false,
        by: "root".to_owned(),
        at: node.now,
        reason: "now".to_owned(),
    };
    node.state
        .hold_or_release(&"b.yaml".into(), &BTreeMap::new(), order, node.now)
        .unwrap();
    for _ in 0..2 {
        node.tick();
        assert_eq!(node.held(), ["a.yaml"]);
    }
    node.later(31);
    node.tick();
    assert_eq!(node.held(), [""; 0], "the blind deadline counts once");
}

#[test]
fn a_file_that_cannot_be_read_waits_ten_minutes_whether_kube_apiserver_answers_or_not() {
    let mut node = partly_free();
    node.later(1);
    node.unreadable = vec!["a.yaml"];
    begin_in_boot(&mut node, "boot-1");
    for minutes in [0, 9] {
        node.later(minutes);
        node.tick();
        assert_eq!(node.held(), ["a.yaml"]);
    }
    node.later(1);
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn a_clock_that_is_set_while_no_daemon_runs_moves_no_deadline() {
    for by in [
        SignedDuration::from_hours(2),
        SignedDuration::from_hours(-2),
    ] {
        let mut node = partly_free();
        // The clock of the first process was wrong.
        let mut ledger = node.ledger_on_disk.clone();
        node.later(1);
        ledger.enter_boot("boot-1", start() + by, node.now + by);
        node.ledger_on_disk = ledger;
        node.now += by;
        node.state = new_state(node.ledger_on_disk.clone(), Some(Platform::Rke2), node.now);
        node.scan();
        node.api();
        node.tick();
        assert_eq!(node.held(), ["a.yaml"], "{by}");
        node.later(1);
        node.tick();
        assert_eq!(node.held(), [""; 0], "{by}");
    }
}

#[test]
fn a_marker_that_is_missing_in_the_ledger_does_not_age_with_a_clock_that_is_set() {
    for hours in [2, -2] {
        let by = SignedDuration::from_hours(hours);
        let mut node = partly_free();
        // The daemon started an hour ago. The disk was full when it recorded the hold.
        let mut ledger = Ledger::default();
        let hour = SignedDuration::from_hours(1);
        ledger.enter_boot("boot-1", start() - hour, node.now - hour);
        ledger.boot.as_mut().unwrap().reachable = Some(node.now - hour);
        ledger.enter_boot("boot-1", start() - hour + by, node.now + by);
        node.ledger_on_disk = ledger;
        node.now += by;
        node.state = new_state(node.ledger_on_disk.clone(), Some(Platform::Rke2), node.now);
        node.scan();
        node.api();
        node.later(1);
        node.tick();
        assert_eq!(node.held(), ["a.yaml"], "{by}");
        node.later(1);
        node.tick();
        assert_eq!(node.held(), [""; 0], "{by}");
    }
}

#[test]
fn an_answer_that_comes_before_the_ledger_can_be_read_counts_after_a_restart() {
    let mut node = Node::new(&[("a.yaml", WIDGET)]);
    begin_in_boot(&mut node, "boot-1");
    node.tick();
    let mut earlier = node.ledger_on_disk.clone();
    node.later(10);
    node.ledger_on_disk = Ledger::default();
    restart_in_boot(&mut node, "boot-1");
    let answered = node.now;
    node.later(5);
    earlier.enter_boot("boot-1", start(), node.now);
    node.state.recover_ledger(earlier);
    node.tick();
    let boot = node.ledger_on_disk.boot.as_ref();
    assert_eq!(boot.and_then(|boot| boot.reachable), Some(answered));
}
