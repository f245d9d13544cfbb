//! `windrow config` through the real binary: what is in force and who set it, and what is wrong, on the node and before.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// Exit code, standard output, standard error.
type Ran = (i32, String, String);

fn config(root: &TempDir, args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root.path())
        .arg("config")
        .args(args)
        .current_dir(root.path())
        .output()
        .unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn write(root: &TempDir, path: &str, text: &str) -> PathBuf {
    let path = root.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// Each word begins a line of the output.
fn says(ran: &Ran, beginnings: &[&str]) {
    for beginning in beginnings {
        let line = format!("windrow: {beginning}");
        let said = ran.2.lines().any(|one| one.starts_with(&line));
        assert!(said, "{beginning}: {ran:?}");
    }
}

#[test]
fn the_configuration_is_shown_with_who_set_it() {
    let node = TempDir::new().unwrap();
    let file = write(
        &node,
        "etc/windrow/conf.d/10-site.yaml",
        "platform: harvester\n",
    );
    let ran = config(&node, &["show", "--origin", "-o", "json"]);
    assert_eq!(ran.0, 0, "{ran:?}");
    let shown: Value = serde_json::from_str(&ran.1).unwrap();
    let values = shown["values"].as_array().unwrap();
    let platform = values.iter().find(|one| one["key"] == "platform").unwrap();
    assert_eq!(platform["value"], "harvester");
    assert_eq!(platform["file"], file.to_str().unwrap());
    assert_eq!(platform["line"], 1);
    assert!(values.iter().any(|one| one["origin"] == "default"));
    let ran = config(&node, &["show", "--origin"]);
    assert!(ran.1.contains("10-site.yaml:1"), "{ran:?}");
    assert_eq!(config(&node, &["check"]).0, 0);
}

#[test]
fn every_error_of_every_file_of_the_node_is_named_at_once() {
    let node = TempDir::new().unwrap();
    write(
        &node,
        "etc/windrow/conf.d/10-a.yaml",
        "\nplatfrom: harvester\n",
    );
    write(
        &node,
        "etc/windrow/conf.d/20-b.yaml",
        "staging:\n  enabled: 7\n",
    );
    let ran = config(&node, &["check"]);
    assert_eq!(ran.0, 78, "{ran:?}");
    assert!(ran.2.contains("10-a.yaml:2"), "{ran:?}");
    assert!(ran.2.contains("20-b.yaml:2"), "{ran:?}");
}

const USER_DATA: &str = r#"#cloud-config
write_files:
  - path: /etc/windrow/conf.d/10-site.yaml
    content: |
      platfrom: harvester
      staging:
        enabled: 7
  - path: /etc/windrow/rules.d/50-site.yaml
    content: |
      apiVersion: windrow.dev/v1
      kind: RulePack
      metadata: {name: site}
      rules:
        - name: a
          match: {kind: ConfigMap}
          reason: it has to
          requirez: []
  - path: /etc/windrow/windrow.yaml
    content: "platform: both\nbad: 1\n"
"#;

#[test]
fn what_a_configuration_writes_is_checked_with_the_lines_of_the_file_that_was_given() {
    let root = TempDir::new().unwrap();
    write(&root, "user-data.yaml", USER_DATA);
    let ran = config(&root, &["check", "user-data.yaml"]);
    assert_eq!(ran.0, 78, "{ran:?}");
    says(
        &ran,
        &[
            "user-data.yaml:5: unknown key `platfrom`",
            "user-data.yaml:7: staging.enabled",
            "user-data.yaml:17: the rule has no key `requirez`",
            // Lines inside quotes have no place of their own: both are given.
            "user-data.yaml:19: /etc/windrow/windrow.yaml:1: platform",
            "user-data.yaml:19: /etc/windrow/windrow.yaml:2: unknown key `bad`",
        ],
    );
    // A yip file and a Harvester configuration carry the same; the latter also has its own webhooks.
    let inner = "content: |\n          nothing: 1\n";
    let yip = format!(
        "stages:\n  initramfs:\n    - files:\n      - path: /etc/rancher/windrow/windrow.yaml\n        {inner}"
    );
    write(&root, "yip.yaml", &yip);
    let harvester = format!(
        "install:\n  mode: create\n  webhooks:\n    - {{event: NODE_READY, url: 7}}\nos:\n  writeFiles:\n      - path: /etc/rancher/windrow/conf.d/1.yaml\n        {inner}"
    );
    write(&root, "harvester.yaml", &harvester);
    let ran = config(&root, &["check", "yip.yaml", "harvester.yaml"]);
    assert_eq!(ran.0, 78, "{ran:?}");
    says(
        &ran,
        &[
            "yip.yaml:6: unknown key `nothing`",
            "harvester.yaml:9: unknown key `nothing`",
            "harvester.yaml:4: ",
        ],
    );
    let broken = USER_DATA.replace("/etc/windrow/windrow.yaml", "[");
    write(&root, "broken.yaml", &broken);
    let ran = config(&root, &["check", "broken.yaml"]);
    assert_eq!(ran.0, 78, "{ran:?}");
    says(&ran, &["broken.yaml:1"]);
    let machine = Path::new(env!("CARGO_MANIFEST_DIR"));
    for good in [
        "packaging/cloud-init/user-data.yaml",
        "examples/first-vm/harvester-config.yaml",
    ] {
        let good = machine.join(good);
        let ran = config(&root, &["check", good.to_str().unwrap()]);
        assert_eq!(ran.0, 0, "{ran:?}");
    }
}

#[test]
fn files_and_directories_are_checked_by_themselves_whatever_this_machine_has() {
    let root = TempDir::new().unwrap();
    write(&root, "etc/windrow/windrow.yaml", "wrong: 1\n");
    write(&root, "site.yaml", "platform: rke2\n");
    let pack = "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: x}\nrules: []\n";
    write(&root, "pack.yaml", pack);
    let ran = config(&root, &["check", "site.yaml", "pack.yaml"]);
    assert_eq!(ran.0, 0, "{ran:?}");
    assert_eq!(ran.1, "2 files, 1 of them rule packs: no errors\n");

    // Files of one name on two nodes are both looked at; as on a node, other endings are not.
    for node in ["n1", "n2"] {
        let pack = pack.replace("rules", node);
        write(&root, &format!("{node}/rules.d/50.yaml"), &pack);
        write(&root, &format!("{node}/conf.d/50.yaml"), "wrong: 1\n");
        write(&root, &format!("{node}/conf.d/50.txt"), "wrong: 1\n");
    }
    let ran = config(&root, &["check", "n1", "n2"]);
    assert_eq!(ran.0, 78, "{ran:?}");
    says(
        &ran,
        &[
            "n1/rules.d/50.yaml:4: ",
            "n2/rules.d/50.yaml:4: ",
            "n1/conf.d/50.yaml:1: ",
            "n2/conf.d/50.yaml:1: ",
        ],
    );
    assert!(!ran.2.contains("50.txt"), "{ran:?}");
    write(&root, "drop-ins/site.yaml", "wrong: 1\n");
    write(&root, "drop-ins/user-data.yaml", USER_DATA);
    let ran = config(&root, &["check", "drop-ins"]);
    says(
        &ran,
        &["drop-ins/site.yaml:1: ", "drop-ins/user-data.yaml:5: "],
    );
}

#[test]
fn what_no_node_would_read_is_not_passed_over() {
    let root = TempDir::new().unwrap();
    write(&root, "etc/conf.d/10.yaml", "platform: rke2\n");
    write(&root, "etc/conf.d/20-site.yml", "platform: harvester\n");
    let ran = config(&root, &["check", "etc"]);
    assert_eq!(ran.0, 78, "{ran:?}");
    says(&ran, &["etc/conf.d/20-site.yml: it is not read: rename it"]);
    // Nothing was looked at.
    write(&root, "rules.d/site.yml", "apiVersion: windrow.dev/v1\n");
    let ran = config(&root, &["check", "rules.d"]);
    assert_eq!(ran.0, 64, "{ran:?}");
    says(
        &ran,
        &["rules.d: this directory has no configuration of Windrow (*.yaml)"],
    );
}

#[test]
fn what_is_not_there_or_no_configuration_is_wrong_use_and_does_not_hide_errors() {
    let root = TempDir::new().unwrap();
    write(&root, "map.yaml", "apiVersion: v1\nkind: ConfigMap\n");
    write(&root, "wrong.yaml", "wrong: 1\n");
    let ran = config(&root, &["check", "nowhere.yaml", "map.yaml", "wrong.yaml"]);
    assert_eq!(ran.0, 64, "{ran:?}");
    says(
        &ran,
        &[
            "nowhere.yaml: cannot be read",
            "map.yaml: it is a manifest; `windrow plan map.yaml`",
            "wrong.yaml:1: ",
        ],
    );
}

#[test]
fn a_manifest_is_told_as_one_however_many_documents_it_has() {
    let given = TempDir::new().unwrap();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";
    for (name, text) in [
        ("one.yaml", map.to_owned()),
        ("two.yaml", format!("{map}---\n{map}")),
        ("broken.yaml", format!("{map}---\n}}\n")),
    ] {
        write(&given, name, &text);
        let ran = config(&given, &["check", name]);
        assert_eq!(ran.0, 64, "{ran:?}");
        says(
            &ran,
            &[&format!(
                "{name}: it is a manifest; `windrow plan {name}` checks these"
            )],
        );
        assert!(!ran.2.contains("---"), "{ran:?}");
    }
    write(
        &given,
        "settings.yaml",
        "platform: rke2\n---\nplatform: rke2\n",
    );
    let ran = config(&given, &["check", "settings.yaml"]);
    assert_eq!(ran.0, 78, "{ran:?}");
    assert!(
        ran.2
            .contains("put the text after the `---` into a separate file"),
        "{ran:?}"
    );
}
