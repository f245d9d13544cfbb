//! Standard output and standard error of the verbs. What is said may quote a file's name or a message of
//! the cluster: no character of theirs controls a terminal (`printable.rs`).
//!
//! The macros take the place of those of the standard library for every verb, so that none forgets it.

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
