//! The format in which a verb prints its document: for users, or for programs.

use clap::ValueEnum as _;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use crate::printable::{json_pretty, yaml};

/// A format. Each verb has a list of those that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    #[value(alias = "text")]
    Table,
    Json,
    Yaml,
    Dot,
    Mermaid,
    /// A picture
    Svg,
    /// For code hosts that show findings next to the source
    Sarif,
    /// For CI systems that show test reports
    Junit,
    /// Annotations of GitHub Actions
    Github,
    /// A single page for your browser
    Html,
}

impl Output {
    pub(super) const DOCUMENT: &[Self] = &[Self::Table, Self::Json, Self::Yaml];

    /// Takes one of these from the command line.
    pub(super) fn one_of(formats: &'static [Self]) -> impl TypedValueParser<Value = Self> {
        let names = formats.iter().filter_map(Self::to_possible_value);
        PossibleValuesParser::new(names).try_map(|name| Self::from_str(&name, false))
    }

    /// The document as JSON or YAML. For every other format, `table` makes the text.
    pub(super) fn render<T: Serialize>(
        self,
        document: &T,
        table: impl FnOnce() -> String,
    ) -> anyhow::Result<String> {
        match self {
            Self::Json => Ok(json_pretty(document)? + "\n"),
            Self::Yaml => yaml(document),
            _ => Ok(table()),
        }
    }
}
