use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge};

use super::*;

const OURS: &str = "config.yaml.d/99-zz9-windrow-gates.yaml";

fn assessed(files: &[(&str, &str)], version: &str) -> Assessment {
    let files: Vec<Rke2ConfigFile> = files
        .iter()
        .map(|(name, text)| {
            Rke2ConfigFile::new(ConfigLayer::DropIn, format!("config.yaml.d/{name}"), *text)
        })
        .collect();
    assess(
        &merge(&files),
        Some(OURS),
        &TargetVersion::Known(version.parse().unwrap()),
    )
}

fn api(items: &[&str], version: &str) -> Vec<Code> {
    let items: Vec<String> = items.iter().map(|item| format!("- '{item}'\n")).collect();
    let text = format!("kube-apiserver-arg:\n{}", items.concat());
    assessed(&[("50-a.yaml", &text)], version)
        .findings
        .into_iter()
        .map(|finding| finding.code)
        .collect()
}

#[test]
fn prefixes_are_judged_as_real_components_judged_them() {
    for version in ["1.31.14", "1.32.13", "1.34.9", "1.35.6", "1.36.3"] {
        let mixed = ["feature-gates=kube:ImageVolume=true,NodeLogQuery=true"];
        assert!(
            api(&mixed, version).contains(&Code::GatePrefix),
            "{version}"
        );
        let across = [
            "feature-gates=kube:ImageVolume=true",
            "feature-gates=NodeLogQuery=true",
        ];
        assert!(
            api(&across, version).contains(&Code::GatePrefix),
            "{version}"
        );
        let alone = ["feature-gates=kube:ImageVolume=true"];
        assert!(
            !api(&alone, version).contains(&Code::GatePrefix),
            "{version}"
        );
        assert!(api(&["feature-gates=foo:ImageVolume=true"], version).contains(&Code::GatePrefix));
    }
    assert!(api(&["feature-gates=kube:NodeLogQuery=true"], "1.30").contains(&Code::GatePrefix));
    // If the flag is not split by prefix, an empty prefix is a part of the name.
    let empty = ["feature-gates=:ImageVolume=true"];
    assert!(!api(&empty, "1.33.3").contains(&Code::GatePrefix));
    let kubelet = "kubelet-arg: ['feature-gates=:ImageVolume=true']";
    assert!(!assessed(&[("50-a.yaml", kubelet)], "1.33.3").starts());
    let kubelet = assessed(
        &[(
            "50-a.yaml",
            "kubelet-arg: ['feature-gates=kube:ImageVolume=true']",
        )],
        "1.34.9",
    );
    assert!(!kubelet.starts());
}

#[test]
fn later_values_win_and_each_gate_knows_where_it_comes_from() {
    let files = [
        (
            "10-a.yaml",
            "kube-apiserver-arg:\n- feature-gates=ImageVolume=true,NodeLogQuery=true\n",
        ),
        (
            "99-zz9-windrow-gates.yaml",
            "kube-apiserver-arg+:\n- \"feature-gates+=ImageVolume=false\"\n",
        ),
    ];
    let assessment = assessed(&files, "1.33.3");
    let view = &assessment.components[0];
    assert_eq!(view.component, Component::KubeApiserver);
    let volume = &view.gates[0];
    assert_eq!((volume.gate.as_str(), volume.value), ("ImageVolume", false));
    assert_eq!(volume.at, Location::line(OURS, 2));
    assert_eq!(
        volume.overrides,
        [(true, Location::line("config.yaml.d/10-a.yaml", 2))]
    );
    assert_eq!(view.gates[1].gate, "NodeLogQuery");
    assert!(
        assessment
            .findings
            .iter()
            .any(|finding| { finding.code == Code::GateConflict && finding.at.len() == 2 })
    );
    assert!(assessment.starts());
}

