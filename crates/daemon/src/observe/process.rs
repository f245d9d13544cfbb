//! Whether the process that wrote the status document is still alive.
//!
//! A document outlives its daemon. A heartbeat would cost a write for every beat; asking the kernel costs none. A
//! daemon that hangs is ended by its watchdog, so alive means current.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};
use windrow_decide::StatusWriter;

use crate::causes::plain;
use crate::fs;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// This process, as a [`StatusWriter`].
///
/// # Errors
/// When `/proc` cannot be read.
pub fn this_process() -> std::io::Result<StatusWriter> {
    writer(std::process::id())
}

/// The process with this number, as a [`StatusWriter`].
///
/// # Errors
/// When there is no such process, or `/proc` cannot be read.
pub fn writer(pid: u32) -> std::io::Result<StatusWriter> {
    Ok(StatusWriter {
        pid,
        start_ticks: start_ticks(pid)?,
        boot_id: boot_id()?,
    })
}

#[derive(Debug, Clone, Copy)]
pub struct ProcessUsage {
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// Time on a processor.
    pub cpu: Duration,
    /// Open files, if they could be counted.
    pub open_files: Option<usize>,
    /// When it started, to the second.
    pub started: Option<Timestamp>,
}

/// This process's resources now; `None` if `/proc` does not show them.
pub fn own_usage() -> Option<ProcessUsage> {
    let own = Pid::from_u32(std::process::id());
    // Not kept: it would keep a file open.
    let mut system = System::new();
    let what = ProcessRefreshKind::nothing().with_memory().with_cpu();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), false, what);
    let process = system.process(own)?;
    let started = i64::try_from(process.start_time()).ok();
    Some(ProcessUsage {
        resident_bytes: process.memory(),
        cpu: Duration::from_millis(process.accumulated_cpu_time()),
        open_files: process.open_files(),
        started: started.and_then(|second| Timestamp::from_second(second).ok()),
    })
}

/// Checks that the writer is alive.
///
/// # Errors
/// Why it is not, or why that is unknown, as a sentence for users.
pub fn alive(writer: &StatusWriter) -> Result<(), String> {
    match boot_id() {
        Ok(boot) if boot == writer.boot_id => {}
        // systemd-nspawn gives a container its own boot id by mounting a file over /proc. The daemon's unit mounts
        // another /proc (ProtectProc=) and sees the host's. A process with that number, start and name is the daemon
        // nevertheless.
        Ok(_) if is_ours(writer) => return Ok(()),
        Ok(_) => return Err("it is from before the last boot".to_owned()),
        Err(error) => {
            return Err(format!(
                "{BOOT_ID} cannot be read: {}",
                plain(&error.to_string())
            ));
        }
    }
    match start_ticks(writer.pid) {
        Ok(ticks) if ticks == writer.start_ticks => Ok(()),
        // No such process, or its number has been given to another one.
        _ => Err(format!(
            "the daemon that wrote it (pid {}) is gone",
            writer.pid
        )),
    }
}

fn is_ours(writer: &StatusWriter) -> bool {
    let name = fs::read_to_string(format!("/proc/{}/comm", writer.pid));
    // The sandbox's daemon runs in the command line's program.
    name.is_ok_and(|name| ["windrowd", "windrow"].contains(&name.trim_end()))
        && start_ticks(writer.pid).is_ok_and(|ticks| ticks == writer.start_ticks)
}

fn boot_id() -> std::io::Result<String> {
    Ok(fs::read_to_string(BOOT_ID)?.trim().to_owned())
}

fn start_ticks(pid: u32) -> std::io::Result<u64> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"))?;
    // The command name is in parentheses and may contain anything, including blanks and parentheses. After it come
    // fields 3 and up; a zombie (Z) or dead (X) process keeps nothing up to date.
    let mut fields = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace();
    let state = fields.next().unwrap_or_default();
    let ticks = fields.nth(18).and_then(|field| field.parse().ok());
    match (state, ticks) {
        ("Z" | "X", _) | (_, None) => Err(std::io::ErrorKind::NotFound.into()),
        (_, Some(ticks)) => Ok(ticks),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_is_alive() {
        let process = this_process().unwrap();
        let boot = fs::read_to_string(BOOT_ID).unwrap();
        assert_eq!(process.boot_id, boot.trim());
        assert_eq!(alive(&process), Ok(()));
    }

    #[test]
    fn what_this_process_uses_is_known() {
        let before = own_usage().unwrap();
        assert!(before.resident_bytes > 100_000, "{before:?}");
        let files = before.open_files.unwrap();
        let more: Vec<_> = (0..100).map(|_| fs::File::open("/").unwrap()).collect();
        // Other tests open and close files meanwhile, but not that many.
        assert!(own_usage().unwrap().open_files.unwrap() >= files + more.len() / 2);
        let started = before.started.unwrap();
        assert!(
            started <= Timestamp::now() && started.as_second() > 0,
            "{started}"
        );
    }

    #[test]
    fn with_the_boot_id_of_a_container_the_writer_is_known_by_its_name_and_start() {
        let directory = tempfile::tempdir().unwrap();
        for (name, is_writer) in [("windrowd", true), ("windrow", true), ("another", false)] {
            let program = directory.path().join(name);
            std::os::unix::fs::symlink("/bin/cat", &program).unwrap();
            // It waits for the end of its input.
            let mut process = Command::new(&program)
                .arg0("cat")
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            let mut writer = writer(process.id()).unwrap();
            writer.boot_id = "of the container".to_owned();
            assert_eq!(alive(&writer).is_ok(), is_writer, "{name}");
            writer.start_ticks += 1;
            assert!(alive(&writer).is_err(), "{name}");
            drop(process.stdin.take());
            process.wait().unwrap();
        }
    }

    #[test]
    fn a_reused_process_id_is_not_the_writer() {
        let mut writer = this_process().unwrap();
        writer.start_ticks += 1;
        assert!(alive(&writer).unwrap_err().contains("is gone"));
    }

    #[test]
    fn a_writer_from_before_the_boot_is_not_alive() {
        let mut writer = this_process().unwrap();
        writer.boot_id = "00000000-0000-0000-0000-000000000000".to_owned();
        assert!(alive(&writer).unwrap_err().contains("before the last boot"));
    }

    #[test]
    fn a_process_that_has_ended_is_not_alive() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let writer = writer(child.id()).unwrap();
        assert_eq!(alive(&writer), Ok(()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(alive(&writer).is_err());
    }
}
