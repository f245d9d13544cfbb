//! Providers: the documents of a directory that declare or create objects, kinds and namespaces.

use std::collections::{HashMap, HashSet};

use smol_str::SmolStr;
use windrow_model::manifest::{GroupKind, ObjectRef};

use crate::examine::{Examined, ExaminedObject};
use crate::knowledge::{Brings, KnownBrings};
use crate::rules::NeedTarget;
use crate::{FileId, builtin};

/// A document: file and position in it.
pub(crate) type DocumentId = (FileId, usize);

/// The providers of each object, kind and namespace.
pub(crate) struct DeclarationIndex {
    pub(super) objects: HashMap<ObjectRef, Vec<DocumentId>>,
    kinds: HashMap<GroupKind, (DocumentId, bool)>,
    /// Documents whose controllers have known results.
    bringers: HashSet<DocumentId>,
    /// Their results that are written in the knowledge.
    written: BroughtIndex,
    /// Their results from earlier boots.
    learned: BroughtIndex,
}

/// The documents that provide each target.
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

    /// A provider for this document, of the same file if possible.
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
    /// The declarations and results of the files that `counts` admits.
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

    /// Whether the provider's controller exists. If the object's kind comes from elsewhere, its controller does too.
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

    /// Whether its controller has known results.
    pub(super) fn is_bringer(&self, place: DocumentId) -> bool {
        self.bringers.contains(&place)
    }

    /// A document that provides other kinds of this kind's group, of the same file if possible.
    pub(super) fn brings_group(&self, place: DocumentId, kind: &GroupKind) -> Option<DocumentId> {
        let known = [&self.written, &self.learned];
        let mut known = known.into_iter();
        known.find_map(|index| nearest(place, index.groups.get(&kind.group)?))
    }

    /// Whether objects of this kind are namespaced, according to Kubernetes or the set's own definitions.
    pub(super) fn scope_of(&self, kind: &GroupKind) -> Option<bool> {
        let defined = || self.kinds.get(kind).map(|(_, scope)| *scope);
        builtin::namespaced(kind).or_else(defined)
    }

    /// The reference with its namespace added or removed, if the set's own CustomResourceDefinitions tell its scope.
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

    /// The provider of a target for this document: a document that declares it, or else one with it among its written
    /// results, of the same file if possible. No object provides its own requirements.
    pub(super) fn provider_for(
        &self,
        place: DocumentId,
        target: &NeedTarget,
    ) -> Option<DocumentId> {
        let declared = self.provider(target);
        declared.or_else(|| self.written.nearest(place, target))
    }

    /// The provider of a target for this document in earlier boots.
    pub(super) fn learned_for(&self, place: DocumentId, target: &NeedTarget) -> Option<DocumentId> {
        self.learned.nearest(place, target)
    }

    pub(crate) fn provider(&self, target: &NeedTarget) -> Option<DocumentId> {
        match target {
            NeedTarget::Kind(kind) => self.kinds.get(kind).map(|(place, _)| *place),
            NeedTarget::Object(object) => {
                let object = self.scoped(object);
                let places = self.objects.get(&object).or_else(|| {
                    // The scope of the kind is unknown: its manifest may omit the namespace that a reference contains,
                    // or the other way round.
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

/// One of these documents (in ascending order) in the same file, or else the first; none provides its own requirements.
fn nearest(place: DocumentId, all: &[DocumentId]) -> Option<DocumentId> {
    let is_other = |other: &&DocumentId| **other != place;
    let here = all.partition_point(|other| other.0 < place.0);
    let of_this_file = all[here..].iter().take_while(|other| other.0 == place.0);
    let found = of_this_file.chain(all).find(is_other);
    found.copied()
}
