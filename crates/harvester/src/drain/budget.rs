//! A PodDisruptionBudget, as the eviction API reads it (`pkg/registry/core/pod/storage/eviction.go`).

use serde_json::Value;
use windrow_model::object::LabelSelector;

use crate::objects::{Condition, named, text};
use crate::schedule::SchedulerPod;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DisruptionBudget {
    pub(super) namespace: String,
    /// `namespace/name`.
    pub(super) id: String,
    selector: Option<LabelSelector>,
    /// The rule in words (`minAvailable 1`).
    pub(super) rule: String,
    /// Can unhealthy pods always be evicted?
    pub(super) always_lets_unhealthy_go: bool,
    /// The count by its controller, or the reason for a missing one.
    pub(super) count: Result<Count, Uncounted>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    /// How many pods there should be.
    pub(super) expected: i64,
    /// How many must be healthy.
    pub(super) desired: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Uncounted {
    /// The controller has not counted yet.
    NotYet(String),
    /// The controller cannot count, and allows nothing until that changes.
    Never(String),
}

impl DisruptionBudget {
    pub(super) fn parse(object: &Value) -> Result<Self, String> {
        let id = named(object);
        let selector = LabelSelector::parse(object.pointer("/spec/selector"))
            .map_err(|why| format!("PodDisruptionBudget {id}: {why}"))?;
        let bound = |pointer: &str| match object.pointer(pointer) {
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(Value::String(percent)) => Some(percent.clone()),
            _ => None,
        };
        let rule = match (bound("/spec/minAvailable"), bound("/spec/maxUnavailable")) {
            (Some(least), _) => format!("minAvailable {least}"),
            (None, Some(most)) => format!("maxUnavailable {most}"),
            (None, None) => "no bound".to_owned(),
        };
        Ok(Self {
            namespace: text(object, "/metadata/namespace").to_owned(),
            selector,
            rule,
            always_lets_unhealthy_go: text(object, "/spec/unhealthyPodEvictionPolicy")
                == "AlwaysAllow",
            count: count(object),
            id,
        })
    }

    /// Does the budget select this pod?
    pub(super) fn covers(&self, pod: &SchedulerPod) -> bool {
        self.namespace == pod.namespace
            && self
                .selector
                .as_ref()
                .is_some_and(|selector| selector.matches(&pod.labels))
    }
}

fn count(object: &Value) -> Result<Count, Uncounted> {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    if let Some(failed) = Condition::of(object, "DisruptionAllowed")
        && failed.reason == "SyncFailed"
    {
        return Err(Uncounted::Never(failed.message.to_owned()));
    }
    let seen = number("/status/observedGeneration").unwrap_or_default();
    if seen < number("/metadata/generation").unwrap_or_default() {
        let why = "the disruption controller has not processed it since the last change";
        return Err(Uncounted::NotYet(why.to_owned()));
    }
    match (
        number("/status/expectedPods"),
        number("/status/desiredHealthy"),
    ) {
        (Some(expected), Some(desired)) => Ok(Count { expected, desired }),
        _ => Err(Uncounted::NotYet("it has no status yet".to_owned())),
    }
}
