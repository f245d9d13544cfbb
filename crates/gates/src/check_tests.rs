use proptest::prelude::*;
use windrow_model::findings::Location;

use super::*;
use crate::testing::{api, at, request};

fn check_alone(requests: &[GateRequest], target: &TargetVersion) -> Vec<Finding> {
    check(requests, target, &MergedConfig::default())
}

fn codes(requests: &[GateRequest], version: &str) -> Vec<(Code, Severity)> {
    check_alone(requests, &at(version))
        .into_iter()
        .map(|finding| (finding.code, finding.severity))
        .collect()
}

fn errors(requests: &[GateRequest], version: &str) -> Vec<Code> {
    codes(requests, version)
        .into_iter()
        .filter(|(_, severity)| *severity == Severity::Error)
        .map(|(code, _)| code)
        .collect()
}

/// The observed behaviour of real binaries of these versions.
#[test]
fn what_real_components_refused_is_refused_and_what_they_took_is_taken() {
    use Code::*;
    for (version, gate, value, expected) in [
        (
            "1.34.9",
            "NodeAuthorizerEnablePodSelectors",
            true,
            vec![GatePodSelectors],
        ),
        (
            "1.36.3",
            "NodeAuthorizerEnablePodSelectors",
            false,
            vec![GatePodSelectors],
        ),
        ("1.30", "AuthorizeNodeWithSelectors", true, vec![GateTooNew]),
        ("1.31.14", "AuthorizeNodeWithSelectors", false, vec![]),
        ("1.32.13", "AuthorizeNodeWithSelectors", false, vec![]),
        ("1.33.13", "AuthorizeNodeWithSelectors", false, vec![]),
        (
            "1.34.9",
            "AuthorizeNodeWithSelectors",
            false,
            vec![GateLocked],
        ),
        (
            "1.36.3",
            "AuthorizeNodeWithSelectors",
            false,
            vec![GateLocked],
        ),
        ("1.34.9", "AuthorizeNodeWithSelectors", true, vec![]),
        (
            "1.37.0",
            "AuthorizeNodeWithSelectors",
            true,
            vec![GateRemoved],
        ),
        ("1.34.9", "imagevolume", true, vec![GateCase]),
        ("1.35.6", "CPUCFSQuotaPeriod", true, vec![GateConstant]),
        (
            "1.35.6",
            "RuntimeClassInImageCriAPI",
            true,
            vec![GateConstant],
        ),
        ("1.35.6", "GangScheduling", true, vec![GateDependency]),
        ("1.36.3", "GangScheduling", true, vec![GateDependency]),
        (
            "1.36.3",
            "NodeDeclaredFeatures",
            false,
            vec![GateDependency],
        ),
        ("1.36.3", "LiveMigration", true, vec![GateElsewhere]),
        (
            "1.36.3",
            "WaitForAllControlPlaneComponents",
            true,
            vec![GateElsewhere],
        ),
        ("1.36.3", "CSINodeInfo", true, vec![GateRemoved]),
        ("1.36.3", "MemoryManager", true, vec![GateRemoved]),
        (
            "1.33.13",
            "WatchFromStorageWithoutResourceVersion",
            true,
            vec![GateLocked],
        ),
        (
            "1.32.13",
            "AllowServiceLBStatusOnNonLB",
            true,
            vec![GateLocked],
        ),
        (
            "1.35.6",
            "AllowServiceLBStatusOnNonLB",
            false,
            vec![GateRemoved],
        ),
        ("1.34.9", "AllAlpha", true, vec![GateGroup]),
        ("1.36.3", "AllBeta", false, vec![GateGroup]),
    ] {
        let mut found = errors(&[api(gate, value)], version);
        found.dedup();
        if gate.starts_with("All") {
            found.truncate(1);
        }
        assert_eq!(found, expected, "{gate}={value} on {version}");
    }
}

