//! A configuration corrected, where that is mechanical: names, the order of documents, what one file must
//! not hold together, and what an annotation asks for. The files themselves are never touched.

use std::collections::{BTreeMap, BTreeSet};

use super::carriers;
use crate::manifest::{self, Content, Limits, addon_name};
use crate::plan::{Finding, base_name};
use crate::reasons::Code;

/// A file that a person gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its path in the corrected copy.
    pub name: String,
    /// How findings call it.
    pub shown: String,
    /// Its text.
    pub text: String,
    /// The manifests that it carries, by their paths; empty for a manifest.
    pub carries: Vec<String>,
}

/// The same files without what `findings` say of them, as far as that can be corrected; `None` when
/// nothing can be. What is correct is among them: the copy stands for the whole.
pub fn corrected(
    sources: &[Source],
    findings: &[Finding],
    limits: &Limits,
) -> Option<Vec<(String, String)>> {
    let mut copies = sources.to_vec();
    // What keeps the lines where they are comes first.
    for copy in &mut copies {
        if !copy.carries.is_empty()
            && let Some(text) = carriers::corrected(&copy.shown, &copy.text, limits)
        {
            copy.text = text;
        }
    }
    for finding in findings {
        annotation(&mut copies, finding);
    }
    let mut written = Vec::new();
    for copy in copies {
        let wrong = |finding: &&Finding| {
            finding.code == Code::SameFile && finding.at.iter().any(|at| at.file == copy.shown)
        };
        match copy.carries.is_empty() && findings.iter().any(|one| wrong(&one)) {
            true => written.extend(apart(copy, limits)),
            false => written.push(copy),
        }
    }
    rename(&mut written);
    let before = sources
        .iter()
        .map(|source| (source.name.clone(), source.text.clone()));
    let after: Vec<(String, String)> = written
        .into_iter()
        .map(|copy| (copy.name, copy.text))
        .collect();
    (!before.eq(after.iter().cloned())).then_some(after)
}

/// What an annotation asks for is weakened: from Ready to there, or from a must to an order. Only where
/// its line names one object alone.
fn annotation(copies: &mut [Source], finding: &Finding) {
    let weaker = match finding.code {
        Code::ClaimBoundBeforeUse | Code::Unobservable | Code::NodeReadyCycle => "(exists)",
        Code::RequiredCycle => "(advisory)",
        _ => return,
    };
    let Some(at) = finding.at.last() else { return };
    let Some(place) = at
        .line
        .and_then(|line| usize::try_from(line).ok())
        .and_then(|line| line.checked_sub(1))
    else {
        return;
    };
    let Some(copy) = copies.iter_mut().find(|copy| copy.shown == at.file) else {
        return;
    };
    let mut lines: Vec<String> = copy.text.split_inclusive('\n').map(str::to_owned).collect();
    if let Some(line) = lines.get_mut(place)
        && let Some(other) = weakened(line, weaker)
    {
        *line = other;
        copy.text = lines.concat();
    }
}

fn weakened(line: &str, weaker: &str) -> Option<String> {
    let (key, value) = line.split_once("depends-on: ")?;
    let end = line.len() - line.trim_end().len();
    let (bare, end) = value.split_at(value.len() - end);
    let quote = bare.chars().next().filter(|ch| matches!(ch, '"' | '\''));
    let inner = bare.trim_matches(|ch| Some(ch) == quote);
    if inner.is_empty() || inner.contains([',', '#', '|', '>', '{', '}']) || inner.contains(weaker)
    {
        return None;
    }
    let inner = match weaker {
        "(exists)" => inner.replace(" (ready)", ""),
        _ => inner.to_owned(),
    };
    let quote = quote.map(String::from).unwrap_or_default();
    Some(format!(
        "{key}depends-on: {quote}{inner} {weaker}{quote}{end}"
    ))
}

/// What has to be there before the rest of its file: namespaces go first, and definitions into a file
/// of their own, because what they define is served only some time after they were applied.
fn apart(copy: Source, limits: &Limits) -> Vec<Source> {
    let content = Content::Bytes(copy.text.clone().into_bytes());
    let file = manifest::read(&copy.name, &content, limits);
    let lines: Vec<&str> = copy.text.split_inclusive('\n').collect();
    let begins: Vec<usize> = file
        .documents
        .iter()
        .map(|document| {
            usize::try_from(document.line)
                .unwrap_or(1)
                .saturating_sub(1)
        })
        .collect();
    let mut first = Vec::new();
    let mut definitions = Vec::new();
    let mut rest = Vec::new();
    for (number, document) in file.documents.iter().enumerate() {
        let end = begins.get(number + 1).copied().unwrap_or(lines.len());
        let text: String = lines
            .get(begins[number]..end)
            .unwrap_or_default()
            .iter()
            .filter(|line| line.trim_end() != "---")
            .copied()
            .collect();
        let is = |kind: &str| {
            !document.objects.is_empty()
                && document.objects.iter().all(|object| object.id.kind == kind)
        };
        match () {
            () if is("Namespace") => first.push(text),
            () if is("CustomResourceDefinition") => definitions.push(text),
            () => rest.push(text),
        }
    }
    first.extend(definitions.iter().cloned());
    if definitions.is_empty() || rest.is_empty() {
        first.extend(rest);
        let text = join(first);
        return vec![Source { text, ..copy }];
    }
    let (stem, extension) = copy.name.rsplit_once('.').unwrap_or((&copy.name, "yaml"));
    let name = format!("{stem}-objects.{extension}");
    let objects = Source {
        shown: name.clone(),
        name,
        text: join(rest),
        carries: Vec::new(),
    };
    let text = join(first);
    vec![Source { text, ..copy }, objects]
}

