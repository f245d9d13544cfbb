//! Texts with CEL expressions in them: `the NIC of ${object.metadata.name} is old`.
//!
//! They use `${` and not `{{`, because cloud-init and yip replace `{{ }}` when they write the file.

use serde_json::Value;
use windrow_model::text::cut;

use super::Expression;

/// A longer value is not more useful.
const LONGEST: usize = 512;

/// A text with expressions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageTemplate(Vec<MessagePiece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum MessagePiece {
    Text(String),
    Value(Expression),
}

impl MessageTemplate {
    /// Reads a text; the error describes its problem.
    pub fn parse(source: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = source;
        while let Some((text, after)) = rest.split_once("${") {
            let end = closing(after).ok_or("`${` has to be closed with `}`")?;
            if !text.is_empty() {
                parts.push(MessagePiece::Text(text.to_owned()));
            }
            parts.push(MessagePiece::Value(Expression::compile_value(
                &after[..end],
            )?));
            rest = &after[end + 1..];
        }
        if !rest.is_empty() {
            parts.push(MessagePiece::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// The text for an object. Fields that the object does not have are described as absent, so there is always a text.
    pub fn render(&self, object: &Value) -> String {
        let part = |part: &MessagePiece| match part {
            MessagePiece::Text(text) => text.clone(),
            MessagePiece::Value(expression) => expression
                .text(object)
                .map_or_else(|_| "(none)".to_owned(), |text| cut(text, LONGEST)),
        };
        self.0.iter().map(part).collect()
    }
}

/// The offset of the brace that closes an expression: braces inside it, and in its strings, belong to it.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '{') => depth += 1,
            (None, '}') if depth == 0 => return Some(at),
            (None, '}') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(text: &str) -> String {
        let object = json!({"metadata": {"name": "n1", "labels": {"a}": "b"}},
            "spec": {"on": true, "n": 3, "list": [1, 2]}});
        MessageTemplate::parse(text).unwrap().render(&object)
    }

    #[test]
    fn values_stand_in_the_place_of_their_expressions() {
        for (text, expected) in [
            ("plain } {{ text", "plain } {{ text"),
            ("${object.metadata.name}!", "n1!"),
            ("${object.spec.n} ${object.spec.on}", "3 true"),
            ("${object.metadata.labels['a}']}", "b"),
            ("${size(object.spec.list)} items", "2 items"),
            ("${{'a': 'x'}['a']}", "x"),
            (r"${'it\'s }' + 'x'}", "it's }x"),
            ("${object.spec.absent}", "(none)"),
            ("${object.spec.list}", "(none)"),
        ] {
            assert_eq!(rendered(text), expected, "{text}");
        }
    }

    #[test]
    fn a_long_value_is_cut() {
        let template = MessageTemplate::parse("${object.x}").unwrap();
        let text = template.render(&json!({"x": "ä".repeat(2000)}));
        assert_eq!(text.chars().count(), LONGEST + 1);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (text, expected) in [
            ("${object.x", "has to be closed"),
            ("${}", "empty"),
            ("${node.x}", "`node` is unknown"),
            ("${object.x +}", "cannot be read"),
        ] {
            let why = MessageTemplate::parse(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
