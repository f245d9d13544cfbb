//! Who brings what: the objects, kinds and namespaces that the documents of a directory declare or create.

use std::collections::{HashMap, HashSet};

use smol_str::SmolStr;
use windrow_model::manifest::{GroupKind, ObjectRef};

use crate::examine::{Examined, ExaminedObject};
use crate::knowledge::{Brings, KnownBrings};
use crate::rules::NeedTarget;
use crate::{FileId, builtin};

/// A document: file and position in it.
pub(crate) type DocumentId = (FileId, usize);

/// Which document declares or creates what.
pub(crate) struct DeclarationIndex {
    pub(super) objects: HashMap<ObjectRef, Vec<DocumentId>>,
    kinds: HashMap<GroupKind, (DocumentId, bool)>,
    /// Documents whose controllers are known to bring something.
    bringers: HashSet<DocumentId>,
    /// What is written that they bring.
    written: BroughtIndex,
    /// What was learned that they bring.
    learned: BroughtIndex,
}

/// Which documents bring what.
#[derive(Default)]
struct BroughtIndex {
    objects: HashMap<ObjectRef, Vec<DocumentId>>,
    kinds: HashMap<GroupKind, Vec<DocumentId>>,
    /// Groups, all of them or some kinds.
    groups: HashMap<SmolStr, Vec<DocumentId>>,
    whole_groups: HashMap<SmolStr, Vec<DocumentId>>,
}

impl BroughtIndex {
    fn add(&mut self, place: DocumentId, brings: &Brings) {
        for known in &brings.kinds {
            let (kind, group) = (known.kind.clone(), known.kind.group.clone());
            self.kinds.entry(kind).or_default().push(place);
            self.groups.entry(group).or_default().push(place);
        }
        for group in &brings.groups {
            let places = self.whole_groups.entry(group.clone());
            places.or_default().push(place);
        }
        for object in &brings.objects {
            let places = self.objects.entry(object.clone());
            places.or_default().push(place);
        }
    }

    /// Who brings something for this document, of the same file if it can be.
    fn nearest(&self, place: DocumentId, target: &NeedTarget) -> Option<DocumentId> {
        let all = match target {
            NeedTarget::Object(object) => self.objects.get(object)?,
            NeedTarget::Kind(kind) => {
                let exactly = self.kinds.get(kind);
                exactly.or_else(|| self.whole_groups.get(&kind.group))?
            }
        };
        nearest(place, all)
    }
}

impl DeclarationIndex {
    /// What the files that `counts` admits bring.
    pub(super) fn new(examined: &[&Examined], counts: fn(&Examined) -> bool) -> Self {
        let mut index = Self {
            objects: HashMap::new(),
            kinds: HashMap::new(),
            bringers: HashSet::new(),
            written: BroughtIndex::default(),
            learned: BroughtIndex::default(),
        };
        let counted = || examined.iter().enumerate().filter(|(_, one)| counts(one));
        for (file, one) in counted() {
            for (document, object) in one.objects.iter().enumerate() {
                if let Some((kind, namespaced)) = &object.serves {
                    index
                        .kinds
                        .entry(kind.clone())
                        .or_insert(((file, document), *namespaced));
                }
            }
        }
        for (file, one) in counted() {
            for (document, object) in one.objects.iter().enumerate() {
                if !object.is_name_generated {
                    let id = index.scoped(&object.object);
                    index.objects.entry(id).or_default().push((file, document));
                }
            }
        }
        let objects = || counted().flat_map(|(_, one)| &one.objects);
        let is_deployment =
            |one: &&ExaminedObject| one.object.group == "apps" && one.object.kind == "Deployment";
        let deployments = objects().filter(is_deployment);
        let deployments = deployments.map(|one| one.object.name.as_str()).collect();
        for (file, one) in counted() {
            for (document, object) in one.objects.iter().enumerate() {
                if let Some(known) = &object.brings
                    && index.has_its_controller(object, known, &deployments)
                {
                    index.add_bringer((file, document), known);
                }
            }
        }
        index
    }

