//! The contents of a text: manifests, a configuration, or an envelope around configurations.

use windrow_harvester as harvester;
use windrow_inputs::extract::{self, Extraction, FileKind, InnerLines, recognise};
use windrow_inputs::user_data::{self, OpenedFile, Wrapped, stand_in};
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{FileContent, ManifestPath, Problem, ReadLimits, is_manifest_name};
use windrow_model::reasons::Code;
use windrow_plan::SourceMap;
use windrow_plan::rke2::is_rke2_config;
use windrow_preflight::installer::KernelArguments;
use windrow_simulate::Setup;

use super::beside::DirectoryBeside;
use super::gathered::{Destination, Inputs, manifest, own_manifest};
use super::markers::ForeignMarker;
use super::own::take_own;
use super::own_kind::has_objects;
use super::rke2_config::take_rke2_config;

/// A text of a kind still unknown: a manifest, a configuration that carries manifests, or an envelope around
/// configurations.
pub(super) fn text(
    inputs: &mut Inputs,
    name: &str,
    shown: String,
    bytes: Vec<u8>,
    limits: &ReadLimits,
) {
    if let Some(text) = kernel_arguments(&bytes) {
        inputs.harvester = true;
        inputs.kernel_arguments.push((shown, text));
        return;
    }
    let bytes = match user_data::open(&shown, bytes, limits) {
        OpenedFile::Text(bytes) => bytes,
        OpenedFile::Wrapped(found) => return wrapped(inputs, found, limits),
    };
    let read = std::str::from_utf8(&bytes).ok();
    let carrier = read.filter(|text| extract::kind_of(text) != FileKind::Manifests);
    if let Some(text) = carrier {
        if name.contains('/') && extract::kind_of(text) == FileKind::ImageBuilder {
            inputs.errors.push(format!(
                "{shown}: an Edge Image Builder definition needs its directory; pass the directory, or the path of the \
                 definition"
            ));
            return;
        }
        let extraction = extract_file(&shown, text, limits);
        if let Some(nothing) = carried(inputs, &shown, text, extraction, limits) {
            eprintln!("windrow: {shown}: {nothing}");
        }
    } else if read.is_some_and(|text| take_own(inputs, &shown, text)) {
        // Neither RKE2 nor the node reads it as a manifest.
    } else if read.is_some_and(|text| take_rke2_config(inputs, &shown, text)) {
        // RKE2 reads it, but not as a manifest.
    } else if is_manifest_name(name.rsplit('/').next().unwrap_or(name)) {
        let content = FileContent::Bytes(bytes);
        own_manifest(inputs, name, shown, content, limits);
    } else {
        inputs.errors.push(format!(
            "{shown}: RKE2 only reads names that end in .yaml, .yml or .json and do not begin with a dot, and this is \
             not a configuration with manifests"
        ));
    }
}

/// A text with parameters of Harvester's installer, if it is neither a manifest nor a configuration: an iPXE script, a boot menu, or a
/// kernel command line.
fn kernel_arguments(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_other =
        extract::kind_of(text) != FileKind::Manifests || has_objects(text) || is_rke2_config(text);
    let arguments = KernelArguments::read(text).filter(|_| !is_other);
    arguments.map(|_| text.to_owned())
}

pub(in crate::cli) fn extract_file(shown: &str, text: &str, limits: &ReadLimits) -> Extraction {
    match DirectoryBeside::of(shown, limits) {
        Some(beside) => extract::extract_beside(shown, text, limits, &beside),
        None => extract::extract(shown, text, limits),
    }
}

fn wrapped(inputs: &mut Inputs, found: Wrapped, limits: &ReadLimits) {
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

/// Prints how the parts of a file were read, if that is not obvious.
pub(in crate::cli) fn say_notes(found: &Wrapped) {
    for (line, note) in &found.notes {
        eprintln!("windrow: {}:{line}: {note}", found.shown);
    }
}

/// Prints which kind of configuration a file was read as, if it could be another, and how, if that is not obvious.
pub(in crate::cli) fn say_how_read(shown: &str, text: &str, extraction: &Extraction) {
    if let Some(taken) = recognise(text).where_ambiguous() {
        eprintln!("windrow: {shown}: {taken}");
    }
    for (line, note) in &extraction.notes {
        eprintln!("windrow: {shown}:{line}: {note}");
    }
}

/// The manifests that a configuration carries, or else the searched places.
fn carried(
    inputs: &mut Inputs,
    shown: &str,
    text: &str,
    extraction: Extraction,
    limits: &ReadLimits,
) -> Option<String> {
    say_how_read(shown, text, &extraction);
    if let Some(version) = &extraction.rke2_version {
        match version.parse() {
            Ok(version) => inputs.rke2 = Some(version),
            Err(_) => inputs.errors.push(format!(
                "{shown}: `{version}` is not a valid version of RKE2; write it like v1.34.2+rke2r1"
            )),
        }
    }
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
    // RKE2's or Windrow's own configuration decides which files are read and held.
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
        // Markers and other files may come along; RKE2 applies none of them.
        if !is_manifest_name(file.path.rsplit('/').next().unwrap_or_default()) {
            continue;
        }
        let is_in_directory = ManifestPath::from(&*file.path).applied_by().is_none();
        let destination = is_in_directory.then(|| Destination {
            at: Location::line(&*file.carrier, file.written_at),
            data_dir: file.data_dir,
        });
        if file.source != file.carrier {
            inputs.beside.push(file.source.clone());
        }
        let (first_line, line_by_line) = match file.lines {
            InnerLines::Follow { first } => (first, true),
            InnerLines::Begin { line } => (line, false),
        };
        let shown = SourceMap {
            file: file.source,
            first_line,
            line_by_line,
        };
        // yip renders the files that it writes; the result is known only on the node.
        let content = match String::from_utf8(file.content) {
            Ok(text) if by_yip && text.contains("{{") => stand_in(&text).into_bytes(),
            Ok(text) => text.into_bytes(),
            Err(error) => error.into_bytes(),
        };
        let content = FileContent::Bytes(content);
        manifest(inputs, &file.path, content, shown, file.late, limits);
        if let Some(input) = inputs.files.last_mut() {
            input.destination = destination;
        }
    }
    nothing
}

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
