//! The list requests of each kind, and how objects are read.

use serde_json::json;

use super::*;

#[test]
fn a_kind_that_could_not_be_listed_is_not_a_kind_without_objects() {
    let (mut objects, pods) = (Objects::default(), ObjectKind::POD.group_kind());
    objects.insert(pods.clone(), KindListing::Unknown("403".into()));
    let error = objects.all(ObjectKind::POD).unwrap_err();
    assert_eq!(error.to_string(), "Pod could not be listed: 403");
    objects.insert(pods, KindListing::Objects(Vec::new()));
    assert_eq!(objects.all(ObjectKind::POD), Ok(&[][..]));
}

#[test]
fn two_kinds_of_one_plural_are_kept_apart() {
    let mut objects = Objects::default();
    let addon = |version: &str, name: &str| json!({"apiVersion": version, "kind": "Addon", "metadata": {"name": name, "namespace": "kube-system"}});
    objects.add(addon("k3s.cattle.io/v1", "a"));
    objects.add(addon("harvesterhci.io/v1beta1", "b"));
    assert_eq!(objects.all(ObjectKind::ADDON).unwrap().len(), 1);
    let other = objects.get(ObjectKind::MANIFEST_ADDON, "kube-system", "a");
    assert!(other.unwrap().is_some());
}

#[test]
fn pending_pods_are_asked_for_by_themselves_unless_all_are_known() {
    let pod = |name: &str, phase: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "status": {"phase": phase}});
    let part = ObjectKind::PENDING_POD.group_kind();
    let mut objects = Objects::to_be_asked();
    assert_eq!(objects.pending_pods().unwrap_err().kind, part);
    objects.insert(part, KindListing::Objects(vec![pod("a", "Pending")]));
    objects.add(pod("b", "Running"));
    assert_eq!(objects.pending_pods().unwrap().len(), 0, "all are known");
}

#[test]
fn values_of_a_wrong_type_count_as_absent() {
    let object = json!({"metadata": {"name": 7, "labels": {"a": 1, "b": "x"}}, "status": {"conditions": "none"}});
    assert_eq!(text(&object, "/metadata/name"), "");
    assert_eq!(texts(&object, "/metadata/labels").len(), 1);
    assert!(Condition::of(&object, "Ready").is_none());
}

#[test]
fn of_secrets_nothing_but_metadata_of_two_types_is_ever_listed() {
    let mut secrets = ObjectKind::ALL.iter();
    assert!(secrets.all(|kind| kind.plural != "secrets" || kind.kept_metadata().is_some()));
    for kind in ObjectKind::ALL
        .iter()
        .filter(|kind| kind.plural == "secrets")
    {
        assert!(kind.queries().iter().all(|query| query.contains("type%3D")));
    }
    // Harvester's Settings hold a private key, a registry's password and the credentials of backups. ConfigMaps can hold
    // anything.
    for kind in [ObjectKind::SETTING, ObjectKind::CONFIG_MAP] {
        for query in kind.queries() {
            assert!(query.contains("metadata.name%3D"), "{query}");
        }
    }
}

#[test]
fn of_kinds_with_very_many_objects_only_some_are_listed() {
    let many = [
        ObjectKind::EVENT,
        ObjectKind::LEASE,
        ObjectKind::PENDING_POD,
        ObjectKind::BUNDLE_DEPLOYMENT,
    ];
    for kind in many {
        assert!(
            kind.queries()
                .iter()
                .all(|query| query.contains("Selector="))
        );
    }
}

#[test]
fn no_kind_stands_twice_in_the_table() {
    let mut seen = std::collections::BTreeSet::new();
    for kind in ObjectKind::ALL {
        assert!(seen.insert(kind.group_kind()), "{}", kind.group_kind());
        assert!(!kind.queries().is_empty(), "{}", kind.kind);
    }
}

