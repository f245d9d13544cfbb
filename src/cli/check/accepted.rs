//! Finds and reads the file with accepted findings.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use windrow_simulate::rehearse::check::acceptance::Acceptances;

use super::super::inputs::{STANDARD_INPUT, is_standard_input, text_of};
use super::args::Args;
use crate::files::read_text;
use crate::fs;

const NAME: &str = ".windrow-accept.yaml";

/// The accepted findings: from the given file, otherwise from the file next to the first input, if there is one.
pub(super) fn read(args: &Args) -> Result<Acceptances, String> {
    let (path, named) = match &args.accept {
        Some(path) => (path.clone(), true),
        None => (beside(&args.setup.first_input()), false),
    };
    if is_standard_input(&path) {
        return text_of(&path).map(|text| Acceptances::read(STANDARD_INPUT, &text));
    }
    if !named && args.setup.paths.contains(&path) {
        // The file is read as one of the inputs.
        return Ok(Acceptances::default());
    }
    match read_text(&path) {
        Ok(text) => Ok(Acceptances::read(&path.display().to_string(), &text)),
        Err(error) if !named && error.kind() == ErrorKind::NotFound => Ok(Acceptances::default()),
        Err(error) => Err(format!("{}: cannot be read: {error}", path.display())),
    }
}

fn beside(input: &Path) -> PathBuf {
    match is_standard_input(input) {
        true => NAME.into(),
        false if fs::is_dir(input) => input.join(NAME),
        false => input.with_file_name(NAME),
    }
}
