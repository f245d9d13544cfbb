//! The last lines of the journal, if the user may read them. They come from `journalctl`, which knows the journal's place
//! and its readers.

use std::io::{ErrorKind, PipeReader, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

const LINES: usize = 200;
/// Most bytes of its answer.
const MOST: usize = 256 * 1024;
/// Longest wait for `journalctl`, in case the journal is on a slow disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running `journalctl`. It is killed when this value is dropped.
pub(crate) struct JournalQuery {
    unit: String,
    child: Child,
    out: PipeReader,
    text: Vec<u8>,
    until: Instant,
}

impl JournalQuery {
    /// Asks for the last lines of a unit.
    ///
    /// # Errors
    /// Why `journalctl` does not run, in words for the user.
    pub(crate) fn unit(unit: &str, now: Instant) -> Result<Self, String> {
        let mut command = Command::new("journalctl");
        command
            .args(["-u", unit, "-o", "short", "--no-pager", "--quiet", "-n"])
            .arg(LINES.to_string());
        Self::run(command, unit, now)
            .map_err(|error| format!("journalctl cannot be run on this node: {error}"))
    }

    fn run(mut command: Command, unit: &str, now: Instant) -> std::io::Result<Self> {
        // One pipe for output and errors, so that an error is at its place in the output.
        let (out, write) = std::io::pipe()?;
        fcntl(&out, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let child = command
            .env("SYSTEMD_COLORS", "0")
            .stdin(Stdio::null())
            .stdout(write.try_clone()?)
            .stderr(write)
            .spawn()?;
        Ok(Self {
            unit: unit.to_owned(),
            child,
            out,
            text: Vec::new(),
            until: now + PATIENCE,
        })
    }

    /// Becomes readable when [`JournalQuery::answer`] is worth a call.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.out.as_fd()
    }

    /// When to call it even if it never becomes readable.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// Reads the available output. Returns the lines once they are complete, or the reason for their absence.
    pub(crate) fn answer(&mut self, now: Instant) -> Option<Vec<String>> {
        let mut part = [0; 8192];
        loop {
            match self.out.read(&mut part) {
                Ok(0) => return Some(self.lines()),
                Ok(read) => self.text.extend_from_slice(&part[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && now < self.until => {
                    return None;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let seconds = PATIENCE.as_secs();
                    return Some(vec![format!(
                        "journalctl has not answered within {seconds} seconds."
                    )]);
                }
                Err(error) => return Some(vec![format!("journalctl: {error}")]),
            }
            if self.text.len() > MOST {
                return Some(self.lines());
            }
        }
    }

    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.text);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if !lines.is_empty() {
            return lines;
        }
        vec![format!(
            "Nothing of {} that this user may read: `journalctl -u {}` as root, or let the console \
             read the journal (group systemd-journal).",
            self.unit, self.unit
        )]
    }
}

impl Drop for JournalQuery {
    fn drop(&mut self) {
        // The process has ended, or is not needed any more; either way none is left behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    fn asked(script: &str) -> JournalQuery {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        JournalQuery::run(command, "windrow", Instant::now()).unwrap()
    }

    fn answer(mut asked: JournalQuery) -> Vec<String> {
        loop {
            poll(
                &mut [PollFd::new(asked.fd(), PollFlags::POLLIN)],
                PollTimeout::NONE,
            )
            .unwrap();
            if let Some(lines) = asked.answer(Instant::now()) {
                return lines;
            }
        }
    }

    #[test]
    fn what_is_printed_and_what_is_complained_of_is_shown() {
        assert_eq!(
            answer(asked("echo one; echo two >&2; echo three")),
            ["one", "two", "three"]
        );
    }

    #[test]
    fn an_empty_answer_says_what_to_do() {
        assert!(answer(asked("exit 1"))[0].contains("systemd-journal"));
    }

    #[test]
    fn an_answer_that_does_not_come_is_not_waited_for() {
        let mut asked = asked("exec sleep 1000");
        assert_eq!(asked.answer(Instant::now()), None);
        let lines = asked.answer(asked.until()).unwrap();
        assert!(lines[0].contains("has not answered"));
    }

    #[test]
    fn an_answer_without_end_is_cut() {
        assert!(answer(asked("yes")).len() > 1_000);
    }
}
