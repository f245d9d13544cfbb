use serde_json::{Value, json};

use super::*;
use crate::objects::KindListing;

/// A Harvester with these servers and agents, each node Ready.
struct Harvester(Objects);

impl Harvester {
    fn new(servers: &[&str], agents: &[&str]) -> Self {
        let mut objects = Objects::default();
        for kind in KINDS {
            objects.insert(kind.group_kind(), KindListing::Objects(Vec::new()));
        }
        let mut harvester = Self(objects);
        for name in servers {
            harvester.node(
                name,
                json!({"node-role.kubernetes.io/etcd": "true"}),
                json!({}),
            );
        }
        for name in agents {
            harvester.node(name, json!({}), json!({}));
        }
        harvester
    }

    fn node(&mut self, name: &str, mut labels: Value, annotations: Value) {
        labels["harvesterhci.io/managed"] = json!("true");
        labels["kubernetes.io/hostname"] = json!(name);
        self.0.add(json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    }

    fn vm(mut self, name: &str, on: &str, spec: Value, migratable: &str) -> Self {
        self.0.add(json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
            "metadata": {"name": name, "namespace": "d", "labels": {"kubevirt.io/nodeName": on}}, "spec": spec,
            "status": {"conditions": [{"type": "LiveMigratable", "status": migratable, "reason": "HostDevice"}]}}));
        self
    }

    /// A volume that a VM uses. Each replica is on a node and started or not.
    fn volume(mut self, replicas: &[(&str, bool)], user: &str) -> Self {
        for (node, started) in replicas {
            self.0.add(
                json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Replica",
                "metadata": {"name": format!("v-{node}"), "namespace": "longhorn-system"},
                "spec": {"volumeName": "v", "nodeID": node}, "status": {"started": started}}),
            );
        }
        let users = json!([{"workloadName": user, "workloadType": "VirtualMachineInstance"}, {"workloadName": "rs", "workloadType": "ReplicaSet"}]);
        self.0.add(
            json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Volume",
            "metadata": {"name": "v", "namespace": "longhorn-system"},
            "status": {"kubernetesStatus": {"namespace": "d", "workloadsStatus": users}}}),
        );
        self
    }

    fn answer(&self, node: &str) -> (MaintenanceAnswer, String) {
        let mode = check(&self.0, node, Timestamp::UNIX_EPOCH)
            .maintenance_mode
            .unwrap();
        (mode.answer, mode.because.join("; "))
    }
}

fn accepted() -> (MaintenanceAnswer, String) {
    (MaintenanceAnswer::Accepted, String::new())
}

#[test]
fn harvester_accepts_a_server_only_as_one_of_exactly_three_outside_maintenance_mode() {
    let single = Harvester::new(&["s1"], &["a1"]);
    let (answer, why) = single.answer("s1");
    assert_eq!(
        (answer, why.as_str()),
        (MaintenanceAnswer::Refused, "it is the only server")
    );
    assert_eq!(single.answer("a1"), accepted());
    for servers in [&["s1", "s2"][..], &["s1", "s2", "s3", "s4"]] {
        let (answer, why) = Harvester::new(servers, &[]).answer("s1");
        assert_eq!(answer, MaintenanceAnswer::Refused);
        assert!(
            why.ends_with(&format!("there are {}", servers.len())),
            "{why}"
        );
    }
    let mut three = Harvester::new(&["s1", "s2", "s3"], &["a1"]);
    assert_eq!(three.answer("s1"), accepted());
    let server = json!({"node-role.kubernetes.io/control-plane": "true"});
    three.node(
        "s4",
        server,
        json!({"harvesterhci.io/maintain-status": "completed"}),
    );
    assert_eq!(three.answer("s1"), accepted());
}

