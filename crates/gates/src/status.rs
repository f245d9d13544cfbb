//! The `gates` section of the status document.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::Location;

use super::trial::TrialState;
use super::{
    GateChange, GateRequest, LeftOut, ResolvedVersion, TargetVersion, Trial, TrialOutcome,
};

/// Feature gates: the requested ones, and those that RKE2 will pass to its components.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatesStatus {
    /// The versions that may start next; empty if unknown.
    pub versions: Vec<String>,
    /// The source of the version, or why it is unknown.
    pub because: String,
    /// The gates that the configuration requests.
    pub asked: Vec<AskedGate>,
    /// The gates that RKE2 will pass to its components at its next start, and who set them.
    pub effective: Vec<GateSet>,
    /// The requested gates that are not written, and why.
    pub left_out: Vec<LeftOutGate>,
    /// Does a requested change wait for a boot?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    /// The present trial, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialStatus>,
    /// The last requests that did not begin a trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<RequestAnswer>,
}

/// The answer to a request that did not begin a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestAnswer {
    /// The name of the request.
    pub request: String,
    /// Not tried, or unchanged.
    pub outcome: TrialOutcome,
    /// The reason for this answer.
    pub why: String,
}

/// A trial of feature gates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialStatus {
    /// The names of the requests that it answers.
    pub requests: Vec<String>,
    /// The change that is tried.
    pub change: GateChange,
    /// Who requested it.
    pub by: String,
    /// When it was requested.
    pub at: Timestamp,
    /// The state of the trial.
    pub state: TrialState,
    /// Since when the trial is in this state.
    pub since: Timestamp,
    /// The tried gates, in one line.
    pub gates: String,
    /// Is it tried although the check refuses it?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// The subject of the present wait, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// How it ended; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<TrialOutcome>,
    /// Why it was rolled back, or not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Messages about the gates that could not be verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
}

impl TrialStatus {
    /// `own` is the drop-in's path.
    pub fn new(trial: &Trial, own: &str, waits_for: Option<String>) -> Self {
        let requests = [&trial.request].into_iter().chain(&trial.taken_back);
        Self {
            requests: requests.cloned().collect(),
            change: trial.change,
            by: trial.by.clone(),
            at: trial.at,
            state: trial.state,
            since: trial.since,
            gates: list(&trial.gates(own, &[])),
            forced: trial.forced,
            waits_for,
            outcome: trial.outcome,
            why: trial.why.clone(),
            unverified: trial.unverified.clone(),
        }
    }
}

/// `Name=value` of a list of gates, in one line.
pub fn list(gates: &[GateRequest]) -> String {
    if gates.is_empty() {
        return "no feature gate".to_owned();
    }
    let texts: Vec<String> = gates
        .iter()
        .map(|gate| format!("{}={} ({})", gate.gate, gate.value, gate.component))
        .collect();
    texts.join(", ")
}

/// A gate that the configuration requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskedGate {
    /// The name of the component, like `kube-apiserver`.
    pub component: String,
    /// Its name.
    pub gate: String,
    /// The value.
    pub value: bool,
    /// The minors for which it is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The reason for the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The place of the request.
    pub at: Location,
}

/// A gate that is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateSet {
    /// The name of the component, like `kube-apiserver`.
    pub component: String,
    /// Its name.
    pub gate: String,
    /// The value in effect.
    pub value: bool,
    /// The place of this value.
    pub at: Location,
}

/// A requested gate that is not written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOutGate {
    /// The name of the component, like `kube-apiserver`.
    pub component: String,
    /// Its name.
    pub gate: String,
    /// The requested value.
    pub value: bool,
    /// Why it is not written.
    pub why: String,
}

impl GatesStatus {
    /// The parts that depend only on files.
    pub fn new(resolved: &ResolvedVersion, requests: &[GateRequest], left_out: &[LeftOut]) -> Self {
        let versions = match &resolved.target {
            TargetVersion::Known(version) => vec![version.to_string()],
            TargetVersion::OneOf(versions) => versions.iter().map(ToString::to_string).collect(),
            TargetVersion::Unknown => Vec::new(),
        };
        Self {
            versions,
            because: resolved.because.clone(),
            asked: requests.iter().map(AskedGate::from).collect(),
            left_out: left_out.iter().map(LeftOutGate::from).collect(),
            ..Self::default()
        }
    }
}

impl From<&GateRequest> for AskedGate {
    fn from(request: &GateRequest) -> Self {
        Self {
            component: request.component.to_string(),
            gate: request.gate.clone(),
            value: request.value,
            when: request.when.as_ref().map(ToString::to_string),
            reason: request.reason.clone(),
            at: request.at.clone(),
        }
    }
}

impl From<&LeftOut> for LeftOutGate {
    fn from(left: &LeftOut) -> Self {
        Self {
            component: left.request.component.to_string(),
            gate: left.request.gate.clone(),
            value: left.request.value,
            why: left.why.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{api, at};

    #[test]
    fn the_status_has_what_follows_from_files() {
        let left = LeftOut {
            request: api("Other", false),
            why: "unknown".to_owned(),
            not_meant: false,
        };
        let resolved = |target| ResolvedVersion {
            target,
            because: "it is installed".to_owned(),
        };
        let asked = [api("ImageVolume", true)];
        let status = GatesStatus::new(&resolved(at("1.34.2")), &asked, &[left]);
        assert_eq!(status.versions, ["1.34.2"]);
        assert_eq!(status.because, "it is installed");
        assert_eq!(status.asked[0].gate, "ImageVolume");
        assert!(status.asked[0].value);
        assert_eq!(status.left_out[0].gate, "Other");
        assert_eq!(status.left_out[0].why, "unknown");
        let several =
            TargetVersion::OneOf(vec!["1.34.2".parse().unwrap(), "1.35.6".parse().unwrap()]);
        let status = GatesStatus::new(&resolved(several), &[], &[]);
        assert_eq!(status.versions, ["1.34.2", "1.35.6"]);
        assert!(
            GatesStatus::new(&resolved(TargetVersion::Unknown), &[], &[])
                .versions
                .is_empty()
        );
    }
}
