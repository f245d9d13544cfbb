//! Tests of requirements without a known provider that an installer may meet: a file with an installer waits for none
//! of them.

use super::*;

const CHART: &str = "\
apiVersion: helm.cattle.io/v1
kind: HelmChart
metadata: {name: app, namespace: kube-system}
spec: {chart: app, repo: https://charts.example.com}
";
const OPERATOR: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: operator, namespace: kube-system}
spec:
  selector: {matchLabels: {app: operator}}
  template:
    metadata: {labels: {app: operator}}
    spec: {serviceAccountName: operator, containers: [{name: c, image: i}]}
";
const BINDING: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: operator}
subjects: [{kind: ServiceAccount, name: operator, namespace: kube-system}]
";
const ROLE: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: operator}
rules: [{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, create]}]
";
const RELEASE: &str = "\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: app, namespace: default}
spec: {}
";

fn docs(documents: &[&str]) -> String {
    documents.join("---\n")
}

/// The waits of the file at a boot.
fn waits(plan: &Plan, path: &str) -> Vec<String> {
    let file = plan.files.iter().find(|file| file.path == path).unwrap();
    file.requirements()
        .filter(|one| one.takes_part())
        .map(|one| plan.needs[one.need].target.to_string())
        .map(|target| target.replace("the kind ", ""))
        .collect()
}

#[test]
fn a_chart_waits_for_nothing_as_rke2_registers_its_kind_before_it_reads_manifests() {
    // Configuration of another chart: one's own must come first (rule helmchart-config).
    let config = CHART.replace("HelmChart", "HelmChartConfig");
    let config = config.replace("name: app", "name: other");
    let plan = plan(&[("chart.yaml", CHART), ("config.yaml", &config)]);
    for file in ["chart.yaml", "config.yaml"] {
        assert_eq!(waits(&plan, file), [""; 0]);
    }
}

#[test]
fn a_file_with_a_chart_waits_for_no_kind_that_nothing_known_brings() {
    let plan = plan(&[("metallb.yaml", &docs(&[CHART, WIDGET]))]);
    assert_eq!(waits(&plan, "metallb.yaml"), [""; 0]);
    assert_eq!(codes(&plan), [Code::InstallerInFile]);
    let finding = &plan.findings[0];
    assert_eq!(finding.at, [Location::line("metallb.yaml", 6)]);
    assert_eq!(
        finding.message,
        "HelmChart kube-system/app may bring the kind Widget.example.com, and metallb.yaml also needs \
         it, so RKE2 fails and repeats the file: move the dependent objects to metallb-objects.yaml"
    );
}

#[test]
fn the_name_of_the_second_file_is_one_that_no_file_has() {
    let text = docs(&[CHART, WIDGET]);
    let plan = plan(&[("sub/a.yaml", &text), ("a-objects.yml", CHART)]);
    let found = plan
        .findings
        .iter()
        .find(|one| one.code == Code::InstallerInFile);
    let message = &found.unwrap().message;
    assert!(message.ends_with("to sub/a-objects-2.yaml"), "{message}");
}

#[test]
fn a_file_without_an_installer_comes_after_the_one_with_it_and_waits() {
    let plan = plan(&[("a.yaml", WIDGET), ("b.yaml", CHART)]);
    assert_eq!(waits(&plan, "a.yaml"), ["Widget.example.com"]);
    assert_eq!(waits(&plan, "b.yaml"), [""; 0]);
    assert_eq!(order(&plan), ["b.yaml", "a.yaml"]);
    assert_eq!(codes(&plan), [Code::MayBeBrought]);
    assert!(!plan.findings[0].is_unknown());
    assert!(plan.findings_ahead()[0].is_unknown());
    assert_eq!(
        plan.files[0].requirements().next().unwrap().satisfied_by,
        SatisfiedBy::Installer { file: 1, line: 1 }
    );
}

