//! The goals of the steps of a cure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::objects::{is_true, text};

/// Goal of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum CureGoal {
    /// An object exists, and it is not the one with this UID.
    Anew {
        /// Path of the object.
        path: String,
        /// UID of the previous object.
        before: String,
    },
    /// A field has a value, in an object that is not the one with this UID.
    Field {
        /// Path of the object.
        path: String,
        /// UID of an object that does not count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<String>,
        /// Field, as a JSON pointer.
        field: String,
        /// Value of the field.
        value: Value,
    },
    /// A number in an object is at least this value, or the object does not exist.
    AtLeast {
        /// Path of the object.
        path: String,
        /// Field, as a JSON pointer.
        field: String,
        /// Smallest accepted number.
        value: i64,
    },
    /// A field has another value than this one.
    Differs {
        /// Path of the object.
        path: String,
        /// Field, as a JSON pointer.
        field: String,
        /// Previous value; null if the field was absent.
        value: Value,
    },
    /// The object with this UID no longer exists.
    Gone {
        /// Path of the object.
        path: String,
        /// UID of the object.
        uid: String,
    },
    /// A VirtualMachine is stopped, and its instance no longer exists. KubeVirt reports Stopped as soon as the instance has
    /// succeeded (`pkg/virt-controller/watch/vm`, `isVirtualMachineStatusStopped`).
    MachineStopped {
        /// Path of the VirtualMachine.
        path: String,
    },
    /// A condition of an object is True, and the status is that of its newest generation.
    Condition {
        /// Path of the object.
        path: String,
        /// Type of the condition.
        condition: String,
    },
}

impl CureGoal {
    /// The path of the object that shows whether the goal is reached.
    pub fn path(&self) -> &str {
        match self {
            CureGoal::Anew { path, .. }
            | CureGoal::Field { path, .. }
            | CureGoal::AtLeast { path, .. }
            | CureGoal::Differs { path, .. }
            | CureGoal::Gone { path, .. }
            | CureGoal::MachineStopped { path }
            | CureGoal::Condition { path, .. } => path,
        }
    }

    /// Whether the goal is reached. `seen` is the object at its path; `None` if it does not exist.
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
                // Null means that the field is absent.
                is_it && seen.is_some() && at(field).unwrap_or(&Value::Null) == value
            }
            CureGoal::AtLeast { field, value, .. } => {
                let number = at(field).and_then(Value::as_i64);
                seen.is_none() || number.is_some_and(|number| number >= *value)
            }
            CureGoal::Differs { field, value, .. } => {
                seen.is_some() && at(field).unwrap_or(&Value::Null) != value
            }
            CureGoal::Gone { uid: gone, .. } => uid != Some(gone),
            CureGoal::MachineStopped { .. } => {
                let is_stopped = at("/status/printableStatus").is_some_and(|is| is == "Stopped");
                is_stopped && at("/status/created") != Some(&Value::Bool(true))
            }
            CureGoal::Condition { condition, .. } => seen.is_some_and(|object| {
                let generation = object.pointer("/metadata/generation");
                let observed = object.pointer("/status/observedGeneration");
                is_true(object, condition) && (observed.is_none() || observed == generation)
            }),
        }
    }

    pub fn say(&self) -> String {
        match self {
            CureGoal::Anew { path, .. } => format!("{path} is there again"),
            CureGoal::Field {
                path, field, value, ..
            } => format!("{path} has {field} = {value}"),
            CureGoal::AtLeast { path, field, value } => {
                format!("{path} has {field} >= {value}, or is gone")
            }
            CureGoal::Differs { path, field, value } => {
                format!("{path} has another {field} than {value}")
            }
            CureGoal::Gone { path, .. } => format!("{path} is gone"),
            CureGoal::MachineStopped { path } => format!("{path} is Stopped, without an instance"),
            CureGoal::Condition { path, condition } => format!("{path} is {condition}"),
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
        assert!(least.is_reached(Some(&json!({"status": {"n": 1}}))));
        assert!(!least.is_reached(Some(&json!({"status": {"n": 0}}))));
        assert!(!least.is_reached(Some(&json!({"status": {}}))));
        assert!(
            least.is_reached(None),
            "a budget that is gone blocks nothing"
        );
        let gone = CureGoal::Gone {
            path: path(),
            uid: "1".into(),
        };
        assert!(gone.is_reached(None) && gone.is_reached(Some(&new)));
        let differs = CureGoal::Differs {
            path: path(),
            field: "/status/applying".into(),
            value: json!(null),
        };
        assert!(!differs.is_reached(None) && !differs.is_reached(Some(&old)));
        assert!(differs.is_reached(Some(&json!({"status": {"applying": ["n1"]}}))));
        assert!(!gone.is_reached(Some(&old)));
    }

    #[test]
    fn of_an_object_that_is_not_there_no_field_is_as_wanted_and_none_has_changed() {
        let (path, field) = ("/x".to_owned(), "/spec/a".to_owned());
        let absent = CureGoal::Field {
            path: path.clone(),
            before: None,
            field: field.clone(),
            value: Value::Null,
        };
        assert!(absent.is_reached(Some(&json!({"spec": {}}))) && !absent.is_reached(None));
        let differs = CureGoal::Differs {
            path,
            field,
            value: json!(1),
        };
        assert!(differs.is_reached(Some(&json!({"spec": {}}))) && !differs.is_reached(None));
    }

    #[test]
    fn a_condition_counts_only_for_the_newest_generation() {
        let goal = CureGoal::Condition {
            path: "/x".into(),
            condition: "Ready".into(),
        };
        let bundle = |ready: &str, observed: u32| {
            json!({"metadata": {"generation": 2}, "status": {"observedGeneration": observed,
                "conditions": [{"type": "Ready", "status": ready}]}})
        };
        assert!(goal.is_reached(Some(&bundle("True", 2))));
        assert!(!goal.is_reached(Some(&bundle("True", 1))));
        assert!(!goal.is_reached(Some(&bundle("False", 2))));
        assert!(!goal.is_reached(None));
        // This kind does not report the generation of its status.
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let silent = json!({"metadata": {"generation": 2}, "status": ready});
        assert!(goal.is_reached(Some(&silent)));
    }
}
