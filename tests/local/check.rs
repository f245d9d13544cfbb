//! `windrow check` as a user has it: one verdict, its first reason, its exit code, and findings that are accepted.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use windrow_model::reasons::{Code, Severity};
use windrow_simulate::rehearse::check::{CheckReport, CheckVerdict};

const FIRST_VM: &str = "examples/first-vm/harvester-config.yaml";
const TWICE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n";

fn windrow(arguments: &[&str]) -> Output {
    let is_counted = ["--runs", "--quick"]
        .iter()
        .any(|option| arguments.contains(option));
    let seeds: &[&str] = match is_counted {
        true => &[],
        false => &["--runs", "2"],
    };
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("check")
        .args(seeds)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn report(arguments: &[&str]) -> (CheckReport, Option<i32>) {
    let output = windrow(&[arguments, &["-o", "json"]].concat());
    let report = serde_json::from_slice(&output.stdout);
    (
        report.unwrap_or_else(|_| panic!("{output:?}")),
        output.status.code(),
    )
}

/// A directory of files.
fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

fn text_of(directory: &tempfile::TempDir) -> &str {
    text(directory.path())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_example_passes_and_says_so_in_its_first_line() {
    // Of two boots, both may be slower with Windrow.
    let output = windrow(&[FIRST_VM, "--runs", "20"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = said(&output);
    assert_eq!(text.lines().next(), Some("pass"), "{text}");
    let parts = "config: pass · plan: pass · gates: pass · rehearsal: pass";
    assert!(text.contains(parts), "{text}");
}

#[test]
fn the_release_of_the_iso_counts_and_another_one_on_the_command_line_is_reported() {
    let differs = |report: &CheckReport| {
        let mut findings = report.findings.iter();
        findings.any(|found| found.finding.code == Code::ReleaseDiffers)
    };
    let release = |output: &Output| {
        let text = said(output);
        let (_, after) = text.split_once(" on Harvester ")?;
        after.split([',', '\n']).next().map(str::to_owned)
    };
    let written = INSTALLED.replace("http://s/h.iso", "http://s/harvester-v1.7.1-amd64.iso");
    let given = directory(&[("node.yaml", &written)]);
    let path = given.path().join("node.yaml");
    let boot = "kernel vmlinuz harvester.install.iso_url=http://s/harvester-v1.6.1-amd64.iso harvester.install.automatic=true\n";
    let line = directory(&[("boot.ipxe", boot)]);
    let line = line.path().join("boot.ipxe");
    for (arguments, used, is_reported) in [
        (vec![text(&path)], "v1.7.1", false),
        (vec![text(&path), "--harvester", "v1.7.1"], "v1.7.1", false),
        (vec![text(&path), "--harvester", "v1.8.2"], "v1.8.2", true),
        (vec![text(&path), text(&line)], "v1.6.1", true),
    ] {
        let output = windrow(&[arguments.as_slice(), &["--details"]].concat());
        assert_eq!(release(&output).as_deref(), Some(used), "{output:?}");
        assert_eq!(differs(&report(&arguments).0), is_reported, "{arguments:?}");
    }
}

/// What the installer of every release takes without a person.
const INSTALLED: &str = "\
scheme_version: 1
token: tok
os:
  hostname: node1
  password: pw
install:
  mode: create
  automatic: true
  management_interface: {method: dhcp, interfaces: [{name: ens5}]}
  device: /dev/sda
  iso_url: http://s/h.iso
  vip: 10.10.0.19
  vip_mode: static
";

#[test]
fn what_harvesters_installer_refuses_cannot_work_and_what_it_may_refuse_is_unknown() {
    let check = |text: &str, more: &[&str]| {
        let directory = directory(&[("hv.yaml", text)]);
        let path = directory.path().join("hv.yaml");
        let (report, exit) = report(&[&[self::text(&path)], more].concat());
        let found = report.findings.iter().map(|one| &one.finding);
        let found: Vec<_> = found
            .map(|one| (one.code, one.at[0].line.unwrap()))
            .collect();
        (found, exit)
    };
    assert_eq!(check(INSTALLED, &[]), (vec![], Some(0)));

    let wrong = INSTALLED
        .replace("pw", "123456")
        .replace("create", "Create");
    let refused = Code::InstallerRefuses;
    let (found, exit) = check(&wrong, &[]);
    assert_eq!(exit, Some(4), "{found:?}");
    assert!(
        found.contains(&(refused, 5)) && found.contains(&(refused, 7)),
        "{found:?}"
    );

    let setting = format!("{INSTALLED}system_settings: {{vm-migration-network: ''}}\n");
    assert_eq!(
        check(&setting, &[]),
        (vec![(Code::InstallerDepends, 14)], Some(5))
    );
    assert_eq!(
        check(&setting, &["--harvester", "v1.7.1"]),
        (vec![(refused, 14)], Some(4))
    );
    assert_eq!(
        check(&setting, &["--harvester", "v1.8.0"]),
        (vec![], Some(0))
    );

    let incomplete = INSTALLED.replace("token: tok\n", "");
    assert_eq!(
        check(&incomplete, &[]),
        (vec![(Code::InstallerDepends, 7)], Some(5))
    );

    let slip = INSTALLED.replace("device:", "vip-hw-addr: x\n  device:");
    assert_eq!(
        check(&slip, &[]),
        (vec![(Code::InstallerIgnores, 10)], Some(0))
    );

    // What is said of how the file is read is not said twice.
    let addon = format!("{INSTALLED}  addons: {{rancher-logging: {{enabled: true}}}}\n");
    assert_eq!(check(&addon, &[]), (vec![(Code::KeyNotRead, 14)], Some(4)));
}

/// Five mistakes of five kinds.
const FIVE: &str = "\
scheme_version: 1
os:
  writeFiles:
  - path: /var/lib/rancher/rke2/server/manifests/a.yaml
    content: |
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: a, namespace: nowhere}
  - path: /var/lib/rancher/rke2/server/manifest/b.yaml
    content: |
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: b, namespace: default}
  - path: /var/lib/rancher/rke2/server/manifests/c_c.yaml
    content: |
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: c, namespace: default}
  - path: /etc/rancher/rke2/config.yaml.d/99-gates.yaml
    content: |
      kube-apiserver-arg:
      - feature-gates=NodeAuthorizerEnablePodSelectors=false
  - path: /etc/rancher/windrow/conf.d/x.yaml
    content: |
      staging:
        advisoryDeadlin: 5m
install: {mode: create}
";

#[test]
fn five_mistakes_of_five_kinds_are_found_at_once_each_by_its_part() {
    let directory = directory(&[("hv.yaml", FIVE)]);
    let (report, exit) = report(&[text(&directory.path().join("hv.yaml"))]);
    assert_eq!(exit, Some(4));
    assert_eq!(report.verdict, CheckVerdict::Fail);
    for (code, line) in [
        (Code::ObjectWithoutProvider, 6),
        (Code::PathNotRead, 9),
        (Code::AddonNameInvalid, 16),
        (Code::GatePodSelectors, 22),
        (Code::ConfigurationInvalid, 26),
    ] {
        let found = report.findings.iter().find(|one| one.finding.code == code);
        let at = &found
            .unwrap_or_else(|| panic!("{code}: {report:?}"))
            .finding
            .at;
        assert_eq!(at[0].line, Some(line), "{code}");
    }
    let parts = report.parts.iter().map(|part| part.verdict);
    assert_eq!(
        parts.collect::<Vec<_>>(),
        [CheckVerdict::Fail; 3],
        "a node whose gates are wrong does not boot"
    );
}

#[test]
fn windrows_own_configuration_alone_exits_as_bad_configuration() {
    let user_data = "#cloud-config\nwrite_files:\n- path: /etc/windrow/windrow.yaml\n  content: |\n    stagin: {}\n";
    let directory = directory(&[("user-data", user_data)]);
    let (report, exit) = report(&[text(&directory.path().join("user-data"))]);
    assert_eq!((report.verdict, exit), (CheckVerdict::Fail, Some(78)));
    assert_eq!(report.findings[0].finding.at[0].line, Some(5));
}

#[test]
fn what_fails_the_command_is_chosen_and_what_is_accepted_does_not() {
    let directory = directory(&[("a.yaml", TWICE), ("b.yaml", TWICE)]);
    let path = directory.path();
    let exit = |more: &[&str]| windrow(&[&[text(path)], more].concat()).status.code();
    assert_eq!(exit(&[]), Some(0));
    assert_eq!(exit(&["--fail-on", "warning"]), Some(4));
    let accept = "apiVersion: windrow.dev/v1\nkind: AcceptedFindings\naccept:\n- code: duplicate-object\n  reason: they are alike\n";
    fs::write(path.join(".windrow-accept.yaml"), accept).unwrap();
    assert_eq!(exit(&["--fail-on", "warning"]), Some(0));
    let output = windrow(&[text(path)]);
    let said = said(&output);
    assert_eq!(said.lines().next(), Some("pass"), "{said}");
    assert!(said.contains("accepted: they are alike ("), "{said}");
    assert!(said.contains(".windrow-accept.yaml:4)"), "{said}");
    // Of another place, and one that is not there.
    let elsewhere = tempfile::tempdir().unwrap();
    let other = elsewhere.path().join("ours.yaml");
    assert_eq!(exit(&["--accept", text(&other)]), Some(64));
    fs::write(&other, accept.replace("duplicate-object", "duplicate")).unwrap();
    let (report, exit) = report(&[text(path), "--accept", text(&other)]);
    assert_eq!(exit, Some(78));
    let first = report.because.unwrap().finding;
    assert_eq!(first.code, Code::AcceptanceInvalid);
    assert_eq!(first.at[0].line, Some(4));
}

#[test]
fn an_unlooked_at_part_is_unknown_and_only_fails_where_that_is_asked() {
    let user_data =
        "#cloud-config\nruncmd:\n- cp /root/x.yaml /var/lib/rancher/rke2/server/manifests/\n";
    let directory = directory(&[("user-data", user_data)]);
    let path = directory.path().join("user-data");
    let (report, exit) = report(&[text(&path)]);
    assert_eq!((report.verdict, exit), (CheckVerdict::Unknown, Some(5)));
    let output = windrow(&[text(&path), "--fail-on", "error"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(said(&output).starts_with("unknown\n"), "{output:?}");
}

#[test]
fn the_findings_of_a_cluster_come_before_its_simulation_and_the_counts_last() {
    let directory = directory(&[("a.yaml", TWICE), ("b.yaml", TWICE)]);
    let nodes: Vec<String> = (1..=4)
        .map(|number| format!("--node=n{number}={}", directory.path().display()))
        .collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let output = windrow(&nodes);
    let text = said(&output);
    let at = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words}\n{text}"))
    };
    assert!(
        at("duplicate-object") < at("4 nodes of one cluster"),
        "{text}"
    );
    assert!(text.contains("4 warn: n1 to n4"));
    assert!(at("4 warn: n1 to n4") < at("Checked "), "{text}");
    assert!(text.contains(": 1 warn"));
    assert_eq!(
        text.matches("warn     duplicate-object").count(),
        1,
        "{text}"
    );
}

#[test]
fn a_rehearsal_that_is_out_of_time_is_unknown_with_what_was_played() {
    // Not even the first seed is played to its end.
    let (report, exit) = report(&[FIRST_VM, "--runs", "1", "--timeout", "0s"]);
    assert_eq!((report.verdict, exit), (CheckVerdict::Unknown, Some(5)));
    assert_eq!(report.nodes[0].verdict, CheckVerdict::Unknown);
    assert_eq!(report.nodes[0].seeds, 0);
    let because = report.because.unwrap().finding;
    assert_eq!(because.code, Code::RehearsalCutShort);
    assert!(
        because.message.contains("0 of 1 boots"),
        "{}",
        because.message
    );
}

#[test]
fn json_and_yaml_say_the_same_and_standard_input_is_read() {
    use std::io::Write as _;
    use std::process::Stdio;
    let run = |format: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(["check", "--runs", "1", "-", "-o", format])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(TWICE.as_bytes())
            .unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&run("json")).unwrap();
    let yaml = windrow_model::manifest::yaml::parse_configuration(&run("yaml"));
    assert_eq!(yaml.unwrap().unwrap().to_json(), json);
    assert_eq!(json["verdict"], "pass");
    assert_eq!(json["windrow"], env!("CARGO_PKG_VERSION"));
}

