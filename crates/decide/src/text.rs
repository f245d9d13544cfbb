//! Helpers for texts in messages.

use jiff::Timestamp;

/// A duration in the words of a message.
pub(super) fn age(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.duration_since(from).as_secs().max(0);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// Cuts a line so that it fits, with an ellipsis. It cuts after a word, unless that would lose half of the room.
pub(super) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most - 1).collect();
    let ends_word = text[kept.len()..].starts_with(' ');
    let words = match kept.rfind(' ') {
        Some(end) if !ends_word && end * 2 >= kept.len() => &kept[..end],
        _ => &kept,
    };
    format!("{}…", words.trim_end())
}
