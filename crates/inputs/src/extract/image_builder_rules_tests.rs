//! The rules of Edge Image Builder.

use windrow_model::reasons::Code;

use super::image_builder_tests::{DEFINITION, take};

/// The problems of a definition whose `apiVersion` is 1.3.
fn broken(more: &str, files: &[(&'static str, &'static str)]) -> Vec<(Code, Option<u32>, String)> {
    let text = DEFINITION.replace("\n\n", &format!("\n{more}\n"));
    let text = match more.starts_with("operatingSystem") {
        true => format!("{more}\n{DEFINITION}"),
        false => text,
    };
    let problems = take(&text, files).problems.into_iter();
    problems
        .map(|problem| (problem.code, problem.line, problem.message))
        .collect()
}

#[test]
fn each_rule_of_edge_image_builder_refuses_what_breaks_it() {
    let chart = "{name: a, repositoryName: r, version: 1.0.0}";
    let helm = |charts: &str, repository: &str| {
        format!("  helm: {{charts: [{charts}], repositories: [{{name: r, {repository}}}]}}")
    };
    let nodes = |nodes: &str| format!("  network: {{apiVIP: 192.0.2.1}}\n  nodes: [{nodes}]");
    let os = |system: &str| format!("operatingSystem: {{{system}}}");
    for (more, words) in [
        (
            "  network: {apiVIP: 192.0.2.300}".to_owned(),
            "`apiVIP` is not a valid address",
        ),
        (
            "  network: {apiVIP: '${API_VIP}'}".to_owned(),
            "still has the placeholder",
        ),
        (
            "  network: {apiVIP: 224.0.0.5}".to_owned(),
            "cannot be the address of a node",
        ),
        (
            "  network: {apiVIP: 169.254.1.1}".to_owned(),
            "cannot be the address of a node",
        ),
        (
            "  network: {apiVIP: 'fd00::1'}".to_owned(),
            "must be an IPv4 address",
        ),
        (
            "  network: {apiVIP6: 192.0.2.1}".to_owned(),
            "must be an IPv6 address",
        ),
        (
            "  network: {apiVIP: 192.0.2.1, apiVIP6: 'fd00::1'}".to_owned(),
            "together need",
        ),
        (
            nodes("{hostname: a, type: server}, {hostname: a, type: agent}"),
            "two nodes have the hostname a",
        ),
        (
            nodes("{hostname: a, type: server}, {type: agent}"),
            "a node without `hostname`",
        ),
        (
            nodes("{hostname: a, type: server}, {hostname: b, type: worker}"),
            "must be server or agent",
        ),
        (
            nodes("{hostname: a, type: server}, {hostname: b, type: agent, initializer: true}"),
            "its type must be server",
        ),
        (
            nodes(
                "{hostname: a, type: server, initializer: true}, {hostname: b, type: server, initializer: true}",
            ),
            "two nodes have `initializer: true`",
        ),
        (
            "  manifests: {urls: ['ftp://example.com/a.yaml']}".to_owned(),
            "must begin with http",
        ),
        (
            helm(&format!("{chart}, {chart}"), "url: 'https://example.com'"),
            "two charts have the release a",
        ),
        (
            helm("{name: a, repositoryName: r}", "url: 'https://example.com'"),
            "`kubernetes.helm.charts[].version` is missing",
        ),
        (
            helm(
                "{name: a, repositoryName: r, version: 1.0.0, createNamespace: true}",
                "url: 'https://example.com'",
            ),
            "without `targetNamespace`",
        ),
        (
            helm(chart, "url: example.com"),
            "needs a `url` that begins with",
        ),
        (
            helm(chart, "url: 'http://example.com'"),
            "needs `plainHTTP: true`",
        ),
        (
            helm(
                chart,
                "url: 'https://example.com', authentication: {username: u}",
            ),
            "without `password`",
        ),
        (
            helm(
                chart,
                "url: 'https://example.com', skipTLSVerify: true, caFile: a.pem",
            ),
            "only for verified TLS",
        ),
        (
            helm(chart, "url: 'https://example.com', caFile: a.txt"),
            "must end in .pem",
        ),
        (
            helm(chart, "url: 'https://example.com', caFile: a.pem"),
            "a.pem is not next to the definition",
        ),
        (os("kernelArgs: [a=1, a=2]"), "has a twice"),
        (
            os("kernelArgs: [fips=1]"),
            "`operatingSystem.enableFIPS: true`",
        ),
        (
            os("systemd: {enable: [a], disable: [a]}"),
            "both enabled and disabled",
        ),
        (os("systemd: {enable: [a, a]}"), "has a twice"),
        (
            os("users: [{username: a}]"),
            "neither `encryptedPassword` nor `sshKeys`",
        ),
        (
            os("users: [{username: a, sshKeys: [k]}]"),
            "needs `createHomeDir: true`",
        ),
        (
            os("users: [{encryptedPassword: x}]"),
            "`operatingSystem.users[].username` is missing",
        ),
        (
            os("rawConfiguration: {diskSize: 64G}"),
            "only for `imageType: raw`",
        ),
        (
            os("time: {ntp: {forceWait: true}}"),
            "needs `pools` or `servers`",
        ),
        (
            os("enableFIPS: true"),
            "needs `packages.sccRegistrationCode`",
        ),
        (
            os("packages: {additionalRepos: [{url: a, priority: 100}]}"),
            "from 0 to 99",
        ),
        (os("users: {username: a}"), "is a map, not a list"),
        (os("enableFIPS: 'true'"), "is a string, not true or false"),
    ] {
        let found = broken(&more, &[]);
        let is_it = |(code, _, message): &(Code, Option<u32>, String)| {
            *code == Code::InputRefused && message.contains(words)
        };
        assert!(found.iter().any(is_it), "{more}: {found:?}");
    }
    for more in [
        "  network: {apiVIP: 192.0.2.1}".to_owned(),
        "  nodes: [{type: anything}]".to_owned(),
        nodes("{hostname: a, type: server, initializer: true}, {hostname: b, type: agent}"),
        helm(chart, "url: 'oci://example.com/a'"),
        helm(chart, "url: 'http://example.com', plainHTTP: true"),
        os("kernelArgs: [quiet, a=1]"),
        os("users: [{username: a, sshKeys: [k], createHomeDir: true}]"),
        os("isoConfiguration: {installDevice: /dev/sda}"),
    ] {
        assert_eq!(broken(&more, &[]), [], "{more}");
    }
}

