//! Why a file, an object, a probe, a finding, a step or any other word of an outlet is as it is: the chain from it down
//! to the root blocker, read from the status document. Pure; `windrow why` and D-Bus only show it.

mod words;

use std::collections::BTreeSet;
use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;
use windrow_decide::{Blocker, HeldFile, Holder, Phase, PhaseState, ProbeStatus, Status};
use windrow_model::findings::Finding;
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;
use windrow_model::suggest::nearest;

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
    /// The step of the bootstrap asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<ExplainedStep>,
    /// What the word asked about means: a reason code, a readiness, the state of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<ExplainedWord>,
    /// What was found of the code, the object or the file asked about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// What is not in this answer because it would be too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<&'static str>,
}

/// A step of the bootstrap, and the checks that it waits for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedStep {
    /// Which.
    pub name: Phase,
    /// Where it stands; absent where this node has no such step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PhaseState>,
    /// Its checks that do not pass.
    pub probes: Vec<ProbeStatus>,
}

/// A word that an outlet shows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedWord {
    /// The word.
    pub word: String,
    /// What it says.
    pub means: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
    /// Where this node shows it now, a line each; absent where no document of a node says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Vec<String>>,
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
    /// The file that brings it is explained elsewhere in this answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub explained_elsewhere: bool,
    /// The file that brings it is not explained: the chain is too deep here. Ask about that file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_explained: bool,
}

/// Most files and needs of one answer, and most bytes of their texts. Every user may ask.
const MOST_ENTRIES: usize = 1_000;
const MOST_BYTES: usize = 256 << 10;
/// Most files below one another. Readers of JSON end at a depth of 128, and each file takes three levels.
const MOST_DEPTH: usize = 24;
/// Said where an answer is cut.
const LEFT_OUT: &str = "The answer would be too long: some of what is waited for is left out. Ask about one file at a time; \
                        the status document has everything";

/// Explains whatever the document shows under a name; `None` when it shows nothing of that name. `manifests` is the
/// manifests directory: a file may be named by its absolute path.
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
    let mut chain = Chain::new(status, MOST_DEPTH);
    let files = chain.explain_files(files.iter());
    let named = probe.is_some() || step.is_some() || word.is_some();
    (named || !files.is_empty() || !findings.is_empty()).then_some(WhyAnswer {
        api_version: "windrow.dev/v1",
        kind: "Why",
        files,
        probe,
        step,
        word,
        findings,
        left_out: chain.is_cut.then_some(LEFT_OUT),
    })
}

/// Explains a reason code from the table alone: no document of a node is needed for what it means.
pub fn explain_code(asked: &str) -> Option<WhyAnswer> {
    Some(WhyAnswer {
        api_version: "windrow.dev/v1",
        kind: "Why",
        files: Vec::new(),
        probe: None,
        step: None,
        word: Some(words::code(asked.trim())?),
        findings: Vec::new(),
        left_out: None,
    })
}

/// Each of these files and its own needs, without the files behind them. Those for which there is no room are left out.
pub(crate) fn explain_needs<'f>(
    status: &Status,
    files: impl Iterator<Item = &'f ManifestPath>,
) -> Vec<ExplainedFile> {
    Chain::new(status, 1).explain_files(files)
}

/// The line for a name that the document does not show, with the one that was meant, if one is near.
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
pub(crate) fn nearest_file<'f>(
    wrong: &str,
    files: impl Iterator<Item = &'f ManifestPath>,
) -> Option<String> {
    let names: Vec<String> = files
        .flat_map(|file| [file.to_string(), file.name().to_string()])
        .collect();
    nearest(wrong, names.iter().map(String::as_str)).map(str::to_owned)
}

