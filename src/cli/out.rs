//! Standard output and standard error of the verbs. What is said may quote a file's name or a message of
//! the cluster: no character of theirs controls a terminal (`printable.rs`).
//!
//! The macros take the place of those of the standard library for every verb, so that none forgets it.

use std::io::IsTerminal as _;

use crate::render::Style;

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

/// What was made for a terminal, with its colours.
macro_rules! print_table {
    ($($words:tt)*) => {
        std::print!("{}", $crate::printable::printable_colours(&format!($($words)*)))
    };
}

macro_rules! eprintln {
    ($($words:tt)*) => {
        std::eprintln!("{}", $crate::printable::printable_lines(&format!($($words)*)))
    };
}

/// Says what is wrong, all of it, one line each.
pub(super) fn complain<E: std::fmt::Display>(errors: &[E]) {
    for error in errors {
        eprintln!("windrow: {error}");
    }
}

/// How tables look: colour only on a terminal that wants it.
pub(super) fn style() -> Style {
    let wanted = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    Style {
        color: std::io::stdout().is_terminal() && wanted("NO_COLOR") && !dumb,
        ..Style::default()
    }
}
