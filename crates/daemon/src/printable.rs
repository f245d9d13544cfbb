//! Makes foreign text harmless for readers: terminals, browsers, logs. Pure.
//!
//! A file's name, a message of the API or a key of a manifest may hold characters that move a cursor, reverse the order
//! of the text, or are invisible. They are shown as `\u{202e}`, so that a reader sees them. In JSON they are written as
//! JSON escapes them, and mean the same.

use std::fmt::Write as _;

use serde::Serialize;
pub use windrow_model::text::shell_word;

pub use windrow_model::hidden::is_hidden;

/// The longest part of a message at its beginning, and at its end, in characters.
const BRIEF: usize = 200;

/// A message that quotes its input, without the middle if it is very long.
pub(crate) fn in_brief(message: &str) -> String {
    let begin = message.char_indices().nth(BRIEF);
    let end = message.char_indices().rev().nth(BRIEF - 1);
    match (begin, end) {
        (Some((begin, _)), Some((end, _))) if begin < end => {
            format!("{}…{}", &message[..begin], &message[end..])
        }
        _ => message.to_owned(),
    }
}

/// A text in one line: each hidden character becomes visible.
pub fn printable(text: &str) -> String {
    shown(text, |_| false)
}

/// A text of several lines: line breaks and tabs stay.
pub fn printable_lines(text: &str) -> String {
    shown(text, |one| matches!(one, '\n' | '\t'))
}

/// A verb's text for a terminal: colours stay, and no other sequence that begins with ESC.
pub fn printable_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&printable_lines(&rest[..at]));
        rest = &rest[at..];
        let colour = rest[1..].strip_prefix('[').and_then(|code| {
            let length = code
                .bytes()
                .take_while(|byte| byte.is_ascii_digit() || *byte == b';')
                .count();
            code[length..].starts_with('m').then_some(length + 3)
        });
        let length = colour.unwrap_or(1);
        match colour {
            Some(_) => out.push_str(&rest[..length]),
            None => out.push_str("\\u{1b}"),
        }
        rest = &rest[length..];
    }
    out.push_str(&printable_lines(rest));
    out
}

fn shown(text: &str, stays: fn(char) -> bool) -> String {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            one if stays(one) || !is_hidden(one) => out.push(one),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Writing to a string cannot fail.
            one => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(one));
            }
        }
    }
    out
}

/// A value as JSON in one line, with every hidden character escaped.
///
/// # Errors
///
/// Those of `serde_json`: a map with keys that are not texts.
pub fn json<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    serde_json::to_string(value).map(escaped)
}

/// As `json`, over several lines, without a line break at the end.
///
/// # Errors
///
/// As `json`.
pub fn json_pretty<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(escaped)
}

/// A value as a YAML document. One with hidden characters is written in YAML's other form, which looks like JSON: there they
/// can be escaped.
///
/// # Errors
///
/// When the value has no form in YAML: a map in place of a key.
pub fn yaml<T: Serialize>(value: &T) -> anyhow::Result<String> {
    let text = windrow_model::manifest::yaml::to_text(value)?;
    match text.chars().any(|one| one != '\n' && is_hidden(one)) {
        false => Ok(text),
        true => Ok(escaped_yaml(&serde_json::to_string_pretty(value)?) + "\n"),
    }
}

/// As [`escaped`]; YAML escapes a character beyond 16 bits in one piece.
fn escaped_yaml(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for one in json.chars() {
        // Writing to a string cannot fail.
        let _ = match u32::from(one) {
            _ if one == '\n' || !is_hidden(one) => write!(out, "{one}"),
            code @ 0..=0xffff => write!(out, "\\u{code:04x}"),
            code => write!(out, "\\U{code:08x}"),
        };
    }
    out
}

/// In JSON, hidden characters occur only in strings, where they may be escaped; line breaks are JSON's own.
pub fn escaped(json: String) -> String {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n');
    if json.bytes().all(is_plain) {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    for one in json.chars() {
        if one == '\n' || !is_hidden(one) {
            out.push(one);
            continue;
        }
        for unit in one.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str =
        "a\u{1b}[2Jb\u{9b}31m\u{202e}c\u{200b}d\u{2066}\u{7f}\u{e0041}\u{feff}é節";

    #[test]
    fn of_a_long_message_the_middle_goes() {
        for fits in ["", "節", &"節".repeat(2 * BRIEF)] {
            assert_eq!(in_brief(fits), fits);
        }
        let long = format!("{}{}{}", "a".repeat(BRIEF), "b", "節".repeat(BRIEF));
        let brief = format!("{}…{}", "a".repeat(BRIEF), "節".repeat(BRIEF));
        assert_eq!(in_brief(&long), brief);
    }

    #[test]
    fn what_controls_reorders_or_hides_becomes_visible() {
        let shown = printable(&format!("{HOSTILE}\n\t"));
        assert_eq!(
            shown,
            "a\\u{1b}[2Jb\\u{9b}31m\\u{202e}c\\u{200b}d\\u{2066}\\u{7f}\\u{e0041}\\u{feff}é節\\n\\t"
        );
        assert!(!shown.chars().any(is_hidden));
        assert_eq!(printable_lines("a\n\tb\u{7}"), "a\n\tb\\u{7}");
        assert_eq!(printable("plain – text"), "plain – text");
    }

    #[test]
    fn colours_stay_and_other_sequences_do_not() {
        assert_eq!(
            printable_colours("\u{1b}[1;31mred\u{1b}[0m \u{1b}[2J\u{1b}]0;x\u{7}\u{1b}"),
            "\u{1b}[1;31mred\u{1b}[0m \\u{1b}[2J\\u{1b}]0;x\\u{7}\\u{1b}"
        );
    }

    #[test]
    fn a_shell_reads_a_word_as_it_was() {
        for word in ["/a/b.yaml.skip", "it's", "a b", "$(id)", "\\", "''", ""] {
            let command = format!("printf %s {}", shell_word(word));
            let shell = std::process::Command::new("sh")
                .args(["-c", &command])
                .output();
            assert_eq!(shell.unwrap().stdout, word.as_bytes(), "{command}");
        }
        assert_eq!(shell_word("/a/b.yaml.skip"), "/a/b.yaml.skip");
    }

    #[test]
    fn yaml_means_the_same_and_hides_nothing() {
        for text in [HOSTILE, "yes", "x\ny", "1:30", "plain"] {
            let value = serde_json::json!({"on": [text, text]});
            let text = yaml(&value).unwrap();
            assert!(!text.replace('\n', "").chars().any(is_hidden), "{text}");
            let read = windrow_model::manifest::yaml::parse_configuration(&text);
            assert_eq!(read.unwrap().unwrap().to_json(), value, "{text}");
        }
    }

    #[test]
    fn json_means_the_same_and_hides_nothing() {
        let value = serde_json::json!({HOSTILE: [HOSTILE, "x\ny"]});
        for text in [json(&value).unwrap(), json_pretty(&value).unwrap()] {
            assert!(
                text.contains("\\u202e") && text.contains("\\u009b"),
                "{text}"
            );
            assert!(!text.replace('\n', "").chars().any(is_hidden), "{text}");
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read, value);
        }
    }
}
