use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge};

use super::*;

fn judged(text: &str, version: &str) -> JudgedArguments {
    let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text);
    let target = TargetVersion::Known(version.parse().unwrap());
    judge_arguments(&merge(&[file]), &target)
}

fn told(text: &str, version: &str) -> Vec<String> {
    let findings = judged(text, version).findings;
    findings
        .iter()
        .map(|one| format!("{} {} {}", one.severity.as_str(), one.at[0], one.message))
        .collect()
}

#[track_caller]
fn has(text: &str, version: &str, severity: &str, part: &str) {
    let found = told(text, version);
    let [finding] = &found[..] else {
        panic!("{text}: {found:?}");
    };
    assert!(
        finding.starts_with(severity) && finding.contains(part),
        "{finding}"
    );
}

#[test]
fn arguments_that_the_components_have_are_no_finding() {
    let text = "kube-apiserver-arg:\n- audit-log-maxage=30\n- --audit-policy-file=/etc/a.yaml\n- enable_admission_plugins=NodeRestriction\n\
                kubelet-arg: [max-pods=200, node-status-update-frequency=4s, protect-kernel-defaults=true]\n\
                kube-controller-manager-arg: [node-monitor-period=5s, kube-api-qps=40.5]\n\
                kube-proxy-arg: proxy-mode=ipvs\nkube-cloud-controller-manager-arg: [concurrent-service-syncs=2]\n";
    for minor in 30..=37 {
        assert_eq!(told(text, &format!("v1.{minor}.1")), [""; 0], "{minor}");
    }
    let unchecked: Vec<String> = judged(text, "v1.33.1")
        .unchecked
        .into_iter()
        .map(|one| one.to_string())
        .collect();
    assert_eq!(
        unchecked,
        ["config.yaml:3: `audit-policy-file` of kube-apiserver: Windrow does not read this file"]
    );
}

#[test]
fn a_text_that_its_flag_does_not_take_is_an_error_and_one_that_stops_nothing_is_listed() {
    for (text, part) in [
        (
            "kubelet-arg: ['eviction-hard=memory.available=1Gi']",
            "memory.available<100Mi",
        ),
        (
            "kubelet-arg: ['kube-reserved=cpu=500m,disk=1Gi']",
            "with these names: cpu, memory",
        ),
        (
            "kubelet-arg: [cpu-manager-policy=statik]",
            "write one of these: none, static",
        ),
        ("kube-apiserver-arg: [tls-min-version=1.2]", "VersionTLS12"),
        (
            "kube-apiserver-arg: ['tls-cipher-suites=TLS_AES,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256']",
            "a list of these",
        ),
        (
            "kube-apiserver-arg: ['oidc-issuer-url=http://id.example.org', oidc-client-id=rack]",
            "https://",
        ),
        (
            "kube-proxy-arg: [proxy-mode=nftable]",
            "iptables, ipvs, nftables",
        ),
    ] {
        has(text, "v1.33.5", "error", part);
    }
    let listed = judged(
        "kube-apiserver-arg: [oidc-client-id=rack, 'oidc-issuer-url=https://id.example.org']",
        "v1.33.5",
    );
    assert!(listed.findings.is_empty());
    assert_eq!(listed.unchecked[0].can_stop, CanStop::Itself);
}

#[test]
fn what_rke2_takes_out_or_adds_itself_counts() {
    for text in [
        "kubelet-arg: [log-file=/var/log/k.log, alsologtostderr=x, stderrthreshold=INFO]",
        "kube-apiserver-arg: [advertise-port=6443]",
    ] {
        assert_eq!(told(text, "v1.33.5"), [""; 0], "{text}");
    }
    for text in [
        "kube-apiserver-arg: [disable-admission-plugins=NodeRestriction]",
        "kube-apiserver-arg: [admission-control=NodeRestriction]",
    ] {
        has(text, "v1.33.5", "error", "RKE2");
    }
}

#[test]
fn numbers_switches_and_labels_are_those_that_the_kubelet_takes() {
    for (text, part) in [
        ("max-pods=3000000000", "2147483647"),
        ("container-log-max-files=08", "a whole number"),
        ("seccomp-default=RuntimeDefault", "true or false"),
        (
            "node-labels=node-role.kubernetes.io/worker=true",
            "must not set",
        ),
        ("register-with-taints=dedicated", "has no effect"),
    ] {
        has(
            &format!("kubelet-arg: ['{text}']"),
            "v1.33.5",
            "error",
            part,
        );
    }
    let taken = "kubelet-arg: [max-pods=0x10, container-log-max-files=010, 'node-labels=rack=r1,example.org/zone=b']";
    assert_eq!(told(taken, "v1.33.5"), [""; 0]);
}

