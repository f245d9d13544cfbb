//! The terminal: in raw mode while the console uses it, restored afterwards. Nothing waits for it.
//!
//! It is opened a second time, so that only this handle is non-blocking, not the shell's. A terminal that takes no
//! bytes (Ctrl-S, a dead line) gets no further screen until it takes the last one; nothing piles up.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::layout::Size;
use rustix::termios::{
    OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr, ttyname,
};

use super::paint::{enter, leave};
use crate::fs::{File, OpenOptions};
use crate::locked::lock;
use crate::panics::is_caught;

/// The size of a terminal that does not say its own.
const USUAL: Size = Size::new(80, 24);

pub(crate) struct Terminal {
    tty: File,
    restore: TerminalRestore,
    pending: Vec<u8>,
    taken: usize,
}

impl Terminal {
    /// Takes the terminal of the standard input and output over.
    ///
    /// # Errors
    /// When they are not a terminal, or it cannot be set up.
    pub(crate) fn take(alternate: bool) -> io::Result<Self> {
        if !isatty(io::stdin()) || !isatty(rustix::stdio::stdout()) {
            return Err(io::Error::other("not a terminal"));
        }
        let open = |path: &Path| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
                .open(path)
        };
        // In a sandbox with its own devices only the name of the controlling terminal works.
        let tty = ttyname(rustix::stdio::stdout(), Vec::new())
            .map_err(io::Error::from)
            .and_then(|name| open(Path::new(OsStr::from_bytes(name.as_bytes()))))
            .or_else(|_| open(Path::new("/dev/tty")))?;
        Self::on(tty, alternate)
    }

    /// Takes over a terminal that was opened not to block.
    fn on(tty: File, alternate: bool) -> io::Result<Self> {
        let before = tcgetattr(&tty)?;
        let mut raw = before.clone();
        raw.make_raw();
        let restore = TerminalRestore(Arc::new(Mutex::new(Some(SavedTerminal {
            tty: tty.try_clone()?,
            modes: before,
            alternate,
        }))));
        tcsetattr(&tty, OptionalActions::Now, &raw)?;
        restore.on_panic();
        Ok(Self {
            tty,
            restore,
            pending: enter(alternate).into(),
            taken: 0,
        })
    }

    pub(crate) fn size(&self) -> Size {
        match tcgetwinsize(&self.tty) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Size::new(size.ws_col, size.ws_row),
            _ => USUAL,
        }
    }

    pub(crate) fn idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Queues bytes; [`Terminal::flush`] writes them.
    pub(crate) fn queue(&mut self, bytes: &str) {
        self.pending.extend_from_slice(bytes.as_bytes());
    }

    /// Writes as much as it accepts. Never blocks.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.taken < self.pending.len() {
            match self.tty.write(&self.pending[self.taken..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(taken) => self.taken += taken,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.pending.clear();
        self.taken = 0;
        Ok(())
    }

    /// Returns no bytes if nothing was typed. Never blocks.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(crate) fn typed(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 256];
        loop {
            match self.tty.read(&mut bytes) {
                // Hung up.
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    bytes.truncate(read);
                    return Ok(bytes);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.tty.as_fd()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Half a sequence would swallow the first bytes after it. The rest gets one try.
        let _ = self.flush();
        self.restore.now();
    }
}

/// Restores the terminal once: at the end or in a panic, whichever comes first.
#[derive(Clone)]
struct TerminalRestore(Arc<Mutex<Option<SavedTerminal>>>);

struct SavedTerminal {
    tty: File,
    modes: Termios,
    alternate: bool,
}

impl TerminalRestore {
    fn now(&self) {
        let before = lock(&self.0).take();
        if let Some(mut before) = before {
            // A terminal that was hung up needs no restoring.
            let _ = before.tty.write_all(leave(before.alternate).as_bytes());
            let _ = tcsetattr(&before.tty, OptionalActions::Now, &before.modes);
        }
    }

    /// The message of a panic belongs on a terminal that can show it, or in the journal.
    fn on_panic(&self) {
        let restore = self.clone();
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !is_caught(info) {
                restore.now();
            }
            next(info);
        }));
    }
}

pub(crate) struct ConsoleSignals(SignalFd);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SignalRequest {
    pub(crate) end: bool,
    pub(crate) resize: bool,
}

