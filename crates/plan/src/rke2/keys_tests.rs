use super::super::known_keys::KEYS;
use super::*;
use crate::rke2::config::{ConfigLayer, merge_as};

fn judged(text: &str, role: Rke2Role, version: &str) -> Vec<(Code, Severity, Option<u32>)> {
    let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text);
    let version = (!version.is_empty()).then(|| version.parse().unwrap());
    let found = judge_keys(&[file], role, version);
    let rows = found.into_iter();
    rows.map(|one| (one.code, one.severity, one.at[0].line))
        .collect()
}

fn server(text: &str) -> Vec<(Code, Severity, Option<u32>)> {
    judged(text, Rke2Role::Server, "v1.33.5+rke2r1")
}

const FATAL: (Code, Severity, Option<u32>) = (Code::ConfigFileRefused, Severity::Error, Some(1));
const STOPS_KUBELET: (Code, Severity, Option<u32>) =
    (Code::ComponentArgumentInvalid, Severity::Error, Some(1));
const IGNORED: (Code, Severity, Option<u32>) = (Code::KeyNotRead, Severity::Warning, Some(1));

fn told(text: &str, version: &str) -> Vec<String> {
    let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text);
    let found = judge_keys(&[file], Rke2Role::Server, Some(version.parse().unwrap()));
    let rows = found.into_iter();
    rows.map(|one| format!("{} {}", one.severity.as_str(), one.message))
        .collect()
}

#[test]
fn networks_that_no_component_takes_stop_it_and_others_that_miss_pods_are_warned_of() {
    for (text, part) in [
        (
            "cluster-cidr: 10.42.0.0/26",
            "each node gets a /24, the default, and `cluster-cidr` is only a /26",
        ),
        (
            "cluster-cidr: fd00:42::/40\nservice-cidr: fd00:43::/112",
            "at most 16 bits more than `cluster-cidr`, which is a /40",
        ),
        (
            "cluster-cidr: 10.42.0.0/16\nkube-controller-manager-arg: node-cidr-mask-size=12",
            "each node gets a /12, and `cluster-cidr` is only a /16",
        ),
        (
            "cluster-cidr: [10.42.0.0/16, 'fd00:42::/56']\nservice-cidr: '10.43.0.0/16,fd00:43::/112'\nkube-controller-manager-arg: node-cidr-mask-size=25",
            "use `node-cidr-mask-size-ipv4`",
        ),
        (
            "cluster-cidr: 10.42.0.0/16\nkube-controller-manager-arg: [node-cidr-mask-size-ipv6=80]",
            "`cluster-cidr` has no such network",
        ),
        (
            "cluster-cidr: [10.42.0.0/16, 10.52.0.0/16]",
            "one network, or one of IPv4",
        ),
        (
            "service-cidr: 10.0.0.0/8\ncluster-cidr: 192.168.0.0/16",
            "at least /12",
        ),
        (
            "service-cidr: 10.43.0.0/16,fd00:43::/112\ncluster-cidr: 10.42.0.0/16",
            "must have the same IP versions",
        ),
        (
            "cluster-cidr: '10.42.0.0/16,fd00:42::/56'",
            "must have the same IP versions",
        ),
        (
            "cluster-cidr: '10.42.0.0/16,fd00:42::/56'\nservice-cidr: '10.43.0.0/16,fd00:43::/112'\nnode-ip: 10.0.0.5",
            "`node-ip` must have each IP version of `cluster-cidr`",
        ),
        (
            "cluster-cidr: 'fd00:42::/56,10.42.0.0/16'\nservice-cidr: 'fd00:43::/112,10.43.0.0/16'\nnode-ip: '10.0.0.5,fd00::5'",
            "the first address of `node-ip`",
        ),
        (
            "cluster-cidr: 10.0.0.0/8\nservice-cidr: 10.43.0.0/16",
            "overlap",
        ),
        (
            "cluster-cidr: 10.42.0.0/16\nnode-ip: 10.42.0.5",
            "`node-ip` is in the network of pods",
        ),
        ("service-cidr: 10.43.0.0/30", "fewer than 8 addresses"),
        ("service-cidr: 10.43.0.0/29", "no tenth address"),
        (
            "kubelet-arg: [max-pods=500]",
            "each node has 253 addresses for pods",
        ),
    ] {
        let found = told(text, "v1.33.5");
        assert!(
            found.len() == 1 && found[0].contains(part),
            "{text}: {found:?}"
        );
    }
    for text in [
        "cluster-cidr: 10.42.0.0/24",
        "cluster-cidr: 10.42.0.0/25\nkube-controller-manager-arg: [allocate-node-cidrs=false]",
        "cluster-cidr: 10.42.0.0/25\nkube-controller-manager-arg: ['controllers=*,-nodeipam']",
        "server: https://a:9345\nkubelet-arg: [max-pods=300]",
        "service-cidr: 10.43.0.0/29\ncluster-dns: 10.43.0.5",
        "cluster-cidr: 10.42.0.0/26\nkube-controller-manager-arg: [node-cidr-mask-size=27]",
        "cluster-cidr: [10.42.0.0/16, 'fd00:42::/56']\nservice-cidr: '10.43.0.0/16,fd00:43::/112'\nkube-controller-manager-arg: [node-cidr-mask-size-ipv6=72]",
        "service-cidr: 10.96.0.0/12",
        "kubelet-arg: [max-pods=500]\nkube-controller-manager-arg: [node-cidr-mask-size=22]",
        "kubelet-arg: [max-pods=500]\ncni: calico",
        "cluster-cidr: fd00:42::/56\nservice-cidr: fd00:43::/112\nnode-ip: fd00::5",
        "node-ip: [10.0.0.5, 'fd00::5']",
        "cluster-cidr: '10.42.0.0/16,fd00:42::/56'\nservice-cidr: '10.43.0.0/16,fd00:43::/112'\nnode-ip: '10.0.0.5,fd00::5'",
    ] {
        assert_eq!(told(text, "v1.33.5"), [""; 0], "{text}");
    }
    let large = "service-cidr: 10.0.0.0/8\ncluster-cidr: 192.168.0.0/16";
    assert_eq!(told(large, "v1.34.4"), [""; 0]);
}

