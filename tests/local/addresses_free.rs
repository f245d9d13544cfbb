//! The check `addresses-free` of `windrow preflight` between two network namespaces: the kernel's own ARP and neighbour discovery answer,
//! or do not.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use wire::{Namespace, OURS, PEER, PEER_MAC, PEER_V6, VIP, VIP_V6, until, wire};

use crate::support::wire;

/// Starts `windrow preflight` for a node with this VIP.
fn look(here: &Namespace, vip: &str, options: &[&str]) -> Child {
    let mut command = here.command(env!("CARGO_BIN_EXE_windrow"));
    command.arg("preflight");
    started(command, &with_vip(vip), options)
}

fn with_vip(vip: &str) -> String {
    format!("scheme_version: 1\ninstall: {{mode: create, vip_mode: static, vip: '{vip}'}}\n")
}

fn started(mut command: Command, configuration: &str, options: &[&str]) -> Child {
    // A worker has no etcd, so no writes are measured.
    command
        .args(["-", "--role", "worker", "-o", "json"])
        .args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(configuration.as_bytes()).unwrap();
    child
}

/// The addresses that were looked for, and the outcome of the check.
fn readings(child: Child) -> (Value, String) {
    let output = child.wait_with_output().unwrap();
    let mut printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = printed["checks"].as_array().unwrap();
    let row = rows.iter().find(|row| row["check"] == "addresses-free");
    let outcome = row.unwrap()["outcome"].as_str().unwrap().to_owned();
    (printed["surroundings"]["addresses"].take(), outcome)
}

/// Asserts the claims of other hosts to the VIP, and whether it is this host's own.
fn assert_claims(child: Child, address: &str, own: bool, claims: Value) {
    let outcome = match claims.as_array().unwrap().is_empty() {
        true => "pass",
        false => "fail",
    };
    let expected = json!([{"address": address, "own": own, "claims": claims}]);
    assert_eq!(readings(child), (expected, outcome.to_owned()));
}

fn of_peer(probes: bool) -> Value {
    json!([{"mac": PEER_MAC, "probes": probes}])
}

/// Asserts that the check is unknown, and why.
fn assert_unknown(child: Child, why: &str) {
    let (addresses, outcome) = readings(child);
    let unknown = addresses[0]["claims"]["unknown"].as_str();
    assert!(
        unknown.is_some_and(|text| text.contains(why)),
        "{why}: {addresses}"
    );
    assert_eq!(outcome, "unknown");
}

#[test]
fn an_address_that_nobody_has_is_free_and_one_that_the_other_machine_has_is_not() {
    let Some((here, _there)) = wire() else { return };
    let (free, used) = (look(&here, VIP, &[]), look(&here, PEER, &[]));
    assert_claims(free, VIP, false, json!([]));
    assert_claims(used, PEER, false, of_peer(false));
}

#[test]
fn on_a_port_of_a_bridge_the_bridge_is_asked() {
    let Some((here, _there)) = wire() else { return };
    here.sh(&format!(
        "ip link add mgmt-br type bridge; ip address flush dev eth0; ip link set eth0 master mgmt-br
         ip address add {OURS}/24 dev mgmt-br; ip link set mgmt-br up"
    ));
    here.sh(&until("mgmt-br", "state UP"));
    let port = ["--interface", "eth0"];
    let (free, used) = (look(&here, VIP, &port), look(&here, PEER, &port));
    assert_claims(free, VIP, false, json!([]));
    assert_claims(used, PEER, false, of_peer(false));
}

#[test]
fn our_own_address_is_told_from_one_that_somebody_else_has_too() {
    let Some((here, there)) = wire() else { return };
    here.sh(&format!("ip address add {VIP}/32 dev eth0"));
    assert_claims(look(&here, VIP, &[]), VIP, true, json!([]));
    there.sh(&format!("ip address add {VIP}/32 dev eth0"));
    assert_claims(look(&here, VIP, &[]), VIP, true, of_peer(false));
}

