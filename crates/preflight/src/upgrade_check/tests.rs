use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_harvester::incidents::OwnNode;
use windrow_harvester::objects::{KindListing, text};

use super::*;

mod config;
mod drains;
mod leftovers;
mod space;
mod words;

const GIB: u64 = 1 << 30;

fn now() -> Timestamp {
    "2026-11-23T12:00:00Z".parse().unwrap()
}

/// A healthy cluster of three nodes, of which tests change parts.
struct Build {
    objects: Objects,
    readings: NodeReadings,
    to: Option<HarvesterVersion>,
}

impl Build {
    fn new(release: &str) -> Self {
        let mut objects = Objects::default();
        for kind in ObjectKind::ALL {
            objects.insert(kind.group_kind(), KindListing::Objects(Vec::new()));
        }
        let mut build = Self {
            objects,
            readings: NodeReadings {
                gates: Some(Ok(Vec::new())),
                ..NodeReadings::default()
            },
            to: None,
        };
        let until = "2027-06-01T00:00:00Z".parse().unwrap();
        build
            .readings
            .certificates
            .insert("10.0.0.1:6443".to_owned(), Ok(until));
        for node in ["n1", "n2", "n3"] {
            build.node(node, json!({}), json!({}));
            build.machine(node, "Running", node);
            build.space(node, 200, 50);
        }
        build.add(
            "harvesterhci.io/v1beta1",
            "Setting",
            "server-version",
            json!({"value": release}),
        );
        build.setting(json!({"value": ""}));
        build.add(
            "cluster.x-k8s.io/v1beta1",
            "Cluster",
            "fleet-local/local",
            json!({"status": {"phase": "Provisioned"}}),
        );
        build
    }

    /// Adds an object, in place of one of the same name.
    fn add(&mut self, version: &str, kind: &str, name: &str, rest: Value) {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
        for (key, value) in rest.as_object().unwrap() {
            match key.as_str() {
                "labels" | "annotations" | "creationTimestamp" | "uid" | "ownerReferences" => {
                    object["metadata"][key] = value.clone()
                }
                _ => object[key] = value.clone(),
            }
        }
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let kind = windrow_model::manifest::GroupKind::new(group, kind);
        let mut all = self.objects.list(&kind).unwrap().to_vec();
        all.retain(|one| text(one, "/metadata/name") != name);
        all.push(object);
        self.objects.insert(kind, KindListing::Objects(all));
    }

    fn setting(&mut self, content: Value) {
        self.add(
            "harvesterhci.io/v1beta1",
            "Setting",
            "upgrade-config",
            content,
        );
    }

