//! Level 3: promises of the README that no other test has as its name (docs/dev/testing.md lists all of them).

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;

use crate::support::daemon::Node;

const HELD: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";
const FREE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n";
const ONCE: &str = "apiVersion: v1\nkind: ConfigMap\n\
                    metadata: {name: o, namespace: default, annotations: {windrow.dev/apply: once}}\n";
const REFUSED: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [\n";

/// Inode, size, times and bytes of each manifest: every change to a file shows in one of them.
type Manifests = BTreeMap<PathBuf, (u64, u64, i64, i64, Option<Vec<u8>>)>;

fn read_manifests(node: &Node) -> Manifests {
    let mut found = Manifests::new();
    let mut directories = vec![node.manifests()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            if metadata.is_dir() {
                directories.push(path);
            } else if path.extension().is_none_or(|ending| ending != "skip") {
                let bytes = metadata.is_file().then(|| fs::read(&path).unwrap());
                let seconds = metadata.mtime();
                let nanoseconds = metadata.mtime_nsec();
                let state = (metadata.ino(), metadata.size(), seconds, nanoseconds, bytes);
                found.insert(path, state);
            }
        }
    }
    found
}

#[test]
fn no_manifest_is_edited_cut_or_renamed() {
    let node = Node::with(&[
        ("held.yaml", HELD),
        ("free.yaml", FREE),
        ("once.yaml", ONCE),
        ("refused.yaml", REFUSED),
        (
            "windows.yaml",
            "\u{feff}apiVersion: v1\r\nkind: ConfigMap\r\nmetadata: {name: b}\r\n",
        ),
        ("empty.yaml", ""),
        ("Not_A_Name.yaml", FREE),
    ]);
    fs::create_dir(node.manifest("sub")).unwrap();
    fs::write(node.manifest("sub/held.yaml"), HELD).unwrap();
    symlink("free.yaml", node.manifest("link.yaml")).unwrap();
    nix::unistd::mkfifo(&node.manifest("pipe.yaml"), Mode::S_IRWXU).unwrap();
    let before = read_manifests(&node);
    assert_eq!(before.len(), 10);

    let daemon = node.ready();
    daemon.until("the hold", || node.is_marked("held.yaml"));
    let request = node.request("r1", "release", "held.yaml");
    daemon.until("the release", || {
        !node.is_marked("held.yaml") && !request.exists()
    });
    let request = node.request("r2", "hold", "free.yaml");
    daemon.until("the hold by hand", || {
        node.is_marked("free.yaml") && !request.exists()
    });
    daemon.signal(Signal::SIGHUP);
    daemon.ticks(2);
    assert!(daemon.end(Signal::SIGTERM).success());
    let daemon = node.ready();
    daemon.ticks(1);
    assert!(daemon.end(Signal::SIGKILL).code().is_none());
    for verb in [&["release", "--failsafe"][..], &["cleanup"]] {
        let done = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(verb)
            .arg("--root")
            .arg(node.root.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{verb:?}: {done:?}");
    }
    assert_eq!(read_manifests(&node), before);
}
