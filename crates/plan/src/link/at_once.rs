//! Which requirements are met as soon as RKE2 has applied the file that brings what is needed, or shortly after.

use super::declarations::DocumentId;
use super::linker::Linker;
use crate::examine::{ExaminedObject, UnresolvedRequirement};
use crate::installer::Installing;
use crate::pass::is_namespace;
use crate::rules::{NeedCondition, NeedTarget, Tier};
use crate::{SlowEffect, builtin};

impl Linker<'_> {
    /// Is it enough that a file of the directory was applied? So it is for a namespace that the file declares, for a kind that it
    /// defines, and for an object of Kubernetes' own kinds that a field names. Not for what an annotation or a rule asks for, which may
    /// be more than that, and not for what a chart or an operator brings, which comes when it comes.
    pub(super) fn is_there_at_once(
        &self,
        place: DocumentId,
        want: &UnresolvedRequirement,
        target: &NeedTarget,
    ) -> bool {
        if !want.inferred {
            return false;
        }
        let Some((file, document)) = self.index.provider_for(place, target) else {
            return false;
        };
        let provider = &self.examined[file].objects[document];
        let object = &self.examined[place.0].objects[place.1];
        match (target, want.tier) {
            (NeedTarget::Kind(_), Tier::Required) => defines(provider, target),
            (NeedTarget::Object(id), _) if is_namespace(id) => {
                provider.object == *id && !is_pod(object)
            }
            (NeedTarget::Object(id), Tier::Advisory) => {
                // The controller of a chart may look before it has heard of what the chart names.
                want.condition == NeedCondition::Exists
                    && builtin::serves(&id.group)
                    && self.index.scoped(&provider.object) == *id
                    && object.installing != Installing::Yes
                    && object.brings.is_none()
            }
            _ => false,
        }
    }
}

/// Does a definition bring this kind without the help of a webhook?
fn defines(provider: &ExaminedObject, target: &NeedTarget) -> bool {
    provider.slow_effects.iter().any(|effect| {
        matches!((effect, target), (SlowEffect::Defines { kind, converts: false, .. }, NeedTarget::Kind(wanted)) if kind == wanted)
    })
}

/// kube-apiserver refuses a pod until its namespace has a service account, which kube-controller-manager makes.
fn is_pod(object: &ExaminedObject) -> bool {
    object.object.group.is_empty() && object.object.kind == "Pod"
}
