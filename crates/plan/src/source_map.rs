//! Maps lines of a manifest to those of the file that the user has.

use windrow_model::findings::Location;

/// Maps the lines of a manifest to the file that the user has: the manifest itself, or the configuration that carries
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceMap {
    pub file: String,
    /// The line in `file` of the manifest's first line; 1 when the manifest is that file.
    pub first_line: u32,
    /// Whether the manifest's lines follow one another in `file`. Not for quoted or encoded content: every line is then
    /// shown as the first.
    pub line_by_line: bool,
}

impl SourceMap {
    /// A manifest that is a separate file.
    pub fn itself(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            first_line: 1,
            line_by_line: true,
        }
    }

    /// The place of a line of the manifest.
    pub fn at(&self, line: Option<u32>) -> Location {
        match line {
            Some(line) if self.line_by_line => {
                Location::line(&self.file, self.first_line + line.saturating_sub(1))
            }
            None if self.first_line == 1 && self.line_by_line => Location::file(&self.file),
            _ => Location::line(&self.file, self.first_line),
        }
    }
}
