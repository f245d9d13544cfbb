//! Tasks that run as long as their program. Next to the daemon's loop they observe the node, keep it up to date, and
//! report; in a rack they receive events and poll nodes.
//!
//! None of them ends before the program. If one ended, by a panic or normally, the daemon's loop would keep its last
//! observations and go on feeding the watchdog: it would decide from frozen values. A rack would show them. So the
//! program ends too, and systemd starts it again.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::{Id, JoinSet};
use windrow_decide::Event;
use windrow_model::reasons::Code;

/// How long the tasks may take to finish, and then the threads. systemd waits ten seconds.
const LAST_WORDS: Duration = Duration::from_secs(4);
const LAST_CALLS: Duration = Duration::from_secs(4);

/// Runs the program to its end. A thread that then does not return does not keep the process: it may wait for a file system,
/// or judge very many objects.
pub fn run_to_end<T>(runtime: Runtime, program: impl Future<Output = T>) -> T {
    let ended = runtime.block_on(program);
    runtime.shutdown_timeout(LAST_CALLS);
    ended
}

#[derive(Debug, Default)]
pub struct Background {
    tasks: JoinSet<()>,
    started: HashMap<Id, StartedTask>,
}

#[derive(Debug, Clone, Copy)]
struct StartedTask {
    name: &'static str,
    /// It has something to take back when the daemon stops.
    has_last_words: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedTask {
    pub name: &'static str,
    /// It panicked. The message stays on standard error, because it may quote data that the task read.
    pub panicked: bool,
}

impl fmt::Display for EndedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.panicked { "panicked" } else { "ended" };
        write!(f, "the task \"{}\" {how}", self.name)
    }
}

impl EndedTask {
    pub fn event(&self) -> Event {
        Event {
            code: Code::TaskEnded,
            file: None,
            message: Code::TaskEnded.say(&[("what", &self.to_string())]),
        }
    }
}

impl Background {
    pub fn start(&mut self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.start_as(name, false, work);
    }

    /// Starts a task that has something to take back when the daemon stops.
    pub fn start_with_last_words(
        &mut self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.start_as(name, true, work);
    }

    fn start_as(
        &mut self,
        name: &'static str,
        has_last_words: bool,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let id = self.tasks.spawn(work).id();
        let task = StartedTask {
            name,
            has_last_words,
        };
        self.started.insert(id, task);
    }

    /// Waits until one of them ends. Without tasks, it waits forever.
    pub async fn ended(&mut self) -> EndedTask {
        let (id, panicked) = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => (id, false),
            Some(Err(error)) => (error.id(), error.is_panic()),
            None => std::future::pending().await,
        };
        let task = self.started.remove(&id);
        EndedTask {
            name: task.map_or("unnamed", |task| task.name),
            panicked,
        }
    }

    /// Waits until these tasks have withdrawn the states that will no longer be updated. Call it after the last status
    /// is published. A cluster that does not answer does not delay the daemon's end.
    pub async fn close(mut self) {
        let last_words = async {
            while self.started.values().any(|task| task.has_last_words) {
                self.ended().await;
            }
        };
        // Messages that were not sent by then are dropped.
        let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn the_task_that_ends_is_named_and_so_is_how_it_ended() {
        let mut background = Background::default();
        background.start("waits", pending());
        background.start("breaks", async { panic!("hunter2") });
        let ended = background.ended().await;
        let message = ended.event().message;
        assert!(message.contains("\"breaks\" panicked"), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
        background.start("returns", async {});
        let ended = background.ended().await;
        assert!(ended.to_string().contains("\"returns\" ended"), "{ended}");
    }

    #[tokio::test]
    async fn only_last_words_are_waited_for() {
        let mut background = Background::default();
        background.start("waits", pending());
        let (say, mut said) = tokio::sync::mpsc::channel(1);
        background.start_with_last_words("takes back", async move {
            tokio::task::yield_now().await;
            say.send(()).await.unwrap();
        });
        background.close().await;
        assert_eq!(said.try_recv(), Ok(()));
    }
    #[test]
    fn a_call_that_does_not_return_does_not_keep_the_program() {
        let (_end, ends) = std::sync::mpsc::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let ended = run_to_end(runtime.unwrap(), async {
            tokio::task::spawn_blocking(move || ends.recv());
            7
        });
        assert_eq!(ended, 7);
    }
}
