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
    let said = said(&["check", "--seeds", "1"], &[("hv.yaml", refused)]);
    assert!(said.contains("rehearsal: skipped"), "{said}");
    assert!(said.contains("Simulation: skipped"), "{said}");
    assert!(!said.contains("with Windrow"), "{said}");
}

#[test]
fn a_plan_counts_the_errors_that_it_prints() {
    let wrong = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\nspec: {containers: 7}\n";
    let homeless = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {ports: [{port: 80}]}\n";
    let said = said(&["plan"], &[("pod.yaml", wrong), ("svc.yaml", homeless)]);
    let lines = said.lines().map(str::trim_start);
    let errors = lines.filter(|line| line.starts_with("error ")).count();
    assert!(errors > 1, "{said}");
    let last = format!("It cannot work as it is: {errors} errors.");
    assert!(said.contains(&last), "{said}");
}