#[test]
fn flags_that_nothing_registers_are_unknown() {
    has(
        "kube-scheduler-arg: [address=127.0.0.1]",
        "v1.30.14",
        "error",
        "has no argument `address`",
    );
    has(
        "kube-proxy-arg: [emulated-version=1.33]",
        "v1.34.1",
        "error",
        "has no argument",
    );
}

#[test]
fn without_a_version_an_argument_that_no_known_minor_has_is_an_error_all_the_same() {
    let file = Rke2ConfigFile::new(
        ConfigLayer::Main,
        "config.yaml",
        "kubelet-arg: [max-pod=9]\n",
    );
    let found = judge_arguments(&merge(&[file]), &TargetVersion::Unknown).findings;
    assert!(found[0].message.contains("kubelet 1.30 to 1."), "{found:?}");
    assert_eq!(found[0].severity, Severity::Error);
}

#[test]
fn every_form_of_a_text_belongs_to_a_flag_that_takes_a_text() {
    let rows = include_str!("../data/argument-texts.txt").lines();
    let rows = rows.filter(|line| !line.starts_with('#')).count();
    assert_eq!(TEXTS.len(), rows, "a line is not read");
    for (component, flag) in TEXTS.keys() {
        let mut known = KNOWN.flags.iter();
        let is_of = |(owner, name): &(&str, &str)| {
            name == flag && (*component == "*" || component == owner)
        };
        let found = known.find(|(of, found)| is_of(of) && found.kind == ValueKind::Text);
        assert!(found.is_some(), "{component} {flag}");
    }
}

#[test]
fn an_argument_that_no_component_of_the_minor_has_is_an_error() {
    has(
        "kubelet-arg: [cpu-manager=true]\n",
        "v1.33.5",
        "error config.yaml:1",
        "kubelet 1.33.5 has no argument `cpu-manager`",
    );
    has(
        "kube-apiserver-arg:\n- audit-log-maxge=3\n",
        "v1.33.5",
        "error config.yaml:2",
        "did you mean `audit-log-maxage`?",
    );
    has(
        "kube-apiserver-arg: [event-qps=0]\n",
        "v1.33.5",
        "error",
        "it is an argument of kubelet",
    );
    has(
        "kubelet-arg: [keep-terminated-pod-volumes=false]\n",
        "v1.33.5",
        "error",
        "Kubernetes 1.30 was the last that had it",
    );
    has(
        "kube-apiserver-arg: [emulated-version=1.29]\n",
        "v1.30.2",
        "error",
        "it comes with Kubernetes 1.31",
    );
}

#[test]
fn an_argument_that_the_next_minor_lacks_is_a_warning_until_then() {
    let text = "kubelet-arg: [cloud-config=/etc/cloud.conf]\n";
    assert_eq!(told(text, "v1.32.1"), [""; 0]);
    has(
        text,
        "v1.33.1",
        "warning",
        "kubelet of Kubernetes 1.34 has no argument `cloud-config`",
    );
    has(text, "v1.34.1", "error", "Kubernetes 1.33 was the last");
}

#[test]
fn a_value_that_its_type_does_not_take_is_an_error() {
    for (argument, why) in [
        ("'max-requests-inflight=\"800\"'", "write a whole number"),
        ("max-requests-inflight=many", "write a whole number"),
        ("profiling=off", "write true or false"),
        ("request-timeout=60", "write a duration"),
        ("request-timeout", "write a duration"),
        ("goaway-chance=often", "write a number"),
    ] {
        has(
            &format!("kube-apiserver-arg: [{argument}]\n"),
            "v1.33.5",
            "error",
            why,
        );
    }
    for value in [
        "request-timeout=1h30m",
        "request-timeout=1.5s",
        "request-timeout=0",
        "max-requests-inflight=0x20",
        "profiling",
        "goaway-chance=1e-3",
    ] {
        assert_eq!(
            told(&format!("kube-apiserver-arg: ['{value}']\n"), "v1.33.5"),
            [""; 0],
            "{value}"
        );
    }
    has(
        "kube-apiserver-arg: ['audit-log-path=\"/var/a\"']\n",
        "v1.33.5",
        "warning",
        "takes the quotes",
    );
}