#[test]
fn snapshots_that_are_never_taken_or_sent_are_warned_of() {
    for (text, part) in [
        ("etcd-snapshot-schedule-cron: every day", "it has 2 fields"),
        (
            "etcd-snapshot-schedule-cron: 'CRON_TZ=Europe/Berlin 0 25 * * *'",
            "the hour",
        ),
        ("etcd-s3: true\netcd-s3-region: eu-1", "`etcd-s3-bucket`"),
    ] {
        let found = told(text, "v1.33.5");
        assert!(
            found.len() == 1 && found[0].starts_with("warning") && found[0].contains(part),
            "{text}: {found:?}"
        );
    }
    for text in [
        "etcd-snapshot-schedule-cron: 'TZ=UTC 0 */6 * * *'",
        "etcd-snapshot-schedule-cron: '@every 5h'",
        "etcd-s3: true\netcd-s3-config-secret: s3",
        "etcd-s3: true\netcd-disable-snapshots: true",
    ] {
        assert_eq!(told(text, "v1.33.5"), [""; 0], "{text}");
    }
}

#[test]
fn a_text_that_does_not_do_what_it_looks_like_is_warned_of() {
    for (text, part) in [
        ("write-kubeconfig-mode: 0644", "such as \"0644\""),
        (
            "tls-san: [rke2.lab, 'https://rke2.lab']",
            "without https://",
        ),
        ("etcd-s3-endpoint: https://s3.lab", "without https://"),
        (
            "kube-apiserver-extra-mount: /etc/ssl",
            "/etc/ssl:/etc/ssl:ro",
        ),
        (
            "kube-apiserver-arg: [audit-log-path=/var/log/a.log]",
            "`audit-policy-file`",
        ),
    ] {
        let found = told(text, "v1.33.5");
        assert!(
            found.len() == 1 && found[0].starts_with("warning") && found[0].contains(part),
            "{text}: {found:?}"
        );
    }
    for text in [
        "write-kubeconfig-mode: '0644'",
        "write-kubeconfig-mode: 600",
        "audit-policy-file: /etc/a.yaml\nkube-apiserver-arg: [audit-log-path=/var/log/a.log]",
        "kube-apiserver-arg: [enable-admission-plugins=EventRateLimit]\npod-security-admission-config-file: /etc/b.yaml",
    ] {
        assert_eq!(told(text, "v1.33.5"), [""; 0], "{text}");
    }
    let limit = "kube-apiserver-arg: ['enable-admission-plugins=NodeRestriction,EventRateLimit']";
    assert!(told(limit, "v1.33.5")[0].contains("EventRateLimit needs"));
}

