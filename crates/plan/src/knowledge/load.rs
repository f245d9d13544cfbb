//! Loads knowledge from YAML. It checks everything and reports each error with its line.

use std::time::Duration;

use windrow_model::manifest::{GroupKind, Node, ObjectRef, namespace_name_error, yaml};

use super::learned;
use super::webhook::webhooks;
use super::{
    Bringer, Brings, Knowledge, KnowledgeEntry, KnownKind, KnownStorageClass, Phase, Selection,
    VersionRange,
};
use crate::rules::fields::{Errors, Fields, group_error, kind_error};
use crate::rules::parts::{object, required_kind};
use crate::rules::{RuleError, parse_duration};

/// The keys of a file. `windrow knowledge learn` merges `boots`: one boot per line, which other code ignores.
pub(super) const FILE_KEYS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "entries",
    "phases",
    "refusals",
    "boots",
];
pub(super) const ENTRY_KEYS: &[&str] = &[
    "name",
    "by",
    "versions",
    "kinds",
    "groups",
    "namespaces",
    "objects",
    "storageClasses",
    "webhooks",
    "after",
    "times",
    "timesOn",
    "seen",
    "source",
];
/// The keys of the kinds of a group.
pub(super) const KIND_KEYS: &[&str] = &["group", "namespaced", "cluster", "versions"];
pub(super) const CLASS_KEYS: &[&str] = &["name", "provisioner", "default"];
/// The keys of the provider.
pub(super) const BY_KEYS: &[&str] = &[
    "kubernetes",
    "rke2",
    "cni",
    "ingressController",
    "harvester",
    "phase",
    "addon",
    "chart",
    "repository",
    "values",
    "kindsUnlessFalse",
    "installs",
    "operator",
    "kind",
];

/// Adds a file. Invalid parts are left out.
pub(super) fn add_text(knowledge: &mut Knowledge, file: &str, text: &str) -> Vec<RuleError> {
    let mut errors = Errors::new(file);
    match yaml::parse_configuration(text) {
        Ok(Some(document)) => add_file(knowledge, &document, &mut errors),
        Ok(None) => {}
        Err(problems) => {
            for problem in problems {
                errors.at(problem.line.unwrap_or(1), problem.message);
            }
        }
    }
    errors.into_found()
}

/// Adds a document of the kind `Knowledge`.
pub(crate) fn add_file(knowledge: &mut Knowledge, document: &Node, errors: &mut Errors<'_>) {
    let keys = FILE_KEYS;
    let Some(file) = Fields::new(document, "the knowledge file", keys, errors) else {
        return;
    };
    file.is("apiVersion", "windrow.dev/v1", errors);
    let name = file.name(errors);
    let mut seen = Vec::new();
    for node in file.list("entries", errors) {
        let Some(parts) = entry(node, name, errors) else {
            continue;
        };
        let Some(name) = parts.first().map(|part| part.name.clone()) else {
            continue;
        };
        if seen.contains(&name) {
            errors.at(
                node.line,
                format!("`{name}` appears twice in this file; rename one"),
            );
            continue;
        }
        let place = knowledge.entries.iter().position(|one| one.name == name);
        knowledge.entries.retain(|known| known.name != name);
        let place = place.unwrap_or(knowledge.entries.len());
        knowledge.entries.splice(place..place, parts);
        seen.push(name);
    }
    for node in file.list("phases", errors) {
        knowledge.phases.extend(learned::phase(node, errors));
    }
    for node in file.list("refusals", errors) {
        knowledge.refusals.extend(learned::refusal(node, errors));
    }
}

