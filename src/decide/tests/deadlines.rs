//! How long a hold may last, and counted from when.

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
    let wake = node.tick().steps.next_wake.unwrap();
    assert_eq!(wake, node.now + SignedDuration::from_mins(2));
    node.later(2);
    node.tick();
    assert_eq!(node.held(), ["b.yaml"]);
    assert!(node.told().contains(&Code::Yielded));
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
fn a_vm_rule_keeps_its_file_past_the_deadline_and_the_fail_safe_may_not_lift_it() {
    let vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: default}\nspec: {runStrategy: Always}\n";
    let mut node = Node::on(Some(Platform::Harvester), &[("vm.yaml", vm)]);
    node.api();
    node.observe(ClusterEvent::Kind(
        GroupKind::new("kubevirt.io", "VirtualMachine"),
        KindSeen::Served,
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
fn a_clock_that_is_set_moves_no_deadline() {
    let mixed = format!("{}---\n{WIDGET}", free("part"));
    let mut node = Node::new(&[("m.yaml", &mixed)]);
    node.api();
    node.tick();
    let years = SignedDuration::from_hours(24 * 365 * 20);
    node.now += years;
    node.engine.clock_jumped(years);
    node.tick();
    assert_eq!(node.held(), ["m.yaml"]);
    node.later(10);
    node.tick();
    assert!(node.held().is_empty());
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