#[test]
fn arguments_that_a_later_file_takes_away_are_named() {
    let first = Rke2ConfigFile::new(
        ConfigLayer::Main,
        "config.yaml",
        "kubelet-arg: [max-pods=200, v=2]",
    );
    let judged = |key: &str| {
        let text = format!("{key}: [v=4]");
        let later = Rke2ConfigFile::new(ConfigLayer::DropIn, "config.yaml.d/50.yaml", text);
        judge_keys(&[first.clone(), later], Rke2Role::Server, None)
    };
    let found = judged("kubelet-arg");
    assert!(
        found.len() == 1 && found[0].message.contains("which loses `max-pods`"),
        "{found:?}"
    );
    assert_eq!(judged("kubelet-arg+"), []);
}

#[test]
fn a_key_that_comes_with_a_later_release_is_not_read_before() {
    let text = "secrets-encryption-provider: secretbox";
    for (version, has) in [
        ("v1.29.4", false),
        ("v1.30.11", false),
        ("v1.30.12", true),
        ("v1.32.2", false),
        ("v1.32.4", true),
        ("v1.33.0", true),
    ] {
        let found = told(text, version);
        assert_eq!(found.is_empty(), has, "{version}: {found:?}");
    }
    assert!(told(text, "v1.32.2")[0].contains("RKE2 1.32.4 does"));
    let rows = KEYS.lines().filter(|line| line.contains("since="));
    assert!(rows.count() > 10);
}

#[test]
fn a_configuration_with_valid_values_has_no_findings() {
    for text in [
        "",
        "token: x\ntls-san: [a.example]\nwrite-kubeconfig-mode: \"0644\"\n",
        "cni: calico\n",
        "cni: none\n",
        "cni: multus,cilium\n",
        "cni: [multus, none]\n",
        "cni: []\n",
        "ingress-controller: [traefik, ingress-nginx]\n",
        "ingress-controller: none\n",
        "egress-selector-mode: cluster\n",
        "profile: cis\nprotect-kernel-defaults: true\n",
        "profile: etcd\n",
        "selinux: yes\ndebug: 1\nembedded-registry: 'T'\n",
        "etcd-snapshot-retention: 5\netcd-s3-timeout: 1m30s\n",
        "etcd-snapshot-reconcile-interval: 0\n",
        "disable: [rke2-coredns, rke2-traefik-crd, our-own-file]\n",
        "node-label: [site=a, node.kubernetes.io/kind=b, topology.kubernetes.io/zone=c, plain]\n",
        "node-label: a.node.kubernetes.io/kind=b\n",
        "node-label: \"a=1,b=2\"\n",
        "node-taint: [CriticalAddonsOnly=true:NoExecute, 'site:NoSchedule', 'old-']\n",
        "cloud-provider-name: external\n",
        "node-external-ip: 192.0.2.7\n",
        "kubelet-arg+: [max-pods=80]\nt: x\n",
    ] {
        assert_eq!(server(text), [], "{text}");
    }
}

