//! A person before a terminal: a real pseudo-terminal with the test at its other end.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::termios::{LocalModes, tcgetattr};

/// Far longer than anything takes here: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(300);

/// A person before a terminal.
pub(crate) struct Person {
    pub(crate) console: Child,
    pub(crate) master: File,
    /// Kept open, so that its modes can be read after the console has ended.
    pub(crate) slave: File,
    /// The bytes since the last screen that was waited for.
    pub(crate) seen: String,
}

impl Person {
    pub(crate) fn sits_down(mut command: Command, columns: u16, rows: u16) -> Self {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(&size, None).unwrap();
        let slave = File::from(pty.slave);
        let console = command
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            console,
            master: File::from(pty.master),
            slave,
            seen: String::new(),
        }
    }

    /// Reads what arrives within a moment; false when nothing does.
    pub(crate) fn looks(&mut self, patience: PollTimeout) -> bool {
        let mut fds = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, patience).unwrap() == 0 {
            return false;
        }
        let mut bytes = [0; 65_536];
        let read = self.master.read(&mut bytes).unwrap();
        self.seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        true
    }

    /// Waits until the terminal was sent this text, and drops everything up to it.
    pub(crate) fn sees(&mut self, text: &str) {
        let until = Instant::now() + DEADLINE;
        while !self.seen.contains(text) {
            assert!(Instant::now() < until, "no {text:?} in {}", self.seen);
            self.looks(PollTimeout::from(200_u8));
        }
        let at = self.seen.find(text).unwrap() + text.len();
        self.seen.drain(..at);
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn signals(&self, signal: Signal) {
        let pid = Pid::from_raw(self.console.id().try_into().unwrap());
        kill(pid, signal).unwrap();
    }

    /// Waits for the console's end; returns its exit code.
    pub(crate) fn waits(&mut self) -> Option<i32> {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.console.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "the console does not end");
            self.looks(PollTimeout::from(20_u8));
        }
    }

    pub(crate) fn terminal_is_as_before(&self) -> bool {
        let modes = tcgetattr(&self.slave).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.console.kill();
        let _ = self.console.wait();
    }
}
