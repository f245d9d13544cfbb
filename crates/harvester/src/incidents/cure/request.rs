//! A request to kube-apiserver, and what would come of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::objects::text;

/// A request to kube-apiserver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CureRequest {
    /// The method.
    pub method: CureMethod,
    /// The object's path.
    pub path: String,
    /// The part of the object that is changed, where it has a path of its own: `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// The body.
    pub body: Value,
}

/// What is done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CureMethod {
    /// It is deleted.
    #[serde(rename = "DELETE")]
    Delete,
    /// It is changed, if it is still what it was (a JSON patch).
    #[serde(rename = "PATCH json")]
    Patch,
}

impl CureMethod {
    /// HTTP's name for it.
    pub fn verb(self) -> &'static str {
        match self {
            CureMethod::Delete => "DELETE",
            CureMethod::Patch => "PATCH",
        }
    }

    /// The body's type.
    pub fn content_type(self) -> &'static str {
        match self {
            CureMethod::Delete => "application/json",
            CureMethod::Patch => "application/json-patch+json",
        }
    }
}

/// What an object says about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestState {
    /// The object is as the request expects it.
    Due,
    /// The object is already as the request would make it.
    Applied,
    /// It is neither; why, in a line.
    Outdated(String),
}

impl CureRequest {
    /// Deletes the object of this UID.
    pub(super) fn delete(path: String, uid: &str) -> Self {
        Self {
            method: CureMethod::Delete,
            path,
            subresource: None,
            body: json!({
                "apiVersion": "v1", "kind": "DeleteOptions",
                "propagationPolicy": "Background", "preconditions": {"uid": uid}
            }),
        }
    }

    /// Where it is sent.
    pub fn url(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.path),
            None => self.path.clone(),
        }
    }

    /// It, in a line.
    pub fn say(&self) -> String {
        format!("{} {}", self.method.verb(), self.url())
    }

    /// The same, only tried: where it is sent, and its body. Nothing is changed by it.
    pub fn as_trial(&self) -> (String, Value) {
        match self.method {
            CureMethod::Delete => {
                let mut options = self.body.clone();
                options["dryRun"] = json!(["All"]);
                (self.url(), options)
            }
            CureMethod::Patch => (format!("{}?dryRun=All", self.url()), self.body.clone()),
        }
    }

    /// Is it still to be made? `seen` is the object at its path; `None` when there is none.
    pub fn judge(&self, seen: Option<&Value>) -> RequestState {
        match self.method {
            CureMethod::Delete => {
                let uid = text(&self.body, "/preconditions/uid");
                if uid.is_empty() {
                    return RequestState::Outdated("the request names no UID".to_owned());
                }
                let is_it = |object: &&Value| text(object, "/metadata/uid") == uid;
                match seen.filter(is_it) {
                    Some(_) => RequestState::Due,
                    None => RequestState::Applied,
                }
            }
            CureMethod::Patch => match seen {
                Some(object) => self.judge_patch(object),
                None => RequestState::Outdated("it does not exist any more".to_owned()),
            },
        }
    }

    fn judge_patch(&self, object: &Value) -> RequestState {
        let operations = || self.body.as_array().into_iter().flatten();
        let is_test = |operation: &&Value| text(operation, "/op") == "test";
        let is_test_of_uid =
            |operation: &Value| is_test(&operation) && text(operation, "/path") == "/metadata/uid";
        if !operations().any(is_test_of_uid) {
            return RequestState::Outdated("the request names no UID".to_owned());
        }
        let is_other_object = operations().any(|operation| {
            text(operation, "/path") == "/metadata/uid" && !holds(operation, object)
        });
        if is_other_object {
            return RequestState::Outdated("it is another object of the same name".to_owned());
        }
        let mut changes = operations().filter(|operation| !is_test(operation));
        if changes.all(|operation| holds(operation, object)) {
            return RequestState::Applied;
        }
        let mut tests = operations().filter(is_test);
        match tests.find(|operation| !holds(operation, object)) {
            Some(other) => RequestState::Outdated(format!(
                "{} is no longer what was diagnosed",
                text(other, "/path")
            )),
            None => RequestState::Due,
        }
    }
}

/// Does the object have the value that this operation tests or writes? A value that is removed, or tested to be absent,
/// is null.
fn holds(operation: &Value, object: &Value) -> bool {
    let wanted = operation.pointer("/value").unwrap_or(&Value::Null);
    let seen = object.pointer(text(operation, "/path"));
    seen.unwrap_or(&Value::Null) == wanted
}
