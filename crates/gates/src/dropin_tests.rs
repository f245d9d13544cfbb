use proptest::prelude::*;
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge};

use super::*;
use crate::testing::{api, at, request};
use crate::{assess, check};

const OURS: &str = "config.yaml.d/99-zz9-windrow-gates.yaml";

fn foreign(text: &str) -> MergedConfig {
    merge(&[Rke2ConfigFile::new(
        ConfigLayer::DropIn,
        "config.yaml.d/50-other.yaml",
        text,
    )])
}

fn lines(drop_in: &DropIn) -> Vec<&str> {
    drop_in
        .content
        .as_deref()
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect()
}

#[test]
fn the_drop_in_appends_plain_names_to_each_component() {
    let requests = [
        api("ImageVolume", true),
        api("AuthorizeNodeWithSelectors", false),
        request(Component::Kubelet, "ImageVolume", true),
        request(Component::KubeScheduler, "SchedulerQueueingHints", false),
        request(Component::KubeControllerManager, "ImageVolume", true),
    ];
    let written = drop_in(&requests, &at("1.33.3"), &MergedConfig::default());
    assert_eq!(
        lines(&written),
        [
            "kube-apiserver-arg+:",
            "- \"feature-gates+=ImageVolume=true,AuthorizeNodeWithSelectors=false\"",
            "kube-controller-manager-arg+:",
            "- \"feature-gates+=ImageVolume=true\"",
            "kube-scheduler-arg+:",
            "- \"feature-gates+=SchedulerQueueingHints=false\"",
            "kubelet-arg+:",
            "- \"feature-gates+=ImageVolume=true\"",
        ]
    );
    assert_eq!(written.left_out, []);
}

#[test]
fn the_file_is_absent_when_there_is_nothing_to_set() {
    assert_eq!(
        drop_in(&[], &at("1.33.3"), &MergedConfig::default()).content,
        None
    );
    let refused = drop_in(
        &[api("imagevolume", true)],
        &at("1.33.3"),
        &MergedConfig::default(),
    );
    assert_eq!(refused.content, None);
    assert_eq!(refused.left_out.len(), 1);
    assert!(refused.left_out[0].why.contains("ImageVolume"));
}

#[test]
fn an_upgrade_drops_what_has_become_locked_and_keeps_the_rest() {
    let requests = [
        api("AuthorizeNodeWithSelectors", false),
        api("ImageVolume", true),
    ];
    for (version, gates) in [
        ("1.33.3", "ImageVolume=true"),
        ("1.34.2", "ImageVolume=true"),
        ("1.30.7", ""),
    ] {
        let written = drop_in(&requests, &at(version), &MergedConfig::default());
        let content = written.content.unwrap_or_default();
        assert_eq!(
            content.contains("AuthorizeNodeWithSelectors"),
            version == "1.33.3"
        );
        assert_eq!(
            content.contains("ImageVolume=true"),
            !gates.is_empty(),
            "{version}"
        );
    }
}

#[test]
fn what_is_not_valid_on_every_plausible_version_is_left_out_and_said() {
    let both = TargetVersion::OneOf(vec!["1.33.3".parse().unwrap(), "1.34.2".parse().unwrap()]);
    let requests = [
        api("AuthorizeNodeWithSelectors", false),
        api("ImageVolume", true),
    ];
    let written = drop_in(&requests, &both, &MergedConfig::default());
    assert_eq!(written.written, [api("ImageVolume", true)]);
    assert!(written.left_out[0].why.contains("1.34"));
    // ImageVolume was added in 1.31; the catalogue begins earlier.
    let unknown = drop_in(&requests, &TargetVersion::Unknown, &MergedConfig::default());
    assert_eq!(unknown.content, None);
    let beyond = drop_in(&requests, &at("1.38.0"), &MergedConfig::default());
    assert_eq!(beyond.content, None);
    // The catalogue knows that the first is removed in 1.37, and does not know the second.
    assert!(beyond.left_out[0].why.contains("removed"));
    assert!(beyond.left_out[1].why.contains("does not know"));
}

#[test]
fn a_when_that_excludes_the_version_leaves_out_without_blame_unless_it_is_not_certain() {
    let mut gate = api("AuthorizeNodeWithSelectors", false);
    gate.when = Some(">=1.32, <1.34".parse().unwrap());
    let requests = [gate];
    let later = drop_in(&requests, &at("1.35.6"), &MergedConfig::default());
    assert_eq!(later.content, None);
    assert!(later.left_out[0].not_meant);
    let both = TargetVersion::OneOf(vec!["1.33.3".parse().unwrap(), "1.34.2".parse().unwrap()]);
    assert!(!drop_in(&requests, &both, &MergedConfig::default()).left_out[0].not_meant);
    assert!(
        drop_in(&requests, &at("1.33.3"), &MergedConfig::default())
            .content
            .is_some()
    );
}

