//! A file that is written whole, with content that was found somewhere: put where its reader finds it.

use super::taker::Extractor;
use super::{Extracted, InnerLines, Problem};
use crate::manifest::manifest_path::{ManifestPlace, configuration, manifest_place};

/// Where a file is written, and which lines say so.
pub(super) struct WrittenTo<'n> {
    /// The path on the node.
    pub(super) path: &'n str,
    /// The line of the path.
    pub(super) path_line: u32,
    /// The line in which the file begins.
    pub(super) line: u32,
    /// The line that says that it is put behind what the file has by then, if one does.
    pub(super) appends: Option<u32>,
}

/// The content of a file, and where its lines stand.
pub(super) struct FoundContent {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: InnerLines,
    /// The file that it stands in, where that is not the configuration itself.
    pub(super) source: Option<String>,
}

/// There is no content.
pub(super) enum ContentError {
    /// What is written is wrong.
    Wrong { line: u32, message: String },
    /// What it will be is not known.
    Unknown(Problem),
}

impl Extractor<'_> {
    /// One file. Its content is looked for only where it matters.
    pub(super) fn put(
        &mut self,
        to: &WrittenTo<'_>,
        content: impl FnOnce(&mut Self) -> Result<FoundContent, ContentError>,
    ) {
        self.extraction.written += 1;
        match manifest_place(to.path) {
            Err(why) => self.problem(to.path_line, why),
            Ok(ManifestPlace::NextTo(why)) => self.is_not_read(to.path_line, to.path, &why),
            Ok(ManifestPlace::Below { data_dir, path }) => match content(self) {
                Ok(found) => {
                    let file = self.found(to, path, found);
                    self.keep_manifest(to.line, Extracted { data_dir, ..file });
                }
                Err(ContentError::Wrong { line, message }) => self.problem(line, message),
                Err(ContentError::Unknown(problem)) => self.extraction.problems.push(problem),
            },
            Ok(ManifestPlace::Elsewhere) => match configuration(to.path) {
                Some(path) => match content(self) {
                    Ok(found) => {
                        let file = self.found(to, path, found);
                        self.keep_configuration(to.line, file);
                    }
                    Err(ContentError::Wrong { line, message }) => {
                        self.configuration_problem(line, message);
                    }
                    Err(ContentError::Unknown(problem)) => {
                        self.extraction.configuration_problems.push(problem);
                    }
                },
                None if self.has_looked_enough() => {}
                None => {
                    if let Ok(found) = content(self) {
                        self.look_into(to.line, &found.bytes, found.lines, to.path);
                    }
                }
            },
        }
    }

    /// A file as it is taken out.
    pub(super) fn found(&self, to: &WrittenTo<'_>, path: String, found: FoundContent) -> Extracted {
        let carrier = self.source.to_owned();
        Extracted {
            path,
            data_dir: String::new(),
            written_at: to.path_line,
            source: found.source.unwrap_or_else(|| carrier.clone()),
            carrier,
            content: found.bytes,
            lines: found.lines,
            late: self.late.clone(),
            moment: self.moment,
            appends: to.appends,
        }
    }
}
