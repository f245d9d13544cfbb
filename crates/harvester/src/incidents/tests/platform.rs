//! Tests the findings about parts of the platform.

mod pods;
mod promotion;

use windrow_model::reasons::{Code, Severity};

use super::*;

const LONG_AGO: &str = "2026-05-01T11:00:00Z";
const JUST_NOW: &str = "2026-05-01T11:58:00Z";

fn found(objects: &Objects) -> Vec<IncidentFinding> {
    known(objects)
}

/// The evidence and the advice.
fn told(finding: &IncidentFinding) -> String {
    let seen: Vec<String> = finding.evidence.iter().map(ToString::to_string).collect();
    [seen, finding.proof.clone()].concat().join("\n")
}

fn upgrade(state: &str) -> Value {
    json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade", "metadata": {"name": "up", "namespace": "harvester-system",
        "labels": {"harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": state}}})
}

fn chart(state: &str, since: &str) -> Value {
    let ready = if state.is_empty() { "True" } else { "False" };
    json!({"apiVersion": "management.cattle.io/v3", "kind": "ManagedChart", "metadata": {"name": "harvester", "namespace": "fleet-local"},
        "spec": {}, "status": {"conditions": [{"type": "Ready", "status": ready, "lastUpdateTime": since,
            "message": "Modified(1) [Cluster fleet-local/local]; secret.v1 a/b modified {\"data\":{\"x\":\"s3cret\"}}"}],
            "display": {"state": state}}})
}

fn bundle_deployment(name: &str, status: Value) -> Value {
    json!({"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment",
        "metadata": {"name": name, "namespace": "cluster-fleet-local-local-1a3d67d0a899", "labels": {
            "fleet.cattle.io/bundle-name": name, "fleet.cattle.io/bundle-namespace": "fleet-local"}},
        "spec": {"deploymentID": "s-1"}, "status": status})
}

