//! Definitions of Edge Image Builder.

use windrow_model::manifest::{APPLIED_BY_IMAGE_BUILDER, ManifestPath};
use windrow_model::reasons::Code;

use super::ignition_tests::Beside;
use super::*;

pub(super) const DEFINITION: &str = "apiVersion: 1.3
image: {imageType: iso, arch: x86_64, baseImage: base.iso, outputImageName: out.iso}
kubernetes:

  version: v1.34.2+rke2r1
";

pub(super) fn take(text: &str, files: &[(&'static str, &'static str)]) -> Extraction {
    let beside = Beside(files.iter().copied().collect());
    extract_beside("d.yaml", text, &ReadLimits::default(), &beside)
}

/// The names of the files that kubectl creates, and those of RKE2's directory.
fn applied(extraction: &Extraction) -> (Vec<&str>, Vec<&str>) {
    let files = extraction.files.iter().map(|file| file.path.as_str());
    let (applied, own): (Vec<&str>, Vec<&str>) =
        files.partition(|path| ManifestPath::from(*path).applied_by().is_some());
    let short = |path| str::strip_prefix(path, APPLIED_BY_IMAGE_BUILDER).unwrap();
    (applied.into_iter().map(short).collect(), own)
}

fn content<'e>(extraction: &'e Extraction, name: &str) -> &'e str {
    let mut files = extraction.files.iter();
    let found = files.find(|file| file.path.ends_with(name)).unwrap();
    std::str::from_utf8(&found.content).unwrap()
}

#[test]
fn manifests_beside_a_definition_are_created_by_it_and_os_files_lie_where_rke2_reads_them() {
    let extraction = take(
        DEFINITION,
        &[
            ("kubernetes/manifests/a.yaml", "a: 1\n"),
            ("kubernetes/manifests/sub/b.yaml", "b: 1\n"),
            (
                "os-files/var/lib/rancher/rke2/server/manifests/c.yaml",
                "c: 1\n",
            ),
            ("os-files/etc/windrow/conf.d/d.yaml", "staging: {}\n"),
            ("os-files/etc/motd", "hello\n"),
        ],
    );
    assert_eq!(extraction.problems, vec![]);
    assert_eq!(applied(&extraction), (vec!["a.yaml"], vec!["c.yaml"]));
    let sources: Vec<&str> = extraction.files.iter().map(|file| &*file.source).collect();
    assert_eq!(
        sources,
        [
            "dir/os-files/var/lib/rancher/rke2/server/manifests/c.yaml",
            "dir/kubernetes/manifests/a.yaml"
        ]
    );
    let paths: Vec<&str> = extraction
        .configuration
        .iter()
        .map(|file| &*file.path)
        .collect();
    assert_eq!(
        paths,
        [
            "/etc/windrow/conf.d/d.yaml",
            "/etc/rancher/rke2/config.yaml"
        ]
    );
    assert_eq!(extraction.rke2_version.as_deref(), Some("v1.34.2+rke2r1"));
    let notes: Vec<&str> = extraction.notes.iter().map(|(_, note)| &**note).collect();
    assert!(
        notes[0].contains("sub/b.yaml is in a subdirectory"),
        "{notes:?}"
    );
    assert!(notes[1].contains("Windrow holds none of them"), "{notes:?}");
}

#[test]
fn rke2s_configuration_names_cilium_where_it_names_nothing() {
    for (server, expected) in [
        (None, "cni: cilium\n"),
        (Some(""), "cni: cilium\n"),
        (Some("cni: [multus, canal]\n"), "cni: [multus, canal]\n"),
        (Some("token: x"), "token: x\ncni: cilium\n"),
        (Some("{token: x}"), "{\"cni\":\"cilium\",\"token\":\"x\"}"),
    ] {
        let files = server.map(|server| ("kubernetes/config/server.yaml", server));
        let files: Vec<_> = files.into_iter().collect();
        let extraction = take(DEFINITION, &files);
        let content = String::from_utf8_lossy(&extraction.configuration[0].content);
        assert_eq!(content, expected);
    }
}

