//! The types of the values that a reader of a file accepts: data in `data/*.yaml`.
//!
//! ```text
//!   text        any scalar, as Go's YAML reader puts it into a string
//!   string      a text
//!   boolean     `true`, `false`, and what Go's YAML reader takes for them
//!   integer     a number
//!   unsigned    a number of 32 bits, from 0 on
//!   map, list   with any content
//!   Name        a map with these keys, or an alias
//!   list of T, map of T, T or U
//! ```
//!
//! Null is accepted everywhere: the value stays as it would be without the key.

use std::collections::BTreeMap;

use serde::Deserialize;
use windrow_model::manifest::{MapEntry, Node, NodeValue, yaml};

/// The data of one reader.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct InputTypes {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    /// Each map with the types of its keys.
    types: BTreeMap<String, BTreeMap<String, ValueType>>,
    #[serde(default)]
    aliases: BTreeMap<String, ValueType>,
    /// Keys at the top whose values are ignored if their type is wrong.
    #[serde(default)]
    pub(crate) ignored: Vec<String>,
    #[serde(default)]
    pub(crate) rules: Vec<ValueRule>,
}

/// A rule about single values. It applies to each value at this path.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ValueRule {
    /// Keys with a dot between them, each with `[]` if all items of its list are meant.
    pub(crate) at: String,
    /// Keys that must have a value.
    #[serde(default)]
    pub(crate) required: Vec<String>,
    #[serde(default)]
    pub(crate) one_of: Vec<String>,
    /// Whether upper and lower case are alike.
    #[serde(default)]
    pub(crate) any_case: bool,
    #[serde(default)]
    pub(crate) unique: bool,
    /// The accepted beginnings of the text.
    #[serde(default)]
    pub(crate) begins: Vec<String>,
    /// The first version that has the key.
    #[serde(default)]
    pub(crate) since: Option<String>,
    /// Whether it applies only to a definition with a cluster.
    #[serde(default)]
    pub(crate) cluster: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
enum ValueType {
    Text,
    String,
    Boolean,
    Integer,
    Unsigned,
    AnyMap,
    AnyList,
    Named(String),
    ListOf(Box<ValueType>),
    MapOf(Box<ValueType>),
    Either(Vec<ValueType>),
}

impl TryFrom<String> for ValueType {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Some(item) = text.strip_prefix("list of ") {
            return Ok(Self::ListOf(Box::new(item.to_owned().try_into()?)));
        }
        if let Some(value) = text.strip_prefix("map of ") {
            return Ok(Self::MapOf(Box::new(value.to_owned().try_into()?)));
        }
        if let Some((first, rest)) = text.split_once(" or ") {
            let mut all = vec![first.to_owned().try_into()?];
            match rest.to_owned().try_into()? {
                Self::Either(others) => all.extend(others),
                other => all.push(other),
            }
            return Ok(Self::Either(all));
        }
        Ok(match text.as_str() {
            "text" => Self::Text,
            "string" => Self::String,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "unsigned" => Self::Unsigned,
            "map" => Self::AnyMap,
            "list" => Self::AnyList,
            name if name.starts_with(|ch: char| ch.is_ascii_uppercase()) => Self::Named(text),
            other => return Err(format!("`{other}` is not a type of value")),
        })
    }
}

/// A value of a type that its reader does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub(crate) line: u32,
    /// Its path, with `[]` for an item of a list.
    pub(crate) path: String,
    /// Its type: `a string`.
    pub(crate) is: &'static str,
    /// The expected type: `a list`.
    pub(crate) expected: String,
    /// What to do, after a semicolon; may be empty.
    pub(crate) hint: &'static str,
}

/// A key that the map in this place does not have.
#[derive(Debug)]
pub(crate) struct UnknownKey<'n> {
    pub(crate) path: String,
    pub(crate) entry: &'n MapEntry,
    /// The keys that the map has.
    pub(crate) known: Vec<String>,
}

