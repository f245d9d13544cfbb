//! A test machine: systemd as PID 1 of a container, over the root that `tests/machine/build-root` made.
//!
//! Knows how a machine is put together, started, inspected and ended, but nothing of Windrow. A machine ends with its
//! value, or, if this process dies, with the pipe that it holds (`tests/machine/boot`). A wait is always for something
//! visible: each new line in the machine's journal is a reason to look again.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Far longer than anything takes here: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(600);
/// The longest wait between two looks when the journal is silent.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Names a program to test instead of the one just built.
const PROGRAM: &str = "WINDROW_MACHINE_PROGRAM";

/// Why machines cannot be booted here, in one line; `None` when they can.
pub(crate) fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("booting a machine needs root".to_owned());
    }
    if Command::new("systemd-nspawn")
        .arg("--version")
        .output()
        .is_err()
        || root().is_none()
    {
        return Some("no machine to boot: run tests/machine/build-root once".to_owned());
    }
    None
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

/// A line for the person who runs the tests; `println!` would be hidden while the tests pass.
pub(crate) fn say(line: &str) {
    writeln!(std::io::stderr(), "{line}").expect("standard error is open");
}

/// A file of this repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The programs on a node.
const INSTALLED: [&str; 2] = ["/usr/bin/windrow", "/usr/bin/windrowd"];

/// The command line under test: the one just built, or the one that `WINDROW_MACHINE_PROGRAM` names (a release build, say).
pub(crate) fn program() -> PathBuf {
    std::env::var_os(PROGRAM).map_or_else(|| env!("CARGO_BIN_EXE_windrow").into(), PathBuf::from)
}

/// Both programs under test: the daemon lies beside the command line.
pub(crate) fn programs() -> [PathBuf; 2] {
    [program(), program().with_file_name("windrowd")]
}

/// A directory with both programs, without their debug information, as `packaging/build --programs` takes it.
pub(crate) fn stripped(directory: &Path) -> PathBuf {
    let place = directory.join("programs");
    std::fs::create_dir(&place).expect("a directory");
    for program in programs() {
        let name = program.file_name().expect("a name");
        let strip = Command::new("strip")
            .arg("-o")
            .arg(place.join(name))
            .arg(&program)
            .output();
        let strip = strip.expect("strip");
        assert!(strip.status.success(), "{strip:?}");
    }
    place
}

fn root() -> Option<PathBuf> {
    let output = Command::new(repository("tests/machine/build-root"))
        .arg("--path")
        .output()
        .ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(path.trim()))
}

/// A machine that is being put together.
pub(crate) struct Builder {
    directory: tempfile::TempDir,
    binds: Vec<(PathBuf, String)>,
}

