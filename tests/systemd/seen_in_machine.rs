//! What a person sees on a booted machine: the console's unit on a terminal, the lines at the login prompt, the report.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use machine::{Builder, Machine, skipped};
use windrow::archive::Archive;

use crate::support::machine;
use crate::support::terminal;

const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget, namespace: default}\n";
const MANIFEST: &str = "/var/lib/rancher/rke2/server/manifests/widget.yaml";

#[test]
fn the_consoles_unit_draws_on_its_terminal_comes_back_and_has_no_rights() {
    if skipped() {
        return;
    }
    let machine = terminal::installed(Builder::node())
        .file(MANIFEST, WIDGET)
        .boot();
    machine.wait_unit("windrow.service", "active");
    let unit = terminal::start_console(&machine);
    let shows = |machine: &Machine, text: &str| {
        let screen = terminal::screen(machine);
        screen.iter().any(|row| row.contains(text))
    };
    machine.wait_until("it is drawn to its last line", |machine| {
        let screen = terminal::screen(machine);
        shows(machine, "widget.yaml") && screen.last().is_some_and(|row| !row.is_empty())
    });

    // Keys work, but none may end the console.
    terminal::press(&machine, "?");
    machine.wait_until("the help is drawn", |machine| {
        shows(machine, "another pane")
    });
    let before = machine.unit(&unit, "MainPID");
    terminal::press(&machine, "q\\003");

    let rights = machine.ok(&["cat", &format!("/proc/{before}/status")]);
    let field = |name: &str| {
        let line = rights.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_ne!(field("Uid:"), "0");
    assert_eq!(field("CapEff:"), "0000000000000000");
    assert_eq!(field("CapBnd:"), "0000000000000000");
    assert_eq!(field("NoNewPrivs:"), "1");
    assert_eq!(field("Seccomp:"), "2");
    let sees = format!("ls /proc/{before}/root/var/lib/rancher /proc/{before}/root/etc/rancher");
    let sees = machine.run(&["setpriv", "--reuid=65534", "sh", "-c", &sees]);
    assert!(!sees.status.success(), "{sees:?}");

    let drawn = terminal::output(&machine).len();
    machine.ok(&["systemctl", "kill", "--signal=KILL", &unit]);
    machine.wait_until("it is there again and draws", |machine| {
        let pid = machine.unit(&unit, "MainPID");
        pid != "0"
            && pid != before
            && terminal::output(machine).len() > drawn
            && shows(machine, "widget.yaml")
    });
    assert_eq!(machine.unit(&unit, "ActiveState"), "active");
}

#[test]
fn a_login_prompt_says_how_the_node_is_for_as_long_as_windrow_knows() {
    if skipped() {
        return;
    }
    let machine = Builder::node().file(MANIFEST, WIDGET).boot();
    machine.wait_unit("windrow.service", "active");
    // The machine has an /etc/issue: agetty looks beside it only.
    machine.sh("mkdir -p /etc/issue.d; ln -s /run/issue.d/windrow.issue /etc/issue.d/");
    machine.wait_until("agetty shows what the status says", |machine| {
        // The document itself: a container shows different units different boot ids.
        let status = machine.read("/run/windrow/status.json").unwrap();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let summary: String = status["summary"]
            .as_str()
            .unwrap()
            .chars()
            .take(20)
            .collect();
        let shown = machine.sh("script -qec '/sbin/agetty --show-issue' /dev/null");
        !summary.is_empty() && shown.contains(&summary) && shown.contains("windrow status")
    });
    let said = machine.read("/run/motd.d/windrow").unwrap();
    assert_eq!(said.lines().count(), 2, "{said}");
    machine.ok(&["systemctl", "stop", "windrow.service"]);
    let is_stale = |machine: &Machine, path: &str| {
        let text = machine.read(path).unwrap_or_default();
        text.contains("Windrow's daemon does not run") && text.contains("systemctl status windrow")
    };
    for path in ["/run/motd.d/windrow", "/run/issue.d/windrow.issue"] {
        assert!(is_stale(&machine, path), "{path}");
    }
    // However it ends.
    machine.ok(&["systemctl", "start", "windrow.service"]);
    machine.wait_until("it is shown again", |machine| {
        !is_stale(machine, "/run/motd.d/windrow")
    });
    machine.sh("mkdir -p /run/systemd/system/windrow.service.d; printf '[Service]\\nRestart=no\\n' > /run/systemd/system/windrow.service.d/t.conf; systemctl daemon-reload");
    machine.ok(&["systemctl", "kill", "--signal=KILL", "windrow.service"]);
    machine.wait_until("it says that it is no longer kept true", |machine| {
        is_stale(machine, "/run/motd.d/windrow")
    });
}

#[test]
fn a_report_of_a_booted_machine_has_its_journal_and_its_units() {
    if skipped() {
        return;
    }
    let machine = Builder::node().file(MANIFEST, WIDGET).boot();
    machine.wait_unit("windrow.service", "active");
    // journald keeps a line some time after it was written.
    machine.wait_journal(&["-u", "windrow.service"], "widget.yaml held");
    let output = machine.run(&["windrow", "report", "--output-file", "-"]);
    assert!(output.status.success(), "{output:?}");
    let archive = Archive::read(&output.stdout[..]).unwrap();
    let text = |path: &str| String::from_utf8(archive.files[path].clone()).unwrap();
    assert!(text("journal/windrow.log").contains("widget.yaml held"));
    assert!(text("host/mounts").contains("/proc"));
    let units = archive.json("units.json").unwrap();
    let windrow = units
        .as_array()
        .unwrap()
        .iter()
        .find(|unit| unit["Id"] == "windrow.service");
    assert_eq!(windrow.unwrap()["ActiveState"], "active");
    assert_eq!(archive.json("status.json").unwrap()["kind"], "Status");
    assert_eq!(
        archive.json("markers.json").unwrap()[0]["mark"]["by"],
        "windrow"
    );
}
