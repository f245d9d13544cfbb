//! The files and problems that were extracted from a file.

use windrow_model::manifest::file_kind::FileKind;
use windrow_model::manifest::{
    FileContent, ManifestFile, Node, NodeValue, Problem, ReadLimits, read,
};

use super::InnerLines;
use super::write_time::WriteTime;

/// The files that a configuration writes below a `server/manifests` directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Extraction {
    pub kind: FileKind,
    /// The files, in the order in which they are written, and only the last of several with one path. All names, not
    /// only manifests: a `.skip` marker counts too.
    pub files: Vec<Extracted>,
    /// Problems of the outer file.
    pub problems: Vec<Problem>,
    /// Files of RKE2's and Windrow's own configuration, each with its path on the node.
    pub configuration: Vec<Extracted>,
    /// Problems of those files. They do not prevent a manifest from being staged.
    pub configuration_problems: Vec<Problem>,
    /// The number of all files that it writes.
    pub written: usize,
    /// Notes for the user about how the file was read, each with its line.
    pub notes: Vec<(u32, String)>,
    /// RKE2's version, if the file has it.
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

    /// Whether it is a Harvester configuration, which tells the platform.
    pub fn is_harvester(&self) -> bool {
        self.kind == FileKind::HarvesterConfig
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// Path below the manifests directory, with `/`. For configuration, and for a manifest that another program than
    /// RKE2 applies, the whole path on the node.
    pub path: String,
    /// The data directory above the manifests directory; empty for configuration.
    pub data_dir: String,
    /// The line of the outer file that writes this file.
    pub written_at: u32,
    /// The outer file, under the name that the user gave.
    pub carrier: String,
    pub content: Vec<u8>,
    /// The file that contains its content, under the name that the user gave: the outer file, or one next to it.
    pub source: String,
    /// The lines of the content in that file.
    pub lines: InnerLines,
    /// What writes it after the system's units start; `None` if it exists before all of them.
    pub late: Option<String>,
    /// When it is written, relative to the other files.
    pub(super) moment: WriteTime,
    /// The line that makes this content an addition to the end of the file, if there is one.
    pub(super) appends: Option<u32>,
}

impl Extracted {
    /// A file of the node's configuration that the user gave as it is: `path` is its place on the node.
    pub fn given(path: String, shown: &str, content: Vec<u8>) -> Self {
        Self {
            path,
            data_dir: String::new(),
            written_at: 1,
            carrier: shown.to_owned(),
            content,
            source: shown.to_owned(),
            lines: InnerLines::Follow { first: 1 },
            late: None,
            moment: WriteTime::EARLY,
            appends: None,
        }
    }

    /// Reads it as RKE2 will read the file, with the lines of the outer file.
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
