use super::*;
use Verdict::{Failed, Progressing, Ready, Unknown};

fn custom(object: Value) -> (Verdict, &'static str) {
    verdict("example.io/Thing", &object, &World::default())
}

fn conditions(conditions: &[(&str, &str)]) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, status)| json!({"type": kind, "status": status, "reason": "R", "message": "two\nlines"}))
        .collect();
    json!({"status": {"conditions": conditions}})
}

#[test]
fn an_object_that_nobody_spoke_about_is_unknown() {
    assert_eq!(custom(json!({})), (Unknown, "NoStatus"));
    assert_eq!(custom(json!({"status": null})), (Unknown, "NoStatus"));
    assert_eq!(custom(json!({"status": {}})), (Unknown, "NoStatus"));
    assert_eq!(
        custom(json!({"status": {"phase": "x"}})),
        (Unknown, "NoKnownCondition")
    );
}

#[test]
fn the_usual_conditions_are_read_in_their_order() {
    for (found, expected) in [
        (vec![("Ready", "True")], (Ready, "Ready")),
        (vec![("Ready", "False")], (Progressing, "NotReadyYet")),
        (vec![("Ready", "Unknown")], (Progressing, "NotReadyYet")),
        (vec![("Available", "True")], (Ready, "Ready")),
        (vec![("Succeeded", "True")], (Ready, "Ready")),
        (
            vec![("Available", "True"), ("Ready", "False")],
            (Progressing, "NotReadyYet"),
        ),
        (
            vec![("Ready", "True"), ("Reconciling", "True")],
            (Progressing, "Reconciling"),
        ),
        (
            vec![("Ready", "True"), ("Reconciling", "False")],
            (Ready, "Ready"),
        ),
        (
            vec![("Ready", "True"), ("Stalled", "True")],
            (Failed, "Stalled"),
        ),
        (vec![("Other", "True")], (Unknown, "NoKnownCondition")),
    ] {
        assert_eq!(custom(conditions(&found)), expected, "{found:?}");
    }
}

