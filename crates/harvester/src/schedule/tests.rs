use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use windrow_model::object::Labels;

use super::*;

fn node(name: &str, labels: Value) -> SchedulerNode {
    let mut labels = labels;
    labels["kubernetes.io/hostname"] = json!(name);
    SchedulerNode::parse(&json!({
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    }))
    .unwrap()
}

fn pod(name: &str, on: &str, spec: Value) -> SchedulerPod {
    let mut spec = spec;
    if !on.is_empty() {
        spec["nodeName"] = json!(on);
    }
    SchedulerPod::parse(&json!({
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": name.split('-').next()}},
        "spec": spec
    }))
    .unwrap()
}

fn places(nodes: Vec<SchedulerNode>, pods: Vec<SchedulerPod>) -> SchedulerView {
    SchedulerView {
        nodes,
        pods,
        namespaces: Some(BTreeMap::new()),
        claims: BTreeMap::new(),
    }
}

fn three() -> Vec<SchedulerNode> {
    vec![
        node("n1", json!({"zone": "a"})),
        node("n2", json!({"zone": "a"})),
        node("n3", json!({"zone": "b"})),
    ]
}

fn asks(cpu: &str) -> Value {
    json!({"containers": [{"resources": {"requests": {"cpu": cpu}}}]})
}

fn fits(answer: Placement) -> Vec<String> {
    match answer {
        Placement::Fits(nodes) => nodes,
        other => panic!("{other:?}"),
    }
}

fn refused(answer: Placement) -> Vec<String> {
    match answer {
        Placement::Nowhere(refusals) => refusals.into_iter().map(|one| one.why).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cordoned_node_takes_only_what_tolerates_it() {
    let mut nodes = three();
    for node in &mut nodes {
        node.unschedulable = true;
    }
    let places = places(nodes, Vec::new());
    let plain = pod("a", "", json!({}));
    assert_eq!(refused(places.find(&plain, None))[0], "it is cordoned");
    let daemon = json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]});
    assert_eq!(fits(places.find(&pod("a", "", daemon), None)).len(), 3);
}

#[test]
fn taints_labels_and_affinity_are_asked_for_in_words() {
    let mut nodes = vec![node("n1", json!({})), node("n2", json!({"disk": "ssd"}))];
    nodes[1].taints.push(Taint {
        key: "kubevirt.io/drain".into(),
        value: "draining".into(),
        effect: "NoSchedule".into(),
    });
    let places = places(nodes, Vec::new());
    let why = refused(places.find(
        &pod("a", "", json!({"nodeSelector": {"disk": "ssd"}})),
        None,
    ));
    assert_eq!(why[0], "it lacks the label disk=ssd");
    assert_eq!(
        why[1],
        "its taint kubevirt.io/drain=draining:NoSchedule is not tolerated"
    );
    let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd", "nvme"]}]}]
    }}}});
    let why = refused(places.find(&pod("a", "", affinity), Some("n2")));
    assert_eq!(why, ["node affinity asks for disk in (hdd,nvme)"]);
}

#[test]
fn room_counts_what_is_there_and_preemption_makes_some() {
    let full = |name: &str, on: &str, priority: i64| {
        let mut spec = asks("3");
        spec["priority"] = json!(priority);
        pod(name, on, spec)
    };
    let places = places(
        vec![node("n1", json!({})), node("n2", json!({}))],
        vec![full("x", "n1", 10), full("y", "n2", 0)],
    );
    assert_eq!(
        refused(places.find(&full("a", "", 0), None))[0],
        "too little cpu: 3 asked for, 1 of 4 free"
    );
    assert_eq!(
        places.find(&full("a", "", 5), None),
        Placement::Preempting(vec!["n2".into()])
    );
    let mut never = full("a", "", 5);
    never.preempts = false;
    assert_eq!(refused(places.find(&never, None)).len(), 2);
    assert_eq!(fits(places.find(&pod("a", "", asks("1")), None)).len(), 2);
}