#[test]
fn one_gate_that_is_off_breaks_every_gate_that_is_on_by_default_and_needs_it() {
    let findings = check_alone(&[api("AtomicFIFO", false)], &at("1.36.3"));
    let broken: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.code == Code::GateDependency)
        .collect();
    assert_eq!(broken.len(), 4);
    assert!(broken.iter().all(|finding| {
        finding.message.contains("StaleControllerConsistency")
            && finding.message.contains("on by default")
            && finding.at == [Location::line("windrow.yaml", 3)]
    }));
    let both = [api("GangScheduling", true), api("GenericWorkload", true)];
    assert_eq!(errors(&both, "1.35.6"), []);
    // The gates of another component do not matter.
    let apart = [
        api("GangScheduling", true),
        request(Component::KubeScheduler, "GenericWorkload", true),
    ];
    assert_eq!(errors(&apart, "1.36.3"), [Code::GateDependency]);
    // Dependencies are enforced since 1.35.
    assert_eq!(
        errors(
            &[
                api("DisableAllocatorDualWrite", true),
                api("MultiCIDRServiceAllocator", false)
            ],
            "1.33"
        ),
        []
    );
}

#[test]
fn everything_wrong_is_said_at_once() {
    let requests = [
        api("ImageVolumes", true),
        api("imagevolume", true),
        api("AuthorizeNodeWithSelectors", false),
        api("CPUManager", true),
        request(Component::Kubelet, "NodeSwap", false),
    ];
    assert_eq!(
        errors(&requests, "1.35.6"),
        [
            Code::GateUnknown,
            Code::GateCase,
            Code::GateLocked,
            Code::GateRemoved,
            Code::GateLocked
        ]
    );
    let messages = check_alone(&requests, &at("1.35.6"));
    assert!(messages[0].message.contains("did you mean `ImageVolume`?"));
}

#[test]
fn the_message_about_pod_selectors_says_what_was_meant_where_it_works_and_what_to_do() {
    for version in ["1.30", "1.33", "1.36.3", "1.37.0", "1.45"] {
        let findings = check_alone(
            &[api("NodeAuthorizerEnablePodSelectors", false)],
            &at(version),
        );
        assert_eq!(findings.len(), 1, "{version}");
        let message = &findings[0].message;
        for part in [
            "AuthorizeNodeWithSelectors",
            "1.31 to 1.33",
            "spec.nodeName",
        ] {
            assert!(message.contains(part), "{version}: {message}");
        }
    }
    let locked = check_alone(&[api("AuthorizeNodeWithSelectors", false)], &at("1.34.2"));
    assert!(
        locked[0].message.contains("when: \">=1.31, <1.34\""),
        "{}",
        locked[0].message
    );
    assert!(locked[0].message.contains("spec.nodeName"));
}

#[test]
fn warnings_come_before_the_minor_that_breaks() {
    assert_eq!(
        codes(&[api("AuthorizeNodeWithSelectors", false)], "1.33.3"),
        [(Code::GateNextMinor, Severity::Warning)]
    );
    // GA and still there in the next minor.
    assert_eq!(
        codes(&[api("AuthorizeNodeWithSelectors", true)], "1.34.2"),
        [(Code::GateStage, Severity::Warning)]
    );
    // Removed in the next minor without ever having been locked.
    assert_eq!(
        codes(&[api("UserNamespacesPodSecurityStandards", true)], "1.34.2"),
        [(Code::GateNextMinor, Severity::Warning)]
    );
    // A beta gate is not reported.
    assert_eq!(codes(&[api("ImageVolume", true)], "1.33.3"), []);
}

#[test]
fn a_dependency_that_breaks_at_the_next_minor_is_a_warning_before() {
    let off = [request(Component::Kubelet, "UserNamespacesSupport", false)];
    let before = check_alone(&off, &at("1.34.9"));
    let said = before
        .iter()
        .find(|finding| finding.message.contains("`ProcMountType`"));
    let said = said.expect("a warning");
    assert_eq!(said.code, Code::GateNextMinor);
    assert_eq!(said.at, [Location::line("windrow.yaml", 3)]);
    assert_eq!(errors(&off, "1.34.9"), []);
    assert_eq!(errors(&off, "1.35.6"), [Code::GateDependency]);
    let mut limited = off[0].clone();
    limited.when = Some("<1.35".parse().unwrap());
    assert_eq!(check_alone(&[limited], &at("1.34.9")), []);
    // Its API is off by default from the next minor on.
    let api = check_alone(&[api("DynamicResourceAllocation", true)], &at("1.29.3"));
    assert!(
        api[0].message.contains("resource.k8s.io/v1alpha2"),
        "{api:?}"
    );
}