/// Two files that need each other: each has a namespace and a secret of the other's.
const KNOT: [(&str, &str); 2] = [
    (
        "a.yaml",
        "# ours\napiVersion: v1\nkind: Namespace\nmetadata: {name: t}\n---\n# of the other one\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: u}\n",
    ),
    (
        "b.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: u}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: t}\n",
    ),
];

#[test]
fn what_needs_fewer_passes_under_another_name_says_how_many_seconds_and_can_be_accepted() {
    let files = directory(&[
        (
            "cluster.yaml",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: t}\n",
        ),
        (
            "common.yaml",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: t}\n",
        ),
    ]);
    let (found, exit) = report(&[text(files.path()), "--runs", "5"]);
    assert_eq!((found.verdict, exit), (CheckVerdict::Warn, Some(0)));
    let because = found.because.unwrap();
    assert_eq!(because.finding.code, Code::NameSparesPass);
    assert_eq!(
        because.finding.message,
        "cluster.yaml: named zz-cluster.yaml it is applied in RKE2's first pass: saves 15 s in every simulated boot"
    );
    assert!(because.finding.at[0].file.ends_with("cluster.yaml"));
    assert!(because.advice.contains("before the image's first boot"));

    let copy = files.path().join("copy");
    windrow(&[text(files.path()), "--fix", text(&copy)]);
    assert!(copy.join("zz-cluster.yaml").exists());
    let (mended, _) = report(&[text(&copy), "--runs", "5"]);
    assert_eq!(mended.verdict, CheckVerdict::Pass, "{:?}", mended.findings);

    fs::remove_dir_all(&copy).unwrap();
    let accept = "apiVersion: windrow.dev/v1\nkind: AcceptedFindings\naccept:\n- code: name-spares-pass\n  reason: the names are the vendor's\n";
    fs::write(files.path().join(".windrow-accept.yaml"), accept).unwrap();
    let (accepted, _) = report(&[text(files.path())]);
    assert_eq!(
        accepted.verdict,
        CheckVerdict::Pass,
        "{:?}",
        accepted.findings
    );
}