#[test]
fn an_object_that_is_being_deleted_is_progressing_whatever_it_says() {
    let mut object = conditions(&[("Ready", "True")]);
    object["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    assert_eq!(custom(object), (Progressing, "Terminating"));
}

#[test]
fn the_generation_counts_as_a_number_or_as_digits_and_is_unknown_otherwise() {
    let object = |observed: Value| {
        let mut object = conditions(&[("Ready", "True")]);
        object["metadata"] = json!({"generation": 3});
        object["status"]["observedGeneration"] = observed;
        object
    };
    assert_eq!(custom(object(json!(3))), (Ready, "Ready"));
    assert_eq!(custom(object(json!("3"))), (Ready, "Ready"));
    assert_eq!(custom(object(Value::Null)), (Ready, "Ready"));
    let behind = (Progressing, "LatestGenerationNotObserved");
    assert_eq!(custom(object(json!(2))), behind);
    assert_eq!(custom(object(json!("2"))), behind);
    for odd in [json!("abc"), json!([3]), json!({}), json!(true), json!(2.5)] {
        assert_eq!(custom(object(odd.clone())), (Unknown, "WrongType"), "{odd}");
    }
}

#[test]
fn conditions_that_are_no_list_are_unknown() {
    for odd in [json!("x"), json!({}), json!(1)] {
        assert_eq!(
            custom(json!({"status": {"conditions": odd}})),
            (Unknown, "WrongType")
        );
    }
    assert_eq!(
        custom(json!({"status": {"conditions": ["x", 1, {"type": 3}]}})),
        (Unknown, "NoKnownCondition")
    );
}

fn by_shipped_rule(kind: &str, object: Value) -> Verdict {
    judge(&object, &id(kind), &RuleSet::shipped(), &World::default()).verdict
}

#[test]
fn the_shipped_readiness_rules_judge_real_states() {
    let condition = |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status}]}});
    let machine = |strategy: &str, status: &str| json!({"spec": {"runStrategy": strategy}, "status": {"printableStatus": status}});
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    let addon = |enabled: bool, status: &str, condition: &str| {
        json!({"spec": {"enabled": enabled}, "status": {"status": status,
            "conditions": [{"type": condition, "status": "True"}, {"type": "Other", "status": "True"}]}})
    };
    for (kind, object, expected) in [
        ("kubevirt.io/KubeVirt", phase("Deployed"), Ready),
        ("kubevirt.io/KubeVirt", phase("Deploying"), Progressing),
        ("kubevirt.io/KubeVirt", json!({}), Unknown),
        // The controller has written a status, but not the field that the rule reads.
        (
            "kubevirt.io/KubeVirt",
            json!({"status": {"observedGeneration": 1}}),
            Progressing,
        ),
        (
            "kubevirt.io/VirtualMachine",
            machine("Always", "Running"),
            Ready,
        ),
        (
            "kubevirt.io/VirtualMachine",
            machine("Always", "Stopped"),
            Progressing,
        ),
        (
            "kubevirt.io/VirtualMachine",
            machine("Always", "Starting"),
            Progressing,
        ),
        (
            "kubevirt.io/VirtualMachine",
            machine("Halted", "Stopped"),
            Ready,
        ),
        (
            "kubevirt.io/VirtualMachine",
            machine("Always", "DataVolumeError"),
            Failed,
        ),
        (
            "kubevirt.io/VirtualMachine",
            json!({"spec": {"running": false}, "status": {"printableStatus": "Stopped"}}),
            Ready,
        ),
        (
            "kubevirt.io/VirtualMachine",
            json!({"spec": {"running": true}, "status": {"printableStatus": "Stopped"}}),
            Progressing,
        ),
        (
            "kubevirt.io/VirtualMachineInstance",
            phase("Running"),
            Ready,
        ),
        (
            "kubevirt.io/VirtualMachineInstance",
            phase("Scheduling"),
            Progressing,
        ),
        (
            "kubevirt.io/VirtualMachineInstance",
            phase("Failed"),
            Failed,
        ),
        ("cdi.kubevirt.io/DataVolume", phase("Succeeded"), Ready),
        (
            "cdi.kubevirt.io/DataVolume",
            phase("ImportInProgress"),
            Progressing,
        ),
        ("cdi.kubevirt.io/DataVolume", phase("Failed"), Failed),
        ("cdi.kubevirt.io/CDI", phase("Deployed"), Ready),
        ("cdi.kubevirt.io/CDI", phase("Error"), Failed),
        (
            "k8s.cni.cncf.io/NetworkAttachmentDefinition",
            json!({"spec": {}}),
            Ready,
        ),
        (
            "harvesterhci.io/VirtualMachineImage",
            condition("Imported", "True"),
            Ready,
        ),
        (
            "harvesterhci.io/VirtualMachineImage",
            condition("Imported", "Unknown"),
            Progressing,
        ),
        (
            "harvesterhci.io/VirtualMachineImage",
            condition("RetryLimitExceeded", "True"),
            Failed,
        ),
        (
            "harvesterhci.io/VirtualMachineImage",
            json!({"spec": {}}),
            Unknown,
        ),
        ("harvesterhci.io/Setting", json!({"value": "x"}), Ready),
        (
            "harvesterhci.io/Setting",
            condition("configured", "True"),
            Ready,
        ),
        (
            "harvesterhci.io/Setting",
            condition("configured", "False"),
            Progressing,
        ),
        (
            "harvesterhci.io/Addon",
            json!({"spec": {"enabled": false}}),
            Ready,
        ),
        (
            "harvesterhci.io/Addon",
            json!({"spec": {"enabled": true}}),
            Unknown,
        ),
        (
            "harvesterhci.io/Addon",
            addon(true, "AddonDeploySuccessful", "Completed"),
            Ready,
        ),
        (
            "harvesterhci.io/Addon",
            addon(true, "AddonEnabling", "InProgress"),
            Progressing,
        ),
        (
            "harvesterhci.io/Addon",
            addon(true, "AddonEnabling", "OperationFailed"),
            Failed,
        ),
        (
            "harvesterhci.io/Addon",
            addon(false, "AddonDisabled", "Completed"),
            Ready,
        ),
        (
            "network.harvesterhci.io/ClusterNetwork",
            condition("ready", "True"),
            Ready,
        ),
        (
            "network.harvesterhci.io/ClusterNetwork",
            condition("ready", "False"),
            Progressing,
        ),
        (
            "longhorn.io/EngineImage",
            json!({"status": {"state": "deployed"}}),
            Ready,
        ),
        (
            "longhorn.io/EngineImage",
            json!({"status": {"state": "deploying"}}),
            Progressing,
        ),
        (
            "longhorn.io/Volume",
            json!({"status": {"state": "attached", "robustness": "healthy"}}),
            Ready,
        ),
        (
            "longhorn.io/Volume",
            json!({"status": {"state": "attached", "robustness": "faulted"}}),
            Failed,
        ),
        (
            "longhorn.io/Volume",
            json!({"status": {"state": "attaching", "robustness": "unknown"}}),
            Progressing,
        ),
    ] {
        assert_eq!(
            by_shipped_rule(kind, object.clone()),
            expected,
            "{kind} {object}"
        );
    }
}

