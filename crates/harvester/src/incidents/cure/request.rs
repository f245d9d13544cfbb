//! A request to kube-apiserver, and its expected result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::objects::text;

/// A request to kube-apiserver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CureRequest {
    /// Method.
    pub method: CureMethod,
    /// Path of the object.
    pub path: String,
    /// Subresource of the object that is changed: `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// Body of the request.
    pub body: Value,
}

/// Action on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CureMethod {
    /// Deletes it.
    #[serde(rename = "DELETE")]
    Delete,
    /// Changes it, if it is unchanged since the diagnosis (a JSON patch).
    #[serde(rename = "PATCH json")]
    Patch,
}

impl CureMethod {
    pub fn verb(self) -> &'static str {
        match self {
            CureMethod::Delete => "DELETE",
            CureMethod::Patch => "PATCH",
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            CureMethod::Delete => "application/json",
            CureMethod::Patch => "application/json-patch+json",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestState {
    /// The object is as the request expects it.
    Due,
    /// The object is already in the state after the request.
    Applied,
    /// Neither; with the reason in one line.
    Outdated(String),
}

impl CureRequest {
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

    pub fn url(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.path),
            None => self.path.clone(),
        }
    }

    pub fn say(&self) -> String {
        format!("{} {}", self.method.verb(), self.url())
    }

    /// The request as a dry run, which changes nothing: its URL and its body.
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

    /// Whether the request is still due. `seen` is the object at its path; `None` if it does not exist.
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
                "{} has changed since the diagnosis",
                text(other, "/path")
            )),
            None => RequestState::Due,
        }
    }
}

/// Whether the object has the value that this operation tests or writes. A removed value, and a test for absence, count as null.
fn holds(operation: &Value, object: &Value) -> bool {
    let wanted = operation.pointer("/value").unwrap_or(&Value::Null);
    let seen = object.pointer(text(operation, "/path"));
    seen.unwrap_or(&Value::Null) == wanted
}