    fn node(&mut self, name: &str, spec: Value, more: Value) {
        let mut node = json!({
            "labels": {"harvesterhci.io/managed": "true", "node-role.kubernetes.io/etcd": "true", "kubernetes.io/hostname": name},
            "annotations": {"cluster.x-k8s.io/machine": format!("m-{name}"), "rke2.io/internal-ip": "10.0.0.1"},
            "spec": spec,
            "status": {"allocatable": {"pods": "110"}, "nodeInfo": {"kubeletVersion": "v1.35.6+rke2r1"}, "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "EtcdIsVoter", "status": "True"}]}
        });
        for (pointer, value) in more.as_object().unwrap() {
            *node.pointer_mut(pointer).unwrap() = value.clone();
        }
        self.add("v1", "Node", name, node);
    }

    fn machine(&mut self, name: &str, phase: &str, node: &str) {
        let status = json!({"status": {"phase": phase, "nodeRef": {"name": node}}});
        self.add(
            "cluster.x-k8s.io/v1beta1",
            "Machine",
            &format!("fleet-local/m-{name}"),
            status,
        );
    }

    fn space(&mut self, node: &str, capacity: u64, used: u64) {
        let space = NodeSpace {
            capacity: capacity * GIB,
            used: used * GIB,
            available: (capacity - used) * GIB,
        };
        self.readings.space.insert(node.to_owned(), Ok(space));
    }

    fn volume(&mut self, replicas: u32, state: &str, robustness: &str) {
        self.add("longhorn.io/v1beta2", "Volume", "longhorn-system/pvc-1",
            json!({"spec": {"numberOfReplicas": replicas}, "status": {"state": state, "robustness": robustness}}));
    }

    fn instance(&mut self, spec: Value) {
        self.add(
            "kubevirt.io/v1",
            "VirtualMachineInstance",
            "default/vm",
            json!({"spec": spec,
            "status": {"phase": "Running", "nodeName": "n1"}}),
        );
    }

    fn upgrade(&mut self, labels: Value) {
        self.add(
            "harvesterhci.io/v1beta1",
            "Upgrade",
            "harvester-system/hvst-upgrade-x",
            json!({"labels": labels}),
        );
    }

    fn own(&mut self) -> &mut OwnNode {
        self.readings.own.get_or_insert_with(|| OwnNode {
            name: "n1".to_owned(),
            ..OwnNode::default()
        })
    }

    fn keep_one_node(&mut self) {
        let kind = ObjectKind::NODE.group_kind();
        let first = self.objects.list(&kind).unwrap()[..1].to_vec();
        self.objects.insert(kind, KindListing::Objects(first));
    }

    fn check(&self) -> UpgradeCheck {
        check(&self.objects, &self.readings, self.to, now())
    }

    fn row(&self, name: &str) -> CheckRow<Evidence> {
        let found = self.check().list.checks.into_iter();
        found.into_iter().find(|row| row.check == name).unwrap()
    }

    #[track_caller]
    fn is(&self, name: &str, outcome: CheckOutcome, words: &str) {
        let row = self.row(name);
        assert_eq!(row.outcome, outcome, "{row:?}");
        let said: Vec<String> = row.problems.iter().map(Evidence::to_string).collect();
        let said = format!("{said:?} {row:?}");
        assert!(said.contains(words), "{said}");
    }
}

use CheckOutcome::{Fail, NotChecked, Pass, Unknown, Warn};

#[test]
fn of_a_healthy_cluster_every_row_passes_or_is_not_checked() {
    for release in ["v1.4.0", "v1.5.0", "v1.6.1", "v1.7.3", "v1.8.2"] {
        let build = Build::new(release);
        let checked = build.check();
        let rest = checked.list.checks.iter();
        let rest: Vec<_> = rest
            .filter(|row| !matches!(row.outcome, Pass | NotChecked))
            .collect();
        assert!(rest.is_empty(), "{release}: {rest:#?}");
        assert_eq!(checked.list.verdict, Pass);
        assert_eq!(checked.from.as_deref(), Some(release));
    }
}

#[test]
fn no_row_stands_twice() {
    let mut names: Vec<&str> = CHECKS.iter().map(|row| row.name).collect();
    names.sort_unstable();
    let rows = names.len();
    names.dedup();
    assert_eq!(names.len(), rows);
}

/// Changes a cluster of a release, and the result of a row.
type Case = (
    &'static str,
    fn(&mut Build),
    &'static str,
    CheckOutcome,
    &'static str,
);

#[test]
#[rustfmt::skip]
fn each_row_tells_what_is_wrong_with_the_object_the_field_and_the_value() {
    let cases: &[Case] = &[
        ("v1.8.2", |b| b.upgrade(json!({"harvesterhci.io/upgradeState": "UpgradingNodes"})), "no-upgrade-under-way", Fail, "UpgradingNodes"),
        ("v1.8.2", |b| b.upgrade(json!({})), "no-upgrade-under-way", Fail, "absent"),
        ("v1.8.2", |b| b.upgrade(json!({"harvesterhci.io/upgradeState": "Failed"})), "no-upgrade-under-way", Pass, ""),
        ("v1.8.2", |b| b.upgrade(json!({"harvesterhci.io/upgradeState": "Succeeded", "harvesterhci.io/upgradeCleanup": "Pending"})), "cleaned-up", Fail, "Pending"),
        ("v1.6.1", |b| b.upgrade(json!({"harvesterhci.io/upgradeState": "Succeeded", "harvesterhci.io/upgradeCleanup": "Pending"})), "cleaned-up", NotChecked, ""),
        ("v1.8.2", |b| b.volume(3, "attached", "degraded"), "volumes-whole", Fail, "pvc-1"),
        ("v1.8.2", |b| b.volume(3, "attached", "unknown"), "volumes-whole", Pass, ""),
        ("v1.8.2", |b| b.add("cluster.x-k8s.io/v1beta1", "Cluster", "fleet-local/local", json!({"status": {"phase": "Provisioning"}})), "cluster-provisioned", Fail, "Provisioning"),
        ("v1.8.2", |b| b.add("harvesterhci.io/v1beta1", "VirtualMachineBackup", "default/b", json!({"status": {"readyToUse": false}})), "no-backup-under-way", Fail, "default/b"),
        ("v1.8.2", |b| b.add("harvesterhci.io/v1beta1", "VirtualMachineBackup", "default/b", json!({"status": {"readyToUse": false, "error": {"message": "x"}}})), "no-backup-under-way", Pass, ""),
        ("v1.8.2", |b| b.add("harvesterhci.io/v1beta1", "ScheduleVMBackup", "default/s", json!({"status": {}})), "schedules-suspended", Fail, "default/s"),
        ("v1.8.2", |b| b.add("harvesterhci.io/v1beta1", "ScheduleVMBackup", "default/s", json!({"status": {"suspended": true}})), "schedules-suspended", Pass, ""),
        ("v1.8.2", |b| chart(b, "fleet-local/harvester", "False"), "charts-ready", Fail, "Modified(1)"),
        ("v1.8.2", |b| chart(b, "fleet-local/harvester", "True"), "charts-ready", Pass, ""),
        ("v1.8.2", |b| chart(b, "fleet-default/other", "False"), "charts-ready", Pass, ""),
        ("v1.8.2", |b| addon(b, true, "AddonEnabling"), "addons-settled", Fail, "AddonEnabling, and it is enabled"),
        ("v1.8.2", |b| addon(b, true, "AddonDeploySuccessful"), "addons-settled", Pass, ""),
        ("v1.8.2", |b| addon(b, false, ""), "addons-settled", Pass, ""),
        ("v1.8.2", |b| addon(b, false, "AddonDisabling"), "addons-settled", Fail, "and it is disabled"),
        ("v1.6.1", |b| addon(b, true, "AddonEnabling"), "addons-settled", NotChecked, ""),
        ("v1.8.2", |b| b.node("n2", json!({"unschedulable": true}), json!({})), "nodes-ready", Fail, "spec.unschedulable"),
        ("v1.8.2", |b| b.node("n2", json!({}), json!({"/status/conditions/0/status": "Unknown"})), "nodes-ready", Fail, "Unknown"),
        ("v1.8.2", |b| b.space("n3", 100, 73), "space-for-images", Fail, "86 %"),
        ("v1.8.2", |b| b.space("n3", 100, 71), "space-for-images", Pass, ""),
        ("v1.8.2", |b| b.readings.space.clear(), "space-for-images", Unknown, "was not asked"),
        ("v1.8.2", |b| b.node("n1", json!({}), json!({"/annotations": {}})), "space-for-images", Fail, "rke2.io/internal-ip"),
        ("v1.4.3", |b| b.space("n3", 100, 71), "space-on-system", Fail, "29 GiB"),
        ("v1.5.0", |b| b.space("n3", 100, 71), "space-on-system", NotChecked, ""),
        ("v1.8.2", |b| b.machine("n2", "Provisioning", "n2"), "machines-running", Fail, "m-n2"),
        ("v1.8.2", |b| b.machine("n2", "Running", ""), "machines-match", Fail, "m-n2, whose node is absent"),
        ("v1.8.2", |b| b.machine("n4", "Running", "n4"), "machines-match", Fail, "3 nodes and 4 Machines"),
        ("v1.8.2", |b| b.machine("n2", "Running", "n1"), "machines-match", Fail, "whose node is n1"),
        ("v1.5.0", |b| b.machine("n4", "Running", "n4"), "machines-match", NotChecked, ""),
        ("v1.8.2", |b| b.volume(1, "detached", "unknown"), "no-single-replica", Fail, "1 (status.state detached)"),
        ("v1.4.3", |b| b.volume(1, "detached", "unknown"), "no-single-replica", Pass, ""),
        ("v1.4.3", |b| b.volume(1, "attached", "healthy"), "no-single-replica", Fail, "attached"),
        ("v1.8.2", |b| b.volume(2, "attached", "healthy"), "no-single-replica", Pass, ""),
        ("v1.8.2", |b| without_settings(b), "upgrade-config-read", Fail, "it does not exist"),
        ("v1.5.2", |b| without_settings(b), "upgrade-config-read", NotChecked, ""),
        ("v1.8.2", |b| b.setting(json!({"value": "restoreVM: true"})), "upgrade-config-read", Fail, "Setting upgrade-config: value: it is not a JSON object"),
        ("v1.8.2", |b| b.setting(json!({"value": "{\"restoreVM\": true}"})), "upgrade-config-read", Pass, ""),
        ("v1.8.2", |b| b.setting(json!({"value": "", "default": "{}"})), "upgrade-config-read", Pass, ""),
        ("v1.8.2", |b| b.instance(json!({"nodeSelector": {}})), "machines-migrate", Fail, "nodeSelector"),
        ("v1.8.2", |b| b.instance(json!({"domain": {"devices": {"hostDevices": [{}]}}})), "machines-migrate", Fail, "hostDevices"),
        ("v1.8.2", |b| b.instance(affine("n1")), "machines-migrate", Fail, "no other node"),
        ("v1.8.2", |b| b.instance(affine("n2")), "machines-migrate", Pass, ""),
        ("v1.7.3", |b| b.instance(json!({"volumes": [{"name": "a", "containerDisk": {"image": "x"}}]})), "machines-migrate", Fail, "containerDisk"),
        ("v1.8.2", |b| b.instance(json!({"volumes": [{"name": "a", "containerDisk": {"image": "x"}}]})), "machines-migrate", Pass, ""),
        ("v1.4.0", |b| b.instance(json!({"domain": {"devices": {"disks": [{"cdrom": {}}]}}})), "machines-migrate", Pass, ""),
        ("v1.8.2", |b| restored(b, json!({"nodeSelector": {}})), "machines-migrate", Pass, ""),
        ("v1.5.2", |b| restored(b, json!({"nodeSelector": {}})), "machines-migrate", Fail, "nodeSelector"),
        ("v1.8.2", |b| hotplug(b, json!([])), "no-stale-hotplug", Fail, "hot, which its VirtualMachine does not have"),
        ("v1.8.2", |b| hotplug(b, json!([{"name": "hot"}])), "no-stale-hotplug", Pass, ""),
        ("v1.8.1", |b| hotplug(b, json!([])), "no-stale-hotplug", NotChecked, ""),
        ("v1.8.2", |b| requests(b, json!([{"addVolumeOptions": {"name": "hot"}}])), "no-stale-hotplug", Fail, "default/vm: status.volumeRequests: is not empty"),
        ("v1.8.2", |b| requests(b, json!([])), "no-stale-hotplug", Pass, ""),
        ("v1.8.2", |b| ends(b, "2026-11-29T12:00:00Z"), "certificates", Fail, "2026-11-29"),
        ("v1.8.2", |b| ends(b, "2026-12-01T12:00:00Z"), "certificates", Pass, ""),
        ("v1.8.2", |b| b.readings.certificates.clear(), "certificates", Unknown, "was not asked"),
        ("v1.4.3", |b| ends(b, "2026-11-29T12:00:00Z"), "certificates", NotChecked, ""),
        ("v1.8.2", |b| learner(b, "2026-11-23T11:00:00Z"), "etcd-votes", Fail, "MemberIsLearner"),
        ("v1.8.2", |b| learner(b, "2026-11-23T11:59:00Z"), "etcd-votes", Unknown, "MemberIsLearner since"),
        ("v1.8.2", |b| for node in ["n1", "n2", "n3"] { b.node(node, json!({}), json!({"/labels": {}})) }, "etcd-votes", Unknown, "no node is labelled"),
        ("v1.8.2", |b| b.add("longhorn.io/v1beta2", "InstanceManager", "longhorn-system/im-1", json!({"spec": {"nodeID": "n1"}, "status": {"instanceEngines": {"pvc-e-0": {"status": {"state": "running"}}}}})), "no-stale-engine", Warn, "pvc-e-0"),
        ("v1.8.2", |b| b.node("n1", json!({"taints": [{"key": "kubevirt.io/drain", "effect": "NoSchedule"}]}), json!({})), "nothing-left-over", Warn, "kubevirt.io/drain"),
        ("v1.8.2", |b| b.node("n3", json!({}), json!({"/status/nodeInfo/kubeletVersion": "v1.34.9+rke2r1"})), "nothing-left-over", Warn, "v1.34.9"),
        ("v1.8.2", |b| b.upgrade(json!({})), "nothing-left-over", NotChecked, "under way"),
    ];
    all_are(cases);
}

#[track_caller]
fn all_are(cases: &[Case]) {
    for (release, change, row, outcome, words) in cases {
        let mut build = Build::new(release);
        change(&mut build);
        build.is(row, *outcome, words);
    }
}

fn chart(build: &mut Build, name: &str, ready: &str) {
    let ready = json!({"type": "Ready", "status": ready, "message": "Modified(1) [Cluster fleet-local/local]"});
    build.add(
        "management.cattle.io/v3",
        "ManagedChart",
        name,
        json!({"status": {"conditions": [ready]}}),
    );
}

fn addon(build: &mut Build, enabled: bool, status: &str) {
    build.add(
        "harvesterhci.io/v1beta1",
        "Addon",
        "harvester-system/a",
        json!({"spec": {"enabled": enabled}, "status": {"status": status}}),
    );
}

fn affine(node: &str) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}}})
}

