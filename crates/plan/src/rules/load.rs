//! Reads rule packs from YAML: checks them in full and reports every error with its line.

mod finding;
pub(crate) mod parts;
mod reference;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use windrow_model::findings::Location;
use windrow_model::manifest::{Node, yaml};

use self::finding::finding;
use self::parts::{provision, readiness};
use self::reference::reference;
use self::rule::rule;
use super::fields::{Errors, Fields, check_name};
use super::{FindingRule, Platform, Reference, Rule, RuleError, RuleSet};
use crate::knowledge::{self, Knowledge};

/// The packs that come with Windrow, in the order in which they are read.
const SHIPPED: &[(&str, &str)] = &[
    (
        "10-references.yaml",
        include_str!("../../data/rules.d/10-references.yaml"),
    ),
    (
        "31-harvester-readiness.yaml",
        include_str!("../../data/rules.d/31-harvester-readiness.yaml"),
    ),
    (
        "40-harvester-vm.yaml",
        include_str!("../../data/rules.d/40-harvester-vm.yaml"),
    ),
    (
        "50-kubevirt-vm.yaml",
        include_str!("../../data/rules.d/50-kubevirt-vm.yaml"),
    ),
];

/// One item of a pack. A later one of the same name replaces or removes it.
enum PackItem {
    Rule(Rule),
    Reference(Reference),
    Finding(FindingRule),
    /// `enabled: false`
    Off(Heading),
}

impl PackItem {
    fn heading(&self) -> Heading {
        let (name, at) = match self {
            Self::Rule(rule) => (&rule.name, &rule.at),
            Self::Reference(reference) => (&reference.name, &reference.at),
            Self::Finding(finding) => (&finding.name, &finding.at),
            Self::Off(heading) => (&heading.name, &heading.at),
        };
        Heading {
            name: name.clone(),
            at: at.clone(),
        }
    }
}

/// The name of an item, `pack/name`, and its place.
struct Heading {
    name: String,
    at: Location,
}

impl RuleSet {
    /// Reads rule files, in order; a later rule overrides an earlier one of the same name. Errors and reasons show the
    /// name of each file. Items with an error are left out; the rest is in force, so the caller decides whether errors
    /// are final.
    pub fn load(sources: &[(String, String)]) -> (Self, Vec<RuleError>) {
        let mut set = Self {
            knowledge: Arc::clone(Knowledge::shipped()),
            ..Self::default()
        };
        let mut found = Vec::new();
        for (file, text) in sources {
            // A copy of a shipped pack, as the packages install it, counts as shipped.
            let mut errors = match SHIPPED.iter().any(|(_, shipped)| shipped == text) {
                true => Errors::of_shipped(file),
                false => Errors::new(file),
            };
            match yaml::parse_configuration(text) {
                Ok(Some(document)) if document.str_at(&["kind"]) == Some("Knowledge") => {
                    let knowledge = Arc::make_mut(&mut set.knowledge);
                    knowledge::add_file(knowledge, &document, &mut errors);
                }
                Ok(Some(document)) => set.pack(&document, &mut errors),
                Ok(None) => {}
                Err(problems) => {
                    for problem in problems {
                        match problem.line {
                            Some(line) => errors.at(line, problem.message),
                            None => errors.file(problem.message),
                        }
                    }
                }
            }
            found.extend(errors.into_found());
        }
        (set, found)
    }

    /// The packs that come with Windrow, as `(file, text)`.
    pub fn shipped_sources() -> Vec<(String, String)> {
        SHIPPED
            .iter()
            .map(|(file, text)| ((*file).to_owned(), (*text).to_owned()))
            .collect()
    }

    /// The rules that come with Windrow. A test ensures that they load without an error.
    pub fn shipped() -> Self {
        Self::load(&Self::shipped_sources()).0
    }