#[test]
fn values_with_which_rke2_ends_are_errors_with_their_line() {
    for text in [
        "cni: celium\n",
        "cni: multus\n",
        "cni: [canal, cilium]\n",
        "cni: [multus, canal, cilium]\n",
        "cni: 'multus, canal'\n",
        "cni: [multus, multus]\n",
        "ingress-controller: nginx\n",
        "egress-selector-mode: pods\n",
        "profile: cis-1.23\n",
        "profile: cis-1.5\n",
        "profile: CIS\n",
        "selinux: \"yes\"\n",
        "disable-kube-proxy: all\n",
        "etcd-snapshot-retention: many\n",
        "etcd-s3-timeout: 300\n",
        "node-external-ip: 192.0.2.7\ncloud-provider-name: x\n",
        "cloud-provider-config: /c\n",
        "cni:\n",
        "selinux:\n",
        "etcd-snapshot-retention: \"\"\n",
        "egress-selector-mode: ''\n",
        "cluster-cidr:\n",
        "service-cidr: ''\n",
        "node-ip: [10.0.0.1, '']\n",
        "node-ip: {a: b}\n",
        "selinux: {a: b}\n",
    ] {
        assert_eq!(server(text), [FATAL], "{text}");
    }
    let off = server("profile: cis\nprotect-kernel-defaults: false\n");
    assert_eq!(off, [(FATAL.0, FATAL.1, Some(2))]);
}

#[test]
fn a_text_that_rke2_does_not_take_ends_it() {
    for text in [
        "server: http://10.0.0.1:9345",
        "server: 10.0.0.1:9345",
        "node-ip: 10.0.0.256",
        "cluster-cidr: 10.42.0.0",
        "cluster-dns: [10.43.0.10, dns]",
        "service-node-port-range: 32767-30000",
        "secrets-encryption-provider: aes",
    ] {
        assert_eq!(server(text), [FATAL], "{text}");
    }
    for text in [
        "server: https://rack.example.org:9345\ntoken: x",
        "node-ip: 10.0.0.1,fd00::1\ncluster-cidr: [10.42.0.0/16, 'fd42::/56']\nservice-cidr: '10.43.0.0/16,fd01::/112'",
        "secrets-encryption-provider: secretbox",
        "service-cidr: 'fd00:1::/112'\ncluster-dns: 10.96.0.10",
        "service-cidr: 10.96.0.0/12\ncluster-dns: 10.96.0.10",
        "node-ip: fd00::1\ncluster-dns: 'fd00:43::a'",
        "disable: [rke2-coredns]\ncluster-dns: 169.254.20.10",
    ] {
        assert_eq!(server(text), [], "{text}");
    }
}

#[test]
fn a_mapping_or_a_list_in_a_list_is_not_the_text_that_was_meant() {
    for text in [
        "token: {a: b}\n",
        "tls-san: [[a, b]]\n",
        "tls-san:\n- a: b\n",
    ] {
        let found = server(text);
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!(
            (found[0].0, found[0].1),
            (Code::Rke2ValueUnintended, Severity::Warning),
            "{text}"
        );
    }
}

#[test]
fn an_address_of_cluster_dns_outside_the_network_of_services_is_an_error() {
    for text in [
        "cluster-dns: 10.53.0.10\n",
        "service-cidr: 10.96.0.0/12\ncluster-dns: 10.43.0.10\n",
        "service-cidr: [10.96.0.0/12, 'fd00::/112']\ncluster-cidr: [10.42.0.0/16, 'fd02::/56']\ncluster-dns: [10.96.0.10, 'fd01::a']\n",
    ] {
        let found = server(text);
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!(found[0].0, Code::ClusterDnsOutside, "{text}");
    }
}

#[test]
fn a_server_to_join_has_an_address_and_not_the_port_of_kube_apiserver() {
    let warning = (Code::Rke2ValueUnintended, Severity::Warning, Some(1));
    let notice = (Code::Rke2ValueUnintended, Severity::Notice, Some(1));
    assert_eq!(server("server: ''\n"), [notice]);
    assert_eq!(server("server: https://10.0.0.1:6443\n"), [warning]);
    assert_eq!(server("server: https://10.0.0.1:443\n"), []);
    let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", "server:\n");
    let found = judge_keys(&[file], Rke2Role::Agent, None);
    assert_eq!(found[0].severity, Severity::Error);
}

