//! Checks whether a configuration fits the structures of the installer, and which of its keys the installer does not read.
//!
//! The installer reads YAML into maps, renames keys, converts some values, makes JSON of it and reads that into its structures:
//! if one value has another type, it ignores the whole file (harvester-installer pkg/config/schemas.go, rename.go, coerce.go).

use std::collections::BTreeMap;

use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::file_kind::snake_case;
use windrow_model::manifest::{MapEntry, Node, NodeValue};
use windrow_model::suggest::nearest;

use super::known::{ConfigurationType, KnownConfiguration, Spelling, ValueKind, is_renamed};
use super::remark::{Remark, RemarkKind, Remarks};

pub(super) struct Shape<'r> {
    pub(super) release: HarvesterVersion,
    pub(super) remarks: &'r mut Remarks,
}

/// A value, and how the installer reaches it.
#[derive(Clone, Copy)]
struct Placed<'n> {
    node: &'n Node,
    /// The path of its key, as written.
    path: &'n str,
    /// Are the keys above it renamed, so that those below are renamed too?
    renamed: bool,
    converted: bool,
}

impl Shape<'_> {
    pub(super) fn walk(&mut self, root: &Node) {
        let known = KnownConfiguration::shipped();
        self.structure(
            known.named("HarvesterConfig"),
            &Placed {
                node: root,
                path: "",
                renamed: true,
                converted: true,
            },
        );
    }

    fn structure(&mut self, of: &ConfigurationType, at: &Placed<'_>) {
        if !matches!(at.node.value, NodeValue::Mapping(_)) {
            if !at.node.is_null() {
                self.misfit(at, "a map");
            }
            return;
        }
        let mut spelt: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in at.node.entries() {
            if let Some((key, _)) = of.key(&entry.key, at.renamed, self.release) {
                *spelt.entry(&key.key).or_default() += 1;
            }
        }
        for entry in at.node.entries() {
            let path = match at.path {
                "" => entry.key.clone(),
                above => format!("{above}.{}", entry.key),
            };
            let Some((key, spelling)) = of.key(&entry.key, at.renamed, self.release) else {
                self.unread(of, entry, &path, at.renamed);
                continue;
            };
            // The spelling that counts is random.
            if spelt.get(key.key.as_str()) != Some(&1) {
                continue;
            }
            let renamed = at.renamed && is_renamed(&entry.key, spelling);
            self.value(
                &key.is,
                &Placed {
                    node: &entry.value,
                    path: &path,
                    renamed,
                    converted: at.renamed && spelling == Spelling::Renamed,
                },
            );
            if key.key == "addons" {
                self.addons(entry, &path);
            }
        }
    }

    fn value(&mut self, kind: &ValueKind, at: &Placed<'_>) {
        if at.node.is_null() {
            // It keeps the value that it would have without the key. A missing value also counts as a number.
            return;
        }
        let known = KnownConfiguration::shipped();
        let converts = at.converted && self.release >= known.converted;
        match kind {
            ValueKind::Text => self.text(at),
            ValueKind::Boolean => self.boolean(at, converts),
            ValueKind::Integer => self.number(at, converts, i64::MIN..=i64::MAX, "a whole number"),
            ValueKind::Unsigned => {
                let most = i64::from(u32::MAX);
                self.number(at, converts, 0..=most, "a whole number from 0 on");
            }
            ValueKind::Words => self.words(at, converts),
            ValueKind::Texts => self.map(at, |shape, value| {
                if !value.converted {
                    shape.text(value);
                }
            }),
            ValueKind::Headers => self.map(at, |shape, value| shape.list(value, Shape::text)),
            ValueKind::Disks => self.disks(at),
            ValueKind::One(name) => self.structure(known.named(name), at),
            ValueKind::ListOf(name) => {
                self.list(at, |shape, item| shape.structure(known.named(name), item));
            }
            ValueKind::MapOf(name) => {
                self.map(at, |shape, value| shape.structure(known.named(name), value));
            }
        }
    }

    fn text(&mut self, at: &Placed<'_>) {
        if !at.node.is_null() && at.node.as_str().is_none() {
            self.misfit(at, "text");
        }
    }

    fn boolean(&mut self, at: &Placed<'_>, converts: bool) {
        let text = match &at.node.value {
            NodeValue::Bool(_) => return,
            NodeValue::String(text) if at.converted => text,
            _ if converts => return,
            _ => return self.misfit(at, "true or false"),
        };
        let is_true = match converts {
            false => text == "true",
            true => ["true", "t", "yes", "y"].contains(&text.trim().to_lowercase().as_str()),
        };
        let meant =
            ["true", "yes", "on", "y", "t", "1"].contains(&text.trim().to_lowercase().as_str());
        if meant && !is_true {
            let why = format!("it reads the text `{text}` as false; write true");
            self.remarks
                .push(Remark::ignored(at.node.line, at.path, why));
        }
    }

    fn number(
        &mut self,
        at: &Placed<'_>,
        converts: bool,
        range: std::ops::RangeInclusive<i64>,
        what: &str,
    ) {
        let number = match &at.node.value {
            NodeValue::Number(number) => match number.as_i64() {
                Some(number) => Some(number),
                // The decimals are cut off.
                None if converts => return,
                None => None,
            },
            NodeValue::String(text) if converts => text.trim().parse().ok(),
            // The first one counts.
            NodeValue::Sequence(items) if converts => match items.first() {
                Some(node) => return self.number(&Placed { node, ..*at }, converts, range, what),
                None => None,
            },
            _ => None,
        };
        if !number.is_some_and(|number| range.contains(&number)) {
            self.misfit(at, what);
        }
    }

    fn words(&mut self, at: &Placed<'_>, converts: bool) {
        match &at.node.value {
            NodeValue::Sequence(_) if converts => {}
            NodeValue::Sequence(_) => self.list(at, Shape::text),
            NodeValue::String(_) if at.converted => {}
            _ if converts => {
                let what = at.node.type_name();
                let why = format!("the installer ignores {what} there; write a list");
                self.remarks
                    .push(Remark::ignored(at.node.line, at.path, why));
            }
            _ => self.misfit(at, "a list"),
        }
    }

    /// Nothing in it is renamed or converted. The content of a string is not checked.
    fn disks(&mut self, at: &Placed<'_>) {
        let known = KnownConfiguration::shipped();
        let at = &Placed {
            renamed: false,
            converted: false,
            ..*at
        };
        match &at.node.value {
            NodeValue::Sequence(_) => {
                self.list(at, |shape, item| {
                    shape.structure(known.named("DiskConfig"), item);
                });
            }
            NodeValue::Mapping(_) => self.structure(known.named("MultiPathOption2"), at),
            NodeValue::Bool(_) | NodeValue::Number(_) => self.misfit(at, "a list or a map"),
            NodeValue::String(_) | NodeValue::Null => {}
        }
    }

    fn list(&mut self, at: &Placed<'_>, mut each: impl FnMut(&mut Self, &Placed<'_>)) {
        if at.node.is_null() {
            return;
        }
        let NodeValue::Sequence(items) = &at.node.value else {
            return self.misfit(at, "a list");
        };
        for (position, node) in items.iter().enumerate() {
            let path = &format!("{}[{position}]", at.path);
            each(self, &Placed { node, path, ..*at });
        }
    }

    fn map(&mut self, at: &Placed<'_>, mut each: impl FnMut(&mut Self, &Placed<'_>)) {
        let NodeValue::Mapping(entries) = &at.node.value else {
            return self.misfit(at, "a map");
        };
        for entry in entries {
            let (node, path) = (&entry.value, &format!("{}.{}", at.path, entry.key));
            each(self, &Placed { node, path, ..*at });
        }
    }

    fn misfit(&mut self, at: &Placed<'_>, what: &str) {
        let name = match at.path {
            "" => "the file".to_owned(),
            path => format!("`{path}`"),
        };
        let hint = match (what, &at.node.value) {
            ("text", NodeValue::Number(_) | NodeValue::Bool(_)) => "; put it in quotation marks",
            (_, NodeValue::String(_)) if !matches!(what, "a list" | "a map") => {
                "; remove the quotation marks"
            }
            _ => "",
        };
        let is = at.node.type_name();
        let why = format!(
            "{name} is {is}, but the installer expects {what} there, and it ignores the whole file{hint}"
        );
        self.remarks.push(Remark::refused(at.node.line, why));
    }

    /// A key that this release does not read in this place.
    fn unread(&mut self, of: &ConfigurationType, entry: &MapEntry, path: &str, renamed: bool) {
        let known = KnownConfiguration::shipped();
        let key = entry.key.as_str();
        let is_aside = key.starts_with("x-") || key.starts_with(['.', '_']);
        if of.open || is_aside || of.go.iter().any(|name| name == key) {
            return;
        }
        let mut others = of.keys.iter();
        let other = others.find(|other| other.reads(key, renamed).is_some());
        let why = match (other, known.instead(of, key)) {
            (Some(other), Some(instead)) => format!("{}; {instead}", other.when()),
            (Some(other), None) => other.when(),
            (None, Some(instead)) => instead.to_owned(),
            (None, None) => {
                let names = of.keys.iter().filter(|other| other.is_in(self.release));
                let names = names.map(|other| other.key.as_str());
                match nearest(key, names) {
                    Some(meant) => {
                        let meant = match renamed {
                            true => snake_case(meant),
                            false => meant.to_owned(),
                        };
                        format!("it has no such key there; did you mean `{meant}`?")
                    }
                    None => "it has no such key there".to_owned(),
                }
            }
        };
        self.remarks.push(match known.is_unneeded(of, entry) {
            true => Remark {
                line: entry.line,
                kind: RemarkKind::Unneeded(path.to_owned()),
                why,
            },
            false => Remark::ignored(entry.line, path, why),
        });
    }

    /// Unknown addons. An addon with a known name is reported where the file is read.
    fn addons(&mut self, addons: &MapEntry, path: &str) {
        let known = &KnownConfiguration::shipped().addons;
        for entry in addons.value.entries() {
            let path = format!("{path}.{}", entry.key);
            let mut named = known.iter();
            let why = match named.find(|addon| addon.key == entry.key) {
                Some(addon) if addon.is_in(self.release) => continue,
                Some(addon) => match addon.since {
                    Some(since) => format!("Harvester has this addon from v{since} on"),
                    None => continue,
                },
                None => {
                    let names = known.iter().map(|addon| addon.key.as_str());
                    match nearest(&entry.key, names) {
                        Some(meant) => {
                            format!("it has no such addon; did you mean `{meant}`?")
                        }
                        None => "it has no such addon".to_owned(),
                    }
                }
            };
            self.remarks.push(Remark::ignored(entry.line, &path, why));
        }
    }
}
