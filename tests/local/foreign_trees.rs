//! Level 3: the tree of another machine (`--root`), such as the disk of a compromised node. A look at it stays silent.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::apiserver::ApiServer;
use crate::support::rooted::root_for;

const KUBECONFIG: &str = "etc/rancher/rke2/rke2.yaml";

fn write(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn windrow(root: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.args(root_for(root, args)).args(args);
    command.env("NO_COLOR", "1").output().unwrap()
}

fn text(output: &Output) -> String {
    let bytes = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A server's tree whose kubeconfigs lead to this API.
fn server_of(api: &ApiServer) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for path in [
        KUBECONFIG,
        "var/lib/rancher/rke2/server/cred/admin.kubeconfig",
        "var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    ] {
        write(root.path(), path, api.kubeconfig("s3cr3t"));
    }
    root
}

#[test]
fn no_verb_contacts_the_cluster_of_another_machine_unless_its_kubeconfig_is_named() {
    let api = ApiServer::start();
    let root = server_of(&api);
    let archive = root.path().join("r.tgz");
    let archive = archive.to_str().unwrap();
    let why = "not used, because the tree belongs to another machine";
    for (args, explains) in [
        (&["report", "--output-file", archive][..], true),
        (&["diagnose"], true),
        (&["drain-check", "n1"], true),
        (&["upgrade-check"], true),
        (&["repair", "addon-stuck", "--dry-run"], true),
        (&["repair", "--undo", "--yes"], true),
        (&["gates", "check"], false),
        (&["preflight", "--offline"], false),
        (&["check", "."], false),
        (&["plan"], false),
        (&["cleanup"], false),
    ] {
        let output = windrow(root.path(), args);
        assert_eq!(api.asked(""), 0, "{args:?}: {}", text(&output));
        assert_eq!(
            text(&output).contains(why),
            explains,
            "{args:?}: {}",
            text(&output)
        );
    }
    let own = root.path().join(KUBECONFIG);
    let named = ["--kubeconfig", own.to_str().unwrap()];
    for args in [&["report", "--output-file", archive][..], &["diagnose"]] {
        let before = api.asked("");
        let output = windrow(root.path(), &[args, &named].concat());
        assert!(api.asked("") > before, "{args:?}: {}", text(&output));
    }
}

#[test]
fn gates_check_names_the_reason_why_no_component_of_another_machine_was_asked() {
    let api = ApiServer::start();
    let root = server_of(&api);
    let gates = "kube-apiserver-arg: [feature-gates=NodeSwap=true]\n";
    write(root.path(), "etc/rancher/rke2/config.yaml", gates);
    let output = windrow(root.path(), &["gates", "check", "-o", "json"]);
    let why = "not used, because the tree belongs to another machine";
    assert!(text(&output).contains(why), "{}", text(&output));
    assert_eq!(api.asked(""), 0);
}
