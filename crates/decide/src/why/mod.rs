//! Explains a file, an object, a probe, a finding, a step or any other word of an outlet from the status document. A
//! file is explained with its requirements and the files behind them, down to the roots.

mod answer;
mod files;
mod words;

use std::path::Path;

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::ManifestPath;
use windrow_model::suggest::nearest;

pub use self::answer::{
    ExplainedBlocker, ExplainedFile, ExplainedProbe, ExplainedStep, ExplainedWord, WhyAnswer,
};
use self::files::FilesOfAnswer;
pub use self::files::{APPLIED_UNREAD, until_applied, why_not_applied};
use crate::Status;

/// Added to an answer that is cut.
const LEFT_OUT: &str = "The answer would be too long: some dependencies are left out. Ask about one file \
                        at a time; the status document has all of them";

/// Explains everything that the document shows under a name; `None` if it shows nothing with that name. `manifests` is
/// the manifests directory: a file may be given by its absolute path.
pub fn explain(status: &Status, asked: &str, manifests: &Path) -> Option<WhyAnswer> {
    let asked = asked.trim();
    let mut files = files_named(status, asked, manifests);
    let probe = match files.is_empty() {
        true => explain_probe(status, asked),
        false => None,
    };
    let step = words::step(status, asked);
    let word = words::word(status, asked);
    let findings = findings_about(status, asked, &files);
    if files.is_empty() && probe.is_none() && step.is_none() && word.is_none() {
        files = files_about(status, asked);
    }
    let mut answer = FilesOfAnswer::new(status);
    let mut files = answer.explain_files(files.iter());
    let asked = files.len();
    answer.add_files_behind(&mut files);
    let named = probe.is_some() || step.is_some() || word.is_some();
    (named || !files.is_empty() || !findings.is_empty()).then_some(WhyAnswer {
        api_version: "windrow.dev/v1",
        kind: "Why",
        asked,
        files,
        probe,
        step,
        word,
        findings,
        left_out: answer.is_cut.then_some(LEFT_OUT),
    })
}

/// Explains a reason code from the table. Its meaning does not require the document of a node.
pub fn explain_code(asked: &str) -> Option<WhyAnswer> {
    Some(WhyAnswer {
        api_version: "windrow.dev/v1",
        kind: "Why",
        asked: 0,
        files: Vec::new(),
        probe: None,
        step: None,
        word: Some(words::code(asked.trim())?),
        findings: Vec::new(),
        left_out: None,
    })
}

/// These files with their own needs, without the files behind them. Files that do not fit are left out.
pub fn explain_needs<'f>(
    status: &Status,
    files: impl Iterator<Item = &'f ManifestPath>,
) -> Vec<ExplainedFile> {
    FilesOfAnswer::new(status).explain_files(files)
}

/// The line for a name that the document does not show, with a similar name, if there is one.
pub fn unknown_name(status: &Status, asked: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for file in &status.staging.held {
        names.extend(file.blockers.iter().map(|blocker| blocker.what.as_str()));
    }
    names.extend(status.probes.iter().map(|probe| probe.id.as_str()));
    for word in words::all() {
        names.push(word);
    }
    let meant = nearest_file(asked, staged(status))
        .or_else(|| nearest(asked, names.into_iter()).map(str::to_owned));
    let meant = meant.map_or(String::new(), |meant| format!(" Did you mean {meant}?"));
    format!("nothing on this node is called {asked}.{meant} `windrow status -v` lists every name")
}

/// The file that was most likely meant, by its path or its base name.
pub fn nearest_file<'f>(
    wrong: &str,
    files: impl Iterator<Item = &'f ManifestPath>,
) -> Option<String> {
    let names: Vec<String> = files
        .flat_map(|file| [file.to_string(), file.name().to_string()])
        .collect();
    nearest(wrong, names.iter().map(String::as_str)).map(str::to_owned)
}

pub fn staged(status: &Status) -> impl Iterator<Item = &ManifestPath> {
    let staging = &status.staging;
    let held = staging.held.iter().map(|file| &file.file);
    let not_held = staging.not_held.iter().map(|file| &file.file);
    let done = staging.released.iter().chain(&staging.applied);
    let failed = staging.failed.iter().map(|file| &file.file);
    let files = held.chain(not_held);
    files.chain(done.map(|file| &file.file)).chain(failed)
}

/// The probe with this name; `user/` may be left out for a probe of the configuration.
fn explain_probe(status: &Status, asked: &str) -> Option<ExplainedProbe> {
    let asked = asked.strip_prefix("probe ").unwrap_or(asked);
    let named = |name: &str| status.probes.iter().find(|probe| probe.id.as_str() == name);
    let probe = named(asked).or_else(|| named(&format!("user/{asked}")))?;
    Some(ExplainedProbe {
        probe: probe.clone(),
        advice: probe.code.map(|code| code.reason().advice),
    })
}

/// Findings with this code, from this rule, at one of these files, or about the object.
fn findings_about(status: &Status, asked: &str, files: &[ManifestPath]) -> Vec<Finding> {
    let is_about = |finding: &&Finding| {
        let here = |at: &Location| files.iter().any(|file| file.as_str() == at.file);
        finding.code.as_str() == asked
            || finding.at.iter().any(here)
            || finding.incident.as_ref().is_some_and(|incident| {
                incident.rule.as_deref() == Some(asked)
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

/// The files with this name. A whole path means only that file, even if others have its base name.
pub fn files_named(status: &Status, asked: &str, manifests: &Path) -> Vec<ManifestPath> {
    let exact: Vec<ManifestPath> = staged(status)
        .filter(|file| **file == asked)
        .cloned()
        .collect();
    if asked.contains('/') && !exact.is_empty() {
        return exact;
    }
    staged(status)
        .filter(|file| names_file(asked, file, manifests))
        .cloned()
        .collect()
}

/// Held files that contain the object, or wait for it.
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

/// Does the user's input mean this object (`Kind namespace/name`, perhaps with more text after it)?
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

/// Does the user's input mean this file? Its path, its base name, and its absolute path do.
pub fn names_file(typed: &str, file: &ManifestPath, manifests: &Path) -> bool {
    *file == typed
        || file.name() == typed
        || Path::new(typed).strip_prefix(manifests) == Ok(Path::new(file.as_str()))
}

#[cfg(test)]
mod tests;
