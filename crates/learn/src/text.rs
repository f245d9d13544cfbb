//! The knowledge file as text. Users read and edit it, so it is not written by a serializer: it has one group of kinds,
//! one interval, one boot per line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use windrow_decide::flight::Appeared;
use windrow_model::duration_text;
use windrow_model::manifest::ObjectRef;
use windrow_plan::knowledge::{LearnedTimes, Seen};

use crate::row::ascii;
use crate::summary::{LearnedEntry, PhaseEntry, Provider, RefusalEntry, Summary};

/// The maximum size of entries, phases and refusals, in bytes: a node reads no file of more than 4 MiB.
const MOST_BYTES: usize = 1 << 20;

const HEAD: &str = "\
# What recorded boots teach: who brings what, how long it takes, what was refused. Made by `windrow knowledge learn` from the boots at the end of
# this file, one a line; the same boots make the same file. To forget a boot, take out its line and run `windrow knowledge learn` on this file.
# Your own knowledge belongs into another file of this directory: what you change here is gone the next time.
";

impl Summary {
    pub fn text(&self) -> String {
        let mut out = String::from(HEAD);
        out.push_str("apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {name: learned}\n");
        let mut room = MOST_BYTES;
        let entries = self
            .entries
            .iter()
            .map(|one| (one.seen.boots, entry(one, self.boots.len())));
        list(&mut out, "entries", entries, &mut room);
        let phases = self.phases.iter().map(|one| (one.seen.boots, phase(one)));
        list(&mut out, "phases", phases, &mut room);
        let refusals = self
            .refusals
            .iter()
            .map(|one| (one.seen.boots, refusal(one)));
        list(&mut out, "refusals", refusals, &mut room);
        match self.boots.is_empty() {
            true => out.push_str("boots: \"\"\n"),
            false => out.push_str("boots: |\n"),
        }
        for boot in &self.boots {
            let _ = writeln!(out, "  {}", boot.line());
        }
        out
    }
}

/// A list of parts, each with the number of boots in which it was observed. If there is not enough room, the parts with
/// the fewest boots are left out.
fn list(out: &mut String, key: &str, parts: impl Iterator<Item = (u32, String)>, room: &mut usize) {
    let parts: Vec<(u32, String)> = parts.collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|number| (std::cmp::Reverse(parts[*number].0), *number));
    let mut kept = BTreeSet::new();
    for number in order {
        let Some(left) = room.checked_sub(parts[number].1.len()) else {
            break;
        };
        *room = left;
        kept.insert(number);
    }
    if kept.is_empty() {
        return;
    }
    let _ = writeln!(out, "{key}:");
    for number in kept {
        out.push_str(&parts[number].1);
    }
}

fn entry(entry: &LearnedEntry, boots: usize) -> String {
    let mut out = format!(
        "  - name: {}\n    by: {}\n",
        quoted(&entry.name),
        by(&entry.by)
    );
    if !entry.versions.is_all() {
        let _ = writeln!(out, "    versions: {}", quoted(&entry.versions.to_string()));
    }
    /// Kinds with a namespace, and those without.
    type Kinds<'e> = [BTreeSet<&'e str>; 2];
    let mut groups: BTreeMap<&str, Kinds<'_>> = BTreeMap::new();
    let (mut namespaces, mut objects) = (Vec::new(), Vec::new());
    for thing in &entry.things {
        match thing {
            Appeared::Kind { kind, namespaced } => {
                let sorts = groups.entry(&kind.group).or_default();
                sorts[usize::from(!namespaced)].insert(&kind.kind);
            }
            Appeared::Object(object) if object.group.is_empty() && object.kind == "Namespace" => {
                namespaces.push(object.name.as_str());
            }
            Appeared::Object(object) => objects.push(object),
        }
    }
    if !groups.is_empty() {
        out.push_str("    kinds:\n");
    }
    for (group, [namespaced, cluster]) in groups {
        let _ = write!(out, "      - {{group: {}", quoted(group));
        for (key, kinds) in [("namespaced", namespaced), ("cluster", cluster)] {
            if !kinds.is_empty() {
                let _ = write!(out, ", {key}: {}", words(kinds));
            }
        }
        out.push_str("}\n");
    }
    if !namespaces.is_empty() {
        let _ = writeln!(out, "    namespaces: {}", words(namespaces));
    }
    if !objects.is_empty() {
        out.push_str("    objects:\n");
    }
    for object in objects {
        let _ = writeln!(out, "      - {}", object_map(object));
    }
    if let Some(learned) = &entry.times {
        let _ = writeln!(out, "    times: {}", times(learned));
    }
    if !entry.times_on.is_empty() {
        out.push_str("    timesOn:\n");
    }
    for (one, boots) in &entry.times_on {
        let (hardware, times) = (quoted(&one.hardware), times(&one.times));
        let row = format!("{{hardware: {hardware}, times: {times}}}");
        let _ = writeln!(out, "      - {row} # of {boots} boots");
    }
    let _ = writeln!(out, "    seen: {}", seen(entry.seen));
    let s = if boots == 1 { "" } else { "s" };
    let timed = match entry.times {
        None => "no time is known".to_owned(),
        Some(_) => format!("times of {}", entry.timed),
    };
    let _ = writeln!(out, "    source: learned from {boots} boot{s}; {timed}");
    out
}

