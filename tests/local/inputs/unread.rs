//! A verb never passes as green what it has not looked at.

use std::fs;

use super::given::{
    Given, MANIFESTS, NAMESPACE, PLAN, REHEARSE, cloud_config, harvester, indented, says,
};

const GATES: &[&str] = &["gates", "check", "--rke2", "v1.35"];
const CONFIG: &[&str] = &["config", "check"];
const WRONG_GATE: &str =
    "kube-apiserver-arg: [feature-gates=NodeAuthorizerEnablePodSelectors=true]\n";

#[test]
fn commands_downloads_and_further_configurations_are_unknown_to_every_verb() {
    for (text, words) in [
        (
            format!("#cloud-config\nruncmd:\n- cp /root/a.yaml {MANIFESTS}/\n"),
            "c.yaml:3",
        ),
        (
            "os:\n  after_install_chroot_commands:\n  - tee /etc/rancher/rke2/config.yaml\n"
                .to_owned(),
            "os.afterInstallChrootCommands: a command names /etc/rancher/",
        ),
        (
            "install:\n  config_url: http://x/config.yaml\n".to_owned(),
            "the configuration at `install.configUrl`, which the installer merges into this one",
        ),
        (
            format!(
                "stages:\n  boot:\n  - downloads:\n    - {{path: {MANIFESTS}/a.yaml, url: 'http://x'}}\n"
            ),
            "which files are fetched to",
        ),
    ] {
        for verb in [PLAN, REHEARSE, GATES, CONFIG] {
            says(&text, verb, 5, &["not checked", words]);
        }
        says(
            &text,
            PLAN,
            5,
            &["Windrow cannot tell whether it can work: it could not check everything."],
        );
    }
}

#[test]
fn the_last_writer_counts_for_every_verb() {
    let path = "/etc/rancher/rke2/config.yaml.d/60.yaml";
    let entry = |content: &str, key: &str| {
        format!(
            "- path: {path}\n  {key}\n  content: |\n{}",
            indented(4, content)
        )
    };
    let file = |first: &str, second: &str| format!("#cloud-config\nwrite_files:\n{first}{second}");
    let wrong_last = file(
        &entry(WRONG_GATE, "defer: \"true\""),
        &entry("debug: true\n", "owner: root"),
    );
    says(&wrong_last, GATES, 4, &["NodeAuthorizerEnablePodSelectors"]);
    let right_last = file(
        &entry("debug: true\n", "defer: \"true\""),
        &entry(WRONG_GATE, "owner: root"),
    );
    says(&right_last, GATES, 0, &[]);
    let appended = file(
        &entry("debug: true\n", "owner: root"),
        &entry(WRONG_GATE, "append: true"),
    );
    says(&appended, GATES, 4, &["NodeAuthorizerEnablePodSelectors"]);
    let to_what = file("", &entry(WRONG_GATE, "append: true"));
    for verb in [PLAN, REHEARSE, GATES, CONFIG] {
        says(&to_what, verb, 5, &["`append` adds this"]);
    }
}

#[test]
fn standard_input_is_read_by_the_checks_as_well() {
    let given = Given::new("c.yaml", "");
    for (verb, own, exit, words) in [
        (GATES, "staging: {}", 4, "NodeAuthorizerEnablePodSelectors"),
        (
            CONFIG,
            "stagng: {}",
            78,
            "`stagng`: did you mean `staging`?",
        ),
    ] {
        let text = harvester("", own);
        let ran = given.run_with(&[verb, &["-"]].concat(), text.as_bytes());
        let said = ran.out + &ran.err;
        assert_eq!(ran.exit, exit, "{said}");
        assert!(
            said.contains(words) && said.contains("standard input:"),
            "{said}"
        );
        let ran = given.run_with(&[verb, &["-"]].concat(), b" \n");
        assert_eq!(ran.exit, 64);
        assert_eq!(
            ran.err,
            "windrow: standard input: it is empty: nothing was checked"
        );
    }
    let ran = given.run_with(&[GATES, &["-"]].concat(), WRONG_GATE.as_bytes());
    assert_eq!(ran.exit, 4, "{}", ran.err);
    let ran = given.run_with(&[CONFIG, &["-"]].concat(), b"staging: {}\n");
    assert_eq!(ran.exit, 0, "{}", ran.err);
}

