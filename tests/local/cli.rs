//! The verbs through the real binary, on files in a temporary directory.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod cluster;
mod holds;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::rooted::root_for;

pub(super) use crate::support::daemon::kept_by_this_test;

const MANIFESTS: &str = "var/lib/rancher/rke2/server/manifests";

/// A node's file tree, and the program run on it.
pub(super) struct Node {
    pub(super) root: TempDir,
}

impl Node {
    pub(super) fn new() -> Self {
        let root = TempDir::new().unwrap();
        fs::create_dir_all(root.path().join(MANIFESTS)).unwrap();
        Self { root }
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub(super) fn manifest(&self, name: &str, text: &str) {
        fs::write(self.path(MANIFESTS).join(name), text).unwrap();
    }

    fn marker(&self, name: &str) -> Option<Value> {
        let text = fs::read(self.path(MANIFESTS).join(format!("{name}.skip"))).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(super) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn requests(&self) -> Vec<Value> {
        let spool = self.path("var/lib/rancher/windrow/requests");
        let mut paths: Vec<PathBuf> = fs::read_dir(spool)
            .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
            .unwrap_or_default();
        paths.sort();
        paths
            .iter()
            .map(|path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
            .collect()
    }

    pub(super) fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, "")
    }

    fn run_with(&self, args: &[&str], input: &str) -> Ran {
        self.run_in(args, input, "KUBECONFIG", "")
    }

    /// Runs it with one more environment variable.
    fn run_in(&self, args: &[&str], input: &str, variable: &str, value: &str) -> Ran {
        let root = root_for(self.root.path(), args);
        let root = root.iter().filter_map(|word| word.to_str());
        let words: Vec<&str> = root.chain(args.iter().copied()).collect();
        self.run_here(&words, input, variable, value)
    }

    /// The same in the node's directory, and on this machine unless `--root` is among the words.
    fn run_here(&self, args: &[&str], input: &str, variable: &str, value: &str) -> Ran {
        use std::io::Write as _;
        let mut child = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(args)
            .current_dir(self.root.path())
            .env("SUDO_USER", "ada")
            .env(variable, value)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A verb that reads nothing may be gone already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        Ran::of(child.wait_with_output().unwrap())
    }
}

#[derive(Debug)]
pub(super) struct Ran {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub(super) const STATUS: &str = r#"{
  "apiVersion": "windrow.dev/v1", "kind": "Status", "generation": 7,
  "readiness": "SettingUp", "phase": "staging", "since": "2026-01-01T00:00:00Z",
  "reason": {"code": "waits-for-namespace", "message": "disk.yaml: Namespace shop does not exist yet"},
  "summary": "SettingUp: 1 of 3 applied, 2 held",
  "staging": {
    "total": 3,
    "held": [
      {"file": "disk.yaml", "since": "2026-01-01T00:00:00Z", "code": "waits-for-namespace",
       "why": "Namespace shop does not exist yet", "by": "windrow",
       "blockers": [{"what": "Namespace shop", "condition": "exists", "tier": "required",
         "message": "Namespace shop does not exist yet",
         "requiredBy": "PersistentVolumeClaim shop/root, line 1",
         "origin": {"rule": "inferred/namespace", "file": "disk.yaml", "line": 1}}]},
      {"file": "vm.yaml", "since": "2026-01-01T00:00:00Z", "code": "waits-for-object",
       "why": "PersistentVolumeClaim shop/root does not exist yet", "by": "windrow",
       "deadline": "2026-01-01T00:10:00Z",
       "blockers": [{"what": "PersistentVolumeClaim shop/root", "condition": "exists",
         "tier": "advisory", "message": "PersistentVolumeClaim shop/root does not exist yet",
         "requiredBy": "VirtualMachine shop/till, line 1",
         "origin": {"rule": "references/vm-claim", "file": "vm.yaml", "line": 9},
         "broughtBy": "disk.yaml"}]}
    ],
    "released": [],
    "applied": [{"file": "ns.yaml", "since": "2026-01-01T00:00:00Z", "cause": "free"}],
    "failed": []
  },
  "findings": [],
  "versions": {"windrow": "0.1.0"}
}"#;

const WIDGET: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: w\n";
const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
metadata:\n  name: widgets.example.com\nspec:\n  group: example.com\n  scope: Cluster\n  names:\n    \
kind: Widget\n    plural: widgets\n  versions:\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n";
pub(super) const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n";

fn example() -> String {
    format!(
        "{}/examples/first-vm/harvester-config.yaml",
        env!("CARGO_MANIFEST_DIR")
    )
}

#[test]
fn a_plan_of_a_directory_orders_it_and_says_who_brings_what() {
    let node = Node::new();
    node.manifest("a.yaml", WIDGET);
    node.manifest("b.yaml", CRD);
    let ran = node.run(&["plan", "-o", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let plan = ran.json();
    assert_eq!(plan["apiVersion"], "windrow.dev/v1");
    assert_eq!(plan["kind"], "Plan");
    assert_eq!(plan["order"], serde_json::json!(["b.yaml", "a.yaml"]));
    let widget = &plan["files"][0];
    assert_eq!(widget["path"], "a.yaml");
    assert_eq!(widget["addon"], "a");
    assert!(widget["held"].is_array());
    let needs = &widget["documents"][0]["requires"][0];
    assert_eq!(needs["satisfiedBy"], "file b.yaml:1");
    assert_eq!(needs["tier"], "required");
    assert_eq!(needs["condition"], "served");
    assert_eq!(needs["origin"]["line"], 1);
    assert!(plan["files"][1]["held"].is_null());
}

#[test]
fn a_plan_of_a_harvester_configuration_points_to_its_own_lines() {
    let node = Node::new();
    let config = example();
    let ran = node.run(&["plan", "-o", "json", &config]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let plan = ran.json();
    let machine = plan["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["documents"][0]["object"]["kind"] == "VirtualMachine")
        .unwrap();
    let namespace = machine["documents"][0]["requires"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["origin"]["rule"] == "inferred/namespace")
        .unwrap();
    assert_eq!(namespace["origin"]["file"], config.as_str());
    let line = namespace["origin"]["line"].as_u64().unwrap() as usize;
    let text = fs::read_to_string(&config).unwrap();
    let shown = text.lines().nth(line - 1).unwrap().trim();
    assert!(shown.starts_with("apiVersion: kubevirt.io"), "{shown}");
    // The machine comes last, though its file sorts first.
    assert_eq!(
        plan["order"].as_array().unwrap().last(),
        Some(&machine["path"])
    );
}

#[test]
fn every_output_of_a_plan_is_what_it_claims_to_be() {
    let node = Node::new();
    for (format, begins) in [
        ("table", "Plan on harvester"),
        ("json", "{"),
        ("dot", "digraph"),
        ("mermaid", "flowchart LR"),
        ("svg", "<svg"),
    ] {
        let ran = node.run(&["plan", "-o", format, &example()]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.starts_with(begins), "{format}: {}", ran.out);
    }
}

#[test]
fn a_plan_that_cannot_work_exits_4_and_names_every_mistake() {
    let node = Node::new();
    node.manifest("a.yaml", "kind: [\n");
    node.manifest("B_c.yaml", CONFIG_MAP);
    let ran = node.run(&["plan"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("file-refused"), "{ran:?}");
    assert!(ran.out.contains("addon-name-invalid"), "{ran:?}");
    assert!(ran.out.contains("a.yaml:"), "{ran:?}");
}

#[test]
fn a_tag_over_which_the_yaml_parser_panics_is_an_error_of_the_file_and_nothing_more() {
    let node = Node::new();
    node.manifest("a.yaml", &format!("{CONFIG_MAP}data: {{a: [!a,b]}}\n"));
    let ran = node.run(&["plan"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("a tag (`!name`)"), "{ran:?}");
    assert_eq!(ran.err, "");
}

#[test]
fn standard_input_is_planned_as_a_manifest() {
    let node = Node::new();
    let ran = node.run_with(&["plan", "-o", "json", "-"], CONFIG_MAP);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(
        ran.json()["files"][0]["documents"][0]["object"]["name"],
        "c"
    );
}

#[test]
fn inputs_that_cannot_be_used_are_all_named_and_exit_64() {
    let node = Node::new();
    node.write("x/a.yaml", CONFIG_MAP);
    node.write("y/a.yaml", CONFIG_MAP);
    let ran = node.run(&["plan", "x", "y", "nowhere.yaml"]);
    assert_eq!(ran.code, 64, "{ran:?}");
    assert!(ran.err.contains("nowhere.yaml"), "{ran:?}");
    assert!(ran.err.contains("x/a.yaml and y/a.yaml"), "{ran:?}");
    assert_eq!(node.run(&["plan", "--output", "pdf"]).code, 64);
    assert_eq!(node.run(&["no-such-verb"]).code, 64);
}

#[test]
fn a_rule_pack_with_a_mistake_exits_78_with_its_line() {
    let node = Node::new();
    node.write(
        "rules/bad.yaml",
        "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: bad}\nrulez: []\n",
    );
    let ran = node.run(&["plan", &example(), "--rules", "rules"]);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(ran.err.contains("rules/bad.yaml:4"), "{ran:?}");
}

#[test]
fn the_rules_and_the_platform_that_a_configuration_brings_count_in_its_plan() {
    let node = Node::new();
    let text = include_str!("../../packaging/cloud-init/user-data.yaml");
    node.write("user-data.yaml", text);
    let ran = node.run(&["plan", "user-data.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("site/app-waits-for-database"), "{ran:?}");

    // An error there has its line in the given file.
    let (before, _) = text.split_once("          requires:").unwrap();
    let line = before.lines().count() + 1;
    node.write("wrong.yaml", &text.replace("requires:", "requirez:"));
    let ran = node.run(&["plan", "wrong.yaml"]);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(
        ran.err.contains(&format!("wrong.yaml:{line}")),
        "line {line}: {ran:?}"
    );
    let ran = node.run(&["check", "--details", "wrong.yaml"]);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(ran.out.contains(&format!("wrong.yaml:{line}")), "{ran:?}");
}

#[test]
fn a_status_that_nobody_keeps_is_unknown_and_says_why() {
    let node = Node::new();
    let ran = node.run(&["status"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.out.contains("Windrow is not installed here"), "{ran:?}");
    node.write("run/windrow/status.json", STATUS);
    let ran = node.run(&["status", "-o", "json"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert_eq!(ran.json()["readiness"], "Unknown");
    assert_eq!(ran.json()["reason"]["code"], "state-unknown");
    let line = node.run(&["console", "--once"]).out;
    assert!(line.trim_end().chars().count() <= 65, "{line}");
    assert_eq!(node.run(&["wait", "--timeout", "0s"]).code, 5);
}

#[test]
fn a_status_whose_writer_lives_is_shown_with_its_exit_code() {
    let node = Node::new();
    node.write("run/windrow/status.json", &kept_by_this_test(STATUS));
    let ran = node.run(&["status"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    for expected in [
        "Setting up for",
        "vm.yaml",
        "Namespace shop does not exist yet",
    ] {
        assert!(ran.out.contains(expected), "{expected}: {ran:?}");
    }
    assert_eq!(node.run(&["wait", "--for", "applied=ns.yaml"]).code, 0);
    let ran = node.run(&["wait", "--for", "released=vm.yaml", "--timeout", "0s"]);
    assert_eq!(ran.code, 3, "{ran:?}");
}

#[test]
fn wait_returns_when_the_status_comes_to_say_so() {
    let node = Node::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(node.root.path())
        .args(["wait", "--for", "applied=ns.yaml", "--timeout", "10m"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    node.write("run/windrow/status.json", &kept_by_this_test(STATUS));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn why_goes_down_to_the_root() {
    let node = Node::new();
    let status = node.write("elsewhere/status.json", STATUS);
    let status = status.to_str().unwrap();
    for asked in ["vm.yaml", "VirtualMachine/shop/till", "till"] {
        let ran = node.run(&["why", "--from", status, asked]);
        assert_eq!(ran.code, 3, "{ran:?}");
        let said = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in [
            "vm.yaml is held",
            "disk.yaml is held",
            "Root cause: Namespace shop does not exist yet",
            "To release it now: windrow release vm.yaml",
            "in 10m00s at the latest (by 00:10 UTC).",
        ] {
            assert!(said.contains(expected), "{expected}: {ran:?}");
        }
    }
    // The short answer says nothing twice, and who asks for what only with -v.
    let short = node.run(&["why", "--from", status, "disk.yaml"]).out;
    assert_eq!(short.matches("Namespace shop").count(), 1, "{short}");
    assert!(!short.contains("required by"), "{short}");
    let long = node.run(&["why", "-v", "--from", status, "disk.yaml"]).out;
    assert!(
        long.contains("needs Namespace shop (exists)") && long.contains("required by"),
        "{long}"
    );
    let why = node
        .run(&["why", "-o", "json", "--from", status, "vm.yaml"])
        .json();
    let step = &why["files"][0]["waitsFor"][0];
    assert_eq!(step["root"], false);
    // Behind the file that was asked about comes the one that brings what it needs.
    assert_eq!(why["asked"], 1);
    assert_eq!(why["files"][1]["file"], step["broughtBy"]);
    assert_eq!(why["files"][1]["waitsFor"][0]["root"], true);
    assert_eq!(node.run(&["why", "--from", status, "ns.yaml"]).code, 0);
    assert_eq!(node.run(&["why", "--from", status, "nothing"]).code, 5);
}

#[test]
fn the_version_names_the_build() {
    let ran = Node::new().run(&["--version"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let expected = format!("windrow {} (", env!("CARGO_PKG_VERSION"));
    assert!(ran.out.starts_with(&expected), "{ran:?}");
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";

#[test]
fn a_directory_without_manifests_is_not_planned_and_not_rehearsed() {
    let node = Node::new();
    node.write("empty/readme.txt", "nothing");
    node.write("full/a.yaml", MAP);
    for args in [
        &["plan", "empty"][..],
        &["plan", "full", "empty"],
        &["check", "--details", "empty"],
    ] {
        let ran = node.run(args);
        assert_eq!(ran.code, 64, "{ran:?}");
        assert!(
            ran.err.contains("empty: no manifests in this directory"),
            "{ran:?}"
        );
        assert!(
            ran.err.contains("nothing was checked") && ran.out.is_empty(),
            "{ran:?}"
        );
    }
    assert_eq!(node.run(&["plan", "full"]).code, 0);
    let ran = node.run(&["plan"]);
    assert_eq!(ran.code, 64, "the node's own is empty too: {ran:?}");
    assert!(ran.err.contains("nothing was checked"), "{ran:?}");
}

#[test]
fn an_object_behind_the_end_of_a_document_is_an_error_with_its_line() {
    let node = Node::new();
    node.write(
        "given/a.yaml",
        &format!("{MAP}...\n{}", MAP.replace("name: a", "name: b")),
    );
    let ran = node.run(&["plan", "given"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("behind-document-end"), "{ran:?}");
    assert!(ran.out.contains("given/a.yaml:6"), "{ran:?}");
    assert!(!ran.out.contains("held at a fresh boot: "), "{ran:?}");
    assert!(
        ran.out.contains(", 0 held at a fresh boot"),
        "RKE2 applies the file: {ran:?}"
    );
    let ran = node.run(&["check", "--details", "given", "--runs", "2"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("behind-document-end"), "{ran:?}");
}

#[test]
fn options_take_one_value_each_so_their_place_does_not_matter() {
    let node = Node::new();
    let pack = "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: site}\nrules: []\n";
    node.write("rules/one.yaml", pack);
    node.write("more/two.yaml", &pack.replace("site", "other"));
    node.write("given/a.yaml", MAP);
    node.write("list.txt", "docker.io/library/nginx:1\n");
    node.write("list2.txt", "docker.io/library/busybox:1\n");
    for args in [
        &["plan", "--rules", "rules", "given"][..],
        &["plan", "given", "--rules", "rules"],
        &["plan", "--rules", "rules", "--rules", "more", "given"],
        &[
            "check",
            "--details",
            "--runs",
            "1",
            "--images",
            "list.txt",
            "given",
        ],
        &[
            "check",
            "--details",
            "--runs",
            "1",
            "--images",
            "list.txt",
            "--images",
            "list2.txt",
            "given",
        ],
        &[
            "check",
            "--details",
            "--runs",
            "1",
            "--rules",
            "rules",
            "given",
            "--rules",
            "more",
        ],
    ] {
        let ran = node.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        assert!(
            ran.out.contains("a.yaml"),
            "the directory that was named: {ran:?}"
        );
    }
}

const WIDGETS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  scope: Cluster
  names: {plural: widgets, singular: widget, kind: Widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";

#[test]
fn a_marker_of_somebody_else_keeps_a_file_from_rke2_and_what_needs_it_cannot_work() {
    let node = Node::new();
    node.write("given/a.yaml", MAP);
    node.write("given/a.yaml.skip", "");
    node.write("given/b.yaml", &MAP.replace("name: a", "name: b"));
    let ran = node.run(&["plan", "given"]);
    assert_eq!(ran.code, 0, "nothing needs it: {ran:?}");
    let a = ran
        .out
        .lines()
        .find(|line| line.contains("a.yaml "))
        .unwrap();
    assert!(
        a.ends_with("skipped") && a.trim_start().starts_with("-"),
        "{ran:?}"
    );
    assert!(
        ran.out
            .contains("by a.yaml.skip, which Windrow did not make"),
        "{ran:?}"
    );
    assert!(ran.out.contains("held-by-other"), "{ran:?}");
    let json: Value =
        serde_json::from_str(&node.run(&["plan", "given", "-o", "json"]).out).unwrap();
    assert_eq!(json["files"][0]["skipped"], "a.yaml.skip");
    assert_eq!(json["files"][0]["state"], "skipped");
    assert_eq!(json["files"][1]["state"], "applied at once");
    assert_eq!(json["order"], serde_json::json!(["b.yaml"]));
    for picture in ["svg", "dot", "mermaid"] {
        let ran = node.run(&["plan", "given", "-o", picture]);
        assert!(ran.out.contains("skipped"), "{picture}: {ran:?}");
        assert_eq!(
            ran.out.matches("applied at once").count(),
            1,
            "{picture}: {ran:?}"
        );
    }
    let ran = node.run(&["check", "--details", "given", "--runs", "2"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out
            .contains("everything is applied except 1 file that a .skip marker hides from RKE2"),
        "{ran:?}"
    );
    assert!(
        ran.out
            .contains("skipped by a.yaml.skip, which Windrow did not make, never applied"),
        "{ran:?}"
    );

    assert!(
        node.run(&["plan", "given"])
            .out
            .contains("RKE2 skips 1 file; every other file can be released"),
    );
    // Named one by one, with the marker or without it.
    for args in [
        &["plan", "given/a.yaml"][..],
        &["plan", "given/a.yaml", "given/a.yaml.skip", "given/b.yaml"],
    ] {
        let ran = node.run(args);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(
            ran.out
                .contains("by a.yaml.skip, which Windrow did not make"),
            "{ran:?}"
        );
    }
    node.write("ours/a.yaml", MAP);
    node.write("ours/a.yaml.skip", "{\n  \"by\": \"windrow\"\n}\n");
    assert!(
        !node
            .run(&["plan", "ours/a.yaml"])
            .out
            .contains("did not make")
    );
    assert!(!node.run(&["plan", "ours"]).out.contains("did not make"));

    // The kind of one file comes from the other.
    node.write("needs/crd.yaml", WIDGETS);
    node.write(
        "needs/one.yaml",
        "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: one\n",
    );
    assert_eq!(node.run(&["plan", "needs"]).code, 0);
    node.write("needs/sub/crd.yaml.skip", "harvester upgrade\n");
    let ran = node.run(&["plan", "needs"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(
        ran.out.contains("provider-skipped") && !ran.out.contains("kind-without-provider"),
        "{ran:?}"
    );
    assert!(ran.out.contains("sub/crd.yaml.skip"), "{ran:?}");
    let ran = node.run(&["check", "--details", "needs", "--runs", "2"]);
    assert_eq!(ran.code, 4, "{ran:?}");

    // A configuration may write a marker too; one that Windrow made is lifted by Windrow.
    let cloud = |marker: &str| {
        format!(
            "#cloud-config\nwrite_files:\n- path: /{MANIFESTS}/a.yaml\n  content: |\n    {}\n- path: /{MANIFESTS}/a.yaml.skip\n  content: '{marker}'\n",
            MAP.trim_end().replace('\n', "\n    ")
        )
    };
    node.write("user-data", &cloud(""));
    let ran = node.run(&["plan", "user-data"]);
    assert!(
        ran.out
            .contains("by a.yaml.skip, which Windrow did not make"),
        "{ran:?}"
    );
    let ran = node.run(&["check", "--details", "user-data", "--runs", "2"]);
    assert!(ran.out.contains("skipped by a.yaml.skip"), "{ran:?}");
}

#[test]
fn a_file_is_labelled_by_what_becomes_of_it() {
    let node = Node::new();
    node.write("given/good.yaml", MAP);
    node.write("given/same.yaml", &MAP.replace("name: a", "name: b"));
    node.write("given/same.yml", &MAP.replace("name: a", "name: c"));
    node.write(
        "given/part.yaml",
        &format!("{MAP}---\nkind: ConfigMap\nmetadata:\n  name: d\n"),
    );
    node.write("given/whole.yaml", "a: }\n");
    symlink("nowhere", node.path("given/link.yaml")).unwrap();
    let ran = node.run(&["plan", "given", "-o", "json"]);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    let states: Vec<(&str, &str)> = json["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| {
            (
                file["path"].as_str().unwrap(),
                file["state"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        states,
        [
            ("good.yaml", "applied at once"),
            ("link.yaml", "stops RKE2: leads nowhere"),
            ("part.yaml", "refused in part"),
            ("same.yaml", "collides"),
            ("same.yml", "collides"),
            ("whole.yaml", "refused"),
        ]
    );
    let table = node.run(&["plan", "given"]).out;
    assert_eq!(table.matches("applied at once").count(), 1, "{table}");
    let svg = node.run(&["plan", "given", "-o", "svg"]).out;
    assert_eq!(svg.matches(r#"<g class="free""#).count(), 1, "{svg}");
}

#[test]
fn a_marker_for_one_of_rke2s_own_charts_switches_it_off() {
    let node = Node::new();
    node.write(
        "given/snapshots.yaml",
        "apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshotClass\nmetadata:\n  name: a\ndriver: d\ndeletionPolicy: Delete\n",
    );
    assert_eq!(
        node.run(&["check", "--details", "given", "--runs", "1"])
            .code,
        0
    );
    node.write("given/rke2-snapshot-controller-crd.yaml.skip", "");
    // Harvester's own snapshotter would bring the kind.
    let ran = node.run(&["check", "--details", "given", "--runs", "1"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    let version = ["--rke2", "v1.34.2+rke2r1"];
    let ran = node.run(
        &[
            &["check", "--details", "given", "--runs", "1"],
            &version[..],
        ]
        .concat(),
    );
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("component-disabled"), "{ran:?}");
    assert!(
        ran.out.contains("rke2-snapshot-controller-crd.yaml.skip"),
        "{ran:?}"
    );
    let ran = node.run(&["plan", "given", "--platform", "rke2"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("component-disabled"), "{ran:?}");
}
