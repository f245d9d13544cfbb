//! The closed list of temporary changes that cures make. For each change the cluster stores only the object and the previous
//! values, and every server builds the requests from this list, because other clients may also write to the cluster.

use serde_json::{Value, json};

use super::{CureGoal, CureStep, ObjectChange};
use crate::objects::{ObjectKind, named};

/// A change that a later step of the same cure reverses.
#[derive(Debug)]
pub struct TemporaryKind {
    /// Its name in the cluster.
    pub id: &'static str,
    pub kind: ObjectKind,
    pub fields: &'static [TemporaryField],
    /// The change of an object with this name, in one line.
    pub change: fn(&str) -> String,
    /// The step that restores it, in one line.
    pub restore: fn(&str) -> String,
    /// The reaction of controllers, in one line.
    pub afterwards: &'static str,
    /// The goal of the change for the object at this path. The change is not reversed before that.
    pub goal: fn(String) -> CureGoal,
    /// Time limit for the goal, in seconds.
    pub patience: u32,
    /// Time limit for the reversal, in seconds.
    pub restore_patience: u32,
}

#[derive(Debug)]
pub struct TemporaryField {
    /// The field, as a JSON pointer of two names.
    pub field: &'static str,
    /// The possible previous values.
    pub before: &'static [FieldValue],
    /// The temporary value.
    pub during: FieldValue,
}

#[derive(Debug, Clone, Copy)]
pub enum FieldValue {
    Absent,
    Bool(bool),
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
    /// Stops a VirtualMachine. It lists only run strategies with which virt-controller starts the VM again automatically
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
        // KubeVirt does not start a VM if its strategy is restored while its instance still exists.
        goal: |path| CureGoal::MachineStopped { path },
        patience: 600,
        restore_patience: 120,
    };

    /// The step that changes this object, and the step that restores it.
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
