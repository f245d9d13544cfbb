use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge};

use super::*;
use crate::TargetVersion;
use crate::judge_arguments;

fn told(list: &str, arguments: &str) -> Vec<String> {
    let text = format!("{list}: [{arguments}]");
    let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text);
    let target = TargetVersion::Known("v1.33.5".parse().unwrap());
    let judged = judge_arguments(&merge(&[file]), &target);
    judged.findings.into_iter().map(|one| one.message).collect()
}

#[test]
fn every_line_of_the_rules_is_read_and_names_flags_that_its_component_has() {
    let lines = include_str!("../data/argument-rules.txt").lines();
    let written = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(written.count(), RULES.len());
    for rule in RULES.iter() {
        for flag in rule.all_flags() {
            assert!(
                KNOWN.flags.contains_key(&(rule.component, flag))
                    || KNOWN.fields.contains_key(flag),
                "{} {flag}",
                rule.component
            );
        }
    }
}

#[test]
fn a_value_outside_its_range_or_a_missing_partner_stops_the_component() {
    for (list, bad, part, good) in [
        (
            "kube-apiserver",
            "max-requests-inflight=-1",
            "must be at least 0",
            "max-requests-inflight=800",
        ),
        (
            "kube-apiserver",
            "goaway-chance=0.5",
            "must be from 0 to 0.02",
            "goaway-chance=.001",
        ),
        (
            "kube-apiserver",
            "oidc-issuer-url=https://id.example.org",
            "needs `oidc-client-id`",
            "oidc-issuer-url=https://id.example.org, oidc-client-id=kube",
        ),
        (
            "kube-apiserver",
            "'authorization-mode=Node,RBAC,Webhook'",
            "needs `authorization-webhook-config-file`",
            "'authorization-mode=Node,RBAC,Webhook', authorization-webhook-config-file=/etc/a",
        ),
        (
            "kube-apiserver",
            "'authorization-mode=Node,RBAC,Node'",
            "`Node` is in `authorization-mode` twice",
            "'authorization-mode=Node,RBAC'",
        ),
        (
            "kube-apiserver",
            "audit-log-path=-, audit-log-maxage=-3",
            "must be at least 0",
            "audit-log-maxage=-3",
        ),
        (
            "kubelet",
            "'eviction-soft=memory.available<500Mi,nodefs.available<10%', eviction-soft-grace-period=memory.available=1m",
            "`nodefs.available` is in `eviction-soft`",
            "'eviction-soft=memory.available<500Mi', eviction-soft-grace-period=memory.available=1m",
        ),
        (
            "kubelet",
            "cpu-manager-policy=static, 'kube-reserved=cpu=0,memory=1Gi'",
            "needs `reserved-cpus` or `kube-reserved=cpu=…`",
            "cpu-manager-policy=static, system-reserved=cpu=500m",
        ),
        (
            "kubelet",
            "reserved-cpus=0-1, system-reserved-cgroup=/system.slice",
            "exclude each other",
            "cpu-manager-policy=static, reserved-cpus=0-1",
        ),
        (
            "kubelet",
            "image-gc-low-threshold=90",
            "`image-gc-low-threshold` (90) must be less than `image-gc-high-threshold` (85, the default)",
            "image-gc-low-threshold=90, image-gc-high-threshold=95",
        ),
        (
            "kube-controller-manager",
            "leader-elect-lease-duration=5s",
            "`leader-elect-renew-deadline` (10s, the default) must be less than `leader-elect-lease-duration` (5s)",
            "leader-elect-lease-duration=1m, leader-elect-renew-deadline=40s",
        ),
        (
            "kube-scheduler",
            "leader-elect-retry-period=9s",
            "1.2 times `leader-elect-retry-period` (9s) must be less than",
            "leader-elect-retry-period=8s",
        ),
    ] {
        let list = format!("{list}-arg");
        let found = told(&list, bad);
        assert!(
            found.len() == 1 && found[0].contains("does not start") && found[0].contains(part),
            "{bad}: {found:?}"
        );
        assert_eq!(told(&list, good), [""; 0], "{good}");
    }
}

#[test]
fn a_rule_is_not_applied_to_a_version_without_its_flags() {
    let arguments = "coordinated-leadership-lease-duration=5s";
    let found = told("kube-apiserver-arg", arguments);
    assert!(
        found.len() == 1 && found[0].contains("has no argument"),
        "{found:?}"
    );
}

#[test]
fn what_the_programs_take_all_the_same_is_no_finding() {
    for (list, taken) in [
        (
            "kube-apiserver",
            "encryption-provider-config-automatic-reload=true",
        ),
        (
            "kube-apiserver",
            "tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, disable-http2-serving=true",
        ),
        ("kube-apiserver", "service-account-max-token-expiration=0s"),
        ("kube-apiserver", "service-account-jwks-uri="),
        (
            "kube-controller-manager",
            "leader-elect=false, leader-elect-renew-deadline=30s",
        ),
        ("kube-controller-manager", "controllers="),
        ("kube-proxy", "proxy-mode=iptables, ipvs-sync-period=0s"),
        ("kubelet", "minimum-image-ttl-duration=-1s"),
        (
            "etcd",
            "tls-min-version=TLS1.2, log-level=INFO, -election-timeout=5000",
        ),
    ] {
        assert_eq!(told(&format!("{list}-arg"), taken), [""; 0], "{taken}");
    }
}

#[test]
fn one_fault_is_said_once_and_its_value_is_not_shown() {
    for (list, wrong) in [
        ("kube-apiserver", "'authorization-mode=SECRET,SECRET'"),
        ("kubelet", "'eviction-soft=SECRET<1'"),
        ("kubelet", "event-qps=-99999999999"),
        ("etcd", "election-timeout=5000ms"),
        ("kube-controller-manager", "controllers=SECRET"),
    ] {
        let found = told(&format!("{list}-arg"), wrong);
        assert!(
            found.len() == 1 && !found[0].contains("SECRET"),
            "{found:?}"
        );
    }
    let twice = told(
        "kubelet-arg",
        "enforce-node-allocatable=pods, enforce-node-allocatable=pods",
    );
    assert!(twice.len() == 1 && twice[0].contains("twice"), "{twice:?}");
}

#[test]
fn rules_apply_to_known_minors_only() {
    let text = "kube-apiserver-arg: [max-requests-inflight=-1]";
    let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text);
    let target = TargetVersion::Known("v1.99.1".parse().unwrap());
    let judged = judge_arguments(&merge(&[file]), &target);
    assert_eq!((judged.findings.len(), judged.unchecked.len()), (0, 1));
}
