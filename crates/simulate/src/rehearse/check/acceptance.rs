//! Accepted findings with their reasons, from a file in the input or from an annotation of the object.
//!
//! An accepted finding stays visible but does not count. An entry that no longer accepts anything is a finding itself, because it
//! would hide another one later.

use std::path::Path;

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{ManifestFile, Node, yaml};
use windrow_model::reasons::{Code, REASONS};
use windrow_model::redact::quoted;
use windrow_model::suggest::nearest;
use windrow_plan::SourceMap;

use super::finding::{AcceptedBecause, CheckedFinding};

/// The annotation of an object that accepts findings about it: one per line, `CODE: REASON`.
pub const ANNOTATION: &str = "windrow.dev/accept";
/// The first lines of an acceptance file.
const HEAD: [(&str, &str); 2] = [
    ("apiVersion", "windrow.dev/v1"),
    ("kind", "AcceptedFindings"),
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acceptances {
    /// The entries in the order in which they are tried.
    pub entries: Vec<Acceptance>,
    /// The errors in the entries.
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// The accepted code; `None` for any.
    pub code: Option<Code>,
    pub place: AcceptedPlace,
    pub reason: String,
    pub at: Location,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcceptedPlace {
    Anywhere,
    /// In a file: its path, or the end of it.
    File(String),
    /// On an object, that is in these lines of a file.
    Lines {
        /// Name of the file in findings.
        file: String,
        /// First line of the object.
        first: u32,
        /// First line after the object.
        end: u32,
    },
}

impl Acceptances {
    /// Reads an acceptance file. `shown` is its name in messages.
    pub fn read(shown: &str, text: &str) -> Self {
        let mut read = Self::default();
        match yaml::parse_configuration(text) {
            Ok(Some(root)) => read.document(shown, &root),
            Ok(None) => read.wrong(Location::file(shown), "it is empty"),
            Err(problems) => {
                for problem in problems {
                    let line = problem.line;
                    let file = shown.to_owned();
                    read.wrong(Location { file, line }, &problem.message);
                }
            }
        }
        read
    }

    /// Adds the entries of another file.
    pub fn extend(&mut self, more: Self) {
        self.entries.extend(more.entries);
        self.findings.extend(more.findings);
    }

    fn document(&mut self, shown: &str, root: &Node) {
        let at = |line: u32| Location::line(shown, line);
        for (key, expected) in HEAD {
            if root.str_at(&[key]) != Some(expected) {
                let line = root.entry(key).map_or(root.line, |entry| entry.line);
                self.wrong(at(line), &format!("`{key}` has to be `{expected}`"));
            }
        }
        for entry in root.entries() {
            if !["apiVersion", "kind", "accept"].contains(&&*entry.key) {
                let key = quoted(&entry.key);
                let why =
                    format!("{key} is not a valid key; the keys are apiVersion, kind and accept");
                self.wrong(at(entry.line), &why);
            }
        }
        match root.get("accept") {
            Some(list) if !list.items().is_empty() || list.type_name() == "a list" => {
                for node in list.items() {
                    self.entry(shown, node);
                }
            }
            Some(other) => {
                let why = format!("`accept` is {}, expected a list", other.type_name());
                self.wrong(at(other.line), &why);
            }
            None => self.wrong(at(root.line), "`accept` is missing: a list of entries"),
        }
    }

    fn entry(&mut self, shown: &str, node: &Node) {
        let at = Location::line(shown, node.line);
        let before = self.findings.len();
        for entry in node.entries() {
            if !["code", "file", "reason"].contains(&&*entry.key) {
                let key = quoted(&entry.key);
                let why = format!("{key} is not a valid key; an entry has code, file and reason");
                self.wrong(Location::line(shown, entry.line), &why);
            }
        }
        let field = |key: &str| node.get(key).and_then(Node::as_str).map(str::trim);
        let code = field("code").and_then(|id| {
            let line = node.entry("code").map_or(node.line, |entry| entry.line);
            self.known_code(id, Location::line(shown, line))
        });
        let file = field("file").filter(|file| !file.is_empty());
        if field("code").is_none() && file.is_none() {
            self.wrong(at.clone(), "an entry needs a `code`, a `file`, or both");
        }
        let reason = field("reason").filter(|reason| !reason.is_empty());
        if reason.is_none() {
            self.wrong(at.clone(), "an entry needs a `reason`: it is shown");
        }
        if let Some(reason) = reason.filter(|_| self.findings.len() == before) {
            self.entries.push(Acceptance {
                code,
                place: file.map_or(AcceptedPlace::Anywhere, |file| {
                    AcceptedPlace::File(file.to_owned())
                }),
                reason: reason.to_owned(),
                at,
            });
        }
    }

    /// Adds the entries in annotations of a manifest.
    pub fn annotations(&mut self, manifest: &ManifestFile, shown: &SourceMap) {
        let objects: Vec<_> = manifest.objects().collect();
        for (number, object) in objects.iter().enumerate() {
            let Some((text, line)) = object.annotation(ANNOTATION) else {
                continue;
            };
            let at = shown.at(Some(line));
            let next = objects.get(number + 1);
            let behind = next.map_or(u32::MAX, |next| match shown.line_by_line {
                true => shown.at(Some(next.line)).line.unwrap_or(u32::MAX),
                false => u32::MAX,
            });
            let first = shown.at(Some(object.line)).line.unwrap_or(1);
            for one in text.lines().map(str::trim).filter(|one| !one.is_empty()) {
                let parts = one.split_once(':').map(|(id, why)| (id.trim(), why.trim()));
                let Some((id, reason)) = parts.filter(|(_, reason)| !reason.is_empty()) else {
                    let why = format!("{ANNOTATION} is one `CODE: REASON` a line");
                    self.wrong(at.clone(), &why);
                    continue;
                };
                if let Some(code) = self.known_code(id, at.clone()) {
                    self.entries.push(Acceptance {
                        code: Some(code),
                        place: AcceptedPlace::Lines {
                            file: shown.file.clone(),
                            first,
                            end: behind,
                        },
                        reason: reason.to_owned(),
                        at: at.clone(),
                    });
                }
            }
        }
    }

    fn known_code(&mut self, id: &str, at: Location) -> Option<Code> {
        let known = REASONS.iter().find(|reason| reason.id == id);
        if known.is_none() {
            let near = nearest(id, REASONS.iter().map(|reason| reason.id));
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            self.wrong(at, &format!("there is no code {}{near}", quoted(id)));
        }
        known.map(|reason| reason.code)
    }

    fn wrong(&mut self, at: Location, why: &str) {
        let code = Code::AcceptanceInvalid;
        self.findings.push(Finding {
            incident: None,
            code,
            severity: code.severity(),
            message: code.say(&[("why", why)]),
            at: vec![at],
        });
    }

    /// Marks accepted findings, and reports entries that accept nothing.
    pub(super) fn accept(&self, findings: &mut [CheckedFinding]) -> Vec<Finding> {
        let mut used = vec![false; self.entries.len()];
        for finding in findings.iter_mut() {
            // An entry cannot accept errors in the entries themselves.
            if finding.finding.code == Code::AcceptanceInvalid {
                continue;
            }
            let accepts = |entry: &Acceptance| entry.accepts(&finding.finding);
            if let Some(number) = self.entries.iter().position(accepts) {
                used[number] = true;
                let entry = &self.entries[number];
                finding.accepted = Some(AcceptedBecause {
                    reason: entry.reason.clone(),
                    at: entry.at.clone(),
                });
            }
        }
        let unused = self.entries.iter().zip(used).filter(|(_, used)| !used);
        unused.map(|(entry, _)| entry.stale()).collect()
    }
}

impl Acceptance {
    fn accepts(&self, finding: &Finding) -> bool {
        let here = |at: &Location| match &self.place {
            AcceptedPlace::Anywhere => true,
            AcceptedPlace::File(file) => Path::new(&at.file).ends_with(Path::new(file)),
            AcceptedPlace::Lines { file, first, end } => {
                let line = at.line.unwrap_or(*first);
                at.file == *file && (*first..*end).contains(&line)
            }
        };
        let place = self.place == AcceptedPlace::Anywhere || finding.at.iter().any(here);
        self.code.is_none_or(|code| code == finding.code) && place
    }

    fn stale(&self) -> Finding {
        let code = self.code.map_or("any code", |code| code.as_str());
        let what = match &self.place {
            AcceptedPlace::Anywhere => code.to_owned(),
            AcceptedPlace::File(file) => format!("{code} in {file}"),
            AcceptedPlace::Lines { .. } => format!("{code} on this object"),
        };
        let stale = Code::AcceptanceStale;
        Finding {
            incident: None,
            code: stale,
            severity: stale.severity(),
            message: stale.say(&[("what", &what)]),
            at: vec![self.at.clone()],
        }
    }
}