/// Most values of a wrong type, and most unknown keys, that are reported.
const MOST: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Misfits<'n> {
    pub(crate) values: Vec<Misfit>,
    pub(crate) keys: Vec<UnknownKey<'n>>,
}

impl InputTypes {
    /// Reads data that Windrow includes.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let document = yaml::parse_configuration(text)
            .map_err(|problems| format!("{problems:?}"))?
            .ok_or("it is empty")?;
        serde_json::from_value(document.to_json()).map_err(|error| error.to_string())
    }

    /// The values below `node` that do not fit the type `name`.
    pub(crate) fn misfits<'n>(&self, name: &str, node: &'n Node) -> Misfits<'n> {
        let mut found = Misfits::default();
        self.walk(&ValueType::Named(name.to_owned()), node, "", &mut found);
        found
    }

    fn walk<'n>(&self, of: &ValueType, node: &'n Node, path: &str, found: &mut Misfits<'n>) {
        if node.is_null() || found.values.len() >= MOST || found.keys.len() >= MOST {
            return;
        }
        let Some(fitting) = self.fitting(of, node) else {
            let mut expected = Vec::new();
            self.words(of, &mut expected);
            return found.values.push(Misfit {
                line: node.line,
                path: path.to_owned(),
                is: node.type_name(),
                hint: hint(&expected, node),
                expected: expected.join(" or "),
            });
        };
        match fitting {
            ValueType::ListOf(item) => {
                let path = format!("{path}[]");
                for node in node.items() {
                    self.walk(item, node, &path, found);
                }
            }
            ValueType::MapOf(value) => {
                for entry in node.entries() {
                    self.walk(value, &entry.value, &joined(path, &entry.key), found);
                }
            }
            ValueType::Named(name) => {
                let Some(keys) = self.types.get(name) else {
                    return;
                };
                for entry in node.entries() {
                    let path = joined(path, &entry.key);
                    match keys.get(&entry.key) {
                        Some(of) => self.walk(of, &entry.value, &path, found),
                        None => found.keys.push(UnknownKey {
                            path,
                            entry,
                            known: keys.keys().cloned().collect(),
                        }),
                    }
                }
            }
            _ => {}
        }
    }

    /// The type, or the alternative of it, whose outermost form a value has.
    fn fitting<'t>(&'t self, of: &'t ValueType, node: &Node) -> Option<&'t ValueType> {
        let fits = match (of, &node.value) {
            (ValueType::Either(all), _) => {
                return all.iter().find_map(|one| self.fitting(one, node));
            }
            (ValueType::Named(name), _) if self.aliases.contains_key(name) => {
                return self.fitting(&self.aliases[name], node);
            }
            (
                ValueType::Named(_) | ValueType::MapOf(_) | ValueType::AnyMap,
                NodeValue::Mapping(_),
            )
            | (ValueType::ListOf(_) | ValueType::AnyList, NodeValue::Sequence(_))
            | (ValueType::Text, NodeValue::String(_) | NodeValue::Number(_) | NodeValue::Bool(_))
            | (ValueType::String, NodeValue::String(_))
            | (ValueType::Boolean, NodeValue::Bool(_))
            | (ValueType::Integer, NodeValue::Number(_)) => true,
            (ValueType::Boolean, NodeValue::String(text)) => {
                ["y", "Y", "yes", "on", "n", "N", "no", "off"].contains(&text.as_str())
            }
            (ValueType::Unsigned, NodeValue::Number(number)) => {
                let most = f64::from(u32::MAX);
                number
                    .as_f64()
                    .is_some_and(|number| (0.0..=most).contains(&number))
            }
            _ => false,
        };
        fits.then_some(of)
    }

    fn words(&self, of: &ValueType, words: &mut Vec<&'static str>) {
        let word = match of {
            ValueType::Either(all) => return all.iter().for_each(|one| self.words(one, words)),
            ValueType::Named(name) => match self.aliases.get(name) {
                Some(alias) => return self.words(alias, words),
                None => "a map",
            },
            ValueType::MapOf(_) | ValueType::AnyMap => "a map",
            ValueType::ListOf(_) | ValueType::AnyList => "a list",
            ValueType::Text | ValueType::String => "a string",
            ValueType::Boolean => "true or false",
            ValueType::Integer => "a number",
            ValueType::Unsigned => "a number of 32 bits from 0 on",
        };
        words.push(word);
    }
}

