//! Tests the remains of a disabled Addon.

use super::*;

fn addon(enabled: bool, status: &str) -> Value {
    json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Addon",
        "metadata": {"name": "lvm", "namespace": "harvester-system"},
        "spec": {"enabled": enabled}, "status": {"status": status}
    })
}

fn chart() -> Value {
    json!({"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
        "metadata": {"name": "lvm", "namespace": "harvester-system", "deletionTimestamp": "2026-05-01T11:00:00Z"}})
}

/// A revision of a release, as kube-apiserver lists its metadata.
fn release(name: &str, version: u32, status: &str, made: &str) -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": format!("sh.helm.release.v1.{name}.v{version}"), "namespace": "harvester-system",
            "creationTimestamp": format!("2026-05-01T{made}:00Z"),
            "labels": {"owner": "helm", "name": name, "status": status, "version": version.to_string()}}
    })
}

#[test]
fn a_release_of_an_addon_that_is_off_is_found_in_each_state_that_it_can_be_left_in() {
    for status in [
        "deployed",
        "uninstalling",
        "failed",
        "pending-install",
        "pending-upgrade",
        "superseded",
    ] {
        let off = addon(false, "AddonDisabled");
        let objects = cluster([off, release("lvm", 1, status, "11:00")]);
        assert_eq!(codes(&objects), ["release-left"], "{status}");
        let found = diagnose(&objects, now()).findings.remove(0);
        assert_eq!(found.subject, "Addon harvester-system/lvm");
        assert!(
            found.message.contains(&format!("`{status}`")),
            "{}",
            found.message
        );
        let secret = "Secret harvester-system/sh.helm.release.v1.lvm.v1";
        assert!(
            found.evidence.iter().any(|seen| seen.object == secret),
            "{found:?}"
        );
    }
}

#[test]
fn the_newest_revision_decides_by_number_and_not_by_name() {
    let of = |newest: &str| {
        cluster([
            addon(false, "AddonDisabled"),
            release("lvm", 9, "deployed", "10:00"),
            release("lvm", 10, newest, "11:00"),
        ])
    };
    assert_eq!(
        codes(&of("uninstalled")),
        [""; 0],
        "its history is kept on purpose"
    );
    assert_eq!(codes(&of("uninstalling")), ["release-left"]);
}

#[test]
fn what_is_healthy_or_under_way_is_no_finding() {
    let left = || release("lvm", 1, "deployed", "11:00");
    for (objects, why) in [
        (
            vec![addon(true, "AddonDeploySuccessful"), left()],
            "it is on",
        ),
        (
            vec![addon(false, "AddonDisabling"), chart(), left()],
            "it is being disabled",
        ),
        (
            vec![addon(false, "AddonDisabled"), chart(), left()],
            "its chart is still there",
        ),
        (vec![addon(false, "AddonDisabled")], "nothing is left"),
        (
            vec![
                addon(false, "AddonDisabled"),
                release("lvm", 1, "pending-install", "11:55"),
            ],
            "it was made a moment ago",
        ),
        (
            vec![
                addon(false, "AddonDisabled"),
                release("other", 1, "deployed", "11:00"),
            ],
            "it is another's",
        ),
        (vec![left()], "there is no Addon of its name"),
    ] {
        assert_eq!(codes(&cluster(objects)), [""; 0], "{why}");
    }
}

#[test]
fn an_addon_that_was_disabled_a_moment_ago_is_no_finding_yet() {
    let off = |since: &str| {
        let mut off = addon(false, "AddonDisabled");
        off["status"]["conditions"] = json!([{"type": "InProgress", "status": "False", "lastUpdateTime": "2026-05-01T10:00:00Z"},
            {"type": "Completed", "status": "True", "lastUpdateTime": since}]);
        cluster([off, release("lvm", 1, "deployed", "09:00")])
    };
    assert_eq!(codes(&off("2026-05-01T11:55:00Z")), [""; 0]);
    assert_eq!(codes(&off("2026-05-01T11:45:00Z")), ["release-left"]);
}

#[test]
fn helms_own_time_of_the_last_write_counts_before_that_of_the_object() {
    for (label, ago, found) in [
        ("modifiedAt", 60, false),
        ("modifiedAt", 3600, true),
        ("createdAt", 60, false),
    ] {
        let mut release = release("lvm", 1, "uninstalling", "11:00");
        release["metadata"]["labels"][label] = json!((now().as_second() - ago).to_string());
        let objects = cluster([addon(false, "AddonDisabled"), release]);
        assert_eq!(codes(&objects) == ["release-left"], found, "{label} {ago}");
    }
}

#[test]
fn without_the_list_of_releases_it_is_unknown() {
    let mut objects = cluster([addon(false, "AddonDisabled")]);
    let refused = KindListing::Unknown("403".to_owned());
    objects.insert(ObjectKind::HELM_RELEASE.group_kind(), refused);
    let unknown = diagnose(&objects, now()).unknown;
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert!(unknown[0].contains("helm-releases"), "{unknown:?}");
}
