//! Processes that cannot outlive the tests, and the directory they write to.
//!
//! A destructor does not run when a test process is killed, and never for a cluster in a static. So every child is in
//! its own process group, together with a shell that reads from a pipe which this process keeps open: when the pipe
//! ends, for whatever reason, the shell kills the group.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The shell's part. The program replaces the first shell, so that its exit status is the child's.
const GUARD: &str = r#"exec 3<&0; ( read -r _ <&3; kill -KILL 0 ) & exec "$@" 3<&- </dev/null"#;

/// A child with a log.
pub(super) struct Process {
    /// Its name in messages.
    pub(super) name: String,
    child: Mutex<Child>,
    log: PathBuf,
}

impl Process {
    /// Starts a program; what it writes goes to `<name>.log` in a directory.
    pub(super) fn start(
        name: &str,
        program: &Path,
        arguments: &[String],
        dir: &Path,
        environment: &[(&str, &str)],
    ) -> Self {
        let log = dir.join(format!("{name}.log"));
        let output = fs::File::create(&log).expect("the log can be written");
        let child = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(program)
            .args(arguments)
            .envs(environment.iter().copied())
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().expect("a file can be opened twice"))
            .stderr(output)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("sh cannot start {}: {e}", program.display()));
        Self {
            name: name.to_owned(),
            child: Mutex::new(child),
            log,
        }
    }

    /// The program's, as it replaced the shell.
    pub(super) fn pid(&self) -> u32 {
        self.child
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .id()
    }

    /// Whether it has ended by itself.
    pub(super) fn ended(&self) -> bool {
        self.exit().is_some()
    }

    /// Whether it was successful, once it has ended by itself.
    pub(super) fn exit(&self) -> Option<bool> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let status = child.try_wait().ok().flatten()?;
        Some(status.success())
    }

    /// Has it ended because another process has taken its port since that was free? Fails where it ended for another reason.
    pub(super) fn lost_its_port(&self) -> bool {
        let ended = self.ended();
        if ended {
            let log = self.log();
            let in_use = log.contains("address already in use");
            assert!(in_use, "{} ended:\n{log}", self.name);
        }
        ended
    }

    /// What it wrote so far.
    pub(super) fn log(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Prints the end of what it wrote.
    pub(super) fn print_log(&self) {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        eprintln!("--- the last lines of {}:", self.name);
        for line in &lines[lines.len().saturating_sub(60)..] {
            eprintln!("{line}");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The end of the pipe ends the group.
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(child.stdin.take());
        // An error means that it was waited for already.
        let _ = child.wait();
    }
}

/// A directory that goes away with the processes in it.
pub(super) struct Janitor {
    path: PathBuf,
    shell: Child,
}

impl Janitor {
    pub(super) fn new() -> Self {
        let path = tempfile::Builder::new()
            .prefix("windrow-cluster-")
            .tempdir()
            .expect("the temporary directory is writable")
            .keep();
        // A process that is being killed may still write a file: try until the directory is gone.
        let shell = Command::new("sh")
            .args([
                "-c",
                r#"read -r _; until rm -rf "$1"; do :; done"#,
                "janitor",
            ])
            .arg(&path)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh starts");
        Self { path, shell }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            // A line serves as well as the end of the pipe; an error means that the shell is gone.
            let _ = writeln!(pipe);
        }
        let _ = self.shell.wait();
    }
}