#[test]
fn configurations_in_a_directory_are_read_whatever_they_are_called() {
    for name in ["user-data", "node.yaml", "config.txt", "node.yml"] {
        let given = Given::new("c.yaml", "");
        let directory = given.path("given");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("README.md"), "# Nodes\nos: any\n\n- one\n").unwrap();
        fs::write(directory.join("make.sh"), "#!/bin/sh\n").unwrap();
        fs::write(directory.join(name), harvester("", "stagng: {}")).unwrap();
        for (verb, exit, words) in [
            (&["plan"][..], 78, "`stagng`"),
            (REHEARSE, 4, "`stagng`"),
            (GATES, 78, "`stagng`"),
            (CONFIG, 78, "`stagng`"),
        ] {
            let ran = given.run(&[verb, &["given"]].concat());
            let said = ran.out + &ran.err;
            assert_eq!(ran.exit, exit, "{name} {verb:?}: {said}");
            assert!(said.contains(words), "{name} {verb:?}: {said}");
        }
        fs::write(directory.join(name), harvester("", "staging: {}")).unwrap();
        let ran = given.run(&["plan", "given"]);
        assert!(
            ran.out
                .contains("Plan on harvester: 1 manifest file, 1 held"),
            "{name}: {}",
            ran.out + &ran.err
        );
        let ran = given.run(&[GATES, &["given"]].concat());
        assert_eq!(ran.exit, 4, "{name}: {}", ran.out + &ran.err);
    }
    let given = Given::new("c.yaml", "");
    fs::create_dir(given.path("given")).unwrap();
    fs::write(given.path("given/notes.txt"), "none\n").unwrap();
    let ran = given.run(&["plan", "given"]);
    assert_eq!(ran.exit, 64, "{}", ran.err);
}

#[test]
fn what_is_wrong_with_the_file_that_was_given_has_the_advice_for_it() {
    let text = cloud_config(&[(&format!("{MANIFESTS}/a.yaml"), NAMESPACE)]) + "- content: x\n";
    let given = Given::new("c.yaml", text);
    let ran = given.run(&[PLAN, &["c.yaml"]].concat());
    assert_eq!(ran.exit, 4);
    assert!(
        ran.out
            .contains("input-refused c.yaml:8 a file without `path`"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("with an invalid document"), "{}", ran.out);
}

#[test]
fn a_plan_tells_of_templates_that_yip_renders() {
    let manifest = NAMESPACE.replace("name: one", "name: '{{ .Values.node.hostname }}'");
    let text = format!(
        "stages:\n  initramfs:\n  - files:\n    - path: {MANIFESTS}/a.yaml\n      content: |\n{}",
        indented(8, &manifest)
    );
    says(&text, PLAN, 0, &["yip-template c.yaml:8"]);
    // cloud-init renders none.
    let text = cloud_config(&[(&format!("{MANIFESTS}/a.yaml"), &manifest)]);
    let given = Given::new("c.yaml", text);
    let ran = given.run(&[PLAN, &["c.yaml"]].concat());
    assert!(!ran.out.contains("yip-template"), "{}", ran.out);
}

#[test]
fn a_file_of_windrows_own_that_a_node_would_not_read_is_named_and_counts_nowhere() {
    let given = Given::new("c.yaml", "");
    let off = "staging: {enabled: false}\n";
    for (path, words) in [
        ("a/conf.d/10.yml", "its name ends in .yaml"),
        ("b/conf.d/10.json", "its name ends in .yaml"),
        ("c/windrow.yml", "rename it to windrow.yaml"),
        ("d/etc/windrow/10-site.yaml", "put it into conf.d"),
    ] {
        let file = given.path(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, off).unwrap();
        let directory = &path[..1];
        for verb in [&["check", "--runs", "2"][..], &["plan"]] {
            let ran = given.run(&[verb, &[directory]].concat());
            let said = ran.out + &ran.err;
            assert_eq!(ran.exit, 78, "{path} {verb:?}: {said}");
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                said.contains(words) && said.contains(path),
                "{path} {verb:?}: {said}"
            );
        }
    }
    // What a configuration writes is held to the same.
    let text = harvester("", off).replace("conf.d/a.yaml", "conf.d/a.yml");
    fs::write(given.path("node.yaml"), text).unwrap();
    let ran = given.run(&[CONFIG, &["node.yaml"]].concat());
    assert_eq!(ran.exit, 78, "{}", ran.err);
    assert!(ran.err.contains("conf.d/a.yml"), "{}", ran.err);
}