#[test]
fn each_kind_with_namespaces_names_where_its_controller_works_or_why_any_namespace_counts() {
    for kind in ObjectKind::ALL {
        let (paths, all) = (kind.paths(), kind.path());
        match kind.scope {
            KindScope::Cluster => assert_eq!(paths, [all]),
            KindScope::Any { reason } => {
                assert!(!reason.is_empty(), "{}", kind.group_kind());
                assert_eq!(paths, [all]);
            }
            KindScope::Only { namespaces, source } => {
                assert!(
                    source.contains("pkg/") || source.contains(".go:"),
                    "{source}"
                );
                assert_eq!(paths.len(), namespaces.len());
                for (path, namespace) in paths.iter().zip(namespaces) {
                    assert!(
                        path.contains(&format!("/namespaces/{namespace}/")),
                        "{path}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_object_that_its_controller_ignores_is_none_and_a_rule_of_the_site_still_gets_it() {
    let plan = |namespace: &str, name: &str| json!({"apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": {"namespace": namespace, "name": name}});
    let all = [
        plan("tenant-a", "a"),
        plan("cattle-system", "b"),
        plan("tenant-a", "c"),
        plan("system-upgrade", "d"),
    ];
    let kind = ObjectKind::PLAN.group_kind();
    let mut added = Objects::default();
    all.iter().for_each(|plan| added.add(plan.clone()));
    let mut listed = Objects::default();
    listed.insert(kind.clone(), KindListing::Objects(all.to_vec()));
    for objects in [added, listed] {
        let counted = objects.all(ObjectKind::PLAN).unwrap();
        let names: Vec<&str> = counted
            .iter()
            .map(|plan| text(plan, "/metadata/name"))
            .collect();
        assert_eq!(names, ["b", "d"]);
        assert_eq!(objects.get(ObjectKind::PLAN, "tenant-a", "a"), Ok(None));
        assert_eq!(objects.list(&kind).unwrap().len(), 4);
    }
}

#[test]
fn an_object_with_a_name_or_label_that_kube_apiserver_rejects_is_none() {
    let labelled = |name: &str, label: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"a": label}}});
    let node = |name: &str| labelled(name, "[redacted]");
    let mut objects = Objects::default();
    objects.add(node("n1; reboot"));
    objects.add(labelled("n1", "1 -n x; reboot"));
    objects.add(node("n1"));
    objects.add(node("[redacted]-2"));
    let left = [node("n1"), node("[redacted]-2")];
    assert_eq!(objects.all(ObjectKind::NODE).unwrap(), left);
}

#[test]
fn saved_lists_are_as_old_as_the_newest_past_time_in_them() {
    assert_eq!(Objects::default().newest_time(), None);
    let mut objects = Objects::default();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": [
        {"type": "Ready", "lastHeartbeatTime": "2026-05-01T09:00:00Z", "lastTransitionTime": "2026-05-01T10:00:00Z"}]}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b",
        "creationTimestamp": "2026-05-01T10:15:00Z", "deletionTimestamp": "2026-05-01T23:00:00Z"},
        "status": {"containerStatuses": [{"lastState": {"terminated": {"finishedAt": "2026-05-01T10:30:00Z"}}}]}});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a", "namespace": "b"},
        "spec": {"renewTime": "2026-05-01T11:00:00.000000Z"}});
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a", "namespace": "b"},
        "lastTimestamp": "2026-05-01T12:00:00Z"});
    for (object, newest) in [
        (node, "2026-05-01T10:00:00Z"),
        (pod, "2026-05-01T10:30:00Z"),
        (lease, "2026-05-01T11:00:00Z"),
        (event, "2026-05-01T12:00:00Z"),
    ] {
        objects.add(object);
        assert_eq!(objects.newest_time(), newest.parse().ok());
    }
}

#[test]
fn kinds_of_users_become_unknown_and_those_of_the_platform_stay() {
    let mut objects = Objects::default();
    for kind in [ObjectKind::NODE, ObjectKind::UPGRADE, ObjectKind::POD] {
        objects.insert(kind.group_kind(), KindListing::Objects(Vec::new()));
    }
    objects.forget_users_kinds("a part");
    assert!(objects.all(ObjectKind::NODE).is_ok() && objects.all(ObjectKind::UPGRADE).is_ok());
    assert_eq!(objects.all(ObjectKind::POD).unwrap_err().why, "a part");
}

#[test]
fn a_kind_whose_group_is_not_served_has_no_objects_and_is_not_missing() {
    let service = |name: &str| json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}});
    let node = |labels: Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}});
    let filled = |objects: &[Value]| {
        let mut all = Objects::default();
        objects.iter().for_each(|object| all.add(object.clone()));
        all.fill_absent_kinds();
        [
            ObjectKind::UPGRADE,
            ObjectKind::FEATURE,
            ObjectKind::LONGHORN_VOLUME,
            ObjectKind::POD,
        ]
        .map(|kind| all.all(kind).is_ok())
    };
    let managed = node(json!({"harvesterhci.io/managed": "true"}));
    let served = [service("v1.apps"), service("v1beta2.longhorn.io")];
    // The APIServices decide, also against a label.
    let all = [served.to_vec(), vec![managed.clone()]].concat();
    assert_eq!(filled(&all), [true, true, false, false]);
    // A list of some of them does not.
    let some = [service("v1beta2.longhorn.io"), managed];
    assert_eq!(filled(&some), [false; 4]);
    assert_eq!(filled(&some[1..]), [false; 4]);
    let rancher = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "rancher", "namespace": "cattle-system"}});
    let plain = [node(json!({})), rancher];
    assert_eq!(filled(&plain[..1]), [true, true, false, false]);
    assert_eq!(filled(&plain), [true, false, false, true]);
    assert_eq!(filled(&[]), [false; 4]);
}