#[test]
fn pods_install_when_their_account_may_create_definitions_wherever_that_is_said() {
    let bound = docs(&[OPERATOR, BINDING, ROLE, WIDGET]);
    let harmless = bound.replace("verbs: [get, create]", "verbs: [get, list]");
    // A request to create an object has no name.
    let named = "verbs: [get, create], resourceNames: [a.example.com]";
    let named = bound.replace("verbs: [get, create]", named);
    let unbound = docs(&[OPERATOR, ROLE, WIDGET]);
    for (text, expected) in [(&bound, 0), (&harmless, 1), (&named, 1), (&unbound, 1)] {
        let plan = plan(&[("all.yaml", text)]);
        assert_eq!(waits(&plan, "all.yaml").len(), expected, "{text}");
    }
    // The account's rights are in another file, and are those of the cluster's own role.
    let job = OPERATOR
        .replace("apps/v1", "batch/v1")
        .replace("kind: Deployment", "kind: Job");
    let admin = BINDING.replace(
        "name: operator}\nsubjects",
        "name: cluster-admin}\nsubjects",
    );
    let group = admin.replace(
        "{kind: ServiceAccount, name: operator, namespace: kube-system}",
        "{kind: Group, name: 'system:serviceaccounts:kube-system'}",
    );
    let user = group.replace(
        "{kind: Group, name: 'system:serviceaccounts:kube-system'}",
        "{kind: User, name: 'system:serviceaccount:kube-system:operator'}",
    );
    let another = user.replace("kube-system:operator", "kube-system:default");
    let view = admin.replace("cluster-admin", "view");
    let file = docs(&[&job, WIDGET]);
    for (binding, expected) in [
        (&admin, 0),
        (&group, 0),
        (&user, 0),
        (&another, 1),
        (&view, 1),
    ] {
        let plan = plan(&[("job.yaml", &file), ("rights.yaml", binding)]);
        assert_eq!(waits(&plan, "job.yaml").len(), expected, "{binding}");
    }
}

#[test]
fn what_an_installer_waits_for_waits_for_nothing_that_the_installer_may_bring() {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: apps}\n";
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: apps}\n";
    let plan = plan(&[
        ("a.yaml", &docs(&[namespace, WIDGET])),
        ("b.yaml", &docs(&[CHART, secret])),
        ("c.yaml", WIDGET),
    ]);
    assert_eq!(waits(&plan, "a.yaml"), [""; 0], "b.yaml waits for it");
    assert_eq!(waits(&plan, "b.yaml"), ["Namespace apps"]);
    assert_eq!(waits(&plan, "c.yaml"), ["Widget.example.com"]);
}

#[test]
fn a_chart_is_not_kept_from_the_namespace_that_it_goes_to() {
    let chart = CHART.replace("spec: {", "spec: {targetNamespace: apps, ");
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: apps}\n";
    let plan = plan(&[("a.yaml", &docs(&[namespace, WIDGET])), ("b.yaml", &chart)]);
    assert_eq!(
        waits(&plan, "a.yaml"),
        [""; 0],
        "the chart's Job fails without it"
    );
    assert_eq!(waits(&plan, "b.yaml"), ["Namespace apps"], "for a while");
    assert_eq!(order(&plan), ["a.yaml", "b.yaml"]);
}

#[test]
fn a_chart_for_a_namespace_that_nothing_creates_is_a_finding_and_is_not_held() {
    let chart = CHART.replace("spec: {", "spec: {targetNamespace: apps, ");
    let alone = plan(&[("b.yaml", &chart)]);
    assert_eq!(waits(&alone, "b.yaml"), [""; 0]);
    let found: Vec<&str> = alone.findings.iter().map(|one| &*one.message).collect();
    assert_eq!(found, ["nothing here creates Namespace apps"]);
    for whole in [
        chart.replace("spec: {", "spec: {createNamespace: true, "),
        chart.replace("targetNamespace: apps", "targetNamespace: kube-system"),
        docs(&[
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: apps}\n",
            &chart,
        ]),
    ] {
        assert_eq!(plan(&[("b.yaml", &whole)]).findings, [], "{whole}");
    }
}

#[test]
fn an_installer_does_not_bring_what_it_needs_itself() {
    let file = docs(&[RELEASE, WIDGET]);
    let alone = plan(&[("a.yaml", &file)]);
    let kind = "HelmRelease.helm.toolkit.fluxcd.io";
    assert_eq!(waits(&alone, "a.yaml"), [kind, "Widget.example.com"]);
    assert_eq!(codes(&alone), [Code::KindWithoutProvider; 2]);
    // A chart may bring Flux, and then Flux may bring the rest.
    let with_flux = plan(&[("a.yaml", &file), ("flux.yaml", CHART)]);
    assert_eq!(waits(&with_flux, "a.yaml"), [kind]);
    assert_eq!(waits(&with_flux, "flux.yaml"), [""; 0]);
    assert_eq!(
        codes(&with_flux),
        [Code::InstallerInFile, Code::MayBeBrought]
    );
}

#[test]
fn files_whose_charts_may_bring_each_others_kinds_are_both_applied_at_once() {
    let other = WIDGET.replace("Widget", "Gadget");
    let plan = plan(&[
        ("a.yaml", &docs(&[CHART, WIDGET])),
        (
            "b.yaml",
            &docs(&[&CHART.replace("name: app", "name: b"), &other]),
        ),
    ]);
    assert_eq!(waits(&plan, "a.yaml"), [""; 0]);
    assert_eq!(waits(&plan, "b.yaml"), [""; 0]);
}

