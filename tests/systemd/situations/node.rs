//! What the machine itself does to a boot.

use super::outlets::compare;
use super::*;

/// Started, and never done: what waits for the network waits and nothing goes on.
const NEVER_DONE: &str = "[Service]\nExecStart=\nExecStart=/bin/sleep infinity\n";
const NO_ROUTE: &str = "[Service]\nExecStart=\n\
    ExecStart=/sbin/ip link add eth0 type veth peer name nowhere\n\
    ExecStart=/sbin/ip address add 192.0.2.10/24 dev eth0\n\
    ExecStart=/sbin/ip link set nowhere up\n\
    ExecStart=/sbin/ip link set eth0 up\n";

#[test]
fn a_network_that_never_comes_up() {
    let Some(node) = bare_node() else { return };
    let machine = boot(node.drop_in("network.service", NEVER_DONE));
    wait_readiness(&machine, "SettingUp");
    compare(
        &machine,
        "The network never comes up",
        "The unit that sets up the network hangs. RKE2 waits for it and does not start.",
    );
}

#[test]
fn a_network_without_a_default_route() {
    // RKE2 itself does not start without one.
    let Some(node) = bare_node() else { return };
    let machine = boot(
        node.drop_in("network.service", NO_ROUTE)
            .file("/etc/rke2-wait", ""),
    );
    wait_status(&machine, "no default route", |status| {
        let probes = status["probes"].as_array().cloned().unwrap_or_default();
        probes
            .iter()
            .any(|probe| probe["id"] == "default-route" && probe["state"] == "failing")
    });
    compare(
        &machine,
        "There is no default route",
        "The interface has an address, but the host has no default route.",
    );
}

#[test]
fn a_node_that_was_rebooted() {
    let Some(node) = node() else { return };
    let mut machine = ready(node);
    machine.wait_until("the console has heard that it is Ready", |machine| {
        !receiver::events(machine).is_empty()
    });
    machine.write("/etc/systemd/system/rke2-server.service.d/slow.conf", SLOW);
    // The first boot installed the node, and is no measure for later ones.
    machine.reboot();
    watched(&machine);
    wait_reason(&machine, "rke-service-down");
    machine.write("/run/rke2-may-start", "");
    rest_of_rke2::start(&machine);
    wait_readiness(&machine, "Ready");
    let (boot, memory) = (boot_id(&machine), node_memory(&machine));
    assert_eq!(memory["readyBoot"], boot, "{memory}");
    machine.reboot();
    watched(&machine);
    wait_reason(&machine, "rke-service-down");
    compare(
        &machine,
        "The node was rebooted",
        "It was Ready before the reboot. RKE2 has been started again, but is not ready yet. Windrow knows the duration of the last boot.",
    );
    let status = status(&machine);
    assert_eq!(status["firstReady"], Value::Null, "{status}");
    let phases = status["phases"].as_array().cloned().unwrap_or_default();
    let api = phases.iter().find(|phase| phase["name"] == "api");
    let expected = &api.expect("the phase api")["expected"];
    let memory = node_memory(&machine);
    assert_eq!(expected["from"], "earlierBoots", "{expected}: {memory}");
    assert_eq!(expected["usual"]["boots"], 1, "{expected}");
    assert_ne!(boot_id(&machine), boot);
    assert_eq!(memory["bootstrap"]["boot"], boot_id(&machine), "{memory}");
    assert_eq!(memory["readyBoot"], boot, "{memory}");
}

/// RKE2 that waits until the test lets it start, in each boot.
const SLOW: &str = "[Service]\n\
    ExecStartPre=/bin/sh -c 'until test -e /run/rke2-may-start; do sleep 0.1; done'\n";

fn boot_id(machine: &Machine) -> String {
    let id = machine.read("/run/boot-id").expect("the boot's id");
    id.trim().to_owned()
}

/// What Windrow remembers of the node.
fn node_memory(machine: &Machine) -> Value {
    let ledger = machine.read("/var/lib/rancher/windrow/ledger.json");
    let ledger: Value = serde_json::from_str(&ledger.expect("the ledger")).expect("JSON");
    ledger["node"].clone()
}

#[test]
fn no_room_left_on_the_disk() {
    let Some(node) = node() else { return };
    // No disk of a test has that much.
    let limit = "probes: {builtin: {disk-space: {limit: 90000GiB}}}\n";
    let machine = boot(node.file("/etc/windrow/conf.d/60-disk.yaml", limit));
    rest_of_rke2::start(&machine);
    wait_readiness(&machine, "Degraded");
    compare(
        &machine,
        "The disk is nearly full",
        "The disk has less free space than `disk-space` requires (a tenth; this test sets it higher).",
    );
}

#[test]
fn rke2_is_not_installed() {
    let Some(node) = bare_node() else { return };
    let machine = boot(
        node.disabled("rke2-server.service")
            .removed("/usr/lib/systemd/system/rke2-server.service"),
    );
    wait_readiness(&machine, "SettingUp");
    compare(
        &machine,
        "RKE2 is not installed",
        "RKE2 has no unit. The installation is not finished, or has failed.",
    );
}

#[test]
fn rke2_crashes_again_and_again() {
    let Some(node) = bare_node() else { return };
    let machine = boot(node.script(
        "/usr/local/bin/rke2",
        "#!/bin/sh\necho 'level=fatal msg=\"token is wrong\"'\nexit 1\n",
    ));
    wait_reason(&machine, "rke-crash-loop");
    compare(
        &machine,
        "RKE2 crashes repeatedly",
        "Its unit exits with an error one second after each start.",
    );
}

/// timedate1 as systemd serves it where no time server answers. The clock of a machine in a container is the host's, so
/// this one is played.
struct UnsynchronisedClock;

#[zbus::interface(name = "org.freedesktop.timedate1")]
impl UnsynchronisedClock {
    #[zbus(property, name = "NTPSynchronized")]
    fn ntp_synchronized(&self) -> bool {
        false
    }
}

#[test]
fn a_clock_that_is_not_synchronised() {
    let Some(node) = node() else { return };
    // A probe that passes is asked seldom, and this one has to change.
    let often = "probes: {builtin: {clock: {period: 5s}}}\n";
    let machine = ready(node.file("/etc/windrow/conf.d/60-clock.yaml", often));
    let bus = machine.inside("/run/dbus/system_bus_socket");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _served = runtime.block_on(async {
        let bus = format!("unix:path={}", bus.display());
        zbus::connection::Builder::address(bus.as_str())
            .serve_at("/org/freedesktop/timedate1", UnsynchronisedClock)
            .name("org.freedesktop.timedate1")
            .build()
            .await
            .expect("the machine's bus")
    });
    wait_status(&machine, "the clock", |status| {
        let probes = status["probes"].as_array().cloned().unwrap_or_default();
        probes
            .iter()
            .any(|probe| probe["id"] == "clock" && probe["state"] == "failing")
    });
    wait_readiness(&machine, "Degraded");
    compare(
        &machine,
        "The clock is not synchronised",
        "No time server has answered since the boot.",
    );
}
