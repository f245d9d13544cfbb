//! An entry of `status.conditions`, as in `metav1.Condition`. Rancher, Harvester and the kubelet have times under other names.

use jiff::Timestamp;
use serde_json::Value;

/// One condition. A text that is absent or of another type is empty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition<'o> {
    pub name: &'o str,
    /// `True`, `False` or `Unknown`.
    pub status: &'o str,
    /// One word in CamelCase.
    pub reason: &'o str,
    /// One or more sentences.
    pub message: &'o str,
    json: &'o Value,
}

impl<'o> Condition<'o> {
    fn read(json: &'o Value) -> Self {
        let text = |field: &str| json[field].as_str().unwrap_or_default();
        Self {
            name: text("type"),
            status: text("status"),
            reason: text("reason"),
            message: text("message"),
            json,
        }
    }

    pub fn all(object: &'o Value) -> impl Iterator<Item = Self> {
        Self::in_status(&object["status"])
    }

    /// The conditions of a status: some objects have several.
    pub fn in_status(status: &'o Value) -> impl Iterator<Item = Self> {
        let conditions = status["conditions"].as_array();
        conditions.into_iter().flatten().map(Self::read)
    }

    pub fn of(object: &'o Value, name: &str) -> Option<Self> {
        Self::all(object).find(|condition| condition.name == name)
    }

    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    pub fn is_false(&self) -> bool {
        self.status == "False"
    }

    /// The value of another text field.
    pub fn text(&self, field: &str) -> &'o str {
        self.json[field].as_str().unwrap_or_default()
    }

    pub fn time(&self, field: &str) -> Option<Timestamp> {
        self.text(field).parse().ok()
    }

    /// The time of the last change. Rancher and Harvester write `lastUpdateTime`, Kubernetes `lastTransitionTime`.
    pub fn since(&self) -> Option<Timestamp> {
        self.time("lastTransitionTime")
            .max(self.time("lastUpdateTime"))
    }

    /// Reason and message, if present: `KubeletNotReady: cni plugin not initialized`.
    pub fn words(&self) -> String {
        match (self.reason.trim(), self.message.trim()) {
            ("", words) | (words, "") => words.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    }

    pub fn json(&self) -> &'o Value {
        self.json
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_found_by_its_type_and_what_it_lacks_is_empty() {
        let object = json!({"status": {"conditions": [
            {"type": "Ready", "status": "False", "reason": " NotReady ", "message": "no CNI\n",
             "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-02T00:00:00Z"},
            {"type": "Initialized", "status": "True", "message": 7, "lastTransitionTime": "soon"},
        ]}});
        let ready = Condition::of(&object, "Ready").unwrap();
        assert!(ready.is_false() && !ready.is_true());
        assert_eq!(ready.words(), "NotReady: no CNI");
        assert_eq!(ready.since(), "2026-01-02T00:00:00Z".parse().ok());
        let initialized = Condition::of(&object, "Initialized").unwrap();
        assert!(initialized.is_true());
        assert_eq!(
            (initialized.words(), initialized.since()),
            (String::new(), None)
        );
        assert_eq!(Condition::of(&object, "Stalled"), None);
        for other in [
            json!({}),
            json!(null),
            json!({"status": {"conditions": "none"}}),
        ] {
            assert_eq!(Condition::all(&other).count(), 0);
        }
    }
}