#[test]
fn a_gate_that_is_meant_for_one_of_two_versions_waits_until_it_is_certain() {
    let mut gate = api("ImageVolume", true);
    gate.when = Some("<1.34".parse().unwrap());
    let both = TargetVersion::OneOf(vec!["1.33.3".parse().unwrap(), "1.34.2".parse().unwrap()]);
    let written = drop_in(&[gate], &both, &MergedConfig::default());
    assert_eq!(written.content, None);
    assert!(!written.left_out[0].not_meant);
    assert!(written.left_out[0].why.contains("not certain"));
}

#[test]
fn a_gate_that_breaks_a_dependency_in_one_component_stays_in_the_others() {
    let scheduler = |gate| request(Component::KubeScheduler, gate, true);
    let requests = [
        scheduler("GangScheduling"),
        scheduler("GenericWorkload"),
        api("GangScheduling", true),
    ];
    let written = drop_in(&requests, &at("1.36.3"), &MergedConfig::default());
    assert_eq!(written.written, requests[..2]);
    assert_eq!(written.left_out.len(), 1);
    assert_eq!(written.left_out[0].request, requests[2]);
}

#[test]
fn a_gate_that_came_with_a_patch_is_written_only_when_the_patch_is_known_to_have_it() {
    let gate = [api("OrderedNamespaceDeletion", true)];
    for (version, written) in [("1.32", false), ("1.32.2", false), ("1.32.3", true)] {
        let content = drop_in(&gate, &at(version), &MergedConfig::default()).content;
        assert_eq!(content.is_some(), written, "{version}");
    }
}

#[test]
fn gates_that_would_break_a_dependency_are_left_out_together_with_what_needs_them() {
    let alone = drop_in(
        &[api("GangScheduling", true)],
        &at("1.36.3"),
        &MergedConfig::default(),
    );
    assert_eq!(alone.content, None);
    let both = [api("GangScheduling", true), api("GenericWorkload", true)];
    let served = foreign("kube-apiserver-arg: [runtime-config=scheduling.k8s.io/v1alpha2=true]");
    assert!(drop_in(&both, &at("1.36.3"), &served).left_out.is_empty());
    // WorkloadAwarePreemption depends on GangScheduling, which depends on GenericWorkload, which was not requested.
    let chain = [
        api("WorkloadAwarePreemption", true),
        api("GangScheduling", true),
    ];
    assert_eq!(
        drop_in(&chain, &at("1.36.3"), &MergedConfig::default())
            .left_out
            .len(),
        2
    );
    let off = drop_in(
        &[api("AtomicFIFO", false)],
        &at("1.36.3"),
        &MergedConfig::default(),
    );
    assert_eq!(off.content, None);
    assert!(off.left_out[0].why.contains("StaleControllerConsistency"));
    // Another file satisfies the dependency.
    let met = foreign("kube-apiserver-arg: [feature-gates=GenericWorkload=true]");
    assert!(
        drop_in(&[api("GangScheduling", true)], &at("1.36.3"), &met)
            .content
            .is_some()
    );
}

#[test]
fn a_prefix_in_another_file_keeps_ours_out() {
    let prefixed = foreign("kube-apiserver-arg: ['feature-gates=kube:ImageVolume=true']");
    let requests = [
        api("NodeLogQuery", true),
        request(Component::Kubelet, "NodeLogQuery", true),
    ];
    let written = drop_in(&requests, &at("1.33.3"), &prefixed);
    assert_eq!(
        written.written,
        [request(Component::Kubelet, "NodeLogQuery", true)]
    );
    assert!(written.left_out[0].why.contains("kube:"));
}

fn names() -> Vec<String> {
    Catalogue::builtin()
        .gates()
        .map(|gate| gate.name().to_owned())
        .collect()
}

prop_compose! {
    fn any_request()(
        component in prop::sample::select(&Component::ALL[..4]),
        gate in prop_oneof![9 => prop::sample::select(names()), 1 => "[A-Za-z:;=\" ,]{1,12}"],
        value in any::<bool>(),
    ) -> GateRequest {
        request(component, &gate, value)
    }
}

fn any_target() -> impl Strategy<Value = TargetVersion> {
    let version = || {
        (28u16..38, 0u16..16).prop_map(|(minor, patch)| Version {
            minor: windrow_plan::version::Minor::v1(minor),
            patch: Some(patch),
        })
    };
    prop_oneof![
        4 => version().prop_map(TargetVersion::Known),
        2 => prop::collection::vec(version(), 1..3).prop_map(TargetVersion::OneOf),
        1 => Just(TargetVersion::Unknown),
    ]
}