/// As in harvester#7996 and #7800.
fn modified() -> Value {
    bundle_deployment(
        "mcc-harvester",
        json!({"appliedDeploymentID": "s-1", "modifiedStatus": [
            {"kind": "Secret", "apiVersion": "v1", "namespace": "kube-system", "name": "snapshot-validation-webhook-tls",
                "patch": "{\"data\":{\"tls.crt\":\"s3cret\"}}"},
            {"kind": "Deployment", "apiVersion": "apps/v1", "namespace": "longhorn-system", "name": "longhorn-ui",
                "patch": "{\"spec\":{\"replicas\":2,\"password\":\"hunter2\"}}"},
            {"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "name": "harvester-longhorn", "missing": true}
        ]}),
    )
}

#[test]
fn a_chart_that_was_changed_shows_which_objects_differ_and_of_a_secret_nothing() {
    let objects = cluster([chart("Modified", LONG_AGO), modified()]);
    assert_eq!(codes(&objects), ["chart-modified"]);
    let finding = found(&objects).remove(0);
    assert_eq!(finding.subject, "ManagedChart fleet-local/harvester");
    assert_eq!(finding.severity, Severity::Warning);
    let told = told(&finding);
    assert!(
        told.contains("longhorn-ui: modified (secrets left out): {\"spec\""),
        "{told}"
    );
    assert!(
        told.contains("StorageClass harvester-longhorn: missing"),
        "{told}"
    );
    assert!(
        told.contains("snapshot-validation-webhook-tls: modified: its data is not shown"),
        "{told}"
    );
    assert!(told.contains("begins no upgrade"), "{told}");
    assert!(
        !told.contains("s3cret") && !told.contains("hunter2"),
        "{told}"
    );
}

fn modified_by(objects: Value) -> IncidentFinding {
    let status = json!({"appliedDeploymentID": "s-1", "modifiedStatus": objects});
    let deployment = bundle_deployment("mcc-harvester", status);
    found(&cluster([chart("Modified", LONG_AGO), deployment])).remove(0)
}

/// As in harvester#7442 and #7996: the chart creates a new certificate at each render.
#[test]
fn a_certificate_that_differs_is_excepted_and_not_given_what_the_chart_says() {
    let secret = json!({"kind": "Secret", "apiVersion": "v1", "namespace": "kube-system",
        "name": "snapshot-validation-webhook-tls", "patch": "{\"data\":{\"ca.crt\":\"s3cret\",\"tls.crt\":\"s3cret\"}}"});
    let webhook = json!({"kind": "ValidatingWebhookConfiguration", "apiVersion": "admissionregistration.k8s.io/v1",
        "name": "harvester-snapshot-validation-webhook",
        "patch": "{\"webhooks\":[{\"clientConfig\":{\"caBundle\":\"s3cret\"},\"failurePolicy\":\"Fail\"}]}"});
    let other = json!({"kind": "Deployment", "apiVersion": "apps/v1", "namespace": "longhorn-system",
        "name": "longhorn-ui", "patch": "{\"spec\":{\"replicas\":2}}"});
    let both = modified_by(json!([secret.clone(), webhook.clone()]));
    assert!(both.advice.contains("spec.diff.comparePatches"), "{both:?}");
    assert!(!both.advice.contains("--type merge"), "{both:?}");
    let said = told(&both);
    assert!(
        said.contains("modified: a certificate in it differs"),
        "{said}"
    );
    assert!(!said.contains("s3cret"), "{said}");
    let mixed = modified_by(json!([webhook, other])).advice;
    assert!(
        mixed.contains("spec.diff.comparePatches") && mixed.contains("--type merge"),
        "{mixed}"
    );
    // The saved object does not contain its data.
    let mut saved = secret.clone();
    saved["patch"] = json!("{\"data\":\"[redacted]\"}");
    let advice = modified_by(json!([saved])).advice;
    assert!(!advice.contains("--type merge"), "{advice}");
    // A Secret of another type has no certificate.
    let password =
        json!({"kind": "Secret", "name": "x", "patch": "{\"data\":{\"password\":\"s3cret\"}}"});
    let advice = modified_by(json!([password])).advice;
    assert!(!advice.contains("comparePatches"), "{advice}");
}

/// As in harvester#7800.
#[test]
fn the_patch_is_whole_for_programs_and_short_for_people() {
    let env: Vec<Value> = (0..40)
        .map(|number| json!({"name": format!("NAME_{number}"), "value": "two  spaces"}))
        .collect();
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"env": env}]}}}});
    let of = |patch: &Value| {
        let finding = modified_by(
            json!([{"kind": "Deployment", "namespace": "harvester-system",
            "name": "harvester-network-webhook", "patch": patch.to_string()}]),
        );
        assert!(finding.advice.contains("--type merge"), "{finding:?}");
        let incident = finding.in_status().incident.unwrap();
        assert!(incident.evidence[1].value.chars().count() < 600);
        finding.evidence[1].clone()
    };
    let seen = of(&patch);
    assert_eq!(serde_json::from_str::<Value>(&seen.value).unwrap(), patch);
    assert_eq!(seen.field, "modified");
    let mut secret = patch.clone();
    secret["spec"]["password"] = json!("hunter2");
    let seen = of(&secret);
    assert_eq!(seen.field, "modified (secrets left out)");
    assert!(!seen.value.contains("hunter2"), "{seen}");
    let advice =
        modified_by(json!([{"kind": "Deployment", "name": "x", "patch": secret.to_string()}]))
            .advice;
    assert!(
        advice.ends_with("First fill in the values that are `[redacted]`."),
        "{advice}"
    );
    assert!(serde_json::from_str::<Value>(&seen.value).is_ok(), "{seen}");
}

/// From Harvester's documentation about stopping an upgrade.
#[test]
fn a_chart_that_is_paused_is_told_where_no_upgrade_is_under_way() {
    let paused = || {
        let mut paused = chart("", LONG_AGO);
        paused["spec"]["paused"] = json!(true);
        paused
    };
    assert_eq!(codes(&cluster([paused()])), ["chart-paused"]);
    let failed = |since: &str| {
        let mut failed = upgrade("Failed");
        failed["status"] = json!({"conditions": [{"type": "Completed", "lastUpdateTime": since}]});
        cluster([paused(), failed])
    };
    // The failed upgrade has its own finding.
    assert!(codes(&failed(LONG_AGO)).contains(&"chart-paused"));
    let just_ended = codes(&failed(JUST_NOW));
    assert!(!just_ended.contains(&"chart-paused"), "{just_ended:?}");
    let running = cluster([paused(), upgrade("UpgradingSystemServices")]);
    assert_eq!(codes(&running), [""; 0]);
}