impl ConsoleSignals {
    pub(crate) fn take() -> io::Result<Self> {
        let mut set = SigSet::empty();
        for signal in [
            Signal::SIGWINCH,
            Signal::SIGTERM,
            Signal::SIGINT,
            Signal::SIGHUP,
            Signal::SIGQUIT,
        ] {
            set.add(signal);
        }
        set.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self(SignalFd::with_flags(&set, flags)?))
    }

    pub(crate) fn received(&self) -> SignalRequest {
        let mut asked = SignalRequest::default();
        while let Ok(Some(signal)) = self.0.read_signal() {
            match i32::try_from(signal.ssi_signo).map(Signal::try_from) {
                Ok(Ok(Signal::SIGWINCH)) => asked.resize = true,
                _ => asked.end = true,
            }
        }
        asked
    }

    /// Waits for a signal, or for data from this file. True if a signal asks to quit.
    pub(crate) fn wait(&self, other: BorrowedFd<'_>) -> bool {
        let mut fds = [
            PollFd::new(self.fd(), PollFlags::POLLIN),
            PollFd::new(other, PollFlags::POLLIN),
        ];
        // Interrupted or not, it is checked afterwards.
        let _ = poll(&mut fds, PollTimeout::NONE);
        self.received().end
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::pty::openpty;

    use super::*;

    /// A panic restores every terminal of the process, and one test panics on purpose.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// A terminal, and its other end for the operator. Neither blocks.
    fn terminal() -> (File, File) {
        let pty = openpty(None, None).unwrap();
        let open = |fd: std::os::fd::OwnedFd| {
            nix::fcntl::fcntl(&fd, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
            File::from(fd)
        };
        (open(pty.slave), open(pty.master))
    }

    /// The bytes sent, up to and including this text: the kernel delivers them with a delay.
    fn shown(person: &mut File, end: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(end) {
            let mut fds = [PollFd::new(person.as_fd(), PollFlags::POLLIN)];
            assert_eq!(
                poll(&mut fds, PollTimeout::from(30_000_u16)),
                Ok(1),
                "{text:?}"
            );
            let mut bytes = [0; 4096];
            let read = person.read(&mut bytes).unwrap();
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        text
    }

    fn is_raw(tty: &File) -> bool {
        let modes = tcgetattr(tty).unwrap().local_modes;
        !modes.intersects(rustix::termios::LocalModes::ICANON | rustix::termios::LocalModes::ECHO)
    }

    #[test]
    fn the_terminal_is_given_back_at_the_end_and_in_a_panic() {
        let _alone = ONE_AT_A_TIME.lock().unwrap();
        for panics in [false, true] {
            let (tty, mut person) = terminal();
            let mine = tty.try_clone().unwrap();
            let ended = std::panic::catch_unwind(move || {
                let mut terminal = Terminal::on(mine, true).unwrap();
                terminal.flush().unwrap();
                assert!(is_raw(&terminal.tty));
                assert!(!panics, "a panic on purpose");
            });
            assert_eq!(ended.is_err(), panics);
            assert!(!is_raw(&tty));
            let bytes = shown(&mut person, leave(true));
            assert!(bytes.starts_with(enter(true)), "{bytes:?}");
            assert_eq!(bytes.matches(leave(true)).count(), 1, "{bytes:?}");
        }
    }

    #[test]
    fn a_terminal_that_takes_nothing_is_not_waited_for() {
        let _alone = ONE_AT_A_TIME.lock().unwrap();
        let (tty, mut person) = terminal();
        let mut terminal = Terminal::on(tty.try_clone().unwrap(), false).unwrap();
        terminal.flush().unwrap();
        shown(&mut person, enter(false));
        rustix::termios::tcflow(&tty, rustix::termios::Action::OOff).unwrap();
        terminal.queue("later");
        terminal.flush().unwrap();
        assert!(!terminal.idle());
        rustix::termios::tcflow(&tty, rustix::termios::Action::OOn).unwrap();
        // The kernel takes a while before it accepts more bytes.
        for _ in 0..6000 {
            terminal.flush().unwrap();
            if terminal.idle() {
                break;
            }
            let writable = PollFd::new(tty.as_fd(), PollFlags::POLLOUT);
            poll(&mut [writable], 100_u8).unwrap();
        }
        assert!(terminal.idle());
        assert_eq!(shown(&mut person, "later"), "later");
    }

    #[test]
    fn a_terminal_that_was_hung_up_is_an_error() {
        let (tty, person) = terminal();
        let mut terminal = Terminal::on(tty, false).unwrap();
        drop(person);
        terminal.queue("no reader");
        assert!(terminal.flush().is_err());
        assert!(terminal.typed().is_err());
    }
}
