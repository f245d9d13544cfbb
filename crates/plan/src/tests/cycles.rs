//! Tests of files that wait for each other.

use super::*;

#[test]
fn a_cycle_is_reported_once_as_the_shortest_one_with_every_edge_and_it_yields() {
    let plan = plan(&[
        (
            "a.yaml",
            &depends_on("a", "/namespaces/default/ConfigMap/b (exists)"),
        ),
        (
            "b.yaml",
            &depends_on(
                "b",
                "/namespaces/default/ConfigMap/a (exists), /namespaces/default/ConfigMap/c (exists)",
            ),
        ),
        (
            "c.yaml",
            &depends_on("c", "/namespaces/default/ConfigMap/d (exists)"),
        ),
        (
            "d.yaml",
            &depends_on("d", "/namespaces/default/ConfigMap/b (exists)"),
        ),
        (
            "e.yaml",
            &depends_on("e", "/namespaces/default/ConfigMap/a (exists)"),
        ),
    ]);
    assert_eq!(codes(&plan), [Code::RequiredCycle, Code::RequiredCycle]);
    let first = &plan.findings[0];
    assert_eq!(
        first.at,
        [Location::line("a.yaml", 5), Location::line("b.yaml", 5)]
    );
    assert!(
        first
            .message
            .contains("ConfigMap default/a (a.yaml) needs ConfigMap default/b"),
        "{}",
        first.message
    );
    assert!(
        !first.message.contains("e.yaml"),
        "what hangs on a cycle is not part of it"
    );
    // Files in the cycle yield; a file that only depends on the cycle still waits.
    assert!(plan.files[0].requirements().all(|one| one.yields));
    assert!(plan.files[4].requirements().all(Requirement::takes_part));
    assert_eq!(order(&plan).len(), 5);
}

#[test]
fn files_that_wait_for_each_other_through_different_documents_are_no_deadlock_but_must_be_split() {
    let one = format!(
        "{}---\n{}",
        config_map("a1", ""),
        depends_on("a2", "/namespaces/default/ConfigMap/b1 (exists)")
    );
    let two = format!(
        "{}---\n{}",
        config_map("b1", ""),
        depends_on("b2", "/namespaces/default/ConfigMap/a1 (exists)")
    );
    let plan = plan(&[("a.yaml", &one), ("b.yaml", &two)]);
    assert_eq!(codes(&plan), [Code::FileCycle]);
    assert!(
        plan.findings[0]
            .message
            .contains("Split a.yaml: put ConfigMap default/a2 (line 7)"),
        "{}",
        plan.findings[0].message
    );
}

#[test]
fn advice_orders_and_yields_where_it_would_close_a_cycle() {
    let deployment = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      volumes: [{name: c, configMap: {name: settings}}]
";
    let free = plan(&[
        ("a.yaml", deployment),
        ("b.yaml", &config_map("settings", "")),
    ]);
    assert_eq!(order(&free), ["b.yaml", "a.yaml"]);
    assert_eq!(
        free.files[0].requirements().next().unwrap().tier,
        Tier::Advisory
    );

    let settings = depends_on(
        "settings",
        "apps/namespaces/default/Deployment/web (exists)",
    );
    let closed = plan(&[("a.yaml", deployment), ("b.yaml", &settings)]);
    assert_eq!(order(&closed), ["a.yaml", "b.yaml"]);
    assert!(closed.files[0].requirements().next().unwrap().yields);
    assert_eq!(codes(&closed), [], "advice that yields is no finding");
}

#[test]
fn a_kind_and_its_object_in_one_file_cannot_be_ordered_and_that_is_said() {
    let plan = plan(&[("all.yaml", &format!("{CRD}---\n{WIDGET}"))]);
    assert_eq!(codes(&plan), [Code::SameFile]);
    let requirement = plan.files[0].requirements().next().unwrap();
    assert!(!requirement.takes_part(), "a file must not wait for itself");
}