#[test]
fn a_gate_that_one_component_alone_does_not_know_is_refused_there() {
    let gate = "ControllerManagerReleaseLeaderElectionLockOnExit";
    let set = |component| [request(component, gate, true)];
    assert_eq!(
        errors(&set(Component::KubeScheduler), "1.36.3"),
        [Code::GateUnknown]
    );
    assert_eq!(errors(&set(Component::KubeControllerManager), "1.36.3"), []);
}

#[test]
fn a_gate_that_was_removed_before_the_oldest_covered_minor_is_said_to_be_removed() {
    let found = &check_alone(&[api("EphemeralContainers", true)], &at("1.33.3"))[0];
    assert_eq!(found.code, Code::GateRemoved);
    assert!(
        found.message.contains("removed after Kubernetes 1.26"),
        "{}",
        found.message
    );
}

#[test]
fn a_gate_for_a_component_that_does_not_read_it_is_a_warning() {
    let kubelet = request(Component::Kubelet, "AuthorizeNodeWithSelectors", true);
    assert!(
        codes(std::slice::from_ref(&kubelet), "1.33")
            .contains(&(Code::GateComponent, Severity::Warning))
    );
    assert_eq!(errors(&[kubelet], "1.33"), []);
    let misplaced = check_alone(&[api("NodeSwap", true)], &at("1.33"));
    assert!(
        misplaced
            .iter()
            .any(|finding| finding.message.contains("Set it for kubelet"))
    );
}

#[test]
fn a_minor_beyond_the_catalogue_is_not_guessed_at() {
    assert_eq!(
        codes(
            &[api("ImageVolume", true), api("NoSuchGate", true)],
            "1.38.0"
        ),
        [
            (Code::GateUncovered, Severity::Warning),
            (Code::GateUncovered, Severity::Warning)
        ]
    );
    let mut minors = Catalogue::builtin().minors();
    let (first, last) = (minors.next().unwrap(), minors.next_back().unwrap());
    let message = &check_alone(&[api("NoSuchGate", true)], &at("1.38.0"))[0].message;
    let known = format!("the catalogue covers {first} to {last}");
    assert!(message.contains(&known), "{message}");
}

#[test]
fn a_patch_release_that_is_too_old_is_an_error_and_an_unknown_one_a_warning() {
    let gate = [api("OrderedNamespaceDeletion", true)];
    assert_eq!(errors(&gate, "1.32.2"), [Code::GateTooNew]);
    assert_eq!(errors(&gate, "1.32"), []);
    assert!(codes(&gate, "1.32").contains(&(Code::GatePatch, Severity::Warning)));
    assert!(
        !codes(&gate, "1.32.3")
            .iter()
            .any(|(code, _)| *code == Code::GatePatch)
    );
}

#[test]
fn a_request_is_judged_only_on_the_minors_it_is_meant_for_and_its_reason_is_shown() {
    let mut gate = api("AuthorizeNodeWithSelectors", false);
    gate.when = Some(">=1.32, <1.34".parse().unwrap());
    gate.reason = Some("second node shows NotReady".to_owned());
    assert_eq!(errors(std::slice::from_ref(&gate), "1.34"), []);
    assert_eq!(errors(std::slice::from_ref(&gate), "1.30"), []);
    // If its `when` ends it automatically, it needs no warning, even if the version is unknown.
    assert_eq!(codes(std::slice::from_ref(&gate), "1.33"), []);
    assert_eq!(
        check_alone(std::slice::from_ref(&gate), &TargetVersion::Unknown),
        []
    );
    gate.when = None;
    let findings = check_alone(&[gate], &at("1.34"));
    assert!(findings[0].message.contains("second node shows NotReady"));
}

