//! Standard output and standard error of the verbs. A text may quote a file's name or a message of the cluster: none of
//! their characters reaches a terminal as a control character (`printable.rs`).
//!
//! The macros replace the macros of the standard library for every verb, so that none is forgotten. If the output has no reader any
//! more (`windrow report 2>&1 | head`), they write nothing, and the verb still finishes its work.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::termios::tcgetwinsize;

use super::Exit;
use crate::causes::plain;
use crate::printable::printable_lines;
use crate::render::Style;

/// Minimum and maximum width of tables, independent of the terminal: longer lines are hard to read.
const NARROWEST: usize = 60;
const WIDEST: usize = 160;

macro_rules! println {
    ($($words:tt)*) => {
        $crate::cli::out::write_out(&format!("{}\n", format_args!($($words)*)))
    };
}

macro_rules! print {
    ($($words:tt)*) => {
        $crate::cli::out::write_out(&format!($($words)*))
    };
}

macro_rules! eprintln {
    ($($words:tt)*) => {
        $crate::cli::out::write_err(&format!("{}\n", format_args!($($words)*)))
    };
}

pub(super) fn write_out(text: &str) {
    if let Err(error) = print_whole(&printable_lines(&plain(text))) {
        write_err(&format!("windrow: standard output: {error:#}\n"));
        std::process::exit(i32::from(Exit::Failure as u8));
    }
}

/// Standard output itself, for binary data and for text that is already printable.
#[expect(clippy::disallowed_methods, reason = "all others go through here")]
pub(super) fn stdout() -> std::io::Stdout {
    std::io::stdout()
}

/// Standard output for text that is written line by line: no control character reaches the terminal.
pub(super) struct PrintableOutput;

impl std::io::Write for PrintableOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = printable_lines(&String::from_utf8_lossy(bytes));
        stdout().write_all(text.as_bytes()).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        stdout().flush()
    }
}

/// Writes to standard error. If this fails, there is no other place for the text.
pub(super) fn write_err(text: &str) {
    let text = printable_lines(&plain(text));
    let _ = std::io::stderr().write_all(text.as_bytes());
}

pub(super) fn complain<E: std::fmt::Display>(errors: &[E]) {
    for error in errors {
        eprintln!("windrow: {error}");
    }
}

static QUIET: AtomicBool = AtomicBool::new(false);

/// `--quiet`: from now on, standard output stays empty.
pub(super) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Prints a rendered text. It is already printable.
pub(super) fn print_whole(text: &str) -> anyhow::Result<()> {
    if QUIET.load(Ordering::Relaxed) {
        return Ok(());
    }
    match stdout().write_all(text.as_bytes()) {
        // A closed pipe (`windrow plan | head`) is not an error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// The style of tables: colour only on a terminal that wants it, and as wide as COLUMNS says or else as the terminal.
pub(super) fn style() -> Style {
    let wanted = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let stdout = stdout();
    let terminal = stdout.is_terminal();
    let asked = std::env::var("COLUMNS").ok();
    let asked = asked.and_then(|columns| columns.parse().ok());
    let size = || tcgetwinsize(&stdout).ok();
    let columns = asked
        .or_else(|| {
            let size = terminal.then(size).flatten()?;
            Some(usize::from(size.ws_col))
        })
        .filter(|columns| *columns > 0);
    Style {
        color: terminal && wanted("NO_COLOR") && !dumb,
        width: columns.map_or(Style::default().width, |columns| {
            columns.clamp(NARROWEST, WIDEST)
        }),
    }
}
