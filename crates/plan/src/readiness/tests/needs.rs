use proptest::prelude::*;
use windrow_model::reasons::Code;

use super::*;
use crate::rules::{Expression, NeedCondition, NeedTarget};

fn expression(source: &str) -> NeedCondition {
    NeedCondition::Expression(Expression::compile(source).unwrap())
}

fn need(target: &NeedTarget, condition: &NeedCondition, seen: &World) -> NeedState {
    holds(target, condition, &RuleSet::default(), seen)
}

fn code(state: &NeedState) -> Option<Code> {
    match state {
        NeedState::NotYet { code, .. } => Some(*code),
        _ => None,
    }
}

#[test]
fn a_kind_is_met_only_when_it_is_served() {
    let kind = GroupKind::new("g", "K");
    let target = NeedTarget::Kind(kind.clone());
    let ask = |seen: KindSeen| {
        need(
            &target,
            &NeedCondition::Served,
            &World::default().kind(kind.clone(), seen),
        )
    };
    assert_eq!(ask(KindSeen::SERVED), NeedState::Met);
    assert_eq!(code(&ask(KindSeen::NotServed)), Some(Code::WaitsForKind));
    assert!(matches!(ask(KindSeen::NotAsked), NeedState::Unknown { .. }));
    let unknown = ask(KindSeen::Unknown {
        why: "forbidden".to_owned(),
    });
    assert!(matches!(unknown, NeedState::Unknown { message } if message.contains("forbidden")));
}

#[test]
fn existence_is_met_by_an_object_and_by_one_that_is_done() {
    let target = NeedTarget::Object(id("Secret"));
    let ask = |seen: ObjectSeen| {
        need(
            &target,
            &NeedCondition::Exists,
            &World::default().object(id("Secret"), seen),
        )
    };
    assert_eq!(ask(present(json!({}))), NeedState::Met);
    assert_eq!(ask(ObjectSeen::Done), NeedState::Met);
    assert_eq!(code(&ask(ObjectSeen::Absent)), Some(Code::WaitsForObject));
    assert!(matches!(
        ask(ObjectSeen::NotAsked),
        NeedState::Unknown { .. }
    ));
    assert!(matches!(
        ask(ObjectSeen::Unknown {
            why: "x".to_owned()
        }),
        NeedState::Unknown { .. }
    ));
    let going = present(json!({"metadata": {"deletionTimestamp": "t"}}));
    assert_eq!(code(&ask(going)), Some(Code::WaitsForReady));
}

#[test]
fn an_absent_namespace_has_its_own_reason() {
    let namespace = ObjectRef::cluster("", "Namespace", "apps");
    let world = World::default().object(namespace.clone(), ObjectSeen::Absent);
    let state = need(
        &NeedTarget::Object(namespace),
        &NeedCondition::Exists,
        &world,
    );
    assert_eq!(code(&state), Some(Code::WaitsForNamespace));
}

#[test]
fn an_object_of_a_kind_that_is_not_served_waits_for_the_kind() {
    let target = NeedTarget::Object(id("g.io/Thing"));
    let world = World::default().kind(id("g.io/Thing").group_kind(), KindSeen::NotServed);
    let state = need(&target, &NeedCondition::Ready, &world);
    assert_eq!(code(&state), Some(Code::WaitsForKind));
}

#[test]
fn readiness_is_the_verdict_and_unknown_is_no_answer() {
    let target = NeedTarget::Object(id("Pod"));
    let ask = |phase: &str| {
        let world =
            World::default().object(id("Pod"), present(json!({"status": {"phase": phase}})));
        need(&target, &NeedCondition::Ready, &world)
    };
    assert_eq!(ask("Succeeded"), NeedState::Met);
    assert_eq!(code(&ask("Pending")), Some(Code::WaitsForReady));
    assert!(matches!(ask("Failed"), NeedState::Failed { .. }));
    assert!(matches!(ask(""), NeedState::Unknown { .. }));
}

