//! `windrow preflight`, whole: a machine that was read before, and this one.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A large machine, as `windrow preflight -o json` prints it. The rows are made again.
pub(super) const MACHINE: &str = r#"{
    "apiVersion": "windrow.dev/v1", "kind": "Preflight", "at": "2026-11-23T10:00:00Z",
    "platform": "harvester", "role": "server", "production": false, "verdict": "pass", "checks": [], "notChecked": [],
    "host": {
        "machine": {
            "hostname": "node1", "vendor": "Dell Inc.", "product": "PowerEdge R650", "serial": "7XK2J3A",
            "uuid": "4c4c4544-0058-4b10-8032-b7c04f4a3341", "architecture": "x86_64", "firmware": "uefi",
            "hypervisor": "none", "kvm": true},
        "cpus": {"model": "EPYC", "logical": 32, "cores": 16, "virtualisation": "svm"},
        "memory": {"total": 66000000000, "available": 60000000000, "installed": 68719476736,
            "modules": {"unknown": "not read"}},
        "disks": [{"name": "sda", "size": 960000000000, "kind": "nvme", "removable": false}],
        "links": [{"name": "ens3", "mac": "52:54:00:00:00:01", "physical": true, "state": "up", "speed": 10000,
            "mtu": 1500, "packets": 0, "errors": 0}]
    },
    "surroundings": {
        "ports": [], "defaultRoute": true,
        "fsync": {"directory": "/mnt", "writes": 1000, "p50Micros": 300, "p99Micros": 900, "maxMicros": 2000}
    }
}"#;

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn saved(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut machine: Value = serde_json::from_str(MACHINE).unwrap();
        change(&mut machine);
        let path = self.write("machine.json", &machine.to_string());
        path.display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_windrow"))
            .arg("--root")
            .arg(self.0.path())
            .arg("preflight")
            .args(arguments)
            .output()
            .unwrap()
    }

    /// The exit code and the outcome of a row.
    fn row(&self, check: &str, arguments: &[&str]) -> (i32, String, Value) {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["-o", "json"]).collect();
        let done = self.run(&arguments);
        let all: Value = serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|error| panic!("{error}: {done:?}"));
        let rows = all["checks"].as_array().unwrap();
        let row = rows.iter().find(|row| row["check"] == check).unwrap();
        let outcome = row["outcome"].as_str().unwrap().to_owned();
        (done.status.code().unwrap(), outcome, row.clone())
    }
}

#[test]
fn a_machine_that_has_all_is_fine_and_one_without_fails_with_the_figure_and_what_to_do() {
    let files = Files::new();
    let config = files.write(
        "node.yaml",
        "os: {hostname: node1}\ninstall: {mode: create, automatic: true, device: /dev/sda}\n",
    );
    let config = config.display().to_string();
    let fine = files.saved(|_| {});
    let done = files.run(&[&config, "--from", &fine]);
    let said = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("warn: No check failed."), "{said}");
    let small = files.saved(|machine| machine["host"]["cpus"]["logical"] = json!(6));
    let done = files.run(&[&config, "--from", &small]);
    let said = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(4), "{said}");
    assert!(
        said.contains("less than 8, the published minimum"),
        "{said}"
    );
    assert!(said.contains("fix: Check the firmware"), "{said}");
}

#[test]
fn what_counts_and_is_not_known_is_exit_5() {
    let files = Files::new();
    let saved = files.saved(|machine| {
        machine["host"]["memory"] = json!({"unknown": "it was not read"});
    });
    let (code, outcome, row) = files.row("memory", &["--platform", "harvester", "--from", &saved]);
    assert_eq!((code, outcome.as_str()), (5, "unknown"), "{row}");
    assert_eq!(row["unknown"][0], "it was not read");
}

#[test]
fn the_release_and_the_role_decide_what_is_asked() {
    let files = Files::new();
    let bios = files.saved(|machine| machine["host"]["machine"]["firmware"] = json!("bios"));
    let host = ["--from", bios.as_str()];
    let with = |more: &[&str]| {
        let arguments: Vec<&str> = host.iter().chain(more).copied().collect();
        files.row("firmware", &arguments).1
    };
    assert_eq!(with(&["--harvester", "v1.6.1"]), "pass");
    assert_eq!(with(&["--harvester", "v1.7.1"]), "warn");
    assert_eq!(with(&["--harvester", "v1.8.1"]), "fail");
    let worker = [
        "--platform",
        "harvester",
        "--role",
        "worker",
        "--from",
        &bios,
    ];
    assert_eq!(files.row("etcd-disk", &worker).1, "not-checked");
}

