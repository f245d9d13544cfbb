//! Tests of the requirements that RKE2's first pass has met when it reaches the file.

use super::*;

fn namespace(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

fn secret(name: &str, namespace: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
}

fn filler(count: usize) -> String {
    let maps = (0..count).map(|number| config_map(&format!("filler-{number}"), ""));
    maps.collect::<Vec<_>>().join("---\n")
}

/// The files that Windrow holds on a fresh node.
fn held(files: &[(&str, &str)]) -> Vec<String> {
    let plan = plan(files);
    let held = plan
        .files
        .iter()
        .filter(|file| file.held_at_boot().is_some());
    held.map(|file| file.path.to_string()).collect()
}

#[test]
fn a_namespace_of_a_file_that_sorts_before_holds_nothing_and_one_that_sorts_behind_does() {
    let (space, object) = (namespace("t"), secret("s", "t"));
    assert_eq!(held(&[("a.yaml", &space), ("b.yaml", &object)]), [""; 0]);
    assert_eq!(held(&[("b.yaml", &space), ("a.yaml", &object)]), ["a.yaml"]);
    let plan = plan(&[("a.yaml", &space), ("b.yaml", &object)]);
    assert_eq!(
        plan.files[1].met_in_first_pass(),
        ["its namespace t comes with a.yaml, which RKE2 applies before it in the same pass"]
    );
}

#[test]
fn what_relies_on_a_file_that_is_held_itself_is_held() {
    let object = secret("s", "t");
    // The namespace shares a file with an object of a kind that comes later.
    let mixed = format!("{}---\n{WIDGET}", namespace("t"));
    let files: [(&str, &str); 4] = [
        ("a.yaml", &mixed),
        ("b.yaml", &object),
        ("c.yaml", &secret("s", "u")),
        ("z.yaml", CRD),
    ];
    assert_eq!(held(&files), ["a.yaml", "b.yaml", "c.yaml"]);
    let hold = config_map("h", "windrow.dev/hold: not yet");
    let kept = format!("{}---\n{hold}", namespace("t"));
    assert_eq!(
        held(&[("a.yaml", &kept), ("b.yaml", &object)]),
        ["a.yaml", "b.yaml"]
    );
}

#[test]
fn only_a_file_that_rke2_is_sure_to_apply_is_relied_on() {
    let (space, object) = (namespace("t"), secret("s", "t"));
    let bad_name = format!("{space}---\n{}", config_map("Not_a_name", ""));
    let sick: [(&str, Vec<(&str, &str)>); 4] = [
        ("an object is refused", vec![("a.yaml", &bad_name)]),
        (
            "its Addon is another file's too",
            vec![("a.yaml", &space), ("a.more.yaml", "# nothing\n")],
        ),
        (
            "another file has its name",
            vec![("a.yaml", &space), ("sub/a.yaml", "# nothing\n")],
        ),
        ("it is Rancher's", vec![("rancher/a.yaml", &space)]),
    ];
    for (why, mut files) in sick {
        files.push(("z.yaml", &object));
        assert!(held(&files).contains(&"z.yaml".to_owned()), "{why}");
    }
}

#[test]
fn a_kind_needs_its_definition_far_enough_before() {
    let files = |between: usize| {
        let filler = filler(between);
        let texts = [("a.yaml", CRD), ("b.yaml", &filler), ("c.yaml", WIDGET)];
        held(&texts)
    };
    assert_eq!(files(7), ["c.yaml"]);
    assert_eq!(files(8), [""; 0]);
    // Counts objects that RKE2 writes after the definitions of their own file, but not those before.
    let behind = format!("{CRD}---\n{}", filler(8));
    assert_eq!(held(&[("a.yaml", &behind), ("c.yaml", WIDGET)]), [""; 0]);
    let before = format!("{}---\n{CRD}", filler(8));
    assert_eq!(held(&[("a.yaml", &before), ("c.yaml", WIDGET)]), ["c.yaml"]);
    // Kinds are written in order of their first appearance: this definition is the first of them.
    let other = CRD.replace("widget", "gadget").replace("Widget", "Gadget");
    let first = format!("{other}---\n{}---\n{CRD}", filler(9));
    assert_eq!(
        held(&[("a.yaml", &first), ("c.yaml", WIDGET)]),
        ["c.yaml"],
        "two definitions take longer"
    );
}

#[test]
fn definitions_are_served_one_after_the_other() {
    let many: Vec<String> = (0..30)
        .map(|number| {
            CRD.replace("widget", &format!("w{number}"))
                .replace("Widget", &format!("W{number}"))
        })
        .collect();
    let last = WIDGET.replace("Widget", "W29");
    let files = |between: usize| {
        let (many, filler) = (many.join("---\n"), filler(between));
        held(&[("a.yaml", &many), ("b.yaml", &filler), ("c.yaml", &last)])
    };
    assert_eq!(files(65), ["c.yaml"]);
    assert_eq!(files(66), [""; 0]);
}

#[test]
fn a_kind_that_a_webhook_converts_holds() {
    let converted = CRD.replace(
        "  scope: Namespaced\n",
        "  scope: Namespaced\n  conversion: {strategy: Webhook}\n",
    );
    let filler = filler(50);
    let files = [
        ("a.yaml", &*converted),
        ("b.yaml", &*filler),
        ("c.yaml", WIDGET),
    ];
    assert_eq!(held(&files), ["c.yaml"]);
}

#[test]
fn what_may_refuse_for_a_while_holds() {
    let (space, object) = (namespace("t"), secret("s", "t"));
    let webhook = |groups: &str, policy: &str| {
        format!(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {{name: w}}\nwebhooks:\n- name: w.example.com\n  failurePolicy: {policy}\n  clientConfig: {{url: \"https://192.0.2.1/\"}}\n  rules: [{{apiGroups: [{groups}], apiVersions: [v1], resources: [secrets], operations: [CREATE]}}]\n"
        )
    };
    let with = |other: &str| held(&[("a.yaml", &space), ("b.yaml", other), ("c.yaml", &object)]);
    assert_eq!(with(&webhook("''", "Fail")), ["c.yaml"]);
    assert_eq!(with(&webhook("'*'", "Fail")), ["c.yaml"]);
    assert_eq!(with(&webhook("''", "Ignore")), [""; 0]);
    assert_eq!(with(&webhook("example.com", "Fail")), [""; 0]);
    let quota = |namespace: &str| {
        format!(
            "apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: q, namespace: {namespace}}}\n"
        )
    };
    assert_eq!(with(&quota("t")), ["c.yaml"]);
    assert_eq!(with(&quota("default")), [""; 0]);
    // It sorts after the object: RKE2 reaches the object first.
    let behind = webhook("''", "Fail");
    assert_eq!(
        held(&[("a.yaml", &space), ("c.yaml", &object), ("d.yaml", &behind)]),
        [""; 0]
    );
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: t}\n";
    assert_eq!(held(&[("a.yaml", &space), ("c.yaml", pod)]), ["c.yaml"]);
}

#[test]
fn a_file_waits_if_what_it_relies_on_may_be_refused_for_a_while() {
    // Gatekeeper's own configuration calls its webhook only for namespaces.
    let gatekeeper = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: g}\nwebhooks: [{name: g.example.com, clientConfig: {url: 'https://192.0.2.1/'}, rules: [{apiGroups: [''], apiVersions: ['*'], resources: [namespaces], operations: [CREATE]}]}]\n";
    let space = namespace("t");
    let web = DEPLOYMENT.replace("name: web}", "name: web, namespace: t}");
    let with = |guard: &str| held(&[("a.yaml", guard), ("b.yaml", &space), ("c.yaml", &web)]);
    assert_eq!(with(gatekeeper), ["c.yaml"]);
    assert_eq!(with(&gatekeeper.replace("['']", "[batch]")), [""; 0]);
    let behind = [
        ("b.yaml", &*space),
        ("c.yaml", &web),
        ("d.yaml", gatekeeper),
    ];
    assert_eq!(held(&behind), [""; 0], "RKE2 applies the namespace first");

    let asks = gatekeeper.replace("['']", "[apiextensions.k8s.io]");
    let filler = filler(8);
    let files = [
        ("a.yaml", &*asks),
        ("b.yaml", CRD),
        ("c.yaml", &filler),
        ("d.yaml", WIDGET),
    ];
    assert_eq!(held(&files), ["d.yaml"]);
}

#[test]
fn an_admission_policy_whose_parameters_may_come_later_holds() {
    let policy = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\nspec: {paramKind: {apiVersion: v1, kind: ConfigMap}, matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]}, validations: [{expression: 'has(params.data)'}]}\n";
    let (space, object) = (namespace("t"), secret("s", "t"));
    let with = |policy: &str| {
        held(&[
            ("a.yaml", &space),
            ("b.yaml", policy),
            ("c.yaml", &object),
            ("d.yaml", &config_map("parameters", "")),
        ])
    };
    assert_eq!(with(policy), ["c.yaml"]);
    let mutating = policy.replace("Validating", "Mutating");
    assert_eq!(with(&mutating), ["c.yaml"]);
    let open = policy.replace("spec: {", "spec: {failurePolicy: Ignore, ");
    assert_eq!(with(&open), [""; 0]);
    // It refuses forever, or never.
    let without = policy.replace("paramKind: {apiVersion: v1, kind: ConfigMap}, ", "");
    assert_eq!(with(&without), [""; 0]);
}

