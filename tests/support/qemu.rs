//! A machine with a disk and a power cord: an image of `packaging/image/build`, booted from its own boot loader by QEMU, without
//! hardware acceleration.
//! Knows how an image is made, booted, cut off and inspected, but nothing of Windrow.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::machine::{repository, say, stripped};
use super::own_directory::own_directory;

/// Far longer than anything takes here, emulated and beside other tests: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(25 * 60);

const TOOLS: [&str; 7] = [
    "qemu-system-x86_64",
    "qemu-img",
    "debootstrap",
    "mcopy",
    "grub-mkimage",
    "debugfs",
    "dpkg-deb",
];

/// Why no image can be made here, in one line; `None` when it can.
fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("an image can only be made by root".to_owned());
    }
    let lacks = |tool: &str| {
        let mut tool = Command::new(tool);
        tool.arg("--version").stdin(Stdio::null()).output().is_err()
    };
    if let Some(tool) = TOOLS.iter().find(|tool| lacks(tool)) {
        return Some(format!("no {tool} to make an image with"));
    }
    let required = std::env::var_os("WINDROW_REQUIRE_MACHINE").is_some();
    // Whoever runs `cargo test` did not ask for minutes of downloads.
    let cached = repository("packaging/image/build");
    let cached = Command::new(cached).arg("--is-cached").status();
    (!required && !cached.is_ok_and(|status| status.success()))
        .then(|| "no system for an image yet: tests/run builds one".to_owned())
}

/// Prints why a test is skipped, or panics where `WINDROW_REQUIRE_MACHINE` forbids skipping. True when it is skipped.
pub(crate) fn skipped() -> bool {
    let Some(why) = missing() else { return false };
    assert!(
        std::env::var_os("WINDROW_REQUIRE_MACHINE").is_none(),
        "WINDROW_REQUIRE_MACHINE is set, and {why}"
    );
    say(&format!("skipped: {why}"));
    true
}

/// Runs a command that must succeed; returns its output.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", told(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn told(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    format!("{}\n{out}{err}", output.status)
}

/// The image with the package of the program under test, made once. Nothing is ever written to it.
pub(crate) struct Image {
    path: PathBuf,
    /// Where its root file system begins, and its length, in bytes.
    root: (u64, u64),
}

/// The image. `overlay` builds a tree that is laid over the system's.
pub(crate) fn image(overlay: impl FnOnce(&Path)) -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let directory = own_directory("image");
        let tree = directory.join("overlay");
        std::fs::create_dir_all(&tree).expect("a directory");
        overlay(&tree);
        let build = repository("packaging/build");
        let mut build = Command::new(build);
        build
            .args(["--fast", "--programs"])
            .arg(stripped(&directory));
        succeed(build.arg("-o").arg(&directory).arg("deb"));
        let entries = std::fs::read_dir(&directory).expect("a directory");
        let package = entries
            .map(|entry| entry.expect("an entry").path())
            .find(|path| path.extension() == Some(OsStr::new("deb")))
            .expect("a package");
        let path = directory.join("image.img");
        let build = repository("packaging/image/build");
        let mut build = Command::new(build);
        build.arg("-o").arg(&path).arg("--package").arg(package);
        let said = succeed(build.arg("--overlay").arg(&tree).args(["--size", "1G"]));
        let numbers: Vec<u64> = said
            .split([' ', ',', '\n'])
            .filter_map(|word| word.parse().ok())
            .collect();
        let [at, length] = numbers[..] else {
            panic!("the build does not say where the root is: {said}")
        };
        Image {
            path,
            root: (at, length),
        }
    })
}

/// What a node has written over the image. Whatever QEMU has written there stays when QEMU dies.
///
/// A new cluster of a qcow2 file counts once the file's own tables are written, which QEMU does when the guest flushes:
/// what the guest has not flushed is lost with QEMU, in part or whole, as with the volatile cache of a disk.
pub(crate) struct Disk {
    directory: tempfile::TempDir,
    root: (u64, u64),
    seed: PathBuf,
}

