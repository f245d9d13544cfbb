//! What has to be watched in the cluster: what unfinished files need, what a rule or a person asked for
//! though its file is finished (it may regress), and what a verdict on any of these rests on.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;
use windrow_model::manifest::ObjectRef;
use windrow_plan::readiness::{self, ObjectSeen, Observed};
use windrow_plan::rules::{Condition, Target};
use windrow_plan::{Need, NeedId, Plan, PlanFile};

use super::ids::Ids;
use super::ledger::{Entry, Ledger, State};
use super::library::Planned;
use super::observation::{Detail, Interests, Observation, ProbeInterest};
use crate::memo::Memo;

/// What has to be watched; `entries` is what the ledger says of each file of the plan.
pub(super) fn of<'e>(
    planned: &Planned,
    entries: impl Iterator<Item = Option<&'e Entry>>,
    seen: &Observation,
    probes: Option<ProbeInterest>,
) -> Arc<Interests> {
    let wanted = wanted(planned, entries);
    match &planned.asked {
        Some(asked) => asked.of(planned, wanted, seen, probes),
        None => Arc::new(interests(planned, &wanted, seen, probes)),
    }
}

/// What the ledger says of each file of a plan.
pub(super) fn entries<'l>(
    plan: &Plan,
    ledger: &'l Ledger,
) -> impl Iterator<Item = Option<&'l Entry>> {
    debug_assert!(plan.files.is_sorted_by(|a, b| a.path < b.path));
    let mut entries = ledger.files.iter().peekable();
    plan.files.iter().map(move |file| {
        let path = file.path.as_str();
        while entries
            .next_if(|(other, _)| other.as_str() < path)
            .is_some()
        {}
        let entry = entries.next_if(|(other, _)| other.as_str() == path);
        entry.map(|(_, entry)| &**entry)
    })
}

/// The needs that have to be watched. Many files share one.
fn wanted<'e>(planned: &Planned, entries: impl Iterator<Item = Option<&'e Entry>>) -> Ids {
    let Planned { plan, lookup, .. } = planned;
    let mut wanted = Ids::default();
    for (id, (file, entry)) in plan.files.iter().zip(entries).enumerate() {
        let wants = lookup.wants_of(id);
        wanted.extend(match entry.is_some_and(|entry| finished(file, entry)) {
            true => &wants.regress,
            false => &wants.all,
        });
    }
    wanted
}

fn interests(
    planned: &Planned,
    wanted: &Ids,
    seen: &Observation,
    probes: Option<ProbeInterest>,
) -> Interests {
    let Planned { plan, lookup, .. } = planned;
    let mut interests = Interests {
        probes,
        ..Interests::default()
    };
    let mut objects: Vec<(ObjectRef, Detail)> = Vec::with_capacity(plan.needs.len());
    for id in lookup.needs_in_order().filter(|id| wanted.contains(*id)) {
        let need = &plan.needs[id];
        let object = match &need.target {
            Target::Kind(kind) => {
                interests.kinds.insert(kind.clone());
                continue;
            }
            Target::Object(object) => object,
        };
        objects.push((object.clone(), detail(need)));
        if let Some(value) = rests_on_more(need, seen) {
            let related = readiness::related(object, value);
            interests.kinds.extend(related.kinds);
            let related = related.objects.into_iter();
            objects.extend(related.map(|object| (object, Detail::Full)));
        }
    }
    // Of what is wanted twice the most counts, which is the last.
    if !objects.is_sorted() {
        objects.sort_unstable();
    }
    interests.objects = BTreeMap::from_iter(objects);
    interests
}

fn detail(need: &Need) -> Detail {
    match need.condition {
        Condition::Exists | Condition::Served => Detail::Metadata,
        Condition::Ready | Condition::Expression(_) => Detail::Full,
    }
}

/// May what is needed rest on more than itself, once it is seen?
pub(super) fn relates(need: &Need) -> bool {
    let Target::Object(object) = &need.target else {
        return false;
    };
    detail(need) == Detail::Full && readiness::has_related(object)
}

/// What is needed and rests on more than itself, where it is there.
fn rests_on_more<'o>(need: &Need, seen: &'o Observation) -> Option<&'o Arc<Value>> {
    let Target::Object(object) = &need.target else {
        return None;
    };
    match relates(need).then(|| seen.object(object)) {
        Some(ObjectSeen::Present(value)) => Some(value),
        _ => None,
    }
}

/// Is this content of the file applied?
fn finished(file: &PlanFile, entry: &Entry) -> bool {
    entry.digest == file.digest && matches!(entry.state, State::Applied { .. })
}

/// What had to be watched for the files of one plan before: a rehearsal plays the same directory over and over.
#[derive(Debug, Default)]
pub(super) struct Asked {
    known: Memo<Key, Kept>,
}

/// All that it rests on.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    wanted: Ids,
    probes: Option<ProbeInterest>,
    /// Objects that rest on others, and where they stand.
    objects: Vec<(NeedId, usize)>,
}

/// Probes hardly differ.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.wanted.hash(state);
        self.objects.hash(state);
    }
}

#[derive(Debug)]
struct Kept {
    interests: Arc<Interests>,
    /// So that nothing else comes to stand where they do.
    _objects: Vec<Arc<Value>>,
}

impl Asked {
    fn of(
        &self,
        planned: &Planned,
        wanted: Ids,
        seen: &Observation,
        probes: Option<ProbeInterest>,
    ) -> Arc<Interests> {
        let Planned { plan, lookup, .. } = planned;
        let value = |id: NeedId| rests_on_more(&plan.needs[id], seen);
        let objects = (lookup.relating().iter())
            .filter(|id| wanted.contains(**id))
            .filter_map(|id| Some((*id, Arc::as_ptr(value(*id)?).addr())))
            .collect();
        let key = Key {
            wanted,
            probes,
            objects,
        };
        let anew = || interests(planned, &key.wanted, seen, key.probes.clone());
        if let Some(known) = self.known.get(&key, |kept| Arc::clone(&kept.interests)) {
            debug_assert_eq!(*known, anew());
            return known;
        }
        let interests = Arc::new(anew());
        let objects = key.objects.iter();
        let kept = Kept {
            interests: Arc::clone(&interests),
            _objects: objects.filter_map(|(id, _)| value(*id).cloned()).collect(),
        };
        self.known.keep(key, kept);
        interests
    }
}
