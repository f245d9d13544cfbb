//! Text for a terminal's cells: harmless, and measured in columns.

use unicode_width::UnicodeWidthChar as _;

/// Makes foreign text harmless for a terminal: one line, no character that controls, reorders
/// or takes no room. Without `unicode`, ASCII only.
pub(super) fn clean(text: &str, unicode: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ' '..='~' => out.push(c),
            '\t' | '\n' | '\r' | '\u{a0}' => out.push(' '),
            // Characters for private use look different everywhere.
            '\u{e000}'..='\u{f8ff}' => out.push('?'),
            _ if unicode && c.width().unwrap_or(0) > 0 && !reorders(c) => out.push(c),
            _ if unicode => out.push('\u{fffd}'),
            _ => out.push_str(ascii(c)),
        }
    }
    out
}

fn reorders(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn ascii(c: char) -> &'static str {
    match c {
        '…' => "...",
        '‘' | '’' | '‚' => "'",
        '“' | '”' | '„' | '«' | '»' => "\"",
        '‐' | '‑' | '‒' | '–' | '—' | '−' => "-",
        '→' => "->",
        '←' => "<-",
        '•' | '·' => "*",
        '×' => "x",
        '≤' => "<=",
        '≥' => ">=",
        _ => "?",
    }
}

pub(super) fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Shortens a text to at most `width` columns; an ellipsis stands for the rest.
pub(super) fn fit(text: &str, width: usize, unicode: bool) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let dots = match (unicode, width) {
        (true, _) => "…",
        (false, 4..) => "...",
        (false, _) => "",
    };
    let mut kept = take(text, width.saturating_sub(columns(dots))).to_owned();
    if width >= columns(dots) {
        kept.push_str(dots);
    }
    kept
}

/// The beginning of a text that fits into `width` columns.
fn take(text: &str, width: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > width {
            return &text[..at];
        }
    }
    text
}

/// Breaks a text into lines of at most `width` columns, at blanks where it can.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    // A wide character needs two.
    let width = width.max(2);
    let mut lines = Vec::new();
    let mut line = String::new();
    for mut word in text.split_whitespace() {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        while columns(word) > width {
            let part = take(word, width);
            lines.push(part.to_owned());
            word = &word[part.len()..];
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// As [`wrap`], with at most `most` lines: the last one shows that there is more.
pub(super) fn wrap_to(text: &str, width: usize, most: usize, unicode: bool) -> Vec<String> {
    let mut lines = wrap(text, width);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            let dots = if unicode { "…" } else { "..." };
            let kept = take(last, width.saturating_sub(columns(dots))).trim_end();
            *last = format!("{kept}{dots}");
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str =
        "a\u{1b}[2J\u{7}b\n\u{202e}c\u{200b}d\u{9b}31m e\u{301} 節點 \u{e0b0}\u{0}";

    #[test]
    fn what_controls_a_terminal_does_not_reach_it() {
        for unicode in [true, false] {
            let text = clean(HOSTILE, unicode);
            assert!(!text.chars().any(char::is_control), "{text:?}");
            assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{301}', '\u{9b}']));
            assert!(text.contains("節點") == unicode);
            assert!(unicode || text.is_ascii(), "{text:?}");
        }
        assert_eq!(clean("a → b… ‘c’ – d", false), "a -> b... 'c' - d");
    }

    #[test]
    fn no_line_takes_more_columns_than_there_are() {
        let text = clean("一二三四五六七 abc defghijklmnop q", true);
        for width in 1..20 {
            for line in wrap(&text, width) {
                assert!(columns(&line) <= width.max(2), "{width}: {line:?}");
            }
            assert!(columns(&fit(&text, width, true)) <= width);
            assert!(columns(&fit(&text, width, false)) <= width);
        }
        let whole: String = wrap(&text, 7).concat();
        assert_eq!(
            whole.replace(' ', ""),
            text.replace(' ', ""),
            "nothing is lost"
        );
    }

    #[test]
    fn a_text_that_is_cut_says_so() {
        assert_eq!(fit("abcdef", 6, true), "abcdef");
        assert_eq!(fit("abcdef", 5, true), "abcd…");
        assert_eq!(fit("abcdef", 5, false), "ab...");
        let lines = wrap_to("one two three four five", 9, 2, false);
        assert_eq!(lines, ["one two", "three..."]);
    }
}