#[test]
fn a_known_need_still_holds_a_file_with_a_chart() {
    let plan = plan(&[("a.yaml", &docs(&[CHART, WIDGET])), ("crds.yaml", CRD)]);
    assert_eq!(waits(&plan, "a.yaml"), ["Widget.example.com"]);
    assert_eq!(codes(&plan), []);
}

#[test]
fn a_chart_that_creates_its_target_namespace_brings_it() {
    let creates = CHART.replace(
        "spec: {",
        "spec: {targetNamespace: argocd, createNamespace: true, ",
    );
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: argocd}\n";
    let apart = plan(&[("a.yaml", secret), ("b.yaml", &creates)]);
    assert_eq!(waits(&apart, "a.yaml"), ["Namespace argocd"]);
    assert_eq!(codes(&apart), []);
    assert_eq!(
        apart.files[0].requirements().next().unwrap().satisfied_by,
        SatisfiedBy::File { file: 1, line: 1 }
    );
    let together = plan(&[("a.yaml", &docs(&[&creates, secret]))]);
    assert_eq!(waits(&together, "a.yaml"), [""; 0]);
    assert_eq!(codes(&together), [Code::InstallerInFile]);
    assert_eq!(together.findings[0].at, [Location::line("a.yaml", 6)]);
    // Without this setting its Job fails until something else creates the namespace.
    for spec in ["createNamespace: false", "version: v1"] {
        let text = creates.replace("createNamespace: true", spec);
        let plan = plan(&[("a.yaml", secret), ("b.yaml", &text)]);
        assert_eq!(codes(&plan), [Code::ObjectWithoutProvider], "{spec}");
    }
    // A HelmChart of another API creates no namespace.
    let other = creates.replace("helm.cattle.io", "charts.example.com");
    let with_other = plan(&[("a.yaml", secret), ("b.yaml", &other)]);
    let finding = Code::ObjectWithoutProvider;
    assert!(codes(&with_other).contains(&finding));
    let plan = plan(&[("a.yaml", secret), ("b.yaml", CHART)]);
    assert_eq!(codes(&plan), [Code::MayBeBrought]);
}

#[test]
fn a_chart_does_not_create_the_namespace_that_it_stands_in_itself() {
    let chart = CHART
        .replace("namespace: kube-system", "namespace: argocd")
        .replace(
            "spec: {",
            "spec: {targetNamespace: argocd, createNamespace: true, ",
        );
    let plan = plan(&[("a.yaml", &chart)]);
    assert_eq!(waits(&plan, "a.yaml"), ["Namespace argocd"]);
    assert_eq!(codes(&plan), [Code::ObjectWithoutProvider]);
}

#[test]
fn a_chart_without_the_value_that_brings_its_kinds_is_named_once_with_that_value() {
    let chart = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: cm, namespace: kube-system}\nspec: {repo: https://charts.jetstack.io, chart: cert-manager}\n";
    let issuer = "apiVersion: cert-manager.io/v1\nkind: ClusterIssuer\nmetadata: {name: a}\n";
    let certificate = "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: a, namespace: default}\n";
    let objects = docs(&[issuer, certificate]);
    let apart = plan(&[("chart.yaml", chart), ("objects.yaml", &objects)]);
    assert_eq!(codes(&apart), [Code::BroughtOnCondition]);
    let finding = &apart.findings[0];
    assert_eq!(
        finding.message,
        "HelmChart kube-system/cm provides the kind Certificate.cert-manager.io and the kind \
         ClusterIssuer.cert-manager.io only if `crds.enabled` or `installCRDs` is true in its values; \
         no input confirms that"
    );
    assert_eq!(finding.at.len(), 2);
    // In one file it is one finding, too, and contains the value.
    let together = plan(&[("a.yaml", &docs(&[chart, issuer, certificate]))]);
    assert_eq!(codes(&together), [Code::InstallerInFile]);
    let finding = &together.findings[0];
    assert!(
        finding.message.contains("`crds.enabled` or `installCRDs`"),
        "{}",
        finding.message
    );
    assert_eq!(finding.at.len(), 2);
    // With the value it provides them.
    let set = chart.replace("chart: cert", "set: {crds.enabled: true}, chart: cert");
    let set = plan(&[("chart.yaml", &set), ("objects.yaml", &objects)]);
    assert_eq!(codes(&set), []);
}