/// A VM that cannot migrate, on a cluster that restores its VMs.
fn restored(build: &mut Build, spec: Value) {
    build.setting(json!({"value": "{\"restoreVM\": true}"}));
    build.instance(spec);
}

/// The release is still found.
fn without_settings(build: &mut Build) {
    let kind = ObjectKind::SETTING.group_kind();
    let mut settings = build.objects.list(&kind).unwrap().to_vec();
    settings.retain(|setting| text(setting, "/metadata/name") == "server-version");
    build.objects.insert(kind, KindListing::Objects(settings));
}

fn hotplug(build: &mut Build, kept: Value) {
    build.instance(
        json!({"volumes": [{"name": "hot", "persistentVolumeClaim": {"hotpluggable": true}}]}),
    );
    build.add(
        "kubevirt.io/v1",
        "VirtualMachine",
        "default/vm",
        json!({"spec": {"template": {"spec": {"volumes": kept}}}}),
    );
}

fn requests(build: &mut Build, requests: Value) {
    let status = json!({"status": {"volumeRequests": requests}});
    build.add("kubevirt.io/v1", "VirtualMachine", "default/vm", status);
}

fn ends(build: &mut Build, at: &str) {
    let address = "10.0.0.2:6443".to_owned();
    build
        .readings
        .certificates
        .insert(address, Ok(at.parse().unwrap()));
}

