use serde_json::json;

use super::*;
use crate::network::neighbours;

fn own() -> OwnNode {
    OwnNode {
        name: "n1".to_owned(),
        ..OwnNode::default()
    }
}

fn found(own: &OwnNode, objects: &Objects) -> Vec<IncidentFinding> {
    let looked = look_at_own(own, objects, now());
    let all = looked.into_iter().map(|one| one.found.unwrap());
    all.flatten().collect()
}

fn codes_of(own: &OwnNode) -> Vec<&'static str> {
    let found = found(own, &cluster([]));
    found.iter().map(|one| one.code.as_str()).collect()
}

fn at(minutes: i64) -> Timestamp {
    now() + jiff::SignedDuration::from_mins(minutes)
}

#[test]
fn a_node_of_which_nothing_is_known_and_a_healthy_one_have_no_finding() {
    assert_eq!(codes_of(&own()), [""; 0]);
    let healthy = OwnNode {
        port_68_refused: None,
        vip_mode: Some("dhcp".to_owned()),
        kubelet_until: Some(at(1)),
        manifests: vec![manifest("a.yaml", "a", "1"), manifest("b.yaml", "b", "2")],
        ..own()
    };
    assert_eq!(codes_of(&healthy), [""; 0]);
}

fn manifest(path: &str, addon: &str, sha256: &str) -> OwnManifest {
    OwnManifest {
        path: path.into(),
        addon: addon.into(),
        sha256: sha256.to_owned(),
    }
}

#[test]
fn what_goes_wrong_on_the_node_is_found_in_its_files() {
    let sick = OwnNode {
        port_68_refused: Some("listen udp4 :68: bind: address already in use".to_owned()),
        vip_mode: Some("dhcp".to_owned()),
        kubelet_until: Some(at(-1)),
        next_name: Some("rack7".to_owned()),
        gate: Some(GateRefused {
            component: "kube-apiserver".to_owned(),
            gate: "Nonsense".to_owned(),
            line: "unrecognized feature gate: Nonsense".to_owned(),
            at: "/etc/rancher/rke2/config.yaml:3".to_owned(),
        }),
        manifests: vec![
            manifest("vm.a.yaml", "vm", "1"),
            manifest("vm.b.yaml", "vm", "2"),
        ],
        missing_files: vec!["/etc/motd".to_owned()],
        missing_under: "os.write_files".to_owned(),
        ..own()
    };
    assert_eq!(
        codes_of(&sick),
        [
            "dhcp-client-clash",
            "kubelet-credential-expired",
            "node-name-changes",
            "gate-fatal",
            "addon-collision",
            "write-files-missing"
        ]
    );
    // If the address of the VIP does not come from DHCP, kube-vip needs no port for it.
    let given = OwnNode {
        vip_mode: Some("static".to_owned()),
        ..sick.clone()
    };
    assert!(!codes_of(&given).contains(&"dhcp-client-clash"));
    let found = found(&sick, &cluster([]));
    assert!(
        found[3]
            .message
            .contains("because of the feature gate Nonsense")
    );
    assert_eq!(found[4].evidence.len(), 2);
    assert!(
        found[5].message.contains("os.write_files"),
        "{:?}",
        found[5]
    );
}

fn applied(host: &str, at: Timestamp) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": host, "namespace": "kube-system"},
        "involvedObject": {"apiVersion": "k3s.cattle.io/v1", "kind": "Addon", "name": "site"}, "reason": "AppliedManifest",
        "source": {"component": "deploy", "host": host}, "lastTimestamp": at.to_string()})
}

fn addon(checksum: &str) -> Value {
    json!({"apiVersion": "k3s.cattle.io/v1", "kind": "Addon", "spec": {"checksum": checksum},
        "metadata": {"name": "site", "namespace": "kube-system"}})
}

#[test]
fn a_file_that_another_server_has_with_other_content_is_found_and_slow_or_equal_ones_are_not() {
    let node = OwnNode {
        manifests: vec![manifest("site.yaml", "site", "ours")],
        ..own()
    };
    let codes = |objects: &[Value]| -> Vec<&'static str> {
        let found = found(&node, &cluster(objects.iter().cloned()));
        found.iter().map(|one| one.code.as_str()).collect()
    };
    let (ours, theirs) = (applied("n1", at(-20)), applied("n2", at(-5)));
    assert_eq!(
        codes(&[addon("theirs"), ours.clone(), theirs.clone()]),
        ["manifest-differs"]
    );
    // The same content; a file that this server is about to apply; a file that only this server has.
    assert_eq!(
        codes(&[addon("ours"), ours.clone(), theirs.clone()]),
        [""; 0]
    );
    assert_eq!(codes(&[addon("theirs"), theirs.clone()]), [""; 0]);
    assert_eq!(codes(&[addon("older"), ours.clone()]), [""; 0]);
    // This server was the last to apply, or has had no time to answer.
    let later = applied("n1", at(-1));
    assert_eq!(codes(&[addon("theirs"), later, theirs]), [""; 0]);
    assert_eq!(
        codes(&[addon("theirs"), ours, applied("n2", now())]),
        [""; 0]
    );
}

#[test]
fn what_goes_by_a_network_at_which_nobody_looked_is_not_said_to_have_been_looked_for() {
    let unseen = OwnNode::default();
    let mut seen = OwnNode::default();
    seen.network.neighbours = neighbours(
        "address type flags mac mask device\n10.0.0.9 0x1 0x2 02:00:00:00:00:08 * mgmt-br\n",
    );
    let of_vip = |own: &OwnNode| {
        let looked = look_at_own(own, &Objects::default(), now());
        looked
            .iter()
            .filter(|one| one.id.title().contains("VIP"))
            .count()
    };
    assert_eq!((of_vip(&unseen), of_vip(&seen)), (0, 2));
}

#[test]
fn a_repair_that_nobody_goes_on_with_is_found_with_the_command_that_gives_back() {
    let repair = |steps: usize| UnfinishedRepair {
        record: "machines-block-settings-Harvester-1.json".to_owned(),
        subject: "Harvester".to_owned(),
        server: "n2".to_owned(),
        since: now(),
        steps: (0..steps).map(|step| format!("start {step}")).collect(),
    };
    let own = OwnNode {
        unfinished_repairs: vec![repair(1), repair(6)],
        ..OwnNode::default()
    };
    let looked = look_at_own(&own, &Objects::default(), now());
    let found: Vec<&IncidentFinding> = looked
        .iter()
        .flat_map(|detector| detector.found.iter().flatten())
        .collect();
    let [short, long] = found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(short.code, Code::RepairUnfinished);
    let command = "windrow repair --undo machines-block-settings-Harvester-1.json";
    assert!(short.advice.contains(command), "{}", short.advice);
    assert!(short.message.contains("start 0"), "{}", short.message);
    assert!(long.message.contains("2 more steps"), "{}", long.message);
}
