//! The node's own programs, which are run for their output.

use std::path::PathBuf;

use tokio::process::Command;

use crate::layout::Layout;

/// A program of this machine. One below another root is input, and is never run.
#[derive(Debug)]
pub(super) struct NodeProgram(PathBuf);

impl NodeProgram {
    pub(super) fn new(layout: &Layout, path: PathBuf) -> Option<Self> {
        layout.is_this_machine().then_some(Self(path))
    }

    #[cfg(test)]
    pub(super) fn of_test(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &std::path::Path {
        &self.0
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.0);
        command
            .stdin(std::process::Stdio::null())
            .kill_on_drop(true);
        command
    }
}
