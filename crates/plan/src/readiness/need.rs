//! Is what a document needs there? A target, a condition, and what was observed.

use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_model::reasons::Code;

use super::judge::{is_terminating, judge};
use super::{KindSeen, ObjectSeen, ObservedCluster, Verdict};
use crate::rules::{NeedCondition, NeedTarget, RuleSet};

/// What is said of something that has to be known, as long as there was no answer at all.
pub(super) const BEING_ASKED: &str = "kube-apiserver is being asked";

/// The answer. Only `Met` is a yes; `Unknown` is neither a yes nor a no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeedState {
    /// It is there, in the state that is needed.
    Met,
    /// It is not, and may come.
    NotYet {
        /// Which of the reasons for holding it is.
        code: Code,
        /// One line for people; empty when a rule's expression is plainly not true, to which the
        /// rule's own reason says all.
        message: String,
    },
    /// It was not asked for, or there was no usable answer.
    Unknown {
        /// What is not known and why.
        message: String,
    },
    /// It is there and failed: it will not come by itself.
    Failed {
        /// What failed and why.
        message: String,
    },
}

/// Is `target` in the state that `condition` names?
pub fn holds(
    target: &NeedTarget,
    condition: &NeedCondition,
    rules: &RuleSet,
    seen: &dyn ObservedCluster,
) -> NeedState {
    match (target, condition) {
        (NeedTarget::Kind(kind), _) => served(kind, seen),
        (NeedTarget::Object(id), NeedCondition::Served) => served(&id.group_kind(), seen),
        (NeedTarget::Object(id), _) => object(id, condition, rules, seen),
    }
}

fn served(kind: &GroupKind, seen: &dyn ObservedCluster) -> NeedState {
    match seen.kind(kind) {
        KindSeen::Served { .. } => NeedState::Met,
        KindSeen::NotServed => not_served(kind),
        KindSeen::NotAsked => NeedState::Unknown {
            message: format!("the kind {kind}: {BEING_ASKED}"),
        },
        KindSeen::Unknown { why } => NeedState::Unknown {
            message: format!("the kind {kind}: {why}"),
        },
    }
}

fn not_served(kind: &GroupKind) -> NeedState {
    NeedState::NotYet {
        code: Code::WaitsForKind,
        message: Code::WaitsForKind.say(&[("what", &format!("the kind {kind}"))]),
    }
}

fn object(
    id: &ObjectRef,
    condition: &NeedCondition,
    rules: &RuleSet,
    seen: &dyn ObservedCluster,
) -> NeedState {
    let kind = id.group_kind();
    match seen.object(id) {
        // Nothing of a kind can exist that is not served: that is the better reason.
        ObjectSeen::NotAsked | ObjectSeen::Unknown { .. }
            if *seen.kind(&kind) == KindSeen::NotServed =>
        {
            not_served(&kind)
        }
        ObjectSeen::NotAsked => NeedState::Unknown {
            message: format!("{id}: {BEING_ASKED}"),
        },
        ObjectSeen::Unknown { why } => NeedState::Unknown {
            message: format!("{id}: {why}"),
        },
        ObjectSeen::Absent => {
            let code = match (id.group.as_str(), id.kind.as_str()) {
                ("", "Namespace") => Code::WaitsForNamespace,
                _ => Code::WaitsForObject,
            };
            NeedState::NotYet {
                code,
                message: code.say(&[("what", &id.to_string())]),
            }
        }
        ObjectSeen::Done => NeedState::Met,
        ObjectSeen::Present(found) => present(id, found, condition, rules, seen),
    }
}

fn present(
    id: &ObjectRef,
    found: &serde_json::Value,
    condition: &NeedCondition,
    rules: &RuleSet,
    seen: &dyn ObservedCluster,
) -> NeedState {
    match condition {
        // What is being deleted is as good as gone: a namespace on its way out refuses objects.
        _ if is_terminating(found) => NeedState::NotYet {
            code: Code::WaitsForReady,
            message: format!("{id} is being deleted"),
        },
        NeedCondition::Exists | NeedCondition::Served => NeedState::Met,
        NeedCondition::Ready => {
            let judgement = judge(found, id, rules, seen);
            let message = || format!("{id}: {}", judgement.message);
            match judgement.verdict {
                Verdict::Ready => NeedState::Met,
                Verdict::Progressing => NeedState::NotYet {
                    code: Code::WaitsForReady,
                    message: message(),
                },
                Verdict::Failed => NeedState::Failed { message: message() },
                Verdict::Unknown => NeedState::Unknown { message: message() },
            }
        }
        NeedCondition::Expression(expression) => {
            let message = match expression.holds(found) {
                Ok(true) => return NeedState::Met,
                Ok(false) => String::new(),
                Err(error) => format!("{id}: `{}`: {error}", expression.source()),
            };
            NeedState::NotYet {
                code: Code::WaitsForCondition,
                message,
            }
        }
    }
}
