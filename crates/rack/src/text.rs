//! Texts from nodes: limited in length, on one line, without invisible characters.

use windrow_model::hidden::is_hidden;

/// Longest name of a node, a rack or a role.
pub(crate) const NAME: usize = 253;
/// Longest word: a code, a version or an ID.
pub(crate) const WORD: usize = 128;
pub(crate) const MESSAGE: usize = 512;

/// A text for storage and display. Invisible characters become blanks, and a text that is too long ends with an ellipsis.
pub(crate) fn clean(text: &str, longest: usize) -> String {
    let mut out = String::new();
    for (kept, one) in text.trim().chars().enumerate() {
        if kept == longest {
            out.pop();
            out.push('…');
            break;
        }
        out.push(if is_hidden(one) { ' ' } else { one });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_a_blank_and_what_is_long_says_so() {
        assert_eq!(clean(" a\u{1b}[2Jb\nc\u{202e} ", 20), "a [2Jb c ");
        assert_eq!(clean("abcdef", 6), "abcdef");
        assert_eq!(clean("abcdefg", 6), "abcde…");
        assert_eq!(clean(&"é".repeat(1_000_000), 4), "ééé…");
    }
}
