//! The configuration keys that each release of the installer reads: `data/installer.yaml`.

use std::sync::LazyLock;

use serde::Deserialize;
use windrow_harvester::HarvesterVersion;
use windrow_harvester::versions::ReadVersions;
use windrow_model::manifest::file_kind::installer_reads;
use windrow_model::manifest::{MapEntry, Node, NodeValue, yaml};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct KnownConfiguration {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    /// The releases whose sources were read.
    pub(super) read: ReadVersions,
    /// The first release that converts values.
    pub(super) converted: HarvesterVersion,
    types: Vec<ConfigurationType>,
    elsewhere: Vec<KeyElsewhere>,
    pub(super) settings: Vec<DatedName>,
    pub(super) addons: Vec<DatedName>,
}

/// A structure into which the installer reads a map.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigurationType {
    name: String,
    pub(super) keys: Vec<ConfigurationKey>,
    /// Names under which the installer itself writes keys that it never reads.
    #[serde(default)]
    pub(super) go: Vec<String>,
    /// Keys of which the installer takes any text.
    #[serde(default)]
    free: Vec<String>,
    /// Do other programs use the remaining keys?
    #[serde(default)]
    pub(super) open: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigurationKey {
    /// In camelCase.
    pub(super) key: String,
    pub(super) is: ValueKind,
    since: Option<HarvesterVersion>,
    before: Option<HarvesterVersion>,
}

/// The type into which the installer reads a value.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum ValueKind {
    Text,
    Boolean,
    Integer,
    Unsigned,
    /// A list of strings.
    Words,
    /// A map of strings.
    Texts,
    /// A map of lists of strings.
    Headers,
    /// Multipath disks.
    Disks,
    One(String),
    ListOf(String),
    MapOf(String),
}

impl TryFrom<String> for ValueKind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Ok(match text.as_str() {
            "text" => Self::Text,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "unsigned" => Self::Unsigned,
            "words" => Self::Words,
            "texts" => Self::Texts,
            "headers" => Self::Headers,
            "disks" => Self::Disks,
            other => match (
                other.strip_prefix("list of "),
                other.strip_prefix("map of "),
            ) {
                (Some(name), _) => Self::ListOf(name.to_owned()),
                (_, Some(name)) => Self::MapOf(name.to_owned()),
                _ if other.starts_with(|ch: char| ch.is_ascii_uppercase()) => {
                    Self::One(text.clone())
                }
                _ => return Err(format!("`{other}` is not a kind of value")),
            },
        })
    }
}

/// A key that users write in a place where the installer does not read it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyElsewhere {
    #[serde(rename = "type")]
    of: String,
    key: String,
    instead: String,
    /// What this value requests happens anyway.
    unneeded: Option<bool>,
}

/// A name that only some releases recognize.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DatedName {
    pub(super) key: String,
    pub(super) since: Option<HarvesterVersion>,
}

impl DatedName {
    pub(super) fn is_in(&self, release: HarvesterVersion) -> bool {
        self.since.is_none_or(|since| release >= since)
    }
}

/// The spelling of a key that the installer reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// The key is renamed, and its value converted.
    Renamed,
    /// Go's JSON reader accepts the key as written.
    InAnyCase,
}

impl ConfigurationKey {
    pub(super) fn is_in(&self, release: HarvesterVersion) -> bool {
        self.since.is_none_or(|since| release >= since)
            && self.before.is_none_or(|before| release < before)
    }

    /// Since when, or until when, the key is read; a clause.
    pub(super) fn when(&self) -> String {
        match (self.since, self.before) {
            (Some(since), _) => format!("the installer reads it from v{since} on"),
            (_, Some(before)) => format!("no installer reads it from v{before} on"),
            _ => String::new(),
        }
    }

    /// Does the installer read `written` as this key? `renamed` is true in a map whose keys are renamed.
    pub(super) fn reads(&self, written: &str, renamed: bool) -> Option<Spelling> {
        if written == self.key {
            return Some(Spelling::Renamed);
        }
        let in_any_case = written.eq_ignore_ascii_case(&self.key);
        match renamed && installer_reads(written, &self.key) {
            // A key in lower case is renamed, and is read again as written.
            true if !in_any_case => Some(Spelling::Renamed),
            _ => in_any_case.then_some(Spelling::InAnyCase),
        }
    }
}