impl Builder {
    /// A bare machine: Debian, systemd, cloud-init without a seed.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for name in ["files", "mounts"] {
            std::fs::create_dir(directory.path().join(name)).expect("a directory for the machine");
        }
        Self {
            directory,
            binds: Vec::new(),
        }
    }

    /// A machine with a network and a stand-in for RKE2, which is not enabled.
    pub(crate) fn rke2() -> Self {
        Self::new()
            .unit_of("tests/machine/rke2-server.service")
            .copy("tests/machine/rke2", "/usr/local/bin/rke2")
            .unit_of("tests/machine/network.service")
            .enabled("network.service")
    }

    /// The same with Windrow installed, both enabled: as the package does it, but with the program just built.
    pub(crate) fn node() -> Self {
        Self::rke2()
            .programs()
            .unit_of("systemd/windrow-failsafe.service")
            .unit_of("systemd/windrow-ready.service")
            .unit_of("systemd/windrow-ready.target")
            .unit_of("systemd/windrow-retry.timer")
            .unit_of("systemd/windrow.service")
            .copy("systemd/prepare", "/usr/lib/windrow/prepare")
            .copy("systemd/not-running", "/usr/lib/windrow/not-running")
            .copy(
                "systemd/windrow.tmpfiles",
                "/usr/lib/tmpfiles.d/windrow.conf",
            )
            .copy("systemd/before-rke2", "/usr/lib/windrow/before-rke2")
            .copy("systemd/failsafe", "/usr/lib/windrow/failsafe")
            .copy(
                "systemd/orphans/windrow-orphans.service",
                "/usr/lib/windrow/windrow-orphans.service",
            )
            .copy(
                "config/dbus/dev.windrow.Agent1.conf",
                "/usr/share/dbus-1/system.d/dev.windrow.Agent1.conf",
            )
            .copy(
                "config/polkit/dev.windrow.policy",
                "/usr/share/polkit-1/actions/dev.windrow.policy",
            )
            .copy(
                "systemd/50-windrow-gates.conf",
                "/usr/lib/systemd/system/rke2-server.service.d/50-windrow-gates.conf",
            )
            .enabled("windrow.service")
            .enabled("rke2-server.service")
    }

    fn place(&self, path: &str) -> PathBuf {
        let place = self
            .directory
            .path()
            .join("files")
            .join(path.trim_start_matches('/'));
        let parent = place.parent().expect("an absolute path");
        std::fs::create_dir_all(parent).expect("directories in the machine");
        place
    }

    /// A file of the machine.
    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.place(path), content).expect("a file in the machine");
        self
    }

    /// An executable file of the machine.
    pub(crate) fn script(self, path: &str, content: &str) -> Self {
        let builder = self.file(path, content);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(builder.place(path), mode).expect("a mode");
        builder
    }

    /// A copy of a file of this repository, with its mode.
    pub(crate) fn copy(self, source: &str, path: &str) -> Self {
        std::fs::copy(repository(source), self.place(path)).expect("a file of the repository");
        self
    }

    /// A unit of this repository, installed.
    fn unit_of(self, source: &str) -> Self {
        let name = Path::new(source).file_name().expect("a unit's name");
        let path = format!("/usr/lib/systemd/system/{}", name.to_string_lossy());
        self.copy(source, &path)
    }

    /// A drop-in for a unit.
    pub(crate) fn drop_in(self, unit: &str, content: &str) -> Self {
        self.file(&format!("/etc/systemd/system/{unit}.d/test.conf"), content)
    }

    /// Enables a unit that multi-user.target wants.
    pub(crate) fn enabled(self, unit: &str) -> Self {
        let link = self.place(&format!(
            "/etc/systemd/system/multi-user.target.wants/{unit}"
        ));
        symlink(format!("/usr/lib/systemd/system/{unit}"), link).expect("a link to the unit");
        self
    }

    /// Leaves a unit installed and not enabled.
    pub(crate) fn disabled(self, unit: &str) -> Self {
        let link = self.place(&format!(
            "/etc/systemd/system/multi-user.target.wants/{unit}"
        ));
        std::fs::remove_file(link).expect("a unit that was enabled");
        self
    }

    /// The machine without this file.
    pub(crate) fn removed(self, path: &str) -> Self {
        std::fs::remove_file(self.place(path)).expect("a file of the machine");
        self
    }

    /// A file or directory of the host, seen read-only in the machine; nothing is copied.
    pub(crate) fn bind(mut self, source: PathBuf, path: &str) -> Self {
        self.binds.retain(|(_, known)| known != path);
        self.binds.push((source, path.to_owned()));
        self
    }

    /// Windrow's programs, seen read-only.
    pub(crate) fn programs(self) -> Self {
        let pairs = programs().into_iter().zip(INSTALLED);
        pairs.fold(self, |machine, (program, path)| machine.bind(program, path))
    }

    /// Copies of Windrow's programs, which can be removed while the machine runs.
    pub(crate) fn programs_copied(mut self) -> Self {
        for (program, path) in programs().into_iter().zip(INSTALLED) {
            self.binds.retain(|(_, known)| known != path);
            std::fs::copy(program, self.place(path)).expect("the program");
        }
        self
    }

    /// Another program instead of each of Windrow's.
    pub(crate) fn programs_replaced(mut self, content: &str) -> Self {
        for path in INSTALLED {
            self.binds.retain(|(_, known)| known != path);
            self = self.script(path, content);
        }
        self
    }

    /// The user-data that cloud-init finds (a NoCloud seed).
    pub(crate) fn user_data(self, user_data: &str) -> Self {
        self.file(
            "/var/lib/cloud/seed/nocloud/meta-data",
            "instance-id: test\n",
        )
        .file("/var/lib/cloud/seed/nocloud/user-data", user_data)
    }

    /// Starts it. Returns when its systemd answers, before the boot is complete.
    pub(crate) fn boot(self) -> Machine {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "windrow-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let directory = self.directory;
        let socket_path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&socket_path).expect("a notify socket");
        let leaders = leaders(socket);
        let log = directory.path().join("console");
        let console = std::fs::File::create(&log).expect("a file for the console");
        let mut command = Command::new(repository("tests/machine/boot"));
        command
            .arg(&name)
            .arg(root().expect("a root; `skipped` is asked first"))
            .arg(directory.path().join("files"))
            .arg(directory.path().join("mounts"));
        for (source, path) in &self.binds {
            command.arg(format!("--bind-ro={}:{path}", source.display()));
        }
        let mut supervisor = command
            .env("NOTIFY_SOCKET", &socket_path)
            .stdin(Stdio::piped())
            .stdout(console.try_clone().expect("a second handle"))
            .stderr(console)
            .spawn()
            .expect("tests/machine/boot");
        let lifeline = supervisor.stdin.take();
        let mut machine = Machine {
            leader: 0,
            supervisor,
            lifeline,
            leaders,
            log,
            directory,
        };
        machine.await_systemd();
        machine
    }
}

