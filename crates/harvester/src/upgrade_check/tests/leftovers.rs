//! What an earlier upgrade has left, and what a node's own disk shows.

use super::*;
use crate::system_image::{ImageFile, SystemImages};

/// As Rancher writes the options of the drain that Harvester asks for.
const OPTIONS: &str = r#"{"deleteEmptyDirData":true,"disableEviction":false,"enabled":true,"force":true,"gracePeriod":0,"ignoreDaemonSets":true,"postDrainHooks":[{"annotation":"harvesterhci.io/post-hook"}],"preDrainHooks":[{"annotation":"harvesterhci.io/pre-hook"}],"skipWaitForDeleteTimeoutSeconds":0,"timeout":0}"#;

fn plan(build: &mut Build, annotations: Value) {
    let labels = json!({"rke.cattle.io/machine-name": "custom-1"});
    build.objects.add(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "custom-1-machine-plan",
        "namespace": "fleet-local", "labels": labels, "annotations": annotations}}),
    );
}

fn interval(build: &mut Build, value: &str) {
    let name = "longhorn-system/replica-replenishment-wait-interval";
    let value = json!({"value": value});
    build.add("longhorn.io/v1beta2", "Setting", name, value);
}

/// An upgrade that has kept the value from before it.
fn before(build: &mut Build) {
    build.add(
        "harvesterhci.io/v1beta1",
        "Upgrade",
        "harvester-system/hvst-upgrade-x",
        json!({"labels": {"harvesterhci.io/upgradeState": "Failed"},
            "annotations": {"harvesterhci.io/replica-replenishment-wait-interval": "300"}}),
    );
}

fn images(build: &mut Build, free: u64) {
    build.own().images = Some(SystemImages {
        capacity: 15 * GIB,
        free,
        passive: Some(ImageFile {
            length: 3072 << 20,
            allocated: 3100 << 20,
        }),
        booted: None,
        booted_at: None,
    });
}

#[test]
#[rustfmt::skip]
fn what_an_earlier_upgrade_left_is_found_and_what_belongs_there_is_not() {
    all_are(&[
        ("v1.8.2", |b| interval(b, "1800"), "nothing-left-over", Warns, "1800, as an upgrade sets it while it runs"),
        ("v1.8.2", |b| { interval(b, "1800"); before(b) }, "nothing-left-over", Warns, "before one it was 300"),
        ("v1.8.2", |b| interval(b, "600"), "nothing-left-over", Fine, ""),
        ("v1.8.2", |b| interval(b, "3600"), "nothing-left-over", Fine, ""),
        ("v1.8.2", |b| plan(b, json!({"rke.cattle.io/pre-drain": OPTIONS})), "nothing-left-over", Warns, "rke.cattle.io/pre-drain"),
        ("v1.8.2", |b| plan(b, json!({})), "nothing-left-over", Fine, ""),
        ("v1.8.2", |b| b.own().harvesters_markers = vec!["rke2-multus.yaml.skip".into()], "nothing-left-over", Warns, "rke2-multus.yaml.skip"),
        ("v1.8.2", |b| plan(b, json!({"harvesterhci.io/pre-hook": OPTIONS})), "drain-hooks-open", Stops, "custom-1-machine-plan: metadata.annotations[harvesterhci.io/pre-hook]"),
        ("v1.8.2", |b| plan(b, json!({"rke.cattle.io/drain-done": OPTIONS})), "drain-hooks-open", Stops, "rke.cattle.io/drain-done"),
        ("v1.8.2", |b| plan(b, json!({"harvesterhci.io/pre-hook": "{\"enabled\":true,\"force\":true}"})), "drain-hooks-open", Fine, ""),
        ("v1.8.2", |b| plan(b, json!({"rke.cattle.io/pre-drain": OPTIONS})), "drain-hooks-open", Fine, ""),
        ("v1.8.2", |b| { plan(b, json!({"harvesterhci.io/pre-hook": OPTIONS})); b.upgrade(json!({"harvesterhci.io/upgradeState": "UpgradingNodes"})) }, "drain-hooks-open", NotAsked, "under way"),
        ("v1.8.2", |b| { plan(b, json!({"harvesterhci.io/pre-hook": OPTIONS})); b.keep_one_node() }, "drain-hooks-open", NotAsked, "single node"),
        ("v1.8.2", |b| images(b, 2 * GIB), "room-for-system", Warns, "2048 MiB of 15360 MiB"),
        ("v1.8.2", |b| images(b, 2 * GIB), "room-for-system", Warns, "3100 MiB of 3072 MiB"),
        ("v1.8.2", |b| images(b, 3 * GIB), "room-for-system", Fine, ""),
        ("v1.8.2", |b| { b.own(); }, "room-for-system", NotAsked, "only where this runs on it"),
    ]);
}