#[test]
fn host_ports_of_one_address_conflict() {
    let port = |ip: &str| json!({"containers": [{"ports": [{"hostPort": 443, "hostIP": ip}]}]});
    let places = places(
        vec![node("n1", json!({}))],
        vec![pod("x", "n1", port("10.0.0.1"))],
    );
    assert_eq!(
        refused(places.find(&pod("a", "", port("")), None)),
        ["its host port TCP 443 is taken by ns/x"]
    );
    assert_eq!(
        fits(places.find(&pod("a", "", port("10.0.0.2")), None)),
        ["n1"]
    );
}

fn term(kind: &str, app: &str, key: &str) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    ]}}})
}

#[test]
fn anti_affinity_works_both_ways_and_by_place() {
    let shy = term("podAntiAffinity", "web", "zone");
    let beside = places(three(), vec![pod("web-1", "n1", json!({}))]);
    assert_eq!(fits(beside.find(&pod("db", "", shy.clone()), None)), ["n3"]);
    // Running pods repel new ones.
    let keeps = places(three(), vec![pod("db", "n1", shy)]);
    assert_eq!(fits(keeps.find(&pod("web-1", "", json!({})), None)), ["n3"]);
}

#[test]
fn affinity_asks_for_company_and_lets_the_first_one_in() {
    let gregarious = term("podAffinity", "web", "zone");
    let with = places(three(), vec![pod("web-1", "n1", json!({}))]);
    assert_eq!(
        fits(with.find(&pod("db", "", gregarious.clone()), None)),
        ["n1", "n2"]
    );
    let without = places(three(), Vec::new());
    assert_eq!(
        refused(without.find(&pod("db", "", gregarious.clone()), None)).len(),
        3
    );
    // The term selects the pod itself: one pod has to be the first.
    assert_eq!(
        fits(without.find(&pod("web-1", "", gregarious), None)).len(),
        3
    );
}

