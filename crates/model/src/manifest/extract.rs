//! Manifests out of the files that bring them to a node: a Harvester configuration, cloud-init user
//! data, a yip file.
//!
//! Problems inside are reported with the line of the *outer* file, as far as it is known.

mod commands;
mod content;
mod extracted;
mod lines;
mod order;
mod problems;
mod taker;
mod unread;
mod write_time;

pub(in crate::manifest) use commands::named;
pub use extracted::{Extracted, Extraction};
pub use lines::InnerLines;
pub(in crate::manifest) use lines::{OuterLines, inner_lines};
pub(in crate::manifest) use problems::as_input_problem;

use self::problems::{key_not_read, not_looked_at};
use self::taker::Extractor;
pub use super::file_kind::field;
pub use super::file_kind::{FileKind, kind_of, recognise};
use super::{Node, NodeValue, Problem, ReadLimits, split, yaml};

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

#[cfg(test)]
#[path = "extract_tests.rs"]
mod tests;
#[cfg(test)]
mod writers_tests;
