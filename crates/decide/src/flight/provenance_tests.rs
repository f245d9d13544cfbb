//! Metadata as the projects publish it, with values made for these tests.

use serde_json::{Value, json};

use super::*;

const CREATED: &str = "2026-01-02T03:04:05Z";

fn read(metadata: Value) -> ObjectMetadata {
    serde_json::from_str(&metadata.to_string()).unwrap()
}

fn who(mut metadata: Value) -> Provenance {
    metadata["creationTimestamp"] = CREATED.into();
    provenance(&read(metadata))
}

fn written(by: &[(&str, &str, &str)]) -> Value {
    let entry = |(manager, subresource, time): &(&str, &str, &str)| {
        json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time, "subresource": subresource,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}})
    };
    by.iter().map(entry).collect()
}

fn manager(name: &str) -> Provenance {
    Provenance::Manager {
        name: name.to_owned(),
    }
}

fn helm(release: &str, namespace: &str, chart: Option<&str>, version: Option<&str>) -> Provenance {
    Provenance::Helm {
        release: release.to_owned(),
        namespace: namespace.to_owned(),
        chart: chart.map(str::to_owned),
        version: version.map(str::to_owned),
    }
}

fn owner(group: &str, kind: &str, name: &str) -> Provenance {
    Provenance::Owner {
        kind: GroupKind::new(group, kind),
        name: name.to_owned(),
    }
}

#[test]
fn an_objects_own_metadata_tells_who_brought_it() {
    let released = |extra: Value| {
        let mut annotations =
            json!({"meta.helm.sh/release-name": "store", "meta.helm.sh/release-namespace": "shop"});
        for (key, value) in extra.as_object().unwrap() {
            annotations[key] = value.clone();
        }
        annotations
    };
    let set = |gvk: &str, name: &str| {
        json!({"objectset.rio.cattle.io/applied": "H4sI", "objectset.rio.cattle.io/id": "",
            "objectset.rio.cattle.io/owner-gvk": gvk, "objectset.rio.cattle.io/owner-name": name,
            "objectset.rio.cattle.io/owner-namespace": "kube-system"})
    };
    let fleet = json!({"objectset.rio.cattle.io/id": "default-mcc-store"});
    let by_helm = json!({"app.kubernetes.io/managed-by": "Helm"});
    let cases = [
        (
            "Helm, with the chart's label",
            json!({"annotations": released(json!({})), "labels": {"helm.sh/chart": "store-crd-1.2.3_up4", "app.kubernetes.io/managed-by": "Helm"},
                "managedFields": written(&[("helm", "", CREATED)])}),
            helm("store", "shop", Some("store-crd"), Some("1.2.3+up4")),
        ),
        (
            "Helm, without it",
            json!({"annotations": released(json!({})), "labels": by_helm}),
            helm("store", "shop", None, None),
        ),
        (
            "Helm, with an older chart's label",
            json!({"annotations": released(json!({})), "labels": {"chart": "store-100.1.0_up19.0.3", "heritage": "Helm"}}),
            helm("store", "shop", Some("store"), Some("100.1.0+up19.0.3")),
        ),
        (
            "a label of that name that is not Helm's",
            json!({"annotations": released(json!({})), "labels": {"chart": "store-1.0.0"}}),
            helm("store", "shop", None, None),
        ),
        (
            "a published chart that Fleet installed",
            json!({"annotations": released(fleet.clone()), "labels": {"helm.sh/chart": "store-0.0.0-master-abc"}}),
            helm("store", "shop", Some("store"), Some("0.0.0-master-abc")),
        ),
        (
            "manifests of which Fleet made a chart",
            json!({"annotations": released(fleet.clone()), "labels": by_helm}),
            Provenance::Fleet {
                bundle: "mcc-store".to_owned(),
            },
        ),
        (
            "an Addon of RKE2",
            json!({"annotations": set("k3s.cattle.io/v1, Kind=Addon", "widgets"), "managedFields": written(&[("deploy@node-1", "", CREATED)])}),
            Provenance::Addon {
                name: "widgets".to_owned(),
            },
        ),
        (
            "another owner of wrangler's",
            json!({"annotations": set("management.cattle.io/v3, Kind=ManagedChart", "store")}),
            owner("management.cattle.io", "ManagedChart", "store"),
        ),
        (
            "an owner of the core group",
            json!({"annotations": set("/v1, Kind=Namespace", "shop")}),
            owner("", "Namespace", "shop"),
        ),
        (
            "owner references, the controller not first",
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "1"},
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "operator", "uid": "2", "controller": true}]}),
            owner("apps", "Deployment", "operator"),
        ),
        (
            "a definition below a chart's crds/",
            json!({"managedFields": written(&[("helm", "", CREATED), ("kube-apiserver", "status", CREATED)])}),
            Provenance::HelmUnnamed,
        ),
        (
            "the same by Fleet",
            json!({"managedFields": written(&[("fleetagent", "", CREATED)])}),
            Provenance::HelmUnnamed,
        ),
        (
            "only the label, from a server that keeps no managers",
            json!({"labels": by_helm}),
            Provenance::HelmUnnamed,
        ),
        (
            "the output of helm template, applied by a user",
            json!({"labels": by_helm, "managedFields": written(&[("kubectl-client-side-apply", "", CREATED)])}),
            manager("kubectl-client-side-apply"),
        ),
        (
            "an operator, and kube-apiserver that writes the status",
            json!({"managedFields": written(&[("virt-operator", "", CREATED), ("kube-apiserver", "status", CREATED)])}),
            manager("virt-operator"),
        ),
        (
            "an operator, and another program that writes the status at once",
            json!({"managedFields": written(&[("status-writer", "status", CREATED), ("operator", "", CREATED)])}),
            manager("operator"),
        ),
        (
            "the creator, who wrote again later",
            json!({"managedFields": written(&[("injector", "", "2026-01-02T03:09:00Z"), ("operator", "", CREATED)])}),
            manager("operator"),
        ),
        (
            "several, none of which was there at the beginning",
            json!({"managedFields": written(&[("a", "", "2026-01-02T03:09:00Z"), ("b", "", "2026-01-02T03:08:00Z")])}),
            Provenance::NotKnown,
        ),
        (
            "two in the same second",
            json!({"managedFields": written(&[("a", "", CREATED), ("b", "", CREATED)])}),
            Provenance::NotKnown,
        ),
        (
            "what kube-apiserver itself makes",
            json!({"managedFields": written(&[("kube-apiserver", "", CREATED)])}),
            manager("kube-apiserver"),
        ),
        (
            "a part of it by the controller manager",
            json!({"managedFields": written(&[("kube-controller-manager", "", CREATED), ("store", "", CREATED)])}),
            manager("store"),
        ),
        (
            "a controller of RKE2, without the node's name",
            json!({"managedFields": written(&[("helm-controller@node-1", "", CREATED)])}),
            manager("helm-controller"),
        ),
        ("nothing", json!({}), Provenance::NotKnown),
        (
            "nothing but null",
            json!({"labels": null, "annotations": null}),
            Provenance::NotKnown,
        ),
    ];
    for (what, metadata, expected) in cases {
        assert_eq!(who(metadata), expected, "{what}");
    }
}

