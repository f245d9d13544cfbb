//! A change of an object that holds only for what was diagnosed, with its way back.

use serde_json::{Value, json};

use super::{CureGoal, CureMethod, CureRequest, CureStep, WayBack};
use crate::objects::{ObjectKind, text};

/// A change of fields of one object. kube-apiserver tests the UID and every field that was diagnosed: when one of them
/// has changed since, it refuses the whole change (422).
#[derive(Debug, Clone)]
pub struct ObjectChange<'o> {
    kind: ObjectKind,
    object: &'o Value,
    subresource: Option<&'static str>,
    /// Fields that have to be as they were, and are not changed.
    still: Vec<&'o str>,
    fields: Vec<FieldChange>,
}

/// A field as it was, and as it is to be; null where it is absent.
#[derive(Debug, Clone)]
struct FieldChange {
    field: String,
    was: Value,
    becomes: Value,
}

impl<'o> ObjectChange<'o> {
    /// A change of this object, as it was diagnosed.
    pub fn of(kind: ObjectKind, object: &'o Value) -> Self {
        Self {
            kind,
            object,
            subresource: None,
            still: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// A change of its status, which webhooks for the object itself are not asked about.
    pub fn of_status(kind: ObjectKind, object: &'o Value) -> Self {
        Self {
            subresource: Some("status"),
            ..Self::of(kind, object)
        }
    }

    /// Only if this field (a JSON pointer) still is as it was diagnosed.
    #[must_use]
    pub fn still(mut self, field: &'o str) -> Self {
        self.still.push(field);
        self
    }

    /// This field (a JSON pointer) becomes `value`, if it still is as it was diagnosed; with null it is removed. The
    /// object that the field is in has to be there: set it as a whole where it is not.
    #[must_use]
    pub fn set(mut self, field: impl Into<String>, value: Value) -> Self {
        let field = field.into();
        let was = self.object.pointer(&field).cloned().unwrap_or_default();
        if was != value {
            self.fields.push(FieldChange {
                field,
                was,
                becomes: value,
            });
        }
        self
    }

    /// The step that makes the change. Its way back restores the fields, if they still are as this change left them.
    pub fn step(&self, say: impl Into<String>, goal: CureGoal, patience: u32) -> CureStep {
        CureStep {
            request: Some(self.there()),
            way_back: Some(WayBack::Request(self.back())),
            ..CureStep::wait(say, goal, patience)
        }
    }

    /// The step that restores what [`ObjectChange::step`] changed, as a part of the same cure.
    pub fn step_back(&self, say: impl Into<String>, patience: u32) -> CureStep {
        let first = self.fields.first();
        let goal = CureGoal::Field {
            path: self.kind.path_of(self.object),
            before: None,
            field: first.map_or("/kind".to_owned(), |first| first.field.clone()),
            value: first.map_or(json!(self.kind.kind), |first| first.was.clone()),
        };
        CureStep {
            request: Some(self.back()),
            ..CureStep::wait(say, goal, patience)
        }
    }

    fn there(&self) -> CureRequest {
        let mut operations = Vec::new();
        for field in &self.still {
            let value = self.object.pointer(field).unwrap_or(&Value::Null);
            operations.push(test(field, value));
        }
        for change in &self.fields {
            operations.extend(replace(&change.field, &change.was, &change.becomes));
        }
        self.request(operations)
    }

    fn back(&self) -> CureRequest {
        let mut operations = Vec::new();
        for change in self.fields.iter().rev() {
            operations.extend(replace(&change.field, &change.becomes, &change.was));
        }
        self.request(operations)
    }

    fn request(&self, operations: Vec<Value>) -> CureRequest {
        let mut body = vec![test(
            "/metadata/uid",
            &json!(text(self.object, "/metadata/uid")),
        )];
        body.extend(operations);
        CureRequest {
            method: CureMethod::Patch,
            path: self.kind.path_of(self.object),
            subresource: self.subresource.map(str::to_owned),
            body: Value::Array(body),
        }
    }
}

fn test(field: &str, value: &Value) -> Value {
    json!({"op": "test", "path": field, "value": value})
}

/// Replaces one value by another, if it still is the one. Null stands for a field that is absent, which kube-apiserver
/// tests as such.
fn replace(field: &str, from: &Value, to: &Value) -> [Value; 2] {
    let write = match (from, to) {
        (_, Value::Null) => json!({"op": "remove", "path": field}),
        (Value::Null, to) => json!({"op": "add", "path": field, "value": to}),
        (_, to) => json!({"op": "replace", "path": field, "value": to}),
    };
    [test(field, from), write]
}
