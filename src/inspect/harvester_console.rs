//! The terminal of Harvester's own console on this node, and drop-ins that Harvester has left on others.

use std::io;

use windrow_preflight::console::{KernelConsole, console_unit};

use crate::files::read_text;
use crate::fs;
use crate::layout::Layout;

const TERMINALS: &str = "/sys/class/tty";
/// The directory of Harvester's drop-ins. It persists.
const UNITS: &str = "/etc/systemd/system";
const PROGRAM: &str = "start-installer.sh";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsoleUnits {
    /// The unit of its terminal; `None` if none of the kernel's consoles is suitable.
    pub(crate) chosen: Option<String>,
    /// Units that would start it too, because of a drop-in from before the command line was changed.
    pub(crate) left: Vec<String>,
}

/// Looks at the kernel's consoles and at Harvester's drop-ins.
///
/// # Errors
///
/// The kernel's consoles are not listed.
pub(crate) fn console_units(layout: &Layout) -> io::Result<ConsoleUnits> {
    let listed = read_small(layout, &format!("{TERMINALS}/console/active"))?;
    let consoles: Vec<KernelConsole> = listed
        .split_whitespace()
        .map(|name| KernelConsole {
            kind: read_small(layout, &format!("{TERMINALS}/{name}/type")).ok(),
            name: name.to_owned(),
        })
        .collect();
    let chosen = console_unit(&consoles, std::env::consts::ARCH);
    let mut left = with_drop_in(layout);
    left.retain(|unit| Some(unit) != chosen.as_ref());
    Ok(ConsoleUnits { chosen, left })
}

fn read_small(layout: &Layout, path: &str) -> io::Result<String> {
    Ok(read_text(&layout.path(path))?.trim().to_owned())
}

/// Units whose drop-in of Harvester's starts its console.
fn with_drop_in(layout: &Layout) -> Vec<String> {
    let entries = fs::read_dir(layout.path(UNITS))
        .into_iter()
        .flatten()
        .flatten();
    let mut units: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let unit = name.strip_suffix(".d")?;
            let is_getty = unit.starts_with("getty@") || unit.starts_with("serial-getty@");
            let drop_in = read_text(&entry.path().join("override.conf")).ok()?;
            (is_getty && drop_in.contains(PROGRAM)).then(|| unit.to_owned())
        })
        .collect();
    units.sort();
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_the_command_line_is_told_and_drop_ins_of_an_earlier_one() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let write = |path: &str, text: &str| {
            let path = layout.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert!(console_units(&layout).is_err());
        write("/sys/class/tty/console/active", "ttyS0 tty1\n");
        write("/sys/class/tty/ttyS0/type", "4\n");
        let chosen = |unit: &str, left: &[&str]| ConsoleUnits {
            chosen: Some(unit.to_owned()),
            left: left.iter().map(|unit| (*unit).to_owned()).collect(),
        };
        let units = || console_units(&layout).unwrap();
        assert_eq!(units(), chosen("serial-getty@ttyS0.service", &[]));
        let harvesters =
            "[Service]\nExecStart=-/sbin/agetty -n -l /usr/bin/start-installer.sh %I $TERM\n";
        for unit in ["getty@tty1.service", "serial-getty@ttyS0.service"] {
            write(&format!("{UNITS}/{unit}.d/override.conf"), harvesters);
        }
        // Another program's drop-in.
        write(
            &format!("{UNITS}/getty@tty2.service.d/override.conf"),
            "[Service]\n",
        );
        write(
            &format!("{UNITS}/other.service.d/override.conf"),
            harvesters,
        );
        assert_eq!(
            units(),
            chosen("serial-getty@ttyS0.service", &["getty@tty1.service"])
        );
        write("/sys/class/tty/ttyS0/type", "0\n");
        assert_eq!(
            units(),
            chosen("getty@tty1.service", &["serial-getty@ttyS0.service"])
        );
    }
}
