//! What a person gives a verb to look at: directories, manifests, and configurations that carry
//! manifests, in any mix.

mod destinations;
mod markers;

use std::collections::BTreeMap;
use std::fs;
use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

pub(super) use destinations::rke2_files;
pub(super) use markers::{ForeignMarker, skipped_by};

use windrow_decide::settings::{ConfigFile, Loaded, Role, rule_sources};
use windrow_harvester as harvester;
use windrow_model::manifest::extract::{
    self, Extracted, Extraction, FileKind, InnerLines, recognise,
};
use windrow_model::manifest::user_data::{self, Opened, Wrapped, stand_in};
use windrow_model::manifest::{
    self, Content, Limits, MARKER_SUFFIX, ManifestFile, Problem, is_manifest_name,
};
use windrow_model::reasons::Code;
use windrow_plan::rules::{Location, RuleSet};
use windrow_plan::{Finding, Shown};
use windrow_simulate::Setup;

use super::Context;
use super::document::now;
use crate::layout::Layout;
use crate::observe::scan::{FileState, ScanResult, Stamps, scan};

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

/// One manifest file.
pub(super) struct Input {
    /// Path below the manifests directory, with `/`.
    pub(super) path: String,
    pub(super) content: Content,
    pub(super) shown: Shown,
    /// Who writes it late, if it is not there from the beginning.
    pub(super) late: Option<String>,
    /// Where it is written to, if a configuration says so.
    destination: Option<Destination>,
    pub(super) limits: Limits,
}

/// Below which data directory a configuration writes a file, and where it says so.
struct Destination {
    data_dir: String,
    at: Location,
}

impl Input {
    /// The file, read. Its values take several times its size in memory.
    pub(super) fn manifest(&self) -> ManifestFile {
        manifest::read(&self.path, &self.content, &self.limits)
    }
}

/// The rules in force on this machine, those of further directories or files, and those that follow
/// from a preset storage network.
pub(super) fn rules(loaded: &Loaded, further: &[PathBuf], preset: bool) -> (RuleSet, Vec<String>) {
    let mut errors: Vec<String> = loaded.errors.iter().map(ToString::to_string).collect();
    if further.is_empty() && !preset {
        return (loaded.rules.clone(), errors);
    }
    let mut sources = rule_sources(&loaded.files, preset);
    for path in further {
        match rule_files(path) {
            Ok(files) if files.is_empty() => errors.push(format!(
                "{}: no rule packs (*.yaml) in this directory",
                path.display()
            )),
            Ok(files) => sources.extend(files),
            Err(error) => errors.push(format!("{}: cannot be read: {error}", path.display())),
        }
    }
    let (rules, wrong) = RuleSet::load(&sources);
    for error in wrong {
        let text = format!("{}: {}", error.at, error.message);
        // The node's own packs were loaded, and complained about, before.
        if !errors.contains(&text) {
            errors.push(text);
        }
    }
    (rules, errors)
}

/// Windrow's own configuration among what configurations write, as the node would read it: in the same order, without what is
/// masked. It is named and counted by the lines of the files that carry it; where their lines do not follow one another, by the
/// line in which it begins there and its own.
pub(super) fn carried_configuration(configuration: &[Extracted]) -> Vec<ConfigFile> {
    let directories = Layout::new("/").config_dirs();
    let mut files = BTreeMap::new();
    for file in configuration {
        let path = Path::new(&file.path);
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            continue;
        };
        let name = name.to_string_lossy().into_owned();
        let at = |below: &str| {
            directories
                .iter()
                .position(|known| known.join(below) == directory)
        };
        let (place, role, rank) = if let Some(rank) = at("conf.d") {
            (1, Role::Settings, rank)
        } else if let Some(rank) = at("rules.d") {
            (2, Role::Rules, rank)
        } else if let Some(rank) = at("").filter(|_| name == "windrow.yaml") {
            (0, Role::Settings, rank)
        } else {
            continue;
        };
        if !name.ends_with(".yaml") || name.starts_with('.') {
            continue;
        }
        let text = String::from_utf8_lossy(&file.content);
        let (path, text) = match file.lines {
            // Blank lines before it say nothing, and its own are counted as the outer file's.
            InnerLines::Follow { first } => {
                let before = usize::try_from(first.saturating_sub(1)).unwrap_or_default();
                (file.source.clone(), "\n".repeat(before) + &text)
            }
            InnerLines::Begin { line } => (
                format!("{}:{line}: {}", file.source, file.path),
                text.into_owned(),
            ),
        };
        let counts = ConfigFile {
            role,
            name: name.clone(),
            path: path.into(),
            text,
        };
        let known = files
            .entry((place, name, &file.source))
            .or_insert((rank, None));
        if rank >= known.0 {
            *known = (rank, Some(counts));
        }
    }
    files.into_values().filter_map(|(_, file)| file).collect()
}

