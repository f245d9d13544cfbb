//! `windrow gates` as a user sees it: files in, text and an exit code out.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::as_node::on_its_node;
use crate::support::daemon::can_mount;

const SECRET: &str = "K10f00d5ecret";

fn windrow(root: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .arg("gates")
        .args(args)
        .current_dir(root)
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_directory_of_drop_ins_is_checked_for_the_version_that_is_named() {
    let root = tempfile::tempdir().unwrap();
    write(
        root.path(),
        "d/50-api.yaml",
        "kube-apiserver-arg:\n- feature-gates=AuthorizeNodeWithSelectors=false\n",
    );
    for (version, exit) in [
        ("v1.33", 0),
        ("v1.34.2+rke2r1", 4),
        ("v1.37", 4),
        ("v1.60", 4),
    ] {
        let output = windrow(root.path(), &["check", "--rke2", version, "d"]);
        assert_eq!(code(&output), exit, "{version}: {}", text(&output));
    }
    let output = windrow(root.path(), &["check", "--rke2", "v1.34", "d"]);
    assert!(
        text(&output).contains("d/50-api.yaml:2"),
        "{}",
        text(&output)
    );
    // The version that starts is unknown, so it is unknown whether it starts.
    assert_eq!(code(&windrow(root.path(), &["check", "d"])), 5);
    assert_eq!(
        code(&windrow(root.path(), &["check", "--rke2", "soon", "d"])),
        64
    );
    assert_eq!(code(&windrow(root.path(), &["check", "nowhere"])), 64);
}

#[test]
fn the_kubelets_own_files_are_looked_at_wherever_they_come_from() {
    const BAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfeatureGates:\n  MemoryManager: true\n";
    const DROP_IN: &str = "var/lib/rancher/rke2/agent/etc/kubelet.conf.d/50-site.conf";
    let root = tempfile::tempdir().unwrap();
    let check = |args: &[&str]| {
        let output = windrow(
            root.path(),
            &[&["check", "--rke2", "v1.36.1"], args].concat(),
        );
        (code(&output), text(&output))
    };
    let refused = |args: &[&str], at: &str| {
        let (exit, said) = check(args);
        assert_eq!(exit, 4, "{args:?}: {said}");
        assert!(said.contains(at), "{args:?}: {said}");
    };
    // The node's own, a file and a directory that are named, and what user-data writes.
    write(root.path(), DROP_IN, BAD);
    refused(&[], "50-site.conf:4");
    refused(&[DROP_IN], "50-site.conf:4");
    refused(
        &["var/lib/rancher/rke2/agent/etc/kubelet.conf.d"],
        "50-site.conf:4",
    );
    write(root.path(), "kubelet.yaml", BAD);
    refused(&["kubelet.yaml"], "kubelet.yaml:4");
    let data = |path: &str, arguments: &str| {
        let indented = BAD.replace('\n', "\n      ");
        format!(
            "#cloud-config\nwrite_files:\n- path: {path}\n  content: |\n      {indented}\n- path: /etc/rancher/rke2/config.yaml\n  content: |\n    {arguments}\n"
        )
    };
    write(
        root.path(),
        "user-data",
        &data(&format!("/{DROP_IN}"), "cni: canal"),
    );
    refused(&["user-data"], "user-data:8");
    let named = "kubelet-arg: [config=/etc/rancher/rke2/kubelet.yaml]";
    write(
        root.path(),
        "user-data",
        &data("/etc/rancher/rke2/kubelet.yaml", named),
    );
    refused(&["user-data"], "user-data:8");
    // One that nobody reads sets nothing, and one that is not here is not judged.
    write(
        root.path(),
        "user-data",
        &data("/etc/rancher/rke2/kubelet.yaml", "cni: canal"),
    );
    assert_eq!(check(&["user-data"]).0, 0);
    write(root.path(), "user-data", &data("/etc/other.yaml", named));
    let (exit, said) = check(&["user-data"]);
    assert_eq!(exit, 5, "{said}");
    assert!(
        said.contains("kubelet reads /etc/rancher/rke2/kubelet.yaml"),
        "{said}"
    );
}

#[test]
fn an_object_of_kubernetes_is_no_configuration_of_rke2() {
    let root = tempfile::tempdir().unwrap();
    for (file, content) in [
        (
            "kubeadm.yaml",
            "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\napiServer:\n  extraArgs: {feature-gates: Bogus=true}\n---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
        ),
        (
            "k3d.yaml",
            "---\napiVersion: k3d.io/v1alpha5\nkind: Simple\noptions: {k3s: {extraArgs: [{arg: --kube-apiserver-arg=feature-gates=Bogus=true}]}}\n",
        ),
        (
            "rancher.yaml",
            "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nspec: {rkeConfig: {machineGlobalConfig: {kube-apiserver-arg: [feature-gates=Bogus=true]}}}\n",
        ),
    ] {
        write(root.path(), file, content);
        let output = windrow(root.path(), &["check", "--rke2", "v1.33", file]);
        assert_eq!(code(&output), 64, "{}", text(&output));
        assert!(
            text(&output).contains("not a configuration of RKE2"),
            "{}",
            text(&output)
        );
    }
    let keys = "kube-apiserver-args: [feature-gates=Bogus=true]\n";
    write(root.path(), "keys.yaml", keys);
    let output = windrow(root.path(), &["check", "--rke2", "v1.33", "keys.yaml"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(
        text(&output).contains("`kube-apiserver-arg`?"),
        "{}",
        text(&output)
    );
}

#[test]
fn a_harvester_configuration_is_checked_with_the_lines_of_the_outer_file() {
    let root = tempfile::tempdir().unwrap();
    write(
        root.path(),
        "harvester.yaml",
        &format!(
            "schemeVersion: 1\ntoken: {SECRET}\nos:\n  writeFiles:\n  - path: /etc/rancher/rke2/config.yaml.d/60.yaml\n    content: |\n      token: {SECRET}\n      kubelet-arg:\n      - feature-gates=NodeSwap=false\n  - path: /etc/windrow/conf.d/gates.yaml\n    content: |\n      featureGates:\n        kubeApiserver: {{imagevolume: true}}\n"
        ),
    );
    let output = windrow(root.path(), &["check", "--rke2", "v1.34", "harvester.yaml"]);
    assert_eq!(code(&output), 4);
    let text = text(&output);
    assert!(text.contains("harvester.yaml:9"), "{text}");
    assert!(text.contains("written `ImageVolume`"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
}

/// Makes a file that was just written executable, as a copy by another process: while a child of another test has it open for
/// writing it could not be executed.
fn make_executable(path: &Path) {
    let script = r#"cat "$0" >"$0.new" && chmod 755 "$0.new" && mv "$0.new" "$0""#;
    let done = Command::new("sh").args(["-c", script]).arg(path).status();
    assert!(
        done.is_ok_and(|status| status.success()),
        "{}",
        path.display()
    );
}

#[test]
fn the_nodes_own_configuration_is_checked_for_the_binary_that_is_installed() {
    let root = tempfile::tempdir().unwrap();
    write(
        root.path(),
        "usr/local/bin/rke2",
        "#!/bin/sh\necho 'rke2 version v1.33.3+rke2r1 (abc)'\n",
    );
    let binary = root.path().join("usr/local/bin/rke2");
    make_executable(&binary);
    write(
        root.path(),
        "etc/windrow/windrow.yaml",
        "featureGates:\n  kubeApiserver:\n    AuthorizeNodeWithSelectors: {value: false, reason: second node}\n",
    );
    write(
        root.path(),
        "etc/rancher/rke2/config.yaml.d/99-zz9-windrow-gates.yaml",
        "kube-apiserver-arg+:\n- feature-gates+=NoLongerAskedFor=true\n",
    );
    let output = windrow(root.path(), &["check"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(text(&output).contains("the installed rke2 is 1.33.3"));
    assert!(!text(&output).contains("NoLongerAskedFor"));
    let output = windrow(root.path(), &["check", "--rke2", "v1.34.2"]);
    assert_eq!(code(&output), 4, "{}", text(&output));
    let shown = windrow(root.path(), &["check", "-o", "json"]);
    assert_eq!(code(&shown), 0);
    let json: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let gate = &json["components"][0]["gates"][0];
    assert_eq!(gate["gate"], "AuthorizeNodeWithSelectors");
    assert_eq!(gate["reason"], "second node");
    assert_eq!(gate["at"]["line"], 3);
}

#[test]
fn secrets_in_drop_ins_never_appear_whatever_is_wrong_with_the_file() {
    let root = tempfile::tempdir().unwrap();
    let broken = [
        format!("token: {SECRET}\nkubelet-arg: [feature-gates=X-true]\n"),
        format!("token: [{SECRET}\n"),
        format!("token: *{SECRET}\n"),
        format!("token: \"{SECRET}\n"),
        format!("{SECRET}\n"),
        format!("{{\"server\": \"{SECRET}\", \"agent-token\": \"{SECRET}\"}}\n"),
        format!("token:\n\t{SECRET}: 1\n"),
        format!("#cloud-config\nwrite_files: {SECRET}\n"),
        format!("os: {SECRET}\ntoken: *{SECRET}\n"),
    ];
    for (number, content) in broken.iter().enumerate() {
        // A directory with a configuration in it that cannot be read is not checked at all.
        let carries = number >= broken.len() - 2;
        let directory = if carries { "carriers" } else { "d" };
        let file = format!("{directory}/{number}.yaml");
        write(root.path(), &file, content);
        for args in [
            &["check", "--rke2", "v1.35", &file][..],
            &["check", "--rke2", "v1.35", "-o", "json", &file],
        ] {
            let text = text(&windrow(root.path(), args));
            assert!(!text.contains(SECRET), "{content}\n{text}");
        }
    }
    let all = windrow(root.path(), &["check", "--rke2", "v1.35", "d"]);
    assert_eq!(code(&all), 4);
    assert!(!text(&all).contains(SECRET), "{}", text(&all));
    let all = windrow(root.path(), &["check", "--rke2", "v1.35", "carriers"]);
    assert_eq!(code(&all), 64);
    assert!(!text(&all).contains(SECRET), "{}", text(&all));
}

#[test]
fn a_wrong_request_in_windrows_configuration_is_refused_with_its_line() {
    let root = tempfile::tempdir().unwrap();
    write(
        root.path(),
        "w.yaml",
        "featureGates:\n  kubelet:\n    NodeSwap: 'yes'\n",
    );
    let output = windrow(root.path(), &["check", "--rke2", "v1.33", "w.yaml"]);
    assert_eq!(code(&output), 78);
    assert!(text(&output).contains("w.yaml:3"), "{}", text(&output));
}

/// A kubelet as RKE2 unpacks it, which answers as the real ones of 1.31 to 1.36 were seen to.
#[test]
fn a_wrong_request_that_a_configuration_writes_has_the_line_of_the_file_that_was_given() {
    let root = tempfile::tempdir().unwrap();
    let inner = "featureGates:\n        kubeApiserver:\n          NodeSwap: maybe\n";
    let user_data = format!(
        "#cloud-config\nwrite_files:\n- path: /etc/windrow/conf.d/gates.yaml\n  content: |\n      {inner}"
    );
    write(root.path(), "user-data.yaml", &user_data);
    let quoted = format!("{:?}", inner.replace("\n      ", "\n"));
    let user_data = user_data.split_once('|').unwrap().0.to_owned() + &quoted + "\n";
    write(root.path(), "quoted.yaml", &user_data);
    for (file, place) in [
        ("user-data.yaml", "user-data.yaml:7: "),
        (
            "quoted.yaml",
            "quoted.yaml:4: /etc/windrow/conf.d/gates.yaml:3: ",
        ),
    ] {
        let output = windrow(root.path(), &["check", "--rke2", "v1.35", file]);
        assert_eq!(code(&output), 78, "{}", text(&output));
        assert!(text(&output).contains(place), "{}", text(&output));
    }
}

fn kubelet(root: &Path, version: &str, refuses: &str) {
    write(
        root,
        "var/lib/rancher/rke2/bin/kubelet",
        &format!(
            "#!/bin/sh\n\
             [ \"$1\" = --version ] && echo 'Kubernetes {version}' && exit 0\n\
             [ \"$2\" = --config=/nonexistent ] || exit 3\n\
             case ,${{1#--feature-gates=}}, in\n\
             *,{refuses}=*) echo 'E1121 20:00:00.1 1 run.go:72] \"command failed\" err=\"failed to set feature gates from initial flags-based config: unrecognized feature gate: {refuses}\"' >&2 ;;\n\
             *) echo 'E1121 20:00:00.1 1 run.go:72] \"command failed\" err=\"failed to load kubelet config file, path: /nonexistent, error: open /nonexistent: no such file or directory\"' >&2 ;;\n\
             esac\nexit 1\n"
        ),
    );
    let path = root.join("var/lib/rancher/rke2/bin/kubelet");
    make_executable(&path);
}

#[test]
fn a_kubelet_of_the_version_that_starts_overrides_the_catalogue_on_its_node() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let windrow = |root: &Path, args: &[&str]| {
        let mut command = on_its_node(root);
        command.arg("gates").args(args).output().unwrap()
    };
    write(root.path(), "opt/rke2/bin/rke2", "v1.34.2+rke2r1");
    write(
        root.path(),
        "etc/rancher/rke2/config.yaml",
        "kube-apiserver-arg:\n- feature-gates=ImageVolume=true,NodeSwap=true\n",
    );
    assert_eq!(
        code(&windrow(root.path(), &["check"])),
        0,
        "the catalogue knows both"
    );
    kubelet(root.path(), "v1.34.2+rke2r1", "ImageVolume");
    let refused = windrow(root.path(), &["check"]);
    assert_eq!(code(&refused), 4, "{}", text(&refused));
    assert!(text(&refused).contains("unrecognized feature gate: ImageVolume"));
    assert!(
        text(&refused).contains("config.yaml:2"),
        "{}",
        text(&refused)
    );
    // About another version it says nothing.
    kubelet(root.path(), "v1.33.9+rke2r1", "ImageVolume");
    assert_eq!(code(&windrow(root.path(), &["check"])), 0);

    // Newer than any catalogue: without the kubelet nothing is known, with it everything is.
    write(root.path(), "opt/rke2/bin/rke2", "v1.60.1+rke2r1");
    assert_eq!(code(&windrow(root.path(), &["check"])), 5);
    kubelet(root.path(), "v1.60.1+rke2r1", "Nothing");
    let taken = windrow(root.path(), &["check"]);
    assert_eq!(code(&taken), 0, "{}", text(&taken));
}

#[test]
fn an_rke2_that_contains_no_version_is_run_on_its_node() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let program = "#!/bin/sh\necho \"rke2 version v1.34.2+\"\"rke2r1\"\n";
    write(root.path(), "opt/rke2/bin/rke2", program);
    make_executable(&root.path().join("opt/rke2/bin/rke2"));
    let shown = on_its_node(root.path()).args(["gates", "check"]).output();
    let shown = text(&shown.unwrap());
    assert!(shown.contains("the installed rke2 is 1.34.2"), "{shown}");
}

#[test]
fn no_program_below_another_root_is_run() {
    let root = tempfile::tempdir().unwrap();
    let ran = root.path().join("ran");
    let program = format!(
        "#!/bin/sh\necho \"$0 $@\" >>{}\necho \"v1.33.1+\"\"rke2r1\"\n",
        ran.display()
    );
    let programs = [
        "usr/local/bin/rke2",
        "usr/bin/rke2",
        "opt/rke2/bin/rke2",
        "var/lib/rancher/rke2/bin/kubelet",
        "usr/bin/journalctl",
        "usr/bin/systemctl",
        "usr/bin/ip",
        "usr/bin/df",
    ];
    for path in programs {
        write(root.path(), path, &program);
        make_executable(&root.path().join(path));
    }
    // With a version in the file, `gates check` would ask the kubelet.
    for version in ["", "v1.33.1+rke2r1"] {
        write(
            root.path(),
            "usr/local/bin/rke2",
            &format!("{program}# {version}\n"),
        );
        for args in [
            &["gates", "check"][..],
            &["plan"],
            &["report", "--output-file", "-"],
            &["diagnose"],
            &["preflight", "--offline"],
            &["config", "check"],
            &["upgrade-check"],
            &["release", "--all"],
            &["cleanup"],
        ] {
            let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
                .arg("--root")
                .arg(root.path())
                .args(args)
                .current_dir(root.path())
                .output()
                .unwrap();
            assert!(!ran.exists(), "{args:?}: {}", text(&output));
            if args == ["gates", "check"] && version.is_empty() {
                let why = "it was not run, because the tree belongs to another machine";
                assert!(text(&output).contains(why), "{}", text(&output));
            }
        }
    }
}

#[test]
fn what_can_be_read_beside_an_unreadable_file_is_checked_all_the_same() {
    let root = tempfile::tempdir().unwrap();
    let bad = "kube-apiserver-arg:\n- feature-gates=AuthorizeNodeWithSelectors=false\n";
    write(root.path(), "d/50-api.yaml", bad);
    std::os::unix::fs::symlink("nowhere", root.path().join("d/60-lost.yaml")).unwrap();
    fs::write(root.path().join("d/70-binary.yaml"), b"a: \xff\n").unwrap();
    let check = |version: &str, more: &[&str]| {
        windrow(
            root.path(),
            &[&["check", "--rke2", version, "d"], more].concat(),
        )
    };
    let output = check("v1.34", &[]);
    assert_eq!(code(&output), 64, "{}", text(&output));
    for expected in [
        "d/50-api.yaml:2",
        "d/60-lost.yaml: cannot be read",
        "d/70-binary.yaml: cannot be read",
        "fail: Not every component would start",
    ] {
        assert!(text(&output).contains(expected), "{}", text(&output));
    }
    // What could be read is fine, and nobody knows of the rest.
    let output = check("v1.33", &["-o", "json"]);
    assert_eq!(code(&output), 64);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["starts"], serde_json::Value::Null, "{report}");
    assert_eq!(report["unread"].as_array().unwrap().len(), 2, "{report}");
    let said = check("v1.33", &[]);
    assert!(text(&said).contains("it could not read everything"));
    // Wrong settings beside gates are the configuration's fault.
    let own = "featureGates:\n  kubeApiserver: {ImageVolume: maybe}\n";
    write(root.path(), "e/windrow.yaml", own);
    write(root.path(), "e/50-api.yaml", bad);
    let output = windrow(root.path(), &["check", "--rke2", "v1.34", "e"]);
    assert_eq!(code(&output), 78, "{}", text(&output));
    assert!(
        text(&output).contains("e/50-api.yaml:2"),
        "{}",
        text(&output)
    );
}
