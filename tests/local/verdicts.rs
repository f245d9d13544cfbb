//! What `windrow check` and `windrow plan` say in words, and that it agrees with what they list.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::process::Command;

/// What a verb prints for these files.
fn said(verb: &[&str], files: &[(&str, &str)]) -> String {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(verb)
        .args(files.iter().map(|(name, _)| name))
        .current_dir(directory.path())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_configuration_that_the_installer_refuses_has_no_simulation_to_show() {
    let refused = "scheme_version: 1\ntoken: tok\nos: {hostname: node1, password: pw}\ninstall:\n  mode: create\n  \
        management_interface: {method: dhcp, interfaces: [{name: ens5}]}\n  device: /dev/sda\n  vip: 10.10.0.300\n  \
        vip_mode: static\n";
    let said = said(&["check", "--runs", "1"], &[("hv.yaml", refused)]);
    assert!(said.contains("rehearsal: skipped"), "{said}");
    assert!(said.contains("Simulation: skipped"), "{said}");
    assert!(!said.contains("with Windrow"), "{said}");
}

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";

/// The same on one line.
fn in_one_line(verb: &[&str], files: &[(&str, &str)]) -> String {
    let said = said(verb, files);
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_node_whose_component_does_not_start_has_no_simulation_to_show() {
    let files = [
        ("config.yaml", "kubelet-arg: [max-pod=200]\n"),
        ("a.yaml", NAMESPACE),
    ];
    let verb = ["check", "--runs", "1", "--rke2", "v1.33.5+rke2r1"];
    let said = in_one_line(&verb, &files);
    assert!(
        said.starts_with("fail config: pass · plan: pass · gates: fail · rehearsal: skipped"),
        "{said}"
    );
    assert!(
        said.contains("a component of Kubernetes does not start"),
        "{said}"
    );
    assert!(!said.contains("with Windrow"), "{said}");
    let last = "Checked 2 files, 1 object, 1 key: 1 fail";
    assert!(said.ends_with(last), "{said}");
    let json = self::said(&[&verb[..], &["-o", "json"]].concat(), &files);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let counts = &json["counts"];
    assert_eq!(
        (&counts["files"], &counts["objects"]),
        (&2.into(), &1.into())
    );
    assert_eq!((&counts["keys"], &counts["fail"]), (&1.into(), &1.into()));
}

#[test]
fn a_chart_with_values_that_helm_cannot_read_is_not_installed_in_the_simulation() {
    let chart = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: a, namespace: kube-system}\n\
        spec: {chart: a, repo: 'https://charts.example.org', valuesContent: 'a: ['}\n";
    let said = in_one_line(&["check", "--runs", "1"], &[("a.yaml", chart)]);
    let words = "HelmChart kube-system/a is not installed: Helm cannot read its values";
    assert!(said.contains(words), "{said}");
    assert!(!said.contains("everything is applied"), "{said}");
}

#[test]
fn a_release_that_waits_for_an_embedded_registry_needs_mirrors_in_registries_yaml() {
    let verb = ["check", "--runs", "1", "--rke2", "v1.35.1+rke2r1"];
    let config = ("config.yaml", "cni: canal\nembedded-registry: true\n");
    let said = |registries| in_one_line(&verb, &[config, ("registries.yaml", registries)]);
    let refused = said("configs:\n  docker.io: {}\n");
    let words = "RKE2 does not start: it waits for the embedded registry";
    assert!(refused.starts_with("fail "), "{refused}");
    assert!(refused.contains(words), "{refused}");
    let taken = said("mirrors:\n  docker.io: {}\n");
    assert!(!taken.contains("embedded registry"), "{taken}");
    let alone = in_one_line(&verb, &[config]);
    assert!(alone.starts_with("warn"), "{alone}");
}

#[test]
fn harvester_reserves_the_cpus_that_a_static_policy_needs_and_rke2_does_not() {
    let file = "kubelet-arg: [cpu-manager-policy=static]\n";
    let rke2 = in_one_line(
        &["check", "--runs", "1", "--rke2", "v1.33.5+rke2r1"],
        &[("config.yaml", file)],
    );
    assert!(rke2.starts_with("fail "), "{rke2}");
    let harvester = format!(
        "scheme_version: 1\ntoken: a\nos:\n  password: p\n  write_files:\n  - path: /etc/rancher/rke2/config.yaml.d/99-a.yaml\n    content: |\n      {}\n",
        file.trim_end().replace("kubelet-arg", "kubelet-arg+")
    );
    let verb = ["check", "--runs", "1", "--harvester", "v1.8.2"];
    let harvester = in_one_line(&verb, &[("harvester.yaml", &harvester)]);
    assert!(!harvester.contains("cpu-manager-policy"), "{harvester}");
}

#[test]
fn what_no_rule_judges_is_listed_and_makes_the_verdict_unknown_if_it_can_stop_the_node() {
    let chart = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: a, namespace: kube-system}\n\
        spec: {chart: a, repo: 'https://charts.example.org'}\n";
    let verb = ["check", "--runs", "1", "--rke2", "v1.33.5+rke2r1"];
    let config = "etcd-snapshot-name: nightly\nkubelet-arg: [max-pods=200]\n";
    let files = [("config.yaml", config), ("a.yaml", chart)];
    let listed = in_one_line(&verb, &files);
    assert!(listed.starts_with("pass "), "{listed}");
    for words in [
        "Not checked (2)",
        "a.yaml: the contents and values of the chart a (line 1)",
        "config.yaml: `etcd-snapshot-name` (line 1)",
        "no findings; not checked: 2",
    ] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    let policy = "kube-apiserver-arg: [audit-policy-file=/etc/a.yaml]\n";
    let unknown = in_one_line(&verb, &[("config.yaml", policy), ("a.yaml", NAMESPACE)]);
    assert!(unknown.starts_with("unknown "), "{unknown}");
    assert!(
        unknown.contains("unknown value-not-checked config.yaml:1"),
        "{unknown}"
    );
    assert!(
        unknown.contains(
            "`audit-policy-file` of kube-apiserver is not checked (Windrow does not read this file)"
        ),
        "{unknown}"
    );
}

