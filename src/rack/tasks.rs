//! A rack's tasks: its server, and the polling. When one ends, the rack ends: otherwise it would go on showing its last
//! state, and systemd would not start it again.

use std::io::{self, PipeReader, pipe};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;

use crate::background::{Background, EndedTask};

/// The tasks, for a caller that waits in `poll`.
pub(crate) struct RackTasks {
    ended: Arc<OnceLock<EndedTask>>,
    /// Its other end is closed when one has ended.
    running: PipeReader,
}

impl RackTasks {
    /// Supervises these in a separate task.
    ///
    /// # Errors
    ///
    /// When the kernel gives no pipe.
    pub(crate) fn new(mut tasks: Background, runtime: &Handle) -> io::Result<Self> {
        let (running, other_end) = pipe()?;
        let ended = Arc::new(OnceLock::new());
        let first = ended.clone();
        runtime.spawn(async move {
            let task = tasks.ended().await;
            first.get_or_init(|| task);
            drop(other_end);
        });
        Ok(Self { ended, running })
    }

    pub(crate) fn ended(&self) -> Option<EndedTask> {
        self.ended.get().copied()
    }

    /// For `poll`.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.running.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::console::terminal::ConsoleSignals;

    #[test]
    fn a_task_that_panics_ends_the_wait_for_a_signal() {
        let signals = ConsoleSignals::take().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let background = {
            let _inside = runtime.enter();
            let mut background = Background::default();
            background.start("waits", pending());
            background.start("breaks", async { panic!("on purpose") });
            background
        };
        let tasks = RackTasks::new(background, runtime.handle()).unwrap();
        assert!(!signals.wait(tasks.fd()), "there was no signal");
        let ended = tasks.ended().unwrap().to_string();
        assert!(ended.contains("\"breaks\" panicked"), "{ended}");
    }
}
