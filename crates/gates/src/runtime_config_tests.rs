use windrow_model::reasons::Code;
use windrow_plan::rke2::config::{ConfigLayer, MergedConfig, Rke2ConfigFile, merge};

use crate::testing::at;
use crate::{TargetVersion, assess};

fn config(items: &[&str]) -> MergedConfig {
    let list = serde_json::json!({ "kube-apiserver-arg": items }).to_string();
    merge(&[Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", list)])
}

fn found(items: &[&str], target: &TargetVersion) -> Vec<(Code, String)> {
    let findings = assess(&config(items), None, target).findings.into_iter();
    findings
        .map(|finding| (finding.code, finding.message))
        .collect()
}

fn codes(items: &[&str], target: &TargetVersion) -> Vec<Code> {
    let found = found(items, target).into_iter();
    found.map(|(code, _)| code).collect()
}

#[test]
fn a_group_version_that_a_minor_does_not_register_is_an_error_there() {
    let (refused, next) = (Code::RuntimeConfigRefused, Code::GateNextMinor);
    for (key, version, expected) in [
        ("resource.k8s.io/v1alpha2", "1.30.14", vec![next]),
        ("resource.k8s.io/v1alpha2", "1.31.14", vec![refused]),
        (
            "resource.k8s.io/v1alpha2/resourceslices",
            "1.31.14",
            vec![refused],
        ),
        ("resource.k8s.io/v1beta1", "1.31.14", vec![refused]),
        ("resource.k8s.io/v1beta1", "1.32.13", vec![]),
        ("coordination.k8s.io/v1alpha1", "1.31.14", vec![next]),
        ("coordination.k8s.io/v1alpha2", "1.31.14", vec![refused]),
        // Registered, although none of it is served any more.
        ("policy/v1beta1", "1.36.3", vec![]),
        ("extensions/v1beta1/ingresses", "1.36.3", vec![]),
        ("example.com/v1", "1.33.13", vec![refused]),
        ("resource.k8s.io", "1.33.13", vec![refused]),
        ("api/all", "1.33.13", vec![]),
        ("api/v1", "1.33.13", vec![]),
        // The catalogue does not cover it.
        ("resource.k8s.io/v1alpha2", "1.99.0", vec![]),
    ] {
        for value in ["true", "false"] {
            let item = format!("runtime-config={key}={value}");
            assert_eq!(
                codes(&[&item], &at(version)),
                expected,
                "{key} on {version}"
            );
        }
    }
}

#[test]
fn a_value_that_kube_apiserver_does_not_take_is_an_error_on_every_minor() {
    for item in [
        "api/all",
        "api/all=",
        "api/beta=TRUE",
        "api/alpha=1",
        "policy/v1beta1=yes",
    ] {
        let item = format!("runtime-config={item}");
        for version in ["1.30.14", "1.33.13", "1.36.3"] {
            let found = codes(&[&item], &at(version));
            assert_eq!(found, [Code::RuntimeConfigRefused], "{item} {version}");
        }
        let found = codes(&[&item], &TargetVersion::Unknown);
        assert_eq!(found, [Code::RuntimeConfigRefused], "{item}");
    }
    for item in ["policy/v1beta1", "policy/v1beta1=T", "api/beta=false"] {
        let item = format!("runtime-config={item}");
        assert_eq!(codes(&[&item], &at("1.33.13")), [], "{item}");
    }
}

#[test]
fn without_a_version_a_key_is_an_error_only_if_every_minor_refuses_it() {
    let codes = |item: &str| codes(&[item], &TargetVersion::Unknown);
    assert_eq!(
        codes("runtime-config=coordination.k8s.io/v1alpha1=true"),
        [Code::GateTargetUnknown]
    );
    assert_eq!(
        codes("runtime-config=resource.k8s.io/v9=true"),
        [Code::RuntimeConfigRefused]
    );
    assert_eq!(codes("runtime-config=policy/v1beta1=true"), []);
}

/// Former advice for the next minor stopped kube-apiserver of the running one.
#[test]
fn advice_for_the_next_minor_replaces_what_the_running_minor_needs_and_adds_nothing_it_refuses() {
    for (gate, version, old, new) in [
        (
            "CoordinatedLeaderElection",
            "1.31.14",
            "coordination.k8s.io/v1alpha1",
            "coordination.k8s.io/v1alpha2",
        ),
        (
            "DynamicResourceAllocation",
            "1.30.14",
            "resource.k8s.io/v1alpha2",
            "resource.k8s.io/v1alpha3",
        ),
    ] {
        let gate = format!("feature-gates={gate}=true");
        let runtime = format!("runtime-config={old}=true");
        let found = found(&[&gate, &runtime], &at(version));
        assert!(!found.is_empty());
        for (code, message) in found {
            assert_eq!(code, Code::GateNextMinor, "{message}");
            assert!(!message.contains("Add "), "{message}");
            assert!(message.contains("together with the upgrade"), "{message}");
            let replaces = format!("Replace `{old}` in `runtime-config` with `{new}=true`");
            let removes = format!("Remove `{old}`");
            assert!(
                message.contains(&replaces) || message.contains(&removes),
                "{message}"
            );
        }
    }
    // The running minor also has the next one's version: it can be added before the upgrade.
    let gate = "feature-gates=CoordinatedLeaderElection=true";
    let found = found(
        &[gate, "runtime-config=coordination.k8s.io/v1alpha2=true"],
        &at("1.32.13"),
    );
    assert_eq!(found.len(), 1);
    let add = "Add `runtime-config=coordination.k8s.io/v1beta1=true` before the upgrade";
    assert!(found[0].1.contains(add), "{}", found[0].1);
}

#[test]
fn a_plugin_is_switched_off_only_if_the_running_minor_has_it() {
    let gate = "feature-gates=MutatingAdmissionPolicy=true";
    for (version, offered) in [("1.31.14", false), ("1.33.13", true)] {
        let found = found(&[gate], &at(version));
        let plugin = "disable-admission-plugins=MutatingAdmissionPolicy";
        let offers = found.iter().any(|(_, message)| message.contains(plugin));
        assert_eq!(offers, offered, "{version}: {found:?}");
    }
}

#[test]
fn a_version_that_is_not_registered_is_replaced_by_the_one_that_the_gate_needs() {
    let found = found(
        &[
            "feature-gates=CoordinatedLeaderElection=true",
            "runtime-config=coordination.k8s.io/v1alpha1=true",
        ],
        &at("1.32.13"),
    );
    let codes: Vec<Code> = found.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [Code::RuntimeConfigRefused, Code::GateApiNotServed]);
    let replace = "Replace `coordination.k8s.io/v1alpha1` in `runtime-config` with `coordination.k8s.io/v1alpha2=true`";
    assert!(found[1].1.contains(replace), "{}", found[1].1);
}
