//! Verdicts on what is needed that were reached before: a rehearsal plays the same directory over and over, and
//! sees the same objects.

use std::sync::Arc;

use serde_json::Value;
use windrow_plan::readiness::{self, KindSeen, NeedState, ObjectSeen, Observed};
use windrow_plan::rules::{Condition, RuleSet, Target};
use windrow_plan::{Need, NeedId};

use super::needs;
use super::observation::Observation;
use crate::memo::Memo;

/// The verdicts on the needs of one plan, under one set of rules.
#[derive(Debug, Default)]
pub(super) struct Judged {
    known: Memo<(NeedId, Seen), Verdict>,
}

/// All that a verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Seen {
    NotAsked,
    NotServed,
    Absent,
    /// The object that stands there.
    Present(usize),
}

#[derive(Debug)]
struct Verdict {
    state: NeedState,
    /// Kept, so that nothing else comes to stand where it does.
    _object: Option<Arc<Value>>,
}

impl Judged {
    /// The state of a need, from what is known now.
    pub(super) fn judge(
        &self,
        id: NeedId,
        need: &Need,
        rules: &RuleSet,
        observation: &Observation,
    ) -> NeedState {
        let Some((seen, object)) = rests_on(need, observation) else {
            return needs::judge(need, rules, observation);
        };
        let key = (id, seen);
        if let Some(state) = self.known.get(&key, |verdict| verdict.state.clone()) {
            return state;
        }
        let state = needs::judge(need, rules, observation);
        let verdict = Verdict {
            state: state.clone(),
            _object: object.cloned(),
        };
        self.known.keep(key, verdict);
        state
    }
}

/// What the verdict rests on, where that is one thing and finding the verdict anew takes longer than asking for
/// it here.
fn rests_on<'o>(
    need: &Need,
    observation: &'o Observation,
) -> Option<(Seen, Option<&'o Arc<Value>>)> {
    let kind = |kind| match observation.kind(kind) {
        KindSeen::NotAsked => Some(Seen::NotAsked),
        KindSeen::NotServed => Some(Seen::NotServed),
        KindSeen::Served | KindSeen::Unknown { .. } => None,
    };
    let seen = match (&need.target, &need.condition) {
        (Target::Kind(target), _) => kind(target)?,
        (Target::Object(target), Condition::Served) => kind(&target.group_kind())?,
        (Target::Object(target), condition) => match observation.object(target) {
            ObjectSeen::Absent => Seen::Absent,
            ObjectSeen::NotAsked => match observation.kind(&target.group_kind()) {
                KindSeen::NotServed => Seen::NotServed,
                _ => Seen::NotAsked,
            },
            ObjectSeen::Present(object) => {
                let rests_on_it_alone = match condition {
                    Condition::Expression(_) => true,
                    Condition::Ready => !readiness::has_related(target),
                    Condition::Exists | Condition::Served => false,
                };
                let seen = Seen::Present(Arc::as_ptr(object).addr());
                return rests_on_it_alone.then_some((seen, Some(object)));
            }
            ObjectSeen::Done | ObjectSeen::Unknown { .. } => return None,
        },
    };
    Some((seen, None))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windrow_model::manifest::ObjectRef;
    use windrow_plan::rules::Expression;

    use super::*;

    #[test]
    fn what_was_judged_before_is_judged_as_it_would_be_anew() {
        let id = ObjectRef::namespaced("", "ConfigMap", "default", "a");
        let need = |condition| Need {
            target: Target::Object(id.clone()),
            condition,
        };
        let expression = Expression::compile("object.data.ready == 'yes'").unwrap();
        let all = [
            need(Condition::Expression(expression)),
            need(Condition::Exists),
            need(Condition::Ready),
            Need {
                target: Target::Kind(id.group_kind()),
                condition: Condition::Served,
            },
        ];
        let object = |ready: &str| {
            ObjectSeen::Present(Arc::new(
                json!({"kind": "ConfigMap", "data": {"ready": ready}}),
            ))
        };
        let why = || "403".to_owned();
        let (yes, no, yes_again) = (object("yes"), object("no"), object("yes"));
        let objects = [
            ObjectSeen::NotAsked,
            ObjectSeen::Absent,
            no,
            yes,
            ObjectSeen::Unknown { why: why() },
            yes_again,
            ObjectSeen::Done,
        ];
        let kinds = [
            KindSeen::NotAsked,
            KindSeen::NotServed,
            KindSeen::Served,
            KindSeen::Unknown { why: why() },
        ];
        let (judged, rules) = (Judged::default(), RuleSet::shipped());
        let mut seen = Observation::default();
        // The second time round all of it is known.
        for _ in 0..2 {
            for (object, kind) in objects
                .iter()
                .flat_map(|object| kinds.iter().map(move |kind| (object, kind)))
            {
                seen.objects.insert(id.clone(), object.clone());
                seen.kinds.insert(id.group_kind(), kind.clone());
                for (number, need) in all.iter().enumerate() {
                    assert_eq!(
                        judged.judge(number, need, &rules, &seen),
                        needs::judge(need, &rules, &seen),
                        "{need:?} with {object:?} and {kind:?}"
                    );
                }
            }
        }
        let known = judged.known.len();
        assert!(known > all.len() && known < 2 * objects.len() * kinds.len());
    }
}
