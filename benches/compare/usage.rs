//! What processes use: of the processor, of memory, and how often they wake.

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// Linux counts a process' time in hundredths of a second.
const TICKS: f64 = 100.0;

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Usage {
    /// Seconds of a processor.
    pub(crate) processor: f64,
    /// The most memory that was resident, in megabytes.
    pub(crate) memory: f64,
}

impl Usage {
    /// What a process that runs has used since `before`.
    pub(crate) fn since(pid: u32, before: Self) -> Self {
        let now = Self::of(pid);
        Self {
            processor: now.processor - before.processor,
            memory: now.memory,
        }
    }

    /// What a process that runs has used.
    pub(crate) fn of(pid: u32) -> Self {
        Self {
            processor: processor(pid),
            memory: status(pid, "VmHWM") / 1000.0,
        }
    }

    /// Both, one after the other.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            processor: self.processor + other.processor,
            memory: self.memory.max(other.memory),
        }
    }
}

/// Seconds of a processor that a running process has used.
pub(crate) fn processor(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The program's name, in brackets, may hold spaces.
    let fields: Vec<&str> = stat
        .rsplit(") ")
        .next()
        .unwrap_or_default()
        .split(' ')
        .collect();
    let ticks = |at: usize| -> f64 {
        let field = fields.get(at);
        field.and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    (ticks(11) + ticks(12)) / TICKS
}

/// A figure of a process' status: of memory, in kilobytes.
pub(crate) fn status(pid: u32, key: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    field(&text, key)
}

/// How often the threads of a process have waited for something and woken again.
pub(crate) fn wake_ups(pid: u32) -> f64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return 0.0;
    };
    tasks
        .flatten()
        .map(|task| {
            let text = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            field(&text, "voluntary_ctxt_switches")
        })
        .sum()
}

fn field(status: &str, key: &str) -> f64 {
    status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| *name == key)
        .and_then(|(_, value)| value.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}

/// Runs a program to its end and leaves what it used in a file: `--measured FILE PROGRAM ARGUMENT...` of this benchmark, which is a
/// process of its own as the system counts all children of one together.
pub(crate) fn run_measured(arguments: &[String]) -> i32 {
    let [file, program, arguments @ ..] = arguments else {
        return 64;
    };
    let status = Command::new(program).args(arguments).status().unwrap();
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    #[expect(clippy::cast_precision_loss, reason = "neither is anywhere near 2^52")]
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1_000_000.0;
    #[expect(clippy::cast_precision_loss, reason = "neither is anywhere near 2^52")]
    let usage = Usage {
        processor: seconds(used.user_time()) + seconds(used.system_time()),
        memory: used.max_rss() as f64 / 1000.0,
    };
    fs::write(Path::new(file), serde_json::to_string(&usage).unwrap()).unwrap();
    status.code().unwrap_or(1)
}
