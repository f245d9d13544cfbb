//! JSON with lines. RKE2 reads a document whose first character is `{` only as JSON.
//!
//! The rules are those of Kubernetes' decoder: the last of several equal keys wins, integers that fit stay integers,
//! half a surrogate pair becomes U+FFFD.

use serde_json::Number;

use super::budget::{self, BudgetSpent, MemoryBudget};
use super::{MapEntry, Node, NodeValue, Problem, ReadLimits, node, template};
use crate::reasons::Code;

/// Reads exactly one JSON value. Lines are counted from `first_line`. `taken` is the memory that the documents before
/// it take.
pub fn parse(
    text: &str,
    first_line: u32,
    limits: &ReadLimits,
    taken: usize,
) -> Result<Node, Problem> {
    let mut parser = Parser {
        text,
        at: 0,
        line: first_line,
        depth: limits.depth,
        budget: MemoryBudget::new(limits, taken),
    };
    let read = parser.blank().value(0).and_then(|node| {
        parser.blank();
        match parser.peek() {
            None => Ok(node),
            Some(_) => Err(JsonError::Syntax(
                "something follows the object; separate documents with a line `---`".to_owned(),
            )),
        }
    });
    read.map_err(|wrong| {
        let (code, message) = match wrong {
            JsonError::Syntax(_) if template::begins(text) => {
                (Code::FileRefused, template::INSTEAD_OF_JSON.to_owned())
            }
            JsonError::Syntax(why) => (
                Code::FileRefused,
                format!(
                    "the document begins with `{{`, so RKE2 reads it as JSON, and it is not valid JSON: {why}"
                ),
            ),
            JsonError::TooDeep => (
                Code::LimitExceeded,
                format!(
                    "lists and maps are nested more than {} deep; write them flatter, or raise staging.limits.depth",
                    limits.depth
                ),
            ),
            JsonError::TooMuch => (Code::LimitExceeded, budget::exceeded(limits, taken)),
        };
        Problem {
            code,
            line: Some(parser.line),
            message,
        }
    })
}

enum JsonError {
    Syntax(String),
    TooDeep,
    TooMuch,
}