#[test]
fn wrong_use_is_64_and_a_broken_configuration_78_with_its_line() {
    let files = Files::new();
    let usage = files.run(&[]);
    assert_eq!(usage.status.code(), Some(64));
    let said = String::from_utf8(usage.stderr).unwrap();
    assert!(said.contains("--platform"), "{said}");
    let broken = files.write("broken.yaml", "install:\n  device: [\n");
    let done = files.run(&[&broken.display().to_string()]);
    assert_eq!(done.status.code(), Some(78));
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains("broken.yaml:"), "{said}");
    let other = files.write("pod.yaml", "apiVersion: v1\nkind: Pod\n");
    assert_eq!(
        files.run(&[&other.display().to_string()]).status.code(),
        Some(78)
    );
    let version = files.run(&["--harvester", "newest"]);
    assert_eq!(version.status.code(), Some(64));
    let witness = files.run(&["--platform", "rke2", "--role", "witness"]);
    assert_eq!(witness.status.code(), Some(64));
    let nonsense = files.write("host.json", "{}\n").display().to_string();
    let done = files.run(&["--platform", "rke2", "--from", &nonsense]);
    assert_eq!(done.status.code(), Some(64));
}

#[test]
fn this_machine_is_read_and_its_document_can_be_judged_again_elsewhere() {
    let files = Files::new();
    let program = env!("CARGO_BIN_EXE_windrow");
    let done = Command::new(program)
        .args(["preflight", "--platform", "rke2", "--offline", "-o", "json"])
        .output()
        .unwrap();
    let first: Value = serde_json::from_slice(&done.stdout).unwrap();
    let count = thread::available_parallelism().unwrap().get();
    let logical = first["host"]["cpus"]["logical"].as_u64().unwrap();
    assert!(logical >= count as u64, "{logical} of {count}");
    let saved = files.write("saved.json", &first.to_string());
    let again = Command::new(program)
        .args(["preflight", "--platform", "rke2", "-o", "json", "--from"])
        .arg(saved)
        .output()
        .unwrap();
    let second: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(second["host"], first["host"]);
    assert_eq!(second["checks"], first["checks"]);
    assert_eq!(again.status.code(), done.status.code());
}

#[test]
fn a_machine_that_was_read_is_judged_for_what_it_was_read_for_or_for_what_is_said() {
    let files = Files::new();
    let read_for_a_worker = files.saved(|machine| {
        machine["role"] = json!("worker");
        machine["version"] = json!("v1.6.1");
        machine["host"]["machine"]["firmware"] = json!("bios");
    });
    let row = |check: &str, more: &[&str]| {
        let host = ["--from", read_for_a_worker.as_str()];
        let arguments: Vec<&str> = host.iter().chain(more).copied().collect();
        files.row(check, &arguments).1
    };
    assert_eq!(row("etcd-disk", &[]), "not-checked");
    assert_eq!(row("etcd-disk", &["--role", "server"]), "pass");
    assert_eq!(row("firmware", &[]), "pass");
    assert_eq!(row("firmware", &["--harvester", "v1.8.1"]), "fail");
    // Of a worker of Harvester nothing follows for plain RKE2.
    assert_eq!(row("etcd-disk", &["--platform", "rke2"]), "pass");
}

#[test]
fn a_machine_that_was_read_for_a_worker_has_the_ports_of_a_server_too() {
    let files = Files::new();
    // 9345 is RKE2's supervisor's, which a worker does not have.
    let listens =
        "  0: 00000000:2481 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711";
    files.write("proc/net/tcp", &format!("  sl  local_address\n{listens}\n"));
    files.write("proc/net/udp", "  sl  local_address\n");
    let worker = ["--platform", "rke2", "--role", "worker", "--offline"];
    assert_eq!(files.row("ports-free", &worker).1, "pass");
    let read = files.run(&[&worker[..], &["-o", "json"]].concat());
    let read = files.write("worker.json", &String::from_utf8(read.stdout).unwrap());
    let read = read.display().to_string();
    assert_eq!(files.row("ports-free", &["--from", &read]).1, "pass");
    let (_, outcome, row) = files.row("ports-free", &["--from", &read, "--role", "server"]);
    assert_eq!(outcome, "fail", "{row}");
}

