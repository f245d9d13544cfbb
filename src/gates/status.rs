//! The `gates` section of the status document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LeftOut, Request, Resolved, Target};
use crate::rules::Location;

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
    pub fn of(resolved: &Resolved, requests: &[Request], left_out: &[LeftOut]) -> Self {
        let versions = match &resolved.target {
            Target::Known(version) => vec![version.to_string()],
            Target::OneOf(versions) => versions.iter().map(ToString::to_string).collect(),
            Target::Unknown => Vec::new(),
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

impl From<&Request> for AskedGate {
    fn from(request: &Request) -> Self {
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
