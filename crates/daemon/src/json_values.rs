//! JSON from elsewhere, read into values within a bound on their memory: 12 MiB of `0,` are six million values.

use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use thiserror::Error;

/// Most memory that values may take, in bytes. Those of a report with 96 MiB of objects take less.
const MOST_MEMORY: usize = 512 << 20;
/// As `MOST_MEMORY`, for the lines of a boot log: recorded manifests are many small maps, 14 bytes of memory for each
/// byte.
const MOST_OF_FLIGHTS: usize = 1 << 30;
/// The memory of a map, however few keys it has (a node of a B-tree).
const MAP: usize = 640;
/// The average memory of each of its keys, without the key's text.
const KEY: usize = 64;
/// The memory of an allocation in addition to its bytes.
const ALLOCATION: usize = 16;
/// The memory of an item of a list, with the room that the list keeps to grow.
const ITEM: usize = 2 * size_of::<Value>();
/// Which managers set which fields of an object: nothing reads it, and it is half of some objects.
const UNREAD: &str = "managedFields";

/// Why values cannot be read. The text is not quoted.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ValueError {
    /// It is not JSON, or has more levels than are read.
    #[error("it is not JSON, or nested too deeply (line {line}, column {column})")]
    NotJson {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    #[error("its values take more than {} MiB of memory", .most >> 20)]
    TooLarge { most: usize },
    /// It is JSON, and not a list of objects.
    #[error("it is not a list of objects")]
    NoList,
}

/// The memory that values may still take. It is counted before it is taken.
#[derive(Debug)]
pub struct ValueBudget {
    most: usize,
    left: usize,
    is_spent: bool,
    /// Whether a map of the newest JSON had one key twice. Only the last of its values is read.
    has_repeated_key: bool,
    /// Whether values that nothing reads are counted.
    counts_unread: bool,
}

impl Default for ValueBudget {
    fn default() -> Self {
        Self::of(MOST_MEMORY)
    }
}

impl ValueBudget {
    pub fn of(most: usize) -> Self {
        Self {
            most,
            left: most,
            is_spent: false,
            has_repeated_key: false,
            counts_unread: false,
        }
    }

    pub fn of_flights() -> Self {
        Self::of(MOST_OF_FLIGHTS)
    }

    /// Takes the memory that a line of JSON needs when it is read into any type. A line that is not JSON is for its reader
    /// to report.
    pub fn take_line(&mut self, line: &[u8]) -> Result<(), ValueError> {
        self.counts_unread = true;
        let parsed = self.parse(line);
        self.counts_unread = false;
        match parsed {
            Err(error @ ValueError::TooLarge { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads JSON, without the `managedFields` of objects.
    ///
    /// # Errors
    ///
    /// If it is not JSON, or its values take more than is left.
    pub fn parse(&mut self, json: &[u8]) -> Result<Value, ValueError> {
        self.has_repeated_key = false;
        let mut reader = serde_json::Deserializer::from_slice(json);
        let value = ValueSeed(self).deserialize(&mut reader);
        value
            .and_then(|value| reader.end().map(|()| value))
            .map_err(|error| {
                if self.is_spent {
                    return ValueError::TooLarge { most: self.most };
                }
                ValueError::NotJson {
                    line: error.line(),
                    column: error.column(),
                }
            })
    }

    /// Whether a map of the JSON that was read last had one key twice.
    pub fn has_repeated_key(&self) -> bool {
        self.has_repeated_key
    }

    fn take<E: de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => {
                self.is_spent = true;
                return Err(E::custom("too large"));
            }
        }
        Ok(())
    }

    fn take_text<E: de::Error>(&mut self, text: &str) -> Result<(), E> {
        self.take(text.len() + ALLOCATION)
    }
}

/// The memory that a value takes, in bytes, by the same estimate.
pub fn memory_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.capacity() + ALLOCATION,
        Value::Array(items) => items.iter().map(|item| ITEM + memory_of(item)).sum(),
        Value::Object(map) if map.is_empty() => 0,
        Value::Object(map) => {
            let entries = map.iter();
            let of_entry = |(key, value): (&String, &Value)| {
                KEY + key.capacity() + ALLOCATION + memory_of(value)
            };
            MAP + entries.map(of_entry).sum::<usize>()
        }
    }
}

struct ValueSeed<'a>(&'a mut ValueBudget);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        self.0.take_text(text)?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(ValueSeed(&mut *self.0))? {
            self.0.take(ITEM)?;
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.0.take(MAP)?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if key == UNREAD && !self.0.counts_unread {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            self.0.take(KEY)?;
            self.0.take_text(&key)?;
            let value = entries.next_value_seed(ValueSeed(&mut *self.0))?;
            self.0.has_repeated_key |= map.insert(key, value).is_some();
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_value_is_read_as_serde_json_reads_it() {
        let text = r#"{"a": [null, true, -1, 18446744073709551615, 1.5, "x\ny"], "b": {"c": {}}, "b": {"d": []}}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        let read = ValueBudget::default().parse(text.as_bytes());
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn values_take_what_was_counted_when_they_were_read() {
        for text in [
            format!("[{}0]", r#"{"key":"a"},"#.repeat(1000)),
            format!("[{}0]", "[1],".repeat(1000)),
            format!(r#"{{"a": {:?}, "b": ["x", null]}}"#, "x".repeat(1000)),
        ] {
            let mut budget = ValueBudget::of(10 << 20);
            let value = budget.parse(text.as_bytes()).unwrap();
            assert_eq!(memory_of(&value), budget.most - budget.left, "{text:.20}");
        }
        assert_eq!(memory_of(&json!({"a": {}})), MAP + KEY + 1 + ALLOCATION);
    }

    #[test]
    fn managed_fields_take_no_memory() {
        let fields = "0,".repeat(10_000);
        let text = format!(r#"{{"metadata": {{"name": "a", "managedFields": [{fields}0]}}}}"#);
        let read = ValueBudget::of(2000).parse(text.as_bytes());
        assert_eq!(read, Ok(json!({"metadata": {"name": "a"}})));
    }

    #[test]
    fn values_beyond_the_bound_are_refused_whatever_they_are() {
        for text in [
            format!("[{}0]", "0,".repeat(20_000)),
            format!("[{}0]", "{},".repeat(1000)),
            format!("[{}0]", "[],".repeat(10_000)),
            format!("[{}0]", r#""","#.repeat(10_000)),
            format!("{:?}", "x".repeat(300_000)),
            format!(r#"{{{:?}: 0}}"#, "x".repeat(300_000)),
        ] {
            let most = 256 << 10;
            let refused = ValueBudget::of(most).parse(text.as_bytes());
            assert_eq!(refused, Err(ValueError::TooLarge { most }), "{text:.20}");
        }
        // The bound holds for several texts together.
        let mut budget = ValueBudget::of(1000);
        assert!(budget.parse(br#"{"a": 0}"#).is_ok());
        let refused = budget.parse(br#"{"a": 0}"#);
        assert_eq!(refused, Err(ValueError::TooLarge { most: 1000 }));
    }

    #[test]
    fn what_is_not_json_has_a_place_and_is_not_quoted() {
        let wrong = ValueBudget::default()
            .parse(b"{\"a\":\n s3cret}")
            .unwrap_err();
        assert_eq!(wrong, ValueError::NotJson { line: 2, column: 2 });
        assert!(ValueBudget::default().parse(b"{} {}").is_err());
    }
}
