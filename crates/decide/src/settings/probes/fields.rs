//! Fields of a definition: each is read, or its error is noted with its line.

use std::time::Duration;

use windrow_model::findings::Location;
use windrow_model::manifest::{MapEntry, Node, NodeValue};
use windrow_model::redact::quoted;
use windrow_model::suggest::nearest;

use super::super::error::ConfigError;
use super::super::units::{count, duration, expected};

/// A higher number of answers in a row is a mistake.
const MOST_IN_A_ROW: usize = 100;

/// Reads the fields of a file, and collects the errors.
pub(super) struct FieldReader<'a> {
    pub(super) file: &'a str,
    pub(super) errors: Vec<ConfigError>,
}

impl<'a> FieldReader<'a> {
    pub(super) fn new(file: &'a str) -> Self {
        Self {
            file,
            errors: Vec::new(),
        }
    }

    pub(super) fn wrong(&mut self, line: u32, message: String) {
        self.errors.push(ConfigError {
            at: Location::line(self.file, line),
            message,
        });
    }

    pub(super) fn map(&mut self, path: &str, entry: &MapEntry, keys: &[&str]) -> bool {
        if !matches!(entry.value.value, NodeValue::Mapping(_)) {
            let what = expected(&format!("a map with {}", list(keys)), &entry.value);
            self.wrong(entry.line, format!("{path}: {what}"));
            return false;
        }
        for entry in entry.value.entries() {
            if !keys.contains(&entry.key.as_str()) {
                let hint = match nearest(&entry.key, keys.iter().copied()) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => format!("write {}", list(keys)),
                };
                self.wrong(
                    entry.line,
                    format!(
                        "unknown key {}: {hint}",
                        quoted(&format!("{path}.{}", entry.key))
                    ),
                );
            }
        }
        true
    }

    /// Returns a value, or notes its error.
    pub(super) fn take<T>(&mut self, path: &str, line: u32, value: Result<T, String>) -> Option<T> {
        value
            .map_err(|why| self.wrong(line, format!("{path}: {why}")))
            .ok()
    }

    /// The parsed value under a key; `None` if it is absent or invalid.
    pub(super) fn read<T>(
        &mut self,
        path: &str,
        node: &Node,
        key: &str,
        read: impl Fn(&Node) -> Result<T, String>,
    ) -> Option<T> {
        let entry = node.entry(key)?;
        self.take(&format!("{path}.{key}"), entry.line, read(&entry.value))
    }

    pub(super) fn text(&mut self, path: &str, node: &Node, key: &str) -> Option<String> {
        self.read(path, node, key, |node| {
            let text = node
                .as_str()
                .filter(|text| !text.trim().is_empty() && !text.trim().contains(char::is_control));
            text.map(|text| text.trim().to_owned())
                .ok_or_else(|| expected("a text of one line", node))
        })
    }

    pub(super) fn needed(&mut self, path: &str, entry: &MapEntry, key: &str) -> Option<String> {
        if entry.value.entry(key).is_none() {
            self.wrong(entry.line, format!("{path}: `{key}` is missing"));
        }
        self.text(path, &entry.value, key)
    }

    pub(super) fn absolute(&mut self, path: &str, node: &Node, key: &str) -> Option<String> {
        self.read(path, node, key, |node| {
            node.as_str()
                .filter(|path| path.starts_with('/') && path.split('/').all(|part| part != ".."))
                .map(str::to_owned)
                .ok_or_else(|| expected("an absolute path without `..`", node))
        })
    }

    pub(super) fn boolean(&mut self, path: &str, node: &Node, key: &str) -> Option<bool> {
        self.read(path, node, key, |node| {
            node.as_bool()
                .ok_or_else(|| expected("true or false", node))
        })
    }

    pub(super) fn duration(
        &mut self,
        path: &str,
        node: &Node,
        key: &str,
        least: Duration,
    ) -> Option<Duration> {
        self.read(path, node, key, |node| duration(node, least))
    }

    pub(super) fn in_a_row(&mut self, path: &str, node: &Node, key: &str) -> Option<u32> {
        self.read(path, node, key, |node| {
            let count = count(node)?;
            u32::try_from(count)
                .ok()
                .filter(|_| count <= MOST_IN_A_ROW)
                .ok_or_else(|| format!("{count} is too many: write {MOST_IN_A_ROW} or less"))
        })
    }

    pub(super) fn one_of<T: Copy>(
        &mut self,
        path: &str,
        node: &Node,
        key: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        self.read(path, node, key, |node| {
            let found = words.iter().find(|(word, _)| node.as_str() == Some(word));
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            found
                .map(|(_, value)| *value)
                .ok_or_else(|| expected(&list(&known), node))
        })
    }

    /// A word, or a list of words.
    pub(super) fn words(&mut self, path: &str, node: &Node, known: &[&str]) -> Vec<String> {
        let one = std::slice::from_ref(node);
        let items = match &node.value {
            NodeValue::Sequence(items) if !items.is_empty() => items.as_slice(),
            _ => one,
        };
        items
            .iter()
            .filter_map(|item| {
                let word = item.as_str().filter(|word| known.contains(word));
                let what = || expected(&list(known), item);
                self.take(path, item.line, word.map(str::to_owned).ok_or_else(what))
            })
            .collect()
    }
}

/// `a, b or c`.
pub(super) fn list(words: &[&str]) -> String {
    match words {
        [words @ .., last] if !words.is_empty() => format!("{} or {last}", words.join(", ")),
        words => words.join(", "),
    }
}
