//! Shortens and formats text of other programs for display.

use std::borrow::Cow;

/// On one line, with one space between words.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At most `most` characters, with an ellipsis if there were more.
pub fn cut(text: impl Into<String>, most: usize) -> String {
    let mut text = text.into();
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The beginning of a text, of at most this many bytes.
pub fn beginning(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The end of a text, of at most this many bytes.
pub fn ending(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Shortens a text to at most `width` characters, with an ellipsis at the end.
pub fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(std::iter::once('…'))
        .collect()
}

/// How long something has lasted: `12s`, `4m12s`, `2h05m`, `3d4h`. Never negative, even when a clock was set back.
pub fn lasted(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours}h"),
    }
}

/// A word of a shell's command, quoted if a shell would read it as something else.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:,=@%".contains(&byte);
    if word.bytes().all(is_plain) && !word.is_empty() {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''")).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_ends_in_an_ellipsis() {
        assert_eq!(one_line(" a\n\tb  c "), "a b c");
        assert_eq!(cut("ééé", 3), "ééé");
        assert_eq!(cut("éééé", 3), "ééé…");
        assert_eq!(
            (beginning("éa", 1), beginning("éa", 2), beginning("éa", 9)),
            ("", "é", "éa")
        );
        assert_eq!(
            (ending("aé", 1), ending("aé", 2), ending("aé", 9)),
            ("", "é", "aé")
        );
    }

    #[test]
    fn a_shortened_text_says_so() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdef", 5), "abcd…");
    }
}
