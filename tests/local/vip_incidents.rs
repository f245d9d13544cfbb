//! What a node sees of a VIP on the kernel's own links and neighbour table: one that somebody else has, and one that it has kept.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use windrow::archive::{Archive, OWN_NODE};
use windrow_harvester::incidents::{IncidentFinding, OwnNode, look_at_own};
use windrow_harvester::objects::{KindListing, ObjectKind, Objects};
use wire::{Namespace, OURS, PEER, PEER_MAC, VIP, until, wire};

use crate::support::wire;

const SECOND_MAC: &str = "02:00:00:00:00:08";

/// What the node on our side sees of its network, as `windrow report` has it.
fn own_node(here: &Namespace) -> OwnNode {
    let root = tempfile::tempdir().unwrap();
    // A link would lead out of the tree.
    std::fs::create_dir(root.path().join("proc")).unwrap();
    let mount = "mount --rbind /proc \"$0/proc\" && exec \"$@\"";
    let mut report = here.command("unshare");
    report
        .args(["--mount", "sh", "-c", mount])
        .arg(root.path())
        .arg(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root.path())
        .args(["report", "--output-file", "-"]);
    let done = report.output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let own = Archive::read(&done.stdout[..]).unwrap().json(OWN_NODE);
    serde_json::from_value(own.unwrap()).unwrap()
}

/// What is found on this node of a cluster of both sides, with these objects besides.
fn found(own: &OwnNode, more: &[Value]) -> Vec<IncidentFinding> {
    let mut objects = Objects::default();
    for kind in ObjectKind::ALL {
        objects.insert(kind.group_kind(), KindListing::Objects(Vec::new()));
    }
    for (name, address) in [("here", OURS), ("there", PEER)] {
        objects.add(
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"addresses": [{"type": "InternalIP", "address": address}]}}),
        );
    }
    objects.add(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"ip": VIP, "mode": "static"},
        "metadata": {"name": "vip", "namespace": "harvester-system"}}),
    );
    more.iter().for_each(|object| objects.add(object.clone()));
    let looked = look_at_own(own, &objects, Timestamp::now());
    looked
        .into_iter()
        .flat_map(|one| one.found.unwrap())
        .collect()
}

/// Is the VIP at an address that is no node's?
fn conflicts(own: &OwnNode, more: &[Value]) -> bool {
    let found = found(own, more);
    found.iter().any(|one| one.code.as_str() == "vip-conflict")
}

#[test]
fn a_nodes_second_link_that_answers_for_the_vip_is_no_conflict_where_harvester_lists_it() {
    let Some((here, there)) = wire() else { return };
    // The other node has the VIP on one link and answers for it on another, as Linux does by default.
    there.sh(&format!(
        "ip link add eth1 link eth0 address {SECOND_MAC} type macvlan mode bridge; ip link set eth1 up
         ip address add {VIP}/32 dev eth0"
    ));
    let ignore =
        |link: &str, value: u8| format!("echo {value} >/proc/sys/net/ipv4/conf/{link}/arp_ignore");
    // A packet to an address makes the kernel ask for it; whether it is answered does not matter.
    let learn = |address: &str, mac: &str| {
        let known = format!("grep -q '^{address} .* 0x2 .* {mac} ' /proc/net/arp");
        here.sh(&format!(
            "timeout 300 bash -c 'until {}; do echo >/dev/udp/{address}/9; sleep 0.05; done'",
            known.replace('\'', "\"")
        ));
    };
    there.sh(&ignore("eth1", 8));
    learn(PEER, PEER_MAC);
    there.sh(&[ignore("eth1", 0), ignore("eth0", 8)].join("; "));
    learn(VIP, SECOND_MAC);

    let own = own_node(&here);
    assert!(conflicts(&own, &[]), "{own:#?}");
    let monitor = |mac: &str| {
        json!({"apiVersion": "network.harvesterhci.io/v1beta1", "kind": "LinkMonitor", "metadata": {"name": "nic"},
            "status": {"linkStatus": {"there": [{"name": "eth0", "mac": PEER_MAC}, {"name": "eth1", "mac": mac}]}}})
    };
    assert!(!conflicts(&own, &[monitor(SECOND_MAC)]), "{own:#?}");
    assert!(conflicts(&own, &[monitor("02:00:00:00:00:09")]), "{own:#?}");
}

