//! Standard output and standard error of the verbs. A text may quote a file's name or a message of the cluster: none of
//! their characters reaches a terminal as a control character (`printable.rs`).
//!
//! The macros replace those of the standard library for every verb, so that none is forgotten.

use std::io::{IsTerminal as _, Write as _};

use rustix::termios::tcgetwinsize;

use crate::render::Style;

/// Tables are at least so wide, and at most, whatever the terminal is: longer lines are hard to read.
const NARROWEST: usize = 60;
const WIDEST: usize = 160;

macro_rules! println {
    ($($words:tt)*) => {
        std::println!("{}", $crate::printable::printable_lines(&format!($($words)*)))
    };
}

macro_rules! print {
    ($($words:tt)*) => {
        std::print!("{}", $crate::printable::printable_lines(&format!($($words)*)))
    };
}

macro_rules! eprintln {
    ($($words:tt)*) => {
        std::eprintln!("{}", $crate::printable::printable_lines(&format!($($words)*)))
    };
}

/// Prints problems, one line each.
pub(super) fn complain<E: std::fmt::Display>(errors: &[E]) {
    for error in errors {
        eprintln!("windrow: {error}");
    }
}

/// Prints what was rendered as a whole.
pub(super) fn print_whole(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // A closed pipe (`windrow plan | head`) is no error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// The style of tables: colour only on a terminal that wants it, as wide as COLUMNS says, else as the terminal is.
pub(super) fn style() -> Style {
    let wanted = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let stdout = std::io::stdout();
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
