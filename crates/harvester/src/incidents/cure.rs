//! What can be done about an incident, as a value: saved objects, and steps with exact requests.
//!
//! ```text
//!   ObjectChange::of(kind, object)      what was diagnosed of it is tested by kube-apiserver
//!        .still(field)…                 a field that has to be as it was
//!        .set(field, value)…            a field that is changed, if it still is as it was
//!        .step(say, goal, patience)     ──> CureStep with its request and the way back
//!   CureStep::delete(…)                 ──> CureStep that has no way back, and why
//!   CureStep::wait(…)                   ──> CureStep without a request
//! ```
//!
//! A goal names its object by UID where a new object of the same name could be taken for the old one, so that a step
//! which was done already is seen to be done, however often the cure is begun again.

mod change;
mod goal;
mod request;
mod temporary;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use change::ObjectChange;
pub use goal::CureGoal;
pub use request::{CureMethod, CureRequest, RequestState};
pub use temporary::{FieldValue, TemporaryField, TemporaryKind};

use crate::objects::{ObjectKind, named, text};

/// What can be done about an incident.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cure {
    /// What is done, in a line.
    pub summary: String,
    /// What it changes, for people, line by line.
    pub changes: Vec<String>,
    /// The objects that are saved before anything is changed.
    pub saves: Vec<SavedObject>,
    /// What it is carried out once for, where that is not the saved objects: one of them is made again each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// What is done, in order. Each step waits for its goal.
    pub steps: Vec<CureStep>,
}

/// An object as it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SavedObject {
    /// Its path in the API.
    pub path: String,
    /// The object.
    pub object: Value,
}

impl Cure {
    /// The requests that can be tried before any further one is made, `done` steps being done: of each object the next one,
    /// up to the next step that only waits. What comes later rests on these.
    pub fn requests_to_try(&self, done: usize) -> Vec<&CureRequest> {
        let ahead = self.steps.get(done..).unwrap_or_default().iter();
        let mut tried: Vec<&CureRequest> = Vec::new();
        for request in ahead.map_while(|step| step.request.as_ref()) {
            if tried.iter().all(|earlier| earlier.path != request.path) {
                tried.push(request);
            }
        }
        tried
    }

    /// Does it save the same objects, by their UID, as another cure?
    pub fn saves_the_same(&self, other: &Cure) -> bool {
        self.saved() == other.saved()
    }

    /// What it is carried out once for, in a few lines.
    pub fn carried_out_for(&self) -> String {
        let saved = || {
            let lines = self.saved().into_iter();
            lines.map(|(path, uid)| format!("{path} {uid}\n")).collect()
        };
        self.purpose.clone().unwrap_or_else(saved)
    }

    fn saved(&self) -> Vec<(&str, &str)> {
        let saved = self.saves.iter();
        saved
            .map(|one| (one.path.as_str(), text(&one.object, "/metadata/uid")))
            .collect()
    }
}

impl SavedObject {
    /// An object of this kind, as it was diagnosed.
    pub fn of(kind: ObjectKind, object: &Value) -> Self {
        Self {
            path: kind.path_of(object),
            object: object.clone(),
        }
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CureStep {
    /// What is done or waited for, in a line.
    pub say: String,
    /// The request; none where the step only waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<CureRequest>,
    /// What controllers then do to it, in a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub afterwards: Option<String>,
    /// How its request is undone; none where the step only waits, or itself restores something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way_back: Option<WayBack>,
    /// What it is to reach.
    pub goal: CureGoal,
    /// How long that may take, in seconds.
    pub patience: u32,
}

/// How a request is undone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum WayBack {
    /// By this request. It tests what the cure wrote: kube-apiserver refuses it when somebody else has changed it since.
    Request(CureRequest),
    /// Not at all.
    None {
        /// Why not.
        why: String,
    },
}

impl CureStep {
    /// A step that only waits.
    pub fn wait(say: impl Into<String>, goal: CureGoal, patience: u32) -> Self {
        Self {
            say: say.into(),
            request: None,
            afterwards: None,
            way_back: None,
            goal,
            patience,
        }
    }

    /// A step that deletes this object and no other of its name. Its dependents are deleted in the background.
    /// `no_way_back` says why it cannot be undone.
    pub fn delete(
        kind: ObjectKind,
        object: &Value,
        no_way_back: &str,
        goal: CureGoal,
        patience: u32,
    ) -> Self {
        Self {
            request: Some(CureRequest::delete(
                kind.path_of(object),
                text(object, "/metadata/uid"),
            )),
            way_back: Some(WayBack::None {
                why: no_way_back.to_owned(),
            }),
            ..Self::wait(
                format!("delete {} {}", kind.kind, named(object)),
                goal,
                patience,
            )
        }
    }

    /// Does it restore what an earlier step of the same cure has changed?
    pub fn gives_back(&self) -> bool {
        self.request.is_some() && self.way_back.is_none()
    }

    /// With what controllers then do to what was changed.
    #[must_use]
    pub fn afterwards(mut self, what: impl Into<String>) -> Self {
        self.afterwards = Some(what.into());
        self
    }
}

#[cfg(test)]
mod tests;
