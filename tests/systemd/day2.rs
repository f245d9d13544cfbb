//! Windrow laid onto a Harvester node that runs already (`packaging/harvester/day2`): as under a Plan of system-upgrade-controller, with
//! the node's root at /host and a /usr that nobody can write to.

use std::path::Path;
use std::process::Command;

use machine::{Builder, Machine, program, repository, skipped};

use crate::support::machine;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
const VM: &str = "\
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: first, namespace: default}
spec: {runStrategy: Always, template: {spec: {domain: {devices: {}}}}}
";
const CONFIG_MAP: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
";
/// Where the node's files lie that a person or Harvester has put there.
const KEPT: &str = "find /etc /opt /usr/local /oem -not -path '*/windrow-orphans*' | sort";

/// The node's root as a pod has it: what is unmounted there stays mounted on the node.
const HOST: &str = "mkdir -p /host && mount --rbind / /host && mount --make-rslave /host";

/// What the image has, in a directory: the script, and the overlay.
fn image(directory: &Path) {
    let inventory = directory.join("inventory");
    std::fs::create_dir(&inventory).expect("a directory");
    let contents = std::fs::read_to_string(repository("packaging/contents")).expect("the list");
    for line in contents.lines() {
        if let Some(name) = line.split("INVENTORY/").nth(1) {
            let name = name.split_whitespace().next().expect("a name");
            std::fs::write(inventory.join(name), "").expect("a file");
        }
    }
    let staged = Command::new(repository("packaging/stage"))
        .arg(directory.join("image/tree"))
        .arg(program().parent().expect("a directory"))
        .arg(&inventory)
        .output()
        .expect("packaging/stage");
    assert!(staged.status.success(), "{staged:?}");
    std::fs::copy(
        repository("packaging/harvester/day2/install"),
        directory.join("image/install"),
    )
    .expect("the script");
}

/// What a Job of the Plan does.
fn job(machine: &Machine, what: &str) -> String {
    machine.sh(&format!(
        "/windrow/tree/usr/bin/windrow installer {what} 2>&1"
    ))
}

fn applied(machine: &Machine, name: &str) -> bool {
    machine
        .read("/var/lib/rancher/rke2/applied")
        .is_some_and(|names| names.lines().any(|line| line == name))
}

/// The name is taken beside the start, once the bus has read the policy.
fn on_the_bus(machine: &Machine) {
    machine.wait_until("the daemon has its name", |machine| {
        let status = machine.run(&["busctl", "status", "dev.windrow.Agent1"]);
        status.status.success()
    });
}

fn held(machine: &Machine) -> bool {
    machine.exists(&format!("{MANIFESTS}/vm.yaml.skip"))
}

#[test]
fn a_plan_brings_windrow_to_a_running_node_it_outlives_an_upgrade_and_is_taken_away_whole() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    image(directory.path());
    let mut machine = Builder::rke2()
        .bind(directory.path().join("image"), "/windrow")
        .enabled("rke2-server.service")
        .file(&format!("{MANIFESTS}/settings.yaml"), CONFIG_MAP)
        .file(
            "/etc/rancher/windrow/conf.d/20-site.yaml",
            "platform: harvester\n",
        )
        .file("/etc/rancher/rke2/config.yaml.d/40-rancherd.yaml", "{}\n")
        .file("/oem/90_custom.yaml", "name: Harvester\n")
        .boot();
    machine.wait_unit("rke2-server.service", "active");
    let before = machine.sh(KEPT);
    // The image's /usr is read-only, and /usr/local persists.
    machine.sh(
        "mkdir -p /run/local && mount --bind /usr/local /run/local && mount --bind /usr /usr && \
         mount -o remount,bind,ro /usr && mount --bind /run/local /usr/local",
    );

    machine.sh(HOST);
    // The power goes while the first file is laid.
    machine.sh("mkdir -p /opt/windrow && echo /opt/windrow/bin/windrow >/opt/windrow/laying");
    let said = job(&machine, "");
    assert!(said.contains(" runs"), "{said}");
    assert_eq!(machine.sh("ls /opt/windrow"), "bin\nlaid\nlib");
    assert_eq!(machine.unit("windrow.service", "ActiveState"), "active");
    assert_eq!(
        machine.sh("readlink -f $(command -v windrow)"),
        "/opt/windrow/bin/windrow"
    );
    let drop_ins = machine.unit("rke2-server.service", "DropInPaths");
    assert!(drop_ins.contains("50-windrow-gates.conf"), "{drop_ins}");
    on_the_bus(&machine);
    machine.sh(&format!("cat >/root/vm.yaml <<'END'\n{VM}END\n"));
    machine.ok(&["windrow", "add", "/root/vm.yaml"]);
    assert!(held(&machine) && !applied(&machine, "vm.yaml"));

    // A newer one: another daemon, the same hold.
    let pid = machine.unit("windrow.service", "MainPID");
    job(&machine, "install");
    assert_ne!(machine.unit("windrow.service", "MainPID"), pid);
    assert!(held(&machine));

    // What an upgrade of Harvester leaves: of /etc only what persists.
    machine.sh("umount -l /host; rm -r /etc/dbus-1/system.d/dev.windrow.Agent1.conf");
    machine.reboot();
    machine.wait_unit("rke2-server.service", "active");
    assert_eq!(machine.unit("windrow.service", "ActiveState"), "active");
    let ready = machine.monotonic("windrow.service", "ActiveEnterTimestamp");
    let rke2 = machine.monotonic("rke2-server.service", "ExecMainStartTimestamp");
    assert!(ready > 0 && ready <= rke2, "{ready} {rke2}");
    on_the_bus(&machine);
    assert!(held(&machine) && !applied(&machine, "vm.yaml"));

    machine.sh(HOST);
    let said = job(&machine, "remove");
    assert!(said.contains("lifted vm.yaml.skip"), "{said}");
    machine.wait_until("RKE2 applies what was held", |machine| {
        applied(machine, "vm.yaml")
    });
    assert_eq!(machine.sh(KEPT), before);
    let units = machine.sh("systemctl list-unit-files --no-legend 'windrow*' || true");
    assert_eq!(units, "");
    // Once more is no error.
    assert!(job(&machine, "remove").contains("nothing was laid here"));
}

#[test]
fn neither_an_image_with_windrow_in_it_nor_a_unit_of_the_administrators_is_touched() {
    let directory = tempfile::tempdir().expect("a directory");
    image(directory.path());
    let install = |host: &Path| {
        Command::new(directory.path().join("image/install"))
            .env("WINDROW_HOST", host)
            .output()
            .expect("the script")
    };
    let files = |host: &Path| {
        let found = Command::new("find").arg(host).output().expect("find");
        String::from_utf8(found.stdout).expect("names")
    };

    let theirs = directory.path().join("theirs");
    let units = theirs.join("etc/systemd/system");
    std::fs::create_dir_all(&units).expect("a directory");
    std::os::unix::fs::symlink("/dev/null", units.join("windrow.service")).expect("a link");
    let before = files(&theirs);
    let refused = install(&theirs);
    assert_eq!(refused.status.code(), Some(73), "{refused:?}");
    assert_eq!(files(&theirs), before);

    let baked = directory.path().join("baked");
    std::fs::create_dir_all(baked.join("usr/bin")).expect("a directory");
    std::fs::write(baked.join("usr/bin/windrow"), "").expect("a file");
    let before = files(&baked);
    let said = install(&baked);
    assert!(said.status.success(), "{said:?}");
    assert_eq!(files(&baked), before);
}
