//! `windrow check --details` as a user sees it: configurations in, verdicts, exit codes and documents out.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn windrow(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["check", "--details"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const FIRST_VM: &str = "examples/first-vm/harvester-config.yaml";

/// A file in a directory of its own.
fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    (directory, path)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The example without its preset.
fn unset() -> (tempfile::TempDir, PathBuf) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join(FIRST_VM);
    let text = fs::read_to_string(example).unwrap();
    file("unset.yaml", &text.replace("storage-network:", "ui-index:"))
}

#[test]
fn the_first_example_may_come_up_without_its_storage_network_and_never_does_with_windrow() {
    let output = windrow(&[FIRST_VM, "--runs", "20"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = said(&output);
    for line in [
        "Harvester v1.8.1, storage network preset, 20 simulated boots",
        "it comes up, but the storage network you preset is never configured, in ",
        "of 20 simulated boots (a race)",
        "Harvester configures a storage network only while every Longhorn volume is",
        "VirtualMachine orchard/registry keeps pvc-orchard-registry-system attached",
        "the node comes up, and everything is applied, in every simulated boot",
        "VirtualMachine orchard/registry: Running, in every simulated boot",
        "Known incidents in the final state",
        "storage-network-waits: Setting storage-network",
        "with Windrow in no simulated boot",
        "v1.5.0",
        "modelled",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("it never comes up"), "{text}");
}

#[test]
fn without_the_preset_an_old_version_never_comes_up_alone_and_always_with_windrow() {
    let (_directory, path) = unset();
    let output = windrow(&[self::text(&path), "--harvester", "v1.5.0", "--runs", "3"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = said(&output);
    for line in [
        "Harvester v1.5.0, 3 simulated boots",
        "it never comes up, in every simulated boot",
        "the empty setting storage-network that the pod creates",
        "the node comes up, and everything is applied, in every simulated boot",
        "machines-block-settings: Harvester",
        "without Windrow in every simulated boot; with Windrow in no simulated boot",
        "windrow repair machines-block-settings",
        "v1.5.1   without Windrow the node comes up, and everything is applied;",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_rehearsal_is_the_same_each_time_and_its_document_is_one_of_its_schema() {
    let (_directory, path) = unset();
    let config = text(&path);
    let arguments = [config, "--harvester", "v1.5.0", "--runs", "2", "-o", "json"];
    let (one, other) = (windrow(&arguments), windrow(&arguments));
    assert_eq!(one.stdout, other.stdout);
    let document: windrow_simulate::rehearse::Rehearsal =
        serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(document.nodes[0].seeds, 2);
    let recognised = &document.nodes[0].without.recognised[0];
    assert_eq!((&*recognised.subject, recognised.seeds), ("Harvester", 2));
    assert_eq!(document.nodes[0].with.recognised, []);
    assert_eq!(
        document.worst(),
        windrow_simulate::rehearse::Ending::Complete
    );
}

const WAITS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  annotations:\n    windrow.dev/depends-on: /namespaces/default/PersistentVolumeClaim/never\n";

#[test]
fn whether_a_file_is_released_is_not_known_where_it_waits_for_what_is_made_elsewhere() {
    let (_directory, path) = file("waits.yaml", WAITS);
    let output = windrow(&[text(&path), "--runs", "2"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let text = said(&output);
    let why =
        "nothing known creates PersistentVolumeClaim default/never, and waits.yaml waits for it";
    assert!(text.contains(why), "{text}");
    assert!(text.contains("waits.yaml:6"), "{text}");
    assert!(!text.contains("Stays held forever"), "{text}");
}

#[test]
fn a_file_that_stays_held_for_ever_fails_and_names_the_rule() {
    // Nothing makes a volume of the class that the claim asks for.
    let (directory, path) = file("waits.yaml", WAITS);
    let asks = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: never, namespace: default}\nspec: {storageClassName: nobodys, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";
    fs::write(directory.path().join("asks.yaml"), asks).unwrap();
    let path = path.parent().unwrap();
    let output = windrow(&[text(path), "--runs", "2"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let text = said(&output);
    assert!(
        text.contains("it stays unfinished, in every simulated boot"),
        "{text}"
    );
    assert!(text.contains("Stays held forever"), "{text}");
    assert!(
        text.contains("annotation/windrow.dev/depends-on (waits.yaml:6)"),
        "{text}"
    );
}

#[test]
fn manifests_of_plain_rke2_are_rehearsed_too_and_healthy_ones_pass() {
    let (_directory, path) = file(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: default}\n",
    );
    let output = windrow(&[text(&path), "--runs", "2"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        said(&output).contains("on RKE2, 2 simulated boots"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_gate_that_is_fatal_at_the_version_that_will_start_fails_with_its_line() {
    let config = "#cloud-config\nwrite_files:\n- path: /etc/rancher/rke2/config.yaml.d/10-gates.yaml\n  content: |\n    kube-apiserver-arg+:\n    - feature-gates+=AuthorizeNodeWithSelectors=false\n";
    let (_directory, path) = file("user-data", config);
    for (version, expected) in [("v1.33.5+rke2r1", 0), ("v1.35.6+rke2r1", 4)] {
        let output = windrow(&[text(&path), "--runs", "1", "--rke2", version]);
        assert_eq!(output.status.code(), Some(expected), "{version} {output:?}");
        if expected == 4 {
            assert!(
                said(&output).contains("AuthorizeNodeWithSelectors"),
                "{}",
                said(&output)
            );
            assert!(said(&output).contains("user-data:6"), "{}", said(&output));
        }
    }
}

#[test]
fn servers_with_different_files_of_one_addon_are_told() {
    let map = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    let (_one, first) = file("a.yaml", &map("x"));
    let (_other, second) = file("a.yaml", &map("y"));
    let nodes = [
        format!("n1={}", text(&first)),
        format!("n2={}", text(&second)),
    ];
    let arguments = [
        "--runs", "1", "-o", "json", "--node", &nodes[0], "--node", &nodes[1],
    ];
    let document: Value = serde_json::from_slice(&windrow(&arguments).stdout).unwrap();
    assert_eq!(document["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(document["findings"][0]["code"], "servers-disagree");
    // The same file on both is fine.
    let same = format!("n2={}", text(&first));
    let arguments = [
        "--runs", "1", "-o", "json", "--node", &nodes[0], "--node", &same,
    ];
    let document: Value = serde_json::from_slice(&windrow(&arguments).stdout).unwrap();
    assert_eq!(document["findings"], Value::Null);
}

#[test]
fn nodes_that_can_only_join_are_rehearsed_beside_a_server_that_stands_in() {
    let config = |role: &str| {
        format!(
            "os:\n  writeFiles:\n  - path: /var/lib/rancher/rke2/server/manifests/a.yaml\n    content: |\n      apiVersion: v1\n      kind: ConfigMap\n      metadata: {{name: x, namespace: default}}\ninstall:\n  mode: join\n  role: {role}\n"
        )
    };
    let (_directory, path) = file("worker.yaml", &config("worker"));
    let output = windrow(&[text(&path), "--runs", "1", "-o", "json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = document["nodes"].as_array().unwrap();
    assert_eq!((nodes.len(), &nodes[1]["name"]), (2, &text(&path).into()));
    let findings = nodes[1]["findings"].as_array().unwrap();
    let of_plan = |one: &&Value| one["code"] == "manifests-on-agent";
    let finding = findings.iter().find(of_plan).unwrap();
    let message = finding["message"].as_str().unwrap();
    let reason = format!("{}:10: install.role: worker", text(&path));
    assert!(message.contains(&reason), "{message}");
    // Two others with the same files make three, enough for Harvester to make servers of them.
    let (_other, other) = file("other.yaml", &config("default"));
    let node = |name: &str, path: &Path| format!("{name}={}", text(path));
    let nodes = [node("n1", &other), node("n2", &other), node("n3", &path)];
    let output = windrow(&[
        "--runs", "1", "--node", &nodes[0], "--node", &nodes[1], "--node", &nodes[2],
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn what_an_agent_holds_of_a_file_that_a_server_applies_is_of_no_consequence() {
    let config = |install: &str| {
        format!(
            "serverUrl: https://192.0.2.100:443\nos:\n  writeFiles:\n  - path: /var/lib/rancher/rke2/server/manifests/a.yaml\n    content: |\n      apiVersion: harvesterhci.io/v1beta1\n      kind: VirtualMachineImage\n      metadata: {{name: x, namespace: default}}\n      spec: {{displayName: x, sourceType: download, url: 'http://192.0.2.1/x'}}\ninstall:\n  {install}\n"
        )
    };
    let (_first, first) = file(
        "first.yaml",
        &config("mode: create\n  vip: 192.0.2.100\n  vipMode: static"),
    );
    let (_second, second) = file("second.yaml", &config("mode: join"));
    let nodes = [
        format!("n1={}", text(&first)),
        format!("n2={}", text(&second)),
    ];
    let output = windrow(&[
        "--runs", "1", "-o", "json", "--node", &nodes[0], "--node", &nodes[1],
    ]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let held = document.to_string().contains("stays held");
    assert!(!held, "{document}");
}

#[test]
fn the_configurations_own_settings_of_windrow_count() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join(FIRST_VM);
    let example = fs::read_to_string(example).unwrap();
    let config = |staging: bool| {
        let own = format!(
            "  writeFiles:\n    - path: /etc/rancher/windrow/conf.d/10.yaml\n      content: |\n        staging: {{enabled: {staging}}}\n"
        );
        example.replacen("  writeFiles:\n", &own, 1)
    };
    for (staging, expected) in [(true, 0), (false, 4)] {
        let (_directory, path) = file("config.yaml", &config(staging));
        let output = windrow(&[text(&path), "--runs", "10"]);
        assert_eq!(output.status.code(), Some(expected), "{staging} {output:?}");
    }
}

#[test]
fn wrong_use_and_bad_rules_have_their_own_exit_codes() {
    assert_eq!(windrow(&[]).status.code(), Some(64));
    assert_eq!(windrow(&["/nonexistent.yaml"]).status.code(), Some(64));
    assert_eq!(windrow(&[FIRST_VM, "--runs", "0"]).status.code(), Some(64));
    assert_eq!(windrow(&["--node", "x"]).status.code(), Some(64));
    let (_directory, path) = file(
        "rules.yaml",
        "apiVersion: windrow.dev/v1\nkind: RulePack\nnonsense: 1\n",
    );
    let output = windrow(&[FIRST_VM, "--rules", text(&path)]);
    assert_eq!(output.status.code(), Some(78), "{output:?}");
}

/// Files with faults that can be corrected automatically: the codes, and a copy that has none of them. Returns the
/// findings, the files that they are in, and the names of the corrected ones.
type Correction<'a> = (&'a str, &'a [(&'a str, String)], &'a [&'a str]);

#[test]
fn a_corrected_copy_has_none_of_the_findings_any_more() {
    let map = |name: &str, more: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\n{more}"
        )
    };
    let cases: &[Correction<'_>] = &[
        (
            "addon-collision",
            &[
                ("site.maps.yaml", map("a", "")),
                ("site.yaml", map("b", "")),
            ],
            &["site-maps.yaml", "site.yaml"],
        ),
        (
            "addon-name-invalid",
            &[("My_Site.yaml", map("a", ""))],
            &["my-site.yaml"],
        ),
    ];
    for (code, files, copies) in cases {
        let directory = tempfile::tempdir().unwrap();
        let (given, fixed) = (
            directory.path().join("given"),
            directory.path().join("fixed"),
        );
        fs::create_dir(&given).unwrap();
        for (name, text) in *files {
            fs::write(given.join(name), text).unwrap();
        }
        let codes = |place: &Path, more: &[&str]| -> Vec<String> {
            let mut arguments = vec![text(place), "--runs", "1", "-o", "json"];
            arguments.extend(more);
            let output = windrow(&arguments);
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            let findings = document["nodes"][0]["findings"].as_array().unwrap();
            findings
                .iter()
                .map(|finding| finding["code"].as_str().unwrap().to_owned())
                .collect()
        };
        let found = codes(&given, &["--fix", text(&fixed)]);
        assert!(found.contains(&(*code).to_owned()), "{code}: {found:?}");
        let mut names: Vec<String> = fs::read_dir(&fixed)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, *copies, "{code}");
        let left = codes(&fixed, &[]);
        assert!(!left.contains(&(*code).to_owned()), "{code}: {left:?}");
        for (name, before) in *files {
            assert_eq!(fs::read_to_string(given.join(name)).unwrap(), *before);
        }
    }
}

#[test]
fn a_corrected_configuration_has_none_of_the_findings_any_more() {
    for (head, indentation) in [
        ("#cloud-config\nwrite_files:\n", ""),
        ("os:\n  writeFiles:\n", "    "),
        (
            "stages:\n  initramfs:\n  - name: files\n    files:\n",
            "    ",
        ),
    ] {
        let entry = |path: &str, content: &str| {
            format!("{indentation}- path: {path}\n{indentation}  content: '{content}'\n")
        };
        let content = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}";
        let path = "/var/lib/rancher/rke2/server/manifests/My_Site.yaml";
        let given = format!(
            "{head}{}{}",
            entry(path, content),
            entry("/etc/motd", "hello")
        );
        let (directory, path) = file("config.yaml", &given);
        let fixed = directory.path().join("fixed");
        let codes = |path: &Path, more: &[&str]| -> String {
            let mut arguments = vec![text(path), "--runs", "3", "-o", "json"];
            arguments.extend(more);
            let output = windrow(&arguments);
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            document["nodes"][0]["findings"].to_string()
        };
        let code = "addon-name-invalid";
        let found = codes(&path, &["--fix", text(&fixed)]);
        assert!(found.contains(code), "{found}");
        let copy = fs::read_to_string(fixed.join("config.yaml")).unwrap();
        assert_eq!(copy, given.replace("My_Site", "my-site"));
        assert_eq!(fs::read_to_string(&path).unwrap(), given);
        let left = codes(&fixed.join("config.yaml"), &[]);
        assert!(!left.contains(code), "{left}\n{copy}");
    }
}

#[test]
fn what_is_to_be_split_or_annotated_is_told_and_a_copy_has_it_as_it_was() {
    let together = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: late}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: late}\n";
    let case = "tests/cases/webhook-not-awaited/sick.yaml";
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sick = fs::read_to_string(root.join(case)).unwrap();
    for (code, given, advice) in [
        (
            "same-file-order",
            together,
            "Move the object that provides it to a separate file.",
        ),
        (
            "webhook-not-awaited",
            &sick,
            "`windrow.dev/depends-on: apps/namespaces/pools/Deployment/pools`",
        ),
    ] {
        let (directory, path) = file("a.yaml", given);
        let fixed = directory.path().join("fixed");
        let output = windrow(&[text(&path), "--runs", "1", "--fix", text(&fixed)]);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let words: Vec<&str> = stdout.split_whitespace().collect();
        assert!(stdout.contains(code), "{stdout}");
        assert!(words.join(" ").contains(advice), "{stdout}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains("no finding can be corrected automatically"),
            "{said}"
        );
        assert!(!fixed.exists());
    }
}

#[test]
fn a_version_that_is_not_modelled_is_said_first_and_is_not_green() {
    let (_directory, path) = file(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n",
    );
    for (option, version, says) in [
        (
            "--harvester",
            "v1.9.0",
            "Harvester v1.9.0 is newer than the versions that Windrow models",
        ),
        (
            "--harvester",
            "v1.3.2",
            "Harvester v1.3.2 is older than the versions that Windrow models",
        ),
        (
            "--harvester",
            "v1.5.1-rc1",
            "Harvester v1.5.1-rc1 came before v1.5.1, which starts differently",
        ),
        (
            "--rke2",
            "v1.99",
            "RKE2 v1.99 is newer than the versions that Windrow models",
        ),
        (
            "--rke2",
            "v1.20.1+rke2r1",
            "RKE2 v1.20.1 is older than the versions that Windrow models",
        ),
    ] {
        let arguments = [text(&path), "--runs", "2", option, version];
        let output = windrow(&arguments);
        assert_eq!(
            output.status.code(),
            Some(5),
            "{option} {version}: {output:?}"
        );
        let text = said(&output);
        let mut lines = text.lines();
        let of_node = lines.find(|line| line.ends_with("2 simulated boots"));
        let second = lines.next().unwrap_or_default();
        assert!(of_node.is_some() && second.starts_with(says), "{text}");
        assert!(
            said(&output).contains("  unknown; in the simulation, the node comes up"),
            "{output:?}"
        );
        let json = windrow(&[&arguments[..], &["-o", "json"]].concat());
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        let beyond = json["nodes"][0]["beyond"][0].as_str().unwrap();
        assert!(beyond.starts_with(says), "{beyond}");
        let page = windrow(&[&arguments[..], &["-o", "html"]].concat());
        assert!(
            said(&page).contains(says) && !said(&page).contains("card good"),
            "{version}"
        );
    }
    for (option, version) in [("--harvester", "v1.7.3"), ("--rke2", "v1.32.7+rke2r1")] {
        let output = windrow(&[text(&path), "--runs", "2", option, version]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(!said(&output).contains("Windrow models"), "{output:?}");
        assert!(
            !said(&output).contains("has not been checked against"),
            "{output:?}"
        );
    }
    // A patch whose neighbours start alike is told, and green.
    let output = windrow(&[text(&path), "--runs", "2", "--harvester", "v1.8.3"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told =
        "Harvester v1.8.3 has not been checked against its sources: it is simulated as v1.8.2";
    assert!(said(&output).contains(told), "{output:?}");
    for (option, version, says) in [
        ("--harvester", "v1.7", "write it like v1.5.1"),
        ("--harvester", "newest", "write it like v1.5.1"),
        ("--rke2", "banana", "write it like v1.35"),
    ] {
        let output = windrow(&[text(&path), option, version]);
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(says),
            "{output:?}"
        );
    }
}

#[test]
fn a_proof_stands_before_what_follows_from_it_and_a_cluster_before_its_nodes() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: default}\n";
    let (_directory, path) = file("a_a.yaml", text);
    let node = |name: &str| format!("--node={name}={}", self::text(&path));
    let output = windrow(&[&node("n1"), &node("n2"), "--runs", "2"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let text = said(&output);
    let at = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words}\n{text}"))
    };
    assert!(
        text.contains("\n2 nodes of one cluster on RKE2, 2 simulated boots"),
        "{text}"
    );
    assert!(
        at("n1 initialises the cluster") < at("n2 joins as a server"),
        "{text}"
    );
    let proof = at("addon-name-invalid");
    assert!(proof < at("2 nodes of one cluster"), "{text}");
    assert_eq!(text.matches("addon-name-invalid").count(), 1, "{text}");
    assert!(at("n2 joins as a server") < at("seed 1"), "{text}");
}

#[test]
fn nodes_that_fare_alike_are_described_once_and_files_stand_side_by_side_where_there_is_room() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: default}\n";
    let (_directory, path) = file("a-file-with-a-name-for-its-place-in-the-order.yaml", text);
    let nodes: Vec<String> = (1..=5)
        .map(|number| format!("--node=n{number}={}", self::text(&path)))
        .collect();
    let run = |columns: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(["check", "--details", "--runs", "2"])
            .args(&nodes)
            .env("COLUMNS", columns)
            .output()
            .unwrap();
        said(&output)
    };
    let wide = run("120");
    assert!(
        wide.contains("n2 to n5 join as servers, one after another"),
        "{wide}"
    );
    assert_eq!(wide.matches("n2 to n5: the same").count(), 1, "{wide}");
    assert!(!wide.contains("n3"), "{wide}");
    let row = wide
        .lines()
        .find(|line| line.trim_start().starts_with("n1  "))
        .unwrap();
    assert!(row.ends_with("n2 to n5"), "{wide}");
    let files = wide.matches("in-the-order.yaml  ").count();
    assert_eq!(files, 1, "{wide}");
    // Without room each tells of its files by itself, and no name is broken.
    let narrow = run("60");
    assert_eq!(
        narrow.matches("      with     applied").count(),
        2,
        "{narrow}"
    );
    for line in narrow.lines() {
        let words = line.split_whitespace().count();
        assert!(line.chars().count() <= 60 || words < 3, "{line}");
    }
}