fn by(by: &Provider) -> String {
    let mut parts = Vec::new();
    let mut put = |key: &str, value: &str| parts.push(format!("{key}: {}", quoted(value)));
    match by {
        Provider::Chart {
            name, repository, ..
        } => {
            put("chart", name);
            if let Some(repository) = repository {
                put("repository", repository);
            }
        }
        Provider::Rke2 {
            component,
            selected_by,
        } => {
            put("rke2", component);
            if let Some((setting, word)) = selected_by {
                put(setting, word);
            }
        }
        Provider::Harvester { part, phase, addon } => {
            put("harvester", part);
            if let Some(phase) = phase {
                put("phase", phase);
            }
            if let Some(addon) = addon {
                put("addon", addon);
            }
        }
        Provider::Operator {
            deployment,
            acts_on,
        } => {
            put("operator", deployment);
            let (group, kind) = (quoted(&acts_on.group), quoted(&acts_on.kind));
            parts.push(format!("kind: {{group: {group}, kind: {kind}}}"));
        }
    }
    if let Provider::Chart { values, .. } = by
        && !values.is_empty()
    {
        parts.push(format!(
            "values: {}",
            words(values.iter().map(String::as_str))
        ));
    }
    format!("{{{}}}", parts.join(", "))
}

fn phase(phase: &PhaseEntry) -> String {
    let mut out = format!(
        "  - phase: {}\n    platform: {}\n",
        phase.phase.as_str(),
        phase.platform
    );
    if !phase.versions.is_all() {
        let _ = writeln!(out, "    versions: {}", quoted(&phase.versions.to_string()));
    }
    if let Some(role) = phase.role {
        let _ = writeln!(out, "    role: {}", role.as_str());
    }
    if let Some(hardware) = &phase.hardware {
        let _ = writeln!(out, "    hardware: {}", quoted(hardware));
    }
    if phase.installed {
        out.push_str("    installed: true\n");
    }
    let (times, seen) = (times(&phase.times), seen(phase.seen));
    let _ = writeln!(out, "    times: {times}\n    seen: {seen}");
    out
}

fn refusal(refusal: &RefusalEntry) -> String {
    let (group, kind) = (quoted(&refusal.kind.group), quoted(&refusal.kind.kind));
    let said = quoted(&refusal.said);
    let mut out = format!("  - kind: {{group: {group}, kind: {kind}}}\n    said: {said}\n");
    if let Some(cause) = &refusal.cause {
        let _ = writeln!(out, "    cause: {}", quoted(cause));
    }
    let _ = writeln!(out, "    seen: {}", seen(refusal.seen));
    out
}

fn object_map(object: &ObjectRef) -> String {
    let mut parts = Vec::new();
    let mut put = |key: &str, value: &str| parts.push(format!("{key}: {}", quoted(value)));
    if !object.group.is_empty() {
        put("group", &object.group);
    }
    put("kind", &object.kind);
    if let Some(namespace) = &object.namespace {
        put("namespace", namespace);
    }
    put("name", &object.name);
    format!("{{{}}}", parts.join(", "))
}

fn words<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let words: Vec<String> = words.into_iter().map(quoted).collect();
    format!("[{}]", words.join(", "))
}

fn seen(seen: Seen) -> String {
    let Seen { boots, of, last } = seen;
    format!("{{boots: {boots}, of: {of}, last: {last}}}")
}

fn times(times: &LearnedTimes) -> String {
    let [p5, p25, half, p75, p95] =
        [times.p5, times.p25, times.half, times.p75, times.p95].map(duration_text);
    format!("{{p5: {p5}, p25: {p25}, half: {half}, p75: {p75}, p95: {p95}}}")
}

/// A text in YAML: unchanged if every reader takes it for a text, otherwise in the form of JSON.
fn quoted(text: &str) -> String {
    /// Words that YAML 1.1 does not take for texts (yaml.org, type repository: bool, null).
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let inner = |one: char| one.is_ascii_alphanumeric() || "-._/".contains(one);
    let is_plain = text.starts_with(|one: char| one.is_ascii_alphabetic())
        && text.chars().all(inner)
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    match is_plain {
        true => text.to_owned(),
        false => ascii(&serde_json::to_string(text).unwrap_or_default()),
    }
}
