//! Level 3: how files are opened. The tree of another machine, and a file that a user names, may have anything in the place of a
//! regular file.
//!
//! All code uses `crates/daemon/src/fs.rs`, which knows the dangers, and not `std::fs`. The search is textual.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::effects;
use crate::support::rooted::root_for;

/// Files that verbs read, below the root of the node.
pub(crate) const READ: &[&str] = &[
    "etc/hostname",
    "etc/machine-id",
    "etc/os-release",
    "etc/harvester-release.yaml",
    "etc/rancher/rancherd/config.yaml",
    "etc/rancher/rke2/config.yaml",
    "etc/rancher/rke2/config.yaml.d/50.yaml",
    "etc/rancher/rke2/registries.yaml",
    "etc/rancher/rke2/rke2.yaml",
    "etc/windrow/windrow.yaml",
    "etc/windrow/conf.d/50.yaml",
    "etc/windrow/rules.d/50.yaml",
    "oem/90_custom.yaml",
    "oem/harvester.config",
    "proc/cmdline",
    "proc/mounts",
    "proc/net/arp",
    "proc/net/route",
    "proc/sys/kernel/hostname",
    "proc/sys/kernel/random/boot_id",
    "proc/version",
    "run/windrow/sandbox-time.json",
    "run/windrow/status.json",
    "sys/class/dmi/id/product_serial",
    "usr/lib/systemd/system/rke2-server.service",
    "usr/local/bin/rke2",
    "var/lib/rancher/rke2/agent/client-kubelet.crt",
    "var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "var/lib/rancher/rke2/server/db/etcd/name",
    "var/lib/rancher/rke2/server/manifests/a.yaml",
    "var/lib/rancher/rke2/server/manifests/a.yaml.skip",
    "var/lib/rancher/rke2/server/tls/server-ca.crt",
    "var/lib/rancher/windrow/flight.jsonl",
    "var/lib/rancher/windrow/gates/trial.json",
    "var/lib/rancher/windrow/ledger.json",
    "var/log/pods/kube-system_kube-apiserver-n1_1/kube-apiserver/0.log",
];

pub(crate) const VERBS: &[&str] = &[
    "report --output-file r.tgz --with-manifests",
    "status",
    "timeline",
    "plan",
    "plan --rules special",
    "check .",
    "check special/a.yaml",
    "add special/a.yaml",
    "replay special/a.yaml",
    "timeline --from special/a.yaml",
    "knowledge learn special/a.yaml",
    "knowledge show special/a.yaml",
    "why a.yaml",
    "diagnose",
    "diagnose --from special",
    "upgrade-check --from special/a.json",
    "config show",
    "config check",
    "gates check",
    "gates check special",
    "hold a.yaml",
    "release a.yaml",
    "preflight --offline",
    "console --once",
    "check --details special/a.yaml",
    "cleanup",
];

/// What is put in the place of a file, if the test may make it.
fn special(kind: &str, path: &Path) -> bool {
    let made = match kind {
        "a FIFO" => Command::new("mkfifo").arg(path).status(),
        "a link to a device" => return symlink("/dev/zero", path).is_ok(),
        _ => Command::new("mknod")
            .arg(path)
            .args(["c", "1", "5"])
            .status(),
    };
    made.is_ok_and(|status| status.success())
}

#[test]
fn no_verb_hangs_or_fills_the_memory_at_a_special_file() {
    for kind in ["a FIFO", "a link to a device", "a device"] {
        let root = tempfile::tempdir().unwrap();
        let named = ["special/a.yaml", "special/a.json"];
        for path in READ.iter().chain(&named) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if !special(kind, &path) {
                eprintln!("skipped: this user cannot make {kind}");
                break;
            }
        }
        for verb in VERBS {
            let words: Vec<&str> = verb.split(' ').collect();
            // An address space of 2 GB, and a time that no verb needs.
            let output = Command::new("sh")
                .args(["-c", "ulimit -v 2000000; exec timeout 60 \"$@\"", "sh"])
                .arg(env!("CARGO_BIN_EXE_windrow"))
                .args(root_for(".", &words))
                .args(&words)
                .current_dir(root.path())
                .output()
                .unwrap();
            let ended = output.status.code().is_some_and(|code| code < 100);
            assert!(ended, "{kind}, windrow {verb}: {output:?}");
        }
    }
}

/// Functions that are not to be called with a path, types through which they could be, and methods of a path that call them.
const FORBIDDEN: &[&str] = &[
    "std::fs::",
    "std::fs;",
    "std::{fs",
    "File::open(",
    "File::create",
    "File::options(",
    "tokio::fs",
    "statvfs::statvfs",
    "tempfile_in(",
    "tempdir_in(",
    "add_watch(",
    "fcntl::{OFlag, open",
    "openat(",
    ".exists()",
    ".try_exists()",
    ".canonicalize()",
    ".read_link()",
    ".read_dir()",
    ".symlink_metadata()",
    ".is_dir()",
    ".is_file()",
    ".metadata()",
];

/// What a line has if it calls no such function with a path of its own.
const HARMLESS: &[&str] = &[
    // A file that is open, and metadata.
    "file.metadata()?.is_file()",
    "symlink_metadata(path)?.is_file()",
    "file.metadata()",
    "file_type().map_err(unreadable)?.is_dir()",
    "entry.metadata()",
    "event.metadata()",
    "file_type()?.is_dir()",
    "file_type()?.is_file()",
    "found.is_",
    "kind.is_",
    "sort.is_",
    "metadata.is_",
    "behind.is_",
    "length.is_",
];

/// The exceptions: the module itself, one device, and what lies below a directory that is open.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/daemon/src/fs.rs", ""),
    ("crates/daemon/src/fs/tree.rs", ""),
    ("crates/daemon/src/fs/unlinked.rs", ""),
    (
        "crates/daemon/src/act/directory.rs",
        "use nix::fcntl::{OFlag, open, openat};",
    ),
    (
        "crates/daemon/src/act/directory.rs",
        "openat(at, part, flags",
    ),
    (
        "crates/daemon/src/act/marker_files.rs",
        "openat(directory.fd(), ",
    ),
    ("crates/daemon/src/act/markers.rs", "openat(place.fd(), "),
    ("src/inspect/disk_timing.rs", "tempfile_in(inside)"),
    ("src/cli/follow.rs", "resolved.as_ref()"),
    ("crates/daemon/src/files.rs", ".tempfile_in(directory)"),
    (
        "crates/daemon/src/report/flight.rs",
        "std::fs::File::open(\"/dev/urandom\")",
    ),
];

#[test]
fn every_module_opens_files_through_one() {
    let mut wrong = Vec::new();
    for file in effects::sources() {
        let is_test = ["tests", "testing", "hostile.rs"];
        let opens_files = ["src/", "crates/daemon/src/"];
        if !opens_files.iter().any(|part| file.starts_with(part))
            || is_test.iter().any(|part| file.contains(part))
        {
            continue;
        }
        let text = effects::read(&file);
        let without_tests = text
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap_or_default();
        for (number, line) in without_tests.lines().enumerate() {
            let line = line.trim();
            let harmful = HARMLESS
                .iter()
                .fold(line.to_owned(), |line, part| line.replace(part, ""));
            let is_forbidden = FORBIDDEN.iter().any(|name| harmful.contains(name));
            let is_allowed = ALLOWED
                .iter()
                .any(|(allowed, part)| file == *allowed && line.contains(part));
            if is_forbidden && !is_allowed && !line.starts_with("//") {
                wrong.push(format!("{file}:{}: {line}", number + 1));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "use crate::fs instead:\n{}",
        wrong.join("\n")
    );
}
