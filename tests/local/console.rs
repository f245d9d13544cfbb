//! `windrow console` on a terminal: a real pseudo-terminal with the test at its other end.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use rustix::process::{PidfdFlags, pidfd_open};
use rustix::termios::tcsetwinsize;
use serde_json::{Value, json};
use windrow::observe::process;

use crate::support::person::Person;
use crate::support::wire::{OURS, wire};

/// Far longer than anything takes here: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(300);

/// What every whole screen begins with.
const WHOLE: &str = "\x1b[0m\x1b[H\x1b[2J";

struct Node {
    root: tempfile::TempDir,
    /// Stands in for the daemon that keeps the document.
    daemon: Child,
}

impl Node {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("run/windrow")).unwrap();
        let daemon = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        Self { root, daemon }
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("run/windrow/status.json")
    }

    /// Replaces the document as the daemon does.
    fn says(&self, readiness: &str, message: &str) {
        let writer = process::writer(self.daemon.id()).unwrap();
        let document: Value = json!({
            "apiVersion": "windrow.dev/v1", "kind": "Status", "generation": 1,
            "readiness": readiness, "phase": "staging", "since": "2026-03-01T12:00:00Z",
            "reason": {"code": "staging", "message": message}, "summary": message,
            "headline": readiness.replace("SettingUp", "Setting up"),
            "staging": {"total": 0, "held": [], "released": [], "applied": [], "failed": []},
            "findings": [], "versions": {"windrow": "0.1.0"}, "writer": writer,
        });
        let temporary = self.path().with_extension("new");
        fs::write(&temporary, document.to_string()).unwrap();
        fs::rename(temporary, self.path()).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
        command
            .arg("--root")
            .arg(self.root.path())
            .arg("console")
            .args(arguments)
            .env_remove("NO_COLOR")
            .env("TERM", "xterm");
        command
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

#[test]
fn a_change_of_the_document_is_shown_and_q_ends_with_the_terminal_as_it_was() {
    let node = Node::new();
    node.says("SettingUp", "the first reason");
    let mut person = Person::sits_down(node.command(&[]), 80, 25);
    person.sees("Setting up node");
    person.sees("the first reason");
    assert!(!person.terminal_is_as_before(), "it echoes keys");
    node.says("Ready", "another reason");
    person.sees("Ready");
    person.sees("another reason");
    person.types("?");
    person.sees("Help");
    person.types("\x1b");
    person.sees("Manifests");
    person.types("q");
    assert_eq!(person.waits(), Some(0));
    person.sees("\x1b[?25h");
    assert!(person.terminal_is_as_before());
}

#[test]
fn the_end_of_the_daemon_is_shown_at_once_and_its_return_too() {
    let mut node = Node::new();
    node.says("Ready", "fine");
    let mut person = Person::sits_down(node.command(&[]), 80, 25);
    person.sees("fine");
    node.daemon.kill().unwrap();
    person.sees("Unknown");
    person.sees("is gone");
    node.daemon.wait().unwrap();
    node.daemon = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    node.says("Ready", "fine again");
    person.sees("fine again");
}

#[test]
fn an_address_that_comes_is_shown_though_the_document_stays_the_same() {
    const NEW: &str = "198.51.100.7";
    let Some((here, _there)) = wire() else { return };
    let node = Node::new();
    // The links of this machine are those of the node.
    const BOOT: &str = "proc/sys/kernel/random/boot_id";
    let boot = node.root.path().join(BOOT);
    fs::create_dir_all(boot.parent().unwrap()).unwrap();
    fs::copy(Path::new("/").join(BOOT), boot).unwrap();
    node.says("Ready", "fine");
    let mut command = here.command(env!("CARGO_BIN_EXE_windrow"));
    command
        .arg("--root")
        .arg(node.root.path())
        .arg("console")
        .env_remove("NO_COLOR")
        .env("TERM", "xterm");
    let mut person = Person::sits_down(command, 200, 40);
    person.sees(OURS);
    here.sh(&format!("ip address add {NEW}/32 dev eth0"));
    person.sees(NEW);
}

#[test]
fn without_a_document_it_says_unknown_and_why_and_lives_on() {
    let node = Node::new();
    fs::remove_dir_all(node.root.path().join("run")).unwrap();
    let mut person = Person::sits_down(node.command(&[]), 200, 25);
    person.sees("Unknown");
    person.sees("there is no");
    fs::create_dir_all(node.root.path().join("run/windrow")).unwrap();
    fs::write(node.path(), "{\"apiVersion\": \"windrow.dev/v9\"").unwrap();
    person.sees("not a status document");
    node.says("SettingUp", "now it is there");
    person.sees("now it is there");
}

#[test]
fn another_size_gets_another_screen() {
    let node = Node::new();
    node.says("SettingUp", "a reason");
    let mut person = Person::sits_down(node.command(&[]), 80, 25);
    person.sees("\x1b[25;2H");
    tcsetwinsize(
        &person.slave,
        rustix::termios::Winsize {
            ws_row: 50,
            ws_col: 132,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )
    .unwrap();
    person.signals(Signal::SIGWINCH);
    person.sees(WHOLE);
    person.sees("\x1b[50;2H");
}

#[test]
fn on_a_console_that_is_all_there_is_q_does_not_end_it_and_sigterm_does() {
    let node = Node::new();
    node.says("SettingUp", "a reason");
    let mut person = Person::sits_down(node.command(&["--stay"]), 80, 25);
    person.sees("a reason");
    person.types("qq?");
    person.sees("Help");
    person.signals(Signal::SIGTERM);
    assert_eq!(person.waits(), Some(0));
    assert!(person.terminal_is_as_before());
}

#[test]
fn a_terminal_that_takes_nothing_holds_nothing_up() {
    let node = Node::new();
    node.says("SettingUp", "a reason");
    let mut person = Person::sits_down(node.command(&["--stay"]), 80, 25);
    person.sees("a reason");
    rustix::termios::tcflow(&person.slave, rustix::termios::Action::OOff).unwrap();
    node.says("SettingUp", "not on the screen");
    person.types("\t\t\t");
    person.signals(Signal::SIGTERM);
    assert_eq!(person.waits(), Some(0));
}

#[test]
fn a_document_that_changes_without_end_is_redrawn_twice_a_second_at_most() {
    let node = Node::new();
    node.says("SettingUp", "first");
    let begun = Instant::now();
    let mut person = Person::sits_down(node.command(&[]), 80, 25);
    person.sees("first");
    // This number of screens takes seconds on any machine; on a slow one it takes longer and counts more seconds.
    let mut screens = 0;
    while screens < 8 {
        assert!(begun.elapsed() < DEADLINE, "only {screens} screens");
        node.says("SettingUp", &format!("change {:?}", begun.elapsed()));
        while person.looks(PollTimeout::from(5_u8)) {}
        screens += person.seen.matches(WHOLE).count();
        person.seen.clear();
    }
    node.says("Ready", "last");
    person.sees("last");
    let most = 2 * (begun.elapsed().as_secs() + 1) + 1;
    assert!(
        screens as u64 <= most,
        "{screens} screens in {:?}",
        begun.elapsed()
    );
}

#[test]
fn a_terminal_without_a_cursor_to_place_gets_lines() {
    let node = Node::new();
    node.says("SettingUp", "a\u{1b}[2J reason");
    let mut command = node.command(&[]);
    command.env("TERM", "dumb");
    let mut person = Person::sits_down(command, 80, 25);
    person.sees("Setting up: a\\u{1b}[2J reason\r\n");
    node.says("Ready", "done");
    person.sees("Ready: done\r\n");
    assert!(!person.seen.contains('\x1b'));
}

#[test]
fn a_key_whose_bytes_come_in_two_reads_is_that_key() {
    let node = Node::new();
    node.says("SettingUp", "a reason");
    let mut person = Person::sits_down(node.command(&[]), 80, 25);
    person.sees("a reason");
    person.types("?");
    person.sees("Help");
    // The console reads 256 bytes at once.
    person.types(&format!("{}\x1b[B", "x".repeat(255)));
    // Only what changes is painted.
    person.sees("2-18");
}

#[test]
fn lines_end_when_nobody_reads_them_any_more() {
    let node = Node::new();
    node.says("SettingUp", "a reason");
    let mut command = node.command(&[]);
    command.env("TERM", "dumb").stdout(Stdio::piped());
    let mut console = command.spawn().unwrap();
    let mut reader = BufReader::new(console.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "Setting up: a reason\n");
    drop(reader);
    let pid = rustix::process::Pid::from_child(&console);
    let end = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    let mut ends = [PollFd::new(end.as_fd(), PollFlags::POLLIN)];
    let ended = poll(&mut ends, PollTimeout::try_from(DEADLINE).unwrap());
    let _ = console.kill();
    assert_eq!(ended, Ok(1), "it goes on");
    assert_eq!(console.wait().unwrap().code(), Some(3));
}

fn output(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn one_line_is_for_whoever_has_one_line() {
    let node = Node::new();
    node.says("SettingUp", &"a very long reason ".repeat(9));
    let once = output(node.command(&["--once"]));
    let line = String::from_utf8(once.stdout).unwrap();
    let is_whole = |line: &str| {
        let line = line.trim_end();
        (60..=65).contains(&line.chars().count())
            && line.starts_with("Setting up")
            && line.contains(": a very long reason")
    };
    assert!(is_whole(&line), "{line:?}");
    assert_eq!(once.status.code(), Some(3));
    let mut status = Command::new(env!("CARGO_BIN_EXE_windrow"));
    status.arg("--root").arg(node.root.path());
    status.args(["console", "--once"]);
    let line = String::from_utf8(output(status).stdout).unwrap();
    assert!(is_whole(&line), "{line:?}");
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let node = Node::new();
    let refused = output(node.command(&[]));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("windrow console --once"), "{message}");
    assert_eq!(refused.status.code(), Some(1));
    assert!(Path::new(&node.path()).parent().unwrap().exists());
}
