//! Reads maps of a rule file: known keys, right types, and every error with its line.

use std::fmt;

use windrow_model::findings::Location;
use windrow_model::manifest::{Node, NodeValue};
use windrow_model::redact::quoted;
use windrow_model::suggest::nearest;

use super::Expression;

/// An error of a rule file: place, problem and solution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    pub at: Location,
    pub message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

impl std::error::Error for RuleError {}

/// The errors of one file, collected until all of it was read.
pub(crate) struct Errors<'f> {
    file: &'f str,
    /// Whether the file comes with Windrow. A test has then compiled its expressions.
    is_shipped: bool,
    found: Vec<RuleError>,
}

impl<'f> Errors<'f> {
    pub(crate) fn new(file: &'f str) -> Self {
        Self {
            file,
            is_shipped: false,
            found: Vec::new(),
        }
    }

    /// The errors of a file that comes with Windrow.
    pub(crate) fn of_shipped(file: &'f str) -> Self {
        Self {
            is_shipped: true,
            ..Self::new(file)
        }
    }

    pub(crate) fn at(&mut self, line: u32, message: impl Into<String>) {
        self.found.push(RuleError {
            at: self.location(line),
            message: message.into(),
        });
    }

    pub(crate) fn file(&mut self, message: impl Into<String>) {
        self.found.push(RuleError {
            at: Location::file(self.file),
            message: message.into(),
        });
    }

    /// Reports the error of a key's value, if there is one.
    pub(crate) fn check(&mut self, line: u32, key: &str, wrong: Option<String>) {
        if let Some(why) = wrong {
            self.at(line, format!("`{key}`: {why}"));
        }
    }

    pub(crate) fn location(&self, line: u32) -> Location {
        Location::line(self.file, line)
    }

    /// The number of errors so far: text between two equal counts is valid.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// The errors in the order of their lines; those of the whole file first.
    pub(crate) fn into_found(mut self) -> Vec<RuleError> {
        self.found.sort_by_key(|error| error.at.line);
        self.found
    }
}

/// Why this is not a valid name of an API group.
pub(crate) fn group_error(group: &str) -> Option<String> {
    if let Some((name, version)) = group.split_once('/') {
        return Some(format!(
            "{} has a version; leave `/{version}` out, a group is `{name}` in every version",
            quoted(group)
        ));
    }
    let is_label = |label: &str| {
        let is_inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let (first, last) = (label.starts_with('-'), label.ends_with('-'));
        !label.is_empty() && label.bytes().all(is_inner) && !first && !last
    };
    (!group.is_empty() && !group.split('.').all(is_label)).then(|| {
        format!(
            "{} is not a valid API group, which has lower-case letters, digits, `-` and `.` (RFC 1123)",
            quoted(group)
        )
    })
}

/// Why this is not a valid name of a kind: a definition's kind is a label of RFC 1035, but with capitals.
pub(crate) fn kind_error(kind: &str) -> Option<String> {
    let begins = kind.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_inner = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
    let is_kind = begins && kind.bytes().all(is_inner) && !kind.ends_with('-') && kind.len() <= 63;
    (!is_kind).then(|| {
        format!(
            "{} is not a valid kind, which is a word like `Deployment`: a letter, then letters and digits",
            quoted(kind)
        )
    })
}

/// A map with only known keys.
pub(crate) struct Fields<'n> {
    node: &'n Node,
    what: &'static str,
}

impl<'n> Fields<'n> {
    /// Reads `node` as a map with `known` keys. `what` is its name in messages (`the rule`).
    pub(crate) fn new(
        node: &'n Node,
        what: &'static str,
        known: &[&str],
        errors: &mut Errors<'_>,
    ) -> Option<Self> {
        if !matches!(node.value, NodeValue::Mapping(_)) {
            errors.at(
                node.line,
                format!(
                    "{what} is {}, expected a map with the keys {}",
                    node.type_name(),
                    known.join(", ")
                ),
            );
            return None;
        }
        for entry in node.entries() {
            if !known.contains(&entry.key.as_str()) {
                let hint = nearest(&entry.key, known.iter().copied()).map_or_else(
                    || format!("known are {}", known.join(", ")),
                    |close| format!("did you mean `{close}`?"),
                );
                errors.at(
                    entry.line,
                    format!("{what} has no key {}; {hint}", quoted(&entry.key)),
                );
            }
        }
        Some(Self { node, what })
    }

    pub(crate) fn line(&self) -> u32 {
        self.node.line
    }

    /// Reports that something is absent.
    pub(crate) fn lacks(&self, missing: &str, errors: &mut Errors<'_>) {
        errors.at(self.line(), format!("{} lacks {missing}", self.what));
    }

    /// The line of a value; the map's if there is none.
    pub(crate) fn line_of(&self, key: &str) -> u32 {
        self.node.get(key).map_or(self.line(), |node| node.line)
    }