/// An entry as one part for each version range: the ranges of the entry, and those of kinds with separate ranges.
fn entry(node: &Node, file: &str, errors: &mut Errors<'_>) -> Option<Vec<KnowledgeEntry>> {
    let before = errors.count();
    let fields = Fields::new(node, "the entry", ENTRY_KEYS, errors)?;
    let name = fields.required("name", errors);
    let source = fields.required("source", errors);
    let bringer = match fields.get("by") {
        Some(node) => bringer(node, errors),
        None => {
            fields.lacks("`by`: who brings it", errors);
            None
        }
    };
    let versions = ranges(&fields, errors);
    let brings = brings(&fields, errors);
    let webhooks = webhooks(&fields, errors);
    let has_manifest = matches!(
        bringer,
        None | Some(Bringer::Chart { .. } | Bringer::Operator { .. })
    );
    if !webhooks.is_empty() && !has_manifest {
        let at = fields.line_of("webhooks");
        errors.at(at, "`webhooks` goes only with `chart` and `operator`");
    }
    let after = fields.get("after").and_then(|node| span(node, errors));
    let (times, seen) = (
        learned::times(&fields, errors),
        learned::seen(&fields, errors),
    );
    let times_on = learned::class_times(&fields, errors);
    (errors.count() == before).then_some(())?;
    let (name, bringer, source) = (format!("{file}/{}", name?), bringer?, source?);
    let part = |(versions, brings)| KnowledgeEntry {
        name: name.clone(),
        at: errors.location(fields.line()),
        bringer: bringer.clone(),
        versions,
        brings,
        webhooks: Vec::new(),
        after,
        times,
        times_on: times_on.clone(),
        seen,
        source: source.to_owned(),
    };
    let (always, later) = brings;
    let common = versions
        .into_iter()
        .filter(|_| always != Brings::default())
        .map(|range| (range, always.clone()));
    let mut parts: Vec<KnowledgeEntry> = common.chain(later).map(part).collect();
    if let Some(first) = parts.first_mut() {
        first.webhooks = webhooks;
    }
    Some(parts)
}

/// The ranges of `versions`, which are separated by `||`.
pub(super) fn ranges(fields: &Fields<'_>, errors: &mut Errors<'_>) -> Vec<VersionRange> {
    let Some(text) = fields.text("versions", errors) else {
        return vec![VersionRange::default()];
    };
    let parsed: Result<Vec<VersionRange>, String> =
        text.split("||").map(VersionRange::parse).collect();
    parsed.unwrap_or_else(|why| {
        let at = fields.line_of("versions");
        errors.at(
            at,
            format!("`versions`: {why}; write it like \">=1.5 <1.8\""),
        );
        vec![VersionRange::default()]
    })
}

/// The things that an entry provides, which must not be empty: in all of its versions, and in the separate versions of some
/// kinds.
fn brings(fields: &Fields<'_>, errors: &mut Errors<'_>) -> (Brings, Vec<(VersionRange, Brings)>) {
    let mut brings = Brings::default();
    let mut later: Vec<(VersionRange, Brings)> = Vec::new();
    for node in fields.list("kinds", errors) {
        let Some(kinds) = Fields::new(node, "the group of kinds", KIND_KEYS, errors) else {
            continue;
        };
        let known = known_kinds(&kinds, errors);
        if kinds.get("versions").is_none() {
            brings.kinds.extend(known);
            continue;
        }
        for range in ranges(&kinds, errors) {
            match later.iter_mut().find(|(of, _)| *of == range) {
                Some((_, brings)) => brings.kinds.extend(known.iter().cloned()),
                None => {
                    let kinds = known.clone();
                    let brings = Brings {
                        kinds,
                        ..Brings::default()
                    };
                    later.push((range, brings));
                }
            }
        }
    }
    let groups = fields.texts("groups", errors);
    for (group, line) in &groups {
        errors.check(*line, "groups", group_error(group));
    }
    brings
        .groups
        .extend(groups.into_iter().map(|(group, _)| group.into()));
    for (name, line) in fields.texts("namespaces", errors) {
        errors.check(line, "namespaces", namespace_name_error(name));
        brings
            .objects
            .push(ObjectRef::cluster("", "Namespace", name));
    }
    let objects = fields.list("objects", errors);
    brings
        .objects
        .extend(objects.iter().filter_map(|node| object(node, errors)));
    for node in fields.list("storageClasses", errors) {
        if let Some(class) = storage_class(node, errors) {
            let object = ObjectRef::cluster("storage.k8s.io", "StorageClass", class.name.clone());
            brings.objects.push(object);
            brings.classes.push(class);
        }
    }
    // Built-in knowledge stays in memory as long as the process runs.
    brings.kinds.shrink_to_fit();
    if brings == Brings::default() && later.is_empty() {
        let words =
            "`kinds`, `groups`, `namespaces`, `objects` or `storageClasses`: it brings nothing";
        fields.lacks(words, errors);
    }
    (brings, later)
}

