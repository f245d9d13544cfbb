//! Why a file, an object, a probe or an incident is as it is: the chain from it down to the root blocker, read from the
//! status document. Pure; `windrow why` and D-Bus only show it.

use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;
use windrow_decide::{Blocker, HeldFile, Holder, ProbeStatus, Status};
use windrow_model::findings::Finding;
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

/// The answer, as `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyAnswer {
    /// `windrow.dev/v1`
    pub api_version: &'static str,
    /// `Why`
    pub kind: &'static str,
    /// The files asked about; several when an object is needed by several.
    pub files: Vec<ExplainedFile>,
    /// The probe asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<ExplainedProbe>,
    /// Known incidents of the code or of the object asked about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// One probe, and what to do about it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedProbe {
    /// The probe, as it counts now.
    #[serde(flatten)]
    pub probe: ProbeStatus,
    /// What to do about its reason; absent when it passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
}

/// One file and why it is as it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedFile {
    /// Path below the manifests directory.
    pub file: ManifestPath,
    /// `held`, `not held`, `released`, `applied` or `failed`.
    pub state: &'static str,
    /// Since when.
    pub since: Timestamp,
    /// Why, in a line.
    pub why: String,
    /// Who holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Holder>,
    /// Is it past its deadline and kept on purpose?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    /// When it will be released even if nothing changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// What it is still waiting for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<ExplainedBlocker>,
    /// The path under which it would not have been held, in the image of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_spares_hold: Option<ManifestPath>,
    /// Why no other name would have spared the hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_name_spares_hold: Option<String>,
    /// How to release it by hand; absent when there is nothing to release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
}

/// One blocker, and what blocks that one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedBlocker {
    /// The need.
    #[serde(flatten)]
    pub blocker: Blocker,
    /// Is it a root? Then nothing that is staged has to come first.
    pub root: bool,
    /// The file that brings it, when that is held, released or failed itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<Box<ExplainedFile>>,
    /// It was explained further up: the chain comes back to itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cycle: bool,
}

/// Explains a file, an object, a probe or an incident; `None` when the document does not have it. `manifests` is the
/// manifests directory: a file may be named by its absolute path.
pub fn explain(status: &Status, asked: &str, manifests: &Path) -> Option<WhyAnswer> {
    let mut files = files_named(status, asked, manifests);
    let probe = match files.is_empty() {
        true => explain_probe(status, asked),
        false => None,
    };
    if files.is_empty() && probe.is_none() {
        files = files_about(status, asked);
    }
    let files: Vec<ExplainedFile> = files
        .iter()
        .filter_map(|file| explain_file(status, file, &mut Vec::new()))
        .collect();
    let findings = incidents_about(status, asked);
    let known = !files.is_empty() || probe.is_some() || !findings.is_empty();
    known.then_some(WhyAnswer {
        api_version: "windrow.dev/v1",
        kind: "Why",
        files,
        probe,
        findings,
    })
}

/// The probe of this name; one of the configuration also without `user/`.
fn explain_probe(status: &Status, asked: &str) -> Option<ExplainedProbe> {
    let asked = asked.strip_prefix("probe ").unwrap_or(asked);
    let named = |name: &str| status.probes.iter().find(|probe| probe.id.as_str() == name);
    let probe = named(asked).or_else(|| named(&format!("user/{asked}")))?;
    Some(ExplainedProbe {
        probe: probe.clone(),
        advice: probe.code.map(|code| code.reason().advice),
    })
}

/// Incidents of this code, or that are about the object or show it.
fn incidents_about(status: &Status, asked: &str) -> Vec<Finding> {
    let is_about = |finding: &&Finding| {
        finding.incident.as_ref().is_some_and(|incident| {
            finding.code.as_str() == asked
                || incident.rule.as_deref() == Some(asked)
                || is_object(asked, &incident.subject)
                || incident
                    .evidence
                    .iter()
                    .any(|seen| is_object(asked, &seen.object))
        })
    };
    let about = status.findings.iter().filter(is_about);
    about.cloned().collect()
}

fn files_named(status: &Status, asked: &str, manifests: &Path) -> Vec<ManifestPath> {
    let staging = &status.staging;
    let held = staging.held.iter().map(|file| &file.file);
    let rest = staging
        .released
        .iter()
        .chain(&staging.applied)
        .map(|file| &file.file);
    held.chain(staging.not_held.iter().map(|file| &file.file))
        .chain(rest)
        .chain(staging.failed.iter().map(|file| &file.file))
        .filter(|file| names_file(asked, file, manifests))
        .cloned()
        .collect()
}

/// Held files that have the object, or wait for it.
fn files_about(status: &Status, asked: &str) -> Vec<ManifestPath> {
    let held = &status.staging.held;
    let having = held.iter().filter(|file| {
        file.blockers
            .iter()
            .any(|blocker| is_object(asked, &blocker.required_by))
    });
    let mut files: Vec<ManifestPath> = having.map(|file| file.file.clone()).collect();
    if files.is_empty() {
        let needing = held
            .iter()
            .filter(|file| file.blockers.iter().any(|one| is_object(asked, &one.what)));
        files.extend(needing.map(|file| file.file.clone()));
    }
    files
}

