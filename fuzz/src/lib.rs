//! Arbitrary bytes for every reader of bytes that others write.
//!
//! A target is a function of bytes. It must not panic, hang or take much memory, and what it brings must stay within
//! bounds. `cargo test` gives each target its corpus (`fuzz/corpus/TARGET/`); `fuzz/run` lets libFuzzer look for more.

mod draw;
mod targets;
#[cfg(test)]
mod tests;

use std::fmt::Display;

pub use self::draw::Draw;
pub use self::targets::targets;

/// A reader, or several of the same bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and its corpus's.
    pub name: &'static str,
    /// Reads the bytes, and panics where something is wrong.
    pub run: fn(&[u8]),
}

/// The target of a name.
pub fn target(name: &str) -> Option<Target> {
    targets().find(|target| target.name == name)
}

/// The longest message: a person reads it.
const LONGEST_MESSAGE: usize = 4_000;
/// The most messages about one file.
const MOST_MESSAGES: usize = 10_000;

/// What is said of a file is short enough for a person, and hides nothing from a terminal.
fn check_messages(messages: impl IntoIterator<Item: Display>) {
    let mut count = 0;
    for message in messages {
        let message = message.to_string();
        assert!(
            message.len() <= LONGEST_MESSAGE,
            "a message of {} bytes: {}…",
            message.len(),
            message.chars().take(200).collect::<String>()
        );
        count += 1;
    }
    assert!(count <= MOST_MESSAGES, "{count} messages");
}

/// The bytes as text, as far as they are.
fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}