fn storage_class(node: &Node, errors: &mut Errors<'_>) -> Option<KnownStorageClass> {
    let fields = Fields::new(node, "the storage class", CLASS_KEYS, errors)?;
    Some(KnownStorageClass {
        name: fields.required("name", errors)?.into(),
        provisioner: fields.required("provisioner", errors)?.into(),
        is_default: fields.flag("default", false, errors),
    })
}

/// The kinds of one group, with their scope.
fn known_kinds(fields: &Fields<'_>, errors: &mut Errors<'_>) -> Vec<KnownKind> {
    let group = fields.group("group", errors).unwrap_or_default();
    let mut found = Vec::new();
    for (key, namespaced) in [("namespaced", true), ("cluster", false)] {
        for (kind, line) in fields.texts(key, errors) {
            errors.check(line, key, kind_error(kind));
            let kind = GroupKind::new(group, kind);
            found.push(KnownKind { kind, namespaced });
        }
    }
    found
}

fn bringer(node: &Node, errors: &mut Errors<'_>) -> Option<Bringer> {
    let fields = Fields::new(node, "`by`", BY_KEYS, errors)?;
    let who = ["kubernetes", "rke2", "harvester", "chart", "operator"];
    let mut named = who.iter().filter(|key| fields.get(key).is_some());
    let (Some(one), None) = (named.next(), named.next()) else {
        errors.at(
            fields.line(),
            format!("`by` names exactly one of {}", who.join(", ")),
        );
        return None;
    };
    let belongs: &[&str] = match *one {
        "rke2" => &["cni", "ingressController"],
        "harvester" => &["phase", "addon"],
        "chart" => &["repository", "values", "kindsUnlessFalse", "installs"],
        "operator" => &["kind"],
        _ => &[],
    };
    for entry in node.entries() {
        let key = entry.key.as_str();
        if key != *one && BY_KEYS.contains(&key) && !belongs.contains(&key) {
            errors.at(entry.line, format!("`{key}` does not go with `{one}`"));
        }
    }
    match *one {
        "kubernetes" => {
            let words = [("always", false), ("runtime-config", true)];
            let optional = fields.word("kubernetes", &words, errors)?;
            Some(Bringer::Kubernetes { optional })
        }
        "rke2" => {
            let component = fields.text("rke2", errors)?;
            let mut settings = [
                ("cni", Selection::Cni),
                ("ingressController", Selection::IngressController),
            ]
            .into_iter()
            .filter_map(|(key, setting)| Some((setting, fields.text(key, errors)?.to_owned())));
            let selected_by = settings.next();
            Some(Bringer::Rke2 {
                component: (component != "itself").then(|| component.to_owned()),
                selected_by,
            })
        }
        "harvester" => {
            let phases = [
                ("rancher", Phase::Rancher),
                ("definitions", Phase::Definitions),
                ("operators", Phase::Operators),
            ];
            Some(Bringer::Harvester {
                part: fields.text("harvester", errors)?.to_owned(),
                phase: fields.word("phase", &phases, errors),
                addon: fields.text("addon", errors).map(str::to_owned),
            })
        }
        "chart" => Some(Bringer::Chart {
            name: fields.text("chart", errors)?.to_owned(),
            repository: fields.text("repository", errors).map(str::to_owned),
            values: fields
                .texts("values", errors)
                .into_iter()
                .map(|(path, _)| path.to_owned())
                .collect(),
            kinds_unless_false: fields.text("kindsUnlessFalse", errors).map(str::to_owned),
            installs: fields.flag("installs", false, errors),
        }),
        _ => Some(Bringer::Operator {
            deployment: fields.text("operator", errors)?.to_owned(),
            acts_on: match fields.get("kind") {
                Some(_) => Some(required_kind(
                    &fields,
                    "kind",
                    ": the kind that it acts on",
                    errors,
                )?),
                None => None,
            },
        }),
    }
}

/// The shortest and the longest time.
fn span(node: &Node, errors: &mut Errors<'_>) -> Option<(Duration, Duration)> {
    let fields = Fields::new(node, "`after`", &["from", "to"], errors)?;
    let mut bound = |key| {
        let text = fields.required(key, errors)?;
        let parsed = parse_duration(text);
        if let Err(why) = &parsed {
            errors.at(fields.line_of(key), format!("`{key}`: {why}"));
        }
        parsed.ok()
    };
    let (from, to) = (bound("from")?, bound("to")?);
    if from > to {
        errors.at(fields.line(), "`from` of `after` is longer than `to`");
    }
    Some((from, to))
}