#[test]
fn a_cordoned_node_still_counts_as_an_empty_place_of_a_spread() {
    let spec = json!({"topologySpreadConstraints": [{
        "topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}
    }]});
    let mut nodes = three();
    nodes[0].cordon();
    let pods = vec![
        pod("web-2", "n2", spec.clone()),
        pod("web-3", "n3", spec.clone()),
    ];
    let places = places(nodes, pods);
    let why = refused(places.find(&pod("web-1", "", spec.clone()), None));
    assert!(
        why[1].starts_with("spread by kubernetes.io/hostname: 2 there and 0"),
        "{why:?}"
    );
    // Unless it is configured to leave out nodes that the pod may not use.
    let mut honours = spec;
    honours["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = json!("Honor");
    assert_eq!(
        fits(places.find(&pod("web-1", "", honours), None)),
        ["n2", "n3"]
    );
}

#[test]
fn an_empty_place_that_the_pod_may_not_use_counts_for_a_spread_only_if_affinity_is_ignored() {
    let mut spec = json!({"nodeSelector": {"zone": "a"}, "topologySpreadConstraints": [{
        "topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}
    }]});
    let pods = vec![
        pod("web-1", "n1", spec.clone()),
        pod("web-2", "n2", spec.clone()),
    ];
    let places = places(three(), pods);
    assert_eq!(
        fits(places.find(&pod("web-3", "", spec.clone()), None)),
        ["n1", "n2"]
    );
    spec["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = json!("Ignore");
    let why = refused(places.find(&pod("web-3", "", spec), None));
    assert!(
        why[0].starts_with("spread by kubernetes.io/hostname: 2 there and 0"),
        "{why:?}"
    );
}

#[test]
fn a_volume_is_reached_where_it_is_and_an_unknown_one_makes_the_answer_unknown() {
    let spec = json!({"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]});
    let mut places = places(three(), Vec::new());
    assert!(matches!(
        places.find(&pod("db", "", spec.clone()), None),
        Placement::Unknown(_)
    ));
    let local = json!({"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}
    ]}]});
    let reach = NodeSelector::parse(Some(&local)).unwrap();
    places.claims.insert("ns/data".into(), reach);
    assert_eq!(
        fits(places.find(&pod("db", "", spec.clone()), None)),
        ["n2"]
    );
    places.claims.insert("ns/data".into(), None);
    assert_eq!(fits(places.find(&pod("db", "", spec), None)).len(), 3);
}

#[test]
fn namespaces_selected_by_label_must_be_known() {
    let mut spec = term("podAffinity", "web", "zone");
    spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["namespaceSelector"] =
        json!({"matchLabels": {"team": "x"}});
    let mut places = places(three(), vec![pod("web-1", "n1", json!({}))]);
    places.namespaces = None;
    assert!(matches!(
        places.find(&pod("db", "", spec.clone()), None),
        Placement::Unknown(_)
    ));
    let team = Labels::from([("team".to_owned(), "x".to_owned())]);
    places.namespaces = Some(BTreeMap::from([("ns".to_owned(), team)]));
    assert_eq!(fits(places.find(&pod("db", "", spec), None)), ["n1", "n2"]);
}

prop_compose! {
    fn some_node(number: usize)(
        cpu in 1..8_u32, zone in 0..3_u8, cordoned in any::<bool>(), tainted in any::<bool>()
    ) -> SchedulerNode {
        let mut node = node(&format!("n{number}"), json!({"zone": zone.to_string()}));
        node.allocatable.insert("cpu".into(), i128::from(cpu) * 1000);
        node.unschedulable = cordoned;
        if tainted {
            node.taints.push(Taint { key: "t".into(), value: String::new(), effect: "NoSchedule".into() });
        }
        node
    }
}

prop_compose! {
    fn some_pod(name: String)(
        cpu in 0..4_u32, on in 0..6_usize, zone in proptest::option::of(0..3_u8),
        tolerates in any::<bool>(), shy in any::<bool>(), priority in 0..3_i64
    ) -> SchedulerPod {
        let mut spec = if shy { term("podAntiAffinity", "a", "zone") } else { json!({}) };
        spec["containers"] = asks(&cpu.to_string())["containers"].clone();
        spec["priority"] = json!(priority);
        if let Some(zone) = zone {
            spec["nodeSelector"] = json!({"zone": zone.to_string()});
        }
        if tolerates {
            spec["tolerations"] = json!([{"key": "t", "operator": "Exists"}]);
        }
        pod(&name, &if on < 5 { format!("n{on}") } else { String::new() }, spec)
    }
}

fn cluster() -> impl Strategy<Value = (SchedulerView, SchedulerPod)> {
    let nodes: Vec<_> = (0..5).map(some_node).collect();
    let pods: Vec<_> = (0..8)
        .map(|n| some_pod(format!("{}-{n}", ["a", "b"][n % 2])))
        .collect();
    (nodes, pods, some_pod("a-new".into()))
        .prop_map(|(nodes, pods, new)| (places(nodes, pods), SchedulerPod { node: None, ..new }))
}

/// Orders answers from bad to good.
fn rank(answer: &Placement) -> u8 {
    match answer {
        Placement::Fits(_) => 2,
        Placement::Preempting(_) => 1,
        _ => 0,
    }
}

proptest! {
    #[test]
    fn one_more_empty_node_never_takes_a_place_away((places, pod) in cluster()) {
        let before = places.find(&pod, None);
        let mut more = places;
        more.nodes.push(node("extra", json!({"zone": "9"})));
        prop_assert!(rank(&more.find(&pod, None)) >= rank(&before));
    }

    #[test]
    fn one_pod_less_never_takes_a_place_away((places, pod) in cluster(), gone in 0..8_usize) {
        let before = places.find(&pod, None);
        let mut fewer = places;
        fewer.pods.remove(gone);
        prop_assert!(rank(&fewer.find(&pod, None)) >= rank(&before));
    }

    #[test]
    fn every_node_but_the_excepted_one_is_accounted_for((places, pod) in cluster()) {
        match places.find(&pod, Some("n0")) {
            Placement::Nowhere(refusals) => prop_assert_eq!(refusals.len(), 4),
            Placement::Fits(nodes) | Placement::Preempting(nodes) => {
                prop_assert!(!nodes.is_empty() && !nodes.contains(&"n0".to_owned()));
            }
            Placement::Unknown(why) => prop_assert!(false, "{}", why),
        }
    }
}
