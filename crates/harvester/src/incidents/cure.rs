//! A cure for an incident, as a value: saved objects, and steps with exact requests.
//!
//! ```text
//!   ObjectChange::of(kind, object)      kube-apiserver tests the diagnosed fields
//!        .still(field)…                 a field that must be unchanged
//!        .set(field, value)…            a field to change, if it is unchanged
//!        .step(say, goal, patience)     ──> CureStep with its request and the way back
//!   CureStep::delete(…)                 ──> CureStep without a way back, and the reason
//!   CureStep::wait(…)                   ──> CureStep without a request
//! ```
//!
//! If a new object could be mistaken for an old one of the same name, a goal identifies its object by UID. So a finished step is
//! recognised as finished, even if the cure starts again.

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

/// A cure for an incident.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cure {
    /// Summary in one line.
    pub summary: String,
    /// Changes that it makes, line by line, for users.
    pub changes: Vec<String>,
    /// Objects that are saved before anything is changed.
    pub saves: Vec<SavedObject>,
    /// Identifies the repair, so that it runs only once, if the saved objects cannot: one of them is created again each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// Steps in order. Each step waits for its goal.
    pub steps: Vec<CureStep>,
}

/// A saved object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SavedObject {
    /// Path in the API.
    pub path: String,
    /// The object.
    pub object: Value,
}

impl Cure {
    /// The requests that can be tried in advance if `done` steps are finished: the next one for each object, up to the next step
    /// that only waits. Later requests depend on these.
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

    /// Whether it saves the same objects, by UID, as another cure.
    pub fn saves_the_same(&self, other: &Cure) -> bool {
        self.saved() == other.saved()
    }

    /// Identifies the repair in a few lines, so that it runs only once.
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
    /// An object of this kind, as diagnosed.
    pub fn of(kind: ObjectKind, object: &Value) -> Self {
        Self {
            path: kind.path_of(object),
            object: object.clone(),
        }
    }
}

/// A step of a cure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CureStep {
    /// The action, or the awaited event, in one line.
    pub say: String,
    /// The request; absent if the step only waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<CureRequest>,
    /// Reaction of controllers, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub afterwards: Option<String>,
    /// How to undo the request; absent if the step only waits, or itself restores something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way_back: Option<WayBack>,
    /// Goal of the step.
    pub goal: CureGoal,
    /// Time limit for the goal, in seconds.
    pub patience: u32,
}

/// How to undo a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum WayBack {
    /// This request undoes it. It tests the values that the cure wrote, so kube-apiserver rejects it if another client has
    /// changed them since.
    Request(CureRequest),
    /// It cannot be undone.
    None {
        /// The reason.
        why: String,
    },
}

impl CureStep {
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

    /// A step that deletes this object, and no other object of the same name. Its dependents are deleted in the background.
    /// `no_way_back` is the reason why it cannot be undone.
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

    /// Whether it restores a change of an earlier step of the same cure.
    pub fn gives_back(&self) -> bool {
        self.request.is_some() && self.way_back.is_none()
    }

    /// Adds the reaction of controllers to the change.
    #[must_use]
    pub fn afterwards(mut self, what: impl Into<String>) -> Self {
        self.afterwards = Some(what.into());
        self
    }
}

#[cfg(test)]
mod tests;
