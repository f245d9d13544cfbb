//! What a person sees on a booted machine: the console's unit on a terminal, the lines at the login prompt, the report.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use machine::{Builder, Machine, skipped};
use windrow::archive::Archive;

use crate::support::machine;

/// A terminal of 80x25 on the machine: its output is in /run/terminal.out, and /run/terminal.in is its keyboard. It
/// stays when the unit hangs it up, as a real one does.
const TERMINAL: &str = r#"
import fcntl, os, select, struct, termios
master, slave = os.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 25, 80, 0, 0))
os.mkfifo('/run/terminal.in')
keys = os.open('/run/terminal.in', os.O_RDWR)
out = open('/run/terminal.out', 'wb', 0)
with open('/run/terminal.new', 'w') as name:
    name.write(os.ttyname(slave))
os.rename('/run/terminal.new', '/run/terminal.name')
while True:
    ready, _, _ = select.select([master, keys], [], [])
    if keys in ready:
        os.write(master, os.read(keys, 100))
    if master in ready:
        try:
            out.write(os.read(master, 65536))
        except OSError:
            pass
"#;

const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget, namespace: default}\n";
const MANIFEST: &str = "/var/lib/rancher/rke2/server/manifests/widget.yaml";

fn painted(machine: &Machine) -> String {
    machine.read("/run/terminal.out").unwrap_or_default()
}

/// The last row and column at which something was painted: `ESC [ row ; column H`.
fn extent(painted: &str) -> (u32, u32) {
    painted
        .split("\u{1b}[")
        .filter_map(|part| part.split_once('H')?.0.split_once(';'))
        .filter_map(|(row, column)| Some((row.parse().ok()?, column.parse().ok()?)))
        .fold((0, 0), |(rows, columns), (row, column): (u32, u32)| {
            (rows.max(row), columns.max(column))
        })
}

#[test]
fn the_consoles_unit_draws_on_its_terminal_comes_back_and_has_no_rights() {
    if skipped() {
        return;
    }
    let machine = Builder::node()
        .copy(
            "systemd/windrow-console@.service",
            "/usr/lib/systemd/system/windrow-console@.service",
        )
        .file(MANIFEST, WIDGET)
        .file("/usr/lib/terminal.py", TERMINAL)
        .boot();
    machine.wait_unit("windrow.service", "active");
    machine.sh("systemd-run --quiet --unit=terminal python3 /usr/lib/terminal.py");
    let name = machine.wait_for("the terminal is there", |machine| {
        machine.read("/run/terminal.name")
    });
    let instance = name.trim_start_matches("/dev/").replace('/', "-");
    let unit = format!("windrow-console@{instance}.service");
    machine.ok(&["systemctl", "start", &unit]);
    machine.wait_until("it is drawn", |machine| {
        painted(machine).contains("widget.yaml")
    });
    let (rows, columns) = extent(&painted(&machine));
    assert!(
        (20..=25).contains(&rows) && columns <= 80,
        "{rows}x{columns}"
    );

    // Keys work, but none may end the console.
    machine.sh("printf '?' > /run/terminal.in");
    machine.wait_until("the help is drawn", |machine| {
        painted(machine).contains("another pane") || painted(machine).contains("Help")
    });
    let before = machine.unit(&unit, "MainPID");
    machine.sh("printf 'q\\003' > /run/terminal.in");

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

    let drawn = painted(&machine).len();
    machine.ok(&["systemctl", "kill", "--signal=KILL", &unit]);
    machine.wait_until("it is there again and draws", |machine| {
        let pid = machine.unit(&unit, "MainPID");
        pid != "0"
            && pid != before
            && painted(machine)
                .get(drawn..)
                .is_some_and(|new| new.contains("widget.yaml"))
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
    for path in ["/run/motd.d/windrow", "/run/issue.d/windrow.issue"] {
        assert!(!machine.exists(path), "{path}");
    }
    // However it ends.
    machine.ok(&["systemctl", "start", "windrow.service"]);
    let there = |machine: &Machine| machine.exists("/run/motd.d/windrow");
    machine.wait_until("it is shown again", there);
    machine.sh("mkdir -p /run/systemd/system/windrow.service.d; printf '[Service]\\nRestart=no\\n' > /run/systemd/system/windrow.service.d/t.conf; systemctl daemon-reload");
    machine.ok(&["systemctl", "kill", "--signal=KILL", "windrow.service"]);
    machine.wait_until("what is no longer kept true is gone", |machine| {
        !there(machine)
    });
}

#[test]
fn a_report_of_a_booted_machine_has_its_journal_and_its_units() {
    if skipped() {
        return;
    }
    let machine = Builder::node().file(MANIFEST, WIDGET).boot();
    machine.wait_unit("windrow.service", "active");
    let output = machine.run(&["windrow", "report", "-o", "-"]);
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
