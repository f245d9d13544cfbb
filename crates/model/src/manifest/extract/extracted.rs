//! What was taken out of a file.

use super::lines::InnerLines;
use super::write_time::WriteTime;
use crate::manifest::file_kind::FileKind;
use crate::manifest::{FileContent, ManifestFile, Node, NodeValue, Problem, ReadLimits, read};

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
    /// What a person should know of how it was read, each a line with its place.
    pub notes: Vec<(u32, String)>,
    /// RKE2's version, where the file says it.
    pub rke2_version: Option<String>,
}

impl Extraction {
    pub(super) fn new(kind: FileKind) -> Self {
        Self {
            kind,
            files: Vec::new(),
            problems: Vec::new(),
            configuration: Vec::new(),
            configuration_problems: Vec::new(),
            written: 0,
            notes: Vec::new(),
            rke2_version: None,
        }
    }

    /// Is it a Harvester configuration, so that the platform is known?
    pub fn is_harvester(&self) -> bool {
        self.kind == FileKind::HarvesterConfig
    }
}

/// One file taken out of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// Path below the manifests directory, with `/`; of configuration, and of a manifest that something else than
    /// RKE2 applies, the whole path on the node.
    pub path: String,
    /// The data directory above the manifests directory that it is written to; empty for configuration.
    pub data_dir: String,
    /// The line of the outer file that says so.
    pub written_at: u32,
    /// The outer file, as it was named.
    pub carrier: String,
    /// Its bytes, decoded.
    pub content: Vec<u8>,
    /// The file in which its content stands, as it was named: the outer one, or one beside that.
    pub source: String,
    /// Where its lines stand there.
    pub lines: InnerLines,
    /// Who writes it once the system's units start, in words; `None` where it is there before any of
    /// them.
    pub late: Option<String>,
    /// When it is written, among the others.
    pub(super) moment: WriteTime,
    /// The line that says that it is put behind what the file has by then, if one does.
    pub(super) appends: Option<u32>,
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
