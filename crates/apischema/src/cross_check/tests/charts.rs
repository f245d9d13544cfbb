//! Tests of charts that Helm can never install.

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
