//! Faults of system calls: `faults.c`, preloaded into the program.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The faults of one program.
pub(crate) struct Faults {
    // Elsewhere than the node: each call reads a file in it, and the daemon watches the way to its directory.
    place: tempfile::TempDir,
}

impl Faults {
    pub(crate) fn none() -> Self {
        Self {
            place: tempfile::tempdir().unwrap(),
        }
    }

    fn rules(&self) -> PathBuf {
        self.place.path().join("rules")
    }

    /// The daemon, into which the faults are loaded.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrowd"));
        command
            .env("LD_PRELOAD", library())
            .env("FAULTS", self.rules());
        command
    }

    /// From now on these calls fail or wait: each line is `CALL ERRNO PATTERN`.
    pub(crate) fn begin(&self, rules: &str) {
        let new = self.place.path().join("new");
        fs::write(&new, rules).unwrap();
        fs::rename(new, self.rules()).unwrap();
    }

    pub(crate) fn end(&self) {
        fs::remove_file(self.rules()).unwrap();
    }

    /// Does a call wait?
    pub(crate) fn is_reached(&self) -> bool {
        self.rules().with_extension("reached").exists()
    }
}

/// The library, compiled once for this process.
fn library() -> PathBuf {
    static PLACE: OnceLock<tempfile::TempDir> = OnceLock::new();
    let place = PLACE.get_or_init(|| {
        let place = tempfile::tempdir().unwrap();
        let mut compiler = Command::new("cc")
            .args(["-shared", "-fPIC", "-x", "c", "-", "-ldl", "-o"])
            .arg(place.path().join("faults.so"))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let source = include_bytes!("faults.c");
        compiler.stdin.take().unwrap().write_all(source).unwrap();
        assert!(compiler.wait().unwrap().success());
        place
    });
    place.path().join("faults.so")
}
