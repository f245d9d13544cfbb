//! A conditional change of an object, with its way back.

use serde_json::{Value, json};

use super::{CureGoal, CureMethod, CureRequest, CureStep, WayBack};
use crate::objects::{ObjectKind, text};

/// A change of the fields of one object. kube-apiserver tests the UID and every diagnosed field. If one of them has changed
/// since, it rejects the whole change (422).
#[derive(Debug, Clone)]
pub struct ObjectChange<'o> {
    kind: ObjectKind,
    object: &'o Value,
    subresource: Option<&'static str>,
    still: Vec<&'o str>,
    fields: Vec<FieldChange>,
}

/// The old and the new value of a field; null if it is absent.
#[derive(Debug, Clone)]
struct FieldChange {
    field: String,
    was: Value,
    becomes: Value,
}

impl<'o> ObjectChange<'o> {
    pub fn of(kind: ObjectKind, object: &'o Value) -> Self {
        Self {
            kind,
            object,
            subresource: None,
            still: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// Changes its status, which the webhooks for the object itself do not check.
    pub fn of_status(kind: ObjectKind, object: &'o Value) -> Self {
        Self {
            subresource: Some("status"),
            ..Self::of(kind, object)
        }
    }

    /// Requires that this field (a JSON pointer) is unchanged since the diagnosis.
    #[must_use]
    pub fn still(mut self, field: &'o str) -> Self {
        self.still.push(field);
        self
    }

    /// Sets this field (a JSON pointer) to `value`, if it is unchanged since the diagnosis; null removes it. The object around
    /// the field must exist, otherwise set this object as a whole.
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

    /// The step that makes the change. Its way back restores the fields, if they are unchanged since.
    pub fn step(&self, say: impl Into<String>, goal: CureGoal, patience: u32) -> CureStep {
        CureStep {
            request: Some(self.there()),
            way_back: Some(WayBack::Request(self.back())),
            ..CureStep::wait(say, goal, patience)
        }
    }

    /// The step that restores the change of [`ObjectChange::step`], as a part of the same cure.
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

/// Replaces a value by another one, if it is unchanged. Null means an absent field, which kube-apiserver also tests.
fn replace(field: &str, from: &Value, to: &Value) -> [Value; 2] {
    let write = match (from, to) {
        (_, Value::Null) => json!({"op": "remove", "path": field}),
        (Value::Null, to) => json!({"op": "add", "path": field, "value": to}),
        (_, to) => json!({"op": "replace", "path": field, "value": to}),
    };
    [test(field, from), write]
}
