//! `windrow vip-check` between two network namespaces: the kernel's own ARP and neighbour discovery answer, or do not.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::process::{Child, Output, Stdio};

use serde_json::{Value, json};
use wire::{Namespace, OURS, PEER, PEER_MAC, PEER_V6, VIP, VIP_V6, until, wire};

use crate::support::wire;

/// Starts `windrow vip-check` here.
fn look(here: &Namespace, args: &[&str]) -> Child {
    let mut command = here.command(env!("CARGO_BIN_EXE_windrow"));
    command.arg("vip-check").args(args);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What was printed, and how it ended.
fn end(child: Child) -> (i32, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().unwrap();
    let said = [stdout, stderr].concat();
    (status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[test]
fn an_address_that_nobody_has_is_free_and_one_that_the_other_machine_has_is_not() {
    let Some((here, _there)) = wire() else { return };
    let (free, used) = (look(&here, &[VIP]), look(&here, &[PEER]));
    let (code, said) = end(free);
    assert_eq!(
        said,
        format!("{VIP} is free: no answer to 3 ARP probes on eth0\n")
    );
    assert_eq!(code, 0);
    let (code, said) = end(used);
    assert!(
        said.starts_with(&format!(
            "{PEER} is used by another host on eth0:\n  {PEER_MAC} uses it\n"
        )),
        "{said}"
    );
    assert_eq!(code, 4);
}

#[test]
fn on_a_port_of_a_bridge_the_bridge_is_asked() {
    let Some((here, _there)) = wire() else { return };
    here.sh(&format!(
        "ip link add mgmt-br type bridge; ip address flush dev eth0; ip link set eth0 master mgmt-br
         ip address add {OURS}/24 dev mgmt-br; ip link set mgmt-br up"
    ));
    here.sh(&until("mgmt-br", "state UP"));
    let (free, used) = (
        look(&here, &[VIP, "-i", "eth0"]),
        look(&here, &[PEER, "-i", "eth0"]),
    );
    let (code, said) = end(free);
    assert_eq!(
        said,
        format!("{VIP} is free: no answer to 3 ARP probes on mgmt-br\n")
    );
    assert_eq!(code, 0);
    let (code, said) = end(used);
    assert!(
        said.starts_with(&format!(
            "{PEER} is used by another host on mgmt-br:\n  {PEER_MAC} uses it\n"
        )),
        "{said}"
    );
    assert_eq!(code, 4);
}

#[test]
fn our_own_address_is_told_from_one_that_somebody_else_has_too() {
    let Some((here, there)) = wire() else { return };
    here.sh(&format!("ip address add {VIP}/32 dev eth0"));
    let (code, said) = end(look(&here, &[VIP]));
    assert_eq!(
        said,
        format!("{VIP} is this node's own (eth0): no other host uses it\n")
    );
    assert_eq!(code, 0);
    there.sh(&format!("ip address add {VIP}/32 dev eth0"));
    let (code, said) = end(look(&here, &[VIP]));
    assert!(
        said.contains("another host uses it too") && said.contains(PEER_MAC),
        "{said}"
    );
    assert_eq!(code, 4);
}

#[test]
fn a_machine_that_answers_no_probe_is_heard_when_it_announces_itself() {
    let Some((here, there)) = wire() else { return };
    // With arp_ignore=8 the kernel answers for no address; with arp_notify it announces its own when the link's changes.
    there.sh(&format!(
        "ip address add {VIP}/24 dev eth0
         echo 8 >/proc/sys/net/ipv4/conf/eth0/arp_ignore; echo 1 >/proc/sys/net/ipv4/conf/eth0/arp_notify"
    ));
    let mut looking = look(&here, &[VIP, "--interface", "eth0"]);
    while looking.try_wait().unwrap().is_none() {
        there.sh("ip link set eth0 address 02:00:00:00:00:08; ip link set eth0 address 02:00:00:00:00:07");
    }
    let (code, said) = end(looking);
    assert!(said.contains("02:00:00:00:00:08 uses it"), "{said}");
    assert_eq!(code, 4);
}

#[test]
fn two_machines_that_look_for_one_address_at_a_time_hear_of_each_other() {
    let Some((here, there)) = wire() else { return };
    let (one, other) = (look(&here, &[VIP]), look(&there, &[VIP]));
    let (code, said) = end(one);
    assert!(
        said.contains(&format!("{PEER_MAC} also probes for it")),
        "{said}"
    );
    assert_eq!((code, end(other).0), (4, 4));
}

#[test]
fn an_ipv6_address_is_asked_for_by_neighbour_discovery_and_its_owner_answers() {
    let Some((here, there)) = wire() else { return };
    // What the peer puts on its link is its own at once, without looking for others.
    let (free, used) = (look(&here, &[VIP_V6]), look(&here, &[PEER_V6]));
    let (code, said) = end(free);
    assert_eq!(
        said,
        format!("{VIP_V6} is free: no answer to 3 neighbour solicitations on eth0\n")
    );
    assert_eq!(code, 0);
    let (code, said) = end(used);
    assert!(
        said.starts_with(&format!(
            "{PEER_V6} is used by another host on eth0:\n  {PEER_MAC} uses it\n"
        )),
        "{said}"
    );
    assert_eq!(code, 4);

    let own = format!("ip address add {VIP_V6}/128 dev eth0 nodad");
    here.sh(&own);
    let (code, said) = end(look(&here, &[VIP_V6]));
    assert_eq!(
        said,
        format!("{VIP_V6} is this node's own (eth0): no other host uses it\n")
    );
    assert_eq!(code, 0);
    there.sh(&own);
    let (code, said) = end(look(&here, &[VIP_V6, "-o", "json"]));
    let checked: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        checked,
        json!({"apiVersion": "windrow.dev/v1", "kind": "VipCheck", "address": VIP_V6, "link": "eth0",
            "state": "shared", "claims": [{"mac": PEER_MAC, "probes": false}]})
    );
    assert_eq!(code, 4);
}

#[test]
fn a_machine_that_is_about_to_take_an_ipv6_address_is_heard() {
    let Some((here, there)) = wire() else { return };
    let (one, other) = (look(&here, &[VIP_V6]), look(&there, &[VIP_V6]));
    let (code, said) = end(one);
    assert!(
        said.contains(&format!("{PEER_MAC} also probes for it")),
        "{said}"
    );
    assert_eq!((code, end(other).0), (4, 4));
}

#[test]
fn without_the_right_the_link_or_the_address_nothing_is_claimed() {
    let Some((here, there)) = wire() else { return };
    let program = env!("CARGO_BIN_EXE_windrow");
    let mut unprivileged = here.command("setpriv");
    unprivileged.args([
        "--bounding-set=-net_raw",
        "--inh-caps=-net_raw",
        program,
        "vip-check",
        VIP,
    ]);
    let done = unprivileged.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("need the right CAP_NET_RAW"), "{said}");
    assert_eq!(done.status.code(), Some(5));

    for (args, why, exit) in [
        (&["198.51.100.1"][..], "--interface", 5),
        (&[VIP, "--interface", "eth7"], "no Ethernet link eth7", 5),
        (&["2001:db8:1::1"], "--interface", 5),
        (&["2001:db8:1::1", "-o", "json"], r#""state": "unknown""#, 5),
        (&["fe80::1", "--interface", "eth0"], "cannot be a VIP", 5),
        (&[VIP, "--interface", "lo"], "no Ethernet link lo", 5),
        (
            &["--config", "/nowhere.yaml"],
            "/nowhere.yaml: cannot be read",
            64,
        ),
    ] {
        let (code, said) = end(look(&here, args));
        assert!(said.contains(why), "{args:?}: {said}");
        assert_eq!(code, exit, "{args:?}");
    }
    there.sh("ip link set eth0 down");
    here.sh(&until("eth0", "NO-CARRIER"));
    let (code, said) = end(look(&here, &[VIP]));
    assert!(said.contains("eth0 is down, or has no carrier"), "{said}");
    assert_eq!(code, 5);
}

#[test]
fn a_link_that_goes_down_meanwhile_makes_no_address_free() {
    let Some((here, there)) = wire() else { return };
    let looking = look(&here, &[VIP]);
    there.sh("ip link set eth0 down");
    here.sh(&until("eth0", "NO-CARRIER"));
    let (code, said) = end(looking);
    assert!(said.contains("could not be checked"), "{said}");
    assert_eq!(code, 5);
}

#[test]
fn the_address_comes_from_the_configuration_that_is_to_be_installed() {
    let Some((here, _there)) = wire() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    let look = |text: &str| {
        std::fs::write(&path, text).unwrap();
        end(look(&here, &["--config", path.to_str().unwrap()]))
    };
    let (code, said) = look("install:\n  mode: create\n  vipMode: static\n  vip: 192.0.2.2\n");
    assert!(said.starts_with("192.0.2.2 is used"), "{said}");
    assert_eq!(code, 4);
    let (code, said) = look("install:\n  mode: create\n  vip_mode: dhcp\n");
    assert!(said.contains("has no address in install.vip"), "{said}");
    assert_eq!(code, 64);
}
