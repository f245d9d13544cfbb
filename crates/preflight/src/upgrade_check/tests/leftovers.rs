//! Leftovers of an earlier upgrade, and the files on a node's own disk.

use windrow_harvester::system_image::{ImageFile, SystemImages};

use super::*;

/// Rancher's notation of the options of the drain that Harvester requests.
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
        ("v1.8.2", |b| interval(b, "1800"), "nothing-left-over", Warn, "1800, as an upgrade sets it while it runs"),
        ("v1.8.2", |b| { interval(b, "1800"); before(b) }, "nothing-left-over", Warn, "before one it was 300"),
        ("v1.8.2", |b| interval(b, "600"), "nothing-left-over", Pass, ""),
        ("v1.8.2", |b| interval(b, "3600"), "nothing-left-over", Pass, ""),
        ("v1.8.2", |b| plan(b, json!({"rke.cattle.io/pre-drain": OPTIONS})), "nothing-left-over", Warn, "rke.cattle.io/pre-drain"),
        ("v1.8.2", |b| plan(b, json!({})), "nothing-left-over", Pass, ""),
        ("v1.8.2", |b| b.own().harvesters_markers = vec!["rke2-multus.yaml.skip".into()], "nothing-left-over", Warn, "rke2-multus.yaml.skip"),
        ("v1.8.2", |b| plan(b, json!({"harvesterhci.io/pre-hook": OPTIONS})), "drain-hooks-open", Fail, "custom-1-machine-plan: metadata.annotations[harvesterhci.io/pre-hook]"),
        ("v1.8.2", |b| plan(b, json!({"rke.cattle.io/drain-done": OPTIONS})), "drain-hooks-open", Fail, "rke.cattle.io/drain-done"),
        ("v1.8.2", |b| plan(b, json!({"harvesterhci.io/pre-hook": "{\"enabled\":true,\"force\":true}"})), "drain-hooks-open", Pass, ""),
        ("v1.8.2", |b| plan(b, json!({"rke.cattle.io/pre-drain": OPTIONS})), "drain-hooks-open", Pass, ""),
        ("v1.8.2", |b| { plan(b, json!({"harvesterhci.io/pre-hook": OPTIONS})); b.upgrade(json!({"harvesterhci.io/upgradeState": "UpgradingNodes"})) }, "drain-hooks-open", NotChecked, "under way"),
        ("v1.8.2", |b| { plan(b, json!({"harvesterhci.io/pre-hook": OPTIONS})); b.keep_one_node() }, "drain-hooks-open", NotChecked, "single node"),
    ]);
}

fn annotated(build: &mut Build, node: &str, capacity: u64, free: u64) {
    let kind = ObjectKind::NODE.group_kind();
    let mut nodes = build.objects.list(&kind).unwrap().to_vec();
    let partition = json!({"systemPartition": {"capacityMiB": capacity, "freeMiB": free}});
    for found in nodes
        .iter_mut()
        .filter(|found| text(found, "/metadata/name") == node)
    {
        found["metadata"]["annotations"]["windrow.dev/bootstrap"] = partition.to_string().into();
    }
    build.objects.insert(kind, KindListing::Objects(nodes));
}

fn upgrade_to(build: &mut Build, release: &str) {
    build.to = Some(release.parse().unwrap());
}

/// A cluster with information about all partitions: n1's own, and n2 and n3 as given.
fn known(build: &mut Build, to: &str, free: u64, (capacity, others_free): (u64, u64)) {
    upgrade_to(build, to);
    images(build, free);
    annotated(build, "n2", 15_040, 9_024);
    annotated(build, "n3", capacity, others_free);
}

#[test]
#[rustfmt::skip]
fn the_partition_of_the_system_images_is_judged_on_every_node_by_the_release_to_come() {
    const ROOM: &str = "room-for-system";
    const SIZE: &str = "system-partition-size";
    const LARGE: (u64, u64) = (15_040, 9_024);
    all_are(&[
        ("v1.7.1", |b| known(b, "v1.7.3", 2 * GIB, LARGE), ROOM, Warn, "2048 MiB of 15360 MiB"),
        ("v1.7.1", |b| known(b, "v1.7.3", 2 * GIB, LARGE), ROOM, Warn, "3100 MiB of 3072 MiB"),
        ("v1.7.1", |b| known(b, "v1.7.3", 3 * GIB, LARGE), ROOM, Pass, ""),
        ("v1.7.1", |b| known(b, "v1.8.0", 3 * GIB, LARGE), ROOM, Warn, "3072 MiB of 15360 MiB"),
        ("v1.7.1", |b| known(b, "v1.8.2", 4608 << 20, LARGE), ROOM, Pass, ""),
        ("v1.7.1", |b| known(b, "v1.9.0", 4 * GIB, LARGE), ROOM, Warn, ""),
        // Nodes that were first installed with v1.4.1 or earlier and have a separate disk for data.
        ("v1.7.1", |b| known(b, "v1.8.2", 9 * GIB, (7_936, 3_840)), SIZE, Fail, "Node n3: size of COS_STATE: 7936 MiB"),
        ("v1.7.1", |b| known(b, "v1.8.2", 9 * GIB, (7_936, 3_840)), ROOM, Warn, "3840 MiB of 7936 MiB"),
        ("v1.7.1", |b| known(b, "v1.9.0", 9 * GIB, (7_936, 3_840)), SIZE, Fail, "Node n3"),
        ("v1.7.1", |b| known(b, "v1.7.3", 9 * GIB, (7_936, 3_840)), SIZE, NotChecked, "--harvester"),
        ("v1.7.1", |b| known(b, "v1.8.2", 9 * GIB, (14_976, 9_024)), SIZE, Pass, ""),
        // The message names a node without information.
        ("v1.7.1", |b| { images(b, 9 * GIB); upgrade_to(b, "v1.8.2"); annotated(b, "n2", 15_040, 9_024) }, SIZE, Unknown, "Node n3 was not looked at"),
        ("v1.7.1", |b| { images(b, 9 * GIB); upgrade_to(b, "v1.8.2"); annotated(b, "n2", 7_936, 3_840) }, SIZE, Fail, "Node n3 was not looked at"),
        ("v1.7.1", |b| upgrade_to(b, "v1.8.2"), ROOM, Unknown, "Node n1 was not looked at"),
        ("v1.7.1", |b| upgrade_to(b, "v1.7.3"), ROOM, NotChecked, "only if Windrow runs on it"),
        ("v1.7.1", |_| {}, SIZE, NotChecked, "--harvester"),
    ]);
}