#[test]
fn a_block_text_and_a_blank_give_an_argument_that_no_component_takes() {
    has(
        "kube-scheduler-arg: |\n  - v=2\n",
        "v1.33.5",
        "error",
        "Write a list of name=value texts",
    );
    has(
        "kube-apiserver-arg: |\n  - feature-gates=ImageVolume=true\n",
        "v1.33.5",
        "error",
        "Write a list of name=value texts",
    );
    has(
        "kube-scheduler-arg: ['v 2']\n",
        "v1.33.5",
        "error",
        "Write a list of name=value texts",
    );
}

#[test]
fn admission_plugins_exist_and_are_not_both_on_and_off() {
    let plugins = |text: &str| format!("kube-apiserver-arg:\n{text}");
    has(
        &plugins("- enable-admission-plugins=NodeRestriction,PodSecurityPolicy\n"),
        "v1.33.1",
        "error config.yaml:2",
        "no admission plugin `PodSecurityPolicy`",
    );
    has(
        &plugins("- disable-admission-plugins=PodTopologyLabels\n"),
        "v1.32.1",
        "error",
        "no admission plugin `PodTopologyLabels`",
    );
    has(
        &plugins("- enable-admission-plugins=NodeRestrictions\n"),
        "v1.33.1",
        "error",
        "did you mean `NodeRestriction`?",
    );
    has(
        &plugins(
            "- enable-admission-plugins=ServiceAccount\n- disable-admission-plugins=ServiceAccount\n",
        ),
        "v1.33.1",
        "error",
        "Remove one of them",
    );
}

#[test]
fn a_version_without_data_leaves_every_argument_unchecked() {
    let judged = judged(
        "kubelet-arg: [no-such-thing=1]\netcd-arg: [quota-backend-bytes=1]\n",
        "v1.99.0",
    );
    assert_eq!(judged.findings, []);
    assert_eq!(judged.unchecked.len(), 2, "{judged:?}");
}

#[test]
fn an_argument_that_only_some_possible_versions_lack_is_a_warning() {
    let file = Rke2ConfigFile::new(
        ConfigLayer::Main,
        "config.yaml",
        "kubelet-arg: [cloud-config=a]\n",
    );
    let target = TargetVersion::OneOf(vec!["v1.33.1".parse().unwrap(), "v1.34.1".parse().unwrap()]);
    let found = judge_arguments(&merge(&[file]), &target).findings;
    assert_eq!(found[0].severity, Severity::Warning, "{found:?}");
}

#[test]
fn the_cloud_controller_manager_takes_no_gate_that_no_component_has() {
    let text = |gate: &str| format!("kube-cloud-controller-manager-arg: [feature-gates={gate}]\n");
    has(
        &text("IPv6DualStack=false"),
        "v1.33.1",
        "error",
        "has no feature gate `IPv6DualStack`",
    );
    assert_eq!(
        told(&text("APIResponseCompression=true"), "v1.33.1"),
        [""; 0]
    );
}

#[test]
fn a_field_of_the_kubelets_configuration_needs_its_gate() {
    let kubelet = |text: &str, version: &str| {
        let path = "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/90-a.conf";
        let file = Rke2ConfigFile::new(ConfigLayer::Kubelet, path, text);
        let target = TargetVersion::Known(version.parse().unwrap());
        let found = judge_arguments(&merge(&[file]), &target).findings;
        found
            .into_iter()
            .map(|one| (one.at[0].line.unwrap(), one.message))
            .collect::<Vec<_>>()
    };
    let period = "cpuCFSQuotaPeriod: 50ms\n";
    let found = kubelet(period, "1.33.5");
    assert!(found[0].1.contains("CustomCPUCFSQuotaPeriod"), "{found:?}");
    assert_eq!(kubelet(period, "1.36.3"), []);
    assert_eq!(kubelet("cpuCFSQuotaPeriod: 100ms\n", "1.33.5"), []);
    let gate = "featureGates: {CustomCPUCFSQuotaPeriod: true}\n";
    assert_eq!(kubelet(&format!("{gate}{period}"), "1.33.5"), []);
    let swap = "featureGates: {NodeSwap: false}\nmemorySwap:\n  swapBehavior: LimitedSwap\n";
    let found = kubelet(swap, "1.33.5");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, 3, "{found:?}");
    assert_eq!(
        kubelet(
            "maxPods: 200\nevictionHard: {memory.available: 5%}\n",
            "1.33.5"
        ),
        []
    );
}
