//! `windrow rehearse --fix`: a corrected copy of the given files.

use std::ffi::OsStr;
use std::path::Path;

use windrow_model::findings::Finding;
use windrow_model::manifest::{FileContent, ReadLimits};
use windrow_model::reasons::Code;
use windrow_simulate::rehearse::fix::{Corrected, GivenFile, Lacking, corrected};
use windrow_simulate::rehearse::layout::LayoutMove;

use super::super::inputs::Inputs;
use super::args::UnusableInput;
use crate::cli::Exit;
use crate::files::{Durability, replace};
use crate::fs;

/// The given files.
pub(super) fn sources(inputs: &Inputs) -> Vec<GivenFile> {
    let Inputs {
        files,
        carriers,
        parts,
        beside,
        ..
    } = inputs;
    for file in beside {
        eprintln!(
            "windrow: {file}: another file includes it, so the copy has no correction; fix it yourself"
        );
    }
    for part in parts {
        eprintln!(
            "windrow: {part}: a part of a file cannot be corrected in a copy; fix it yourself"
        );
    }
    let whole = carriers.iter().filter(|(shown, _)| !parts.contains(shown));
    let carried = whole.map(|(shown, text)| GivenFile {
        name: Path::new(shown)
            .file_name()
            .and_then(OsStr::to_str)
            .filter(|_| shown != "standard input")
            .unwrap_or("stdin.yaml")
            .to_owned(),
        shown: shown.clone(),
        text: text.clone(),
        carries: Some(
            files
                .iter()
                .filter(|file| file.shown.file == *shown)
                .map(|file| file.path.clone())
                .collect(),
        ),
    });
    let plain = files
        .iter()
        .filter(|file| carriers.iter().all(|(shown, _)| *shown != file.shown.file))
        .filter(|file| !beside.contains(&file.shown.file))
        .filter_map(|file| match &file.content {
            FileContent::Bytes(bytes) => Some(GivenFile {
                name: file.path.to_string(),
                shown: file.shown.file.clone(),
                text: String::from_utf8_lossy(bytes).into_owned(),
                carries: None,
            }),
            _ => None,
        });
    carried.chain(plain).collect()
}

/// The source of a corrected copy of one node's files.
pub(super) struct Correctable {
    pub(super) sources: Vec<GivenFile>,
    pub(super) lacking: Vec<Lacking>,
}

impl Correctable {
    /// Writes the corrections; the files themselves stay unchanged.
    pub(super) fn write(
        &self,
        directory: &Path,
        findings: &[Finding],
        layout: &[LayoutMove],
    ) -> Result<(), UnusableInput> {
        let limits = ReadLimits::default();
        let corrected = corrected(&self.sources, findings, &self.lacking, layout, &limits);
        if !layout.is_empty() && !corrected.files.is_empty() {
            let is_split = layout.iter().any(|one| !one.lines.is_empty());
            let code = match is_split {
                true => Code::SplitSparesPass,
                false => Code::NameSparesPass,
            };
            eprintln!("windrow: {}", code.reason().advice);
        }
        write_copy(directory, &self.sources, corrected)
    }
}

fn write_copy(
    directory: &Path,
    sources: &[GivenFile],
    corrected: Corrected,
) -> Result<(), UnusableInput> {
    for left in &corrected.left {
        eprintln!("windrow: {left}");
    }
    let mut changed = false;
    for (name, text) in corrected.files {
        let path = directory.join(&name);
        let above = path.parent().unwrap_or(directory);
        let written = fs::create_dir_all(above).and_then(|()| match fs::exists(&path) {
            true => Err(std::io::Error::other(
                "it already exists; set a new directory",
            )),
            false => replace(&path, text.as_bytes(), 0o600, Durability::Volatile),
        });
        if let Err(error) = written {
            let message = format!("{}: cannot be written: {error}", path.display());
            return Err((Exit::Usage, vec![message]));
        }
        let same = |source: &GivenFile| source.name == name && source.text == text;
        if !sources.iter().any(same) {
            eprintln!("windrow: {} is corrected", path.display());
            changed = true;
        }
    }
    if !changed {
        eprintln!("windrow: no finding can be corrected automatically");
    }
    Ok(())
}
