//! The preflight in front of Harvester's installer, by the recipe of docs/preflight.md, on a booted machine. Harvester's installer, curl and
//! the kernel's command line are played; the script, the program, the download over HTTP and the terminal's input are real.

use machine::{Builder, Machine, repository, skipped};

use crate::support::machine;

/// What Harvester's own script comes to: the installer, and it ends with what it ends with.
const START: &str = "#!/bin/bash -e\nexport TERM=linux\nharvester-installer\n";
/// `curl … -o FILE URL`
const CURL: &str = "#!/usr/bin/python3\nimport sys, urllib.request\n\
    urllib.request.urlretrieve(sys.argv[-1], sys.argv[-2])\n";
/// No machine has that disk.
const CONFIGURATION: &str = "scheme_version: 1\ntoken: never-shown\ninstall:\n  mode: create\n  device: /dev/nothere\n  \
    management_interface: {interfaces: [{name: lo}], method: dhcp}\n";

/// The live system of an ISO that was built by the recipe, with the configuration on a server and that on the command line.
fn iso(more_of_cmdline: &str) -> Machine {
    let tree = "/iso/package/harvester-os/files";
    let script = "packaging/harvester/installer/preflight-installer";
    let machine = Builder::new()
        .programs()
        .copy(script, &format!("/windrow/{script}"))
        .script(&format!("{tree}/usr/bin/start-installer.sh"), START)
        .script(
            "/usr/bin/harvester-installer",
            "#!/bin/sh\ntouch /run/installer-came\n",
        )
        .script("/usr/bin/curl", CURL)
        .file("/srv/harvester-config.yaml", CONFIGURATION)
        .boot();
    let page = std::fs::read_to_string(repository("docs/preflight.md")).expect("the page");
    let typed = page.lines().filter_map(|line| line.strip_prefix("$ "));
    let recipe: Vec<String> = typed
        .filter(|line| line.contains("package/harvester-os/files"))
        .map(|line| line.replace("WINDROW/", "/windrow/"))
        .collect();
    assert_eq!(recipe.len(), 2, "{recipe:?}");
    machine.sh(&format!("cd /iso && {}", recipe.join(" && ")));
    machine.sh(&format!("cp -a {tree}/. /"));
    machine.sh("systemd-run --working-directory=/srv python3 -m http.server 8080 --bind 127.0.0.1");
    let url = "http://127.0.0.1:8080/harvester-config.yaml";
    let fetch = format!("curl -o /tmp/fetched {url}");
    machine.wait_until("the server answers", |machine| {
        machine.run(&["sh", "-c", &fetch]).status.success()
    });
    machine.sh(&format!(
        "echo 'harvester.install.config_url={url} {more_of_cmdline}' >/tmp/cmdline && mount --bind /tmp/cmdline /proc/cmdline"
    ));
    // Its terminal: what is typed comes from one file, what it shows goes into another.
    machine.sh("mkfifo /run/keys && systemd-run --unit=installer sh -c 'start-installer.sh <>/run/keys >/run/screen 2>&1'");
    machine
}

fn screen(machine: &Machine) -> String {
    machine.read("/run/screen").unwrap_or_default()
}

#[test]
fn a_machine_that_cannot_become_the_node_waits_for_a_person_before_the_installer_comes() {
    if skipped() {
        return;
    }
    let machine = iso("");
    machine.wait_until("it waits for Enter", |machine| {
        screen(machine).contains("Press Enter to install all the same")
    });
    let shown = screen(&machine);
    assert!(shown.contains("/dev/nothere"), "{shown}");
    assert!(
        shown.contains("This host does not meet the requirements"),
        "{shown}"
    );
    assert!(!shown.contains("never-shown"), "{shown}");
    assert!(!machine.exists("/run/installer-came"), "{shown}");
    // The configuration holds the token of the cluster.
    assert!(!machine.exists("/run/windrow-preflight.yaml"));
    machine.sh("echo >/run/keys");
    machine.wait_until("the installer comes", |machine| {
        machine.exists("/run/installer-came")
    });
}

#[test]
fn the_installer_comes_by_itself_where_the_preflight_only_warns() {
    if skipped() {
        return;
    }
    let machine = iso("windrow.preflight=warn");
    machine.wait_until("the installer comes", |machine| {
        machine.exists("/run/installer-came")
    });
    let shown = screen(&machine);
    assert!(shown.contains("/dev/nothere"), "{shown}");
    assert!(!shown.contains("Press Enter"), "{shown}");
}
