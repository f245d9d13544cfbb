//! A storage network that Harvester does not configure.

use windrow_model::reasons::Code;

use super::others::{machine, setting};
use super::*;

fn volume(name: &str, state: &str) -> Value {
    json!({
        "apiVersion": "longhorn.io/v1beta2", "kind": "Volume",
        "metadata": {"name": name, "namespace": "longhorn-system"},
        "status": {"state": state, "currentNodeID": "n1", "kubernetesStatus": {
            "namespace": "apps", "workloadsStatus": [{"podName": "virt-launcher-db"}]}}
    })
}

/// `msgWaitForVolumes` in `pkg/controller/master/storagenetwork/storage_network.go`: with a capital letter in
/// v1.4.3 and v1.5.1, without in v1.6.0 and v1.8.2. Machines run, and Harvester is up: not its crash loop.
#[test]
fn a_storage_network_that_waits_for_volumes_names_who_holds_them() {
    let waiting = |first: char, since: &str| {
        setting(json!({
            "type": "configured", "status": "False", "reason": "In Progress", "lastUpdateTime": since,
            "message": format!("{first}aiting for all volumes detached: pvc-1")
        }))
    };
    let waits = |since: &str| waiting('w', since);
    let long = "2026-05-01T11:30:00Z";
    for first in ['W', 'w'] {
        let objects = cluster([
            waiting(first, long),
            machine("db", "Running"),
            volume("pvc-1", "attached"),
            volume("pvc-2", "detached"),
        ]);
        assert_eq!(codes(&objects), ["storage-network-waits"]);
        let finding = known(&objects).remove(0);
        assert_eq!(
            finding.evidence[1].value,
            "attached on n1, used by apps/virt-launcher-db"
        );
        assert!(finding.proof[1].starts_with("Harvester itself is up"));
    }
    // A moment ago; and nothing attached any more.
    let fresh = cluster([waits("2026-05-01T11:58:00Z"), volume("pvc-1", "attached")]);
    assert_eq!(codes(&fresh), [""; 0]);
    let soon = cluster([waits(long), volume("pvc-1", "detached")]);
    assert_eq!(codes(&soon), [""; 0]);
    // Harvester waits for these, too.
    for state in ["attaching", "detaching", "creating"] {
        let between = cluster([waits(long), volume("pvc-1", state)]);
        assert_eq!(codes(&between), ["storage-network-waits"], "{state}");
        let seen = &diagnose(&between, now()).findings[0].evidence[1].value;
        assert_eq!(
            *seen,
            format!("{state} on n1, used by apps/virt-launcher-db")
        );
    }
}

/// `MsgIPAssignmentFailure` in the same file.
#[test]
fn a_storage_network_without_addresses_for_longhorn_names_the_pool_and_whose_they_are() {
    let long = "2026-05-01T11:30:00Z";
    let network = |range: &str, since: &str| {
        let mut setting = setting(
            json!({"type": "configured", "status": "False", "reason": "In Progress",
            "lastUpdateTime": since, "message": "IP allocation failure for Longhorn Pods"}),
        );
        setting["value"] = json!(format!(
            r#"{{"vlan":45,"clusterNetwork":"mgmt","range":"{range}"}}"#
        ));
        setting
    };
    let node = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    let nodes = || {
        let witness = json!({"node-role.harvesterhci.io/witness": "true"});
        vec![
            node("n1", json!({})),
            node("n2", json!({})),
            node("n3", witness),
        ]
    };
    let pod = |name: &str, phase: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "longhorn-system"},
            "spec": {"nodeName": "n2"}, "status": {"phase": phase}})
    };
    let pool = |pods: &[&str]| {
        let all: serde_json::Map<String, Value> = pods
            .iter()
            .enumerate()
            .map(|(at, pod)| {
                (
                    at.to_string(),
                    json!({"podref": format!("longhorn-system/{pod}")}),
                )
            })
            .collect();
        json!({"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
            "metadata": {"name": "198.51.100.0-28", "namespace": "kube-system"},
            "spec": {"range": "198.51.100.0/28", "allocations": all}})
    };
    let look = |range: &str, since: &str, more: Vec<Value>| {
        let mut objects = cluster([nodes(), vec![network(range, since)], more].concat());
        objects.add(pod("im-1", "Running"));
        objects.add(pod("im-2", "Pending"));
        known(&objects)
    };
    let told = |findings: Vec<IncidentFinding>| {
        let [finding] = &findings[..] else {
            panic!("{findings:?}");
        };
        assert_eq!(finding.code, Code::StorageNetworkWaits);
        let seen = finding.evidence.iter().map(ToString::to_string);
        let lines = seen
            .chain(finding.proof.clone())
            .chain([finding.message.clone()]);
        lines.collect::<Vec<_>>().join("\n")
    };
    let range = "198.51.100.0/28";
    let too_few = told(look(range, long, vec![pool(&["gone"])]));
    for expected in [
        "whereabouts has given 1 addresses, for 2 nodes",
        "IPPool kube-system/198.51.100.0-28: spec.allocations: longhorn-system/gone, which does not exist",
        "Pod longhorn-system/im-2: status.phase: Pending on n2",
    ] {
        assert!(too_few.contains(expected), "{too_few}");
    }
    assert!(!too_few.contains("im-1"), "{too_few}");
    let of_witness = told(look(range, long, vec![pool(&["im-1", "im-2"])]));
    assert!(of_witness.contains("harvester#9325"), "{of_witness}");
    let host_bits = told(look("198.51.100.7/28", long, vec![pool(&["im-1"])]));
    assert!(
        host_bits.contains("no pool of addresses 198.51.100.7-28"),
        "{host_bits}"
    );
    assert!(host_bits.contains("host bits"), "{host_bits}");
    // A moment ago; and soon over.
    let since = "2026-05-01T11:58:00Z";
    assert_eq!(look(range, since, vec![pool(&[])]), []);
    let all = vec![pool(&["im-1", "im-2", "csi-3"])];
    assert_eq!(look(range, long, all), []);
}
