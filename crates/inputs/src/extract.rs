//! Extracts manifests from the files that carry them to a node: a Harvester configuration, cloud-init user data, a yip
//! file, Ignition and Butane, a definition of Edge Image Builder.
//!
//! Problems inside are reported with the line of the *outer* file, as far as Windrow can determine it.

mod addons;
mod beside;
mod commands;
mod content;
mod extracted;
mod hidden;
mod ignition;
mod image_builder;
mod oem;
mod order;
mod owners;
mod problems;
mod put;
mod shell;
mod taker;
mod types;
mod unread;
mod write_time;

pub use addons::INSTALLER_ADDONS;
pub use beside::{FileBeside, FilesBeside, NothingBeside};
pub(crate) use commands::named;
pub use extracted::{Extracted, Extraction};
pub(crate) use problems::as_input_problem;
pub(crate) use shell::unclear;
pub use windrow_model::manifest::InnerLines;
pub(crate) use windrow_model::manifest::{OuterLines, inner_lines};

use std::collections::HashSet;

use self::problems::{key_not_read, not_looked_at};
use self::taker::Extractor;
pub use windrow_model::manifest::file_kind::field;
pub use windrow_model::manifest::file_kind::{FileKind, kind_of, recognise};
use windrow_model::manifest::yaml::{self, InputFile};
use windrow_model::manifest::{Node, NodeValue, Problem, ReadLimits, json, split};
use windrow_model::reasons::Code;

/// Extracts the manifests from a file. `source` is the file's name, for messages. A file of plain manifests gives an
/// empty result: it is a manifest itself.
pub fn extract(source: &str, text: &str, limits: &ReadLimits) -> Extraction {
    extract_beside(source, text, limits, &NothingBeside)
}

/// Like [`extract`], with access to the files next to it.
pub fn extract_beside(
    source: &str,
    text: &str,
    limits: &ReadLimits,
    beside: &dyn FilesBeside,
) -> Extraction {
    let mut extraction = take(source, text, limits, beside);
    order::settle(std::slice::from_mut(&mut extraction));
    extraction
}

/// Like [`extract`] for the parts of one file, each with its name and its text. The parts write together, so the last
/// writer of a path counts, in any part.
pub fn extract_parts<'t>(
    parts: impl Iterator<Item = (&'t str, &'t str)>,
    limits: &ReadLimits,
) -> Vec<Extraction> {
    let mut extractions: Vec<Extraction> = parts
        .map(|(source, text)| take(source, text, limits, &NothingBeside))
        .collect();
    order::settle(&mut extractions);
    extractions
}

/// The files that a text writes, in the order of the text.
fn take(source: &str, text: &str, limits: &ReadLimits, beside: &dyn FilesBeside) -> Extraction {
    let recognised = recognise(text);
    let kind = recognised.kind;
    let mut extraction = Extraction::new(kind);
    if kind == FileKind::Manifests {
        return extraction;
    }
    let whole = text;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (root, repeated, tags) = match input(kind, text, limits) {
        Ok(InputFile {
            root: Some(root),
            repeated,
            tags,
        }) => (root, repeated, tags),
        Ok(InputFile { root: None, .. }) => return extraction,
        Err(problems) => {
            extraction.problems = problems.into_iter().map(as_input_problem).collect();
            return extraction;
        }
    };
    extraction.problems = unread::keys(kind, text, &root);
    extraction
        .problems
        .extend(unread::beginning(kind, source, whole));
    extraction
        .problems
        .extend(unread::keys_of_another_kind(&recognised, &root));
    extraction.problems.extend(unread::repeated(kind, repeated));
    // cloud-init ignores a file with two documents, and the other readers use only the first document.
    if let Some(second) = split::split(text, 2).0.get(1) {
        extraction.problems.push(not_looked_at(
            second.line,
            "a second document begins here, and such a file has only one; remove the `---`",
        ));
    }
    extraction.problems.extend(unread::misshaped(kind, &root));
    if kind == FileKind::CloudInit {
        extraction.problems.extend(types::tags(&tags));
        extraction.problems.extend(owners::problems(&root));
    }
    extraction.problems.extend(hidden::problems(kind, &root));
    let mut taker = Extractor::new(source, text, limits, beside, &mut extraction);
    match kind {
        FileKind::Manifests => {}
        FileKind::HarvesterConfig => {
            taker.harvester(&root);
            extraction.problems.extend(oem::overfull(&root));
        }
        FileKind::CloudInit => taker.cloud_init(&root),
        FileKind::Yip => taker.yip(text, &root),
        FileKind::Ignition | FileKind::Butane => taker.ignition(&root),
        FileKind::ImageBuilder => taker.image_builder(&root),
    }
    let misfits = types::problems(kind, text, &root);
    add_new(&mut extraction.problems, misfits);
    extraction.problems.extend(types::modes(kind, &root));
    extraction
}

/// Adds the problems of lines that have none of the same code.
fn add_new(problems: &mut Vec<Problem>, others: Vec<Problem>) {
    let known: HashSet<(Code, Option<u32>)> = problems
        .iter()
        .map(|problem| (problem.code, problem.line))
        .collect();
    let is_new = |problem: &Problem| !known.contains(&(problem.code, problem.line));
    problems.extend(others.into_iter().filter(is_new));
}

/// The file's value, its repeated keys, and its tags.
fn input(kind: FileKind, text: &str, limits: &ReadLimits) -> Result<InputFile, Vec<Problem>> {
    match kind {
        FileKind::Ignition => match json::parse(text.trim_end(), 1, limits, 0) {
            Ok(root) => Ok(InputFile {
                root: Some(root),
                ..InputFile::default()
            }),
            Err(problem) => Err(vec![Problem {
                message: format!(
                    "Ignition reads JSON, and this is not valid JSON: {}",
                    problem.message
                ),
                ..problem
            }]),
        },
        _ => yaml::input(text, limits),
    }
}

#[cfg(test)]
mod ignition_tests;
#[cfg(test)]
mod image_builder_rules_tests;
#[cfg(test)]
mod image_builder_tests;
#[cfg(test)]
#[path = "extract_tests.rs"]
mod tests;
#[cfg(test)]
mod writers_tests;
