//! Which terminal Harvester's own console uses. This module does no I/O.
//!
//! `setup-installer.sh` in Harvester's image selects it at every boot (harvester-installer
//! `package/harvester-os/files/usr/bin/setup-installer.sh`, the same in v1.4.0, v1.6.0 and v1.8.1). The kernel lists the consoles
//! in the order of `console=`, so the first one that exists wins.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelConsole {
    /// As in `/sys/class/tty/console/active`.
    pub name: String,
    /// The content of `/sys/class/tty/NAME/type`: `0` is a serial line without hardware. Not every terminal has this file.
    pub kind: Option<String>,
}

/// The unit of the terminal on which Harvester's console runs. `consoles` are in the kernel's order.
pub fn console_unit(consoles: &[KernelConsole], machine: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let after = |prefix: &str, name: &str| name.strip_prefix(prefix).is_some_and(is_number);
    // An Arm machine lists its UART even if nothing is connected to it.
    let passed_over = |console: &&KernelConsole| {
        machine == "aarch64" && consoles.len() > 1 && after("ttyAMA", &console.name)
    };
    let mut usable = consoles.iter().filter(|console| {
        let has_hardware = console.kind.as_deref() != Some("0");
        !passed_over(console) && (after("tty", &console.name) || has_hardware)
    });
    usable
        .next()
        .map(|console| match after("tty", &console.name) {
            true => format!("getty@{}.service", console.name),
            false => format!("serial-getty@{}.service", console.name),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ttyS0=0` is a terminal without hardware.
    fn unit(active: &str, machine: &str) -> Option<String> {
        let console = |word: &str| {
            let (name, kind) = word.split_once('=').unwrap_or((word, ""));
            KernelConsole {
                name: name.to_owned(),
                kind: (!kind.is_empty()).then(|| kind.to_owned()),
            }
        };
        let consoles: Vec<KernelConsole> = active.split_whitespace().map(console).collect();
        console_unit(&consoles, machine)
    }

    /// Each row was also checked with the script itself, with files in place of /sys.
    #[test]
    fn the_first_console_that_is_there_is_harvesters() {
        let (pc, arm) = ("x86_64", "aarch64");
        for (active, machine, expected) in [
            ("tty1", pc, Some("getty@tty1.service")),
            ("ttyS0=4 tty1", pc, Some("serial-getty@ttyS0.service")),
            ("tty1 ttyS0=4", pc, Some("getty@tty1.service")),
            // No UART behind it.
            ("ttyS0=0 tty1", pc, Some("getty@tty1.service")),
            ("ttyS0=0 ttyS1=4", pc, Some("serial-getty@ttyS1.service")),
            ("ttyS0=0", pc, None),
            ("", pc, None),
            // A hypervisor's console has no type; `tty0`, the kernel's current terminal, is a terminal, too.
            ("hvc0", pc, Some("serial-getty@hvc0.service")),
            ("tty0 ttyS0=4", pc, Some("getty@tty0.service")),
            ("ttyAMA0=32 tty1", arm, Some("getty@tty1.service")),
            (
                "ttyAMA0=32 ttyS0=4",
                arm,
                Some("serial-getty@ttyS0.service"),
            ),
            ("ttyAMA0=32", arm, Some("serial-getty@ttyAMA0.service")),
            ("ttyAMA0=32 ttyAMA1=32", arm, None),
            ("ttyAMA0=32 tty1", pc, Some("serial-getty@ttyAMA0.service")),
        ] {
            assert_eq!(
                unit(active, machine).as_deref(),
                expected,
                "{active} on {machine}"
            );
        }
    }
}
