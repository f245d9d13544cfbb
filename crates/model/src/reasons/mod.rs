//! The one table of reason codes.
//!
//! Everything that Windrow holds, finds, does or reports has a row here: a stable code, a severity, a one-line
//! template, an advice, a journal MESSAGE_ID and an anchor in `docs/reasons.md`. The journal catalogue, the
//! documentation and the texts of the command line are generated from it. Codes and MESSAGE_IDs are promises: once
//! released they do not change.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How much a reason matters.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Normal.
    Info,
    /// Normal and worth seeing.
    Notice,
    /// Wrong, or likely to go wrong.
    Warning,
    /// Cannot work as it is.
    Error,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    pub code: Code,
    /// The stable code, as printed.
    pub id: &'static str,
    pub section: &'static str,
    pub severity: Severity,
    /// The page of an incident, below `docs/`.
    pub page: Option<&'static str>,
    /// Whether Windrow has a cure for the incident, at least in some circumstances.
    pub is_curable: bool,
    /// One line, with `{fields}`.
    pub template: &'static str,
    pub advice: &'static str,
    /// The journal's MESSAGE_ID: 128 bits, hexadecimal.
    pub message_id: &'static str,
}

macro_rules! reasons {
    ($($section:literal { $($code:ident $id:literal $severity:ident $(in $page:literal $([$curable:ident])?)? $template:literal $advice:literal $message_id:literal;)+ })+) => {
        /// A stable reason code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $($(
                #[doc = $template]
                $code,
            )+)+
        }

        /// Every reason, in the order of the documentation.
        pub const REASONS: &[Reason] = &[
            $($(Reason {
                code: Code::$code,
                id: $id,
                section: $section,
                severity: Severity::$severity,
                page: first(&[$($page)?]),
                is_curable: first(&[$($(stringify!($curable))?)?]).is_some(),
                template: $template,
                advice: $advice,
                message_id: $message_id,
            },)+)+
        ];
    };
}

const fn first(words: &[&'static str]) -> Option<&'static str> {
    match words {
        [] => None,
        [word, ..] => Some(word),
    }
}

mod table;

pub use table::{Code, REASONS};

impl Code {
    /// The codes of the incidents for which Windrow has a cure, at least in some circumstances.
    pub fn curable() -> impl Iterator<Item = Self> + Clone {
        REASONS
            .iter()
            .filter(|reason| reason.is_curable)
            .map(|reason| reason.code)
    }

    pub fn reason(self) -> &'static Reason {
        // One macro writes the enum and the table in the same order.
        &REASONS[self as usize]
    }

    /// The stable code, as printed.
    pub fn as_str(self) -> &'static str {
        self.reason().id
    }

    pub fn severity(self) -> Severity {
        self.reason().severity
    }

    /// The template with its `{fields}` filled in.
    pub fn say(self, fields: &[(&str, &str)]) -> String {
        let mut rest = self.reason().template;
        let values = fields.iter().map(|(_, value)| value.len());
        let mut text = String::with_capacity(rest.len() + values.sum::<usize>());
        while let Some(brace) = rest.find('{') {
            let (before, field) = rest.split_at(brace);
            text.push_str(before);
            let value = fields.iter().find_map(|(key, value)| {
                let after = field[1..].strip_prefix(key)?.strip_prefix('}')?;
                Some((value, after))
            });
            rest = match value {
                Some((value, after)) => {
                    text.push_str(value);
                    after
                }
                None => {
                    text.push('{');
                    &field[1..]
                }
            };
        }
        text.push_str(rest);
        text
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Reads the table. Derived code would compare a text with each code separately, which takes 70 KB of the daemon.
impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CodeText;

        impl Visitor<'_> for CodeText {
            type Value = Code;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a reason code")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Code, E> {
                let row = REASONS.iter().find(|reason| reason.id == text);
                row.map(|reason| reason.code)
                    .ok_or_else(|| E::custom(format_args!("unknown reason code `{text}`")))
            }
        }

        deserializer.deserialize_str(CodeText)
    }
}

/// In a schema, any text in the form of a code: a reader with an older schema accepts a document with a newer code.
impl JsonSchema for Code {
    fn schema_name() -> Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A stable reason code (docs/reasons.md).",
            "type": "string",
            "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$",
        })
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use super::*;

    #[test]
    fn every_code_has_all_its_texts_and_no_two_share_an_id() {
        let mut ids = HashSet::new();
        let mut message_ids = HashSet::new();
        for (position, reason) in REASONS.iter().enumerate() {
            assert_eq!(reason.code as usize, position, "{}", reason.id);
            assert_eq!(reason.code.reason(), reason);
            assert!(ids.insert(reason.id), "{} appears twice", reason.id);
            assert!(
                message_ids.insert(reason.message_id),
                "{} shares its MESSAGE_ID",
                reason.id
            );
            assert_eq!(reason.message_id.len(), 32, "{}", reason.id);
            assert!(
                reason.message_id.bytes().all(|b| b.is_ascii_hexdigit()),
                "{}",
                reason.id
            );
            assert!(
                reason
                    .id
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{}",
                reason.id
            );
            for text in [reason.template, reason.advice, reason.section] {
                assert!(!text.trim().is_empty(), "{} lacks a text", reason.id);
            }
            let advice = reason.advice;
            assert!(!advice.contains('{'), "{}: {advice}", reason.id);
        }
    }

    #[test]
    fn a_code_is_written_in_json_as_it_is_printed() {
        for reason in REASONS {
            let json = serde_json::to_string(&reason.code).unwrap();
            assert_eq!(json, format!("\"{}\"", reason.id));
        }
    }

    #[test]
    fn say_fills_the_fields_in() {
        assert_eq!(
            Code::Held.say(&[("file", "a.yaml"), ("why", "because")]),
            "a.yaml held: because"
        );
    }

    #[test]
    fn every_code_is_read_as_it_is_written_also_as_a_key() {
        for reason in REASONS {
            let counts = BTreeMap::from([(reason.code, reason.code)]);
            let text = serde_json::to_string(&counts).unwrap();
            assert_eq!(text, format!(r#"{{"{0}":"{0}"}}"#, reason.id));
            assert_eq!(
                serde_json::from_str::<BTreeMap<Code, Code>>(&text).unwrap(),
                counts
            );
            let value = serde_json::to_value(reason.code).unwrap();
            assert_eq!(serde_json::from_value::<Code>(value).unwrap(), reason.code);
        }
    }

    #[test]
    fn an_unknown_code_is_refused_by_its_name() {
        let refused = serde_json::from_str::<Code>(r#""of-a-newer-windrow""#).unwrap_err();
        assert!(
            refused.to_string().contains("`of-a-newer-windrow`"),
            "{refused}"
        );
    }
}
