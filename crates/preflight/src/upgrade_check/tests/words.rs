//! The words with which Harvester v1.8.2 refuses each problem; its own functions were called with the same objects.

use super::*;

/// A change, the row that it breaks, and Harvester's words.
type Words = (fn(&mut Build), &'static str, &'static str);

#[test]
fn a_row_has_harvesters_words_about_its_first_problem() {
    let cases: &[Words] = &[
        (
            |b| b.machine("n4", "Running", "n4"),
            "machines-match",
            "do not match",
        ),
        (|b| forget_node(b), "machines-match", "has empty NodeRef"),
        (
            |b| b.machine("n2", "Running", ""),
            "machines-match",
            "refers to another node",
        ),
        (
            |b| b.node("n2", json!({}), json!({"/labels": {}})),
            "machines-match",
            "has no expected label",
        ),
        (
            |b| annotate(b, json!({"rke2.io/internal-ip": "10.0.0.2"})),
            "machines-match",
            "has no expected annotation",
        ),
        (
            |b| {
                annotate(
                    b,
                    json!({"cluster.x-k8s.io/machine": "m-gone", "rke2.io/internal-ip": "10.0.0.2"}),
                )
            },
            "machines-match",
            "but the machine does not exist",
        ),
        (
            |b| annotate(b, json!({"cluster.x-k8s.io/machine": "m-n2"})),
            "space-for-images",
            "rke2.io/internal-ip annotation",
        ),
        (
            |b| b.space("n3", 100, 90),
            "space-for-images",
            "after loading new images",
        ),
        (
            |b| b.setting(json!({"value": "{\"restoreVM\": 1}"})),
            "upgrade-config-read",
            "unmarshal failed",
        ),
        (
            |b| without_settings(b),
            "upgrade-config-read",
            "\"upgrade-config\" not found",
        ),
        (
            |b| {
                b.objects.insert(
                    ObjectKind::CAPI_CLUSTER.group_kind(),
                    KindListing::Objects(Vec::new()),
                )
            },
            "cluster-provisioned",
            "can't find fleet-local/local",
        ),
    ];
    for (change, name, words) in cases {
        let mut build = Build::new("v1.8.2");
        change(&mut build);
        let row = build.row(name);
        assert_eq!(row.outcome, Fail, "{row:?}");
        let says = row.says.as_deref().unwrap_or_default();
        assert!(says.contains(words), "{name}: {says:?}, not {words:?}");
    }
}

fn annotate(build: &mut Build, annotations: Value) {
    build.node("n2", json!({}), json!({"/annotations": annotations}));
}

fn forget_node(build: &mut Build) {
    let status = json!({"status": {"phase": "Running"}});
    build.add(
        "cluster.x-k8s.io/v1beta1",
        "Machine",
        "fleet-local/m-n2",
        status,
    );
}
