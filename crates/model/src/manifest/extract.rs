//! Manifests out of the files that bring them to a node: a Harvester configuration, cloud-init user
//! data, a yip file.
//!
//! What is wrong inside is told with the line of the *outer* file, as far as it is known.

mod commands;
mod content;
mod lines;
mod order;
mod taker;
mod unread;

pub(in crate::manifest) use commands::named;
pub use lines::InnerLines;
pub(in crate::manifest) use lines::{OuterLines, inner_lines};

use self::order::WriteTime;
use self::taker::Extractor;
pub use super::file_kind::field;
pub use super::file_kind::{FileKind, kind_of, recognise};
use super::{FileContent, ManifestFile, Node, NodeValue, Problem, ReadLimits, read, split, yaml};
use crate::reasons::Code;

/// What such a file writes below a `server/manifests` directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Extraction {
    /// What kind of file it is.
    pub kind: FileKind,
    /// The files, in the order in which they are written; of two with one path only the last. All
    /// names, not only manifests: a `.skip` marker counts too.
    pub files: Vec<Extracted>,
    /// What is wrong with the outer file.
    pub problems: Vec<Problem>,
    /// What it writes of RKE2's and Windrow's own configuration; each path as on the node.
    pub configuration: Vec<Extracted>,
    /// What is wrong with those. It keeps no manifest from being staged.
    pub configuration_problems: Vec<Problem>,
    /// How many files it writes at all.
    pub written: usize,
}

impl Extraction {
    /// Is it a Harvester configuration, so that the platform is known?
    pub fn is_harvester(&self) -> bool {
        self.kind == FileKind::HarvesterConfig
    }
}

/// One file taken out of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// Path below the manifests directory, with `/`; of configuration the whole path on the node.
    pub path: String,
    /// The data directory above the manifests directory that it is written to; empty for configuration.
    pub data_dir: String,
    /// The line of the outer file that says so.
    pub written_at: u32,
    /// Its bytes, decoded.
    pub content: Vec<u8>,
    /// The outer file, as it was named.
    pub source: String,
    /// Where its lines stand in the outer file.
    pub lines: InnerLines,
    /// Who writes it once the system's units start, in words; `None` where it is there before any of
    /// them.
    pub late: Option<String>,
    /// When it is written, among the others.
    moment: WriteTime,
    /// The line that says that it is put behind what the file has by then, if one does.
    appends: Option<u32>,
}

impl Extracted {
    /// Reads it as RKE2 will read the file, all lines being those of the outer file.
    pub fn read(&self, limits: &ReadLimits) -> ManifestFile {
        let content = FileContent::Bytes(self.content.clone());
        let mut file = read(&self.path, &content, limits);
        for problem in &mut file.problems {
            problem.line = problem.line.map(|line| self.lines.outer(line));
        }
        for document in &mut file.documents {
            document.line = self.lines.outer(document.line);
            for object in &mut document.objects {
                object.line = self.lines.outer(object.line);
                relocate(&mut object.node, self.lines);
            }
        }
        file
    }
}

fn relocate(node: &mut Node, lines: InnerLines) {
    node.line = lines.outer(node.line);
    match &mut node.value {
        NodeValue::Sequence(items) => items.iter_mut().for_each(|item| relocate(item, lines)),
        NodeValue::Mapping(entries) => {
            for entry in entries {
                entry.line = lines.outer(entry.line);
                relocate(&mut entry.value, lines);
            }
        }
        _ => {}
    }
}

/// Takes the manifests out of a file. `source` is the file's name, for messages. A file of plain
/// manifests brings none: it is one.
pub fn extract(source: &str, text: &str, limits: &ReadLimits) -> Extraction {
    let mut extraction = take(source, text, limits);
    order::settle(std::slice::from_mut(&mut extraction));
    extraction
}

/// The same for the parts of one file, each with its name and its text: they write together, so the last
/// writer of a path counts in whichever part it stands.
pub fn extract_parts<'t>(
    parts: impl Iterator<Item = (&'t str, &'t str)>,
    limits: &ReadLimits,
) -> Vec<Extraction> {
    let mut extractions: Vec<Extraction> = parts
        .map(|(source, text)| take(source, text, limits))
        .collect();
    order::settle(&mut extractions);
    extractions
}

/// What a text writes, in the order in which it stands there.
fn take(source: &str, text: &str, limits: &ReadLimits) -> Extraction {
    let recognised = recognise(text);
    let kind = recognised.kind;
    let mut extraction = Extraction {
        kind,
        files: Vec::new(),
        problems: Vec::new(),
        configuration: Vec::new(),
        configuration_problems: Vec::new(),
        written: 0,
    };
    if kind == FileKind::Manifests {
        return extraction;
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (root, repeated) = match yaml::input(text, limits) {
        Ok((Some(root), repeated)) => (root, repeated),
        Ok((None, _)) => return extraction,
        Err(problems) => {
            extraction.problems = problems.into_iter().map(as_input_problem).collect();
            return extraction;
        }
    };
    extraction.problems = unread::keys(kind, text, &root);
    extraction
        .problems
        .extend(unread::keys_of_another_kind(&recognised, &root));
    extraction.problems.extend(unread::repeated(kind, repeated));
    // cloud-init takes nothing of two documents, and the installer and yip the first alone.
    if let Some(second) = split::split(text, 2).0.get(1) {
        extraction.problems.push(not_looked_at(
            second.line,
            "a second document begins here, and such a file has one; take the `---` out",
        ));
    }
    extraction.problems.extend(unread::misshaped(kind, &root));
    let mut taker = Extractor::new(source, text, limits, kind, &mut extraction);
    match kind {
        FileKind::Manifests => {}
        FileKind::HarvesterConfig => taker.harvester(&root),
        FileKind::CloudInit => taker.cloud_init(&root),
        FileKind::Yip => taker.yip(text, &root),
    }
    extraction
}

/// A problem of the outer file, which is no manifest.
pub(in crate::manifest) fn as_input_problem(mut problem: Problem) -> Problem {
    if problem.code == Code::FileRefused {
        problem.code = Code::InputRefused;
    }
    problem
}

fn not_looked_at(line: u32, what: &str) -> Problem {
    Problem {
        code: Code::NotLookedAt,
        line: Some(line),
        message: Code::NotLookedAt.say(&[("what", what)]),
    }
}

fn key_not_read(key: &str, line: u32, why: &str) -> Problem {
    Problem {
        code: Code::KeyNotRead,
        line: Some(line),
        message: Code::KeyNotRead.say(&[("key", key), ("why", why)]),
    }
}

#[cfg(test)]
#[path = "extract_tests.rs"]
mod tests;
#[cfg(test)]
mod writers_tests;
