//! A guess about the provider of a kind does not hold a file that RKE2 could apply without the provider.

use super::*;

const CHART: &str = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: c, namespace: kube-system}\nspec: {chart: c}\n";

fn chart_kind_is_served(node: &mut Node) {
    let chart = GroupKind::new("helm.cattle.io", "HelmChart");
    node.observe(ClusterEvent::Kind(chart, KindSeen::SERVED));
}

fn widget_kind() -> GroupKind {
    GroupKind::new("example.com", "Widget")
}

#[test]
fn a_chart_beside_its_custom_objects_is_released_as_soon_as_charts_can_be_applied() {
    let mut node = Node::new(&[("metallb.yaml", &format!("{CHART}---\n{WIDGET}"))]);
    node.api();
    chart_kind_is_served(&mut node);
    node.observe(ClusterEvent::Kind(widget_kind(), KindSeen::NotServed));
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn custom_objects_apart_from_their_chart_are_held_until_their_kind_is_served_and_no_longer() {
    let mut node = Node::new(&[("metallb-objects.yaml", WIDGET), ("metallb.yaml", CHART)]);
    node.api();
    chart_kind_is_served(&mut node);
    node.observe(ClusterEvent::Kind(widget_kind(), KindSeen::NotServed));
    node.tick();
    node.later(60);
    node.tick();
    // RKE2 could apply nothing of it: the hold costs nothing.
    assert_eq!(node.held(), ["metallb-objects.yaml"]);
    node.observe(ClusterEvent::Kind(widget_kind(), KindSeen::SERVED));
    node.tick();
    assert_eq!(node.held(), [""; 0]);
}

#[test]
fn what_rke2_could_apply_waits_for_a_guess_no_longer_than_for_advice() {
    let partly = format!("{}---\n{WIDGET}", free("x"));
    for files in [
        &[("a.yaml", &*partly)][..],
        &[("a.yaml", &*partly), ("b.yaml", CHART)],
    ] {
        let mut node = Node::new(files);
        node.api();
        chart_kind_is_served(&mut node);
        node.observe(ClusterEvent::Kind(widget_kind(), KindSeen::NotServed));
        let wake = node.tick().next_wake.unwrap();
        assert_eq!(node.held(), ["a.yaml"]);
        assert_eq!(wake, node.now + SignedDuration::from_mins(2));
        node.later(2);
        node.tick();
        assert_eq!(node.held(), [""; 0]);
    }
}

#[test]
fn a_hold_that_a_person_wants_stays_on_a_file_with_a_chart() {
    let chart = CHART.replace(
        "{name: c,",
        "{name: c, annotations: {windrow.dev/hold: wait},",
    );
    let mut node = Node::new(&[("a.yaml", &format!("{chart}---\n{WIDGET}"))]);
    node.api();
    node.tick();
    node.later(600);
    node.tick();
    assert_eq!(node.held(), ["a.yaml"]);
}
