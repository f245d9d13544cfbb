//! Texts that do not have their usual file name: standard input, and files in a directory under unusual names.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use windrow_inputs::user_data::is_configuration;

use crate::files::{LARGEST_TEXT, read_bytes, read_text};
use crate::fs;

pub(in crate::cli) const STANDARD_INPUT: &str = "standard input";

/// The name of an input in messages: the same in all formats, and without a `./` in front.
pub(in crate::cli) fn name_of(path: &Path) -> String {
    match is_standard_input(path) {
        true => STANDARD_INPUT.to_owned(),
        false => path.strip_prefix(".").unwrap_or(path).display().to_string(),
    }
}

pub(in crate::cli) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Whether standard input was read. It can be read only once.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// All of it, up to this many bytes; or why it cannot be read.
pub(in crate::cli) fn standard_input(limit: u64) -> Result<Vec<u8>, String> {
    if TAKEN.swap(true, Ordering::Relaxed) {
        let twice = "`-` appears twice on the command line, but it can only be read once";
        return Err(format!("{STANDARD_INPUT}: {twice}"));
    }
    if stdin_is_terminal() {
        eprintln!("windrow: reading from the terminal; end with Ctrl-D");
    }
    let mut bytes = Vec::new();
    let longest = limit.saturating_add(1);
    let read = std::io::stdin().take(longest).read_to_end(&mut bytes);
    let wrong = match read {
        Ok(size) if size as u64 > limit => format!("more than {limit} bytes"),
        Ok(_) if bytes.trim_ascii().is_empty() => "it is empty: nothing was checked".to_owned(),
        Ok(_) => return Ok(bytes),
        Err(error) => format!("cannot be read: {error}"),
    };
    Err(format!("{STANDARD_INPUT}: {wrong}"))
}

/// A small file, or standard input, as text; or its error, with its name.
pub(in crate::cli) fn text_of(path: &Path) -> Result<String, String> {
    if !is_standard_input(path) {
        return read_text(path)
            .map_err(|error| format!("{}: cannot be read: {error}", path.display()));
    }
    let bytes = standard_input(LARGEST_TEXT)?;
    String::from_utf8(bytes).map_err(|_| format!("{STANDARD_INPUT}: it is not UTF-8 text"))
}

/// Configurations in a directory whose names are not read there: user-data is often called `user-data`.
pub(in crate::cli) fn other_configurations(
    directory: &Path,
    is_read: impl Fn(&str) -> bool,
) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let other = name
                .to_str()
                .is_some_and(|name| !name.starts_with('.') && !is_read(name));
            other && fs::is_file(entry.path())
        })
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let texts = paths.into_iter().filter_map(|path| {
        let bytes = read_bytes(&path).ok()?;
        is_configuration(&bytes).then_some((path, bytes))
    });
    texts.collect()
}

pub(in crate::cli) fn stdin_is_terminal() -> bool {
    std::io::stdin().is_terminal()
}