/// Does a person's input mean this object (`Kind namespace/name`, perhaps with more behind it)?
fn is_object(asked: &str, object: &str) -> bool {
    let object = object.strip_prefix("the kind ").unwrap_or(object);
    let mut words = object.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let name = words
        .next()
        .unwrap_or_default()
        .trim_end_matches([',', ':']);
    let asked: Vec<&str> = asked
        .split([' ', '/'])
        .filter(|part| !part.is_empty())
        .collect();
    let parts: Vec<&str> = std::iter::once(kind)
        .chain(name.split('/'))
        .filter(|part| !part.is_empty())
        .collect();
    if let [one] = asked[..] {
        return parts.last() == Some(&one);
    }
    asked.len() == parts.len()
        && asked
            .iter()
            .zip(&parts)
            .enumerate()
            .all(|(position, (asked, part))| match position {
                0 => asked.eq_ignore_ascii_case(part),
                _ => asked == part,
            })
}

fn explain_file(
    status: &Status,
    file: &ManifestPath,
    above: &mut Vec<ManifestPath>,
) -> Option<ExplainedFile> {
    let staging = &status.staging;
    let plain = |state, since, why: String| ExplainedFile {
        file: file.clone(),
        state,
        since,
        why,
        by: None,
        overdue: false,
        deadline: None,
        waits_for: Vec::new(),
        name_spares_hold: None,
        no_name_spares_hold: None,
        release: None,
    };
    if let Some(held) = staging.held.iter().find(|one| one.file == *file) {
        return Some(explain_held_file(status, held, above));
    }
    if let Some(file) = staging.not_held.iter().find(|one| one.file == *file) {
        let why = format!(
            "{} It should wait: {}",
            sentence(&Code::NotHeld.say(&[("error", &file.error)])),
            file.why
        );
        return Some(plain("not held", file.since, why));
    }
    if let Some(failed) = staging.failed.iter().find(|one| one.file == *file) {
        let why = format!(
            "RKE2 cannot apply it: {}: {}",
            failed.reason, failed.message
        );
        return Some(plain("failed", failed.since, why));
    }
    if let Some(one) = staging.released.iter().find(|one| one.file == *file) {
        let why = "RKE2 applies it at its next pass, within some 15 s".to_owned();
        return Some(plain("released", one.since, why));
    }
    let one = staging.applied.iter().find(|one| one.file == *file)?;
    Some(plain(
        "applied",
        one.since,
        "RKE2 has applied it".to_owned(),
    ))
}

/// A line as a sentence of its own.
fn sentence(line: &str) -> String {
    let mut letters = line.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

fn explain_held_file(
    status: &Status,
    held: &HeldFile,
    above: &mut Vec<ManifestPath>,
) -> ExplainedFile {
    above.push(held.file.clone());
    let waits_for = held
        .blockers
        .iter()
        .map(|blocker| {
            let bringer = blocker.brought_by.as_ref();
            let cycle = bringer.is_some_and(|file| above.contains(file));
            let because = match bringer {
                Some(file) if !cycle => explain_file(status, file, above)
                    .filter(|one| one.state != "applied")
                    .map(Box::new),
                _ => None,
            };
            ExplainedBlocker {
                root: because.is_none() && !cycle,
                blocker: blocker.clone(),
                because,
                cycle,
            }
        })
        .collect();
    above.pop();
    let ours = held.by == Holder::Windrow;
    ExplainedFile {
        file: held.file.clone(),
        state: "held",
        since: held.since,
        why: held.why.to_string(),
        by: Some(held.by),
        overdue: held.overdue,
        deadline: held.deadline,
        waits_for,
        name_spares_hold: held.name_spares_hold.clone(),
        no_name_spares_hold: held.no_name_spares_hold.clone(),
        release: ours.then(|| format!("windrow release {}", held.file)),
    }
}

/// Does a person's input mean this file? Its path, its base name, and its absolute path do.
pub fn names_file(typed: &str, file: &ManifestPath, manifests: &Path) -> bool {
    *file == typed
        || file.name() == typed
        || Path::new(typed).strip_prefix(manifests) == Ok(Path::new(file.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_meant_by_its_path_its_name_and_its_absolute_path() {
        let manifests = Path::new("/m");
        assert!(names_file("a/b.yaml", &"a/b.yaml".into(), manifests));
        assert!(names_file("b.yaml", &"a/b.yaml".into(), manifests));
        assert!(names_file("/m/a/b.yaml", &"a/b.yaml".into(), manifests));
        assert!(!names_file("a", &"a/b.yaml".into(), manifests));
        assert!(!names_file(".yaml", &"a/b.yaml".into(), manifests));
        assert!(!names_file("/n/b.yaml", &"a/b.yaml".into(), manifests));
    }

    #[test]
    fn an_object_is_meant_in_every_way_that_people_write_it() {
        let object = "VirtualMachine shop/till, line 3";
        for asked in [
            "VirtualMachine/shop/till",
            "virtualmachine shop/till",
            "VirtualMachine shop till",
            "till",
        ] {
            assert!(is_object(asked, object), "{asked}");
        }
        for asked in [
            "shop",
            "VirtualMachine/till",
            "Secret/shop/till",
            "VirtualMachine/x/till",
        ] {
            assert!(!is_object(asked, object), "{asked}");
        }
        assert!(is_object(
            "VirtualMachine.kubevirt.io",
            "the kind VirtualMachine.kubevirt.io"
        ));
    }
}