/// kube-vip's lock, with times as client-go writes them.
fn lease(holder: &str, for_seconds: i64, renewed_seconds: i64) -> Value {
    let ago = |seconds| {
        let at = Timestamp::now() - SignedDuration::from_secs(seconds);
        at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    };
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "plndr-svcs-lock", "namespace": "harvester-system"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 5,
            "acquireTime": ago(for_seconds), "renewTime": ago(renewed_seconds)}})
}

/// What each link that this node has kept is told by.
fn kept(side: &Namespace, lease: Value) -> Vec<String> {
    let found = found(&own_node(side), &[lease]);
    let stale = found
        .iter()
        .filter(|one| one.code.as_str() == "vip-stale-link");
    stale
        .map(|one| {
            format!(
                "{}: {} ({})",
                one.subject, one.message, one.evidence[0].value
            )
        })
        .collect()
}

const THERE_LEADS: (i64, i64) = (300, 2);
const OF_KUBE_VIP: &str = "vip-125ce5a8";

#[test]
fn a_link_of_kube_vip_is_stale_on_the_node_that_does_not_lead_and_on_no_other() {
    let Some((here, there)) = wire() else { return };
    let leads = |holder| lease(holder, THERE_LEADS.0, THERE_LEADS.1);
    assert_eq!(kept(&here, leads("there")), [""; 0], "nobody has it");
    // As in harvester#11122: the same link, hardware address and address on both nodes.
    for side in [&here, &there] {
        side.sh(&format!(
            "ip link add {OF_KUBE_VIP} link eth0 address {SECOND_MAC} type macvlan mode bridge
             ip address add {VIP}/24 dev {OF_KUBE_VIP}; ip link set {OF_KUBE_VIP} up"
        ));
        side.sh(&until(OF_KUBE_VIP, "LOWER_UP"));
    }
    assert_eq!(
        kept(&here, leads("there")),
        [format!(
            "Node here: Node here still has a VIP of another node: {OF_KUBE_VIP} is up here, and there leads kube-vip \
             ({SECOND_MAC} {VIP}/24)"
        )]
    );
    assert_eq!(kept(&there, leads("there")), [""; 0], "it leads");
    assert_eq!(kept(&here, leads("here")), [""; 0], "it leads");
    assert_eq!(kept(&there, leads("here")).len(), 1, "the other one");
    // The lead has just changed, or nobody renews it.
    assert_eq!(kept(&here, lease("there", 60, 2)), [""; 0]);
    assert_eq!(kept(&here, lease("there", 300, 120)), [""; 0]);
    assert_eq!(kept(&here, leads("")), [""; 0]);

    here.sh(&format!("ip link set {OF_KUBE_VIP} down"));
    assert_eq!(kept(&here, leads("there")), [""; 0], "it answers nobody");
    here.sh(&format!("ip link set {OF_KUBE_VIP} up"));
    here.sh(&until(OF_KUBE_VIP, "LOWER_UP"));
    assert_eq!(kept(&here, leads("there")).len(), 1);
    // What the page says to do.
    here.sh(&format!("ip link delete {OF_KUBE_VIP}"));
    assert_eq!(kept(&here, leads("there")), [""; 0]);
}

#[test]
fn a_static_vip_is_stale_where_another_leads_and_a_nodes_other_links_and_addresses_are_not() {
    let Some((here, there)) = wire() else { return };
    let lease = || lease("there", THERE_LEADS.0, THERE_LEADS.1);
    there.sh(&format!("ip address add {VIP}/32 dev eth0"));
    // Somebody's own link, a pod's, and another address of the management link.
    here.sh(
        "ip link add vip-lan link eth0 type macvlan mode bridge; ip address add 192.0.2.11/24 dev vip-lan
         ip link set vip-lan up; ip link add veth1 type veth peer name veth2; ip link set veth1 up
         ip address add 192.0.2.12/32 dev eth0",
    );
    here.sh(&until("vip-lan", "LOWER_UP"));
    assert_eq!(kept(&here, lease()), [""; 0]);
    assert_eq!(kept(&there, lease()), [""; 0]);

    here.sh(&format!("ip address add {VIP}/32 dev eth0"));
    let told = kept(&here, lease());
    assert_eq!(told.len(), 1, "{told:?}");
    let is_told = |what: &str| told[0].contains(what);
    assert!(
        is_told("eth0 is up here, and there leads kube-vip"),
        "{told:?}"
    );
    assert!(is_told(&format!(" {VIP}/32")), "{told:?}");
    assert_eq!(kept(&there, lease()), [""; 0]);
    // What the page says to do.
    here.sh(&format!("ip address delete {VIP}/32 dev eth0"));
    assert_eq!(kept(&here, lease()), [""; 0]);
}
