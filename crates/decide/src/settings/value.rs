//! The types of values: how each is read, shown, and described to an editor.

use std::time::Duration;

use schemars::{Schema, SchemaGenerator, json_schema};
use windrow_model::duration_text;
use windrow_model::manifest::Node;

use super::Settings;
use super::schema::{AbsolutePath, Count, DurationText, Size};
use super::units::{count, duration, expected, flag, show_size, size};

/// Replaces a path: Windrow finds the path, or uses none.
pub(super) const AUTO: &str = "auto";
pub(super) const NONE: &str = "none";

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) struct Place<T> {
    pub(super) get: fn(&Settings) -> &T,
    pub(super) get_mut: fn(&mut Settings) -> &mut T,
}

/// The type of a key's value, and the field that keeps it.
pub(super) enum ValueKind {
    Flag(Place<bool>),
    /// One second or longer.
    Duration(Place<Duration>),
    /// From one second up to the given maximum.
    DurationUpTo(Place<Duration>, Duration),
    /// With a minimum, in bytes.
    Size(Place<u64>, u64),
    SizeOfMemory(Place<usize>),
    /// One or more.
    Count(Place<usize>),
    /// An absolute path.
    Path(Place<String>),
    /// An absolute path, or the given word for `None`.
    PathOr(&'static str, Place<Option<String>>),
    Word(WordKind),
    Special(SpecialKind),
}

pub(super) struct WordKind {
    pub(super) words: &'static [&'static str],
    pub(super) get: fn(&Settings) -> &'static str,
    pub(super) set: fn(&mut Settings, &str),
}

pub(super) struct SpecialKind {
    pub(super) set: fn(&mut Settings, &Node) -> Result<(), String>,
    pub(super) show: fn(&Settings) -> String,
    pub(super) schema: fn(&mut SchemaGenerator) -> Schema,
}

impl ValueKind {
    pub(super) fn set(&self, settings: &mut Settings, node: &Node) -> Result<(), String> {
        match self {
            Self::Flag(at) => *(at.get_mut)(settings) = flag(node)?,
            Self::Duration(at) => *(at.get_mut)(settings) = duration(node, SECOND)?,
            Self::DurationUpTo(at, most) => {
                *(at.get_mut)(settings) = duration_up_to(*most, node)?;
            }
            Self::Size(at, least) => *(at.get_mut)(settings) = size_from(*least, node)?,
            Self::SizeOfMemory(at) => {
                *(at.get_mut)(settings) = usize::try_from(size(node)?).unwrap_or(usize::MAX);
            }
            Self::Count(at) => *(at.get_mut)(settings) = count(node)?,
            Self::Path(at) => path(node)?.clone_into((at.get_mut)(settings)),
            Self::PathOr(word, at) => *(at.get_mut)(settings) = path_or(word, node)?,
            Self::Word(kind) => {
                let word = node.as_str().filter(|word| kind.words.contains(word));
                (kind.set)(
                    settings,
                    word.ok_or_else(|| expected(&one_of(kind.words), node))?,
                );
            }
            Self::Special(kind) => (kind.set)(settings, node)?,
        }
        Ok(())
    }

    pub(super) fn show(&self, settings: &Settings) -> String {
        match self {
            Self::Flag(at) => (at.get)(settings).to_string(),
            Self::Duration(at) | Self::DurationUpTo(at, _) => duration_text(*(at.get)(settings)),
            Self::Size(at, _) => show_size(*(at.get)(settings)),
            Self::SizeOfMemory(at) => show_size(*(at.get)(settings) as u64),
            Self::Count(at) => (at.get)(settings).to_string(),
            Self::Path(at) => (at.get)(settings).clone(),
            Self::PathOr(word, at) => show_or(word, (at.get)(settings)),
            Self::Word(kind) => (kind.get)(settings).to_owned(),
            Self::Special(kind) => (kind.show)(settings),
        }
    }

    /// A key without a value has no effect, so that each may be null.
    pub(super) fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        match self {
            Self::Flag(_) => generator.subschema_for::<Option<bool>>(),
            Self::Duration(_) | Self::DurationUpTo(..) => {
                generator.subschema_for::<Option<DurationText>>()
            }
            Self::Size(..) | Self::SizeOfMemory(_) => generator.subschema_for::<Option<Size>>(),
            Self::Count(_) => generator.subschema_for::<Option<Count>>(),
            Self::Path(_) => generator.subschema_for::<Option<AbsolutePath>>(),
            Self::PathOr(word, _) => text_like(&format!("^(/.*|{word})$")),
            Self::Word(kind) => {
                let words = kind.words.iter().copied().map(Some).chain([None]);
                json_schema!({"enum": words.collect::<Vec<_>>()})
            }
            Self::Special(kind) => (kind.schema)(generator),
        }
    }
}

pub(super) fn text_like(pattern: &str) -> Schema {
    json_schema!({"type": ["string", "null"], "pattern": pattern})
}

fn duration_up_to(most: Duration, node: &Node) -> Result<Duration, String> {
    let duration = duration(node, SECOND)?;
    if duration > most {
        return Err(format!(
            "{} is too long: write {} or less",
            duration_text(duration),
            duration_text(most)
        ));
    }
    Ok(duration)
}

fn size_from(least: u64, node: &Node) -> Result<u64, String> {
    let size = size(node)?;
    if size < least {
        return Err(format!(
            "{} is too small: write {} or more",
            show_size(size),
            show_size(least)
        ));
    }
    Ok(size)
}

/// `a, b or c`.
fn one_of(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => words.concat(),
    }
}

pub(super) fn path(node: &Node) -> Result<&str, String> {
    let path = node
        .as_str()
        .filter(|path| path.starts_with('/'))
        .ok_or_else(|| expected("an absolute path", node))?;
    if path.split('/').any(|part| part == "..") {
        return Err(format!("`{path}` leads upwards: write it without `..`"));
    }
    Ok(path)
}

pub(super) fn path_or(word: &str, node: &Node) -> Result<Option<String>, String> {
    match node.as_str() {
        Some(text) if text == word => Ok(None),
        _ => path(node).map(|path| Some(path.to_owned())),
    }
}

pub(super) fn show_or(word: &str, path: &Option<String>) -> String {
    path.clone().unwrap_or_else(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{ConfigFile, ConfigFileRole, ConfigFiles, LONGEST_PATIENCE, merge};

    #[test]
    fn a_trial_may_not_take_longer_than_a_lease_counts_and_the_error_names_the_line() {
        let load = |patience: &str| {
            merge(ConfigFiles {
                files: vec![ConfigFile {
                    role: ConfigFileRole::Settings,
                    name: "windrow.yaml".to_owned(),
                    path: "windrow.yaml".into(),
                    text: format!("gates:\n  patience: {patience}\n"),
                }],
                ..ConfigFiles::default()
            })
        };
        let longest = load("8h");
        assert_eq!(longest.errors, []);
        assert_eq!(longest.settings.gates.patience, LONGEST_PATIENCE);
        let errors = load("481m").errors;
        let [error] = &errors[..] else {
            panic!("{errors:?}");
        };
        let error = error.to_string();
        assert!(
            error.contains("windrow.yaml:2: gates.patience: "),
            "{error}"
        );
        assert!(error.ends_with("is too long: write 8h or less"), "{error}");
    }
}