#[test]
fn a_chart_becomes_the_object_that_installs_it() {
    let text = format!(
        "{DEFINITION}  helm:
    charts:
    - name: rancher-chart
      repositoryName: edge
      version: 1.2.3
      targetNamespace: cattle-system
      createNamespace: true
      installationNamespace: kube-system
      valuesFile: rancher.yaml
    - name: metallb
      releaseName: addresses
      repositoryName: http
      version: 0.14.9
    repositories:
    - name: edge
      url: oci://registry.example.com/edge
    - name: http
      url: https://example.com/charts
"
    );
    let extraction = take(
        &text,
        &[("kubernetes/helm/values/rancher.yaml", "replicas: 1\n")],
    );
    assert_eq!(extraction.problems, vec![]);
    assert_eq!(applied(&extraction).0, ["rancher.yaml", "addresses.yaml"]);
    let of = |name: &str| {
        let text = content(&extraction, name);
        yaml::parse_configuration(text).unwrap().unwrap().to_json()
    };
    assert_eq!(
        of("rancher.yaml"),
        serde_json::json!({
            "apiVersion": "helm.cattle.io/v1",
            "kind": "HelmChart",
            "metadata": {"name": "rancher", "namespace": "kube-system"},
            "spec": {
                "chart": "oci://registry.example.com/edge/rancher-chart",
                "version": "1.2.3",
                "valuesContent": "replicas: 1\n",
                "targetNamespace": "cattle-system",
                "createNamespace": true,
                "backOffLimit": 20,
            },
        })
    );
    let second = of("addresses.yaml");
    assert_eq!(second["spec"]["repo"], "https://example.com/charts");
    assert_eq!(second["spec"]["chart"], "metallb");
    let lines: Vec<u32> = extraction
        .files
        .iter()
        .map(|file| file.lines.outer(9))
        .collect();
    assert_eq!(lines, [8, 15]);
}

#[test]
fn an_address_brings_metallb_and_what_makes_it_answer() {
    let text = format!("{DEFINITION}  network:\n    apiVIP: 192.0.2.10\n");
    let extraction = take(&text, &[]);
    let names = [
        "k8s-vip.yaml",
        "metallb.yaml",
        "endpoint-copier-operator.yaml",
    ];
    assert_eq!(applied(&extraction).0, names);
    let address = content(&extraction, "k8s-vip.yaml");
    assert!(address.contains("192.0.2.10/32"), "{address}");
    assert_eq!(address.matches("---\n").count(), 2);
}

#[test]
fn what_is_not_known_of_a_definition_is_named() {
    let files: &[(&str, &str)] = &[(
        "custom/scripts/60-a.sh",
        "#!/bin/sh\ncp a.yaml /var/lib/rancher/rke2/server/manifests/\n",
    )];
    let text = DEFINITION.replace("1.3\n", "2.0\n")
        + "  manifests:\n    urls:\n    - https://me:Xq1@example.com/a.yaml?sig=Xq1\n  features: {}\n";
    let problems = take(&text, files).problems;
    let found: Vec<_> = problems.iter().map(|one| (one.code, one.line)).collect();
    let unknown = |line| (Code::NotLookedAt, Some(line));
    assert_eq!(
        found,
        [unknown(1), unknown(1), unknown(8), unknown(9)],
        "{problems:?}"
    );
    assert!(
        problems[1]
            .message
            .contains("custom/scripts/60-a.sh:2 names server/manifests")
    );
    assert!(!format!("{problems:?}").contains("Xq1"), "{problems:?}");
    assert!(
        problems[2]
            .message
            .contains("https://example.com/a.yaml: Edge Image Builder fetches it")
    );
    let k3s = take(&DEFINITION.replace("+rke2r1", "+k3s1"), &[]).problems;
    assert_eq!((k3s[0].code, k3s[0].line), unknown(5));
}

