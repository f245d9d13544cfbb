use serde_json::json;

use super::*;
use crate::network::{NetworkLink, OwnNetwork, neighbours};

const VIP: &str = "10.0.0.10";
const LINK_OF_KUBE_VIP: &str = "vip-398f068d";

fn link(name: &str, mac: &str, addresses: &[&str]) -> NetworkLink {
    let addresses = addresses.iter();
    NetworkLink {
        name: name.to_owned(),
        mac: mac.parse().unwrap(),
        running: true,
        addresses: addresses
            .map(|address| (address.parse().unwrap(), 24))
            .collect(),
    }
}

/// Node n1 at 10.0.0.1, which has heard the hosts in `heard`.
fn own(links: &[NetworkLink], heard: &[(&str, &str)]) -> OwnNode {
    let table: String = heard
        .iter()
        .map(|(address, mac)| format!("{address} 0x1 0x2 {mac} * mgmt-br\n"))
        .collect();
    let mut all = vec![link("mgmt-br", "52:54:00:00:00:01", &["10.0.0.1"])];
    all.extend_from_slice(links);
    OwnNode {
        name: "n1".to_owned(),
        network: OwnNetwork {
            links: all,
            neighbours: neighbours(&table),
        },
        ..OwnNode::default()
    }
}

fn node(number: u8) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number}")},
        "status": {"addresses": [{"type": "InternalIP", "address": format!("10.0.0.{number}")},
            {"type": "Hostname", "address": format!("n{number}")}]}})
}

fn config(hardware: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "vip", "namespace": "harvester-system"},
        "data": {"enabled": "true", "ip": VIP, "mode": "static", "hwAddress": hardware}})
}

/// As client-go writes it.
fn lease(holder: &str, since_minutes: i64, renewed_seconds: i64) -> Value {
    let ago = |seconds: i64| (now() - jiff::SignedDuration::from_secs(seconds)).to_string();
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "plndr-svcs-lock", "namespace": "harvester-system"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 5,
            "acquireTime": ago(since_minutes * 60), "renewTime": ago(renewed_seconds)}})
}

fn looked(own: &OwnNode, objects: &[Value]) -> Diagnosis {
    let objects = cluster(objects.iter().cloned());
    summed_up(look_at_own(own, &objects, now()), now())
}

fn codes(own: &OwnNode, objects: &[Value]) -> Vec<&'static str> {
    let found = looked(own, objects);
    assert_eq!(found.unknown, [""; 0]);
    found.findings.iter().map(|one| one.code.as_str()).collect()
}

#[test]
fn a_vip_at_a_hardware_address_that_is_no_nodes_is_found_and_at_a_nodes_or_kube_vips_it_is_not() {
    let nodes = [node(1), node(2), node(3), config("")];
    let heard = |vip: &'static str| {
        own(
            &[],
            &[
                (VIP, vip),
                ("10.0.0.2", "52:54:00:00:00:02"),
                ("10.0.0.3", "52:54:00:00:00:03"),
            ],
        )
    };
    let foreign = heard("52:54:00:00:00:99");
    assert_eq!(codes(&foreign, &nodes), ["vip-conflict"]);
    let found = &looked(&foreign, &nodes).findings[0];
    assert!(
        found
            .message
            .contains("52:54:00:00:00:99 answers on mgmt-br")
    );
    let evidence: Vec<&str> = found
        .evidence
        .iter()
        .map(|one| one.value.as_str())
        .collect();
    assert_eq!(evidence[2..], ["52:54:00:00:00:02", "52:54:00:00:00:03"]);

    // Harvester lists it as another link of a node.
    let monitor = |mac: &str| {
        json!({"apiVersion": "network.harvesterhci.io/v1beta1", "kind": "LinkMonitor", "metadata": {"name": "nic"},
            "status": {"linkStatus": {"n2": [{"name": "ens1", "mac": "52:54:00:00:00:02"}, {"name": "ens2", "mac": mac}]}}})
    };
    let with = |mac: &str| [&nodes[..], &[monitor(mac)]].concat();
    assert_eq!(codes(&foreign, &with("52:54:00:00:00:99")), [""; 0]);
    assert_eq!(
        codes(&foreign, &with("52:54:00:00:00:98")),
        ["vip-conflict"]
    );

    // A static VIP is on the link of the leading node, and one from DHCP has kube-vip's own address.
    assert_eq!(codes(&heard("52:54:00:00:00:02"), &nodes), [""; 0]);
    let from_dhcp = [node(1), node(2), node(3), config("52:54:00:00:00:99")];
    assert_eq!(codes(&foreign, &from_dhcp), [""; 0]);
    // Nobody has answered for the VIP yet; it is on this node; or there is none.
    assert_eq!(
        codes(&own(&[], &[("10.0.0.2", "52:54:00:00:00:02")]), &nodes),
        [""; 0]
    );
    assert_eq!(codes(&own(&[], &[]), &nodes), [""; 0]);
    assert_eq!(codes(&foreign, &[node(1), node(2), node(3)]), [""; 0]);
}