/// The rule packs of a directory or a file: name and text.
pub(super) fn rule_files(path: &Path) -> std::io::Result<Vec<(String, String)>> {
    let mut paths = vec![path.to_owned()];
    if path.is_dir() {
        paths = fs::read_dir(path)?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<_>>()?;
        paths.retain(|path| {
            path.extension()
                .is_some_and(|one| one == "yaml" || one == "yml")
        });
        paths.sort();
    }
    paths
        .into_iter()
        .map(|path| Ok((path.display().to_string(), fs::read_to_string(&path)?)))
        .collect()
}

/// The node's own manifests directory.
pub(super) fn node(context: &Context, limits: &Limits) -> Inputs {
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
pub(super) fn gather(paths: &[PathBuf], limits: &Limits) -> Inputs {
    let mut inputs = Inputs::default();
    for path in paths {
        if path.as_os_str() == "-" {
            standard_input(&mut inputs, limits);
        } else if path.is_dir() {
            let before = (inputs.files.len(), inputs.errors.len());
            directory(&mut inputs, path, limits, now());
            if before == (inputs.files.len(), inputs.errors.len()) {
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

fn directory(inputs: &mut Inputs, path: &Path, limits: &Limits, now: Timestamp) {
    match scan(path, limits, &Stamps::new(), now) {
        ScanResult::Found(found) => {
            let markers = found.markers.into_iter();
            inputs
                .markers
                .extend(markers.filter_map(ForeignMarker::seen));
            for file in found.files {
                // Nothing was seen before, so nothing is unchanged.
                let FileState::Read(content) = file.state else {
                    continue;
                };
                let shown = path.join(&file.path).display().to_string();
                manifest(
                    inputs,
                    &file.path,
                    content,
                    Shown::itself(shown),
                    None,
                    limits,
                );
            }
        }
        ScanResult::Missing => inputs
            .errors
            .push(format!("{}: no such directory", path.display())),
        ScanResult::Unreadable { error } => inputs
            .errors
            .push(format!("{}: cannot be read: {error}", path.display())),
    }
}

fn one_file(inputs: &mut Inputs, path: &Path, limits: &Limits) {
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
            let content = Content::TooLarge {
                size: metadata.len(),
            };
            manifest(inputs, name, content, Shown::itself(shown), None, limits);
        }
        Ok(_) => match fs::read(path) {
            Ok(bytes) => text(inputs, name, shown, bytes, limits),
            Err(error) => inputs
                .errors
                .push(format!("{shown}: cannot be read: {error}")),
        },
        Err(error) => inputs
            .errors
            .push(format!("{shown}: cannot be read: {error}")),
    }
}

fn standard_input(inputs: &mut Inputs, limits: &Limits) {
    if stdin_is_terminal() {
        eprintln!("windrow: reading manifests from the terminal; end with Ctrl-D");
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin()
        .take(limits.file_bytes + 1)
        .read_to_end(&mut bytes);
    match read {
        Ok(size) if size as u64 > limits.file_bytes => inputs.errors.push(format!(
            "standard input: more than {} bytes; raise staging.limits.fileBytes",
            limits.file_bytes
        )),
        Ok(_) if bytes.trim_ascii().is_empty() => inputs
            .errors
            .push("standard input: it is empty: nothing was looked at".to_owned()),
        Ok(_) => text(
            inputs,
            "stdin.yaml",
            "standard input".to_owned(),
            bytes,
            limits,
        ),
        Err(error) => inputs
            .errors
            .push(format!("standard input: cannot be read: {error}")),
    }
}

/// A text whose kind is not known yet: a manifest, a configuration that carries manifests, or something around
/// configurations.
fn text(inputs: &mut Inputs, name: &str, shown: String, bytes: Vec<u8>, limits: &Limits) {
    let bytes = match user_data::open(&shown, bytes, limits) {
        Opened::Text(bytes) => bytes,
        Opened::Wrapped(found) => return wrapped(inputs, found, limits),
    };
    let carrier = std::str::from_utf8(&bytes)
        .ok()
        .filter(|text| extract::kind_of(text) != FileKind::Manifests);
    if let Some(text) = carrier {
        let extraction = extract::extract(&shown, text, limits);
        if let Some(nothing) = carried(inputs, &shown, text, extraction, limits) {
            eprintln!("windrow: {shown}: {nothing}");
        }
    } else if is_manifest_name(name) {
        let content = Content::Bytes(bytes);
        manifest(inputs, name, content, Shown::itself(shown), None, limits);
    } else {
        inputs.errors.push(format!(
            "{shown}: RKE2 reads only names that end in .yaml, .yml or .json and do not begin with \
             a dot, and it is no configuration that carries manifests"
        ));
    }
}

/// What is in something around configurations.
fn wrapped(inputs: &mut Inputs, found: Wrapped, limits: &Limits) {
    let shown = &found.shown;
    say_notes(&found);
    let problems = found.problems.iter();
    inputs
        .findings
        .extend(problems.map(|problem| problem_finding(problem, shown)));
    let before = inputs.files.len();
    let nothing_wrong = found.problems.is_empty();
    let extractions = found.extract(limits);
    for (part, extraction) in found.parts.into_iter().zip(extractions) {
        carried(inputs, &part.shown, &part.text, extraction, limits);
        inputs.parts.push(part.shown);
    }
    if inputs.files.len() == before && nothing_wrong {
        eprintln!("windrow: {shown}: none of its parts writes files below RKE2's server/manifests");
    }
}

/// Says how the parts of a file were read, where that is not as it stands there.
pub(super) fn say_notes(found: &Wrapped) {
    for (line, note) in &found.notes {
        eprintln!("windrow: {}:{line}: {note}", found.shown);
    }
}

/// Says what a configuration was taken for, where it could be something else.
pub(super) fn say_if_ambiguous(shown: &str, text: &str) {
    if let Some(taken) = recognise(text).where_ambiguous() {
        eprintln!("windrow: {shown}: {taken}");
    }
}

/// The manifests that a configuration carries; when it carries none, what was looked at.
fn carried(
    inputs: &mut Inputs,
    shown: &str,
    text: &str,
    extraction: Extraction,
    limits: &Limits,
) -> Option<String> {
    say_if_ambiguous(shown, text);
    inputs.harvester |= extraction.is_harvester();
    inputs.preset |= extraction.is_harvester() && harvester::presets_storage_network(text);
    if extraction.is_harvester() {
        let preset = Setup::preset_storage_network(text);
        inputs.storage_network = preset.or(inputs.storage_network.take());
    }
    let problems = extraction.problems.iter();
    inputs
        .findings
        .extend(problems.map(|problem| problem_finding(problem, shown)));
    // What RKE2's or Windrow's own configuration says decides what is read and held.
    inputs
        .findings
        .extend(extraction.configuration_problems.iter().map(|problem| {
            let what = Problem {
                code: Code::NotLookedAt,
                line: problem.line,
                message: Code::NotLookedAt.say(&[("what", &problem.message)]),
            };
            problem_finding(
                if problem.code == Code::NotLookedAt {
                    problem
                } else {
                    &what
                },
                shown,
            )
        }));
    let nothing = extraction.files.is_empty() && extraction.problems.is_empty();
    let nothing = nothing.then(|| brings_nothing(&extraction));
    let by_yip = matches!(extraction.kind, FileKind::HarvesterConfig | FileKind::Yip);
    inputs.configuration.extend(extraction.configuration);
    inputs.carriers.push((shown.to_owned(), text.to_owned()));
    for file in extraction.files {
        inputs.markers.extend(ForeignMarker::carried(&file));
        // Markers and other files may ride along; RKE2 applies none of them.
        if !is_manifest_name(file.path.rsplit('/').next().unwrap_or_default()) {
            continue;
        }
        let destination = Destination {
            at: Location::line(&*file.source, file.written_at),
            data_dir: file.data_dir,
        };
        let (first_line, line_by_line) = match file.lines {
            InnerLines::Follow { first } => (first, true),
            InnerLines::Begin { line } => (line, false),
        };
        let shown = Shown {
            file: file.source,
            first_line,
            line_by_line,
        };
        // yip renders what it writes; what comes of it is known only on the node.
        let content = match String::from_utf8(file.content) {
            Ok(text) if by_yip && text.contains("{{") => stand_in(&text).into_bytes(),
            Ok(text) => text.into_bytes(),
            Err(error) => error.into_bytes(),
        };
        let content = Content::Bytes(content);
        manifest(inputs, &file.path, content, shown, file.late, limits);
        if let Some(input) = inputs.files.last_mut() {
            input.destination = Some(destination);
        }
    }
    nothing
}

/// What was looked at, where nothing came of it.
fn brings_nothing(extraction: &Extraction) -> String {
    let files = match extraction.written {
        0 => "it writes no files".to_owned(),
        1 => "it writes one file, but".to_owned(),
        many => format!("it writes {many} files, but"),
    };
    let none = if extraction.written == 0 { "" } else { " none" };
    format!(
        "read as {}: {files}{none} below RKE2's server/manifests",
        extraction.kind.name()
    )
}

fn problem_finding(problem: &Problem, shown: &str) -> Finding {
    Finding {
        incident: None,
        code: problem.code,
        severity: problem.code.severity(),
        message: problem.message.clone(),
        at: vec![Location {
            file: shown.to_owned(),
            line: problem.line,
        }],
    }
}

fn manifest(
    inputs: &mut Inputs,
    path: &str,
    content: Content,
    shown: Shown,
    late: Option<String>,
    limits: &Limits,
) {
    inputs.files.push(Input {
        path: path.to_owned(),
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