    /// Is there what brings it? Where the object's kind comes from elsewhere, its controller does too.
    fn has_its_controller(
        &self,
        object: &ExaminedObject,
        known: &KnownBrings,
        deployments: &HashSet<&str>,
    ) -> bool {
        match &known.deployment {
            None => true,
            Some(deployment) => {
                deployments.contains(deployment.as_str())
                    || !self.kinds.contains_key(&object.object.group_kind())
            }
        }
    }

    fn add_bringer(&mut self, place: DocumentId, known: &KnownBrings) {
        self.bringers.insert(place);
        self.written.add(place, &known.brings);
        for one in &known.learned {
            self.learned.add(place, &one.brings);
        }
    }

    /// Does its controller bring something that is known?
    pub(super) fn is_bringer(&self, place: DocumentId) -> bool {
        self.bringers.contains(&place)
    }

    /// A document that brings other kinds of this kind's group, of the same file if it can be.
    pub(super) fn brings_group(&self, place: DocumentId, kind: &GroupKind) -> Option<DocumentId> {
        let known = [&self.written, &self.learned];
        let mut known = known.into_iter();
        known.find_map(|index| nearest(place, index.groups.get(&kind.group)?))
    }

    /// Do objects of this kind live in namespaces, as Kubernetes or the set's own definitions say?
    pub(super) fn scope_of(&self, kind: &GroupKind) -> Option<bool> {
        let defined = || self.kinds.get(kind).map(|(_, scope)| *scope);
        builtin::namespaced(kind).or_else(defined)
    }

    /// The reference with its namespace filled in or taken away, where the set's own
    /// CustomResourceDefinitions say which.
    pub(super) fn scoped(&self, object: &ObjectRef) -> ObjectRef {
        let mut object = object.clone();
        match self.scope_of(&object.group_kind()) {
            Some(true) => {
                object.namespace.get_or_insert_with(|| "default".into());
            }
            Some(false) => object.namespace = None,
            None => {}
        }
        object
    }

    /// Who brings something for this document: what declares it, or else what is written to bring it, of
    /// the same file if it can be. No object brings what it needs itself.
    pub(super) fn provider_for(
        &self,
        place: DocumentId,
        target: &NeedTarget,
    ) -> Option<DocumentId> {
        let declared = self.provider(target);
        declared.or_else(|| self.written.nearest(place, target))
    }

    /// Who brought something for this document in earlier boots.
    pub(super) fn learned_for(&self, place: DocumentId, target: &NeedTarget) -> Option<DocumentId> {
        self.learned.nearest(place, target)
    }

    pub(crate) fn provider(&self, target: &NeedTarget) -> Option<DocumentId> {
        match target {
            NeedTarget::Kind(kind) => self.kinds.get(kind).map(|(place, _)| *place),
            NeedTarget::Object(object) => {
                let object = self.scoped(object);
                let places = self.objects.get(&object).or_else(|| {
                    // Whether the kind has namespaces is not known: its manifest may leave out the
                    // namespace that a reference spells, or the other way round.
                    let mut other = object.clone();
                    other.namespace = match other.namespace.as_deref() {
                        Some("default") => None,
                        None => Some("default".into()),
                        Some(_) => return None,
                    };
                    self.objects.get(&other)
                });
                places.and_then(|places| places.first().copied())
            }
        }
    }
}

/// Of these documents, in ascending order, one of the same file, or else the first; none brings what it needs itself.
fn nearest(place: DocumentId, all: &[DocumentId]) -> Option<DocumentId> {
    let is_other = |other: &&DocumentId| **other != place;
    let here = all.partition_point(|other| other.0 < place.0);
    let of_this_file = all[here..].iter().take_while(|other| other.0 == place.0);
    let found = of_this_file.chain(all).find(is_other);
    found.copied()
}