#[test]
fn an_object_that_is_declared_again_gives_a_kind_no_time_to_be_served() {
    let again = config_map("same", "") + &format!("---\n{}", config_map("same", "")).repeat(7);
    let files = [("a.yaml", CRD), ("b.yaml", &*again), ("c.yaml", WIDGET)];
    assert_eq!(held(&files), ["c.yaml"]);
    let behind = format!("{CRD}---\n{again}");
    assert_eq!(held(&[("a.yaml", &behind), ("c.yaml", WIDGET)]), ["c.yaml"]);
}

#[test]
fn a_definition_that_no_kube_apiserver_takes_brings_nothing_in_the_same_pass() {
    let filler = filler(8);
    let with = |definition: &str| {
        held(&[
            ("a.yaml", definition),
            ("b.yaml", &filler),
            ("c.yaml", WIDGET),
        ])
    };
    assert_eq!(with(CRD), [""; 0]);
    let removed = CRD.replace("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1");
    assert_eq!(with(&removed), ["c.yaml"]);
    let misnamed = CRD.replace("name: widgets.", "name: others.");
    assert_ne!(misnamed, CRD);
    assert_eq!(with(&misnamed), ["c.yaml"]);
}

#[test]
fn what_a_person_or_a_rule_asks_for_is_waited_for() {
    let asks = depends_on("b", "/Namespace/t (exists)");
    assert_eq!(
        held(&[("a.yaml", &namespace("t")), ("b.yaml", &asks)]),
        ["b.yaml"]
    );
}