    /// The value under a key; `null` counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&'n Node> {
        self.node.get(key).filter(|node| !node.is_null())
    }

    /// An optional text. An empty one is an error unless `empty` allows it.
    fn string(&self, key: &str, empty: bool, errors: &mut Errors<'_>) -> Option<&'n str> {
        let node = self.get(key)?;
        match node.as_str() {
            Some(text) if empty || !text.is_empty() => Some(text),
            Some(_) => {
                errors.at(node.line, format!("`{key}` of {} is empty", self.what));
                None
            }
            None => {
                errors.at(
                    node.line,
                    format!(
                        "`{key}` of {} is {}, expected a string; put it in quotes",
                        self.what,
                        node.type_name()
                    ),
                );
                None
            }
        }
    }

    pub(crate) fn text(&self, key: &str, errors: &mut Errors<'_>) -> Option<&'n str> {
        self.string(key, false, errors)
    }

    /// An optional text, which may be empty: an API group, in which `""` is the core group.
    pub(crate) fn group(&self, key: &str, errors: &mut Errors<'_>) -> Option<&'n str> {
        let group = self.string(key, true, errors)?;
        errors.check(self.line_of(key), key, group_error(group));
        Some(group)
    }

    pub(crate) fn kind(&self, key: &str, errors: &mut Errors<'_>) -> Option<&'n str> {
        let kind = self.text(key, errors)?;
        errors.check(self.line_of(key), key, kind_error(kind));
        Some(kind)
    }

    pub(crate) fn required(&self, key: &str, errors: &mut Errors<'_>) -> Option<&'n str> {
        if self.get(key).is_none() {
            self.lacks(&format!("`{key}`"), errors);
        }
        self.text(key, errors)
    }

    /// `true` or `false`, with a default.
    pub(crate) fn flag(&self, key: &str, default: bool, errors: &mut Errors<'_>) -> bool {
        let Some(node) = self.get(key) else {
            return default;
        };
        node.as_bool().unwrap_or_else(|| {
            errors.at(
                node.line,
                format!("`{key}` is {}, expected true or false", node.type_name()),
            );
            default
        })
    }

    pub(crate) fn list(&self, key: &str, errors: &mut Errors<'_>) -> &'n [Node] {
        let Some(node) = self.get(key) else {
            return &[];
        };
        if !matches!(node.value, NodeValue::Sequence(_)) {
            errors.at(
                node.line,
                format!(
                    "`{key}` of {} is {}, expected a list",
                    self.what,
                    node.type_name()
                ),
            );
        }
        node.items()
    }

    pub(crate) fn texts(&self, key: &str, errors: &mut Errors<'_>) -> Vec<(&'n str, u32)> {
        let mut texts = Vec::new();
        for item in self.list(key, errors) {
            match item.as_str() {
                Some(text) => texts.push((text, item.line)),
                None => errors.at(
                    item.line,
                    format!("`{key}` holds {}, expected strings", item.type_name()),
                ),
            }
        }
        texts
    }

    /// An optional map of texts: keys, texts and their lines.
    pub(crate) fn pairs(&self, key: &str, errors: &mut Errors<'_>) -> Vec<(&'n str, &'n str, u32)> {
        let Some(node) = self.get(key) else {
            return Vec::new();
        };
        if !matches!(node.value, NodeValue::Mapping(_)) {
            errors.at(
                node.line,
                format!("`{key}` is {}, expected a map of strings", node.type_name()),
            );
        }
        let mut pairs = Vec::new();
        for entry in node.entries() {
            match entry.value.as_str() {
                Some(text) => pairs.push((entry.key.as_str(), text, entry.line)),
                None => errors.at(
                    entry.line,
                    format!(
                        "`{}` in `{key}` is {}, expected a string; put it in quotes",
                        entry.key,
                        entry.value.type_name()
                    ),
                ),
            }
        }
        pairs
    }

    /// Reports a list without items.
    pub(crate) fn filled(&self, key: &str, errors: &mut Errors<'_>) {
        if self.get(key).is_none_or(
            |node| matches!(&node.value, NodeValue::Sequence(items) if items.is_empty()),
        ) {
            self.lacks(&format!("`{key}`: a list with at least one item"), errors);
        }
    }

    /// Reports a text that is not the expected one.
    pub(crate) fn is(&self, key: &str, expected: &str, errors: &mut Errors<'_>) {
        if let Some(text) = self.required(key, errors)
            && text != expected
        {
            let line = self.line_of(key);
            errors.at(
                line,
                format!("`{key}` is {}, expected `{expected}`", quoted(text)),
            );
        }
    }

    /// The name of a whole file, under `metadata`; empty if it has none.
    pub(crate) fn name(&self, errors: &mut Errors<'_>) -> &'n str {
        let Some(metadata) = self.get("metadata") else {
            let missing =
                "`metadata: {name: ...}`: its entries are identified by this name and their own";
            self.lacks(missing, errors);
            return "";
        };
        let name = Fields::new(metadata, "`metadata`", &["name"], errors)
            .and_then(|metadata| metadata.required("name", errors));
        match name {
            Some(name) => {
                check_name(name, metadata.line, errors);
                name
            }
            None => "",
        }
    }

    /// One of several words, each with its value.
    pub(crate) fn word<T: Clone>(
        &self,
        key: &str,
        words: &[(&str, T)],
        errors: &mut Errors<'_>,
    ) -> Option<T> {
        let text = self.text(key, errors)?;
        let value = words
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, value)| value.clone());
        if value.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let hint = nearest(text, known.iter().copied())
                .map_or_else(String::new, |close| format!("; did you mean `{close}`?"));
            errors.at(
                self.line_of(key),
                format!(
                    "`{key}` is {}, expected {}{hint}",
                    quoted(text),
                    known.join(" or ")
                ),
            );
        }
        value
    }

    pub(crate) fn expression(&self, key: &str, errors: &mut Errors<'_>) -> Option<Expression> {
        let source = self.text(key, errors)?;
        if errors.is_shipped {
            return Some(Expression::deferred(source));
        }
        let line = self.line_of(key);
        Expression::compile(source)
            .map_err(|error| errors.at(line, format!("`{key}`: {error}")))
            .ok()
    }
}

/// Names are parts of the names that reasons show.
pub(crate) fn check_name(name: &str, line: u32, errors: &mut Errors<'_>) {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.bytes().all(plain) {
        errors.at(
            line,
            format!(
                "the name {} may hold lower-case letters, digits and `-` only",
                quoted(name)
            ),
        );
    }
}
