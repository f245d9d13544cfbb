//! Objects as a watch shows them, and what they are made of, put together once for all bootstraps of one
//! rehearsal: most of it is the same in each.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use smol_str::SmolStr;

use super::objects::Stored;
use crate::decide::Detail;
use crate::manifest::ObjectRef;

/// What was put together. Bootstraps that are played at the same time share it.
#[derive(Debug, Default)]
pub(in crate::simulate) struct Shown {
    known: RwLock<foldhash::HashMap<Key, Parts>>,
    named: RwLock<foldhash::HashMap<(&'static str, SmolStr), Arc<Value>>>,
}

/// Of one name there are many objects, of the same parts and generation one.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    id: ObjectRef,
    /// Where the parts are. They stay there as long as they stand beside the whole.
    body: usize,
    status: usize,
    generation: u64,
    detail: Detail,
}

/// Hardly two objects are of the same parts.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.body, self.status, self.generation, self.detail).hash(state);
    }
}

#[derive(Debug)]
struct Parts {
    _body: Arc<Value>,
    _status: Option<Arc<Value>>,
    whole: Arc<Value>,
}

/// No more than this is kept.
const MOST: usize = 1 << 14;

impl Shown {
    /// JSON that rests on a name alone, and on what it is for.
    pub(in crate::simulate) fn named(
        &self,
        purpose: &'static str,
        name: &SmolStr,
        make: impl Fn() -> Value,
    ) -> Arc<Value> {
        let key = (purpose, name.clone());
        let known = self.named.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(json) = known.get(&key) {
            debug_assert_eq!(**json, make(), "{purpose} of {name}");
            return Arc::clone(json);
        }
        let is_full = known.len() >= MOST;
        drop(known);
        let json = Arc::new(make());
        if !is_full {
            let mut known = self.named.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(key, Arc::clone(&json));
        }
        json
    }

    /// An object as a watch shows it.
    pub(super) fn of(&self, id: &ObjectRef, stored: &Stored, detail: Detail) -> Arc<Value> {
        // What somebody else has in hand as well is likely to come again.
        let is_shared = |part: &Arc<Value>| Arc::strong_count(part) > 1;
        if !is_shared(&stored.body) || !stored.status.as_ref().is_none_or(is_shared) {
            return Arc::new(stored.shown(id, detail));
        }
        let place = |part: &Arc<Value>| Arc::as_ptr(part).addr();
        let key = Key {
            id: id.clone(),
            body: place(&stored.body),
            status: stored.status.as_ref().map_or(0, place),
            generation: stored.generation,
            detail,
        };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(parts) = known.get(&key) {
            debug_assert_eq!(*parts.whole, stored.shown(id, detail), "of {id}");
            return Arc::clone(&parts.whole);
        }
        let is_full = known.len() >= MOST;
        drop(known);
        let whole = Arc::new(stored.shown(id, detail));
        if !is_full {
            let parts = Parts {
                _body: Arc::clone(&stored.body),
                _status: stored.status.clone(),
                whole: Arc::clone(&whole),
            };
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(key, parts);
        }
        whole
    }
}
