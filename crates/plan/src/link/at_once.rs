//! Requirements that are met as soon as RKE2 has applied the file with the target, or shortly after.

use super::declarations::DocumentId;
use super::linker::Linker;
use crate::examine::{ExaminedObject, UnresolvedRequirement};
use crate::installer::Installing;
use crate::pass::is_namespace;
use crate::rules::{NeedCondition, NeedTarget, Tier};
use crate::{SlowEffect, builtin};

impl Linker<'_> {
    /// Whether it is enough that a file of the directory was applied. This is so for a namespace that the file
    /// declares, for a kind that it defines, and for an object of Kubernetes' own kinds to which a field refers.
    /// Requirements of an annotation or a rule may be stricter, and the results of a chart or an operator come later,
    /// so it is not enough for them.
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
                // The controller of a chart may run before it has been notified of an object to which the chart refers.
                want.condition == NeedCondition::Exists
                    && builtin::serves(&id.group)
                    && self.index.scoped(&provider.object) == *id
                    && object.installing != Installing::Yes
                    && object.brings.is_none()
            }
            _ => false,
        }
    }

    /// For a target that exists as soon as its file was applied: whether the object may come a moment earlier. It may
    /// if one of its fields merely refers to the target. Then nothing refuses the object, and its controller tries
    /// again.
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

/// Groups of the kinds that kube-apiserver accepts with any reference, and whose controllers try again. Not a webhook
/// or an APIService, which kube-apiserver calls from then on. Not a bare Pod, which it refuses without its service
/// account or its classes (`plugin/pkg/admission/serviceaccount`, `priority`, `runtimeclass`). Not a custom object:
/// Harvester's webhook, for example, checks the disks of a VM when the VM is created, and cannot check missing ones
/// (v1.6.1 `pkg/webhook/resources/virtualmachine/validator.go`).
const TRIED_AGAIN: [&str; 5] = [
    "",
    "apps",
    "batch",
    "networking.k8s.io",
    "rbac.authorization.k8s.io",
];

/// Whether a definition defines this kind without a webhook.
fn defines(provider: &ExaminedObject, target: &NeedTarget) -> bool {
    provider.slow_effects.iter().any(|effect| {
        matches!((effect, target), (SlowEffect::Defines { kind, converts: false, .. }, NeedTarget::Kind(wanted)) if kind == wanted)
    })
}

/// kube-apiserver refuses a pod until its namespace has a service account, which kube-controller-manager creates.
fn is_pod(object: &ExaminedObject) -> bool {
    object.object.group.is_empty() && object.object.kind == "Pod"
}
