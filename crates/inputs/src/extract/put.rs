//! Puts a whole file, with content from any source, into the place where its reader looks.

use super::taker::Extractor;
use super::{Extracted, InnerLines, Problem};
use crate::manifest_path::{ManifestPlace, configuration, manifest_place};

/// The path of a file, and its lines.
pub(super) struct WrittenTo<'n> {
    pub(super) path: &'n str,
    pub(super) path_line: u32,
    pub(super) line: u32,
    /// The line that makes this content an addition to the end of the file, if there is one.
    pub(super) appends: Option<u32>,
}

pub(super) struct FoundContent {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: InnerLines,
    /// The file that contains it, if that is not the configuration itself.
    pub(super) source: Option<String>,
}

/// Why there is no content.
pub(super) enum ContentError {
    /// The content is invalid.
    Wrong { line: u32, message: String },
    /// The content cannot be determined.
    Unknown(Problem),
}

impl Extractor<'_> {
    /// One file. Its content is read only if the path matters.
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
