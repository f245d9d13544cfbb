//! Finds the definition of an object's kind, and writes the messages about kinds that are not served.

use windrow_model::manifest::{Object, group_of};
use windrow_model::object::api_version;
use windrow_model::suggest;
use windrow_plan::kubernetes::{FACTS, KindFact, Minors, RemovedKind, is_built_in_group};

use crate::problem::{Problem, ProblemKind};

pub(crate) enum Found {
    /// At least one of the minors serves it.
    Served {
        definition: &'static str,
        minors: Minors,
    },
    /// No minor serves it, or only if configured to.
    Problem(Box<Problem>),
    /// It is not a kind of a built-in group.
    Foreign,
}

pub(crate) fn find(object: &Object, minors: Minors) -> Found {
    let api_version = api_version(&object.id.group, &object.version);
    let kind = object.id.kind.as_str();
    if !is_built_in_group(&object.id.group) {
        return Found::Foreign;
    }
    let mut here = entries(&api_version, kind).filter(|known| !known.minors.and(minors).is_empty());
    let served = here.find_map(|known| Some((known.definition?, known.minors)));
    if let Some((definition, at)) = served {
        return Found::Served {
            definition,
            minors: at.and(minors),
        };
    }
    let why = why_not_served(&object.id.group, &api_version, kind, minors);
    let Some((problem, message)) = why else {
        return Found::Foreign;
    };
    let line = object
        .node
        .entry("apiVersion")
        .map_or(object.line, |entry| entry.line);
    let refusal = (problem != ProblemKind::OffByDefault)
        .then(|| format!("no matches for kind \"{kind}\" in version \"{api_version}\""));
    Found::Problem(Box::new(Problem {
        kind: problem,
        line,
        field: String::new(),
        message,
        refusal,
    }))
}

/// The facts about a kind in a version of a group, by minors.
fn entries<'a>(
    api_version: &'a str,
    kind: &'a str,
) -> impl Iterator<Item = &'static KindFact> + 'a {
    let all = FACTS.kinds.iter();
    all.filter(move |known| known.api_version == api_version && known.kind == kind)
}

/// The reason why a kind of a built-in group is not served by default. `None` if the kind is out of scope.
fn why_not_served(
    group: &str,
    api_version: &str,
    kind: &str,
    minors: Minors,
) -> Option<(ProblemKind, String)> {
    let now = served_versions(group, kind, minors);
    if entries(api_version, kind).any(|known| !known.minors.and(minors).is_empty()) {
        let message = format!(
            "kube-apiserver serves {kind} of {api_version} only with the argument `runtime-config={api_version}=true`{}",
            instead(&now, "; without it, write ")
        );
        return Some((ProblemKind::OffByDefault, message));
    }
    let same = |one: &&RemovedKind| one.api_version == api_version && one.kind == kind;
    if let Some(removed) = FACTS.removed.iter().find(same) {
        let now = match (now.is_empty(), removed.replacement) {
            (true, Some(replacement)) => vec![replacement],
            _ => now,
        };
        let message = format!(
            "{kind} of {api_version} is gone since 1.{}{}",
            removed.minor,
            match now.is_empty() {
                true => "; nothing replaces it".to_owned(),
                false => instead(&now, "; write "),
            }
        );
        return Some((ProblemKind::RemovedVersion, message));
    }
    if let Some(known) = entries(api_version, kind).next() {
        let (at, word) = (known.minors, minors.first());
        let message = match at.first() > word {
            true => format!(
                "Kubernetes serves {kind} of {api_version} from 1.{} on",
                at.first()
            ),
            false => format!(
                "Kubernetes serves {kind} of {api_version} up to 1.{}",
                at.last()
            ),
        };
        return Some((
            ProblemKind::RemovedVersion,
            message + &instead(&now, "; write "),
        ));
    }
    // A List without items and subresources (Scale, Eviction) are out of scope.
    if kind.ends_with("List") || matches!(kind, "Scale" | "Eviction" | "Status") {
        return None;
    }
    let message = unknown(group, api_version, kind, minors);
    Some((ProblemKind::UnknownKind, message))
}

fn unknown(group: &str, api_version: &str, kind: &str, minors: Minors) -> String {
    let head = format!("Kubernetes has no kind {kind} in {api_version}");
    let on = |known: &&KindFact| known.definition.is_some() && !known.minors.and(minors).is_empty();
    let all = || FACTS.kinds.iter().filter(on);
    let elsewhere: Vec<&str> = all()
        .filter(|known| known.kind == kind)
        .map(|known| known.api_version)
        .collect();
    if !elsewhere.is_empty() {
        return format!("{head}; {kind} is in {}", elsewhere.join(" and "));
    }
    let in_group = all().filter(|known| group_of(known.api_version) == group);
    let near = suggest::nearest(kind, in_group.map(|known| known.kind))
        .or_else(|| suggest::nearest(kind, all().map(|known| known.kind)));
    match near.and_then(|near| all().find(|known| known.kind == near)) {
        Some(known) if known.api_version == api_version => {
            format!("{head}; did you mean {}?", known.kind)
        }
        Some(known) => format!(
            "{head}; did you mean {} of {}?",
            known.kind, known.api_version
        ),
        None => head,
    }
}

fn served_versions(group: &str, kind: &str, minors: Minors) -> Vec<&'static str> {
    let serves = |known: &&KindFact| {
        known.kind == kind
            && group_of(known.api_version) == group
            && known.definition.is_some()
            && !known.minors.and(minors).is_empty()
    };
    let mut versions: Vec<&str> = FACTS
        .kinds
        .iter()
        .filter(serves)
        .map(|known| known.api_version)
        .collect();
    versions.reverse();
    versions.truncate(1);
    versions
}

fn instead(versions: &[&str], words: &str) -> String {
    match versions.first() {
        Some(version) => format!("{words}{version}"),
        None => String::new(),
    }
}
