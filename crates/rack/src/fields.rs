//! Reads a JSON document from a node. It names every invalid field and limits the length of every text.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::text::{WORD, clean};

/// Limit of complaints about one document.
const MOST: usize = 8;

pub(crate) struct Fields<'v> {
    of: &'v Value,
    path: String,
    wrong: Vec<String>,
}

impl<'v> Fields<'v> {
    pub(crate) fn new(of: &'v Value, path: &str) -> Self {
        Self {
            of,
            path: path.to_owned(),
            wrong: Vec::new(),
        }
    }

    pub(crate) fn complain(&mut self, key: &str, why: &str) {
        if self.wrong.len() < MOST {
            let dot = if self.path.is_empty() { "" } else { "." };
            self.wrong.push(format!("{}{dot}{key}: {why}", self.path));
        }
    }

    /// The errors; empty if there are none.
    pub(crate) fn wrong(self) -> Vec<String> {
        self.wrong
    }

    pub(crate) fn absorb(&mut self, more: Vec<String>) {
        self.wrong.extend(more);
        self.wrong.truncate(MOST);
    }

    /// The value; `None` if it is absent or null.
    pub(crate) fn value(&self, key: &str) -> Option<&'v Value> {
        self.of.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&mut self, key: &str, longest: usize) -> String {
        match self.value(key) {
            None => String::new(),
            Some(Value::String(text)) => clean(text, longest),
            Some(_) => {
                self.complain(key, "write a text");
                String::new()
            }
        }
    }

    pub(crate) fn count(&mut self, key: &str) -> Option<u64> {
        let value = self.value(key)?;
        let count = value.as_u64();
        if count.is_none() {
            self.complain(key, "write a whole number");
        }
        count
    }

    pub(crate) fn time(&mut self, key: &str) -> Option<Timestamp> {
        let value = self.value(key)?;
        let time = value.as_str().and_then(|text| text.parse().ok());
        if time.is_none() {
            self.complain(key, "write a time like 2026-11-24T09:00:00Z");
        }
        time
    }

    /// A word of an enumeration. A newer node may send words that this version does not know.
    pub(crate) fn word<T: DeserializeOwned>(&mut self, key: &str) -> Option<T> {
        let value = self.value(key)?;
        if !value.is_string() {
            self.complain(key, "write a text");
            return None;
        }
        serde_json::from_value(value.clone()).ok()
    }

    pub(crate) fn list(&mut self, key: &str, most: usize) -> &'v [Value] {
        match self.value(key) {
            None => &[],
            Some(Value::Array(items)) => &items[..items.len().min(most)],
            Some(_) => {
                self.complain(key, "write a list");
                &[]
            }
        }
    }

    pub(crate) fn map(&mut self, key: &str) -> Option<&'v Value> {
        let value = self.value(key)?;
        if !value.is_object() {
            self.complain(key, "write a map");
            return None;
        }
        Some(value)
    }

    /// A short text from a nested map, whatever the form of that map.
    pub(crate) fn text_in(&self, path: &[&str]) -> String {
        let found = path.iter().try_fold(self.of, |value, key| value.get(key));
        clean(found.and_then(Value::as_str).unwrap_or_default(), WORD)
    }
}
