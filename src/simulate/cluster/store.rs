//! Where the objects are: found by their names, and by their kinds.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::objects::Stored;
use crate::manifest::{GroupKind, ObjectRef};

/// Every object. Its own order is that in which they came, which nobody sees.
#[derive(Debug, Clone, Default)]
pub(super) struct Store {
    /// A deleted one leaves its place to the next of its name.
    all: Vec<(ObjectRef, Option<Stored>)>,
    /// Places of names.
    names: HashTable<usize>,
    /// Places of the objects of a kind.
    kinds: foldhash::HashMap<GroupKind, Vec<usize>>,
    state: RandomState,
}

impl Store {
    /// With room for so many.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            all: Vec::with_capacity(count),
            names: HashTable::with_capacity(count),
            ..Self::default()
        }
    }

    pub(super) fn get(&self, id: &ObjectRef) -> Option<&Stored> {
        self.all[self.place(id)?].1.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: &ObjectRef) -> Option<&mut Stored> {
        let place = self.place(id)?;
        self.all[place].1.as_mut()
    }

    /// The place of an object, whether it is there or not.
    pub(super) fn slot(&mut self, id: &ObjectRef) -> &mut Option<Stored> {
        let place = match self.place(id) {
            Some(place) => place,
            None => self.add(id),
        };
        &mut self.all[place].1
    }

    pub(super) fn remove(&mut self, id: &ObjectRef) -> Option<Stored> {
        let place = self.place(id)?;
        self.all[place].1.take()
    }

    /// Every object.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectRef, &Stored)> {
        let all = self.all.iter();
        all.filter_map(|(id, stored)| Some((id, stored.as_ref()?)))
    }

    /// Every object of a kind.
    pub(super) fn of_kind(
        &self,
        kind: &GroupKind,
    ) -> impl Iterator<Item = (&ObjectRef, &Stored)> + use<'_> {
        let places = self.kinds.get(kind).into_iter().flatten();
        places.filter_map(|place| {
            let (id, stored) = &self.all[*place];
            Some((id, stored.as_ref()?))
        })
    }

    fn place(&self, id: &ObjectRef) -> Option<usize> {
        let is_it = |place: &usize| self.all[*place].0 == *id;
        self.names.find(self.state.hash_one(id), is_it).copied()
    }

    fn add(&mut self, id: &ObjectRef) -> usize {
        let place = self.all.len();
        self.all.push((id.clone(), None));
        let (all, state) = (&self.all, &self.state);
        let rehash = |place: &usize| state.hash_one(&all[*place].0);
        self.names.insert_unique(state.hash_one(id), place, rehash);
        self.kinds.entry(id.group_kind()).or_default().push(place);
        place
    }
}
