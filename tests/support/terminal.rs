//! A terminal of 80x25 in a machine: what Windrow's console writes to it is read back as the screen that a person sees.

use std::num::NonZeroU16;

use super::machine::{Builder, Machine};

const ROWS: NonZeroU16 = NonZeroU16::new(25).expect("rows");
const COLUMNS: NonZeroU16 = NonZeroU16::new(80).expect("columns");
const PROGRAM: &str = "/usr/lib/terminal.py";
const OUTPUT: &str = "/run/terminal.out";
/// Its output is in /run/terminal.out, and /run/terminal.in is its keyboard. It stays when the unit hangs it up, as a
/// real one does.
const SOURCE: &str = r#"
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

/// Brings the terminal and the console's unit.
pub(crate) fn installed(node: Builder) -> Builder {
    node.copy(
        "systemd/windrow-console@.service",
        "/usr/lib/systemd/system/windrow-console@.service",
    )
    .file(PROGRAM, SOURCE)
}

/// Starts the console's unit on a terminal; returns the unit's name.
pub(crate) fn start_console(machine: &Machine) -> String {
    machine.sh(&format!(
        "systemd-run --quiet --unit=terminal python3 {PROGRAM}"
    ));
    let name = machine.wait_for("the terminal is there", |machine| {
        machine.read("/run/terminal.name")
    });
    let instance = name.trim_start_matches("/dev/").replace('/', "-");
    let unit = format!("windrow-console@{instance}.service");
    machine.ok(&["systemctl", "start", &unit]);
    unit
}

/// Presses keys, as `printf` writes them.
pub(crate) fn press(machine: &Machine, keys: &str) {
    machine.sh(&format!("printf '{keys}' > /run/terminal.in"));
}

/// All that was written to it.
pub(crate) fn output(machine: &Machine) -> Vec<u8> {
    std::fs::read(machine.inside(OUTPUT)).unwrap_or_default()
}

/// The screen's rows, without what is blank at their ends.
pub(crate) fn screen(machine: &Machine) -> Vec<String> {
    let mut parser = vt100::Parser::new(ROWS, COLUMNS, 0);
    parser.process(&output(machine));
    parser
        .screen()
        .rows(0, COLUMNS.get())
        .map(|row| row.trim_end().to_owned())
        .collect()
}