#[test]
fn a_chart_that_is_ready_or_changed_a_moment_ago_is_no_incident() {
    // Harvester pauses its charts during an upgrade.
    let mut paused = chart("Modified", LONG_AGO);
    paused["spec"]["paused"] = json!(true);
    let running = upgrade("UpgradingSystemServices");
    // The new version is not applied yet, so the state is that of the previous version.
    let mut replaced = modified();
    replaced["spec"]["deploymentID"] = json!("s-2");
    let mut recently = chart("Modified", "2026-05-01T11:45:00Z");
    recently["metadata"]["generation"] = json!(7);
    for objects in [
        vec![chart("", LONG_AGO), modified()],
        vec![chart("Modified", JUST_NOW), modified()],
        vec![paused, modified(), running],
        vec![recently, replaced],
        // Not Harvester, but bundles of others.
        vec![modified()],
    ] {
        assert_eq!(codes(&cluster(objects.clone())), [""; 0], "{objects:?}");
    }
}

/// As in harvester#7461.
#[test]
fn a_chart_that_rolls_out_is_given_half_an_hour_and_none_at_all_while_an_upgrade_runs() {
    let rolls = |name: &str| {
        bundle_deployment(
            name,
            json!({"appliedDeploymentID": "s-1", "nonReadyStatus": [{"kind": "Deployment", "apiVersion": "apps/v1",
            "namespace": "harvester-system", "name": "harvester-webhook", "summary": {"state": "updating",
                "message": ["Deployment does not have minimum availability.", "Available: 0/1"]}}]}),
        )
    };
    let slow = cluster([
        chart("NotReady", "2026-05-01T11:40:00Z"),
        rolls("mcc-harvester"),
    ]);
    assert_eq!(codes(&slow), [""; 0]);
    let objects = [chart("NotReady", LONG_AGO), rolls("mcc-harvester")];
    assert_eq!(
        codes(&cluster(objects.clone())),
        ["managed-chart-not-ready"]
    );
    let finding = found(&cluster(objects.clone())).remove(0);
    assert!(
        told(&finding)
            .contains("updating: Deployment does not have minimum availability., Available: 0/1")
    );
    let [chart, deployment] = objects;
    let running = cluster([chart.clone(), deployment.clone(), upgrade("UpgradingNodes")]);
    assert_eq!(codes(&running), [""; 0]);
    let over = cluster([chart, deployment, upgrade("Failed")]);
    assert_eq!(codes(&over), ["upgrade-failed", "managed-chart-not-ready"]);
}

#[test]
fn a_chart_that_cannot_be_applied_is_an_error_with_helms_words() {
    let failed = bundle_deployment(
        "mcc-harvester",
        json!({"appliedDeploymentID": "s-1", "conditions": [
        {"type": "Deployed", "status": "False", "message": "release: not found"}]}),
    );
    let finding = found(&cluster([chart("ErrApplied", LONG_AGO), failed])).remove(0);
    assert_eq!(finding.code, Code::ManagedChartNotReady);
    assert_eq!(finding.severity, Severity::Error);
    assert!(
        told(&finding).contains("condition Deployed: release: not found"),
        "{finding:?}"
    );
}

