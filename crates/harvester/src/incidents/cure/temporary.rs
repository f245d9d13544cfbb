//! The changes that a cure makes for a while, as a closed list. The cluster keeps for each of them only the object and the
//! values before, and every server builds the requests from this list: others may write into the cluster too.

use serde_json::{Value, json};

use super::{CureGoal, CureStep, ObjectChange};
use crate::objects::{ObjectKind, named};

/// A change that a later step of the same cure reverses.
#[derive(Debug)]
pub struct TemporaryKind {
    /// Its name, as the cluster keeps it.
    pub id: &'static str,
    /// The kind of the object.
    pub kind: ObjectKind,
    /// What it changes.
    pub fields: &'static [TemporaryField],
    /// The change of an object of this name, in a line.
    pub change: fn(&str) -> String,
    /// The step that restores it, in a line.
    pub restore: fn(&str) -> String,
    /// What controllers then do to the object, in a line.
    pub afterwards: &'static str,
    /// What the change of the object at this path is to reach. It is not restored before that.
    pub goal: fn(String) -> CureGoal,
    /// How long that may take, in seconds.
    pub patience: u32,
    /// How long it may take to restore it, in seconds.
    pub restore_patience: u32,
}

/// A field that is changed for a while.
#[derive(Debug)]
pub struct TemporaryField {
    /// The field, as a JSON pointer of two names.
    pub field: &'static str,
    /// The values that it may have before.
    pub before: &'static [FieldValue],
    /// The value that it has for a while.
    pub during: FieldValue,
}

/// A value of such a field.
#[derive(Debug, Clone, Copy)]
pub enum FieldValue {
    /// The field is absent.
    Absent,
    /// A boolean.
    Bool(bool),
    /// A text.
    Text(&'static str),
}

impl FieldValue {
    /// As JSON; null if the field is absent.
    pub fn to_json(self) -> Value {
        match self {
            FieldValue::Absent => Value::Null,
            FieldValue::Bool(value) => json!(value),
            FieldValue::Text(value) => json!(value),
        }
    }
}

impl TemporaryKind {
    /// A VirtualMachine is stopped. Only the run strategies with which virt-controller starts it again by itself are listed
    /// (KubeVirt v1.2.2 to v1.7.4, `syncRunStrategy`).
    pub const STOPPED_MACHINE: Self = Self {
        id: "stopped-machine",
        kind: ObjectKind::VM,
        fields: &[
            TemporaryField {
                field: "/spec/running",
                before: &[FieldValue::Absent, FieldValue::Bool(true)],
                during: FieldValue::Absent,
            },
            TemporaryField {
                field: "/spec/runStrategy",
                before: &[
                    FieldValue::Absent,
                    FieldValue::Text("Always"),
                    FieldValue::Text("RerunOnFailure"),
                ],
                during: FieldValue::Text("Halted"),
            },
        ],
        change: |name| format!("stop VirtualMachine {name}"),
        restore: |name| format!("start VirtualMachine {name} again, as it was"),
        afterwards: "virt-controller shuts it down; a later step starts it again",
        // KubeVirt does not start a VM whose strategy comes back while its instance is still there.
        goal: |path| CureGoal::MachineStopped { path },
        patience: 600,
        restore_patience: 120,
    };

    /// The step that changes this object, and the one that restores it.
    pub fn steps(&self, object: &Value) -> (CureStep, CureStep) {
        let change = self.fields.iter().fold(
            ObjectChange::of(self.kind, object),
            |change, TemporaryField { field, during, .. }| change.set(*field, during.to_json()),
        );
        let (name, path) = (named(object), self.kind.path_of(object));
        let step = change.step((self.change)(&name), (self.goal)(path), self.patience);
        let restoring = change.step_back((self.restore)(&name), self.restore_patience);
        (step.afterwards(self.afterwards), restoring)
    }
}
