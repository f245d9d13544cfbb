//! The names of entries in a file.

use std::collections::BTreeSet;

use super::versions::VersionSpan;
use super::{LearnedEntry, Provider};

/// `chart-widgets`, and its lowest version if there are several entries.
pub(super) fn name_entries(entries: &mut [LearnedEntry]) {
    let spans: BTreeSet<VersionSpan> = entries.iter().map(|entry| entry.versions).collect();
    for entry in entries {
        let mut name = match &entry.by {
            Provider::Chart {
                name,
                repository,
                values,
            } => {
                let of = repository.as_ref().map(|one| format!("-of-{one}"));
                let when = values.first().map(|one| format!("-with-{one}"));
                let parts = [of, when].into_iter().flatten();
                format!("chart-{name}{}", parts.collect::<String>())
            }
            Provider::Rke2 { component, .. } => component.clone(),
            Provider::Harvester { part, addon, .. } => {
                let addon = addon.as_ref().map(|one| format!("-addon-{one}"));
                format!("harvester-{part}{}", addon.unwrap_or_default())
            }
            Provider::Operator { deployment, .. } => format!("operator-{deployment}"),
        };
        if spans.len() > 1 {
            name.push_str(&match (entry.versions.from, entry.versions.before) {
                (_, None) => "-unversioned".to_owned(),
                (Some([a, b, c]), _) => format!("-{a}.{b}.{c}"),
                (None, _) => String::new(),
            });
        }
        let plain = |one: char| {
            if one.is_ascii_alphanumeric() || "-.".contains(one) {
                one
            } else {
                '-'
            }
        };
        entry.name = name.chars().map(plain).collect();
    }
}

/// Entries with the same name get a number.
pub(super) fn make_unique(entries: &mut [LearnedEntry]) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for entry in entries {
        let base = entry.name.clone();
        let mut number = 2;
        while !taken.insert(entry.name.clone()) {
            entry.name = format!("{base}-{number}");
            number += 1;
        }
    }
}
