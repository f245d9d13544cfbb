//! The `gates` section of the status document.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::Location;

use super::trial::TrialState;
use super::{
    GateChange, GateRequest, LeftOut, ResolvedVersion, TargetVersion, Trial, TrialOutcome,
};

/// Feature gates: asked for, and what RKE2 will hand to its components.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatesStatus {
    /// The versions that may start next; empty when that is not known.
    pub versions: Vec<String>,
    /// How the version is known, or why it is not.
    pub because: String,
    /// What the configuration asks for.
    pub asked: Vec<AskedGate>,
    /// What RKE2 will give to its components at its next start, and who set it.
    pub effective: Vec<GateSet>,
    /// What is asked for and not written, and why.
    pub left_out: Vec<LeftOutGate>,
    /// Does something that is asked for wait for a boot?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    /// The trial that is under way, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialStatus>,
    /// The last requests that began no trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<RequestAnswer>,
}

/// The answer to a request that began no trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestAnswer {
    /// The request, by name.
    pub request: String,
    /// Not tried, or unchanged.
    pub outcome: TrialOutcome,
    /// Why.
    pub why: String,
}

/// A trial of feature gates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialStatus {
    /// The requests that it answers, by name.
    pub requests: Vec<String>,
    /// What is tried.
    pub change: GateChange,
    /// Who asked for it.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Where it stands.
    pub state: TrialState,
    /// Since when.
    pub since: Timestamp,
    /// The gates that are tried, in a line.
    pub gates: String,
    /// Is it tried although the check refuses it?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// What is waited for, in a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<TrialOutcome>,
    /// Why it was rolled back, or not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What could not be verified, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
}

impl TrialStatus {
    /// What the status says of a trial. `own` is the drop-in's path.
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

/// `Name=value` of a list of gates, in a line.
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

/// A gate that the configuration asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskedGate {
    /// `kube-apiserver` and the like.
    pub component: String,
    /// Its name.
    pub gate: String,
    /// The value.
    pub value: bool,
    /// On which minors it is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where.
    pub at: Location,
}

/// A gate that is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateSet {
    /// `kube-apiserver` and the like.
    pub component: String,
    /// Its name.
    pub gate: String,
    /// The value in effect.
    pub value: bool,
    /// Where that is written.
    pub at: Location,
}

/// A gate that is asked for and not written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOutGate {
    /// `kube-apiserver` and the like.
    pub component: String,
    /// Its name.
    pub gate: String,
    /// The value that is asked for.
    pub value: bool,
    /// Why it is not written.
    pub why: String,
}

impl GatesStatus {
    /// The part that follows from files alone.
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