impl From<BudgetSpent> for JsonError {
    fn from(BudgetSpent: BudgetSpent) -> Self {
        Self::TooMuch
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    line: u32,
    depth: usize,
    budget: MemoryBudget,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blank(&mut self) -> &mut Self {
        while let Some(byte @ (b' ' | b'\t' | b'\r' | b'\n')) = self.peek() {
            self.line += u32::from(byte == b'\n');
            self.at += 1;
        }
        self
    }

    /// Describes the unexpected text without quoting it: a letter may be the first of a secret.
    fn found(&self) -> &'static str {
        match self.peek() {
            None => "the text ends",
            Some(b'{' | b'}' | b'[' | b']') => "found a bracket",
            Some(b'"') => "found a double quote",
            Some(b'\'') => "found a single quote",
            Some(b',' | b':') => "found a comma or colon",
            Some(b'#') => "found a comment",
            Some(_) => "found text without quotes",
        }
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<(), JsonError> {
        if self.blank().peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(JsonError::Syntax(format!(
            "expected {what}, {}",
            self.found()
        )))
    }

    fn value(&mut self, depth: usize) -> Result<Node, JsonError> {
        let line = self.line;
        let value = match self.peek() {
            Some(b'{') => self.object(depth + 1)?,
            Some(b'[') => self.array(depth + 1)?,
            Some(b'"') => NodeValue::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.literal()?,
        };
        Ok(Node { line, value })
    }

    fn literal(&mut self) -> Result<NodeValue, JsonError> {
        for (word, value) in [
            ("true", NodeValue::Bool(true)),
            ("false", NodeValue::Bool(false)),
            ("null", NodeValue::Null),
        ] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(JsonError::Syntax(format!(
            "expected a value, {}",
            self.found()
        )))
    }

    fn object(&mut self, depth: usize) -> Result<NodeValue, JsonError> {
        self.enter(depth)?;
        let mut entries = Vec::new();
        if self.blank().peek() == Some(b'}') {
            self.at += 1;
            return Ok(NodeValue::Mapping(entries));
        }
        loop {
            if self.blank().peek() != Some(b'"') {
                return Err(JsonError::Syntax(format!(
                    "expected a key in double quotes, {}",
                    self.found()
                )));
            }
            let line = self.line;
            let key = self.string()?;
            self.expect(b':', "`:` after the key")?;
            let value = self.blank().value(depth)?;
            self.budget.grow(&entries)?;
            entries.push(MapEntry { key, line, value });
            if self.blank().peek() == Some(b'}') {
                self.at += 1;
                self.budget.trim(&mut entries);
                return Ok(NodeValue::Mapping(node::keep_last(entries).0));
            }
            self.expect(b',', "`,` or `}`")?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<NodeValue, JsonError> {
        self.enter(depth)?;
        let mut items = Vec::new();
        if self.blank().peek() == Some(b']') {
            self.at += 1;
            return Ok(NodeValue::Sequence(items));
        }
        loop {
            let item = self.blank().value(depth)?;
            self.budget.grow(&items)?;
            items.push(item);
            if self.blank().peek() == Some(b']') {
                self.at += 1;
                self.budget.trim(&mut items);
                return Ok(NodeValue::Sequence(items));
            }
            self.expect(b',', "`,` or `]`")?;
        }
    }

    fn enter(&mut self, depth: usize) -> Result<(), JsonError> {
        self.at += 1;
        if depth > self.depth {
            return Err(JsonError::TooDeep);
        }
        Ok(())
    }

    fn number(&mut self) -> Result<NodeValue, JsonError> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let whole = self.digits();
        let mut fits = whole > 0 && (whole == 1 || self.text.as_bytes()[self.at - whole] != b'0');
        let mut integer = true;
        if self.peek() == Some(b'.') {
            integer = false;
            self.at += 1;
            fits &= self.digits() > 0;
        }
        if let Some(b'e' | b'E') = self.peek() {
            integer = false;
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            fits &= self.digits() > 0;
        }
        let text = &self.text[start..self.at];
        let number = match text.parse::<i64>() {
            Ok(number) if integer => Some(Number::from(number)),
            _ => text.parse().ok().and_then(Number::from_f64),
        };
        match number {
            Some(number) if fits => Ok(NodeValue::Number(number)),
            _ => Err(JsonError::Syntax(
                "the value is not a number; put double quotes around it if it is text".to_owned(),
            )),
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let end = rest
                .bytes()
                .position(|byte| byte == b'"' || byte == b'\\' || byte < b' ')
                .unwrap_or(rest.len());
            string.push_str(&rest[..end]);
            self.at += end;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    string.shrink_to_fit();
                    self.budget.take(budget::memory_of_text(&string))?;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escape()?),
                Some(_) => {
                    return Err(JsonError::Syntax(
                        "a control character in a string must be escaped, a line break as \\n"
                            .to_owned(),
                    ));
                }
                None => return Err(JsonError::Syntax("a string is not closed".to_owned())),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let letter = self.text.as_bytes().get(self.at + 1).copied();
        let ch = match letter {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(JsonError::Syntax("unknown escape after `\\`".to_owned())),
        };
        self.at += 2;
        Ok(ch)
    }

    fn unicode(&mut self) -> Result<char, JsonError> {
        let high = self
            .hex4(self.at)
            .ok_or_else(|| JsonError::Syntax("`\\u` takes four hexadecimal digits".to_owned()))?;
        self.at += 6;
        if !(0xd800..0xdc00).contains(&high) {
            return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        if let Some(low @ 0xdc00..=0xdfff) = self.hex4(self.at) {
            self.at += 6;
            let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    /// The number in `\uXXXX` at this offset.
    fn hex4(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 6)?.strip_prefix("\\u")?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u32::from_str_radix(digits, 16).ok()
    }
}