#[test]
fn writes_are_measured_where_one_says_and_leave_nothing_behind() {
    let files = Files::new();
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().display().to_string();
    let done = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args([
            "preflight",
            "--platform",
            "rke2",
            "--offline",
            "-o",
            "json",
            "--disk-test",
            &path,
        ])
        .output()
        .unwrap();
    let all: Value = serde_json::from_slice(&done.stdout).unwrap();
    let fsync = &all["surroundings"]["fsync"];
    match fsync["unknown"].as_str() {
        None => {
            assert_eq!(fsync["directory"], path.as_str());
            assert!(fsync["writes"].as_u64().unwrap() >= 100, "{fsync}");
        }
        Some(why) => assert!(
            why.contains("not measured") || why.contains("too few"),
            "{why}"
        ),
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    let worker = ["--platform", "rke2", "--role", "worker", "--offline"];
    assert_eq!(files.row("etcd-disk", &worker).1, "not-checked");
}

#[test]
fn a_name_server_that_is_no_address_fails() {
    let files = Files::new();
    let other = files.write(
        "other.yaml",
        "os: {hostname: node1, dnsNameservers: [nowhere]}\ninstall: {mode: create}\n",
    );
    let (code, names, row) = files.row(
        "name-servers",
        &[&other.display().to_string(), "--role", "worker"],
    );
    assert_eq!((code, names.as_str()), (4, "fail"), "{row}");
}

#[test]
fn of_another_machines_disk_no_server_is_said_to_be_missing_or_silent() {
    let files = Files::new();
    files.write(
        "oem/harvester.config",
        "os: {hostname: node1, dnsNameservers: [192.0.2.53], ntpServers: [0.suse.pool.ntp.org]}\n\
         serverUrl: https://192.0.2.10:443\ninstall: {mode: join, device: /dev/sda}\n",
    );
    for check in ["name-servers", "time-servers", "join", "etcd-disk"] {
        let (_, outcome, row) = files.row(check, &[]);
        assert_eq!(outcome, "unknown", "{row}");
        assert_eq!(row["unknown"][0], "not available with --root");
    }
}

/// Runs the script that stands before Harvester's installer, with stand-ins for `windrow`, `timeout` and `curl`.
fn before_installer(cmdline: &str, verdict: i32, curl_works: bool) -> (Output, String) {
    let timeout = "shift 4; exec \"$@\"";
    before_installer_with(timeout, cmdline, verdict, curl_works)
}

fn before_installer_with(
    timeout: &str,
    cmdline: &str,
    verdict: i32,
    curl_works: bool,
) -> (Output, String) {
    use std::os::unix::fs::PermissionsExt as _;
    let files = Files::new();
    let asked = files.0.path().join("asked");
    let program = |name: &str, script: String| {
        let path = files.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    program(
        "windrow",
        format!("echo \"$*\" >{}; exit {verdict}", asked.display()),
    );
    program("timeout", timeout.to_owned());
    let curl = match curl_works {
        true => "while [ $# -gt 1 ]; do [ \"$1\" = -o ] && echo os: {} >\"$2\"; shift; done",
        false => "exit 6",
    };
    program("curl", curl.to_owned());
    let path = format!(
        "{}:{}",
        files.0.path().join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let done = Command::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/packaging/harvester/installer/preflight-installer"
    ))
    .env("PATH", path)
    .env("WINDROW_CMDLINE", files.write("cmdline", cmdline))
    .env("WINDROW_PREFLIGHT_FILE", files.0.path().join("node.yaml"))
    .stdin(std::process::Stdio::null())
    .output()
    .unwrap();
    assert!(!files.0.path().join("node.yaml").exists());
    (done, fs::read_to_string(asked).unwrap_or_default())
}

#[test]
fn before_the_installer_only_a_machine_that_fails_waits_for_a_person() {
    let live = "cdroot root=live:CDLABEL=COS_LIVE console=tty1\n";
    for (verdict, goes_on) in [(0, true), (5, true), (4, false), (1, true), (64, true)] {
        let (done, asked) = before_installer(live, verdict, true);
        // There is no person at the terminal: standard input is at its end.
        assert_eq!(done.status.success(), goes_on, "{verdict}: {done:?}");
        assert_eq!(asked, "preflight --platform harvester\n");
    }
    let warn = format!("{} windrow.preflight=warn\n", live.trim());
    assert!(before_installer(&warn, 4, true).0.status.success());
}

#[test]
fn before_the_installer_a_preflight_that_hangs_is_given_up() {
    let live = "root=live:CDLABEL=COS_LIVE\n";
    let given_up = "echo \"$*\" >&2; exit 124";
    let (done, asked) = before_installer_with(given_up, live, 4, true);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(asked, "");
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(
        said,
        "--foreground -k 10 120 windrow preflight --platform harvester\n"
    );
}

#[test]
fn before_the_installer_the_configuration_of_the_command_line_counts_where_it_can_be_fetched() {
    let with = "root=live:CDLABEL=COS_LIVE harvester.install.config_url=http://10.0.0.1/n.yaml\n";
    let (_, asked) = before_installer(with, 0, true);
    assert!(
        asked.starts_with("preflight /") && asked.ends_with("node.yaml\n"),
        "{asked}"
    );
    let (_, asked) = before_installer(with, 0, false);
    assert_eq!(asked, "preflight --platform harvester\n");
    for installed in [
        "root=LABEL=COS_STATE rd.cos.debugrw\n",
        "x windrow.preflight=off\n",
    ] {
        let (done, asked) = before_installer(installed, 4, true);
        assert!(done.status.success());
        assert_eq!(asked, "", "{installed}");
    }
}
