//! Tests every row of the table, and properties that hold for all objects.

mod conditions;
mod needs;
mod table;
mod workloads;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::rules::RuleSet;

/// A cluster with exactly these observations.
#[derive(Default)]
struct World {
    objects: HashMap<ObjectRef, ObjectSeen>,
    kinds: HashMap<GroupKind, KindSeen>,
}

impl World {
    fn object(mut self, id: ObjectRef, seen: ObjectSeen) -> Self {
        self.objects.insert(id, seen);
        self
    }

    fn kind(mut self, kind: GroupKind, seen: KindSeen) -> Self {
        self.kinds.insert(kind, seen);
        self
    }
}

impl ObservedCluster for World {
    fn object(&self, object: &ObjectRef) -> &ObjectSeen {
        self.objects.get(object).unwrap_or(&ObjectSeen::NotAsked)
    }

    fn kind(&self, kind: &GroupKind) -> &KindSeen {
        self.kinds.get(kind).unwrap_or(&KindSeen::NotAsked)
    }
}

fn present(object: Value) -> ObjectSeen {
    ObjectSeen::Present(Arc::new(object))
}

/// `apps/Deployment` and `Pod` as kinds.
fn id(kind: &str) -> ObjectRef {
    let (group, kind) = kind.rsplit_once('/').unwrap_or(("", kind));
    ObjectRef::namespaced(group, kind, "ns", "name")
}

fn verdict(kind: &str, object: &Value, seen: &World) -> (Verdict, &'static str) {
    let judgement = judge(object, &id(kind), &RuleSet::default(), seen);
    assert!(!judgement.message.contains('\n'), "{judgement:?}");
    (judgement.verdict, judgement.reason)
}
