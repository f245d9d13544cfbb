//! Tests of charts that Helm can never install.

use windrow_plan::knowledge::NodeFacts;
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile};

use super::*;

#[test]
fn a_chart_that_helm_can_never_install_is_an_error_and_its_job_has_no_pods() {
    let found = |name: &str, spec: &str| -> Vec<(Code, Option<u32>)> {
        let text = format!(
            "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata:\n  name: {name}\n  namespace: kube-system\nspec: {spec}\n"
        );
        let content = FileContent::Bytes(text.into());
        let file = manifest::read("a.yaml", &content, &ReadLimits::default());
        let mut check = CrossCheck::default();
        for object in file.objects() {
            check.add(object, &SourceMap::itself("a.yaml"));
        }
        let ranges = windrow_plan::rke2::service_ranges(&[]);
        let without_pods = check.refusals(&ranges, &|_: &_| true).without_pods;
        let (found, _) = check.finish(None);
        assert_eq!(without_pods.len(), 2 * found.len(), "{name} {spec}");
        found.iter().map(|one| (one.code, one.at[0].line)).collect()
    };
    let longest = "a".repeat(50);
    for (name, spec) in [
        ("a", "{chart: 'oci://ghcr.io/a/charts/b'}"),
        ("a", "{chart: b, repo: 'https://charts.example.org'}"),
        ("a", "{chart: 'https://charts.example.org/b-1.tgz'}"),
        (
            "a",
            "{chart: 'https://%{KUBERNETES_API}%/static/charts/b.tgz'}",
        ),
        ("a", "{chart: stable/b}"),
        (
            "a",
            "{chart: /charts/b, jobImage: registry.example.org/helm}",
        ),
        (
            "a",
            "{chart: local/b, repo: 'https://a.jfrog.io/artifactory/helm'}",
        ),
        (
            "a",
            "{chartContent: aGVsbG8=, repo: 'oci://ghcr.io/a', chart: b/c}",
        ),
        (&longest, "{chartContent: aGVsbG8=}"),
    ] {
        assert_eq!(found(name, spec), [], "{spec}");
    }
    let too_long = "a".repeat(51);
    for (name, spec, line) in [
        ("a", "{chart: b, repo: 'oci://ghcr.io/a/charts'}", 6),
        ("a", "{chart: b/c, repo: 'https://charts.example.org'}", 6),
        (
            "a",
            "{chart: 'https://a/c.tgz', repo: 'https://charts.example.org'}",
            6,
        ),
        ("a", "{chart: b, repo: ''}", 6),
        ("a", "{chart: b/c}", 6),
        ("a", "{version: 1.0.0}", 6),
        (&too_long, "{chartContent: aGVsbG8=}", 4),
    ] {
        let expected = [(Code::ChartNotInstallable, Some(line))];
        assert_eq!(found(name, spec), expected, "{spec}");
    }
}

#[test]
fn a_configuration_of_a_chart_that_rke2_does_not_install_has_no_effect() {
    let found = |name: &str, config: &str, version: &str| {
        let text = "apiVersion: helm.cattle.io/v1\nkind: HelmChartConfig\nmetadata: {name: NAME, namespace: kube-system}\n";
        let content = FileContent::Bytes(text.replace("NAME", name).into());
        let file = manifest::read("a.yaml", &content, &ReadLimits::default());
        let files = [Rke2ConfigFile::new(
            ConfigLayer::Main,
            "config.yaml",
            config,
        )];
        let facts = NodeFacts::from(Some(Platform::Rke2))
            .with_kubernetes(version.parse().ok())
            .with_rke2_files(&files[..usize::from(!config.is_empty())]);
        let mut check = CrossCheck::default();
        check.of_node(facts);
        for object in file.objects() {
            check.add(object, &SourceMap::itself("a.yaml"));
        }
        let (found, _) = check.finish(Some(Platform::Rke2));
        found.into_iter().map(|one| one.code).collect::<Vec<_>>()
    };
    for (name, config, version) in [
        ("rke2-cilium", "cni: cilium\n", "v1.33.5"),
        ("rke2-canal", "token: a\n", "v1.33.5"),
        ("rke2-cilium", "", "v1.33.5"),
        ("rke2-traefik", "ingress-controller: traefik\n", "v1.33.5"),
        ("rke2-traefik", "token: a\n", "v1.36.1"),
        ("rke2-ingress-nginx", "token: a\n", "v1.36.1"),
        ("rke2-coredns", "token: a\n", "v1.33.5"),
    ] {
        assert_eq!(found(name, config, version), [], "{name} {config}");
    }
    for (name, config, version) in [
        ("rke2-cilium", "cni: canal\n", "v1.33.5"),
        ("rke2-multus", "cni: canal\n", "v1.33.5"),
        ("rke2-cilium", "token: a\n", "v1.33.5"),
        ("rke2-traefik", "cni: cilium\n", "v1.33.5"),
        (
            "rke2-ingress-nginx",
            "ingress-controller: traefik\n",
            "v1.36.1",
        ),
        ("rke2-coredns", "disable: rke2-coredns\n", "v1.33.5"),
    ] {
        let expected = [Code::ChartConfigUnused];
        assert_eq!(found(name, config, version), expected, "{name} {config}");
    }
}
