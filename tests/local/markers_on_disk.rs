//! Level 3: a change of a marker is on disk before it is reported as done, and its content before its name. Only the
//! system calls show that, so the program is traced.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

const MANIFESTS: &str = "var/lib/rancher/rke2/server/manifests";
const FILES: [&str; 3] = ["a.yaml", "b.yaml", "c.yaml"];

/// A stop of the program at which a marker had come or gone, a file was synced, or READY=1 was sent.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Created(String),
    Removed(String),
    Synced(PathBuf),
    Ready,
}

/// Runs the program below `root` until it ends or is ready, and returns in which order markers came or went and which
/// files were synced.
fn trace(root: &Path, program: &str, arguments: &[&str]) -> Vec<Seen> {
    let socket = root.join("notify");
    let _ = fs::remove_file(&socket);
    let told = UnixDatagram::bind(&socket).unwrap();
    told.set_nonblocking(true).unwrap();
    // It waits to be traced before it becomes the program.
    let mut child = Command::new("sh")
        .args(["-c", "kill -STOP $$; exec \"$@\"", "sh"])
        .arg(program)
        .arg("--root")
        .arg(root)
        .args(arguments)
        .env("NOTIFY_SOCKET", &socket)
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
    let mut there = markers(root);
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
                assert_eq!(seen.last(), Some(&Seen::Ready), "ended by {signal}");
                let _ = child.wait();
                return seen;
            }
            _ => continue,
        };
        let now = markers(root);
        seen.extend(now.difference(&there).cloned().map(Seen::Created));
        seen.extend(there.difference(&now).cloned().map(Seen::Removed));
        there = now;
        if is_ready(&told) {
            seen.push(Seen::Ready);
            kill(process, Signal::SIGKILL).unwrap();
        }
        // It may have been killed.
        let _ = ptrace::syscall(thread, signal);
    }
}

/// The markers that are there. Listing the directory would be an event for the program's watch, at each of its stops.
fn markers(root: &Path) -> BTreeSet<String> {
    let names = FILES.map(|file| format!("{file}.skip"));
    let there = |name: &String| root.join(MANIFESTS).join(name).exists();
    names.into_iter().filter(there).collect()
}

/// Did the program send READY=1?
fn is_ready(told: &UnixDatagram) -> bool {
    let mut buffer = [0; 1024];
    while let Ok(length) = told.recv(&mut buffer) {
        if buffer[..length].starts_with(b"READY=1") {
            return true;
        }
    }
    false
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
        (["hold", "a.yaml"], Seen::Created("a.yaml.skip".to_owned())),
        (
            ["release", "a.yaml"],
            Seen::Removed("a.yaml.skip".to_owned()),
        ),
    ] {
        let seen = trace(&root, env!("CARGO_BIN_EXE_windrow"), &arguments);
        let at = seen.iter().position(|one| *one == change);
        let at = at.unwrap_or_else(|| panic!("{arguments:?}: {seen:?}"));
        assert!(
            seen[at..].contains(&Seen::Synced(manifests.clone())),
            "{arguments:?}: {seen:?}"
        );
    }
}

#[test]
fn markers_of_the_start_are_on_disk_before_ready_and_their_contents_before_their_names() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let manifests = root.join(MANIFESTS);
    fs::create_dir_all(&manifests).unwrap();
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n";
    for name in FILES {
        fs::write(manifests.join(name), widget).unwrap();
    }
    let seen = trace(&root, env!("CARGO_BIN_EXE_windrowd"), &[]);
    let mut contents = BTreeSet::new();
    let mut names = 0;
    let mut unsynced = false;
    for one in &seen {
        match one {
            Seen::Synced(path) if *path == manifests => unsynced = false,
            Seen::Synced(path) if path.starts_with(&manifests) => {
                contents.insert(path);
            }
            Seen::Created(_) => {
                names += 1;
                unsynced = true;
                assert!(
                    contents.len() >= names,
                    "a name before its content: {seen:?}"
                );
            }
            Seen::Ready => {
                assert!(names == 3 && !unsynced, "{seen:?}");
                return;
            }
            Seen::Removed(_) | Seen::Synced(_) => {}
        }
    }
    panic!("it was never ready: {seen:?}");
}