impl ConfigurationType {
    /// The meaning of a written key in this release, which can differ from other releases.
    pub(super) fn key(
        &self,
        written: &str,
        renamed: bool,
        release: HarvesterVersion,
    ) -> Option<(&ConfigurationKey, Spelling)> {
        let mut keys = self.keys.iter().filter(|key| key.is_in(release));
        keys.find_map(|key| Some((key, key.reads(written, renamed)?)))
    }
}

impl KnownConfiguration {
    /// The data that Windrow includes.
    pub(super) fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<KnownConfiguration> = LazyLock::new(|| {
            parse(include_str!("../../data/installer.yaml"))
                .expect("the data can be read, which a test holds")
        });
        &SHIPPED
    }

    pub(super) fn named(&self, name: &str) -> &ConfigurationType {
        let mut types = self.types.iter();
        types
            .find(|one| one.name == name)
            .expect("the data has every type that it names, which a test holds")
    }

    /// The right key for one that the installer does not read in this place.
    pub(super) fn instead(&self, of: &ConfigurationType, written: &str) -> Option<&str> {
        self.elsewhere(of, written).map(|key| key.instead.as_str())
    }

    /// Does the installer do what this key with this value requests, although it does not read the key?
    pub(super) fn is_unneeded(&self, of: &ConfigurationType, written: &MapEntry) -> bool {
        let value = written.value.as_bool();
        let key = self.elsewhere(of, &written.key);
        value.is_some() && key.is_some_and(|key| key.unneeded == value)
    }

    fn elsewhere(&self, of: &ConfigurationType, written: &str) -> Option<&KeyElsewhere> {
        let mut keys = self.elsewhere.iter();
        keys.find(|key| key.of == of.name && installer_reads(written, &key.key))
    }

    /// The releases in which something changes, starting with the oldest release that was read.
    pub(super) fn turns(&self) -> Vec<HarvesterVersion> {
        let keys = self.types.iter().flat_map(|one| &one.keys);
        let keys = keys.flat_map(|key| key.since.into_iter().chain(key.before));
        let names = self.settings.iter().chain(&self.addons);
        let turns = keys.chain(names.filter_map(|name| name.since));
        let mut turns: Vec<_> = turns.chain([self.read.from, self.converted]).collect();
        turns.sort_unstable();
        turns.dedup();
        turns
    }
}

/// The configuration as a release reads it: each key that it reads, under its standard name.
pub(super) fn as_read(root: &Node, release: HarvesterVersion) -> Node {
    let known = KnownConfiguration::shipped();
    known.read_structure(known.named("HarvesterConfig"), root, true, release)
}

/// The keys of a configuration, as a release reads it, whose texts no rule judges: their paths and lines.
pub(super) fn free_keys(read: &Node) -> Vec<(String, u32)> {
    let known = KnownConfiguration::shipped();
    let mut found = Vec::new();
    known.find_free(known.named("HarvesterConfig"), read, "", &mut found);
    found
}

impl KnownConfiguration {
    fn find_free(
        &self,
        of: &ConfigurationType,
        node: &Node,
        above: &str,
        found: &mut Vec<(String, u32)>,
    ) {
        for entry in node.entries() {
            let path = format!("{above}{}", entry.key);
            if of.free.contains(&entry.key) && !entry.value.is_null() {
                found.push((path, entry.line));
                continue;
            }
            let mut keys = of.keys.iter();
            let Some(key) = keys.find(|key| key.key == entry.key) else {
                continue;
            };
            match &key.is {
                ValueKind::One(name) => {
                    self.find_free(self.named(name), &entry.value, &format!("{path}."), found);
                }
                ValueKind::ListOf(name) => {
                    for item in entry.value.items() {
                        self.find_free(self.named(name), item, &format!("{path}[]."), found);
                    }
                }
                ValueKind::MapOf(name) => {
                    for item in entry.value.entries() {
                        let path = format!("{path}.{}.", item.key);
                        self.find_free(self.named(name), &item.value, &path, found);
                    }
                }
                _ => {}
            }
        }
    }

    fn read_structure(
        &self,
        of: &ConfigurationType,
        node: &Node,
        renamed: bool,
        release: HarvesterVersion,
    ) -> Node {
        let NodeValue::Mapping(entries) = &node.value else {
            return node.clone();
        };
        let mut read: Vec<MapEntry> = Vec::new();
        for entry in entries {
            let Some((key, spelling)) = of.key(&entry.key, renamed, release) else {
                continue;
            };
            let below = renamed && is_renamed(&entry.key, spelling);
            let one = MapEntry {
                key: key.key.clone(),
                line: entry.line,
                value: self.read_value(&key.is, &entry.value, below, release),
            };
            match read.iter_mut().find(|earlier| earlier.key == one.key) {
                // A renamed key overrides a key that already has the name.
                Some(_) if entry.key == key.key => {}
                Some(earlier) => *earlier = one,
                None => read.push(one),
            }
        }
        Node {
            line: node.line,
            value: NodeValue::Mapping(read),
        }
    }

