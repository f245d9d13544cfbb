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

    /// Of what is there as soon as its file was applied: may the object come a moment earlier? So it may where a field of it merely names
    /// something, as then nobody refuses it, and its controller tries again.
    pub(super) fn may_come_first(
        &self,
        place: DocumentId,
        want: &UnresolvedRequirement,
        target: &NeedTarget,
    ) -> bool {
        let object = &self.examined[place.0].objects[place.1];
        let is_named = matches!(target, NeedTarget::Object(id) if !is_namespace(id));
        is_named
            && want.tier == Tier::Advisory
            && TRIED_AGAIN.contains(&object.object.group.as_str())
            && !is_pod(object)
    }
}

/// Groups of the kinds that kube-apiserver takes whatever they name, and whose controllers try again. Not a webhook's or an APIService's,
/// which kube-apiserver calls from then on; not a bare Pod, which it refuses without its service account or its classes
/// (`plugin/pkg/admission/serviceaccount`, `priority`, `runtimeclass`); not a custom object's: Harvester's webhook, for one, looks at a
/// machine's disks when the machine is created, and at none that is not there (v1.6.1
/// `pkg/webhook/resources/virtualmachine/validator.go`).
const TRIED_AGAIN: [&str; 5] = [
    "",
    "apps",
    "batch",
    "networking.k8s.io",
    "rbac.authorization.k8s.io",
];

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
