//! Text in HTML and SVG. A manifest's text may hold anything.

use std::fmt::{self, Write};

use askama::filters::Escaper;

use crate::printable::{is_hidden, printable};

/// Escapes markup in a text or in an attribute in double quotes, and makes control characters and hidden characters visible.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Markup;

impl Escaper for Markup {
    fn write_escaped_str<W: Write>(&self, mut out: W, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '&' => out.write_str("&amp;")?,
                '"' => out.write_str("&quot;")?,
                hidden if is_hidden(hidden) && hidden != '\n' => {
                    out.write_str(&printable(hidden.encode_utf8(&mut [0; 4])))?;
                }
                other => out.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// As [`Markup`], for pages that continuous integration shows in its log: no text begins a line, where a forge reads
/// commands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneLineMarkup;

impl Escaper for OneLineMarkup {
    fn write_escaped_str<W: Write>(&self, out: W, text: &str) -> fmt::Result {
        Markup.write_escaped_str(out, &printable(text))
    }
}

/// A text on one line.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Writing to a string cannot fail.
    let _ = OneLineMarkup.write_escaped_str(&mut out, text);
    out
}

/// A text on one line, with what is between backticks as code.
pub(super) fn with_code(text: &str) -> String {
    let mut parts = text.split('`');
    let mut out = escaped(parts.next().unwrap_or_default());
    while let Some(code) = parts.next() {
        let (code, after) = (escaped(code), parts.next());
        match after {
            Some(after) => out.extend(["<code>", &code, "</code>", &escaped(after)]),
            None => out.extend(["`", &code]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pair_of_backticks_is_code() {
        for (text, html) in [
            (
                "set `a<b>` to `c`",
                "set <code>a&lt;b&gt;</code> to <code>c</code>",
            ),
            ("plain & simple", "plain &amp; simple"),
            ("a lone ` stays", "a lone ` stays"),
            ("`a` and ` <", "<code>a</code> and ` &lt;"),
        ] {
            assert_eq!(with_code(text), html);
        }
    }
}
