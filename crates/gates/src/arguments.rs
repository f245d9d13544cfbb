//! The arguments of the components: does a component of this version have the flag, and can it read the value?
//!
//! A component ends at a flag that it does not have, and at a value that its type does not take (pflag). The forms of texts are data too;
//! a text without a form is listed as not checked.

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::{Code, Severity};
use windrow_model::suggest::nearest;
use windrow_model::unchecked::{ANY_TEXT, CanStop, NotChecked};
use windrow_plan::rke2::config::{ConfigItem, MergedConfig, split};
use windrow_plan::rke2::kubelet_flag_fault;
use windrow_plan::rke2::value_form::ValueForm;
use windrow_plan::version::{Minor, Version};

use super::catalogue::{Catalogue, GateStanding};
use super::findings::Findings;
use super::known_arguments::{KNOWN, TEXTS, ValueKind, is_in};
use super::{TargetVersion, argument_rules, gated_fields, kubelet_fields, syntax};

/// RKE2's lists of arguments, and the components that get them.
const LISTS: [(&str, &str); 7] = [
    ("kube-apiserver-arg", "kube-apiserver"),
    ("kube-controller-manager-arg", "kube-controller-manager"),
    ("kube-scheduler-arg", "kube-scheduler"),
    ("kubelet-arg", "kubelet"),
    ("kube-proxy-arg", "kube-proxy"),
    (
        "kube-cloud-controller-manager-arg",
        "cloud-controller-manager",
    ),
    ("etcd-arg", ETCD),
];
/// It reads no arguments: RKE2 writes them into its configuration file (k3s `pkg/daemons/executor/executor.go`, `ToConfigFile`).
const ETCD: &str = "etcd";
/// Flags that RKE2 takes out of a component's arguments before the component sees them. For the kubelet: klog's, all but `v` and
/// `vmodule` (rke2 `pkg/logging/logging.go`, `ExtractFromArgs`, v1.30.0 to v1.36.3, called in `pkg/executor/staticpod`).
const TAKEN_OUT: [(&str, &[&str]); 2] = [
    ("kube-apiserver", &["advertise-port", "basic-auth-file"]),
    (
        "kubelet",
        &[
            "add-dir-header",
            "alsologtostderr",
            "log-backtrace-at",
            "log-dir",
            "log-file",
            "log-file-max-size",
            "logtostderr",
            "one-output",
            "skip-headers",
            "skip-log-headers",
            "stderrthreshold",
        ],
    ),
];
/// RKE2 enables this plugin in every version (rke2 `pkg/cli/defaults/defaults.go`).
const ALWAYS_ENABLED: &str = "NodeRestriction";
/// For names that are looked up without a version.
const NEWEST: Minor = Minor::v1(37);
/// Texts that other rules of this crate judge.
const JUDGED: [&str; 4] = ["feature-gates", "runtime-config", ENABLES, DISABLES];
/// Flags of the kubelet with labels and taints, which have a rule of their own.
const FLAGS_OF_NODE: [&str; 2] = ["node-labels", "register-with-taints"];
const ENABLES: &str = "enable-admission-plugins";
const DISABLES: &str = "disable-admission-plugins";

/// The findings on all arguments, and the arguments whose values cannot be judged.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct JudgedArguments {
    pub findings: Vec<Finding>,
    pub unchecked: Vec<NotChecked>,
}

/// Judges every argument in the merged configuration for the version that will start.
pub fn judge_arguments(config: &MergedConfig, target: &TargetVersion) -> JudgedArguments {
    let mut findings = Findings::default();
    let mut unchecked = Vec::new();
    let mut refused = BTreeSet::new();
    let versions = target.plausible(Catalogue::builtin());
    let covered: Vec<Version> = versions
        .iter()
        .copied()
        .filter(|version| KNOWN.covers(version.minor))
        .collect();
    // The arguments of other minors are listed under Not checked.
    let is_covered = *target == TargetVersion::Unknown || covered.len() == versions.len();
    for (list, component) in LISTS {
        for item in config.list(list) {
            let before = findings.count();
            let judged = if is_covered {
                judge(component, list, item, &covered, &mut findings)
            } else {
                Judged::No("Windrow does not know the arguments of this Kubernetes version")
            };
            if findings.count() > before {
                refused.insert(item.at.clone());
            }
            unchecked.extend(match judged {
                Judged::Yes => None,
                Judged::AsText => Some(NotChecked {
                    can_stop: CanStop::Itself,
                    ..not_checked(component, item, ANY_TEXT)
                }),
                Judged::No(why) => Some(not_checked(component, item, why)),
            });
        }
    }
    let mut of_files = Vec::new();
    unchecked.extend(kubelet_fields::judge(config, &mut of_files));
    let errors = of_files
        .iter()
        .filter(|one| one.severity == Severity::Error);
    refused.extend(errors.flat_map(|one| one.at.clone()));
    for (list, component) in LISTS.into_iter().filter(|_| is_covered) {
        argument_rules::judge(component, list, config, &covered, &refused, &mut findings);
    }
    judge_plugins(config, &covered, &mut findings);
    judge_cloud_gates(config, &covered, &mut findings);
    gated_fields::judge(config, &covered, &mut findings);
    let mut findings = findings.done();
    findings.extend(of_files);
    JudgedArguments {
        findings,
        unchecked,
    }
}

