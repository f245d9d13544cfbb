//! What a person gives a verb to look at: directories, manifests, and configurations that carry
//! manifests, in any mix.

mod carried;
mod destinations;
mod markers;
mod own;
mod sources;

use std::fs;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use windrow_model::findings::{Finding, Location};

pub(super) use carried::{say_if_ambiguous, say_notes};
pub(super) use destinations::rke2_files;
pub(super) use markers::{ForeignMarker, skipped_by};
pub(super) use own::{carried_configuration, rule_files, rules};
pub(super) use sources::{STANDARD_INPUT, is_standard_input, other_configurations, standard_input};

use windrow_model::manifest::extract::Extracted;
use windrow_model::manifest::{
    self, FileContent, MARKER_SUFFIX, ManifestFile, ManifestPath, ReadLimits, is_manifest_name,
};
use windrow_plan::SourceMap;

use super::Context;
use super::document::now;
use crate::observe::scan::{FileStamps, ScanResult, ScannedContent, scan};

/// What was gathered.
#[derive(Default)]
pub(super) struct Inputs {
    pub(super) files: Vec<Input>,
    /// Was a Harvester configuration among them?
    pub(super) harvester: bool,
    /// Does one preset a storage network?
    pub(super) preset: bool,
    /// What it is preset to.
    pub(super) storage_network: Option<String>,
    /// The configurations that carry manifests: how each is called, and its text.
    pub(super) carriers: Vec<(String, String)>,
    /// What they write of RKE2's and Windrow's own configuration.
    pub(super) configuration: Vec<Extracted>,
    /// Markers that keep files from RKE2 and that Windrow did not make.
    pub(super) markers: Vec<ForeignMarker>,
    /// Carriers that are parts of something else, by what they are called: they cannot be written as they are.
    pub(super) parts: Vec<String>,
    /// What is wrong with the configurations that carry manifests.
    pub(super) findings: Vec<Finding>,
    /// Everything that cannot be used, each with its file.
    pub(super) errors: Vec<String>,
}

/// All documents of a file may take so many times the memory of one.
const WHOLE_FILE: usize = 8;

/// One manifest file.
pub(super) struct Input {
    /// Its path.
    pub(super) path: ManifestPath,
    pub(super) content: FileContent,
    pub(super) shown: SourceMap,
    /// Who writes it late, if it is not there from the beginning.
    pub(super) late: Option<String>,
    /// Where it is written to, if a configuration says so.
    destination: Option<Destination>,
    pub(super) limits: ReadLimits,
}

/// Below which data directory a configuration writes a file, and where it says so.
struct Destination {
    data_dir: String,
    at: Location,
}

impl Inputs {
    /// How much there is that came of what was named.
    fn looked_at(&self) -> usize {
        self.files.len() + self.carriers.len() + self.findings.len() + self.errors.len()
    }
}

impl Input {
    /// The file, read whole. Its documents together may take more memory than one of them may: what is played in
    /// simulated time needs all of them.
    pub(super) fn manifest(&self) -> ManifestFile {
        let limits = ReadLimits {
            expanded_bytes: WHOLE_FILE * self.limits.expanded_bytes,
            ..self.limits.clone()
        };
        manifest::read(&self.path, &self.content, &limits)
    }
}

/// The node's own manifests directory.
pub(super) fn node(context: &Context, limits: &ReadLimits) -> Inputs {
    let manifests = context.manifests();
    let mut inputs = Inputs::default();
    if manifests.exists() {
        directory(&mut inputs, &manifests, limits, now());
    } else {
        inputs.errors.push(format!(
            "{} does not exist: this is no RKE2 server, or it has not been started yet; name what \
             to plan: windrow plan PATH…",
            manifests.display()
        ));
    }
    inputs
}

/// Everything that a person named.
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
        } else if path.is_dir() {
            let before = inputs.looked_at();
            named_directory(&mut inputs, path, limits);
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

/// What is said of a directory without manifests.
pub(super) fn nothing_in(path: &Path) -> String {
    format!(
        "{}: no manifests in this directory (names that end in .yaml, .yml or .json and do not begin with a dot): nothing \
         was looked at",
        path.display()
    )
}

/// A manifests directory, as RKE2 reads it.
fn directory(inputs: &mut Inputs, path: &Path, limits: &ReadLimits, now: Timestamp) {
    for (file, shown, content) in manifests_in(inputs, path, limits, now) {
        manifest(
            inputs,
            &file,
            content,
            SourceMap::itself(shown),
            None,
            limits,
        );
    }
}

/// A directory that a person named: configurations may lie in it, too.
fn named_directory(inputs: &mut Inputs, path: &Path, limits: &ReadLimits) {
    for (file, shown, content) in manifests_in(inputs, path, limits, now()) {
        match content {
            FileContent::Bytes(bytes) => carried::text(inputs, &file, shown, bytes, limits),
            content => manifest(
                inputs,
                &file,
                content,
                SourceMap::itself(shown),
                None,
                limits,
            ),
        }
    }
    let is_read = |name: &str| is_manifest_name(name) || name.ends_with(MARKER_SUFFIX);
    for (path, bytes) in other_configurations(path, is_read) {
        let shown = path.display().to_string();
        carried::text(inputs, &shown, shown.clone(), bytes, limits);
    }
}

/// The manifest files of a directory: the path below it, how each is called, and what it has.
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
                    let shown = path.join(file.path.as_str()).display().to_string();
                    Some((file.path.to_string(), shown, content))
                }
                // Nothing was seen before, so nothing is unchanged.
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
    let shown = path.display().to_string();
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        inputs
            .errors
            .push(format!("{shown}: not a file name that can be used"));
        return;
    };
    // Given by a pattern like `manifests/*`, or beside what was given.
    if name.ends_with(MARKER_SUFFIX) {
        inputs.markers.extend(ForeignMarker::at(path));
        return;
    }
    let beside = path.with_file_name(format!("{name}{MARKER_SUFFIX}"));
    inputs.markers.extend(ForeignMarker::at(&beside));
    match fs::metadata(path) {
        // Opening a FIFO or a device could block for good.
        Ok(metadata) if !metadata.is_file() => {
            inputs.errors.push(format!("{shown}: not a regular file"));
        }
        Ok(metadata) if metadata.len() > limits.file_bytes => {
            let content = FileContent::TooLarge {
                size: metadata.len(),
            };
            manifest(
                inputs,
                name,
                content,
                SourceMap::itself(shown),
                None,
                limits,
            );
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

fn manifest(
    inputs: &mut Inputs,
    path: &str,
    content: FileContent,
    shown: SourceMap,
    late: Option<String>,
    limits: &ReadLimits,
) {
    inputs.files.push(Input {
        path: path.into(),
        limits: limits.clone(),
        content,
        shown,
        late,
        destination: None,
    });
}

/// Two inputs that would be one file on the node.
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

/// Is standard input something to read from?
pub(super) fn stdin_is_terminal() -> bool {
    std::io::stdin().is_terminal()
}