#[test]
fn harvester_refuses_a_node_for_each_vm_that_it_would_have_to_stop() {
    let pinned = json!({"nodeSelector": {"kubernetes.io/hostname": "a1"}});
    let terms = json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a1"]}]}]);
    let bound = json!({"affinity": {"nodeAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    for (spec, migratable, expected) in [
        (json!({}), "True", ""),
        (
            json!({}),
            "False",
            "VM d/vm: it cannot be migrated live (HostDevice)",
        ),
        (pinned, "True", "VM d/vm: no other node is Ready"),
        (bound, "True", "VM d/vm: no other node is Ready"),
    ] {
        let cluster = Harvester::new(&["s1"], &["a1", "a2"]).vm("vm", "a1", spec, migratable);
        let (answer, why) = cluster.answer("a1");
        assert!(why.starts_with(expected), "{why}");
        assert_eq!(
            answer == MaintenanceAnswer::Accepted,
            expected.is_empty(),
            "{why}"
        );
        assert_eq!(cluster.answer("a2"), accepted(), "the VM is not there");
    }
}

#[test]
fn harvester_refuses_the_node_of_the_only_running_replica_wherever_the_vm_runs() {
    let cluster = |replicas: &[(&str, bool)]| {
        let cluster = Harvester::new(&["s1"], &["a1", "a2"]).vm("vm", "a2", json!({}), "True");
        cluster.volume(replicas, "vm")
    };
    let last = cluster(&[("a1", true), ("a2", false)]);
    let (answer, why) = last.answer("a1");
    assert_eq!(answer, MaintenanceAnswer::Refused);
    assert_eq!(
        why,
        "VM d/vm: the only running replica of its volume v is on this node"
    );
    assert_eq!(last.answer("a2"), accepted());
    assert_eq!(
        cluster(&[("a1", true), ("a2", true)]).answer("a1"),
        accepted()
    );
    assert_eq!(cluster(&[("a1", false)]).answer("a1"), accepted());

    let gone = Harvester::new(&["s1"], &["a1"]).volume(&[("a1", true)], "vm");
    assert_eq!(gone.answer("a1").0, MaintenanceAnswer::Unknown);
}

#[test]
fn without_harvester_or_without_volumes_nothing_is_said_of_maintenance_mode() {
    let mut plain = Objects::default();
    for kind in KINDS {
        plain.insert(kind.group_kind(), KindListing::Objects(Vec::new()));
    }
    plain.add(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}));
    let checked = check(&plain, "n1", Timestamp::UNIX_EPOCH);
    assert_eq!(checked.maintenance_mode, None);

    let mut unread = Harvester::new(&[], &["a1"]);
    let volumes = ObjectKind::LONGHORN_VOLUME.group_kind();
    unread
        .0
        .insert(volumes, KindListing::Unknown("forbidden".to_owned()));
    assert_eq!(unread.answer("a1").0, MaintenanceAnswer::Unknown);
}

#[test]
fn a_labelled_vm_is_named_with_what_harvester_does_with_it_before_and_after_its_drain() {
    const LABEL: &str = "harvesterhci.io/maintain-mode-strategy";
    let with = |vm: Option<&str>, pod: Option<&str>, migratable: bool| {
        let mut harvester = Harvester::new(&["s1"], &["a1", "a2"]);
        let mut add = |name: &str, label: Option<&str>, migratable: &str| {
            let mut labels = json!({"kubevirt.io/nodeName": "a1"});
            labels[LABEL] = json!(label);
            harvester.0.add(json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
                "metadata": {"name": name, "namespace": "d", "labels": labels}, "spec": {},
                "status": {"conditions": [{"type": "LiveMigratable", "status": migratable, "reason": "HostDevice"}]}}));
        };
        add("vm", vm, "True");
        if !migratable {
            add("other", None, "False");
        }
        let mut labels = json!({"harvesterhci.io/vmName": "vm"});
        labels[LABEL] = json!(pod);
        harvester.0.add(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "virt-launcher-vm-x", "namespace": "d", "labels": labels}, "spec": {"nodeName": "a1"}}));
        let mode = check(&harvester.0, "a1", Timestamp::UNIX_EPOCH).maintenance_mode;
        let mode = mode.unwrap();
        (mode.answer, mode.labelled.join("; "))
    };
    for (vm, pod, expected) in [
        (None, None, ""),
        (Some("Migrate"), Some("Migrate"), ""),
        (
            Some("Shutdown"),
            Some("Shutdown"),
            "does not start it again",
        ),
        (
            Some("ShutdownAndRestartAfterEnable"),
            Some("ShutdownAndRestartAfterEnable"),
            "starts it again when the node is in maintenance mode",
        ),
        (
            Some("ShutdownAndRestartAfterDisable"),
            None,
            "starts it again when you disable maintenance mode",
        ),
        (None, Some("Shutdown"), "neither stops nor migrates it"),
        (Some("Later"), Some("Later"), "has no known value"),
    ] {
        let (answer, labelled) = with(vm, pod, true);
        assert_eq!(answer, MaintenanceAnswer::Accepted);
        assert_eq!(labelled.is_empty(), expected.is_empty(), "{labelled}");
        assert!(labelled.contains(expected), "{vm:?}: {labelled}");
        assert!(!labelled.contains("With force"), "{labelled}");
    }
    let (answer, labelled) = with(Some("Shutdown"), Some("Shutdown"), false);
    assert_eq!(answer, MaintenanceAnswer::Refused);
    let by_force = "With force it neither stops nor migrates it";
    assert!(labelled.contains(by_force), "{labelled}");
}
