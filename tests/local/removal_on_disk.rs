//! Level 3: a change of a marker is on disk before it is reported as done. Only the system calls show that, so the
//! program is traced.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

const MANIFESTS: &str = "var/lib/rancher/rke2/server/manifests";

/// A stop of the program at which something about the marker had changed, or a directory was synced.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Created,
    Removed,
    Synced(PathBuf),
}

/// Runs the program below `root`, and returns in which order the marker came or went and which files were synced.
fn trace(root: &Path, arguments: &[&str]) -> Vec<Seen> {
    let marker = root.join(MANIFESTS).join("a.yaml.skip");
    // It waits to be traced before it becomes the program.
    let mut child = Command::new("sh")
        .args(["-c", "kill -STOP $$; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let process = Pid::from_raw(i32::try_from(child.id()).unwrap());
    waitpid(process, Some(WaitPidFlag::WUNTRACED)).unwrap();
    let options =
        Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
    ptrace::seize(process, options).unwrap();
    kill(process, Signal::SIGCONT).unwrap();
    let mut seen = Vec::new();
    let mut there = marker.exists();
    loop {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        let (thread, signal) = match waitpid(None, Some(flags)).unwrap() {
            WaitStatus::PtraceSyscall(thread) => {
                seen.extend(synced(process, thread).map(Seen::Synced));
                (thread, None)
            }
            WaitStatus::PtraceEvent(thread, ..) => (thread, None),
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            WaitStatus::Exited(thread, code) if thread == process => {
                assert_eq!(code, 0);
                // It was waited for above, which its handle cannot know.
                let _ = child.wait();
                return seen;
            }
            WaitStatus::Signaled(thread, signal, _) if thread == process => {
                panic!("ended by {signal}")
            }
            _ => continue,
        };
        let now = marker.exists();
        if now != there {
            seen.push(if now { Seen::Created } else { Seen::Removed });
            there = now;
        }
        ptrace::syscall(thread, signal).unwrap();
    }
}

/// Which file a thread that enters fsync or fdatasync is about to put on disk.
fn synced(process: Pid, thread: Pid) -> Option<PathBuf> {
    let call = fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall")).ok()?;
    let mut parts = call.split_whitespace();
    let number: i64 = parts.next()?.parse().ok()?;
    if number != FSYNC && number != FDATASYNC {
        return None;
    }
    let descriptor = parts.next()?.strip_prefix("0x")?;
    let descriptor = u64::from_str_radix(descriptor, 16).ok()?;
    fs::read_link(format!("/proc/{process}/fd/{descriptor}")).ok()
}

#[cfg(target_arch = "x86_64")]
const FSYNC: i64 = 74;
#[cfg(target_arch = "x86_64")]
const FDATASYNC: i64 = 75;
#[cfg(target_arch = "aarch64")]
const FSYNC: i64 = 82;
#[cfg(target_arch = "aarch64")]
const FDATASYNC: i64 = 83;

#[test]
fn a_marker_that_was_made_or_removed_is_on_disk_before_the_program_ends() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let manifests = root.join(MANIFESTS);
    fs::create_dir_all(&manifests).unwrap();
    let config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    fs::write(manifests.join("a.yaml"), config_map).unwrap();
    for (arguments, change) in [
        (["hold", "a.yaml"], Seen::Created),
        (["release", "a.yaml"], Seen::Removed),
    ] {
        let seen = trace(&root, &arguments);
        let at = seen.iter().position(|one| *one == change);
        let at = at.unwrap_or_else(|| panic!("{arguments:?}: {seen:?}"));
        assert!(
            seen[at..].contains(&Seen::Synced(manifests.clone())),
            "{arguments:?}: {seen:?}"
        );
    }
}