/// As in harvester#3675, #7375 and the documentation of v1.4.0.
#[test]
fn what_helps_a_chart_that_cannot_be_applied_goes_by_what_fleet_says() {
    let finding = |said: &str, upgrades: Option<Value>| {
        let failed = bundle_deployment(
            "mcc-harvester",
            json!({"appliedDeploymentID": "s-1", "conditions": [
                {"type": "Installed", "status": "False", "message": said}]}),
        );
        let objects = [chart("ErrApplied", LONG_AGO), failed];
        found(&cluster(objects.into_iter().chain(upgrades))).remove(0)
    };
    let long = "x".repeat(300);
    for (said, helps) in [
        (
            "another operation (install/upgrade/rollback) is in progress",
            "helm rollback",
        ),
        (
            "denied the request: no route match found for DELETE /v1, Kind=Secret harvester-system/sh.helm.release.v1.harvester.v2",
            "spec.forceSyncGeneration of Bundles mcc-harvester-crd",
        ),
        (
            "denied the request: default storage class sc1 already exists, please reset it first",
            "storageClass.defaultStorageClass",
        ),
        ("release: not found", "make Fleet apply the chart again"),
        (
            &format!("{long} another operation (install/upgrade/rollback) is in progress"),
            "helm rollback",
        ),
    ] {
        let finding = finding(said, None);
        assert!(finding.advice.contains(helps), "{said}: {}", finding.advice);
        assert!(told(&finding).contains("begins no upgrade"), "{finding:?}");
    }
    let finding = finding(": release: not found", Some(upgrade("UpgradingNodes")));
    assert!(
        finding
            .message
            .ends_with("is not Ready: release: not found"),
        "{finding:?}"
    );
    assert_eq!(finding.proof, [""; 0], "one is under way");
}

/// harvester#9065: an upgrade waits for it.
#[test]
fn a_bundle_of_ranchers_own_is_told_in_an_upgrade_too() {
    let agent = bundle_deployment(
        "local-managed-system-agent",
        json!({
        "appliedDeploymentID": "s-1", "display": {"state": "Modified"},
        "conditions": [{"type": "Ready", "status": "False", "reason": "Error", "lastUpdateTime": LONG_AGO}],
        "modifiedStatus": [{"kind": "Plan", "apiVersion": "upgrade.cattle.io/v1", "namespace": "cattle-system",
            "name": "system-agent-upgrader", "patch": "{\"spec\":{\"nodeSelector\":{}}}"}]}),
    );
    let objects = cluster([
        chart("", LONG_AGO),
        agent,
        upgrade("UpgradingSystemServices"),
    ]);
    assert_eq!(codes(&objects), ["chart-modified"]);
    let finding = found(&objects).remove(0);
    assert!(
        finding.subject.ends_with("/local-managed-system-agent"),
        "{finding:?}"
    );
    assert!(told(&finding).contains("Plan cattle-system/system-agent-upgrader: modified"));
    assert!(told(&finding).contains("waits for Rancher's own bundles"));
}

#[test]
fn a_list_that_cannot_be_had_is_not_taken_for_an_empty_one() {
    let mut objects = cluster([chart("Modified", LONG_AGO)]);
    for kind in [
        ObjectKind::BUNDLE_DEPLOYMENT,
        ObjectKind::POD,
        ObjectKind::NODE,
    ] {
        objects.insert(kind.group_kind(), KindListing::Unknown("403".to_owned()));
    }
    let unknown = diagnose(&objects, now()).unknown;
    for name in [
        "charts of Harvester that are not Ready: BundleDeployment",
        "missing images of platform pods: Pod",
        "platform pods that no node takes: Pod",
        "nodes of different versions: Node",
    ] {
        assert!(
            unknown.iter().any(|one| one.starts_with(name)),
            "{name}: {unknown:?}"
        );
    }
}

/// fleet#3341: a bundle of a GitRepo.
#[test]
fn a_bundle_of_a_users_git_repository_holds_no_upgrade_up() {
    let mut bundle = bundle_deployment(
        "infra-cert-manager",
        json!({"appliedDeploymentID": "s-0", "conditions": [
            {"type": "Ready", "status": "False", "lastUpdateTime": LONG_AGO},
            {"type": "Deployed", "status": "False", "message": "cannot re-use a name", "lastUpdateTime": LONG_AGO}]}),
    );
    bundle["metadata"]["labels"]["fleet.cattle.io/repo-name"] = json!("infra");
    let objects = cluster([chart("", LONG_AGO), bundle]);
    let finding = found(&objects).remove(0);
    assert!(
        finding.evidence[0].value.contains("(ErrApplied)"),
        "{finding:?}"
    );
    assert!(finding.proof.is_empty(), "{finding:?}");
}