fn join(documents: Vec<String>) -> String {
    let ended = documents
        .into_iter()
        .map(|text| match text.ends_with('\n') {
            true => text,
            false => text + "\n",
        });
    ended.collect::<Vec<_>>().join("---\n")
}

/// Names of which RKE2 can make an Addon, and each its own.
fn rename(copies: &mut [Source]) {
    let mut addons: BTreeSet<String> = BTreeSet::new();
    let mut wanted: Vec<(usize, String, bool)> = Vec::new();
    for (number, copy) in copies.iter().enumerate() {
        if copy.carries.is_empty() {
            wanted.push((number, copy.name.clone(), false));
        } else {
            wanted.extend(copy.carries.iter().map(|path| (number, path.clone(), true)));
        }
    }
    // A name with one dot keeps it; of the others each gets one of its own.
    wanted.sort_by_key(|(_, path, _)| base_name(path).matches('.').count());
    let mut names: BTreeMap<(usize, String), String> = BTreeMap::new();
    for (number, path, carried) in wanted {
        if !manifest::is_manifest_name(base_name(&path)) {
            continue;
        }
        let mut name = path.clone();
        let valid = manifest::addon_name_error(base_name(&path)).is_none();
        if !valid || addons.contains(addon_name(base_name(&path))) {
            name = plain(&path, &addons);
        }
        addons.insert(addon_name(base_name(&name)).to_owned());
        if name != path {
            match carried {
                false => copies[number].name = name,
                true => {
                    names.insert((number, path), name);
                }
            }
        }
    }
    for ((number, path), name) in names {
        let text = copies[number]
            .text
            .split_inclusive('\n')
            .map(|line| match line.contains("path:") {
                true => line.replace(
                    &format!("/server/manifests/{path}"),
                    &format!("/server/manifests/{name}"),
                ),
                false => line.to_owned(),
            })
            .collect();
        copies[number].text = text;
    }
}

/// A name of lower-case letters, digits and `-`, which no Addon has yet.
fn plain(path: &str, taken: &BTreeSet<String>) -> String {
    let (directory, name) = match path.rsplit_once('/') {
        Some((directory, name)) => (format!("{directory}/"), name),
        None => (String::new(), path),
    };
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "yaml"));
    let stem: String = stem
        .chars()
        .map(|ch| match ch.is_ascii_alphanumeric() {
            true => ch.to_ascii_lowercase(),
            false => '-',
        })
        .collect();
    let stem = stem.trim_matches('-');
    let stem = if stem.is_empty() { "manifest" } else { stem };
    let numbered = (2..).map(|number| format!("{stem}-{number}"));
    let mut free = std::iter::once(stem.to_owned())
        .chain(numbered)
        .filter(|stem| !taken.contains(stem));
    let stem = free.next().unwrap_or_else(|| stem.to_owned());
    format!("{directory}{stem}.{extension}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_is_asked_for_less_and_a_line_that_is_not_plain_stays() {
        let exists = |line: &str| weakened(line, "(exists)");
        assert_eq!(
            exists("    windrow.dev/depends-on: /Node/n1\n").unwrap(),
            "    windrow.dev/depends-on: /Node/n1 (exists)\n"
        );
        assert_eq!(
            exists("  config.kubernetes.io/depends-on: \"/Node/n1 (ready)\"").unwrap(),
            "  config.kubernetes.io/depends-on: \"/Node/n1 (exists)\""
        );
        for line in [
            "  windrow.dev/depends-on: /Node/n1, /Node/n2\n",
            "  windrow.dev/depends-on: >-\n",
            "  windrow.dev/depends-on: /Node/n1 (exists)\n",
            "  a: b\n",
        ] {
            assert_eq!(exists(line), None, "{line}");
        }
    }

    #[test]
    fn every_manifest_gets_a_name_of_its_own_that_rke2_can_use() {
        let source = |name: &str| Source {
            name: name.to_owned(),
            shown: name.to_owned(),
            text: String::new(),
            carries: Vec::new(),
        };
        let mut copies: Vec<Source> =
            ["Site_A.yaml", "site.maps.yaml", "site.yaml", "sub/site.yml"]
                .map(source)
                .to_vec();
        rename(&mut copies);
        let names: Vec<&str> = copies.iter().map(|copy| copy.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "site-a.yaml",
                "site-maps.yaml",
                "site.yaml",
                "sub/site-2.yml"
            ]
        );
    }
}