#[test]
fn files_that_need_each_other_are_named_with_what_to_move_and_need_fewer_passes_once_it_is_moved() {
    let files = directory(&KNOT);
    let (found, _) = report(&[text(files.path())]);
    let split = |one: &&_| matches!(one, windrow_simulate::rehearse::check::CheckedFinding { finding, .. } if finding.code == Code::SplitSparesPass);
    let finding = found.findings.iter().find(split).unwrap();
    assert_eq!(
        finding.finding.message,
        "Secret u/s moved from a.yaml to zz-a.yaml: RKE2 needs one pass instead of 2: saves 15 s in every simulated boot"
    );
    assert!(
        finding
            .advice
            .contains("deletes the moved objects with everything in them")
    );

    let copy = files.path().join("copy");
    windrow(&[text(files.path()), "--fix", text(&copy)]);
    assert!(!copy.exists());
    let (stays, moves) = KNOT[0].1.split_once("---\n").unwrap();
    let moved = directory(&[("a.yaml", stays), ("zz-a.yaml", moves), KNOT[1]]);
    let (mended, _) = report(&[text(moved.path())]);
    assert_eq!(mended.verdict, CheckVerdict::Pass, "{:?}", mended.findings);
}

const PACK: &str = "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: site}\nprovides:\n  - {by: our image, objects: [{kind: Namespace, name: ours}]}\n";
const ACCEPTED: &str = "apiVersion: windrow.dev/v1\nkind: AcceptedFindings\naccept:\n- code: duplicate-object\n  reason: they are alike\n";

