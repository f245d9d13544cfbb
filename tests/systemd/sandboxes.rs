//! What code in the sandboxes of Windrow's root units can reach: another program runs with the settings of the unit.

use machine::{Builder, Machine, skipped};

use crate::support::machine;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
const VM: &str = "\
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: first, namespace: default}
spec: {runStrategy: Always, template: {spec: {domain: {devices: {}}}}}
";

/// What the commands below need.
const NODE: &str = "
mkdir -p /oem /etc/ssh /run/udev/rules.d /var/lib/kubelet /var/lib/cloud/scripts/per-boot /var/lib/prometheus/node-exporter /etc/rancher/rke2
echo PRIVATE >/etc/ssh/ssh_host_ed25519_key
chmod 0600 /etc/ssh/ssh_host_ed25519_key
cat >/usr/lib/windrow/connect <<'SCRIPT'
#!/usr/bin/python3
import socket, sys
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
SCRIPT
chmod 0755 /usr/lib/windrow/connect
systemd-run --quiet --unit=containerd --socket-property=ListenStream=/run/k3s/containerd/containerd.sock sleep infinity
";

/// Root can run each of these. Nothing in the sandboxes may.
const CLOSED: [&str; 12] = [
    "grep -q root: /etc/shadow",
    "grep -q root: /etc/shadow-",
    "grep -q PRIVATE /etc/ssh/ssh_host_ed25519_key",
    "/usr/lib/windrow/connect /run/systemd/private",
    "touch /run/systemd/system/attempt.service",
    "touch /run/udev/rules.d/99-attempt.rules",
    "touch /etc/systemd/system/attempt.service",
    "touch /usr/lib/windrow/attempt",
    "touch /var/lib/attempt",
    "touch /var/lib/kubelet/attempt",
    "touch /var/lib/cloud/scripts/per-boot/attempt",
    "mount -t tmpfs attempt /mnt",
];
/// Code in the daemon can do all of this, and most of it is enough to become root.
const OPEN: [&str; 7] = [
    "touch /var/lib/rancher/rke2/server/manifests/attempt.yaml",
    "/usr/lib/windrow/connect /run/k3s/containerd/containerd.sock",
    "kill -0 1",
    "touch /etc/rancher/rke2/config.yaml",
    "touch /oem/90_attempt.yaml",
    "touch /var/lib/prometheus/node-exporter/attempt.prom",
    "systemd-run --quiet --wait touch /root/attempt",
];
/// The first of these are open to the fail-safe too.
const OPEN_TO_THE_FAILSAFE: usize = 3;

/// A shell script that prints those of the commands that succeed.
fn attempts(commands: &[&str]) -> String {
    let lines = commands
        .iter()
        .map(|command| format!("if {command} >/dev/null 2>&1; then echo '{command}'; fi\n"));
    lines.collect()
}

/// The commands that succeed with the sandbox of a unit.
fn reached(machine: &Machine, unit: &str, commands: &[&str]) -> Vec<String> {
    const OF_THE_PROGRAM: [&str; 10] = [
        "After=",
        "Before=",
        "Exec",
        "NotifyAccess=",
        "OnFailure=",
        "Restart",
        "StartLimit",
        "Timeout",
        "Type=",
        "WatchdogSec=",
    ];
    let text = machine
        .read(&format!("/usr/lib/systemd/system/{unit}"))
        .expect("a unit");
    let sandbox = text
        .lines()
        .filter(|line| !OF_THE_PROGRAM.iter().any(|name| line.starts_with(name)))
        .map(|line| format!("{line}\n"));
    let program = "[Service]\nType=oneshot\nExecStart=/bin/sh /usr/lib/windrow/attempts\n\
                   StandardOutput=truncate:/run/reached\n";
    machine.write("/usr/lib/windrow/attempts", &attempts(commands));
    machine.write(
        "/run/systemd/system/attempts.service",
        &(sandbox.collect::<String>() + program),
    );
    machine.sh("systemctl daemon-reload; systemctl start attempts.service");
    let lines = machine.read("/run/reached").expect("what was reached");
    lines.lines().map(str::to_owned).collect()
}

#[test]
fn what_code_in_a_root_units_sandbox_can_reach_is_what_the_threat_model_names() {
    if skipped() {
        return;
    }
    let machine = Builder::node().boot();
    machine.wait_unit("windrow.service", "active");
    machine.sh(NODE);
    machine.sh(&format!("mkdir -p {MANIFESTS}"));
    let commands = [&CLOSED[..], &OPEN].concat();

    // A hidden file can still be replaced: a password is changed while the daemon runs.
    machine.sh("echo root:changed | chpasswd");

    // Outside of the sandboxes root runs all of them, so a failure in a sandbox is the work of the sandbox.
    let by_root = machine.sh(&attempts(&commands));
    assert_eq!(by_root.lines().collect::<Vec<_>>(), commands);
    machine.sh("umount /mnt");

    assert_eq!(reached(&machine, "windrow.service", &commands), OPEN);
    assert_eq!(
        reached(&machine, "windrow-failsafe.service", &commands),
        OPEN[..OPEN_TO_THE_FAILSAFE]
    );
}

#[test]
fn the_sandbox_follows_a_data_directory_that_is_mounted_late_or_replaced() {
    if skipped() {
        return;
    }
    let machine = Builder::node()
        .file(
            "/usr/lib/windrow/conf.d/10-image.yaml",
            "platform: harvester\n",
        )
        .disabled("rke2-server.service")
        .boot();
    machine.wait_unit("windrow.service", "active");
    let hold = |what: &str, name: &str| {
        machine.write(&format!("{MANIFESTS}/{name}.yaml"), VM);
        machine.wait_until(format!("a file is held in {what}"), |machine| {
            machine.exists(&format!("{MANIFESTS}/{name}.yaml.skip"))
        });
    };
    hold("a directory that did not exist at the start", "first");
    machine.sh("mount -t tmpfs late /var/lib/rancher/rke2");
    hold("a late file system of RKE2", "second");
    machine.sh("mount -t tmpfs late /var/lib/rancher");
    hold("a late file system of Rancher", "third");
    machine.sh("mv /var/lib/rancher/rke2 /var/lib/rancher/former");
    hold("a replaced directory", "fourth");
}
