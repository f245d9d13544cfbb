//! Kills a process between two system calls, at the moment when the disk is in the state that a test asks for, or before a
//! call that writes.
//!
//! The process is traced: it stops at each system call while the test looks. It does not see what another process does
//! meanwhile, and notices only that it is slow.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Far longer than anything takes here: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(1800);

/// Why a process was not killed that ended by itself.
pub(crate) const ENDED: &str = "it ended before that";

/// A thread of the process that stands at a system call.
pub(crate) struct Stop {
    process: Pid,
    thread: Pid,
}

impl Stop {
    /// Is it about to write to a file below this directory, or to a socket: does the call change what another process
    /// finds?
    pub(crate) fn is_about_to_write(&self, below: &Path, sockets: bool) -> bool {
        let entry = ptrace::syscall_info(self.thread);
        if entry.is_ok_and(|info| info.op != libc::PTRACE_SYSCALL_INFO_ENTRY) {
            return false;
        }
        let of_thread = format!("/proc/{}/task/{}/syscall", self.process, self.thread);
        let call = fs::read_to_string(of_thread).unwrap_or_default();
        let mut parts = call.split_whitespace();
        let Some(number) = parts.next().and_then(|one| one.parse::<i64>().ok()) else {
            return false;
        };
        let arguments: Vec<u64> = parts
            .filter_map(|one| u64::from_str_radix(one.strip_prefix("0x")?, 16).ok())
            .collect();
        if NAMES.contains(&number) {
            return true;
        }
        if number == libc::SYS_openat {
            let creates = u64::from((libc::O_CREAT | libc::O_TRUNC).unsigned_abs());
            return arguments.get(2).is_some_and(|flags| flags & creates != 0);
        }
        let Some(descriptor) = arguments.first().filter(|_| CONTENTS.contains(&number)) else {
            return false;
        };
        let file = fs::read_link(format!("/proc/{}/fd/{descriptor}", self.process));
        file.is_ok_and(|file| {
            file.starts_with(below) || sockets && file.to_string_lossy().starts_with("socket:")
        })
    }
}

/// Calls that write to the file of a descriptor, or to a socket.
const CONTENTS: &[i64] = &[
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fchmod,
    libc::SYS_fallocate,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
];

/// Calls that change names.
const NAMES: &[i64] = &[
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_renameat,
    libc::SYS_mkdirat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
];

/// A command that waits to be traced before it becomes the program.
pub(crate) fn stopped(program: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -STOP $$; exec \"$@\"", "sh", program]);
    command.stdin(Stdio::null());
    command
}

/// Continues a process that has stopped itself, and kills it as soon as `now` is true; or returns, in a line, why that
/// did not happen. To be called in a thread that has no children of its own.
pub(crate) fn kill_when(process: Pid, mut now: impl FnMut() -> bool) -> Result<(), String> {
    kill_at(process, |_| now())
}

/// The same, where `now` is told at which call it stands. As long as `now` does not return the process stands still, as
/// after a SIGSTOP.
pub(crate) fn kill_at(process: Pid, mut now: impl FnMut(&Stop) -> bool) -> Result<(), String> {
    // Each system call waits twice for a processor; on a busy machine this takes long enough. Only root may hurry.
    let _ = rustix::process::setpriority_process(None, -15);
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACECLONE
        // If the test ends, the process must not go on.
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(process, options).map_err(|error| format!("it cannot be traced: {error}"))?;
    kill(process, Signal::SIGCONT).map_err(|error| error.to_string())?;
    let deadline = Instant::now() + DEADLINE;
    let mut killed = false;
    loop {
        // Only this thread's tracees: the children of other threads are theirs.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        let status = match waitpid(None, Some(flags)) {
            Ok(status) => status,
            Err(Errno::EINTR) => continue,
            // All of its threads are gone.
            Err(Errno::ECHILD) if killed => return Ok(()),
            Err(Errno::ECHILD) => return Err(ENDED.to_owned()),
            Err(error) => return Err(error.to_string()),
        };
        let (thread, signal) = match status {
            WaitStatus::PtraceSyscall(thread) | WaitStatus::PtraceEvent(thread, ..) => {
                (thread, None)
            }
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            _ => continue,
        };
        let late = Instant::now() > deadline;
        if !killed && (late || now(&Stop { process, thread })) {
            kill(process, Signal::SIGKILL).map_err(|error| error.to_string())?;
            killed = true;
        }
        if late {
            return Err("waited without success for the moment to kill it".to_owned());
        }
        // One that was killed meanwhile cannot be continued.
        match ptrace::syscall(thread, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
