//! `--root`, for the verbs that read a node.

use std::ffi::{OsStr, OsString};

/// `--root ROOT`, if the verb on this command line takes it.
pub(crate) fn root_for(root: impl AsRef<OsStr>, words: &[&str]) -> Vec<OsString> {
    let mut command = &windrow::cli::command();
    for word in words {
        match command.find_subcommand(word) {
            Some(verb) => command = verb,
            None => break,
        }
    }
    let mut options = command.get_arguments();
    match options.any(|option| option.get_id() == "root") {
        true => vec!["--root".into(), root.as_ref().to_owned()],
        false => Vec::new(),
    }
}