/// Reads nspawn's messages to the supervisor as long as there are any. All of them have to be read: ten unread
/// datagrams block nspawn, which passes on the messages of PID 1, and with it PID 1.
fn leaders(socket: UnixDatagram) -> Receiver<u32> {
    let (sender, leaders) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length) = socket.recv(&mut buffer) {
            let message = String::from_utf8_lossy(&buffer[..length]);
            let leader = message
                .lines()
                .find_map(|line| line.strip_prefix("X_NSPAWN_LEADER_PID="));
            if let Some(leader) = leader.and_then(|pid| pid.parse().ok()) {
                // When the test is over, no one waits for it.
                let _ = sender.send(leader);
            }
        }
    });
    leaders
}

/// A running machine. It ends when this is dropped.
pub(crate) struct Machine {
    leader: u32,
    supervisor: Child,
    lifeline: Option<ChildStdin>,
    /// Process ids of PID 1, one for each boot.
    leaders: Receiver<u32>,
    log: PathBuf,
    directory: tempfile::TempDir,
}

impl Machine {
    /// Reboots it: what was written stays, as on a disk. Returns when the new boot's systemd answers.
    pub(crate) fn reboot(&mut self) {
        // Its answer may be lost with the machine.
        self.run(&["systemctl", "reboot", "--no-block"]);
        self.await_systemd();
    }

    fn await_systemd(&mut self) {
        self.leader = self.await_leader();
        let answer = ["systemctl", "show", "--property=Version"];
        self.wait_until("systemd answers", |machine| {
            machine.run(&answer).status.success()
        });
    }