#[test]
fn a_key_without_a_rule_is_listed_with_what_a_wrong_value_can_stop() {
    let text = "cni: cilium\nagent-token: a\nprivate-registry: /etc/r.yaml\ncontainer-runtime-endpoint: unix:///a\n\
                etcd-snapshot-name: ''\nselinux: true\nnode-ip: 10.0.0.1\n";
    let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text);
    let listed = unjudged_keys(std::slice::from_ref(&file), Rke2Role::Server);
    let listed: Vec<_> = listed
        .iter()
        .map(|one| (one.at[0].line, one.can_stop))
        .collect();
    let (stops, itself) = (CanStop::Component, CanStop::Itself);
    assert_eq!(
        listed,
        [
            (Some(2), itself),
            (Some(4), stops),
            (Some(5), itself),
            (Some(3), stops)
        ]
    );
    let of_agent = unjudged_keys(&[file], Rke2Role::Agent);
    assert!(
        of_agent.iter().all(|one| !one.what.contains("agent-token")),
        "an agent does not read it"
    );
}

#[test]
fn a_key_that_a_file_has_twice_is_a_warning_at_the_first_one() {
    let text = "tls-san: [a]\ntoken: x\ntls-san: [b]\nkubelet-arg: [v=1]\nkubelet-arg+: [v=2]\n";
    assert_eq!(server(text), [IGNORED]);
}

#[test]
fn no_key_is_suggested_that_resets_etcd() {
    let advice = |text: &str| {
        let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text);
        let found = judge_keys(&[file], Rke2Role::Server, None);
        found[0].message.clone()
    };
    for text in [
        "cluster-name: prod\n",
        "cluster-restore: x\n",
        "cluster-rest: true\n",
    ] {
        assert!(!advice(text).contains("cluster-reset"), "{}", advice(text));
    }
    assert!(advice("kube-controller-arg: [v=1]\n").contains("`kube-controller-manager-arg`"));
    assert!(advice("cluster-init: true\n").contains("RKE2 needs none"));
}

#[test]
fn two_taints_of_one_name_and_effect_stop_the_kubelet() {
    for text in [
        "node-taint: ['a=b:NoSchedule,a=c:NoSchedule']\n",
        "node-taint: ['a=b:NoSchedule', 'a:NoSchedule']\n",
    ] {
        assert_eq!(server(text), [STOPS_KUBELET], "{text}");
    }
    assert_eq!(
        server("node-taint: ['a=b:NoSchedule', 'a=b:NoExecute']\n"),
        []
    );
}

#[test]
fn every_form_of_a_key_is_read() {
    for line in KEYS.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(' ').next().unwrap();
        let written = |word: &str| line.split(' ').find_map(|one| one.strip_prefix(word));
        assert_eq!(
            KNOWN[name].meant.is_some(),
            written("meant=").is_some(),
            "{line}"
        );
        let Some(form) = written("form=") else {
            continue;
        };
        let expected = match KNOWN[name].text {
            TextRule::Own => form == "judged",
            TextRule::Form(_) => true,
            TextRule::Nothing => false,
        };
        assert!(expected, "{line}");
    }
}

#[test]
fn the_last_value_of_a_key_counts() {
    let drop_in = |text: &str| {
        let files = [
            Rke2ConfigFile::new(
                ConfigLayer::Main,
                "config.yaml",
                "cni: canal\nprofile: cis-1.6\n",
            ),
            Rke2ConfigFile::new(ConfigLayer::DropIn, "d/50.yaml", text),
        ];
        judge_keys(&files, Rke2Role::Server, None).len()
    };
    assert_eq!(drop_in("profile: cis\n"), 0);
    assert_eq!(drop_in("profile: cis\ncni+: cilium\n"), 1);
    assert_eq!(drop_in("profile: cis\ncni: [multus, cilium]\n"), 0);
}

