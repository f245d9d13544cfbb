//! `windrow check --fix`: a corrected copy of the given files.

use std::ffi::OsStr;
use std::path::Path;

use windrow_model::manifest::{FileContent, ReadLimits};
use windrow_model::reasons::Code;
use windrow_simulate::rehearse::fix::{GivenFile, corrected};
use windrow_simulate::rehearse::layout::LayoutMove;

use super::super::inputs::Inputs;
use super::args::UnusableInput;
use crate::cli::Exit;
use crate::files::{Durability, replace};
use crate::fs;

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

pub(super) fn write_copy(
    directory: &Path,
    sources: &[GivenFile],
    layout: &[LayoutMove],
) -> Result<(), UnusableInput> {
    let corrected = corrected(sources, layout, &ReadLimits::default());
    if layout.iter().any(LayoutMove::is_whole) && !corrected.is_empty() {
        eprintln!("windrow: {}", Code::NameSparesPass.reason().advice);
    }
    let mut changed = false;
    for (name, text) in corrected {
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