/// kube-prometheus-stack with these lines in its `spec`, and a ServiceMonitor.
fn with_monitor(spec: &str) -> [(&'static str, String); 2] {
    let chart = format!(
        "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {{name: kps, namespace: kube-system}}\nspec:\n  chart: kube-prometheus-stack\n{spec}"
    );
    let monitor = "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: a, namespace: default}\n";
    [("chart.yaml", chart), ("monitor.yaml", monitor.to_owned())]
}

fn codes_of(files: &[(&'static str, String)]) -> Vec<Code> {
    let files: Vec<_> = files.iter().map(|(n, t)| (*n, t.as_str())).collect();
    codes(&plan(&files))
}

#[test]
fn a_chart_that_is_told_to_leave_out_its_kinds_does_not_bring_them() {
    assert_eq!(codes_of(&with_monitor("")), []);
    for (spec, line) in [
        (
            "  valuesContent: |\n    a: 1\n    crds:\n      enabled: false\n",
            9,
        ),
        ("  set:\n    crds.enabled: \"false\"\n", 7),
        ("  valuesContent: 'crds: {enabled: false}'\n", 6),
    ] {
        let files = with_monitor(spec);
        let files: Vec<_> = files.iter().map(|(n, t)| (*n, t.as_str())).collect();
        let plan = plan(&files);
        assert_eq!(codes(&plan), [Code::KindLeftOut], "{spec}");
        let finding = &plan.findings[0];
        assert_eq!(
            finding.message,
            "HelmChart kube-system/kps does not provide the kind ServiceMonitor.monitoring.coreos.com: \
             `crds.enabled` is false in its values"
        );
        let at: Vec<String> = finding.at.iter().map(ToString::to_string).collect();
        assert_eq!(at, ["monitor.yaml:1", &format!("chart.yaml:{line}")]);
    }
    // Text is true for a template, and a Secret comes after the values.
    let text = "  valuesContent: 'crds: {enabled: \"false\"}'\n";
    assert_eq!(codes_of(&with_monitor(text)), []);
    let secret =
        "  valuesContent: 'crds: {enabled: false}'\n  valuesSecrets: [{name: a, keys: [b]}]\n";
    assert_eq!(codes_of(&with_monitor(secret)), [Code::BroughtOnCondition]);
}

#[test]
fn what_a_chart_leaves_out_may_come_from_another_one() {
    let [chart, monitor] = with_monitor("  set: {crds.enabled: false}\n");
    let crds = (
        "crds.yaml",
        CHART.replace("chart: app", "chart: prometheus-operator-crds"),
    );
    assert_eq!(codes_of(&[chart.clone(), monitor.clone(), crds]), []);
    let unknown = ("crds.yaml", CHART.replace("chart: app", "chart: something"));
    assert_eq!(codes_of(&[chart, monitor, unknown]), [Code::MayBeBrought]);
}

#[test]
fn a_chart_config_counts_before_the_charts_own_values() {
    let config = |name: &str, enabled: bool| {
        let text = format!(
            "apiVersion: helm.cattle.io/v1\nkind: HelmChartConfig\nmetadata: {{name: {name}, namespace: kube-system}}\nspec:\n  valuesContent: |-\n    crds:\n      enabled: {enabled}\n"
        );
        ("config.yaml", text)
    };
    let of = |spec: &str, config| {
        let [chart, monitor] = with_monitor(spec);
        let files = [chart, monitor, config];
        let files: Vec<_> = files.iter().map(|(n, t)| (*n, t.as_str())).collect();
        plan(&files)
    };
    let off = of("", config("kps", false));
    assert_eq!(codes(&off), [Code::KindLeftOut]);
    assert_eq!(off.findings[0].at[1].to_string(), "config.yaml:7");
    assert_eq!(codes(&of("", config("other", false))), []);
    let content = "  valuesContent: 'crds: {enabled: false}'\n";
    assert_eq!(codes(&of(content, config("kps", true))), []);
    let set = "  set: {crds.enabled: true}\n";
    assert_eq!(codes(&of(set, config("kps", false))), []);
}

#[test]
fn a_known_chart_brings_nothing_beside_what_its_values_could_bring() {
    let chart = CHART.replace("chart: app", "chart: cert-manager");
    let certificate = "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: a, namespace: default}\n";
    let off = chart.replace("spec: {", "spec: {set: {crds.enabled: false}, ");
    let with_off = plan(&[("a.yaml", certificate), ("b.yaml", &off)]);
    assert_eq!(codes(&with_off), [Code::KindLeftOut]);
    let widget =
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a, namespace: default}\n";
    let with_other = plan(&[("a.yaml", widget), ("b.yaml", &chart)]);
    assert_eq!(codes(&with_other), [Code::KindWithoutProvider]);
}