    /// The leader's process id comes at once. The supervisor's death is the other possible event.
    fn await_leader(&mut self) -> u32 {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Ok(leader) = self.leaders.recv_timeout(LOOK_AGAIN) {
                return leader;
            }
            let ended = self.supervisor.try_wait().expect("the supervisor's state");
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "the machine did not start: {}",
                self.console()
            );
        }
    }

    /// The output of nspawn and of the machine's console.
    pub(crate) fn console(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg("--target")
            .arg(self.leader.to_string())
            // The namespace of its PID 1: a path would be looked up on the host.
            .args(["--all", "--wd", "--"])
            .args(arguments)
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .stdin(Stdio::null());
        command
    }

    /// Runs a command in the machine as root.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("nsenter")
    }

    /// Runs a command that must succeed; returns its output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        if !output.status.success() {
            self.give_up(format!("{arguments:?} failed: {output:?}"));
        }
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Runs a shell script that must succeed.
    pub(crate) fn sh(&self, script: &str) -> String {
        self.ok(&["sh", "-euc", script])
    }

    /// A path in the machine as the host sees it.
    pub(crate) fn inside(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.leader))
    }

    /// The main process of a unit by the host's count, once it has stopped itself.
    pub(crate) fn stopped(&self, unit: &str) -> Option<i32> {
        let main = self.unit(unit, "MainPID");
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let ours = namespace(&self.leader.to_string())?;
        let pids = std::fs::read_dir("/proc").ok()?.flatten();
        pids.filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|pid| namespace(pid).is_some_and(|namespace| namespace == ours))
            .find(|pid| {
                let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
                let status = status.unwrap_or_default();
                let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
                of("NSpid:").and_then(|pids| pids.split_whitespace().last()) == Some(main.as_str())
                    && of("State:").is_some_and(|state| state.trim().starts_with('T'))
            })?
            .parse()
            .ok()
    }

    /// A file's content, if there is such a file.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.inside(path)).ok()
    }

    /// Is there anything at this path?
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.inside(path).symlink_metadata().is_ok()
    }

    /// Puts a file in place as a careful writer does: RKE2 never sees half of it.
    pub(crate) fn write(&self, path: &str, content: &str) {
        let target = self.inside(path);
        let parent = target.parent().expect("an absolute path");
        std::fs::create_dir_all(parent).expect("directories in the machine");
        let half = parent.join(".half");
        std::fs::write(&half, content).expect("a file in the machine");
        std::fs::rename(half, target).expect("a rename in the machine");
    }

    /// One property of a unit.
    pub(crate) fn unit(&self, unit: &str, property: &str) -> String {
        self.ok(&[
            "systemctl",
            "show",
            "--value",
            &format!("--property={property}"),
            unit,
        ])
    }

    /// A time property of a unit, in microseconds of the machine's monotonic clock; zero when it was never reached.
    pub(crate) fn monotonic(&self, unit: &str, property: &str) -> u64 {
        let value = self.unit(unit, &format!("{property}Monotonic"));
        value.parse().expect("microseconds")
    }

    /// Waits until a unit's ActiveState is this.
    pub(crate) fn wait_unit(&self, unit: &str, state: &str) {
        self.wait_until(format!("{unit} is {state}"), |machine| {
            machine.unit(unit, "ActiveState") == state
        });
    }

    /// Waits until the boot is complete.
    pub(crate) fn wait_booted(&self) {
        self.wait_until("the boot is complete", |machine| {
            let output = machine.run(&["systemctl", "is-system-running"]);
            let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            matches!(state.as_str(), "running" | "degraded")
        });
    }

    /// Journal entries; `arguments` as journalctl's.
    pub(crate) fn journal(&self, arguments: &[&str]) -> Vec<Value> {
        let mut command = vec!["journalctl", "--no-pager", "--all", "--output=json"];
        command.extend(arguments);
        self.ok(&command)
            .lines()
            .map(|line| serde_json::from_str(line).expect("a journal entry"))
            .collect()
    }

    /// Waits until the journal has a message that contains `text`; `arguments` as journalctl's.
    pub(crate) fn wait_journal(&self, arguments: &[&str], text: &str) {
        self.wait_until(format!("the journal says {text:?}"), |machine| {
            machine.journal(arguments).iter().any(|entry| {
                entry["MESSAGE"]
                    .as_str()
                    .is_some_and(|message| message.contains(text))
            })
        });
    }

    /// Looks until `seen` is true: at once, at every new journal line, and a few times a second without one. Panics with the
    /// end of the journal when it never is.
    pub(crate) fn wait_until(&self, what: impl Display, mut seen: impl FnMut(&Self) -> bool) {
        self.wait_for(what, |machine| seen(machine).then_some(()));
    }

    /// The same for something that has a value once it exists.
    pub(crate) fn wait_for<T>(
        &self,
        what: impl Display,
        mut seen: impl FnMut(&Self) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + DEADLINE;
        if let Some(value) = seen(self) {
            return value;
        }
        let mut follower = Follower::new(self);
        loop {
            follower.next();
            if let Some(value) = seen(self) {
                return value;
            }
            if Instant::now() > deadline {
                self.give_up(format!("waited without success: {what}"));
            }
        }
    }

    /// Panics with what an engineer would look at first.
    pub(crate) fn give_up(&self, why: String) -> ! {
        let journal = self.run(&[
            "journalctl",
            "--no-pager",
            "--lines=80",
            "--output=short-monotonic",
        ]);
        let failed = self.run(&["systemctl", "--failed", "--no-pager", "--no-legend"]);
        panic!(
            "{why}\n--- failed units\n{}--- console\n{}\n--- journal\n{}",
            String::from_utf8_lossy(&failed.stdout),
            self.console(),
            String::from_utf8_lossy(&journal.stdout)
        );
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // `boot` waits for the end of the pipe; it takes the machine and its mounts along.
        drop(self.lifeline.take());
        let _ = self.supervisor.wait();
    }
}

/// `journalctl --follow` in a machine, as a source of reasons to look again.
struct Follower {
    process: Child,
    lines: Receiver<()>,
}

impl Follower {
    fn new(machine: &Machine) -> Self {
        // The mount namespace alone: with the others nsenter would fork, and journalctl outlive it.
        let mut process = Command::new("nsenter")
            .arg("--target")
            .arg(machine.leader.to_string())
            .args(["--mount", "--wd=/", "--"])
            .args(["journalctl", "--follow", "--lines=0", "--output=cat"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("nsenter");
        let (sender, lines) = mpsc::channel();
        if let Some(output) = process.stdout.take() {
            std::thread::spawn(move || {
                for _ in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(()).is_err() {
                        break;
                    }
                }
            });
        }
        Self { process, lines }
    }

    /// Returns at the next line, or a little later; lines that came together are one reason.
    fn next(&mut self) {
        match self.lines.recv_timeout(LOOK_AGAIN) {
            Ok(()) => while self.lines.try_recv().is_ok() {},
            Err(RecvTimeoutError::Timeout) => {}
            // journalctl has ended, as it does before journald is up. Restarting it would spin, so look at intervals.
            Err(RecvTimeoutError::Disconnected) => std::thread::park_timeout(LOOK_AGAIN),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
