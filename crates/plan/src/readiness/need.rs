//! Decides whether a requirement of a document is met, from its target, its condition and the observations.

use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_model::reasons::Code;

use super::judge::{is_terminating, judge};
use super::{KindSeen, ObjectSeen, ObservedCluster, Verdict};
use crate::rules::{NeedCondition, NeedTarget, RuleSet};

/// The message about a requirement until the first answer.
pub(super) const BEING_ASKED: &str = "kube-apiserver is being asked";

/// The state of a requirement. Only `Met` means yes; `Unknown` means neither yes nor no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeedState {
    /// The target exists in the required state.
    Met,
    /// The target is not in this state, but may reach it.
    NotYet {
        /// The code of the reason for holding the document.
        code: Code,
        /// One line for users. Empty if the expression of a rule is plainly false, because the reason of the rule then says
        /// everything.
        message: String,
    },
    /// The target was not requested, or there is no usable answer.
    Unknown {
        /// The unknown fact and the reason.
        message: String,
    },
    /// The target exists and has failed, and it cannot recover without a repair.
    Failed {
        /// The failure and its reason.
        message: String,
    },
}

/// Whether `target` is in the state of `condition`.
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
        // No object of an unserved kind can exist, so this is the better reason.
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
        // An object in deletion counts as gone: a namespace that is being deleted rejects new objects.
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
