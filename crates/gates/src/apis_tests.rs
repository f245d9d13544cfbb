use windrow_model::reasons::Severity;
use windrow_plan::rke2::config::{ConfigLayer, MergedConfig, Rke2ConfigFile, merge};

use super::*;
use crate::testing::{api, at};
use crate::{Assessment, TargetVersion, assess, check, drop_in};

fn config(items: &[&str]) -> MergedConfig {
    let items: Vec<String> = items.iter().map(|item| format!("- '{item}'\n")).collect();
    let text = format!("kube-apiserver-arg:\n{}", items.concat());
    merge(&[Rke2ConfigFile::new(
        ConfigLayer::DropIn,
        "config.yaml.d/50-a.yaml",
        text,
    )])
}

fn assessed(items: &[&str], version: &str) -> Assessment {
    assess(&config(items), None, &at(version))
}

fn codes(items: &[&str], version: &str) -> Vec<Code> {
    let findings = assessed(items, version).findings.into_iter();
    let codes = findings.map(|finding| finding.code);
    codes
        .filter(|code| matches!(code, Code::GateApiNotServed | Code::GateUndecided))
        .collect()
}

/// The observed behaviour of kube-apiserver of these versions with only the gate, and with the API.
#[test]
fn a_gate_whose_api_is_off_by_default_needs_the_runtime_config_that_serves_it() {
    for (version, gate, served) in [
        (
            "1.31.14",
            "DynamicResourceAllocation",
            "resource.k8s.io/v1alpha3",
        ),
        (
            "1.33.13",
            "DynamicResourceAllocation",
            "resource.k8s.io/v1beta1",
        ),
        (
            "1.33.13",
            "MutatingAdmissionPolicy",
            "admissionregistration.k8s.io/v1alpha1",
        ),
        (
            "1.31.14",
            "CoordinatedLeaderElection",
            "coordination.k8s.io/v1alpha1",
        ),
        (
            "1.33.13",
            "CoordinatedLeaderElection",
            "coordination.k8s.io/v1beta1",
        ),
        (
            "1.36.3",
            "CoordinatedLeaderElection",
            "coordination.k8s.io/v1beta1",
        ),
        (
            "1.31.14",
            "MultiCIDRServiceAllocator",
            "networking.k8s.io/v1beta1",
        ),
        (
            "1.36.3",
            "PodCertificateRequest",
            "certificates.k8s.io/v1beta1",
        ),
        ("1.36.3", "GenericWorkload", "scheduling.k8s.io/v1alpha2"),
        (
            "1.31.14",
            "StorageVersionAPI",
            "internal.apiserver.k8s.io/v1alpha1",
        ),
        (
            "1.36.3",
            "StorageVersionAPI",
            "internal.apiserver.k8s.io/v1alpha1",
        ),
    ] {
        let gates = format!("feature-gates={gate}=true");
        let alone = assessed(&[&gates], version);
        assert!(!alone.starts(), "{gate} on {version}");
        let said = &alone.findings[0];
        assert_eq!(said.code, Code::GateApiNotServed, "{gate} on {version}");
        let mend = format!("`runtime-config={served}=true`");
        assert!(said.message.contains(&mend), "{}", said.message);
        assert_eq!(said.at[0].line, Some(2));
        let runtime = format!("runtime-config={served}=true");
        assert!(
            assessed(&[&gates, &runtime], version).starts(),
            "{gate} on {version}"
        );
        let off = format!("feature-gates={gate}=false");
        assert_eq!(codes(&[&off], version), [], "{gate} on {version}");
    }
    for (version, gate) in [
        ("1.31.14", "MutatingAdmissionPolicy"),
        ("1.36.3", "MutatingAdmissionPolicy"),
        ("1.31.14", "ClusterTrustBundle"),
        ("1.36.3", "DRADeviceTaintRules"),
        ("1.34.9", "DynamicResourceAllocation"),
    ] {
        let gates = format!("feature-gates={gate}=true");
        assert_eq!(codes(&[&gates], version), [], "{gate} on {version}");
    }
}