#[test]
fn the_rules_of_an_image_its_version_and_the_files_beside_it_are_checked_too() {
    let of = |old: &str, new: &str, files: &[(&'static str, &'static str)]| {
        let problems = take(&DEFINITION.replace(old, new), files).problems;
        problems
            .into_iter()
            .map(|problem| problem.message)
            .collect::<Vec<_>>()
    };
    for (old, new, words) in [
        (
            "imageType: iso",
            "imageType: qcow2",
            "`image.imageType` must be iso or raw",
        ),
        (
            "arch: x86_64",
            "arch: amd64",
            "`image.arch` must be x86_64 or aarch64",
        ),
        ("arch: x86_64, ", "", "`image.arch` is missing"),
        (
            ", outputImageName: out.iso",
            "",
            "`image.outputImageName` is missing",
        ),
        (
            "apiVersion: 1.3",
            "apiVersion: 1.1\nembeddedArtifactRegistry: {registries: [{uri: a, authentication: {username: u, password: p}}]}",
            "from 1.2 on",
        ),
        (
            "apiVersion: 1.3",
            "apiVersion: 1.3\nembeddedArtifactRegistry: {registries: [{uri: a}]}",
            "authentication.username` is missing",
        ),
        (
            "apiVersion: 1.3",
            "apiVersion: 1.3\nembeddedArtifactRegistry: {images: [{name: a}, {name: a}]}",
            "has a twice",
        ),
    ] {
        let found = of(old, new, &[]);
        assert!(
            found.iter().any(|message| message.contains(words)),
            "{new}: {found:?}"
        );
    }
    for same in ["imageType: ISO", "imageType: raw"] {
        assert_eq!(of("imageType: iso", same, &[]), [""; 0]);
    }
    for (file, content, words) in [
        (SERVER_FILE, "cluster-cidr: 10.42.0.0\n", "is not a network"),
        (
            SERVER_FILE,
            "cluster-cidr: 10.42.0.0/16,fd00::/56,fd01::/56\n",
            "more than two networks",
        ),
        (
            "elemental/other.yaml",
            "",
            "may contain only elemental_config.yaml",
        ),
        (
            "elemental/elemental_config.yaml",
            "",
            "needs `operatingSystem.packages.sccRegistrationCode`",
        ),
    ] {
        let found = of("", "", &[(file, content)]);
        assert!(
            found.iter().any(|message| message.contains(words)),
            "{file}: {found:?}"
        );
    }
    assert_eq!(
        of("", "", &[(SERVER_FILE, "cluster-cidr: 10.42.0.0/16\n")]),
        [""; 0]
    );
    assert_eq!(
        of(
            "",
            "",
            &[
                ("elemental/elemental_config.yaml", ""),
                ("rpms/elemental-register.rpm", "")
            ]
        ),
        [""; 0]
    );
}

const SERVER_FILE: &str = "kubernetes/config/server.yaml";
