//! Files that are given to the real binary, and its output.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::rooted::root_for;

pub(crate) const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
pub(crate) const MACHINE: &str = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm, namespace: default}\nspec: {runStrategy: Always, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}\n";
pub(crate) const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: one}\n";

pub(crate) struct Ran {
    pub(crate) exit: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A file in a directory of its own.
pub(crate) struct Given {
    directory: TempDir,
}

impl Given {
    pub(crate) fn new(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join(name), bytes).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, b"")
    }

    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(root_for(self.directory.path(), args))
            .args(args)
            .current_dir(self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A verb that reads nothing may be gone already.
        let _ = stdin.write_all(input);
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let unwrapped = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).unwrap();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        Ran {
            exit: output.status.code().unwrap(),
            out: unwrapped(output.stdout),
            err: unwrapped(output.stderr),
        }
    }
}

/// One run of a verb on a text: the exit code, and words of the output.
pub(crate) fn says(text: impl AsRef<[u8]>, args: &[&str], exit: i32, words: &[&str]) {
    let given = Given::new("c.yaml", text.as_ref());
    let ran = given.run(&[args, &["c.yaml"]].concat());
    let said = format!("{}\n{}", ran.out, ran.err);
    let text = String::from_utf8_lossy(text.as_ref()).into_owned();
    assert_eq!(ran.exit, exit, "{args:?}\n{text}\n{said}");
    for words in words {
        assert!(said.contains(words), "{args:?}: {words}\n{text}\n{said}");
    }
}

pub(crate) fn indented(by: usize, text: &str) -> String {
    let lines = text.lines().map(|line| format!("{:by$}{line}\n", ""));
    lines.collect()
}

pub(crate) fn cloud_config(files: &[(&str, &str)]) -> String {
    let mut text = "#cloud-config\nwrite_files:\n".to_owned();
    for (path, content) in files {
        text += &format!("- path: {path}\n  content: |\n{}", indented(4, content));
    }
    text
}

pub(crate) fn harvester(first: &str, own: &str) -> String {
    format!(
        "{first}schemeVersion: 1\ntoken: x\nos:\n  writeFiles:\n  - path: {MANIFESTS}/vm.yaml\n    content: |\n{}  - path: /etc/rancher/rke2/config.yaml.d/60.yaml\n    content: |\n      kube-apiserver-arg: [feature-gates=NodeAuthorizerEnablePodSelectors=true]\n  - path: /etc/rancher/windrow/conf.d/a.yaml\n    content: |\n      {own}\ninstall:\n  mode: create\n",
        indented(6, MACHINE)
    )
}

pub(crate) const PLAN: &[&str] = &["plan", "--platform", "rke2"];
pub(crate) const REHEARSE: &[&str] = &["check", "--details", "--runs", "2"];