#[test]
fn runtime_config_is_read_as_kube_apiserver_reads_it() {
    let gate = "feature-gates=DynamicResourceAllocation=true";
    let slices = "resource.k8s.io/v1beta1/resourceslices";
    for (runtime, fine) in [
        ("api/all=true".to_owned(), true),
        ("api/beta=true".to_owned(), true),
        ("api/alpha=true".to_owned(), false),
        ("api/all=true,api/beta=false".to_owned(), false),
        (
            "api/beta=false,resource.k8s.io/v1beta1=true".to_owned(),
            true,
        ),
        (
            "resource.k8s.io/v1beta1=true,api/all=false".to_owned(),
            true,
        ),
        ("resource.k8s.io/v1beta1".to_owned(), true),
        (" resource.k8s.io/v1beta1 = 1 ".to_owned(), true),
        ("resource.k8s.io/v1beta1=false".to_owned(), false),
        ("resource.k8s.io/v1beta2=true".to_owned(), false),
        (format!("{slices}=true"), true),
        (format!("api/all=true,{slices}=false"), false),
    ] {
        let runtime = format!("runtime-config={runtime}");
        let expected: &[Code] = match fine {
            true => &[],
            false => &[Code::GateApiNotServed],
        };
        assert_eq!(codes(&[gate, &runtime], "1.33.13"), expected, "{runtime}");
    }
    // The last value of a key counts, in any use of the flag.
    let uses = |first, second| {
        let first = format!("runtime-config=resource.k8s.io/v1beta1={first}");
        let second = format!("runtime_config=resource.k8s.io/v1beta1={second}");
        codes(&[gate, &first, &second], "1.33.13")
    };
    assert_eq!(uses("false", "true"), []);
    assert_eq!(uses("true", "false"), [Code::GateApiNotServed]);
    // If a gate watches two resources, each of them must be served.
    let gate = "feature-gates=MultiCIDRServiceAllocator=true";
    let one = "runtime-config=networking.k8s.io/v1beta1/servicecidrs=true";
    let both = format!("{one},networking.k8s.io/v1beta1/ipaddresses=true");
    assert_eq!(codes(&[gate, one], "1.31.14"), [Code::GateApiNotServed]);
    assert_eq!(codes(&[gate, &both], "1.31.14"), []);
}

#[test]
fn a_value_in_runtime_config_that_kube_apiserver_refuses_stops_it_and_leaves_the_gate_open() {
    let gate = "feature-gates=DynamicResourceAllocation=true";
    for runtime in ["api/beta=maybe", "api/all=", "resource.k8s.io/v1beta1=on"] {
        let runtime = format!("runtime-config={runtime}");
        let assessed = assessed(&[gate, &runtime], "1.33.13");
        assert!(assessed.uncertain() && !assessed.starts(), "{runtime}");
        let asked = [api("DynamicResourceAllocation", true)];
        let planned = drop_in(&asked, &at("1.33.13"), &config(&[&runtime]));
        assert_eq!(planned.content, None);
    }
}

#[test]
fn a_plugin_that_is_off_watches_nothing() {
    let gate = "feature-gates=MutatingAdmissionPolicy=true";
    let off = "disable-admission-plugins=A,MutatingAdmissionPolicy";
    assert_eq!(codes(&[gate, off], "1.33.13"), []);
    let said = &assessed(&[gate], "1.33.13").findings[0].message;
    assert!(
        said.contains("`disable-admission-plugins=MutatingAdmissionPolicy`"),
        "{said}"
    );
    let gate = "feature-gates=CoordinatedLeaderElection=true";
    let off = "disable-admission-plugins=CoordinatedLeaderElection";
    assert_eq!(codes(&[gate, off], "1.33.13"), [Code::GateApiNotServed]);
}

#[test]
fn such_a_gate_is_not_written_until_its_api_is_served() {
    let asked = [
        api("DynamicResourceAllocation", true),
        api("ImageVolume", true),
    ];
    let planned = drop_in(&asked, &at("1.33.13"), &MergedConfig::default());
    assert_eq!(planned.written, asked[1..]);
    let why = &planned.left_out[0].why;
    assert!(
        why.contains("runtime-config=resource.k8s.io/v1beta1=true"),
        "{why}"
    );
    let served = config(&["runtime-config=api/beta=true"]);
    assert_eq!(drop_in(&asked, &at("1.33.13"), &served).written, asked);
    // A problem of another gate in the drop-in does not remove this one.
    let off = [api("DynamicResourceAllocation", false)];
    assert_eq!(
        drop_in(&off, &at("1.33.13"), &MergedConfig::default()).written,
        off
    );
    let errors = |config: &MergedConfig| -> Vec<Code> {
        let found = check(&asked, &at("1.33.13"), config).into_iter();
        let found = found.filter(|finding| finding.severity == Severity::Error);
        found.map(|finding| finding.code).collect()
    };
    assert_eq!(errors(&MergedConfig::default()), [Code::GateApiNotServed]);
    assert_eq!(errors(&served), []);
}

#[test]
fn another_components_gate_of_the_same_name_watches_nothing_of_kube_apiserver() {
    let text = "kube-scheduler-arg: ['feature-gates=DynamicResourceAllocation=true']\n";
    let config = merge(&[Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text)]);
    assert!(assess(&config, None, &at("1.33.13")).starts());
}

#[test]
fn without_a_version_it_is_unknown_unless_no_minor_starts() {
    let found = |gate: &str| {
        let gates = format!("feature-gates={gate}");
        let assessed = assess(&config(&[&gates]), None, &TargetVersion::Unknown);
        let found = assessed.findings.into_iter();
        found.map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert_eq!(
        found("DynamicResourceAllocation=true"),
        [Code::GateTargetUnknown]
    );
    assert_eq!(found("StorageVersionAPI=true"), [Code::GateApiNotServed]);
    // Only 1.36 refuses it.
    assert_eq!(found("APIServerIdentity=false"), [Code::GateTargetUnknown]);
}