    fn pack(&mut self, document: &Node, errors: &mut Errors<'_>) {
        let keys = [
            "apiVersion",
            "kind",
            "metadata",
            "platform",
            "provides",
            "rules",
            "readiness",
            "references",
            "findings",
        ];
        let Some(pack) = Fields::new(document, "the rule pack", &keys, errors) else {
            return;
        };
        pack.is("apiVersion", "windrow.dev/v1", errors);
        pack.is("kind", "RulePack", errors);
        let platform = pack.word("platform", PLATFORMS, errors);
        for key in ["readiness", "references"] {
            if let (Some(node), Some(platform)) = (pack.get(key), pack.get("platform")) {
                errors.at(
                    node.line,
                    format!(
                        "`{key}` holds on every platform; move it to a pack without `platform` (line {})",
                        platform.line
                    ),
                );
            }
        }
        let name = pack.name(errors);

        let mut items = Vec::new();
        for node in pack.list("rules", errors) {
            let read = |fields: &Fields<'_>, heading, errors: &mut Errors<'_>| {
                rule(fields, heading, platform, errors)
            };
            items.extend(item(node, name, "the rule", rule::KEYS, errors, read));
        }
        for node in pack.list("references", errors) {
            let keys = reference::KEYS;
            items.extend(item(node, name, "the reference", keys, errors, reference));
        }
        for node in pack.list("findings", errors) {
            let read = |fields: &Fields<'_>, heading, errors: &mut Errors<'_>| {
                finding(fields, heading, platform, errors)
            };
            items.extend(item(node, name, "the finding", finding::KEYS, errors, read));
        }
        self.adopt(items, errors);
        for node in pack.list("provides", errors) {
            self.provides.extend(provision(node, platform, errors));
        }
        for node in pack.list("readiness", errors) {
            if let Some(rule) = readiness(node, errors) {
                self.readiness.retain(|earlier| earlier.kind != rule.kind);
                self.readiness.push(rule);
            }
        }
    }

    /// The number of items with a name.
    fn item_count(&self) -> usize {
        self.rules.len() + self.references.len() + self.findings.len()
    }

    /// Puts the items of one pack in force. Each replaces an earlier one of its name.
    fn adopt(&mut self, items: Vec<PackItem>, errors: &mut Errors<'_>) {
        let mut seen: BTreeMap<String, Option<u32>> = BTreeMap::new();
        for item in items {
            let Heading { name, at } = item.heading();
            let line = at.line.unwrap_or(1);
            if let Some(first) = seen.insert(name.clone(), at.line) {
                errors.at(
                    line,
                    format!(
                        "`{name}` appears twice in this file, first on line {}; rename one",
                        first.unwrap_or(1)
                    ),
                );
                continue;
            }
            match item {
                PackItem::Rule(rule) => put(&mut self.rules, rule, |rule| &rule.name),
                PackItem::Reference(reference) => {
                    put(&mut self.references, reference, |reference| &reference.name);
                }
                PackItem::Finding(finding) => {
                    put(&mut self.findings, finding, |finding| &finding.name);
                }
                PackItem::Off(_) => {
                    let before = self.item_count();
                    self.rules.retain(|rule| rule.name != name);
                    self.references.retain(|reference| reference.name != name);
                    self.findings.retain(|finding| finding.name != name);
                    if before == self.item_count() {
                        errors.at(
                            line,
                            format!("there is no rule `{name}` to disable; check pack and name"),
                        );
                    }
                }
            }
        }
    }
}

/// Replaces the item of the same name, or adds the item after all others.
fn put<T>(items: &mut Vec<T>, item: T, name: fn(&T) -> &String) {
    match items.iter().position(|other| name(other) == name(&item)) {
        Some(position) => items[position] = item,
        None => items.push(item),
    }
}

const PLATFORMS: &[(&str, Platform)] =
    &[("harvester", Platform::Harvester), ("rke2", Platform::Rke2)];

/// Reads an item of a pack: its heading here, the rest with `read` unless it is disabled. An item with an error is left
/// out.
fn item(
    node: &Node,
    pack: &str,
    what: &'static str,
    keys: &[&str],
    errors: &mut Errors<'_>,
    read: impl FnOnce(&Fields<'_>, Heading, &mut Errors<'_>) -> Option<PackItem>,
) -> Option<PackItem> {
    let before = errors.count();
    let known = [&["name", "enabled"], keys].concat();
    let fields = Fields::new(node, what, &known, errors)?;
    let name = fields.required("name", errors);
    if let Some(name) = name {
        check_name(name, fields.line(), errors);
    }
    let enabled = fields.flag("enabled", true, errors);
    let heading = Heading {
        name: format!("{pack}/{}", name?),
        at: errors.location(fields.line()),
    };
    if !enabled {
        return Some(PackItem::Off(heading));
    }
    let item = read(&fields, heading, errors)?;
    (errors.count() == before).then_some(item)
}