fn joined(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

/// How to correct a value, after a semicolon.
fn hint(expected: &[&str], node: &Node) -> &'static str {
    let accepts = |word: &str| expected.contains(&word);
    match &node.value {
        NodeValue::String(text) if expected.iter().any(|word| word.starts_with("a number")) => {
            match text.trim().parse::<f64>() {
                Ok(_) => "; remove the quotation marks",
                Err(_) => "; write a number",
            }
        }
        NodeValue::String(_) if accepts("true or false") => "; write true or false",
        NodeValue::Number(_) | NodeValue::Bool(_) if accepts("a string") => "; quote it",
        NodeValue::String(_) | NodeValue::Mapping(_) if accepts("a list") => {
            "; begin each item with `- `"
        }
        NodeValue::Mapping(_) if accepts("a string") => "; quote it if it is text",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = "apiVersion: windrow.dev/v1
kind: InputTypes
types:
  Top:
    a: list of Item
    b: map of list of text
    c: string or list of Either
    d: boolean
    e: unsigned
    f: integer
  Item: {x: unsigned, y: text}
aliases:
  Either: string or Item
";

    fn misfits(text: &str) -> Vec<String> {
        let types = InputTypes::parse(DATA).unwrap();
        let root = yaml::parse_configuration(text).unwrap().unwrap();
        let found = types.misfits("Top", &root);
        let values = found.values.into_iter().map(|misfit| {
            let Misfit {
                line,
                path,
                is,
                expected,
                hint,
            } = misfit;
            format!("{line} {path} {is}, not {expected}{hint}")
        });
        let keys = found
            .keys
            .into_iter()
            .map(|key| format!("{} {}?", key.entry.line, key.path));
        values.chain(keys).collect()
    }

    #[test]
    fn a_value_of_the_right_type_is_no_misfit_and_null_is_of_every_type() {
        for text in [
            "a: [{x: 0, y: 1}, {y: true}, null]",
            "b: {one: [1, a], two: null}",
            "c: text",
            "c: [text, {x: 7}]",
            "d: true",
            "d: 'yes'",
            "{e: 0600, f: -1}",
            "{a: null, b: null, c: null, d: null}",
        ] {
            assert_eq!(misfits(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_a_misfit_with_its_line_and_what_to_write() {
        for (text, expected) in [
            (
                "a:\n- {x: '0600'}",
                "2 a[].x a string, not a number of 32 bits from 0 on; remove the quotation marks",
            ),
            (
                "a:\n- x: root",
                "2 a[].x a string, not a number of 32 bits from 0 on; write a number",
            ),
            ("e: -1", "1 e a number, not a number of 32 bits from 0 on"),
            (
                "a: {x: 1}",
                "1 a a map, not a list; begin each item with `- `",
            ),
            (
                "b: {one: {}}",
                "1 b.one a map, not a list; begin each item with `- `",
            ),
            (
                "b: {one: [{}]}",
                "1 b.one[] a map, not a string; quote it if it is text",
            ),
            ("c: 5", "1 c a number, not a string or a list; quote it"),
            ("c: [5]", "1 c[] a number, not a string or a map; quote it"),
            (
                "d: 'true'",
                "1 d a string, not true or false; write true or false",
            ),
            ("[]", "1  a list, not a map"),
            ("zz: 1", "1 zz?"),
        ] {
            assert_eq!(misfits(text), [expected], "{text}");
        }
    }
}