fn not_checked(component: &str, item: &ConfigItem, why: &str) -> NotChecked {
    NotChecked {
        what: format!("`{}` of {component}", name_of(item)),
        why: why.to_owned(),
        can_stop: CanStop::Component,
        at: vec![item.at.clone()],
    }
}

enum Judged {
    Yes,
    /// The component takes any text, right or wrong.
    AsText,
    /// Not its value, and why.
    No(&'static str),
}

/// The name of the flag as the components read it: `_` is a `-`.
fn name_of(item: &ConfigItem) -> String {
    let (name, _) = split(&item.text);
    name.trim_end_matches(['+', '-']).replace('_', "-")
}

fn judge(
    component: &'static str,
    list: &str,
    item: &ConfigItem,
    versions: &[Version],
    findings: &mut Findings,
) -> Judged {
    let name = match component {
        // RKE2 takes the leading dashes away (k3s `ToConfigFile`).
        ETCD => name_of(item).trim_start_matches('-').to_owned(),
        _ => name_of(item),
    };
    let (_, value) = split(&item.text);
    let mut refuse = |severity: Severity, why: String| {
        let code = Code::ComponentArgumentInvalid;
        findings.push_as(
            code,
            severity,
            format!("`{list}`: {why}"),
            vec![item.at.clone()],
        );
    };
    // These names have their own findings.
    let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let is_misspelt = letters.eq_ignore_ascii_case("featuregates") && name != "feature-gates";
    let has_blank = name.contains(char::is_whitespace);
    if name.starts_with('-') || (has_blank && !name.starts_with("feature-gates")) {
        let why = format!(
            "RKE2 makes the argument `--{name}` of this item, and {component} does not start with it. Write a list of name=value texts"
        );
        refuse(Severity::Error, why);
        return Judged::Yes;
    }
    if name.is_empty() || is_misspelt || has_blank {
        return Judged::Yes;
    }
    if TAKEN_OUT
        .iter()
        .any(|(of, flags)| *of == component && flags.contains(&name.as_str()))
    {
        return Judged::Yes;
    }
    if name == "admission-control" {
        let why = format!(
            "{component} does not start with `admission-control` beside `enable-admission-plugins`, which RKE2 always sets: use `enable-admission-plugins`"
        );
        refuse(Severity::Error, why);
        return Judged::Yes;
    }
    let flag = KNOWN.flags.get(&(component, name.as_str()));
    let has = |version: &&Version| flag.is_some_and(|flag| is_in(&flag.spans, version.minor));
    if component == ETCD && flag.is_none() {
        let instead = KNOWN.instead(
            component,
            &name,
            versions.first().map_or(NEWEST, |one| one.minor),
        );
        let why = format!(
            "the configuration file of etcd, into which RKE2 writes this, has no `{name}`, and etcd ignores it{instead}"
        );
        refuse(Severity::Warning, why);
        return Judged::Yes;
    }
    let lacking: Vec<&Version> = versions.iter().filter(|version| !has(version)).collect();
    if let [version, ..] = lacking[..] {
        let is_in_all = lacking.len() == versions.len();
        let of = match lacking[..] {
            [first, .., last] if is_in_all => format!("{first} to {last}"),
            _ => version.to_string(),
        };
        let why = format!(
            "{component} {of} has no argument `{name}` and does not start with it{}",
            KNOWN.instead(component, &name, version.minor)
        );
        let severity = if is_in_all {
            Severity::Error
        } else {
            Severity::Warning
        };
        refuse(severity, why);
        return Judged::Yes;
    }
    let Some(flag) = flag else {
        return Judged::Yes;
    };
    if let Some(why) = flag.kind.refusal(value) {
        let why = format!("{component} does not start: the value of `{name}` is wrong: {why}");
        refuse(Severity::Error, why);
        return Judged::Yes;
    }
    if let Some(newest) = versions.iter().max() {
        let next = newest.minor.next();
        if KNOWN.covers(next) && !is_in(&flag.spans, next) {
            let why = format!(
                "{component} of Kubernetes {next} has no argument `{name}` and does not start with it: remove it before the upgrade"
            );
            refuse(Severity::Warning, why);
        }
    }
    if flag.kind != ValueKind::Text || JUDGED.contains(&name.as_str()) {
        return Judged::Yes;
    }
    let is_quoted = ['"', '\'']
        .iter()
        .any(|quote| value.len() > 1 && value.starts_with(*quote) && value.ends_with(*quote));
    if is_quoted {
        let why =
            format!("{component} takes the quotes in the value of `{name}` literally: remove them");
        refuse(Severity::Warning, why);
        return Judged::Yes;
    }
    if component == "kubelet" && FLAGS_OF_NODE.contains(&name.as_str()) {
        if let Some(fault) = kubelet_flag_fault(&name, value) {
            let why = format!("kubelet does not start: the value of `{name}` is wrong: {fault}");
            refuse(Severity::Error, why);
        }
        return Judged::Yes;
    }
    let form = TEXTS.get(&(component, name.as_str()));
    let common = || {
        TEXTS
            .get(&("*", name.as_str()))
            .filter(|_| component != ETCD)
    };
    match form.or_else(common) {
        // The same as without the argument.
        _ if value.is_empty() => Judged::Yes,
        None => Judged::No("Windrow has no rule for this text"),
        Some(ValueForm::File) => Judged::No("Windrow does not read this file"),
        Some(ValueForm::Any) => Judged::AsText,
        Some(form) => {
            if let Some(expected) = form.refusal(value) {
                let why = format!(
                    "{component} does not start: the value of `{name}` is wrong: {expected}"
                );
                refuse(Severity::Error, why);
            }
            Judged::Yes
        }
    }
}

/// kube-apiserver checks the names of admission plugins when it starts
/// (`pkg/server/options/admission.go` of k8s.io/apiserver, v0.30 to v0.37).
fn judge_plugins(config: &MergedConfig, versions: &[Version], findings: &mut Findings) {
    let list = LISTS[0].0;
    let named = |flag: &str| -> BTreeMap<String, Location> {
        let uses = config.flag(list, flag);
        let names = uses.iter().flat_map(|item| {
            let names = item.text.split(',').map(str::to_owned);
            names.map(|name| (name, item.at.clone()))
        });
        names.filter(|(name, _)| !name.is_empty()).collect()
    };
    let (enabled, disabled) = (named(ENABLES), named(DISABLES));
    for (flag, names) in [(ENABLES, &enabled), (DISABLES, &disabled)] {
        for (name, at) in names {
            let has = |version: &&Version| {
                let spans = KNOWN.plugins.get(name.as_str());
                spans.is_some_and(|spans| is_in(spans, version.minor))
            };
            let lacking: Vec<&Version> = versions.iter().filter(|one| !has(one)).collect();
            let Some(version) = lacking.first() else {
                continue;
            };
            let hint = match nearest(name, KNOWN.plugins.keys().copied()) {
                Some(near) if near != name => format!("; did you mean `{near}`?"),
                _ => ": remove it".to_owned(),
            };
            let severity = if lacking.len() == versions.len() {
                Severity::Error
            } else {
                Severity::Warning
            };
            let message = format!(
                "`{list}`: kube-apiserver {version} has no admission plugin `{name}` and does not start with it in `{flag}`{hint}"
            );
            findings.push_as(
                Code::ComponentArgumentInvalid,
                severity,
                message,
                vec![at.clone()],
            );
        }
    }
    let both: BTreeSet<&String> = enabled
        .keys()
        .filter(|name| disabled.contains_key(*name))
        .collect();
    if let Some(at) = disabled
        .get(ALWAYS_ENABLED)
        .filter(|_| !enabled.contains_key(ALWAYS_ENABLED))
    {
        let message = format!(
            "`{list}`: kube-apiserver does not start: RKE2 enables the admission plugin `{ALWAYS_ENABLED}`, and it is in `disable-admission-plugins`. Remove it there"
        );
        findings.push(Code::ComponentArgumentInvalid, message, vec![at.clone()]);
    }
    for name in both {
        let message = format!(
            "`{list}`: kube-apiserver does not start: the admission plugin `{name}` is in `enable-admission-plugins` and in `disable-admission-plugins`. Remove one of them"
        );
        let at = vec![enabled[name].clone(), disabled[name].clone()];
        findings.push(Code::ComponentArgumentInvalid, message, at);
    }
}

/// The cloud controller manager is the only component whose gates are not in the catalogue one by one. It shares a registry with the
/// others (k8s.io/cloud-provider, `app/controllermanager.go`), so a name that none of them has stops it.
fn judge_cloud_gates(config: &MergedConfig, versions: &[Version], findings: &mut Findings) {
    let (list, component) = LISTS[5];
    for item in config.flag(list, "feature-gates") {
        for pair in syntax::pairs(&item.text, true).into_iter().flatten() {
            let gate = Catalogue::builtin().gate(&pair.name);
            let is_known = |version: &Version| {
                let standing = gate.map(|gate| gate.at(*version));
                let is_known = matches!(
                    standing,
                    Some(GateStanding::Known(_) | GateStanding::Doubtful { .. })
                );
                is_known || !Catalogue::builtin().covers(version.minor)
            };
            if let Some(version) = versions.iter().find(|version| !is_known(version)) {
                let message = format!(
                    "`{list}`: {component} {version} has no feature gate `{}` and does not start with it: remove it",
                    pair.name
                );
                findings.push(Code::GateUnknown, message, vec![item.at.clone()]);
            }
        }
    }
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
