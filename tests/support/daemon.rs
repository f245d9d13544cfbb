//! The root of a node in a temporary directory, and the real program that runs on it.
//!
//! Nothing here sleeps. A test looks again after each of the daemon's own notifications, mostly watchdog pings.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Far longer than anything takes: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(180);

/// The root of a node.
pub(crate) struct Node {
    pub(crate) root: tempfile::TempDir,
}

/// A daemon that runs there.
pub(crate) struct Daemon {
    pub(crate) child: Child,
    socket: UnixDatagram,
    log: PathBuf,
    watchdog: bool,
}

impl Node {
    /// A root without a manifests directory. The regular scan is far off, so that it does not hide a missed event.
    pub(crate) fn empty() -> Self {
        let node = Self {
            root: tempfile::tempdir().unwrap(),
        };
        node.write(
            "/etc/windrow/conf.d/00-test.yaml",
            "staging: {rescan: 1h}\n",
        );
        node
    }

    /// A root with these manifests.
    pub(crate) fn with(manifests: &[(&str, &str)]) -> Self {
        let node = Self::empty();
        fs::create_dir_all(node.manifests()).unwrap();
        for (name, text) in manifests {
            fs::write(node.manifest(name), text).unwrap();
        }
        node
    }

    pub(crate) fn path(&self, absolute: &str) -> PathBuf {
        self.root.path().join(absolute.trim_start_matches('/'))
    }

    pub(crate) fn manifests(&self) -> PathBuf {
        self.path("/var/lib/rancher/rke2/server/manifests")
    }

    pub(crate) fn manifest(&self, name: &str) -> PathBuf {
        self.manifests().join(name)
    }

    /// The mark in the marker of a file, if it is Windrow's.
    pub(crate) fn mark(&self, name: &str) -> Option<Value> {
        let content = fs::read(self.manifest(&format!("{name}.skip"))).ok()?;
        serde_json::from_slice(&content).ok()
    }

    pub(crate) fn is_marked(&self, name: &str) -> bool {
        self.manifest(&format!("{name}.skip")).exists()
    }

    pub(crate) fn status(&self) -> Value {
        let content = fs::read(self.path("/run/windrow/status.json")).unwrap();
        serde_json::from_slice(&content).unwrap()
    }

    pub(crate) fn write(&self, absolute: &str, text: &str) -> PathBuf {
        let path = self.path(absolute);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn request(&self, name: &str, action: &str, file: &str) -> PathBuf {
        let spool = "/var/lib/rancher/windrow/requests";
        let text = format!(
            r#"{{"action":"{action}","file":"{file}","by":"ann","at":"2026-01-02T03:04:05Z","reason":"test"}}"#
        );
        let temporary = self.write(&format!("{spool}/.{name}.tmp"), &text);
        let path = self.path(&format!("{spool}/{name}.json"));
        fs::rename(temporary, &path).unwrap();
        path
    }

    /// Starts the daemon, with a watchdog that has to be fed every tenth of a second.
    pub(crate) fn start(&self) -> Daemon {
        self.start_with(Command::new(env!("CARGO_BIN_EXE_windrowd")), true)
    }

    pub(crate) fn start_with(&self, mut command: Command, watchdog: bool) -> Daemon {
        let place = self.path("/notify");
        let _ = fs::remove_file(&place);
        let socket = UnixDatagram::bind(&place).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let log = self.path("/log");
        command
            .arg("--root")
            .arg(self.root.path())
            .env("NOTIFY_SOCKET", &place)
            .env_remove("WATCHDOG_PID")
            .env_remove("JOURNAL_STREAM")
            .stdin(Stdio::null())
            .stderr(File::create(&log).unwrap());
        if watchdog {
            command.env("WATCHDOG_USEC", "200000");
        }
        Daemon {
            child: command.spawn().unwrap(),
            socket,
            log,
            watchdog,
        }
    }

    /// Starts the daemon and waits until it is ready.
    pub(crate) fn ready(&self) -> Daemon {
        let daemon = self.start();
        daemon.hear("READY=1");
        daemon
    }
}

/// The most memory that a process ever took, in kB.
pub(crate) fn most_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

impl Daemon {
    /// The most memory that it ever took, in kB.
    pub(crate) fn most_memory(&self) -> u64 {
        most_memory(self.child.id())
    }

    /// Waits for a notification that contains `word`, and returns it.
    pub(crate) fn hear(&self, word: &str) -> String {
        loop {
            let said = self.next();
            if said.contains(word) {
                return said;
            }
        }
    }

    pub(crate) fn next(&self) -> String {
        let mut buffer = [0; 4096];
        let length = loop {
            match self.socket.recv(&mut buffer) {
                Ok(length) => break length,
                // A child of this process has ended: the signal is for a runtime.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("the daemon says nothing: {error}\n{}", self.said()),
            }
        };
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    /// Looks after each notification until it is true.
    pub(crate) fn until(&self, what: &str, mut so: impl FnMut() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !so() {
            assert!(Instant::now() < deadline, "never: {what}\n{}", self.said());
            self.next();
        }
    }

    /// Looks until it is true, without waiting for notifications: for tests that are busy meanwhile, when a daemon with
    /// a watchdog would wait for its pings to be read.
    pub(crate) fn eventually(&self, what: &str, mut so: impl FnMut() -> bool) {
        let (_nobody, pause) = std::sync::mpsc::channel::<()>();
        let deadline = Instant::now() + DEADLINE;
        while !so() {
            assert!(Instant::now() < deadline, "never: {what}\n{}", self.said());
            self.socket.set_nonblocking(true).unwrap();
            let mut buffer = [0; 4096];
            while self.socket.recv(&mut buffer).is_ok() {}
            self.socket.set_nonblocking(false).unwrap();
            let _ = pause.recv_timeout(Duration::from_millis(20));
        }
    }

    /// Waits for this many more ticks.
    pub(crate) fn ticks(&self, number: usize) {
        assert!(self.watchdog, "without a watchdog a daemon tells no ticks");
        for _ in 0..number {
            self.hear("WATCHDOG=1");
        }
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    pub(crate) fn end(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.socket.set_nonblocking(true).unwrap();
        let (_nobody, pause) = std::sync::mpsc::channel::<()>();
        let deadline = Instant::now() + DEADLINE;
        loop {
            // Before it ends, the daemon waits until there is room for its last notification.
            let mut buffer = [0; 4096];
            while self.socket.recv(&mut buffer).is_ok() {}
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "it does not end: {}",
                self.said()
            );
            let _ = pause.recv_timeout(Duration::from_millis(20));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// May this process mount? If not, a line says that a test is skipped.
pub(crate) fn can_mount() -> bool {
    let can = Command::new("unshare")
        .args(["--mount", "sh", "-c", "mount --bind /proc /proc"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: it needs the right to mount");
    }
    can
}

/// The document, as if this process were the daemon.
pub(crate) fn kept_by_this_test(status: &str) -> String {
    let mut status: Value = serde_json::from_str(status).unwrap();
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let ticks: u64 = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(19))
        .and_then(|field| field.parse().ok())
        .unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    status["writer"] = json!({
        "pid": std::process::id(), "startTicks": ticks, "bootId": boot.trim(),
    });
    status.to_string()
}