#[test]
fn windrows_own_files_are_checked_as_what_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("conf.d/10.yaml", "staging: {advisoryDeadline: 5m}\n");
    write("rules.d/site.yaml", PACK);
    write("ok.yaml", ACCEPTED);
    let (whole, exit) = report(&[text(directory.path())]);
    assert_eq!(
        (whole.verdict, exit),
        (CheckVerdict::Pass, Some(0)),
        "{whole:?}"
    );
    for (name, wrong, line) in [
        ("conf.d/10.yaml", "staging:\n  advisoryDeadlin: 5m\n", 2),
        ("conf.d/10.yaml", "staging: [\n", 1),
        (
            "rules.d/site.yaml",
            "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: a}\nnonsense: 1\n",
            4,
        ),
        (
            "knowledge.d/a.yaml",
            "apiVersion: windrow.dev/v1\nkind: Knowledge\nmetadata: {name: a}\nentries: 5\n",
            4,
        ),
        (
            "ours.yaml",
            "apiVersion: windrow.dev/v1\nkind: AcceptedFindings\naccept:\n- code: nonsense\n  reason: x\n",
            4,
        ),
    ] {
        write(name, wrong);
        let (report, exit) = report(&[text(&directory.path().join(name))]);
        assert_eq!(exit, Some(78), "{name}: {report:?}");
        let at = &report.findings[0].finding.at[0];
        assert!(at.file.ends_with(name), "{at}");
        assert_eq!(at.line, Some(line), "{wrong}");
    }
}

