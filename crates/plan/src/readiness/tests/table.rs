use super::*;
use Verdict::{Failed, Progressing, Ready, Unknown};

pub(super) type Row = (&'static str, &'static str, Value, Verdict, &'static str);

pub(super) fn check(rows: Vec<Row>, seen: &World) {
    for (name, kind, object, expected, reason) in rows {
        assert_eq!(verdict(kind, &object, seen), (expected, reason), "{name}");
    }
}

/// Merges a map into the status of `base`.
pub(super) fn with_status(base: &Value, changes: Value) -> Value {
    let mut object = base.clone();
    if let (Some(status), Value::Object(changes)) = (object["status"].as_object_mut(), changes) {
        status.extend(changes);
    }
    object
}

#[test]
fn the_rows_of_storage_services_and_namespaces() {
    let phase =
        |phase: &str| json!({"spec": {"storageClassName": "local"}, "status": {"phase": phase}});
    let world = World::default();
    let (pvc, pv) = ("PersistentVolumeClaim", "PersistentVolume");
    check(
        vec![
            ("bound", pvc, phase("Bound"), Ready, "ClaimBound"),
            (
                "pending",
                pvc,
                phase("Pending"),
                Progressing,
                "ClaimNotBound",
            ),
            (
                "lost does not come back",
                pvc,
                phase("Lost"),
                Failed,
                "ClaimLost",
            ),
            ("no phase", pvc, json!({}), Unknown, "NoStatus"),
            ("volume bound", pv, phase("Bound"), Ready, "VolumeUsable"),
            (
                "volume available",
                pv,
                phase("Available"),
                Ready,
                "VolumeUsable",
            ),
            ("volume failed", pv, phase("Failed"), Failed, "VolumeFailed"),
            (
                "volume pending",
                pv,
                phase("Pending"),
                Progressing,
                "VolumePending",
            ),
            (
                "service",
                "Service",
                json!({"spec": {"type": "ClusterIP"}}),
                Ready,
                "Exists",
            ),
            (
                "load balancer without address",
                "Service",
                json!({"spec": {"type": "LoadBalancer"}}),
                Progressing,
                "NoClusterIP",
            ),
            (
                "load balancer with cluster address",
                "Service",
                json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.43.0.9"}}),
                Ready,
                "Exists",
            ),
            (
                "namespace",
                "Namespace",
                phase("Active"),
                Ready,
                "NamespaceActive",
            ),
            (
                "namespace going",
                "Namespace",
                phase("Terminating"),
                Progressing,
                "NamespaceNotActive",
            ),
            (
                "namespace without phase",
                "Namespace",
                json!({}),
                Unknown,
                "NoStatus",
            ),
            (
                "budget seen",
                "policy/PodDisruptionBudget",
                json!({"status": {"currentHealthy": 0}}),
                Ready,
                "Observed",
            ),
            (
                "budget not seen",
                "policy/PodDisruptionBudget",
                json!({}),
                Unknown,
                "NoStatus",
            ),
        ],
        &world,
    );
    let waits = World::default().object(
        ObjectRef::cluster("storage.k8s.io", "StorageClass", "local"),
        present(json!({"volumeBindingMode": "WaitForFirstConsumer"})),
    );
    check(
        vec![
            (
                "pending for its consumer",
                pvc,
                phase("Pending"),
                Progressing,
                "WaitForFirstConsumer",
            ),
            (
                "bound all the same",
                pvc,
                phase("Bound"),
                Ready,
                "ClaimBound",
            ),
        ],
        &waits,
    );
}

#[test]
fn the_rows_of_definitions_and_api_services() {
    let crd = "apiextensions.k8s.io/CustomResourceDefinition";
    let definition = |conditions: Value| json!({"spec": {"group": "g.io", "names": {"kind": "Thing"}}, "status": {"conditions": conditions}});
    let established = definition(json!([
        {"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]));
    let thing = GroupKind::new("g.io", "Thing");
    let why = || "timed out".to_owned();
    for (seen, expected, reason) in [
        (KindSeen::SERVED, Ready, "Established"),
        (KindSeen::NotServed, Progressing, "EstablishedNotServed"),
        (KindSeen::NotAsked, Unknown, "EstablishedNotAsked"),
        (
            KindSeen::Unknown { why: why() },
            Unknown,
            "EstablishedNotAsked",
        ),
    ] {
        let world = World::default().kind(thing.clone(), seen.clone());
        assert_eq!(
            verdict(crd, &established, &world),
            (expected, reason),
            "{seen:?}"
        );
    }
    assert_eq!(related(&id(crd), &established).kinds, [thing]);
    let api = "apiregistration.k8s.io/APIService";
    let available =
        |status: &str| json!({"status": {"conditions": [{"type": "Available", "status": status}]}});
    check(
        vec![
            (
                "names refused",
                crd,
                definition(
                    json!([{"type": "NamesAccepted", "status": "False", "reason": "MultipleNamesConflict"}]),
                ),
                Failed,
                "NamesNotAccepted",
            ),
            (
                "not established",
                crd,
                definition(
                    json!([{"type": "Established", "status": "False", "reason": "NotAccepted"}]),
                ),
                Failed,
                "NotEstablished",
            ),
            (
                "installing",
                crd,
                definition(
                    json!([{"type": "Established", "status": "False", "reason": "Installing"}]),
                ),
                Progressing,
                "Installing",
            ),
            (
                "no condition yet",
                crd,
                definition(json!([{"type": "NamesAccepted", "status": "True"}])),
                Progressing,
                "Installing",
            ),
            (
                "nobody looked yet",
                crd,
                json!({"spec": {}}),
                Unknown,
                "NoStatus",
            ),
            (
                "service answers",
                api,
                available("True"),
                Ready,
                "Available",
            ),
            (
                "service does not answer",
                api,
                available("False"),
                Progressing,
                "NotAvailable",
            ),
            ("service not looked at", api, json!({}), Unknown, "NoStatus"),
        ],
        &World::default(),
    );
}

#[test]
fn the_rows_of_helm_charts() {
    let kind = "helm.cattle.io/HelmChart";
    let job = || ObjectRef::namespaced("batch", "Job", "ns", "helm-install-name");
    let chart = json!({"status": {"jobName": "helm-install-name", "conditions": [{"type": "JobCreated", "status": "True"}]}});
    assert_eq!(related(&id(kind), &chart).objects, [job()]);
    assert_eq!(related(&id(kind), &json!({})), Related::default());
    let condition =
        |kind: &str| present(json!({"status": {"conditions": [{"type": kind, "status": "True"}]}}));
    for (seen, expected, reason) in [
        (ObjectSeen::NotAsked, Unknown, "JobNotAsked"),
        (
            ObjectSeen::Unknown {
                why: "forbidden".to_owned(),
            },
            Unknown,
            "JobNotAsked",
        ),
        (ObjectSeen::Absent, Progressing, "JobMissing"),
        (ObjectSeen::Done, Ready, "ChartInstalled"),
        (condition("Complete"), Ready, "ChartInstalled"),
        (condition("Failed"), Failed, "ChartJobFailed"),
        (condition("Suspended"), Progressing, "ChartJobRunning"),
        (
            present(json!({"status": {"startTime": "t"}})),
            Progressing,
            "ChartJobRunning",
        ),
        (present(json!({})), Unknown, "ChartJobUnknown"),
    ] {
        let world = World::default().object(job(), seen.clone());
        assert_eq!(
            verdict(kind, &chart, &world),
            (expected, reason),
            "{seen:?}"
        );
    }
    check(
        vec![
            (
                "exists is not installed",
                kind,
                json!({}),
                Unknown,
                "NoStatus",
            ),
            (
                "its status is made, and nothing is in it",
                kind,
                json!({"status": {}}),
                Unknown,
                "NoStatus",
            ),
            (
                "no Job yet",
                kind,
                json!({"status": {"conditions": [{"type": "JobCreated", "status": "False"}]}}),
                Progressing,
                "NoJob",
            ),
            (
                "failed",
                kind,
                json!({"status": {"jobName": "j", "conditions": [{"type": "Failed", "status": "True"}]}}),
                Failed,
                "ChartFailed",
            ),
        ],
        &World::default(),
    );
}

#[test]
fn kinds_without_a_status_are_ready_as_soon_as_they_exist() {
    for kind in [
        "ConfigMap",
        "Secret",
        "ServiceAccount",
        "Endpoints",
        "ResourceQuota",
        "LimitRange",
        "batch/CronJob",
        "rbac.authorization.k8s.io/Role",
        "rbac.authorization.k8s.io/ClusterRoleBinding",
        "storage.k8s.io/StorageClass",
        "scheduling.k8s.io/PriorityClass",
        "networking.k8s.io/Ingress",
        "networking.k8s.io/IngressClass",
        "networking.k8s.io/NetworkPolicy",
        "node.k8s.io/RuntimeClass",
        "admissionregistration.k8s.io/ValidatingWebhookConfiguration",
        "helm.cattle.io/HelmChartConfig",
    ] {
        assert_eq!(
            verdict(kind, &json!({}), &World::default()),
            (Ready, "Exists"),
            "{kind}"
        );
    }
    // The group matters: a custom kind of the same name is another kind.
    assert_eq!(
        verdict("example.io/Secret", &json!({}), &World::default()),
        (Unknown, "NoStatus")
    );
}