#[test]
fn a_profile_is_judged_by_the_release() {
    let profile = |value: &str, version: &str| {
        let found = judged(&format!("profile: {value}\n"), Rke2Role::Agent, version);
        found.first().map(|(_, severity, _)| *severity)
    };
    assert_eq!(profile("cis-1.23", "v1.29.3"), None);
    assert_eq!(profile("cis-1.23", "v1.30.0"), Some(Severity::Error));
    assert_eq!(profile("cis-1.23", ""), Some(Severity::Warning));
    assert_eq!(profile("etcd", "v1.33.1"), Some(Severity::Error));
    assert_eq!(profile("etcd", "v1.30.2"), Some(Severity::Error));
    for version in ["v1.33.2", "v1.33", "v1.34.0", "v1.36.1", ""] {
        assert_eq!(profile("etcd", version), None, "{version}");
    }
}

#[test]
fn labels_and_taints_that_the_kubelet_refuses_are_errors() {
    for text in [
        "node-label: node-role.kubernetes.io/worker=true\n",
        "node-label: [kubernetes.io/role=worker]\n",
        "node-label: \"a=1,x.k8s.io/b=2\"\n",
        "node-label: \"site=hall 3\"\n",
        "node-label: \"-site=3\"\n",
        "node-label: {site: hall}\n",
        "node-taint: CriticalAddonsOnly=true\n",
        "node-taint: site=a=b:NoSchedule\n",
        "node-taint: site=a:NoSchedul\n",
        "node-taint: \"site=a:NoSchedule:\"\n",
        "node-taint: \"/site=a:NoSchedule\"\n",
    ] {
        assert_eq!(server(text), [STOPS_KUBELET], "{text}");
    }
}

#[test]
fn a_key_or_a_component_that_rke2_does_not_have_is_a_warning() {
    for text in [
        "tls-sans: [a.example]\n",
        "flannel-backend: vxlan\n",
        "kube-controller-arg: [v=2]\n",
        "disable: [rke2-kube-proxy]\n",
        "disable: rke2-corends\n",
        "disable: traefik\n",
    ] {
        assert_eq!(server(text), [IGNORED], "{text}");
    }
    // The merged lists report this one.
    assert_eq!(server("kube_apiserver_args: [v=2]\n"), []);
    // It may be a secret.
    assert_eq!(server("'K10 abc::server:def': 1\n"), []);
}

#[test]
fn what_only_a_server_reads_cannot_stop_an_agent() {
    let text = "cni: celium\nkube-apiserver-arg: [{a: b}]\nkubelet-arg: [v=2]\nselinux: maybe\n";
    let found = judged(text, Rke2Role::Agent, "v1.33.5");
    let unread = |line| (Code::KeyNotRead, Severity::Notice, Some(line));
    let refused = (FATAL.0, FATAL.1, Some(4));
    assert_eq!(found, [unread(1), unread(2), refused]);
    let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text);
    let merged = merge_as(&[file], Rke2Role::Agent);
    let lists: Vec<&str> = merged.lists().map(|(key, _)| key).collect();
    assert_eq!(lists, ["kubelet-arg"]);
    assert_eq!(merged.findings, []);
}

#[test]
fn a_cluster_without_ingress_nginx_gets_traefik_from_1_36_on() {
    let off = "disable: rke2-ingress-nginx\n";
    let told_of = |text: &str, version: &str| {
        let told = told(text, version);
        told.iter().any(|one| one.contains("install Traefik"))
    };
    assert!(told_of(off, "v1.36.0"));
    assert!(!told_of(off, "v1.35.7"));
    for chosen in [
        "ingress-controller: none\n",
        "ingress-controller: traefik\n",
    ] {
        assert!(!told_of(&format!("{off}{chosen}"), "v1.36.0"), "{chosen}");
    }
    let both = "disable: [rke2-ingress-nginx, rke2-traefik]\n";
    assert!(!told_of(both, "v1.36.0"));
}
