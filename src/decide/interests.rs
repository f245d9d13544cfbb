//! What has to be watched in the cluster: what unfinished files need, what a rule or a person asked for
//! though its file is finished (it may regress), and what a verdict on any of these rests on.

use std::collections::BTreeMap;

use super::ledger::{Entry, Ledger, State};
use super::library::Planned;
use super::observation::{Detail, Interests, Observation};
use crate::manifest::ObjectRef;
use crate::plan::PlanFile;
use crate::readiness::{self, ObjectSeen, Observed};
use crate::rules::{Condition, Target};

/// Of the cluster; the node's probes are for whoever knows the settings.
pub(super) fn of(planned: &Planned, ledger: &Ledger, seen: &Observation) -> Interests {
    let Planned { plan, lookup, .. } = planned;
    // Many objects share a need.
    let mut wanted = vec![false; plan.needs.len()];
    debug_assert!(plan.files.is_sorted_by(|a, b| a.path < b.path));
    let mut entries = ledger.files.iter().peekable();
    for (id, file) in plan.files.iter().enumerate() {
        let path = file.path.as_str();
        while entries
            .next_if(|(other, _)| other.as_str() < path)
            .is_some()
        {}
        let entry = entries.next_if(|(other, _)| other.as_str() == path);
        let wants = lookup.wants_of(id);
        let needs = match entry.is_some_and(|(_, entry)| finished(file, entry)) {
            true => &wants.regress,
            false => &wants.all,
        };
        for need in needs {
            wanted[*need] = true;
        }
    }
    let mut interests = Interests::default();
    let mut objects: Vec<(ObjectRef, Detail)> = Vec::with_capacity(plan.needs.len());
    for id in lookup.needs_in_order().filter(|id| wanted[*id]) {
        let need = &plan.needs[id];
        let object = match &need.target {
            Target::Kind(kind) => {
                interests.kinds.insert(kind.clone());
                continue;
            }
            Target::Object(object) => object,
        };
        let detail = match need.condition {
            Condition::Exists | Condition::Served => Detail::Metadata,
            Condition::Ready | Condition::Expression(_) => Detail::Full,
        };
        objects.push((object.clone(), detail));
        if detail == Detail::Full
            && readiness::has_related(object)
            && let ObjectSeen::Present(value) = seen.object(object)
        {
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

/// Is this content of the file applied?
fn finished(file: &PlanFile, entry: &Entry) -> bool {
    entry.digest == file.digest && matches!(entry.state, State::Applied { .. })
}