#[test]
fn a_later_file_that_wipes_ours_is_a_finding_at_its_line() {
    let files = [
        (
            "99-zz9-windrow-gates.yaml",
            "kubelet-arg+:\n- \"feature-gates+=ImageVolume=true\"\n",
        ),
        ("99-zzz.yaml", "a: 1\nkubelet-arg:\n- max-pods=200\n"),
    ];
    let assessment = assessed(&files, "1.33.3");
    let wiped: Vec<&Finding> = assessment
        .findings
        .iter()
        .filter(|finding| finding.code == Code::GateWiped)
        .collect();
    assert_eq!(wiped.len(), 1);
    assert_eq!(
        wiped[0].at[0],
        Location::line("config.yaml.d/99-zzz.yaml", 2)
    );
    assert_eq!(wiped[0].at[1], Location::line(OURS, 2));
    assert!(wiped[0].message.contains("`ImageVolume=true`"));
    // An upgrade's 99-max-pods.yaml removes no gate if there is none.
    let none = assessed(
        &[
            ("10.yaml", "kubelet-arg: [v=4]"),
            ("20.yaml", "kubelet-arg: [v=5]"),
        ],
        "1.33.3",
    );
    assert_eq!(none.findings, []);
}

#[test]
fn a_list_that_replaces_ours_and_repeats_its_gates_loses_none() {
    let wiped = |last: &str| {
        let files = [
            (
                "99-zz9-windrow-gates.yaml",
                "kubelet-arg+:\n- \"feature-gates+=ImageVolume=true\"\n",
            ),
            ("99-zzz.yaml", last),
        ];
        let mut findings = assessed(&files, "1.33.3").findings;
        findings.retain(|finding| finding.code == Code::GateWiped);
        findings
    };
    let same = "kubelet-arg:\n- max-pods=200\n- \"feature-gates+=ImageVolume=true\"\n";
    assert_eq!(wiped(same), []);
    let others = "kubelet-arg:\n- \"feature-gates=NodeSwap=true\"\n";
    let lost = wiped(others);
    assert_eq!(lost.len(), 1);
    assert!(lost[0].message.contains("`ImageVolume=true` for kubelet"));
}

#[test]
fn a_foreign_gate_that_is_fatal_at_the_version_that_will_start_is_named_with_its_line() {
    let files = [(
        "10-a.yaml",
        "x: 1\nkubelet-arg:\n- v=4\n- feature-gates=MemoryManager=true\n",
    )];
    assert!(assessed(&files, "1.35.6").starts());
    let later = assessed(&files, "1.36.3");
    assert!(!later.starts());
    assert_eq!(later.findings[0].code, Code::GateRemoved);
    // RKE2's own files have no `when`.
    assert!(!later.findings[0].message.contains("when:"));
    assert_eq!(
        later.findings[0].at,
        [Location::line("config.yaml.d/10-a.yaml", 4)]
    );
}

#[test]
fn slips_in_the_text_are_all_found() {
    for (item, code) in [
        ("feature-gate=X-true", Code::GateFlagName),
        ("featureGates=ImageVolume=true", Code::GateFlagName),
        ("feature-gates=X-true", Code::GateSyntax),
        ("feature-gates=ImageVolume=yes", Code::GateSyntax),
        ("feature-gates=\"ImageVolume=true\"", Code::GateSyntax),
        (
            "feature-gates=ImageVolume=true NodeLogQuery=true",
            Code::GateSyntax,
        ),
        (
            "feature-gates=ImageVolume=true;NodeLogQuery=true",
            Code::GateSyntax,
        ),
        ("feature-gates", Code::GateSyntax),
        ("feature-gates: ImageVolume=true", Code::GateFlagName),
        ("feature-gates ImageVolume=true", Code::GateFlagName),
        ("feature-gates=AllAlpha=true", Code::GateGroup),
        ("", Code::ComponentArgumentInvalid),
    ] {
        assert!(api(&[item], "1.33.3").contains(&code), "{item}");
    }
    let text = "kube-apiserver-arg:\n- feature-gates\n- Bogus=true\n";
    let found = assessed(&[("50-a.yaml", text)], "1.33.3").findings;
    assert_eq!(found.len(), 1);
    assert!(
        found[0].message.contains("has no `=`"),
        "{}",
        found[0].message
    );
    let many = api(
        &["feature-gates=A-true,B=maybe,ImageVolumes=true,CPUManager=true"],
        "1.33.3",
    );
    assert_eq!(
        many,
        [
            Code::GateSyntax,
            Code::GateSyntax,
            Code::GateRemoved,
            Code::GateUnknown
        ]
    );
}

