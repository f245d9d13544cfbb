//! Tests of names that RKE2 or kube-apiserver cannot use, and of those that collide.

use super::*;

#[test]
fn names_that_collide_and_names_rke2_cannot_use_are_errors() {
    let map = config_map("a", "");
    let plan = plan(&[
        ("foo.yaml", &map),
        ("foo.bar.yml", &config_map("b", "")),
        ("Upper.yaml", &config_map("c", "")),
        ("sub/foo.yaml", &config_map("d", "")),
    ]);
    let mut found = codes(&plan);
    found.sort_unstable();
    assert_eq!(
        found,
        [
            Code::AddonNameInvalid,
            Code::AddonCollision,
            Code::SameBaseName
        ]
    );
    let invalid = plan
        .findings
        .iter()
        .find(|one| one.code == Code::AddonNameInvalid);
    assert_eq!(
        invalid.map(|one| one.message.as_str()),
        Some(
            "RKE2 cannot use this file name: its Addon would be called `Upper`, and a name may have only lower-case letters, \
             digits and `-` (RFC 1123); rename the file, for example to upper.yaml"
        )
    );
    let upper = plan
        .files
        .iter()
        .find(|file| file.path == "Upper.yaml")
        .unwrap();
    assert!(upper.refused.is_some());
}

#[test]
fn a_name_that_no_api_server_takes_is_an_error_at_its_line_and_holds_nothing() {
    let text = "\
apiVersion: v1
kind: ConfigMap
metadata:
  namespace: Team_A
  name: A_b
---
apiVersion: v1
kind: ConfigMap
metadata: {generateName: A_}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: 'system:A_b'}
";
    let plan = plan(&[("a.yaml", text)]);
    let found = plan.findings.iter();
    let names: Vec<(Option<u32>, Severity)> = found
        .filter(|finding| finding.code == Code::ObjectNameInvalid)
        .map(|finding| (finding.at[0].line, finding.severity))
        .collect();
    assert_eq!(
        names,
        [(Some(4), Severity::Error), (Some(5), Severity::Error)]
    );
    assert!(plan.files[0].refused.is_none());
}

#[test]
fn files_of_one_addon_are_labelled_as_such_and_no_others() {
    let (a, b) = (config_map("a", ""), config_map("b", ""));
    let plan = plan(&[("a.yaml", &a), ("b.yaml", &b), ("sub/a.yaml", &b)]);
    let labels: Vec<Option<FileObstacle>> = plan.files.iter().map(|file| file.trouble).collect();
    let shared = Some(FileObstacle::Collides);
    assert_eq!(labels, [shared, None, shared]);
}

#[test]
fn an_object_that_two_files_bring_is_told_and_generated_names_are_not() {
    let twice = plan(&[
        ("a.yaml", &config_map("same", "")),
        ("b.yaml", &config_map("same", "")),
        ("c.yaml", &config_map("other", "")),
    ]);
    let told: Vec<_> = twice
        .findings
        .iter()
        .filter(|finding| finding.code == Code::DuplicateObject)
        .collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].message.contains("same"), "{}", told[0].message);
    assert_eq!(told[0].at.len(), 2);
    let many: Vec<String> = (0..26).map(|n| config_map(&format!("c{n}"), "")).collect();
    let many = many.join("---\n");
    let pair = plan(&[("a.yaml", &many), ("b.yaml", &many)]);
    let found = pair.findings.iter();
    let found: Vec<_> = found
        .filter(|finding| finding.code == Code::DuplicateObject)
        .collect();
    assert_eq!(found.len(), 1, "one finding for a pair of files: {found:?}");
    assert!(
        found[0].message.contains("like 25 other objects"),
        "{found:?}"
    );
    let generated = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: c-}\n";
    let both = plan(&[("a.yaml", generated), ("b.yaml", generated)]);
    assert!(!codes(&both).contains(&Code::DuplicateObject));
}
