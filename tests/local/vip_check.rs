//! `windrow vip-check` between two network namespaces: the kernel's own ARP and neighbour discovery answer, or do not.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use windrow::archive::{Archive, OWN_NODE};
use windrow_harvester::incidents::{OwnNode, kinds, look_at_own};
use windrow_harvester::objects::{KindListing, Objects};

/// On our side of the wire; the other side has `PEER`.
const OURS: &str = "192.0.2.1";
const PEER: &str = "192.0.2.2";
const VIP: &str = "192.0.2.10";
const PEER_MAC: &str = "02:00:00:00:00:07";
const OURS_V6: &str = "2001:db8::1";
const PEER_V6: &str = "2001:db8::2";
const VIP_V6: &str = "2001:db8::10";

/// A network namespace, which lives as long as its process.
struct Namespace(Child);

impl Namespace {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args([
            "--net",
            "sh",
            "-c",
            "ip link set lo up && echo ready && exec cat",
        ]);
        let mut holder = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let said = holder.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(holder)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", self.0.id()))
            .arg(program);
        command
    }

    fn sh(&self, script: &str) {
        let done = self.command("sh").args(["-ec", script]).output().unwrap();
        assert!(done.status.success(), "{script}: {done:?}");
    }

    /// Starts `windrow vip-check` here.
    fn look(&self, args: &[&str]) -> Child {
        let mut command = self.command(env!("CARGO_BIN_EXE_windrow"));
        command.arg("vip-check").args(args);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two machines on one wire. `None`, after a line that says so, where namespaces are not allowed.
fn wire() -> Option<(Namespace, Namespace)> {
    let allowed = Command::new("unshare")
        .args(["--net", "ip", "link"])
        .output();
    if !allowed.is_ok_and(|done| done.status.success()) {
        eprintln!(
            "skipped: two machines on a wire need the right to make network namespaces, and ip"
        );
        return None;
    }
    let (here, there) = (Namespace::new(), Namespace::new());
    here.sh(&format!(
        "ip link add eth0 type veth peer name eth0 netns {} address {PEER_MAC}
         ip address add {OURS}/24 dev eth0; ip address add {OURS_V6}/64 dev eth0 nodad; ip link set eth0 up",
        there.0.id()
    ));
    there.sh(&format!(
        "ip address add {PEER}/24 dev eth0; ip address add {PEER_V6}/64 dev eth0 nodad; ip link set eth0 up"
    ));
    // The kernel finds out a moment later.
    for side in [&here, &there] {
        side.sh(&until("state UP"));
    }
    Some((here, there))
}

/// Waits until the kernel says this of the link.
fn until(state: &str) -> String {
    let says = format!("ip link show eth0 | grep -q '{state}'");
    format!("timeout 300 sh -c \"until {says}; do sleep 0.05; done\"")
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
    let (free, used) = (here.look(&[VIP]), here.look(&[PEER]));
    let (code, said) = end(free);
    assert_eq!(
        said,
        format!("{VIP} is free: no answer to 3 ARP probes on eth0\n")
    );
    assert_eq!(code, 0);
    let (code, said) = end(used);
    assert!(
        said.starts_with(&format!(
            "{PEER} is used by another on eth0:\n  {PEER_MAC} has it\n"
        )),
        "{said}"
    );
    assert_eq!(code, 4);
}

#[test]
fn our_own_address_is_told_from_one_that_somebody_else_has_too() {
    let Some((here, there)) = wire() else { return };
    here.sh(&format!("ip address add {VIP}/32 dev eth0"));
    let (code, said) = end(here.look(&[VIP]));
    assert_eq!(
        said,
        format!("{VIP} is this node's own (eth0): no other machine has it\n")
    );
    assert_eq!(code, 0);
    there.sh(&format!("ip address add {VIP}/32 dev eth0"));
    let (code, said) = end(here.look(&[VIP]));
    assert!(
        said.contains("another has it too") && said.contains(PEER_MAC),
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
    let mut looking = here.look(&[VIP, "--interface", "eth0"]);
    while looking.try_wait().unwrap().is_none() {
        there.sh("ip link set eth0 address 02:00:00:00:00:08; ip link set eth0 address 02:00:00:00:00:07");
    }
    let (code, said) = end(looking);
    assert!(said.contains("02:00:00:00:00:08 has it"), "{said}");
    assert_eq!(code, 4);
}

#[test]
fn two_machines_that_look_for_one_address_at_a_time_hear_of_each_other() {
    let Some((here, there)) = wire() else { return };
    let (one, other) = (here.look(&[VIP]), there.look(&[VIP]));
    let (code, said) = end(one);
    assert!(
        said.contains(&format!("{PEER_MAC} probes for it too")),
        "{said}"
    );
    assert_eq!((code, end(other).0), (4, 4));
}

#[test]
fn an_ipv6_address_is_asked_for_by_neighbour_discovery_and_its_owner_answers() {
    let Some((here, there)) = wire() else { return };
    // What the peer puts on its link is its own at once, without looking for others.
    let (free, used) = (here.look(&[VIP_V6]), here.look(&[PEER_V6]));
    let (code, said) = end(free);
    assert_eq!(
        said,
        format!("{VIP_V6} is free: no answer to 3 neighbour solicitations on eth0\n")
    );
    assert_eq!(code, 0);
    let (code, said) = end(used);
    assert!(
        said.starts_with(&format!(
            "{PEER_V6} is used by another on eth0:\n  {PEER_MAC} has it\n"
        )),
        "{said}"
    );
    assert_eq!(code, 4);

    let own = format!("ip address add {VIP_V6}/128 dev eth0 nodad");
    here.sh(&own);
    let (code, said) = end(here.look(&[VIP_V6]));
    assert_eq!(
        said,
        format!("{VIP_V6} is this node's own (eth0): no other machine has it\n")
    );
    assert_eq!(code, 0);
    there.sh(&own);
    let (code, said) = end(here.look(&[VIP_V6, "-o", "json"]));
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
    let (one, other) = (here.look(&[VIP_V6]), there.look(&[VIP_V6]));
    let (code, said) = end(one);
    assert!(
        said.contains(&format!("{PEER_MAC} probes for it too")),
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
        (&["fe80::1", "--interface", "eth0"], "is no VIP", 5),
        (&[VIP, "--interface", "lo"], "no Ethernet link lo", 5),
        (
            &["--config", "/nowhere.yaml"],
            "/nowhere.yaml: cannot be read",
            64,
        ),
    ] {
        let (code, said) = end(here.look(args));
        assert!(said.contains(why), "{args:?}: {said}");
        assert_eq!(code, exit, "{args:?}");
    }
    there.sh("ip link set eth0 down");
    here.sh(&until("NO-CARRIER"));
    let (code, said) = end(here.look(&[VIP]));
    assert!(said.contains("eth0 is down, or has no carrier"), "{said}");
    assert_eq!(code, 5);
}

#[test]
fn a_link_that_goes_down_meanwhile_makes_no_address_free() {
    let Some((here, there)) = wire() else { return };
    let looking = here.look(&[VIP]);
    there.sh("ip link set eth0 down");
    here.sh(&until("NO-CARRIER"));
    let (code, said) = end(looking);
    assert!(said.contains("could not be looked for"), "{said}");
    assert_eq!(code, 5);
}

#[test]
fn the_address_comes_from_the_configuration_that_is_to_be_installed() {
    let Some((here, _there)) = wire() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    let look = |text: &str| {
        std::fs::write(&path, text).unwrap();
        end(here.look(&["--config", path.to_str().unwrap()]))
    };
    let (code, said) = look("install:\n  mode: create\n  vipMode: static\n  vip: 192.0.2.2\n");
    assert!(said.starts_with("192.0.2.2 is used"), "{said}");
    assert_eq!(code, 4);
    let (code, said) = look("install:\n  mode: create\n  vip_mode: dhcp\n");
    assert!(said.contains("has no address in install.vip"), "{said}");
    assert_eq!(code, 64);
}

const SECOND_MAC: &str = "02:00:00:00:00:08";

/// What the node on our side sees of its network, as `windrow report` has it.
fn own_node(here: &Namespace) -> OwnNode {
    let root = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/proc", root.path().join("proc")).unwrap();
    let mut report = here.command(env!("CARGO_BIN_EXE_windrow"));
    report
        .arg("--root")
        .arg(root.path())
        .args(["report", "-o", "-"]);
    let done = report.output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let own = Archive::read(&done.stdout[..]).unwrap().json(OWN_NODE);
    serde_json::from_value(own.unwrap()).unwrap()
}

/// Is the VIP at an address that is no node's, in a cluster of both sides?
fn conflicts(own: &OwnNode, more: &[Value]) -> bool {
    let mut objects = Objects::default();
    for kind in kinds() {
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
    let looked = look_at_own(own, &objects, jiff::Timestamp::now());
    let mut codes = looked.into_iter().flat_map(|one| one.found.unwrap());
    codes.any(|one| one.code.as_str() == "vip-conflict")
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
