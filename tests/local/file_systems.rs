//! Level 3: the manifests directory behind links and mounts, replaced, and removed and made again, on a disk and on tmpfs.
//!
//! The daemon has its own mount namespace, in which each step is done. Its regular rescan is an hour away: a marker comes
//! from an event, or the status says that the directory is not watched.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{Daemon, Node, can_mount};

use crate::support::daemon as support;

/// Waits for a kind that nothing brings.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";
/// `$M` is the manifests directory, and `$R` RKE2's; each script begins in the root of the node.
const MANIFESTS: &str = "var/lib/rancher/rke2/server/manifests";
const RKE2: &str = "var/lib/rancher/rke2";
/// The daemon removes and makes markers meanwhile.
const REMOVE: &str = "until rm -rf $M 2>/dev/null; do :; done";

/// A daemon on a prepared file system.
struct Staged {
    node: Node,
    daemon: Daemon,
}

impl Staged {
    /// `None`, after a line that says so, if mounting is not allowed.
    fn after(preparation: &str) -> Option<Self> {
        can_mount().then(|| Self::within(&["--mount"], preparation))
    }

    fn within(namespaces: &[&str], preparation: &str) -> Self {
        let node = Node::with(&[]);
        let mut command = Command::new("unshare");
        let script = format!("{preparation}\nexec \"$@\"");
        command
            .args(namespaces)
            .args(["sh", "-ec", &script, "sh"])
            .arg(env!("CARGO_BIN_EXE_windrowd"))
            .current_dir(node.root.path())
            .envs([("M", MANIFESTS), ("R", RKE2)]);
        let daemon = node.start_with(command, true);
        daemon.hear("READY=1");
        let staged = Self { node, daemon };
        staged.marks_new_files("start");
        staged
    }

    fn step(&self, name: &str, script: &str) {
        let done = Command::new("nsenter")
            .arg(format!("--target={}", self.daemon.child.id()))
            .args(["--mount", "sh", "-ec"])
            .arg(format!("cd \"$ROOT\"\n{script}"))
            .env("ROOT", self.node.root.path())
            .envs([("M", MANIFESTS), ("R", RKE2)])
            .output()
            .unwrap();
        assert!(done.status.success(), "{name}: {done:?}");
        self.marks_new_files(name);
    }

    /// A path as the daemon sees it.
    fn path(&self, below: &str) -> PathBuf {
        let root = self.node.root.path().join(below);
        let root = root.strip_prefix("/").unwrap();
        Path::new(&format!("/proc/{}/root", self.daemon.child.id())).join(root)
    }

    /// The last of these files cannot be found by a scan that the step caused.
    fn marks_new_files(&self, step: &str) {
        for number in 0..3 {
            let file = self.path(MANIFESTS).join(format!("{step}-{number}.yaml"));
            fs::write(&file, WIDGET).unwrap();
            let marker = file.with_extension("yaml.skip");
            let what = format!("the marker of {}", file.display());
            self.daemon.until(&what, || marker.exists());
        }
    }
}

#[test]
fn new_files_are_held_in_a_linked_directory_and_after_the_link_has_changed() {
    let Some(staged) = Staged::after("rmdir $M; mkdir one two; ln -s ../../../../../one $M") else {
        return;
    };
    staged.step("relinked", "ln -s ../../../../../two new; mv -T new $M");
    staged.step("removed", "rm $M; mkdir $M");
    staged.step("linked", &format!("{REMOVE}; ln -s ../../../../../one $M"));
    staged.step(
        "target",
        "until rm -rf one 2>/dev/null; do :; done; mkdir one",
    );
}

#[test]
fn new_files_are_held_in_a_directory_behind_a_chain_of_links() {
    let Some(staged) = Staged::after(
        "mkdir -p disk/rke2/server disk/one disk/two
         rm -r $R; ln -s ../../../disk/rke2 $R
         ln -s ../../link disk/rke2/server/manifests
         ln -s one disk/link",
    ) else {
        return;
    };
    staged.step("last", "ln -s two new; mv -T new disk/link");
    staged.step(
        "first",
        "mkdir -p other/server/manifests; ln -s ../../../other new; mv -T new $R",
    );
    staged.step("directory", "mv other old; mkdir -p other/server/manifests");
}

#[test]
fn new_files_are_held_in_a_directory_that_is_replaced_or_made_again() {
    for (place, preparation) in [
        ("disk", ""),
        ("tmpfs", "mount -t tmpfs none $R; mkdir -p $M"),
    ] {
        let Some(staged) = Staged::after(preparation) else {
            return;
        };
        for number in 0..5 {
            staged.step(
                &format!("{place}-again-{number}"),
                &format!("{REMOVE}; mkdir $M"),
            );
        }
        staged.step(
            &format!("{place}-renamed"),
            "mkdir $R/new; mv $M $R/old; mv -T $R/new $M",
        );
        staged.step(
            &format!("{place}-above"),
            "mv $R/server $R/before; mkdir -p $M",
        );
        staged.step(&format!("{place}-below"), "mkdir $M/sub; rmdir $M/sub");
        staged.step(
            &format!("{place}-all"),
            "until rm -rf $R/server 2>/dev/null; do :; done; mkdir -p $M",
        );
    }
}

#[test]
fn new_files_are_held_in_a_directory_that_is_mounted_late_or_unmounted() {
    let Some(staged) = Staged::after("mkdir real; mount --bind real $M") else {
        return;
    };
    // The daemon can be reading in the directory.
    let unmount = |what: &str| format!("until umount {what} 2>/dev/null; do :; done");
    staged.step("unmounted", &unmount("$M"));
    staged.step("bound", "mount --bind real $M");
    staged.step("covered", "mount -t tmpfs none $M");
    staged.step("uncovered", &unmount("$M"));
    staged.step("above", "mount -t tmpfs none $R; mkdir -p $M");
    staged.step("gone", &unmount("$R"));
}

#[test]
fn new_files_are_held_below_a_mount_in_the_directory() {
    let Some(staged) = Staged::after("mkdir $M/sub") else {
        return;
    };
    staged.step("mounted", "mount -t tmpfs none $M/sub");
    for number in 0..3 {
        let file = staged.path(MANIFESTS).join(format!("sub/{number}.yaml"));
        fs::write(&file, WIDGET).unwrap();
        let marker = file.with_extension("yaml.skip");
        staged.daemon.until("the marker below", || marker.exists());
    }
}

#[test]
fn a_directory_that_cannot_be_watched_is_named_in_the_status_and_read_again_and_again() {
    let namespaces = ["--user", "--map-root-user"];
    let script = "echo 0 >/proc/sys/user/max_inotify_watches";
    let allowed = Command::new("unshare")
        .args(namespaces)
        .args(["sh", "-c", script])
        .status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: a limit on watches needs a user namespace");
        return;
    }
    let staged = Staged::within(&namespaces, script);
    let status = staged.node.status();
    let findings = status["findings"].as_array().unwrap().iter();
    let codes: Vec<&Value> = findings.map(|finding| &finding["code"]).collect();
    assert!(
        codes.contains(&&"manifests-not-watched".into()),
        "{codes:?}"
    );
    assert!(staged.daemon.said().contains("cannot watch"));
}