fn learner(build: &mut Build, since: &str) {
    let condition = json!({"type": "EtcdIsVoter", "status": "False", "reason": "MemberIsLearner", "lastTransitionTime": since});
    build.node("n3", json!({}), json!({"/status/conditions/1": condition}));
}

#[test]
fn the_release_to_come_decides_what_depends_on_it_alone() {
    let to = |from: &str, to: &str| {
        let mut build = Build::new(from);
        build.to = Some(to.parse().unwrap());
        build
    };
    Build::new("v1.7.1").is("version-in-reach", NotChecked, "--harvester");
    to("v1.7.1", "v1.8.1").is("version-in-reach", Pass, "");
    to("v1.6.1", "v1.8.1").is("version-in-reach", Fail, "more than one minor");
    to("v1.8.1", "v1.7.1").is("version-in-reach", Fail, "is older");
    to("v1.4.0", "v1.4.2").is("version-in-reach", Fail, "asks for v1.4.1 or newer");
    to("v1.8.1-rc1", "v1.8.1").is("version-in-reach", Pass, "");
    to("v1.8.1-rc1", "v1.8.2").is("version-in-reach", Fail, "a candidate");
    to("v1.8.1", "v1.9.5").is("version-in-reach", Unknown, "was not read");
    to("v1.7.1", "v1.8.1").is("version-exists", Fail, "harvester-system/v1.8.1");
    let mut build = to("v1.7.1", "v1.8.1");
    build.add(
        "harvesterhci.io/v1beta1",
        "Version",
        "harvester-system/v1.8.1",
        json!({}),
    );
    build.is("version-exists", Pass, "");
    build.is("gates", Pass, "");
    build.readings.gates = Some(Ok(vec![Evidence::new(
        "Node n1",
        "arguments",
        "no such gate",
    )]));
    build.is("gates", Fail, "no such gate");
    build.readings.gates = Some(Err("which Kubernetes it has is not known".to_owned()));
    build.is("gates", Unknown, "not known");
}