#[test]
fn a_readiness_rule_that_does_not_fit_the_object_is_unknown_and_names_its_place() {
    let judgement = judge(
        &json!({"status": {"conditions": "none"}}),
        &id("harvesterhci.io/VirtualMachineImage"),
        &RuleSet::shipped(),
        &World::default(),
    );
    assert_eq!(judgement.verdict, Unknown);
    assert!(
        judgement.message.contains("31-harvester-readiness.yaml:"),
        "{judgement:?}"
    );
}

#[test]
fn only_kinds_that_are_never_stored_cannot_be_observed() {
    let rules = RuleSet::default();
    for (kind, expected) in [
        ("apps/Deployment", true),
        ("example.io/Thing", true),
        ("authorization.k8s.io/SubjectAccessReview", false),
        ("policy/Eviction", false),
    ] {
        assert_eq!(
            observable(&id(kind).group_kind(), &rules),
            expected,
            "{kind}"
        );
    }
}

#[test]
fn only_a_job_counts_as_done_when_it_is_gone() {
    assert!(completes(&id("batch/Job")));
    assert!(!completes(&id("batch/CronJob")));
    assert!(!completes(&id("example.com/Job")));
}

#[test]
fn the_controllers_own_words_are_handed_on() {
    let stalled = |reason: &str, message: &str| {
        let object = json!({"status": {"conditions": [
            {"type": "Stalled", "status": "True", "reason": reason, "message": message},
        ]}});
        judge(
            &object,
            &id("example.com/Widget"),
            &RuleSet::default(),
            &World::default(),
        )
        .message
    };
    assert!(stalled("NoQuota", "the quota\n is used up").contains("NoQuota: the quota is used up"));
    assert!(stalled("NoQuota", "").contains("NoQuota"));
    assert!(stalled("", "used up").contains("used up"));
}

#[test]
fn what_a_rule_says_of_an_object_names_the_phase_that_the_object_reports() {
    for (kind, object, expected) in [
        (
            "kubevirt.io/KubeVirt",
            json!({"status": {"phase": "Deploying"}}),
            "not ready yet: its phase is Deploying",
        ),
        (
            "kubevirt.io/KubeVirt",
            json!({"status": {"phase": "Deployed"}}),
            "ready: its phase is Deployed",
        ),
        (
            "kubevirt.io/VirtualMachine",
            json!({"spec": {"runStrategy": "Always"}, "status": {"printableStatus": "Starting"}}),
            "not ready yet: its printableStatus is Starting",
        ),
        (
            "kubevirt.io/KubeVirt",
            json!({"status": {"phase": ""}}),
            "not ready yet",
        ),
    ] {
        let judged = judge(&object, &id(kind), &RuleSet::shipped(), &World::default());
        assert_eq!(judged.message, expected, "{object}");
    }
}
