//! What can be done about an incident, as a value: saved objects, and steps with exact requests.
//!
//! A step is a request and the goal that it is to reach. A goal names its object by UID where a new
//! object of the same name could be taken for the old one, so that a step which was done already is seen
//! to be done, however often the cure is begun again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::objects::text;

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

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CureStep {
    /// What is done or waited for, in a line.
    pub say: String,
    /// The request; none where the step only waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<CureRequest>,
    /// What it is to reach.
    pub goal: CureGoal,
    /// How long that may take, in seconds.
    pub patience: u32,
}

/// A request to kube-apiserver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CureRequest {
    /// The method.
    pub method: CureMethod,
    /// The path.
    pub path: String,
    /// The body.
    pub body: Value,
}

/// What is done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CureMethod {
    /// It is deleted.
    #[serde(rename = "DELETE")]
    Delete,
    /// Fields of it are replaced (a JSON merge patch).
    #[serde(rename = "PATCH merge")]
    Merge,
    /// It is changed, if it is still what it was (a JSON patch).
    #[serde(rename = "PATCH json")]
    Patch,
}

impl CureMethod {
    /// HTTP's name for it.
    pub fn verb(self) -> &'static str {
        match self {
            CureMethod::Delete => "DELETE",
            CureMethod::Merge | CureMethod::Patch => "PATCH",
        }
    }

    /// The body's type.
    pub fn content_type(self) -> &'static str {
        match self {
            CureMethod::Delete => "application/json",
            CureMethod::Merge => "application/merge-patch+json",
            CureMethod::Patch => "application/json-patch+json",
        }
    }
}

/// What a step is to reach.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum CureGoal {
    /// An object is there, and it is not the one of this UID.
    Anew {
        /// Its path.
        path: String,
        /// The UID of the one before.
        before: String,
    },
    /// A field has a value, in an object that is not the one of this UID.
    Field {
        /// The object's path.
        path: String,
        /// The UID of an object that does not count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<String>,
        /// The field, as a JSON pointer.
        field: String,
        /// The value.
        value: Value,
    },
    /// A number in an object is at least this.
    AtLeast {
        /// The object's path.
        path: String,
        /// The field, as a JSON pointer.
        field: String,
        /// The number.
        value: i64,
    },
}

impl CureGoal {
    /// The path of the object that tells whether it is reached.
    pub fn path(&self) -> &str {
        match self {
            CureGoal::Anew { path, .. }
            | CureGoal::Field { path, .. }
            | CureGoal::AtLeast { path, .. } => path,
        }
    }

    /// Is it reached? `seen` is the object at its path; `None` when there is none.
    pub fn is_reached(&self, seen: Option<&Value>) -> bool {
        let uid = seen.map(|object| text(object, "/metadata/uid"));
        let at = |field: &str| seen.and_then(|object| object.pointer(field));
        match self {
            CureGoal::Anew { before, .. } => uid.is_some_and(|uid| uid != before),
            CureGoal::Field {
                before,
                field,
                value,
                ..
            } => {
                let is_it = before.is_none() || before.as_deref() != uid;
                is_it && at(field) == Some(value)
            }
            CureGoal::AtLeast { field, value, .. } => at(field)
                .and_then(Value::as_i64)
                .is_some_and(|number| number >= *value),
        }
    }

    /// It, in words.
    pub fn say(&self) -> String {
        match self {
            CureGoal::Anew { path, .. } => format!("{path} is there again"),
            CureGoal::Field {
                path, field, value, ..
            } => format!("{path} has {field} = {value}"),
            CureGoal::AtLeast { path, field, value } => format!("{path} has {field} >= {value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_goal_tells_the_new_object_from_the_old_one() {
        let old = json!({"metadata": {"uid": "1"}, "spec": {"enabled": true}});
        let new = json!({"metadata": {"uid": "2"}, "spec": {"enabled": true}});
        let path = || "/x".to_owned();
        let again = CureGoal::Anew {
            path: path(),
            before: "1".into(),
        };
        assert!(again.is_reached(Some(&new)));
        assert!(!again.is_reached(Some(&old)) && !again.is_reached(None));
        let field = CureGoal::Field {
            path: path(),
            before: Some("1".into()),
            field: "/spec/enabled".into(),
            value: json!(true),
        };
        assert!(field.is_reached(Some(&new)) && !field.is_reached(Some(&old)));
        let least = CureGoal::AtLeast {
            path: path(),
            field: "/status/n".into(),
            value: 1,
        };
        assert!(least.is_reached(Some(&json!({"status": {"n": 2}}))));
        assert!(!least.is_reached(Some(&json!({"status": {"n": 0}}))));
        assert!(!least.is_reached(None));
    }
}
