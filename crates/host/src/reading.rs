//! A fact, or the reason why it is unknown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fact, or the reason why it is unknown. In JSON a known fact is the value itself, and an unknown one is `{"unknown": "why"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Reading<T> {
    /// The fact is unknown.
    Unknown {
        /// The reason, as a sentence.
        unknown: String,
    },
    /// The fact.
    Known(T),
}

impl<T> Reading<T> {
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown {
            unknown: why.into(),
        }
    }

    pub fn known(&self) -> Option<&T> {
        match self {
            Reading::Known(value) => Some(value),
            Reading::Unknown { .. } => None,
        }
    }

    /// The fact, or the reason why it is unknown.
    ///
    /// # Errors
    ///
    /// The reason why it is unknown.
    pub fn get(&self) -> Result<&T, &str> {
        match self {
            Reading::Known(value) => Ok(value),
            Reading::Unknown { unknown } => Err(unknown),
        }
    }
}

impl<T> From<Result<T, String>> for Reading<T> {
    fn from(read: Result<T, String>) -> Self {
        match read {
            Ok(value) => Reading::Known(value),
            Err(unknown) => Reading::Unknown { unknown },
        }
    }
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self::unknown("it was not read")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_written_as_itself_and_an_unknown_one_with_its_reason() {
        let known = Reading::Known(7_u32);
        let unknown = Reading::<u32>::unknown("no right to read it");
        let text = |reading: &Reading<u32>| serde_json::to_string(reading).unwrap();
        assert_eq!(text(&known), "7");
        assert_eq!(text(&unknown), r#"{"unknown":"no right to read it"}"#);
        for reading in [known, unknown] {
            let read: Reading<u32> = serde_json::from_str(&text(&reading)).unwrap();
            assert_eq!(read, reading);
        }
    }
}
