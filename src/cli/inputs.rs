//! The inputs of a verb: directories, manifests, and configurations that carry manifests, in any mix.

mod beside;
mod carried;
mod destinations;
mod facts;
mod gathered;
mod markers;
mod own;
mod own_kind;
mod rke2_config;
mod rke2_directory;
mod sources;
mod versions;

use std::path::{Path, PathBuf};

use jiff::Timestamp;

pub(super) use beside::definition_in;
pub(super) use carried::{extract_file, say_how_read, say_notes};
pub(super) use destinations::rke2_files;
pub(super) use facts::{disabled, ranges};
use gathered::own_manifest;
pub(super) use gathered::{Input, Inputs};
pub(super) use markers::{ForeignMarker, skipped_by};
pub(super) use own::{
    RulesOfNode, carried_configuration, own_configuration, rule_files, rules, rules_of_node,
    unread_configuration,
};
pub(super) use own_kind::{OwnKind, has_objects, own_kind};
pub(super) use rke2_directory::{REGISTRIES, judge_directory};
pub(super) use sources::{
    STANDARD_INPUT, is_standard_input, name_of, other_configurations, standard_input, text_of,
};
pub(super) use versions::{NamedVersions, Versions, platform};

use windrow_model::manifest::{FileContent, MARKER_SUFFIX, ReadLimits, is_manifest_name};

use super::Context;
use super::document::now;
use crate::fs;
use crate::observe::scan::{FileStamps, ScanResult, ScannedContent, scan};

pub(super) fn node(context: &Context, limits: &ReadLimits) -> Inputs {
    let manifests = context.manifests();
    let mut inputs = Inputs::default();
    if fs::exists(&manifests) {
        directory(&mut inputs, &manifests, limits, now());
    } else {
        inputs.errors.push(format!(
            "{} does not exist: this host is not an RKE2 server, or RKE2 has not been started yet; pass the \
             files to plan: windrow plan PATH…",
            manifests.display()
        ));
    }
    inputs
}

pub(super) fn gather(paths: &[PathBuf], limits: &ReadLimits) -> Inputs {
    let mut inputs = Inputs::default();
    for path in paths {
        if is_standard_input(path) {
            match standard_input(limits.file_bytes) {
                Ok(bytes) => {
                    let shown = STANDARD_INPUT.to_owned();
                    carried::text(&mut inputs, "stdin.yaml", shown, bytes, limits);
                }
                Err(error) => inputs.errors.push(error),
            }
        } else if fs::is_dir(path) {
            let before = inputs.looked_at();
            match definition_in(path) {
                Ok(Some(definition)) => one_file(&mut inputs, &definition, limits),
                Ok(None) => named_directory(&mut inputs, path, limits),
                Err(error) => inputs.errors.push(error),
            }
            if before == inputs.looked_at() {
                inputs.errors.push(nothing_in(path));
            }
        } else {
            one_file(&mut inputs, path, limits);
        }
    }
    destinations::leave_out_unread(&mut inputs);
    twice(&mut inputs);
    inputs
}

pub(super) fn nothing_in(path: &Path) -> String {
    format!(
        "{}: no manifests in this directory (names that end in .yaml, .yml or .json and do not begin with a dot): nothing \
         was checked",
        path.display()
    )
}

fn directory(inputs: &mut Inputs, path: &Path, limits: &ReadLimits, now: Timestamp) {
    for (file, shown, content) in manifests_in(inputs, path, limits, now) {
        own_manifest(inputs, &file, shown, content, limits);
    }
}

/// A directory among the inputs: configurations may lie in it, too.
fn named_directory(inputs: &mut Inputs, path: &Path, limits: &ReadLimits) {
    for (file, shown, content) in manifests_in(inputs, path, limits, now()) {
        match content {
            FileContent::Bytes(bytes) => carried::text(inputs, &file, shown, bytes, limits),
            content => own_manifest(inputs, &file, shown, content, limits),
        }
    }
    let is_read = |name: &str| is_manifest_name(name) || name.ends_with(MARKER_SUFFIX);
    for (path, bytes) in other_configurations(path, is_read) {
        let shown = name_of(&path);
        carried::text(inputs, &shown, shown.clone(), bytes, limits);
    }
}

/// The manifest files of a directory: the path below it, the name in messages and the content.
fn manifests_in(
    inputs: &mut Inputs,
    path: &Path,
    limits: &ReadLimits,
    now: Timestamp,
) -> Vec<(String, String, FileContent)> {
    match scan(path, limits, &FileStamps::new(), now) {
        ScanResult::Found(found) => {
            let markers = found.markers.into_iter();
            inputs
                .markers
                .extend(markers.filter_map(ForeignMarker::from_entry));
            let files = found.files.into_iter();
            let read = files.filter_map(|file| match file.state {
                ScannedContent::Read(content) => {
                    let shown = name_of(&path.join(file.path.as_str()));
                    Some((file.path.to_string(), shown, content))
                }
                // Nothing was scanned before, so nothing is unchanged.
                _ => None,
            });
            return read.collect();
        }
        ScanResult::Missing => inputs
            .errors
            .push(format!("{}: no such directory", path.display())),
        ScanResult::Unreadable { error } => inputs
            .errors
            .push(format!("{}: cannot be read: {error}", path.display())),
    }
    Vec::new()
}

fn one_file(inputs: &mut Inputs, path: &Path, limits: &ReadLimits) {
    let shown = name_of(path);
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        inputs
            .errors
            .push(format!("{shown}: not a usable file name"));
        return;
    };
    // It matched a pattern like `manifests/*`, or is next to an input.
    if name.ends_with(MARKER_SUFFIX) {
        inputs.markers.extend(ForeignMarker::at(path));
        return;
    }
    let beside = path.with_file_name(format!("{name}{MARKER_SUFFIX}"));
    inputs.markers.extend(ForeignMarker::at(&beside));
    match fs::metadata(path) {
        // Opening a FIFO or a device could block forever.
        Ok(metadata) if !metadata.is_file() => {
            inputs.errors.push(format!("{shown}: not a regular file"));
        }
        Ok(metadata) if metadata.len() > limits.file_bytes => {
            let content = FileContent::TooLarge {
                size: metadata.len(),
            };
            own_manifest(inputs, name, shown, content, limits);
        }
        Ok(_) => match fs::read(path) {
            Ok(bytes) => carried::text(inputs, name, shown, bytes, limits),
            Err(error) => inputs
                .errors
                .push(format!("{shown}: cannot be read: {error}")),
        },
        Err(error) => inputs
            .errors
            .push(format!("{shown}: cannot be read: {error}")),
    }
}

/// Two inputs that would be the same file on the node.
fn twice(inputs: &mut Inputs) {
    let mut sorted: Vec<(&str, &str)> = inputs
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.shown.file.as_str()))
        .collect();
    sorted.sort_unstable();
    let errors: Vec<String> = sorted
        .windows(2)
        .filter(|pair| pair[0].0 == pair[1].0)
        .map(|pair| {
            format!(
                "{} and {} would both be {} on the node; plan them one at a time, or rename one",
                pair[0].1, pair[1].1, pair[0].0
            )
        })
        .collect();
    inputs.errors.extend(errors);
}