#[test]
fn what_a_release_asks_that_was_not_read_is_unknown() {
    for release in ["v1.9.0", "master-head"] {
        let mut build = Build::new(release);
        assert_eq!(build.check().list.verdict, Unknown);
        build.volume(3, "attached", "degraded");
        build.is("volumes-whole", Unknown, "v1.8.2 does");
        build.is("no-stale-hotplug", Pass, "");
    }
}

#[test]
fn a_kind_that_could_not_be_listed_makes_its_rows_unknown_and_no_other() {
    let mut build = Build::new("v1.8.2");
    let kind = ObjectKind::ADDON.group_kind();
    build
        .objects
        .insert(kind, KindListing::Unknown("403 Forbidden".to_owned()));
    build.is("addons-settled", Unknown, "403 Forbidden");
    build.is("charts-ready", Pass, "");
    assert_eq!(build.check().list.verdict, Unknown);
}

#[test]
fn without_a_node_nothing_is_said_of_nodes() {
    let mut build = Build::new("v1.8.2");
    let kind = ObjectKind::NODE.group_kind();
    build.objects.insert(kind, KindListing::Objects(Vec::new()));
    build.is("nodes-ready", Unknown, "there is no node");
    build.is("drains-finish", Unknown, "there is no node");
}

#[test]
fn a_failure_decides_before_what_is_unknown_and_one_of_the_preflight_means_a_refusal() {
    let mut build = Build::new("v1.8.2");
    build.readings.space.clear();
    assert_eq!(build.check().list.verdict, Unknown);
    learner(&mut build, "2026-11-23T11:00:00Z");
    assert_eq!(build.check().list.verdict, Fail);
    assert!(!build.check().is_refused());
    build.volume(1, "attached", "healthy");
    assert_eq!(build.check().list.verdict, Fail);
    assert!(build.check().is_refused());
}

