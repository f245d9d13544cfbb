//! A temporary change in the cluster's note: its kind from a closed list, its object, and the values before.
//!
//! Any client that may update the Lease may write it. Therefore this module checks it on reading, and builds the
//! requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use windrow_harvester::incidents::{CureStep, TemporaryField, TemporaryKind};
use windrow_harvester::objects::text;
use windrow_model::grammars::is_subdomain;

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "NotedChange")]
pub struct TemporaryChange {
    kind: &'static TemporaryKind,
    /// The object, with nothing but its name and the fields that are changed, as they were before.
    object: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotedChange {
    change: String,
    namespace: String,
    name: String,
    uid: String,
    /// By field; null if it was absent.
    before: BTreeMap<String, Value>,
}

#[derive(Debug, thiserror::Error)]
enum NoteError {
    #[error("`{0}` is not a change that this version of Windrow makes for a while")]
    Kind(String),
    #[error("an object has no valid {0}")]
    Identity(&'static str),
    #[error("the field {0} is not changed for a while, or never has this value before")]
    Field(String),
    #[error("nothing of the object would be changed")]
    Nothing,
}

impl NotedChange {
    fn of(kind: &TemporaryKind, object: &Value) -> Self {
        let of_metadata = |field: &str| text(object, &format!("/metadata/{field}")).to_owned();
        let before = kind.fields.iter().map(|field| {
            let value = object.pointer(field.field).cloned();
            (field.field.to_owned(), value.unwrap_or_default())
        });
        Self {
            change: kind.id.to_owned(),
            namespace: of_metadata("namespace"),
            name: of_metadata("name"),
            uid: of_metadata("uid"),
            before: before.collect(),
        }
    }
}

impl TryFrom<NotedChange> for TemporaryChange {
    type Error = NoteError;

    fn try_from(noted: NotedChange) -> Result<Self, NoteError> {
        let mut kinds = kinds();
        let Some(kind) = kinds.find(|kind| kind.id == noted.change) else {
            return Err(NoteError::Kind(noted.change));
        };
        // They are parts of a requested path.
        if !is_subdomain(&noted.namespace) {
            return Err(NoteError::Identity("namespace"));
        }
        if !is_subdomain(&noted.name) {
            return Err(NoteError::Identity("name"));
        }
        if noted.uid.is_empty() {
            return Err(NoteError::Identity("UID"));
        }
        let mut object = json!({"metadata": {
            "namespace": noted.namespace, "name": noted.name, "uid": noted.uid
        }});
        for (field, value) in noted.before {
            let known = kind.fields.iter().find(|known| known.field == field);
            let mut allowed = known.into_iter().flat_map(|known| known.before);
            if !allowed.any(|allowed| allowed.to_json() == value) {
                return Err(NoteError::Field(field));
            }
            let mut names = field.split('/').skip(1);
            if let (false, Some(parent), Some(name)) = (value.is_null(), names.next(), names.next())
            {
                object[parent][name] = value;
            }
        }
        let is_changed = |field: &TemporaryField| {
            let before = object.pointer(field.field).unwrap_or(&Value::Null);
            *before != field.during.to_json()
        };
        if !kind.fields.iter().any(is_changed) {
            return Err(NoteError::Nothing);
        }
        Ok(Self { kind, object })
    }
}

impl TemporaryChange {
    /// The change of this object that this step restores; `None` if no server could build the step again.
    pub(super) fn of(object: &Value, restoring: &CureStep) -> Option<Self> {
        let changes = kinds().map(|kind| Self::try_from(NotedChange::of(kind, object)));
        let mut changes = changes.filter_map(Result::ok);
        changes.find(|change| change.restoring_step().request == restoring.request)
    }

    pub(super) fn changing_step(&self) -> CureStep {
        self.kind.steps(&self.object).0
    }

    pub fn restoring_step(&self) -> CureStep {
        self.kind.steps(&self.object).1
    }
}

fn kinds() -> impl Iterator<Item = &'static TemporaryKind> {
    #[cfg(not(any(test, feature = "testing")))]
    let of_tests = [];
    #[cfg(any(test, feature = "testing"))]
    let of_tests = crate::act::testing::TEMPORARY_KINDS;
    [&TemporaryKind::STOPPED_MACHINE]
        .into_iter()
        .chain(of_tests)
}

impl PartialEq for TemporaryChange {
    fn eq(&self, other: &Self) -> bool {
        (self.kind.id, &self.object) == (other.kind.id, &other.object)
    }
}

impl Serialize for TemporaryChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        NotedChange::of(self.kind, &self.object).serialize(serializer)
    }
}

#[cfg(test)]
#[path = "temporary_tests.rs"]
mod tests;