#[test]
fn an_error_in_the_files_is_enough_and_few_boots_are_simulated() {
    let refused = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\nspec: {containers: 7}\n";
    let refused = in_one_line(&["check"], &[("pod.yaml", refused)]);
    assert!(refused.contains(", 10 simulated boots"), "{refused}");
    let taken = in_one_line(&["check"], &[("a.yaml", NAMESPACE)]);
    assert!(taken.contains(", 100 simulated boots"), "{taken}");
}

#[test]
fn the_working_directory_is_shown_under_its_own_name() {
    let directory = tempfile::Builder::new()
        .prefix("orchard")
        .tempdir()
        .unwrap();
    fs::write(directory.path().join("a.yaml"), NAMESPACE).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["check", "--runs", "1", "."])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("\norchard"), "{said}");
    assert!(!said.contains("\n. on "), "{said}");
}

#[test]
fn a_plan_counts_the_errors_that_it_prints() {
    let wrong = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\nspec: {containers: 7}\n";
    let homeless = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {ports: [{port: 80}]}\n";
    let said = said(&["plan"], &[("pod.yaml", wrong), ("svc.yaml", homeless)]);
    let lines = said.lines().map(str::trim_start);
    let errors = lines.filter(|line| line.starts_with("error ")).count();
    assert!(errors > 1, "{said}");
    let of = |name: &str| {
        said.lines()
            .find(|line| line.contains(&format!("  {name} ")))
    };
    let (pod, svc) = (of("pod.yaml").unwrap(), of("svc.yaml").unwrap());
    assert!(pod.ends_with("will fail"), "{pod}");
    assert!(!svc.contains("will fail"), "{svc}");
    let last = format!("fail: It cannot work as it is: {errors} errors.");
    assert!(said.contains(&last), "{said}");
}
