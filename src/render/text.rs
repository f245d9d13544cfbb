//! Text in a fixed number of columns.

use std::fmt::Write as _;

use jiff::Timestamp;

use crate::printable::printable;

/// Breaks a text into lines of at most `width` characters, at blanks. A longer word stays whole on its own line, so that paths and
/// commands can be copied.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if used + 1 + length <= width => {
                line.push(' ');
                line.push_str(word);
                used += 1 + length;
            }
            _ => {
                lines.push(word.to_owned());
                used = length;
            }
        }
    }
    lines
}

/// Writes a text of another program or of a file as lines with an indent.
pub(super) fn paragraph(out: &mut String, text: &str, indent: usize, width: usize) {
    for line in wrap(&printable(text), width.saturating_sub(indent)) {
        let _ = writeln!(out, "{:indent$}{line}", "");
    }
}

/// A point in time for users: without the date if it is less than a day ago.
pub(crate) fn point_in_time(at: Timestamp, now: Timestamp) -> String {
    let is_recent = now.duration_since(at).as_hours() < 24;
    let format = if is_recent {
        "%H:%M UTC"
    } else {
        "%Y-%m-%d %H:%M UTC"
    };
    at.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_blanks_and_no_word_is_broken() {
        let text = "a bb ccc dddddddddddd e";
        let lines = wrap(text, 5);
        assert_eq!(lines, ["a bb", "ccc", "dddddddddddd", "e"]);
    }

    #[test]
    fn a_text_that_fits_stays_on_one_line() {
        assert_eq!(wrap("one two", 7), ["one two"]);
        assert_eq!(wrap("", 7), Vec::<String>::new());
    }
}