#[test]
fn a_charts_label_is_taken_apart_as_helm_puts_it_together() {
    let long = format!("{}-1.2.3-rc", "a".repeat(54));
    assert_eq!(long.len(), 63);
    let cut = "a".repeat(54);
    let cases = [
        ("store-1.2.3", "store", Some("1.2.3")),
        ("cert-manager-v1.14.4", "cert-manager", Some("v1.14.4")),
        ("k8s-2048-1.0.0", "k8s-2048", Some("1.0.0")),
        (
            "rke2-canal-v3.27.0-build2024",
            "rke2-canal",
            Some("v3.27.0-build2024"),
        ),
        (
            "store-104.1.0_up57.0.3-rc.1",
            "store",
            Some("104.1.0+up57.0.3-rc.1"),
        ),
        ("store", "store", None),
        ("store-", "store", None),
        (&long, &cut, None),
    ];
    for (label, name, version) in cases {
        let expected = Some((name.to_owned(), version.map(str::to_owned)));
        assert_eq!(split_chart(label), expected, "{label}");
    }
    assert_eq!(split_chart("-1.2.3"), None);
}

#[test]
fn what_cannot_be_a_name_is_not_taken_for_one() {
    let named = |name: &str| who(json!({"annotations": {"meta.helm.sh/release-name": name}}));
    for name in ["a\nb", "\u{1b}[31mred", "", &"x".repeat(300), "größe"] {
        assert_eq!(named(name), Provenance::NotKnown, "{name:?}");
    }
    for name in ["", "a\u{7}"] {
        assert!(!read(json!({"name": name})).is_plausible(), "{name:?}");
    }
    assert!(read(json!({"name": "widgets.example.com"})).is_plausible());
}

#[test]
fn what_tells_nothing_is_dropped_while_it_is_read() {
    let large = "x".repeat(1 << 18);
    let metadata = read(json!({"name": "a", "annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": large, "objectset.rio.cattle.io/applied": large},
        "labels": {"customer": "hunter2", "helm.sh/chart": "a-1.0.0"},
        "managedFields": written(&[("m", "", CREATED)])}));
    assert_eq!(metadata.annotations, BTreeMap::new());
    assert_eq!(metadata.labels.len(), 1);
    assert!(!format!("{metadata:?}").contains("hunter2"));
}