#[test]
fn with_several_versions_each_counts_and_with_none_only_what_no_minor_takes_is_an_error() {
    let both = TargetVersion::OneOf(vec!["1.33.3".parse().unwrap(), "1.34.2".parse().unwrap()]);
    let gate = [api("AuthorizeNodeWithSelectors", false)];
    let found: Vec<Code> = check_alone(&gate, &both)
        .into_iter()
        .map(|finding| finding.code)
        .collect();
    assert_eq!(found, [Code::GateNextMinor, Code::GateLocked]);
    let unknown = |requests: &[GateRequest]| -> Vec<Code> {
        check_alone(requests, &TargetVersion::Unknown)
            .into_iter()
            .map(|finding| finding.code)
            .collect()
    };
    assert_eq!(unknown(&gate), [Code::GateTargetUnknown]);
    assert_eq!(unknown(&[api("imagevolume", true)]), [Code::GateCase]);
}

prop_compose! {
    fn any_request()(
        component in prop::sample::select(&Component::ALL[..]),
        gate in prop_oneof![
            prop::sample::select(Catalogue::builtin().gates().map(|gate| gate.name().to_owned()).collect::<Vec<_>>()),
            "\\PC{0,40}",
        ],
        value in any::<bool>(),
    ) -> GateRequest {
        request(component, &gate, value)
    }
}

proptest! {
    #[test]
    fn no_name_on_no_version_makes_the_check_panic_and_every_error_names_a_place(
        requests in prop::collection::vec(any_request(), 0..6),
        minor in 20u16..50,
        patch in prop::option::of(0u16..20),
    ) {
        let target = TargetVersion::Known(Version { minor: Minor::v1(minor), patch });
        for finding in check_alone(&requests, &target).into_iter().chain(check_alone(&requests, &TargetVersion::Unknown)) {
            prop_assert!(!finding.at.is_empty());
            prop_assert!(!finding.message.is_empty());
        }
    }

    #[test]
    fn a_single_gate_is_refused_exactly_when_the_catalogue_says_that_the_minor_does_not_take_it(
        gate in prop::sample::select(Catalogue::builtin().gates().collect::<Vec<_>>()),
        value in any::<bool>(),
        minor in 28u16..37,
    ) {
        let takes = gate.takes(value).contains(&Minor::v1(minor));
        let refused = check_alone(&[api(gate.name(), value)], &TargetVersion::Known(Minor::v1(minor).into()))
            .iter()
            .any(|finding| finding.severity == Severity::Error && !matches!(finding.code, Code::GateDependency | Code::GateApiNotServed));
        prop_assert_eq!(takes, !refused);
    }
}

#[test]
fn what_to_do_instead_is_said_of_the_gate_that_it_is_about() {
    let said = |gate: &str, version: &str| -> String {
        let findings = check_alone(&[api(gate, false)], &at(version));
        let said = findings.iter().map(|finding| finding.message.as_str());
        said.collect::<Vec<_>>().join(" ")
    };
    let selector = "the field selector";
    assert!(said("AuthorizeNodeWithSelectors", "1.34.9").contains(selector));
    let version: Version = "1.34.9".parse().unwrap();
    let locked = Catalogue::builtin().gates().filter(|gate| {
        matches!(gate.at(version), GateStanding::Known(state) if state.locked && state.default)
            && !gate.name().starts_with("Authorize")
    });
    let mut count = 0;
    for gate in locked {
        let said = said(gate.name(), "1.34.9");
        assert!(!said.is_empty() && !said.contains(selector), "{said}");
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[test]
fn a_name_in_the_wrong_case_is_corrected_and_whether_the_version_knows_it_is_said() {
    let said = |version: &str| {
        check_alone(&[api("imagevolume", true)], &at(version))[0]
            .message
            .clone()
    };
    for version in ["1.34.2", "1.28.1"] {
        assert!(said(version).contains("is written `ImageVolume`"));
    }
    assert!(!said("1.34.2").contains("does not know that name either"));
    assert!(said("1.28.1").contains("does not know that name either"));
}

#[test]
fn of_a_gate_of_another_program_it_is_said_where_it_belongs() {
    for (gate, place) in [
        ("LiveMigration", "in the KubeVirt object"),
        ("PublicKeysECDSA", "RKE2 does not use kubeadm"),
    ] {
        let found = &check_alone(&[api(gate, true)], &at("1.35.2"))[0];
        assert_eq!(found.code, Code::GateElsewhere);
        assert!(found.message.contains(place), "{}", found.message);
    }
}