#[test]
fn advice_on_an_object_of_kubernetes_own_that_comes_before_is_followed_by_the_order_alone() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {volumes: [{name: c, configMap: {name: settings}}]}}}\n";
    let settings = config_map("settings", "");
    assert_eq!(
        held(&[("a.yaml", &settings), ("b.yaml", deployment)]),
        [""; 0]
    );
    // The controller of charts may run before it has been notified of the other object.
    let chart = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: c, namespace: kube-system}\n";
    let config = chart.replace("HelmChart", "HelmChartConfig");
    assert_eq!(held(&[("a.yaml", &config), ("b.yaml", chart)]), ["b.yaml"]);
}

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {serviceAccountName: web, volumes: [{name: c, configMap: {name: settings}}]}}}\n";
const ACCOUNT: &str = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web}\nimagePullSecrets: [{name: key}]\n";

#[test]
fn what_a_field_merely_names_may_come_later_in_the_same_pass() {
    let settings = config_map("settings", "");
    let files = [
        ("a.yaml", DEPLOYMENT),
        ("b.yaml", &settings),
        ("c.yaml", ACCOUNT),
    ];
    assert_eq!(held(&files), [""; 0]);
    let plan = plan(&files);
    assert_eq!(
        plan.files[0].met_in_first_pass(),
        [
            "ConfigMap default/settings comes with b.yaml, which RKE2 applies after it in the same pass",
            "ServiceAccount default/web comes with c.yaml, which RKE2 applies after it in the same pass",
        ]
    );
    assert_eq!(plan.names.passes, 1, "no other names are needed");
}

#[test]
fn what_is_held_itself_holds_what_names_it_and_what_names_that() {
    let settings = config_map("settings", "windrow.dev/hold: not yet");
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {storageClassName: fast}\n";
    let class = |rest: &str| {
        format!(
            "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{name: fast}}\nprovisioner: p\n{rest}"
        )
    };
    let set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec: {template: {spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}}}\n";
    let files = |class: &str| {
        held(&[
            ("a.yaml", set),
            ("b.yaml", claim),
            ("c.yaml", class),
            ("x.yaml", DEPLOYMENT),
            ("y.yaml", ACCOUNT),
            ("z.yaml", &settings),
        ])
    };
    // Each refers to the next one.
    assert_eq!(files(&class("")), ["x.yaml", "z.yaml"]);
    let late = class(&format!("---\n{WIDGET}"));
    assert_eq!(
        files(&late),
        ["a.yaml", "b.yaml", "c.yaml", "x.yaml", "z.yaml"]
    );
}

#[test]
fn an_order_is_kept_where_something_would_be_refused_or_called_before_it_can_answer() {
    let settings = config_map("settings", "");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: c, configMap: {name: settings}}]}\n";
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n";
    let asks = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: w}\nwebhooks: [{name: w.example.com, clientConfig: {service: {name: s, namespace: default}}, rules: [{apiGroups: ['*'], apiVersions: ['*'], operations: [CREATE], resources: ['*']}]}]\n";
    assert_eq!(held(&[("a.yaml", pod), ("b.yaml", &settings)]), ["a.yaml"]);
    assert_eq!(held(&[("a.yaml", asks), ("b.yaml", service)]), ["a.yaml"]);
    // The same if the earlier file would keep the other from coming in that pass.
    let both = format!("{asks}---\n{DEPLOYMENT}").replace("name: s,", "name: elsewhere,");
    let space = namespace("default-2");
    let named = format!("{settings}---\n{}---\n{ACCOUNT}", secret("s", "default-2"));
    assert_eq!(
        held(&[("0.yaml", &space), ("a.yaml", &both), ("b.yaml", &named)]),
        ["a.yaml"]
    );
}