#[test]
fn windrows_own_files_count_for_the_manifests_beside_them() {
    let ours = TWICE.replace("default", "ours");
    let directory = directory(&[("a.yaml", &ours), ("pack.yaml", PACK)]);
    let path = |name: &str| directory.path().join(name);
    let exit = |names: &[&str]| {
        let paths: Vec<_> = names.iter().map(|name| path(name)).collect();
        report(&paths.iter().map(|path| text(path)).collect::<Vec<_>>()).1
    };
    assert_eq!(exit(&["a.yaml"]), Some(4));
    assert_eq!(exit(&["a.yaml", "pack.yaml"]), Some(0));
    fs::write(path("b.yaml"), &ours).unwrap();
    fs::write(path("accepted.yaml"), ACCEPTED).unwrap();
    let warned = |more: &[&str]| {
        let mut paths: Vec<_> = ["a.yaml", "b.yaml", "pack.yaml"].map(path).to_vec();
        paths.extend(more.iter().map(|name| path(name)));
        let mut arguments: Vec<_> = paths.iter().map(|path| text(path)).collect();
        arguments.extend(["--fail-on", "warning"]);
        report(&arguments).1
    };
    assert_eq!(warned(&[]), Some(4));
    assert_eq!(warned(&["accepted.yaml"]), Some(0));
}

#[test]
fn a_configuration_that_says_that_the_node_runs_harvester_is_checked_as_harvesters() {
    let data = |platform: &str| {
        format!(
            "#cloud-config\nwrite_files:\n- path: /etc/rancher/windrow/conf.d/20-site.yaml\n  content: |\n    platform: {platform}\n- path: /var/lib/rancher/rke2/server/manifests/a.yaml\n  content: |\n    apiVersion: harvesterhci.io/v1beta1\n    kind: VirtualMachineImage\n    metadata: {{name: x, namespace: default}}\n    spec: {{displayName: x, sourceType: download, url: 'http://192.0.2.1/x'}}\n"
        )
    };
    for (platform, exit) in [("harvester", 0), ("rke2", 4)] {
        let files = directory(&[("user-data", &data(platform))]);
        let output = windrow(&[text(&files.path().join("user-data"))]);
        assert_eq!(output.status.code(), Some(exit), "{platform}: {output:?}");
    }
}

#[test]
fn what_one_node_lacks_another_may_bring() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, rke2: &str, manifest: &str| {
        let text = format!(
            "#cloud-config\nwrite_files:\n- path: /etc/rancher/rke2/config.yaml\n  content: '{rke2}'\n- path: \
             /var/lib/rancher/rke2/server/manifests/{name}.yaml\n  content: '{manifest}'\n"
        );
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        format!("{name}={}", path.display())
    };
    let first = write(
        "n1",
        "token: a",
        r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps"}}"#,
    );
    let second = write(
        "n2",
        "{server: \"https://n1:9345\", token: a}",
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "apps"}}"#,
    );
    let errors = |arguments: &[&str]| {
        let (report, _) = report(arguments);
        let findings = report.findings.into_iter();
        let errors = findings.filter(|one| one.finding.severity == Severity::Error);
        errors.map(|one| one.finding.code).collect::<Vec<_>>()
    };
    let missing = Code::ObjectWithoutProvider;
    assert!(!errors(&["--node", &first, "--node", &second]).contains(&missing));
    assert!(errors(&["--node", &second]).contains(&missing));
}

