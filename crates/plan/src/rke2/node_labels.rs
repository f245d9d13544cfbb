//! `node-label` and `node-taint`: RKE2 passes them to the kubelet, which ends at an invalid one.
//!
//! Source: kubernetes `cmd/kubelet/app/options/options.go` (`ValidateKubeletFlags`), kubelet
//! `pkg/apis/well_known_labels.go`, `pkg/util/taints/taints.go`; k3s `pkg/daemons/agent/agent_linux.go`. The same from 1.30 to
//! 1.36.

use std::collections::BTreeSet;

use windrow_model::findings::{Finding, Location};
use windrow_model::grammars::{label_key_error, label_value_error};
use windrow_model::reasons::Code;

use super::written_keys::WrittenValue;

/// Labels below `kubernetes.io` and `k8s.io` that a kubelet may set on its own node.
const ALLOWED: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Prefixes that it may use.
const ALLOWED_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "PreferNoSchedule"];

/// Why the kubelet refuses this value of its own flag `node-labels` or `register-with-taints`; `None` for other flags, and if
/// it does not.
pub fn kubelet_flag_fault(flag: &str, value: &str) -> Option<String> {
    let fault = match flag {
        "node-labels" => label_fault as fn(&str) -> Option<String>,
        "register-with-taints" => taint_fault,
        _ => return None,
    };
    let mut parts = value.split(',').filter(|part| !part.trim().is_empty());
    parts.find_map(fault)
}

pub(super) fn judge(labels: &[WrittenValue], taints: &[WrittenValue], found: &mut Vec<Finding>) {
    for (key, values, fault) in [
        (
            "node-label",
            labels,
            label_fault as fn(&str) -> Option<String>,
        ),
        ("node-taint", taints, taint_fault),
    ] {
        for value in values {
            let at = &value.item.at;
            if let Some(kind) = value.no_text {
                found.push(refused(key, &format!("an item is {kind}, not a text"), at));
                continue;
            }
            let parts = value
                .item
                .text
                .split(',')
                .filter(|part| !part.trim().is_empty());
            found.extend(parts.filter_map(|part| Some(refused(key, &fault(part)?, at))));
        }
    }
    let mut known = BTreeSet::new();
    let items = taints.iter().map(|value| &value.item);
    for (taint, at) in items.flat_map(|item| item.text.split(',').map(move |one| (one, &item.at))) {
        let Some((pair, effect)) = taint.trim().split_once(':') else {
            continue;
        };
        let name = pair.split('=').next().unwrap_or(pair);
        if !known.insert((name, effect)) {
            let what =
                format!("two taints have the name `{name}` and the effect {effect}. Remove one");
            found.push(refused("node-taint", &what, at));
        }
    }
}

fn label_fault(label: &str) -> Option<String> {
    let (key, value) = label.split_once('=').unwrap_or((label, ""));
    let (key, value) = (key.trim(), value.trim());
    if label_key_error(key).is_some() {
        return Some("a name is not a valid label. Write each item as name=value".to_owned());
    }
    if let Some(why) = label_value_error(value) {
        return Some(format!(
            "the value of `{key}` is not a valid label value: {why}"
        ));
    }
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let is_below = |domain: &str| {
        let rest = prefix.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_reserved = ["kubernetes.io", "k8s.io"].into_iter().any(is_below);
    let is_allowed = ALLOWED.contains(&key) || ALLOWED_PREFIXES.into_iter().any(is_below);
    (is_reserved && !is_allowed).then(|| {
        format!("the kubelet must not set `{key}` on its own node. Set this label later with kubectl, or use another prefix")
    })
}

fn taint_fault(taint: &str) -> Option<String> {
    // A taint to remove: the kubelet ignores it.
    if taint.ends_with('-') {
        return None;
    }
    let wrong = |what: &str| Some(format!("{what}. Write each item as name=value:NoSchedule"));
    let mut parts = taint.split(':');
    let (Some(pair), effect, None) = (parts.next(), parts.next(), parts.next()) else {
        return wrong("a taint has more than one `:`");
    };
    match effect {
        None => return wrong("a taint has no effect"),
        Some(effect) if !EFFECTS.contains(&effect) => {
            return wrong("the effect of a taint is not NoSchedule, PreferNoSchedule or NoExecute");
        }
        Some(_) => {}
    }
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    if label_key_error(key).is_some() {
        return wrong("the name of a taint is not valid");
    }
    let has_fault = label_value_error(value).is_some();
    has_fault.then(|| format!("the value of the taint `{key}` is not valid"))
}

fn refused(key: &str, what: &str, at: &Location) -> Finding {
    let code = Code::ComponentArgumentInvalid;
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: format!("the kubelet does not start with this `{key}`: {what}"),
        at: vec![at.clone()],
    }
}
