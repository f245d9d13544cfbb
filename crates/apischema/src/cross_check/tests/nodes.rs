//! Pods and the nodes and accounts that they name, and Harvester's Addons.

use super::found;

/// A DaemonSet in kube-system with these parts of its pods.
fn daemon_set(spec: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: vip, namespace: kube-system}}\nspec:\n  selector: {{matchLabels: {{app: vip}}}}\n  \
         template:\n    metadata: {{labels: {{app: vip}}}}\n    spec:\n      {spec}\n      containers: [{{name: a, image: 'example.com/a:1'}}]\n"
    )
}

#[test]
fn pods_for_nodes_with_a_label_that_rke2_gives_another_value_are_found() {
    let terms = |terms: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{terms}]}}}}}}"
        )
    };
    let role = "node-role.kubernetes.io/control-plane";
    let is_in = |value: &str| {
        format!("{{matchExpressions: [{{key: {role}, operator: In, values: ['{value}']}}]}}")
    };
    for spec in [
        format!("nodeSelector: {{{role}: ''}}"),
        "nodeSelector: {node-role.kubernetes.io/master: ''}".to_owned(),
        terms(&is_in("")),
        terms(&format!("{}, {}", is_in(""), is_in("yes"))),
    ] {
        let said = found(&daemon_set(&spec), None);
        let [one] = &said[..] else {
            panic!("{spec}: {said:?}");
        };
        assert!(one.contains("runs only on nodes with the label"), "{one}");
    }
    for spec in [
        format!("nodeSelector: {{{role}: 'true'}}"),
        "nodeSelector: {disk: ''}".to_owned(),
        terms(&is_in("true")),
        terms(&format!("{}, {}", is_in(""), is_in("true"))),
        terms(&format!(
            "{{matchExpressions: [{{key: {role}, operator: Exists}}]}}"
        )),
    ] {
        assert_eq!(found(&daemon_set(&spec), None), [""; 0], "{spec}");
    }
}

#[test]
fn an_account_that_nothing_creates_is_missed_in_kube_system_too() {
    let named = |name: &str| found(&daemon_set(&format!("serviceAccountName: {name}")), None);
    assert!(named("kube-vip")[0].contains("ServiceAccount kube-system/kube-vip"));
    for name in [
        "default",
        "cilium-operator",
        "rke2-coredns",
        "node-controller",
    ] {
        assert_eq!(named(name), [""; 0], "{name}");
    }
    let with_account = daemon_set("serviceAccountName: kube-vip")
        + "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: kube-vip, namespace: kube-system}\n";
    assert_eq!(found(&with_account, None), [""; 0]);
}

#[test]
fn the_values_of_an_enabled_addon_are_judged_and_its_host_name_is_fully_qualified() {
    let addon = |name: &str, enabled: bool, values: &str| {
        let text = format!(
            "apiVersion: harvesterhci.io/v1beta1\nkind: Addon\nmetadata: {{name: {name}, namespace: {name}}}\nspec: {{enabled: {enabled}, chart: c, \
             version: '1', repo: 'https://example.com', valuesContent: {values:?}}}\n"
        );
        found(&text, None)
    };
    for (name, values, words) in [
        ("any", "a: [", "not valid YAML"),
        ("any", "- a", "not a map"),
        ("rancher-vcluster", "hostname: crane", "fully qualified"),
        (
            "rancher-vcluster",
            "global: {hostname: 192.0.2.1}",
            "fully qualified",
        ),
        ("rancher-vcluster", "a: 1", "fully qualified"),
    ] {
        let said = addon(name, true, values);
        assert!(
            said.len() == 1 && said[0].contains(words),
            "{values}: {said:?}"
        );
        assert_eq!(addon(name, false, values), [""; 0], "{values}");
    }
    for values in [
        "hostname: rancher.example.com",
        "global: {hostname: rancher.example.com}",
    ] {
        assert_eq!(addon("rancher-vcluster", true, values), [""; 0]);
    }
    assert_eq!(addon("any", true, "hostname: crane"), [""; 0]);
}