#[test]
fn a_machine_that_answers_no_probe_is_heard_when_it_announces_itself() {
    let Some((here, there)) = wire() else { return };
    // With arp_ignore=8 the kernel answers for no address; with arp_notify it announces its own when the link's changes.
    there.sh(&format!(
        "ip address add {VIP}/24 dev eth0
         echo 8 >/proc/sys/net/ipv4/conf/eth0/arp_ignore; echo 1 >/proc/sys/net/ipv4/conf/eth0/arp_notify"
    ));
    let mut looking = look(&here, VIP, &["--interface", "eth0"]);
    while looking.try_wait().unwrap().is_none() {
        there.sh("ip link set eth0 address 02:00:00:00:00:08; ip link set eth0 address 02:00:00:00:00:07");
    }
    let (addresses, outcome) = readings(looking);
    let claim = json!({"mac": "02:00:00:00:00:08", "probes": false});
    let claims = addresses[0]["claims"].as_array().unwrap();
    assert!(claims.contains(&claim), "{addresses}");
    assert_eq!(outcome, "fail");
}

#[test]
fn two_machines_that_look_for_one_address_at_a_time_hear_of_each_other() {
    let Some((here, there)) = wire() else { return };
    let (one, other) = (look(&here, VIP, &[]), look(&there, VIP, &[]));
    assert_claims(one, VIP, false, of_peer(true));
    assert_eq!(readings(other).1, "fail");
}

#[test]
fn an_ipv6_address_is_asked_for_by_neighbour_discovery_and_its_owner_answers() {
    let Some((here, there)) = wire() else { return };
    // What the peer puts on its link is its own at once, without looking for others.
    let (free, used) = (look(&here, VIP_V6, &[]), look(&here, PEER_V6, &[]));
    assert_claims(free, VIP_V6, false, json!([]));
    assert_claims(used, PEER_V6, false, of_peer(false));

    let own = format!("ip address add {VIP_V6}/128 dev eth0 nodad");
    here.sh(&own);
    assert_claims(look(&here, VIP_V6, &[]), VIP_V6, true, json!([]));
    there.sh(&own);
    assert_claims(look(&here, VIP_V6, &[]), VIP_V6, true, of_peer(false));
}

#[test]
fn a_machine_that_is_about_to_take_an_ipv6_address_is_heard() {
    let Some((here, there)) = wire() else { return };
    let (one, other) = (look(&here, VIP_V6, &[]), look(&there, VIP_V6, &[]));
    assert_claims(one, VIP_V6, false, of_peer(true));
    assert_eq!(readings(other).1, "fail");
}

#[test]
fn without_the_right_the_link_or_the_address_nothing_is_claimed() {
    let Some((here, there)) = wire() else { return };
    let mut unprivileged = here.command("setpriv");
    unprivileged.args([
        "--bounding-set=-net_raw",
        "--inh-caps=-net_raw",
        env!("CARGO_BIN_EXE_windrow"),
        "preflight",
    ]);
    let unprivileged = started(unprivileged, &with_vip(VIP), &[]);
    assert_unknown(unprivileged, "need the right CAP_NET_RAW");

    for (vip, options, why) in [
        ("198.51.100.1", &[][..], "--interface"),
        (VIP, &["--interface", "eth7"], "no Ethernet link eth7"),
        ("2001:db8:1::1", &[], "--interface"),
        ("fe80::1", &["--interface", "eth0"], "cannot be a VIP"),
        (VIP, &["--interface", "lo"], "no Ethernet link lo"),
    ] {
        assert_unknown(look(&here, vip, options), why);
    }
    there.sh("ip link set eth0 down");
    here.sh(&until("eth0", "NO-CARRIER"));
    assert_unknown(look(&here, VIP, &[]), "eth0 is down, or has no carrier");
}

#[test]
fn a_link_that_goes_down_meanwhile_makes_no_address_free() {
    let Some((here, there)) = wire() else { return };
    let looking = look(&here, VIP, &[]);
    there.sh("ip link set eth0 down");
    here.sh(&until("eth0", "NO-CARRIER"));
    assert_unknown(looking, "eth0");
}