#[test]
fn a_kind_that_an_unread_release_may_bring_is_unknown_and_never_cannot_work() {
    let backup = "apiVersion: backup.kubevirt.io/v1alpha1\nkind: VirtualMachineBackup\n\
        metadata: {name: b, namespace: default}\n";
    let upgrade = "apiVersion: management.harvesterhci.io/v1beta1\nkind: UpgradePlan\n\
        metadata: {name: to}\n";
    let router = "apiVersion: new.traefik.io/v1\nkind: Router\n\
        metadata: {name: r, namespace: default}\n";
    let (nobody, condition) = (Code::KindWithoutProvider, Code::BroughtOnCondition);
    for (content, option, version, exit, expected) in [
        (backup, "--harvester", "v1.8.2", 4, nobody),
        (backup, "--harvester", "v1.8.3", 5, condition),
        (backup, "--harvester", "v1.9.0", 5, condition),
        (backup, "--harvester", "v1.9.0-rc6", 5, condition),
        (router, "--rke2", "v1.35.6", 4, nobody),
        (router, "--rke2", "v1.99.0", 5, condition),
        (upgrade, "--harvester", "v1.7.3", 4, nobody),
        (upgrade, "--harvester", "v1.8.2", 5, condition),
        (upgrade, "--harvester", "v1.9.0", 5, condition),
    ] {
        let files = directory(&[("50-thing.yaml", content)]);
        let path = files.path().join("50-thing.yaml");
        let (report, ended) = report(&[text(&path), option, version]);
        let codes: Vec<Code> = report
            .findings
            .iter()
            .map(|found| found.finding.code)
            .collect();
        assert_eq!(ended, Some(exit), "{version}: {codes:?}");
        assert!(codes.contains(&expected), "{version}: {codes:?}");
        let plan = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(["plan", text(&path), option, version])
            .output()
            .unwrap();
        assert_eq!(plan.status.code(), Some(exit), "{version}: {plan:?}");
    }
}

#[test]
fn a_quick_check_simulates_no_boot_and_says_so() {
    let (quick, code) = report(&[FIRST_VM, "--quick"]);
    assert_eq!(code, Some(0), "{quick:?}");
    assert!(quick.nodes.iter().all(|node| node.seeds == 0));
    assert!(!quick.is_simulated());
    let text = said(&windrow(&[FIRST_VM, "--quick"]));
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("pass; no boot was simulated"), "{text}");
    assert!(text.contains("rehearsal: skipped"), "{text}");
    assert!(!text.contains("simulated boots"), "{text}");
    let page = said(&windrow(&[FIRST_VM, "--quick", "-o", "html"]));
    assert!(page.contains("No boot was simulated."), "{page}");
    let bad = INSTALLED.replace("10.10.0.19", "10.10.0.300");
    let given = directory(&[("node.yaml", &bad)]);
    let output = windrow(&[text_of(&given), "--quick"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let both = windrow(&[FIRST_VM, "--quick", "--details"]);
    assert_eq!(both.status.code(), Some(64), "{both:?}");
}

#[test]
fn no_format_names_a_file_with_a_point_and_a_slash_in_front() {
    let wrong = TWICE.replace("metadata", "metdata");
    let given = directory(&[("app.yaml", &wrong)]);
    for path in [".", "./app.yaml", "app.yaml"] {
        for format in ["table", "json", "github", "sarif", "junit", "html"] {
            let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
                .args(["check", "--quick", path, "-o", format])
                .current_dir(given.path())
                .output()
                .unwrap();
            let text = said(&output);
            assert!(text.contains("app.yaml"), "{format}: {text}");
            assert!(!text.contains("./app.yaml"), "{format}: {text}");
        }
    }
}

#[test]
fn the_platform_of_manifests_can_be_named() {
    let given = directory(&[("app.yaml", TWICE)]);
    let (named, _) = report(&[text_of(&given), "--platform", "harvester"]);
    assert_eq!(named.nodes[0].harvester.as_deref(), Some("v1.8.2"));
    let (plain, _) = report(&[text_of(&given), "--platform", "rke2"]);
    assert_eq!(plain.nodes[0].harvester, None);
}
