//! Level 3: known faults of dependencies are checked or reported as not checked, and workflows run fixed versions of actions.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use jiff::Timestamp;

const NOT_CHECKED: &str = "NOT CHECKED: advisories on dependencies (RUSTSEC): ";
/// Each tool that the scripts would start: it succeeds at once. `cargo test` reports one test.
const STAND_IN: &str =
    "#!/bin/sh\n[ \"$1\" != test ] || echo 'test result: ok. 1 passed; 0 failed;'\n";

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A machine without a network, whose tools are stand-ins.
struct Offline(tempfile::TempDir);

impl Offline {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for tool in [
            "bin/cargo",
            "bin/c++",
            "bin/python3",
            "cache/tools/bin/cargo-deny",
        ] {
            machine.tool(tool, STAND_IN);
        }
        machine
    }

    fn tool(&self, path: &str, script: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, script).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Output {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env(
                "PATH",
                format!("{}:{path}", self.0.path().join("bin").display()),
            )
            .env("WINDROW_CACHE", self.0.path().join("cache"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "url.file:///nowhere/.insteadOf")
            .env("GIT_CONFIG_VALUE_0", "https://github.com/");
        command.output().unwrap()
    }

    /// A copy of the database whose last change is this old.
    fn database(&self, days: i64) {
        let copy = self.0.path().join("cache/advisory-db");
        let copy = copy.to_str().unwrap();
        let day = Timestamp::now().as_second() - days * 24 * 60 * 60;
        let date = format!("GIT_COMMITTER_DATE=@{day} +0000");
        let commit = [
            "-C",
            copy,
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.com",
            "commit",
        ];
        let commit = [
            &commit[..],
            &["--quiet", "--allow-empty", "--message=advisories"],
        ]
        .concat();
        for arguments in [
            [&["git", "init", "--quiet", copy][..]].concat(),
            [&[&date, "git"][..], &commit].concat(),
        ] {
            let output = self.run("env", &arguments);
            assert!(output.status.success(), "{output:?}");
        }
    }

    /// The exit code of the check, and whether it reports that something is not checked.
    fn check(&self, arguments: &[&str]) -> (Option<i32>, bool) {
        let output = self.run(repository("tests/advisories"), arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        let reported = text.lines().any(|line| line.starts_with(NOT_CHECKED));
        (output.status.code(), reported)
    }
}

#[test]
fn a_check_of_advisories_that_is_required_fails_without_a_current_database() {
    let machine = Offline::new();
    assert_eq!(machine.check(&[]), (Some(0), true));
    assert_eq!(machine.check(&["--required"]), (Some(1), true));

    machine.database(15);
    assert_eq!(machine.check(&[]), (Some(0), true));
    assert_eq!(machine.check(&["--required"]), (Some(1), true));

    machine.database(0);
    assert_eq!(machine.check(&[]), (Some(0), false));
    assert_eq!(machine.check(&["--required"]), (Some(0), false));

    machine.tool(
        "bin/cargo",
        "#!/bin/sh\n[ \"$*\" != 'deny check advisories' ]\n",
    );
    assert_eq!(machine.check(&[]), (Some(1), false));
}

#[test]
fn a_run_without_a_database_of_advisories_says_so_in_its_last_lines() {
    let machine = Offline::new();
    let output = machine.run(repository("tests/run"), &["--level", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut last = text.lines().rev();
    let total = last.next().unwrap();
    assert!(total.starts_with("total: "), "{text}");
    let before = last.next().unwrap();
    assert!(before.starts_with(NOT_CHECKED), "{text}");
}

#[test]
fn every_action_of_a_workflow_is_pinned_to_a_commit_with_its_version() {
    let mut checked = 0;
    for folder in [".github/workflows", "packaging/ci/github"] {
        for entry in fs::read_dir(repository(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let steps = text.lines().map(str::trim_start);
            for step in steps.filter(|line| !line.starts_with('#')) {
                let Some((_, action)) = step.split_once("uses: ") else {
                    continue;
                };
                checked += 1;
                let pinned = action.split_once('@').is_some_and(|(_, version)| {
                    version.split_once(" # v").is_some_and(|(commit, _)| {
                        commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
                    })
                });
                let own = action.starts_with("./");
                assert!(own || pinned, "{}: {action}", path.display());
            }
        }
    }
    assert!(checked > 0, "no workflow uses an action");
}

/// On a node, the daemon is the only program of ours that runs all the time as root.
#[test]
fn the_daemon_depends_on_no_simulation_rack_or_user_interface() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "tree",
            "--locked",
            "--offline",
            "--package",
            "windrow-daemon",
        ])
        .args(["--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let tree = String::from_utf8(output.stdout).unwrap();
    let names: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(
        names.contains("windrow-decide") && names.len() > 50,
        "{tree}"
    );
    for unwanted in NOT_IN_THE_DAEMON {
        assert!(!names.contains(unwanted), "{unwanted}: {tree}");
    }
}

/// `windrow` is in neither list: its name is part of paths and messages of the daemon.
const NOT_IN_THE_DAEMON: &[&str] = &[
    "windrow-inputs",
    "windrow-apischema",
    "windrow-preflight",
    "windrow-replay",
    "windrow-simulate",
    "windrow-learn",
    "windrow-rack",
    "askama",
    "clap",
    "mail-parser",
    "ratatui-core",
    "redb",
    "simple-dns",
];

#[test]
fn the_daemons_program_has_no_code_of_the_command_line() {
    let has = |program: &str, name: &str| {
        // As a mangled symbol has it. An unoptimized search of 100 MB takes a minute, so grep does it.
        let symbol = format!("{}{}", name.len(), name.replace('-', "_"));
        let found = Command::new("grep")
            .args(["--quiet", "--text", "--fixed-strings", &symbol, program])
            .status();
        found.unwrap().success()
    };
    for name in NOT_IN_THE_DAEMON {
        assert!(has(env!("CARGO_BIN_EXE_windrow"), name), "{name}");
        assert!(!has(env!("CARGO_BIN_EXE_windrowd"), name), "{name}");
    }
    assert!(has(env!("CARGO_BIN_EXE_windrowd"), "windrow-daemon"));
}
