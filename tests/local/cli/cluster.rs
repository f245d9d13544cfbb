//! Which cluster a verb asks, and which it does not.

use super::*;

#[test]
fn kubectls_variable_names_the_cluster_unless_a_flag_does_and_the_file_of_an_error_is_named() {
    let node = Node::new();
    node.write("etc/rancher/rke2/rke2.yaml", "kind: own\n");
    node.write("first", "users: []\n");
    node.write("second", "kind: Config\ncurrent-context: 7\n");
    node.write("named", "current-context: [there]\n");
    for (args, variable, place) in [
        (&["diagnose"][..], "gone:first:second", "second:2: "),
        (
            &["repair", "addon-stuck", "--dry-run"],
            "second",
            "second:2: ",
        ),
        (&["drain-check", "n1"], "second", "second:2: "),
        (
            &["diagnose", "--kubeconfig", "named"],
            "second",
            "named:1: ",
        ),
    ] {
        let ran = node.run_here(args, "", "KUBECONFIG", variable);
        assert_eq!(ran.code, 5, "{args:?}: {ran:?}");
        assert!(ran.err.contains(place), "{args:?}: {ran:?}");
        let by_variable = place.starts_with("second");
        let line = format!("The kubeconfig comes from KUBECONFIG: {variable}");
        assert_eq!(ran.err.contains(&line), by_variable, "{args:?}: {ran:?}");
    }
}

#[test]
fn on_a_workstation_the_file_in_which_kubectl_looks_counts_and_a_context_is_named_by_the_flag() {
    let home = TempDir::new().unwrap();
    fs::create_dir(home.path().join(".kube")).unwrap();
    let config = home.path().join(".kube/config");
    fs::write(
        &config,
        "contexts: [{name: east, context: {}}, {name: west, context: {}}]\n",
    )
    .unwrap();
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(args)
            .env("HOME", home.path())
            .env("KUBECONFIG", "")
            .stdin(Stdio::null())
            .output();
        Ran::of(output.unwrap())
    };
    let place = config.display().to_string();
    let ran = run(&["drain-check", "n1"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(
        ran.err
            .contains(&format!("{place}:1: `current-context` is missing")),
        "{ran:?}"
    );
    for verb in [
        &["drain-check", "n1"][..],
        &["repair", "addon-stuck", "--dry-run"],
    ] {
        let named = [verb, &["--context", "west"]].concat();
        let ran = run(&named);
        assert!(
            ran.err
                .contains(&format!("{place}:1: `cluster` is missing")),
            "{ran:?}"
        );
        let ran = run(&[verb, &["--context", "south"]].concat());
        assert_eq!(ran.code, 5, "{ran:?}");
        let said = format!("{place}: no context is called \"south\": --context takes east, west");
        assert!(ran.err.contains(&said), "{ran:?}");
    }
}

#[test]
fn a_root_that_is_named_is_the_whole_world_and_kubectls_variable_names_no_cluster_in_it() {
    let node = Node::new();
    node.write("etc/rancher/rke2/rke2.yaml", "kind: own\n");
    node.write("other", "kind: Config\ncurrent-context: 7\n");
    for args in [
        &["diagnose"][..],
        &["repair", "addon-stuck", "--yes"],
        &["drain-check", "n1"],
        &["upgrade-check"],
    ] {
        let ran = node.run_in(args, "", "KUBECONFIG", "other");
        assert_eq!(ran.code, 5, "{args:?}: {ran:?}");
        let unused = "rke2.yaml: not used, because the tree belongs to another machine";
        assert!(ran.err.contains(unused), "{args:?}: {ran:?}");
        let said = "KUBECONFIG is ignored, because --root is set\nTo contact the cluster, set its kubeconfig with --kubeconfig";
        assert!(ran.err.contains(said), "{args:?}: {ran:?}");
        let named = [args, &["--kubeconfig", "other"]].concat();
        let ran = node.run_in(&named, "", "KUBECONFIG", "gone");
        assert!(ran.err.contains("other:2: "), "{named:?}: {ran:?}");
    }
}

#[test]
fn a_diagnosis_looks_at_the_node_where_the_cluster_cannot_be_asked_and_says_what_is_unknown() {
    let node = Node::new();
    node.write(
        "oem/harvester.config",
        "os:\n  write_files:\n  - path: /etc/absent\n",
    );
    let diagnose = || node.run(&["diagnose", "-o", "json"]);
    let ran = diagnose();
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.err.contains("cannot query the cluster"), "{ran:?}");
    let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        said["findings"][0]["code"], "write-files-missing",
        "{said:#}"
    );
    let unknown = said["unknown"][0].as_str().unwrap();
    assert!(
        unknown.starts_with("all incidents that need the cluster's objects: "),
        "{said:#}"
    );
    // What is proved by the node alone decides, whatever else is unknown.
    node.write(
        "var/lib/rancher/rke2/server/manifests/site.a.yaml",
        "a: 1\n",
    );
    node.write(
        "var/lib/rancher/rke2/server/manifests/site.b.yaml",
        "a: 1\n",
    );
    let ran = diagnose();
    assert!(ran.out.contains("addon-collision"), "{ran:?}");
    assert_eq!(ran.code, 4, "{ran:?}");
}
