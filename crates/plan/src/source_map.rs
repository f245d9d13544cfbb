//! Where a person finds the lines of a manifest.

use windrow_model::findings::Location;

/// Where the lines of a file are to be found by a person: in the file itself, or in the
/// configuration that carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceMap {
    /// The file to open.
    pub file: String,
    /// The line there of the manifest's first line; 1 when the manifest is that file.
    pub first_line: u32,
    /// Do the manifest's lines stand there one below the other? Not for quoted or encoded content:
    /// every line is then shown as the first.
    pub line_by_line: bool,
}

impl SourceMap {
    /// A manifest that is a file of its own.
    pub fn itself(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            first_line: 1,
            line_by_line: true,
        }
    }

    /// Where a line of the manifest stands.
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