#[test]
fn up_to_1_30_each_use_of_the_flag_is_judged_and_later_only_the_last_value() {
    // Locked to true in 1.30 and in 1.31.
    let items = [
        "feature-gates=AdmissionWebhookMatchConditions=false",
        "feature-gates=AdmissionWebhookMatchConditions=true",
    ];
    assert!(api(&items, "1.30").contains(&Code::GateLocked));
    let and_again = [items[0], items[1], items[1]];
    assert!(api(&and_again, "1.30").contains(&Code::GateLocked));
    assert!(!api(&items[1..], "1.30").contains(&Code::GateLocked));
    // Within one use, only the last value of a gate counts.
    let within = "AdmissionWebhookMatchConditions=false,AdmissionWebhookMatchConditions=true";
    assert!(!api(&[&format!("feature-gates={within}")], "1.30").contains(&Code::GateLocked));
    assert!(!api(&items, "1.31.14").contains(&Code::GateLocked));
}

#[test]
fn groups_that_others_set_are_a_warning() {
    let files = [("10-a.yaml", "kubelet-arg: ['feature-gates=AllAlpha=true']")];
    let assessment = assessed(&files, "1.34.9");
    assert!(assessment.starts());
    assert_eq!(assessment.findings[0].severity, Severity::Warning);
}

/// The observed behaviour of real components of these versions.
#[test]
fn gates_that_a_group_sets_count_where_others_depend_on_them() {
    let codes = |component: Component, gates: &str, version: &str| -> Vec<Code> {
        let text = format!("{}: ['feature-gates={gates}']", component.argument());
        let findings = assessed(&[("10-a.yaml", &text)], version).findings;
        let errors = findings
            .into_iter()
            .filter(|finding| finding.severity == Severity::Error);
        let mut codes: Vec<Code> = errors.map(|finding| finding.code).collect();
        codes.dedup();
        codes
    };
    let broken = "AllAlpha=true,AllBeta=false";
    let manager = "AllBeta=false,PodLevelResourceManagers=true";
    let bundle = "AllBeta=true,ClusterTrustBundleProjection=true";
    for component in [Component::KubeApiserver, Component::Kubelet] {
        assert!(codes(component, broken, "1.36.3").contains(&Code::GateDependency));
        assert_eq!(codes(component, manager, "1.36.3"), [Code::GateDependency]);
    }
    assert_eq!(
        codes(Component::KubeScheduler, broken, "1.36.3"),
        [Code::GateDependency]
    );
    assert_eq!(codes(Component::Kubelet, bundle, "1.36.3"), []);
    assert_eq!(
        codes(Component::KubeApiserver, "AllBeta=false", "1.36.3"),
        []
    );
    // A gate that is set by its name does not follow its group.
    let named = "AllBeta=false,PodLevelResources=true,PodLevelResourceManagers=true";
    assert_eq!(codes(Component::Kubelet, named, "1.36.3"), []);
    for (group, version) in [
        ("AllAlpha=true", "1.31.14"),
        ("AllAlpha=true", "1.33.13"),
        ("AllAlpha=true", "1.36.3"),
        ("AllBeta=true", "1.31.14"),
        ("AllBeta=true", "1.33.13"),
        ("AllBeta=true", "1.36.3"),
    ] {
        let found = codes(Component::KubeApiserver, group, version);
        assert!(
            found.contains(&Code::GateApiNotServed),
            "{group} {version}: {found:?}"
        );
    }
    let text = "kube-apiserver-arg: ['feature-gates=AllAlpha=true', runtime-config=api/all=true]";
    for version in ["1.31.14", "1.33.13", "1.36.3"] {
        let found = assessed(&[("10-a.yaml", text)], version);
        assert!(found.starts(), "{version}: {:?}", found.findings);
    }
}