#[test]
fn while_a_node_was_not_heard_from_nothing_is_said_of_a_foreign_hardware_address() {
    let seen = own(
        &[],
        &[
            (VIP, "52:54:00:00:00:99"),
            ("10.0.0.2", "52:54:00:00:00:02"),
        ],
    );
    let found = looked(&seen, &[node(1), node(2), node(3), config("")]);
    assert_eq!(found.findings, []);
    assert_eq!(found.unknown.len(), 1, "{:?}", found.unknown);
    let of_ipv6 = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n4"},
        "status": {"addresses": [{"type": "InternalIP", "address": "2001:db8::4"}]}});
    let without = looked(&seen, &[node(1), node(2), of_ipv6, config("")]).unknown;
    for (unknown, name) in [(found.unknown, "n3"), (without, "n4")] {
        let why = format!("not heard from {name}");
        assert!(unknown[0].contains(&why), "{unknown:?}");
    }
}

#[test]
fn what_kube_vip_left_behind_is_found_once_another_node_has_led_for_two_minutes() {
    let left = own(&[link(LINK_OF_KUBE_VIP, "d6:41:b6:bc:a9:df", &[VIP])], &[]);
    assert_eq!(
        codes(&left, &[config(""), lease("n2", 3, 2)]),
        ["vip-stale-link"]
    );
    let found = looked(&left, &[lease("n2", 3, 2)]);
    assert_eq!(
        found.findings[0].evidence[0].value,
        "d6:41:b6:bc:a9:df 10.0.0.10/24"
    );
    // A static VIP has no separate link (harvester#7293).
    let on_bridge = OwnNode {
        network: OwnNetwork {
            links: vec![link("mgmt-br", "52:54:00:00:00:01", &["10.0.0.1", VIP])],
            ..OwnNetwork::default()
        },
        ..left.clone()
    };
    assert_eq!(
        codes(&on_bridge, &[config(""), lease("n2", 3, 2)]),
        ["vip-stale-link"]
    );

    for (case, objects) in [
        ("this node leads", [config(""), lease("n1", 3, 2)]),
        ("under its host name", [config(""), lease("N1", 3, 2)]),
        ("just now", [config(""), lease("n2", 1, 2)]),
        ("nobody leads", [config(""), lease("", 3, 2)]),
        ("who led is gone too", [config(""), lease("n2", 30, 90)]),
    ] {
        assert_eq!(codes(&left, &objects), [""; 0], "{case}");
    }
    assert_eq!(codes(&left, &[config("")]), [""; 0], "no kube-vip");
    let mut down = left.clone();
    down.network.links[1].running = false;
    assert_eq!(codes(&down, &[config(""), lease("n2", 3, 2)]), [""; 0]);
    let others = own(
        &[
            link("vip-ens3", "d6:41:b6:bc:a9:df", &[]),
            link("vip-398f068d0", "d6:41:b6:bc:a9:df", &[]),
        ],
        &[],
    );
    assert_eq!(codes(&others, &[config(""), lease("n2", 3, 2)]), [""; 0]);
}
