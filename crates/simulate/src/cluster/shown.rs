//! Objects as a watch shows them, and what they are made of, put together once for all bootstraps of one
//! rehearsal: most of it is the same in each.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;
use windrow_decide::Detail;
use windrow_decide::memo::Memo;
use windrow_model::manifest::ObjectRef;

use super::objects::Stored;

/// What was put together. Bootstraps that are played at the same time share it.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    known: Memo<Key, Parts>,
    named: Memo<(&'static str, SmolStr), Arc<Value>>,
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

impl Shown {
    /// JSON that rests on a name alone, and on what it is for.
    pub(crate) fn named(
        &self,
        purpose: &'static str,
        name: &SmolStr,
        make: impl Fn() -> Value,
    ) -> Arc<Value> {
        let key = (purpose, name.clone());
        if let Some(json) = self.named.get(&key, Arc::clone) {
            debug_assert_eq!(*json, make(), "{purpose} of {name}");
            return json;
        }
        let json = Arc::new(make());
        self.named.keep(key, Arc::clone(&json));
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
        if let Some(whole) = self.known.get(&key, |parts| Arc::clone(&parts.whole)) {
            debug_assert_eq!(*whole, stored.shown(id, detail), "of {id}");
            return whole;
        }
        let whole = Arc::new(stored.shown(id, detail));
        let parts = Parts {
            _body: Arc::clone(&stored.body),
            _status: stored.status.clone(),
            whole: Arc::clone(&whole),
        };
        self.known.keep(key, parts);
        whole
    }
}