#[test]
fn an_expression_that_has_no_answer_yet_says_why() {
    let target = NeedTarget::Object(id("Pod"));
    let condition = expression("object.status.phase == 'Running'");
    let ask = |object: Value| {
        need(
            &target,
            &condition,
            &World::default().object(id("Pod"), present(object)),
        )
    };
    assert_eq!(ask(json!({"status": {"phase": "Running"}})), NeedState::Met);
    assert_eq!(
        ask(json!({"status": {"phase": "Pending"}})),
        NeedState::NotYet {
            code: Code::WaitsForCondition,
            message: String::new(),
        },
        "a plain no has nothing to add to the rule's own reason"
    );
    for (object, part) in [
        (json!({}), "`status` is not there yet"),
        (json!({"status": 3}), "status"),
    ] {
        match ask(object) {
            NeedState::NotYet { code, message } => {
                assert_eq!(code, Code::WaitsForCondition);
                assert!(message.contains(part), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_machine_rules_are_met_by_a_harvester_that_is_up_and_by_no_less() {
    let rules = RuleSet::shipped();
    let requires = &rules
        .rules
        .iter()
        .find(|rule| rule.name == "harvester-vm/vm-waits-for-harvester")
        .unwrap()
        .requires;
    let setting = ObjectRef::cluster("harvesterhci.io", "Setting", "storage-network");
    let webhook = ObjectRef::cluster(
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "harvester-validator",
    );
    let endpoints = ObjectRef::namespaced("", "Endpoints", "harvester-system", "harvester-webhook");
    let kubevirt = ObjectRef::namespaced("kubevirt.io", "KubeVirt", "harvester-system", "kubevirt");
    let up = || {
        World::default()
            .object(setting.clone(), present(json!({"value": ""})))
            .object(webhook.clone(), present(json!({"webhooks": []})))
            .object(
                endpoints.clone(),
                present(json!({"subsets": [{"addresses": [{"ip": "10.52.0.7"}]}]})),
            )
            .object(
                kubevirt.clone(),
                present(json!({"status": {"phase": "Deployed"}})),
            )
    };
    let met = |world: &World| {
        requires
            .iter()
            .all(|need| holds(&need.target, &need.condition, &rules, world) == NeedState::Met)
    };
    let configured = |status: &str| json!({"value": "{\"vlan\": 1}", "status": {"conditions": [{"type": "configured", "status": status}]}});
    assert!(met(&up()));
    assert!(met(
        &up().object(setting.clone(), present(json!({"default": ""})))
    ));
    assert!(met(
        &up().object(setting.clone(), present(configured("True")))
    ));
    for (missing, seen) in [
        (&setting, ObjectSeen::Absent),
        (&setting, present(configured("False"))),
        (&setting, present(json!({"value": "{\"vlan\": 1}"}))),
        (&webhook, ObjectSeen::Absent),
        (&webhook, ObjectSeen::NotAsked),
        (&endpoints, present(json!({"subsets": []}))),
        (&endpoints, present(json!({}))),
        (
            &endpoints,
            present(json!({"subsets": [{"notReadyAddresses": [{"ip": "10.52.0.7"}]}]})),
        ),
        (
            &kubevirt,
            present(json!({"status": {"phase": "Deploying"}})),
        ),
        (&kubevirt, present(json!({}))),
    ] {
        assert!(
            !met(&up().object(missing.clone(), seen.clone())),
            "{missing} {seen:?}"
        );
    }
}

/// JSON with the keys that the judgement reads, and values of any type.
fn any_json() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "conditions",
        "type",
        "reason",
        "message",
        "phase",
        "replicas",
        "observedGeneration",
        "generation",
        "deletionTimestamp",
        "updateStrategy",
        "rollingUpdate",
        "partition",
        "jobName",
        "containerStatuses",
        "state",
        "waiting",
        "name",
        "names",
        "kind",
        "group",
        "desiredNumberScheduled",
        "readyReplicas",
        "startTime",
        "subsets",
        "value",
        "enabled",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "True",
            "False",
            "Ready",
            "Established",
            "Running",
            "Pending",
            "9",
            "",
            "é\n…"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// An object with arbitrary spec, status and metadata.
fn any_object() -> impl Strategy<Value = Value> {
    (any_json(), any_json(), any_json()).prop_map(
        |(metadata, spec, status)| json!({"metadata": metadata, "spec": spec, "status": status}),
    )
}

proptest! {
    #[test]
    fn no_object_makes_the_judging_panic_or_a_need_met_that_is_not_there(
        object in prop_oneof![any_json(), any_object()],
    ) {
        let rules = shipped();
        let kinds = [
            "apps/Deployment", "apps/StatefulSet", "apps/DaemonSet", "apps/ReplicaSet", "Pod", "batch/Job",
            "Namespace", "Service", "PersistentVolumeClaim", "PersistentVolume", "policy/PodDisruptionBudget",
            "apiextensions.k8s.io/CustomResourceDefinition", "apiregistration.k8s.io/APIService",
            "helm.cattle.io/HelmChart", "example.io/Thing", "kubevirt.io/VirtualMachine", "kubevirt.io/KubeVirt",
            "harvesterhci.io/Addon", "harvesterhci.io/Setting", "harvesterhci.io/VirtualMachineImage",
        ];
        for kind in kinds {
            let id = id(kind);
            let world = World::default().object(id.clone(), present(object.clone()));
            let judgement = judge(&object, &id, rules, &world);
            prop_assert!(!judgement.reason.is_empty());
            let _ = related(&id, &object);
            let target = NeedTarget::Object(id);
            let state = holds(&target, &NeedCondition::Ready, rules, &world);
            prop_assert_eq!(state == NeedState::Met, judgement.verdict == Verdict::Ready);
        }
        for rule in &rules.rules {
            for need in &rule.requires {
                if let NeedTarget::Object(id) = &need.target {
                    let world = World::default().object(id.clone(), present(object.clone()));
                    let _ = holds(&need.target, &need.condition, rules, &world);
                }
            }
        }
    }
}

fn shipped() -> &'static RuleSet {
    static RULES: std::sync::LazyLock<RuleSet> = std::sync::LazyLock::new(RuleSet::shipped);
    &RULES
}
