//! In which format a verb prints its document: for people, or for programs.

use serde::Serialize;

use crate::printable::{json_pretty, yaml};

/// The format of a verb that has a document and a table of it. Verbs that can draw or write reports list their own, and
/// write JSON and YAML by the functions below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    #[value(alias = "text")]
    Table,
    Json,
    Yaml,
}

impl Output {
    /// The document in this format. `table` makes the one for people.
    pub(super) fn render<T: Serialize>(
        self,
        document: &T,
        table: impl FnOnce() -> String,
    ) -> anyhow::Result<String> {
        match self {
            Self::Table => Ok(table()),
            Self::Json => as_json(document),
            Self::Yaml => as_yaml(document),
        }
    }
}

/// A document as JSON.
pub(super) fn as_json<T: Serialize>(document: &T) -> anyhow::Result<String> {
    Ok(json_pretty(document)? + "\n")
}

/// A document as YAML: the same value.
pub(super) fn as_yaml<T: Serialize>(document: &T) -> anyhow::Result<String> {
    yaml(document)
}