proptest! {
    #[test]
    fn what_is_written_starts_on_every_plausible_version_and_nothing_is_lost_silently(
        requests in prop::collection::vec(any_request(), 0..8),
        target in any_target(),
    ) {
        let result = drop_in(&requests, &target, &MergedConfig::default());
        let file = Rke2ConfigFile::new(ConfigLayer::DropIn, OURS, result.content.clone().unwrap_or_default());
        for version in target.plausible(Catalogue::builtin()) {
            let assessed = assess(&merge(std::slice::from_ref(&file)), Some(OURS), &TargetVersion::Known(version));
            prop_assert!(assessed.starts(), "{version}: {:?}", assessed.findings);
            prop_assert!(!assessed.uncertain());
        }
        let errors = |requests: &[GateRequest]| check(requests, &target, &MergedConfig::default())
            .into_iter()
            .filter(|finding| finding.severity == Severity::Error)
            .count();
        prop_assert_eq!(errors(&result.written), 0);
        for request in &requests {
            let later = requests.iter().rev().find(|other| {
                (other.component, &other.gate) == (request.component, &request.gate)
            });
            let placed = result.written.contains(request)
                || result.left_out.iter().any(|left| left.request == *request);
            prop_assert!(placed || later != Some(request));
        }
        // The same input gives the same output.
        prop_assert_eq!(drop_in(&requests, &target, &MergedConfig::default()), result);
    }

    #[test]
    fn merged_last_ours_keeps_every_foreign_gate_that_it_does_not_set_itself(
        requests in prop::collection::vec(any_request(), 0..6),
        others in prop::collection::vec((prop::sample::select(names()), any::<bool>(), any::<bool>()), 0..6),
        minor in 31u16..37,
    ) {
        let target = TargetVersion::Known(windrow_plan::version::Minor::v1(minor).into());
        let text: String = others
            .iter()
            .map(|(gate, value, append)| {
                let plus = if *append { "+" } else { "" };
                format!("kube-apiserver-arg{plus}: ['feature-gates={gate}={value}']\n")
            })
            .collect();
        let before = foreign(&text);
        let ours = drop_in(&requests, &target, &before);
        let files = [
            Rke2ConfigFile::new(ConfigLayer::DropIn, "config.yaml.d/50-other.yaml", text),
            Rke2ConfigFile::new(ConfigLayer::DropIn, OURS, ours.content.clone().unwrap_or_default()),
        ];
        let gates = |effective: &MergedConfig| assess(effective, Some(OURS), &target)
            .components
            .into_iter()
            .find(|view| view.component == Component::KubeApiserver)
            .map_or_else(Vec::new, |view| view.gates);
        let merged = merge(&files);
        let after = gates(&merged);
        for gate in gates(&before) {
            let set = ours.written.iter().rev().find(|request| {
                request.component == Component::KubeApiserver && request.gate == gate.gate
            });
            let expected = set.map_or(gate.value, |request| request.value);
            let found = after.iter().find(|after| after.gate == gate.gate);
            prop_assert_eq!(found.map(|gate| gate.value), Some(expected));
        }
        // Windrow's drop-in breaks nothing that worked.
        if assess(&before, Some(OURS), &target).starts() {
            let assessed = assess(&merged, Some(OURS), &target);
            prop_assert!(assessed.starts(), "{:?}", assessed.findings);
        }
    }
}

#[test]
fn nothing_is_written_for_a_component_that_emulates_another_version_unless_it_is_trusted() {
    let gate = [api("APIResponseCompression", false)];
    let emulates = foreign("kube-apiserver-arg: [emulated-version=1.33]\n");
    let refused = drop_in(&gate, &at("1.34.2"), &emulates);
    assert_eq!(refused.content, None);
    assert!(refused.left_out[0].why.contains("emulated-version=1.33"));
    let proven = drop_in_trusting(&gate, &at("1.34.2"), &emulates, &gate);
    assert!(proven.content.is_some());
    let kubelet = [request(Component::Kubelet, "ImageVolume", true)];
    assert!(
        drop_in(&kubelet, &at("1.34.2"), &emulates)
            .content
            .is_some()
    );
}

#[test]
fn a_gate_whose_dependency_a_kubelet_configuration_takes_away_is_left_out() {
    let path = "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/50-a.conf";
    let file = |text: &str| merge(&[Rke2ConfigFile::new(ConfigLayer::Kubelet, path, text)]);
    let asked = [request(Component::Kubelet, "DRAConsumableCapacity", true)];
    let free = drop_in(&asked, &at("1.36.1"), &file("featureGates: {}"));
    assert_eq!(free.written.len(), 1, "{:?}", free.left_out);
    let taken = drop_in(
        &asked,
        &at("1.36.1"),
        &file("featureGates: {DynamicResourceAllocation: false}"),
    );
    assert_eq!(taken.written, []);
}