#[test]
fn of_many_objects_the_first_are_shown_and_the_others_counted() {
    let mut build = Build::new("v1.8.2");
    for number in 0..25 {
        let name = format!("default/s{number}");
        build.add(
            "harvesterhci.io/v1beta1",
            "ScheduleVMBackup",
            &name,
            json!({"status": {}}),
        );
    }
    let row = build.row("schedules-suspended");
    assert_eq!((row.problems.len(), row.more), (20, 5));
}

#[test]
fn a_drain_that_never_ends_stops_the_upgrade_but_of_a_single_node() {
    let mut build = Build::new("v1.8.2");
    build.add("v1", "Pod", "default/web", json!({"labels": {"app": "web"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}));
    build.add(
        "policy/v1",
        "PodDisruptionBudget",
        "default/web",
        json!({
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"expectedPods": 1, "desiredHealthy": 1}}),
    );
    build.is("drains-finish", Fail, "default/web");
    build.keep_one_node();
    build.is("drains-finish", NotChecked, "single node");
}

/// An Addon of a release that does not check Addons, and the Job that it waits for.
fn waiting_addon(build: &mut Build, job_made: &str) {
    let condition =
        json!({"type": "InProgress", "status": "True", "lastUpdateTime": "2026-11-23T11:30:00Z"});
    build.add(
        "harvesterhci.io/v1beta1",
        "Addon",
        "harvester-system/pci",
        json!({"uid": "a1", "spec": {"enabled": true},
        "status": {"status": "AddonEnabling", "conditions": [condition]}}),
    );
    build.add(
        "helm.cattle.io/v1",
        "HelmChart",
        "harvester-system/pci",
        json!({"ownerReferences": [{"kind": "Addon", "name": "pci", "uid": "a1"}],
            "status": {"jobName": "helm-install-pci"}}),
    );
    build.add("batch/v1", "Job", "harvester-system/helm-install-pci", json!({"creationTimestamp": job_made,
        "status": {"completionTime": job_made, "conditions": [{"type": "Complete", "status": "True"}]}}));
}

#[test]
fn a_known_incident_stops_the_upgrade_and_one_that_cannot_be_judged_makes_it_unknown() {
    let mut build = Build::new("v1.6.1");
    waiting_addon(&mut build, "2026-11-23T11:00:00Z");
    build.is("addons-settled", NotChecked, "");
    build.is("no-known-incident", Fail, "addon-stuck");
    // Its Job is younger than the operation that waits for it.
    waiting_addon(&mut build, "2026-11-23T11:59:30Z");
    build.is("no-known-incident", Pass, "");
    let kind = ObjectKind::HELM_CHART.group_kind();
    let refused = KindListing::Unknown("403".to_owned());
    build.objects.insert(kind, refused);
    build.is("no-known-incident", Unknown, "403");
}