#[test]
fn of_a_definition_on_standard_input_it_is_said_once_that_its_directory_is_not_known() {
    let extraction = extract("standard input", DEFINITION, &ReadLimits::default());
    let problems = [extraction.problems, extraction.configuration_problems].concat();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(
        (problems[0].code, problems[0].line),
        (Code::NotLookedAt, Some(1))
    );
    assert_eq!(extraction.configuration, []);
}

#[test]
fn what_edge_image_builder_refuses_is_an_error_with_its_line() {
    let definition = |more: &str| format!("{DEFINITION}{more}");
    for (text, line, words) in [
        (
            DEFINITION.replace("  version: v1.34.2+rke2r1\n", "  manifests: {urls: [a]}\n"),
            5,
            "`kubernetes.version` is missing",
        ),
        (
            definition(
                "  nodes:\n  - hostname: a\n    type: server\n  - hostname: b\n    type: agent\n",
            ),
            5,
            "several nodes need",
        ),
        (
            definition(
                "  network: {apiVIP: 192.0.2.1}\n  nodes: [{hostname: a, type: agent}, {hostname: b, type: agent}]\n",
            ),
            7,
            "none of the nodes is a server",
        ),
        (
            definition(
                "  helm:\n    charts:\n    - {name: a, repositoryName: b, version: 1.0.0}\n",
            ),
            8,
            "which `repositories` does not have",
        ),
        (
            definition(
                "  helm:\n    charts:\n    - {name: a, repositoryName: b, version: 1.0.0, valuesFile: v.yaml}\n    repositories: [{name: b, url: https://example.com}]\n",
            ),
            8,
            "v.yaml is not next to the definition",
        ),
    ] {
        let problems = take(&text, &[]).problems;
        let [problem] = &problems[..] else {
            panic!("{text}: {problems:?}");
        };
        assert_eq!(
            (problem.code, problem.line),
            (Code::InputRefused, Some(line)),
            "{text}: {problem:?}"
        );
        assert!(problem.message.contains(words), "{}", problem.message);
    }
    let slip = take(&definition("  manifest: {urls: []}\n"), &[]).problems;
    assert_eq!((slip[0].code, slip[0].line), (Code::KeyNotRead, Some(6)));
}

#[test]
fn the_node_that_begins_the_cluster_is_the_one_that_is_read() {
    let nodes = "  network: {apiVIP: 192.0.2.1}\n  nodes:\n  - {hostname: a, type: agent}\n  - {hostname: b, type: server}\n  - {hostname: c, type: server, initializer: true}\n";
    let extraction = take(
        &format!("{DEFINITION}{nodes}"),
        &[("kubernetes/config/agent.yaml", "")],
    );
    let (line, note) = &extraction.notes[0];
    assert_eq!(*line, 8);
    assert!(
        note.contains("read as the node c, which begins the cluster; 2 others join it"),
        "{note}"
    );
    assert!(note.contains("agent.yaml, which is for agents"), "{note}");
}

#[test]
fn a_configuration_of_one_of_rke2s_charts_is_late_unless_rke2_reads_it() {
    const CONFIG: &str = "apiVersion: helm.cattle.io/v1\nkind: HelmChartConfig\nmetadata: {name: rke2-cilium, namespace: kube-system}\n";
    const OTHER: &str = "apiVersion: helm.cattle.io/v1\nkind: HelmChartConfig\nmetadata: {name: metallb, namespace: kube-system}\n";
    let codes = |path: &'static str, text: &'static str| {
        let problems = take(DEFINITION, &[(path, text)]).problems.into_iter();
        problems.map(|problem| problem.code).collect::<Vec<_>>()
    };
    let manifest = "kubernetes/manifests/a.yaml";
    assert_eq!(codes(manifest, CONFIG), [Code::ChartConfigLate]);
    assert_eq!(codes(manifest, OTHER), []);
    let own = "os-files/var/lib/rancher/rke2/server/manifests/a.yaml";
    assert_eq!(codes(own, CONFIG), []);
}