impl Disk {
    /// A new node's disk; its cloud-init finds this user-data.
    pub(crate) fn new(image: &Image, user_data: &str) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("user-data"), user_data).expect("a file");
        let seed = at("seed.img");
        let mut command = Command::new(repository("packaging/image/seed"));
        succeed(command.arg("-o").arg(&seed).arg(at("user-data")));
        let mut command = Command::new("qemu-img");
        command.args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"]);
        succeed(command.arg(&image.path).arg(at("disk.qcow2")));
        Self {
            root: image.root,
            seed,
            directory,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Switches the machine on.
    pub(crate) fn boot(&self) -> Guest {
        self.boot_with(&[])
    }

    /// The same, with more of QEMU's options.
    pub(crate) fn boot_with(&self, options: &[&str]) -> Guest {
        let socket = self.path("second-serial-line");
        // Of an earlier boot.
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).expect("a socket");
        let mut process = Command::new(repository("packaging/image/boot"))
            .arg("--keep")
            .arg(self.path("disk.qcow2"))
            .arg(&self.seed)
            .arg("-chardev")
            .arg(format!("socket,id=facts,path={}", socket.display()))
            .args(["-serial", "chardev:facts"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("packaging/image/boot");
        let console = Arc::new(Mutex::new(String::new()));
        let output = process.stdout.take().expect("a pipe");
        let log = Arc::clone(&console);
        let (sender, closed) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            let _open = sender;
            each_line(output, |line| {
                log.lock().expect("a log").push_str(&(line + "\n"));
                true
            });
        });
        let (sender, facts) = mpsc::channel();
        std::thread::spawn(move || {
            if let Ok((stream, _)) = listener.accept() {
                each_line(stream, |line| sender.send(line).is_ok());
            }
        });
        Guest {
            process,
            console,
            closed,
            facts,
            deadline: Instant::now() + DEADLINE,
        }
    }

    /// Repairs the root file system as a boot does. After a cut that means replaying its journal, and nothing else may
    /// be wrong; then a full check must find nothing at all. Copies what lies below these directories to a directory of
    /// the host.
    pub(crate) fn read_back(&self, directories: &[&str]) -> tempfile::TempDir {
        let part = self.path("root.raw");
        let (at, length) = self.root;
        let source = format!(
            "driver=raw,offset={at},size={length},file.driver=qcow2,file.file.driver=file,file.file.filename={}",
            self.path("disk.qcow2").display()
        );
        let mut command = Command::new("qemu-img");
        command.args(["convert", "--image-opts", &source, "-O", "raw"]);
        succeed(command.arg(&part));
        let check = |options: &[&str]| {
            let output = Command::new("e2fsck").args(options).arg(&part).output();
            output.expect("e2fsck")
        };
        // Safe to repair without asking: the journal, and files that were deleted while open. 1 says that it was
        // repaired.
        let preened = check(&["-p"]);
        assert!(
            matches!(preened.status.code(), Some(0 | 1)),
            "{}",
            told(&preened)
        );
        let checked = check(&["-f", "-n"]);
        assert!(checked.status.success(), "{}", told(&checked));
        let copy = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        for directory in directories {
            let target = copy.path().join(directory.trim_start_matches('/'));
            let parent = target.parent().expect("an absolute path");
            std::fs::create_dir_all(parent).expect("directories");
            let mut command = Command::new("debugfs");
            let request = format!("rdump {directory} {}", parent.display());
            succeed(command.args(["-R", &request]).arg(&part));
        }
        std::fs::remove_file(part).expect("a file");
        copy
    }
}

/// Whole lines, until one is refused: a line that is unfinished when the power goes was not sent.
fn each_line(from: impl Read, mut to: impl FnMut(String) -> bool) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) && line.ends_with(b"\n") {
        let text = String::from_utf8_lossy(&line);
        if !to(text.trim_end_matches(['\n', '\r']).to_owned()) {
            return;
        }
        line.clear();
    }
}

/// A running machine. Dropping it cuts its power.
pub(crate) struct Guest {
    process: Child,
    console: Arc<Mutex<String>>,
    /// Closed with the first serial line.
    closed: Receiver<()>,
    facts: Receiver<String>,
    deadline: Instant,
}

impl Guest {
    /// The next line of its second serial line.
    pub(crate) fn next(&self) -> String {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.facts.recv_timeout(left) {
            Ok(line) => line,
            Err(why) => self.give_up(&format!(
                "waited without success for a line of the guest: {why}"
            )),
        }
    }

    /// Waits for a line of its second serial line that begins like this; returns the rest of it. The guest says
    /// `failed` when it cannot go on.
    pub(crate) fn wait_for(&self, begin: &str) -> String {
        loop {
            let line = self.next();
            if let Some(rest) = line.strip_prefix(begin) {
                return rest.trim().to_owned();
            }
            if line.starts_with("failed") {
                self.give_up(&line);
            }
        }
    }

    /// Waits until it has switched itself off; returns what its first serial line has shown.
    pub(crate) fn wait_off(mut self) -> String {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.closed.recv_timeout(left) {
            Err(RecvTimeoutError::Disconnected) => {}
            _ => self.give_up("the machine does not switch itself off"),
        }
        let status = self.process.wait().expect("QEMU's end");
        assert!(status.success(), "{status}: {}", self.console());
        self.console()
    }

    /// What its first serial line has shown.
    pub(crate) fn console(&self) -> String {
        self.console.lock().expect("a log").clone()
    }

    /// Pulls the plug; returns the lines that came before.
    pub(crate) fn cut(mut self) -> Vec<String> {
        self.kill();
        // The socket ends with QEMU, and with it the channel.
        self.facts.iter().collect()
    }

    /// Waits for the next line, at most this long.
    pub(crate) fn within(&self, time: Duration) -> Option<String> {
        self.facts.recv_timeout(time).ok()
    }

    fn kill(&mut self) {
        // SIGKILL: QEMU gets no chance to write anything.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn give_up(&self, why: &str) -> ! {
        panic!("{why}\n--- console\n{}", self.console());
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}
