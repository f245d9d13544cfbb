//! Kills a process between two system calls, at the very moment when what it has left on the disk is what a test asks for.
//!
//! The process is traced: it stands still at each system call while the test looks. What another process does meanwhile
//! it does not see, and it notices nothing but that it is slow.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Far longer than anything takes here: passing it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(1800);

/// Lets a process that has stopped itself go on and kills it as soon as `now` is true; in a line, why it did not come to
/// that. To be called in a thread that has no children of its own.
pub(crate) fn kill_when(process: Pid, mut now: impl FnMut() -> bool) -> Result<(), String> {
    // Each system call is two waits for a processor; where others want it too, this takes long enough.
    rustix::process::setpriority_process(None, -15).map_err(|error| error.to_string())?;
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACECLONE
        // Should the test end, it must not go on unseen.
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(process, options).map_err(|error| format!("it cannot be traced: {error}"))?;
    kill(process, Signal::SIGCONT).map_err(|error| error.to_string())?;
    let deadline = Instant::now() + DEADLINE;
    let mut killed = false;
    loop {
        // Only what this thread traces: the children of other threads are theirs.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        let status = match waitpid(None, Some(flags)) {
            Ok(status) => status,
            Err(Errno::EINTR) => continue,
            // All of its threads are gone.
            Err(Errno::ECHILD) if killed => return Ok(()),
            Err(Errno::ECHILD) => return Err("it ended before that".to_owned()),
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
        if !killed && (late || now()) {
            kill(process, Signal::SIGKILL).map_err(|error| error.to_string())?;
            killed = true;
        }
        if late {
            return Err("waited without success for the moment to kill it".to_owned());
        }
        // One that was killed meanwhile is not there to go on.
        match ptrace::syscall(thread, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