/// Every file that is staged.
pub(crate) fn staged(status: &Status) -> impl Iterator<Item = &ManifestPath> {
    let staging = &status.staging;
    let held = staging.held.iter().map(|file| &file.file);
    let not_held = staging.not_held.iter().map(|file| &file.file);
    let done = staging.released.iter().chain(&staging.applied);
    let failed = staging.failed.iter().map(|file| &file.file);
    let files = held.chain(not_held);
    files.chain(done.map(|file| &file.file)).chain(failed)
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

/// Findings of this code, of this rule, at one of these files, or about the object.
fn findings_about(status: &Status, asked: &str, files: &[ManifestPath]) -> Vec<Finding> {
    let is_about = |finding: &&Finding| {
        let here = |at: &windrow_model::findings::Location| {
            files.iter().any(|file| file.as_str() == at.file)
        };
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

/// The files of this name. A whole path means that file alone, though others have its base name.
pub(crate) fn files_named(status: &Status, asked: &str, manifests: &Path) -> Vec<ManifestPath> {
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

/// The files of one answer. Each is explained once, where it is first met: one that many others wait for would otherwise stand
/// below each of them, and all of it again with every file more.
struct Chain<'s> {
    status: &'s Status,
    /// Most files below one another.
    most_depth: usize,
    /// Those above the one that is being explained.
    above: Vec<ManifestPath>,
    explained: BTreeSet<ManifestPath>,
    entries: usize,
    bytes: usize,
    is_cut: bool,
}

impl<'s> Chain<'s> {
    fn new(status: &'s Status, most_depth: usize) -> Self {
        Self {
            status,
            most_depth,
            above: Vec::new(),
            explained: BTreeSet::new(),
            entries: 0,
            bytes: 0,
            is_cut: false,
        }
    }

    /// Is there room for one entry more? Without it the answer is cut.
    fn has_room(&mut self) -> bool {
        let room = self.entries < MOST_ENTRIES && self.bytes < MOST_BYTES;
        self.is_cut |= !room;
        room
    }

    /// An entry, whose texts have this length in bytes.
    fn count(&mut self, bytes: usize) {
        self.entries += 1;
        self.bytes += bytes;
    }

    /// Those for which there is room.
    fn explain_files<'f>(
        &mut self,
        files: impl Iterator<Item = &'f ManifestPath>,
    ) -> Vec<ExplainedFile> {
        let mut explained = Vec::new();
        for file in files {
            if !self.has_room() {
                break;
            }
            explained.extend(self.explain_file(file));
        }
        explained
    }

    /// `None` where no such file is staged.
    fn explain_file(&mut self, file: &ManifestPath) -> Option<ExplainedFile> {
        let staging = &self.status.staging;
        if let Some(held) = staging.held.iter().find(|one| one.file == *file) {
            return Some(self.explain_held_file(held));
        }
        let (state, since, why) = state_of(self.status, file)?;
        self.count(file.as_str().len() + why.len());
        if state != "applied" {
            self.explained.insert(file.clone());
        }
        Some(ExplainedFile {
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
        })
    }

    fn explain_held_file(&mut self, held: &HeldFile) -> ExplainedFile {
        self.count(held.file.as_str().len() + held.why.len());
        self.explained.insert(held.file.clone());
        self.above.push(held.file.clone());
        let mut waits_for = Vec::new();
        for blocker in &held.blockers {
            if !self.has_room() {
                break;
            }
            waits_for.push(self.explain_blocker(blocker));
        }
        self.above.pop();
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

    fn explain_blocker(&mut self, blocker: &Blocker) -> ExplainedBlocker {
        let Blocker {
            what,
            condition,
            message,
            required_by,
            origin,
            brought_by,
            usual,
            tier: _,
        } = blocker;
        let texts = [what, condition, message, required_by, &origin.rule];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        self.count(texts + origin.at.file.len() + usual.as_ref().map_or(0, String::len));
        let mut link = ExplainedBlocker {
            blocker: blocker.clone(),
            root: false,
            because: None,
            cycle: false,
            explained_elsewhere: false,
            not_explained: false,
        };
        match brought_by {
            Some(file) if self.above.contains(file) => link.cycle = true,
            Some(file) if self.explained.contains(file) => link.explained_elsewhere = true,
            Some(file) if !waits(self.status, file) => link.root = true,
            Some(_) if self.above.len() >= self.most_depth => link.not_explained = true,
            Some(file) => link.because = self.explain_file(file).map(Box::new),
            None => link.root = true,
        }
        link
    }
}

/// Is there something to say of a file that brings something: is it staged and not applied?
fn waits(status: &Status, file: &ManifestPath) -> bool {
    let staging = &status.staging;
    staging.held.iter().any(|one| one.file == *file)
        || state_of(status, file).is_some_and(|(state, ..)| state != "applied")
}

/// The state of a file that is not held, since when, and why.
fn state_of(status: &Status, file: &ManifestPath) -> Option<(&'static str, Timestamp, String)> {
    let staging = &status.staging;
    if let Some(file) = staging.not_held.iter().find(|one| one.file == *file) {
        let why = format!(
            "{} It should wait: {}",
            sentence(&Code::NotHeld.say(&[("error", &file.error)])),
            file.why
        );
        return Some(("not held", file.since, why));
    }
    if let Some(failed) = staging.failed.iter().find(|one| one.file == *file) {
        let why = format!("RKE2 cannot apply it: {}", failed.message);
        return Some(("failed", failed.since, why));
    }
    if let Some(one) = staging.released.iter().find(|one| one.file == *file) {
        return Some(("released", one.since, until_applied(status).to_owned()));
    }
    let one = staging.applied.iter().find(|one| one.file == *file)?;
    let why = "RKE2 has applied it".to_owned();
    Some(("applied", one.since, why))
}

/// What a released file waits for.
pub(crate) fn until_applied(status: &Status) -> &'static str {
    if !status.role.applies_manifests() {
        return "RKE2 reads no manifests on a node of this role";
    }
    match api_answers(status) {
        Some(true) => "RKE2 applies it at its next pass, within 15 s",
        Some(false) => "RKE2 applies it once kube-apiserver answers",
        None => "RKE2 applies it at its next pass",
    }
}

/// Does kube-apiserver answer, as far as the document says? `None` where it does not say.
fn api_answers(status: &Status) -> Option<bool> {
    let unreachable = [Code::ApiUnreachable, Code::CredentialRefused];
    if status.phase == Phase::WaitingForApi || unreachable.contains(&status.reason.code) {
        return Some(false);
    }
    let mut steps = status.phases.iter();
    match steps.find(|step| step.name == Phase::Api) {
        // Before the role of the node is known, none of its checks counts.
        Some(step) => (step.total > 0).then_some(step.state == PhaseState::Done),
        // Without probes only staging says so.
        None => Some(true),
    }
}

/// A line as a sentence of its own.
fn sentence(line: &str) -> String {
    let mut letters = line.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// Does a person's input mean this file? Its path, its base name, and its absolute path do.
pub fn names_file(typed: &str, file: &ManifestPath, manifests: &Path) -> bool {
    *file == typed
        || file.name() == typed
        || Path::new(typed).strip_prefix(manifests) == Ok(Path::new(file.as_str()))
}

#[cfg(test)]
mod tests;
