//! Where the objects are: found by their names, and by their kinds.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use windrow_model::manifest::{GroupKind, ObjectRef};

use super::objects::Stored;

/// Where an object has its place as long as the cluster is there, whether it is deleted meanwhile or not: it stands
/// for its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(usize);

/// Every object. Its own order is that in which they came, which nobody sees.
#[derive(Debug, Clone, Default)]
pub(super) struct Store {
    /// A deleted one leaves its place to the next of its name.
    all: Vec<(ObjectRef, Option<Stored>)>,
    /// Places of names.
    names: HashTable<Place>,
    /// Places of the objects of a kind.
    kinds: foldhash::HashMap<GroupKind, Vec<Place>>,
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
        self.at(self.place(id)?)
    }

    /// What is at a place.
    pub(super) fn at(&self, place: Place) -> Option<&Stored> {
        self.all[place.0].1.as_ref()
    }

    pub(super) fn at_mut(&mut self, place: Place) -> Option<&mut Stored> {
        self.all[place.0].1.as_mut()
    }

    /// Whose place it is.
    pub(super) fn name(&self, place: Place) -> &ObjectRef {
        &self.all[place.0].0
    }

    /// The same, whether anything is there or not.
    pub(super) fn slot(&mut self, place: Place) -> &mut Option<Stored> {
        &mut self.all[place.0].1
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<Stored> {
        self.all[place.0].1.take()
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
            let (id, stored) = &self.all[place.0];
            Some((id, stored.as_ref()?))
        })
    }

    /// The place of an object that is there, or was.
    pub(super) fn place(&self, id: &ObjectRef) -> Option<Place> {
        let is_it = |place: &Place| self.all[place.0].0 == *id;
        self.names.find(self.state.hash_one(id), is_it).copied()
    }

    /// A place for one that has none.
    pub(super) fn add(&mut self, id: ObjectRef) -> Place {
        let place = Place(self.all.len());
        let (hash, kind) = (self.state.hash_one(&id), id.group_kind());
        self.all.push((id, None));
        let (all, state) = (&self.all, &self.state);
        let rehash = |place: &Place| state.hash_one(&all[place.0].0);
        self.names.insert_unique(hash, place, rehash);
        self.kinds.entry(kind).or_default().push(place);
        place
    }
}
