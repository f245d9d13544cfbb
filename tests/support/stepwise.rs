//! Kills a process between two system calls, at the moment when the disk is in the state that a test asks for.
//!
//! The process is traced: it stops at each system call while the test looks. It does not see what another process does
//! meanwhile, and notices only that it is slow.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Far longer than anything takes here: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(1800);

/// Continues a process that has stopped itself, and kills it as soon as `now` is true; or returns, in a line, why that
/// did not happen. To be called in a thread that has no children of its own.
pub(crate) fn kill_when(process: Pid, mut now: impl FnMut() -> bool) -> Result<(), String> {
    // Each system call waits twice for a processor; on a busy machine this takes long enough.
    rustix::process::setpriority_process(None, -15).map_err(|error| error.to_string())?;
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
        // One that was killed meanwhile cannot be continued.
        match ptrace::syscall(thread, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