/// The observed refusals of kube-apiserver of these versions; a kubelet accepts the same gates.
#[test]
fn dependencies_that_kube_apiserver_alone_enforced_before_1_35_are_known() {
    for (version, gates, breaks) in [
        ("1.33.13", "AuthorizeWithSelectors=false", true),
        ("1.31.14", "AuthorizeNodeWithSelectors=true", true),
        ("1.31.14", "UnknownVersionInteroperabilityProxy=true", true),
        ("1.31.14", "DRAControlPlaneController=true", true),
        (
            "1.31.14",
            "ServiceAccountTokenNodeBindingValidation=false",
            true,
        ),
        (
            "1.33.13",
            "AuthorizeWithSelectors=false,AuthorizeNodeWithSelectors=false",
            false,
        ),
        (
            "1.31.14",
            "AuthorizeNodeWithSelectors=true,AuthorizeWithSelectors=true",
            false,
        ),
        ("1.33.13", "UnknownVersionInteroperabilityProxy=true", false),
        ("1.33.13", "APIServerIdentity=false", false),
    ] {
        let item = format!("feature-gates={gates}");
        let refused = api(&[&item], version).contains(&Code::GateDependency);
        assert_eq!(refused, breaks, "{gates} on {version}");
        let text = format!("kubelet-arg: ['{item}']");
        assert!(
            assessed(&[("50-a.yaml", &text)], version).starts(),
            "{gates} on {version}"
        );
    }
}

#[test]
fn a_file_that_rke2_cannot_read_means_that_nothing_starts() {
    assert!(!assessed(&[("10-a.yaml", "- no map\n")], "1.33.3").starts());
}

#[test]
fn what_cannot_be_judged_for_want_of_knowledge_is_said_to_be_uncertain() {
    let text = "kube-apiserver-arg:\n- feature-gates=ImageVolume=true\n";
    let uncertain = |version| assessed(&[("50-a.yaml", text)], version).uncertain();
    assert!(!uncertain("1.34.2"));
    assert!(uncertain("1.99.0"), "no catalogue has this version");
}

#[test]
fn a_component_that_emulates_another_version_is_not_judged_and_that_is_said() {
    // Alpha from 1.34 on, and locked from 1.34 on: at 1.33 it is the other way round.
    for gate in [
        "DRAExtendedResource=true",
        "AuthorizeNodeWithSelectors=false",
    ] {
        for emulated in ["emulated-version=1.33", "emulated-version=kube=1.33"] {
            let gates = format!("feature-gates={gate}");
            let found = api(&[emulated, &gates], "1.34.9");
            assert_eq!(found, [Code::GateUndecided], "{gate}");
        }
    }
    let text = "kube-apiserver-arg: [emulated-version=1.33]\nkube-scheduler-arg: [feature-gates=NoSuchGate=true]\n";
    let assessed = assessed(&[("50-a.yaml", text)], "1.34.9");
    assert!(!assessed.starts(), "another component is judged");
}

#[test]
fn gates_in_a_kubelet_configuration_count_before_its_arguments() {
    let file = |text: &str| {
        let path = "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/50-a.conf";
        Rke2ConfigFile::new(ConfigLayer::Kubelet, path, text)
    };
    let at = |version: &str, files: &[Rke2ConfigFile]| {
        let target = TargetVersion::Known(version.parse().unwrap());
        assess(&merge(files), None, &target)
    };
    let codes = |assessment: &Assessment| -> Vec<Code> {
        assessment
            .findings
            .iter()
            .map(|finding| finding.code)
            .collect()
    };
    let gone = file("kind: KubeletConfiguration\nfeatureGates:\n  MemoryManager: true\n");
    let refused = at("v1.36.4", std::slice::from_ref(&gone));
    assert!(!refused.starts());
    assert_eq!(refused.findings[0].at[0].line, Some(3));
    assert!(at("v1.34.2", &[gone]).starts());
    // An argument replaces it.
    let arguments = "kubelet-arg: ['feature-gates=ImageVolume=false']";
    let arguments = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", arguments);
    let both = at(
        "v1.34.2",
        &[file("featureGates: {ImageVolume: true}"), arguments],
    );
    assert_eq!(codes(&both), [Code::GateConflict]);
    assert!(!both.components[0].gates[0].value);
    // 1.36 refuses it before that.
    let arguments = "kubelet-arg: ['feature-gates=NodeSwap=true']";
    let arguments = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", arguments);
    let locked = at(
        "v1.36.4",
        &[file("featureGates: {NodeSwap: false}"), arguments],
    );
    assert!(!locked.starts());
    // The effect in an RKE2 that does not name the directory is unknown.
    let older = at("v1.31.9", &[file("featureGates: {Nonsense: true}")]);
    assert!(older.starts() && older.uncertain(), "{older:?}");
}