    fn read_value(
        &self,
        kind: &ValueKind,
        node: &Node,
        renamed: bool,
        release: HarvesterVersion,
    ) -> Node {
        match (kind, &node.value) {
            (ValueKind::One(name), _) => {
                self.read_structure(self.named(name), node, renamed, release)
            }
            (ValueKind::ListOf(name), NodeValue::Sequence(items)) => {
                let items = items.iter();
                let read =
                    items.map(|item| self.read_structure(self.named(name), item, renamed, release));
                Node {
                    line: node.line,
                    value: NodeValue::Sequence(read.collect()),
                }
            }
            (ValueKind::MapOf(name), NodeValue::Mapping(entries)) => {
                let entries = entries.iter().map(|entry| MapEntry {
                    key: entry.key.clone(),
                    line: entry.line,
                    value: self.read_structure(self.named(name), &entry.value, renamed, release),
                });
                Node {
                    line: node.line,
                    value: NodeValue::Mapping(entries.collect()),
                }
            }
            _ => node.clone(),
        }
    }
}

/// Are the keys below a key renamed, if the key itself is?
pub(super) fn is_renamed(written: &str, spelling: Spelling) -> bool {
    spelling == Spelling::Renamed || !written.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn parse(text: &str) -> Result<KnownConfiguration, String> {
    let document = yaml::parse_configuration(text)
        .map_err(|problems| format!("{problems:?}"))?
        .ok_or("it is empty")?;
    serde_json::from_value(document.to_json()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use windrow_inputs::extract::INSTALLER_ADDONS;

    use super::*;

    #[test]
    fn the_data_names_only_types_that_it_has_and_turns_only_at_releases_that_were_read() {
        let known = KnownConfiguration::shipped();
        for key in known.types.iter().flat_map(|one| &one.keys) {
            if let ValueKind::One(name) | ValueKind::ListOf(name) | ValueKind::MapOf(name) = &key.is
            {
                assert_eq!(&known.named(name).name, name);
            }
            assert!(key.since.is_none() || key.before.is_none(), "{}", key.key);
        }
        for key in &known.elsewhere {
            assert_eq!(known.named(&key.of).name, key.of);
        }
        let turns = known.turns();
        assert_eq!(turns[0], known.read.from);
        let read = windrow_harvester::versions::HarvesterVersions::shipped();
        assert!(turns.iter().all(|turn| read.was_read(*turn)), "{turns:?}");
        assert!(known.read.to <= read.read.to);
    }

    #[test]
    fn the_addons_are_those_that_the_extraction_knows() {
        let known = KnownConfiguration::shipped();
        let mut dated: Vec<&str> = known.addons.iter().map(|one| one.key.as_str()).collect();
        dated.sort_unstable();
        let named: Vec<&str> = INSTALLER_ADDONS.iter().map(|(key, _)| *key).collect();
        assert_eq!(dated, named);
    }

    #[test]
    fn a_key_is_renamed_in_snake_case_and_singular_and_else_read_in_any_case() {
        let install = KnownConfiguration::shipped().named("Install");
        let release = KnownConfiguration::shipped().read.to;
        let spelt = |written: &str, renamed: bool| {
            let (key, spelling) = install.key(written, renamed, release)?;
            Some((key.key.as_str(), spelling))
        };
        for (written, renamed, expected) in [
            ("forceEfi", false, Some(("forceEfi", Spelling::Renamed))),
            ("force_efi", true, Some(("forceEfi", Spelling::Renamed))),
            ("force_efi", false, None),
            ("forceefi", true, Some(("forceEfi", Spelling::InAnyCase))),
            ("FORCEEFI", false, Some(("forceEfi", Spelling::InAnyCase))),
            ("force-efi", true, None),
            (
                "wipe_disks_list",
                true,
                Some(("wipeDisksList", Spelling::Renamed)),
            ),
            ("addon", true, Some(("addons", Spelling::Renamed))),
            ("wipe_disks", true, None),
        ] {
            assert_eq!(spelt(written, renamed), expected, "{written} {renamed}");
        }
    }
}
