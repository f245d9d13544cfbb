//! The keys of RKE2's configuration, with the types and forms of their values: `data/rke2-keys.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use windrow_model::manifest::{MapEntry, NodeValue, yaml};

use super::value_form::ValueForm;
use crate::version::Version;

pub(super) const KEYS: &str = include_str!("../../data/rke2-keys.txt");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueType {
    Bool,
    Duration,
    Int,
    List,
    Text,
}

pub(super) struct Key {
    pub(super) value: ValueType,
    pub(super) server: bool,
    pub(super) agent: bool,
    pub(super) text: TextRule,
    /// The form of texts that can be meant, where RKE2 takes others too.
    pub(super) meant: Option<ValueForm>,
    /// The first release with the key, in each minor of which not all have it.
    since: Vec<Version>,
}

impl Key {
    /// The release from which on the key is read, if this one does not have it.
    pub(super) fn comes_with(&self, version: Version) -> Option<Version> {
        let of_minor = self.since.iter().find(|one| one.minor == version.minor);
        match of_minor {
            Some(first) => (version.patch? < first.patch?).then_some(*first),
            None => self
                .since
                .first()
                .copied()
                .filter(|first| version.minor < first.minor),
        }
    }
}

/// What judges the texts of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextRule {
    /// Rules of their own, or the type of the key.
    Own,
    Form(ValueForm),
    Nothing,
}

pub(super) static KNOWN: LazyLock<BTreeMap<&'static str, Key>> = LazyLock::new(|| {
    let lines = KEYS.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let (name, value, readers) = (words.next()?, words.next()?, words.next()?);
        let value = match value {
            "bool" => ValueType::Bool,
            "duration" => ValueType::Duration,
            "int" => ValueType::Int,
            "list" => ValueType::List,
            _ => ValueType::Text,
        };
        let (server, agent) = (readers != "agent", readers != "server");
        let words: Vec<&'static str> = words.collect();
        let named = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let meant = named("meant=").and_then(|form| ValueForm::read(form, None));
        let form = named("form=");
        let since = named("since=").unwrap_or_default().split(',');
        let since = since.filter_map(|version| version.parse().ok()).collect();
        let text = match form.map(|form| form.split_once(':').unwrap_or((form, ""))) {
            Some(("judged", _)) => TextRule::Own,
            Some((name, of)) => {
                let form = ValueForm::read(name, Some(of).filter(|of| !of.is_empty()));
                form.map_or(TextRule::Nothing, TextRule::Form)
            }
            None if meant.is_some() => TextRule::Own,
            None if matches!(value, ValueType::List | ValueType::Text) => TextRule::Nothing,
            None => TextRule::Own,
        };
        let key = Key {
            value,
            server,
            agent,
            text,
            meant,
            since,
        };
        Some((name, key))
    });
    rows.collect()
});

/// Whether a text is a configuration of RKE2 by its keys: at least half of those at the top level are keys of RKE2, with values
/// that such keys can have. The others may be misspelt.
pub fn is_rke2_config(text: &str) -> bool {
    let Ok(Some(root)) = yaml::pairs(text) else {
        return false;
    };
    let entries = root.entries();
    let is_key = |entry: &&MapEntry| {
        let name = entry.key.trim();
        let known = KNOWN.contains_key(name.strip_suffix('+').unwrap_or(name));
        known && !matches!(entry.value.value, NodeValue::Mapping(_))
    };
    // Other programs have these, too.
    let shows = |entry: &MapEntry| !["config", "debug", "log"].contains(&entry.key.trim());
    let known = entries.iter().filter(is_key).count();
    let shown = entries.iter().filter(is_key).any(shows);
    let is_object = ["apiVersion", "kind", "metadata"]
        .iter()
        .any(|key| root.get(key).is_some());
    !is_object && shown && 2 * known >= entries.len()
}

/// Whether only `rke2 server` has this key.
pub(super) fn is_of_servers(name: &str) -> bool {
    KNOWN.get(name).is_some_and(|key| !key.agent)
}
