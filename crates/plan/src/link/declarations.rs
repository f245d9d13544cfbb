//! Who brings what: the objects, kinds and namespaces that the documents of a directory declare or create.

use std::collections::HashMap;

use windrow_model::manifest::{GroupKind, ObjectRef};

use crate::examine::Examined;
use crate::rules::NeedTarget;
use crate::{FileId, builtin};

/// A document: file and position in it.
pub(crate) type DocumentId = (FileId, usize);

/// Which document declares or creates what.
pub(crate) struct DeclarationIndex {
    pub(super) objects: HashMap<ObjectRef, Vec<DocumentId>>,
    kinds: HashMap<GroupKind, (DocumentId, bool)>,
    /// Namespaces that charts create.
    created: HashMap<ObjectRef, Vec<DocumentId>>,
}

impl DeclarationIndex {
    /// What the files that `counts` admits bring.
    pub(super) fn new(examined: &[&Examined], counts: fn(&Examined) -> bool) -> Self {
        let mut index = Self {
            objects: HashMap::new(),
            kinds: HashMap::new(),
            created: HashMap::new(),
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
                if let Some(namespace) = &object.creates {
                    let creators = index.created.entry(namespace.clone()).or_default();
                    creators.push((file, document));
                }
            }
        }
        index
    }

    /// The reference with its namespace filled in or taken away, where the set's own
    /// CustomResourceDefinitions say which.
    pub(super) fn scoped(&self, object: &ObjectRef) -> ObjectRef {
        let mut object = object.clone();
        let namespaced = builtin::namespaced(&object.group_kind()).or_else(|| {
            self.kinds
                .get(&object.group_kind())
                .map(|(_, scope)| *scope)
        });
        match namespaced {
            Some(true) => {
                object.namespace.get_or_insert_with(|| "default".into());
            }
            Some(false) => object.namespace = None,
            None => {}
        }
        object
    }

    /// Who brings something for this document: what declares it, or else a chart that creates it, of
    /// the same file if it can be. No object creates the namespace that it needs itself.
    pub(super) fn provider_for(
        &self,
        place: DocumentId,
        target: &NeedTarget,
    ) -> Option<DocumentId> {
        self.provider(target).or_else(|| {
            let NeedTarget::Object(object) = target else {
                return None;
            };
            let creators = self.created.get(object)?.iter();
            creators
                .filter(|creator| **creator != place)
                .min_by_key(|creator| creator.0 != place.0)
                .copied()
        })
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
