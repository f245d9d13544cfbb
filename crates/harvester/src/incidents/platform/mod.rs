//! Incidents of the platform itself: its charts, its pods and their images, and the versions of its nodes.

pub(super) mod charts;
pub(super) mod half_way;
pub(super) mod images;
pub(super) mod kubevirt;
pub(super) mod pending;
pub(super) mod pod_addresses;
mod promoting;
pub(super) mod promotion;
pub(super) mod terminating;
pub(super) mod versions;

use serde_json::Value;
use windrow_model::redact::Learner;
use windrow_model::text::{cut, one_line};

use crate::objects::{ObjectKind, Objects, Unlisted, text};
use crate::upgrade::{plans_under_way, under_way};

/// The namespaces of RKE2, Rancher, Longhorn and Harvester, and those that KubeVirt, CDI and cert-manager (which Rancher requires) have
/// where Harvester did not install them.
const NAMESPACES: &[&str] = &[
    "kube-system",
    "harvester-system",
    "longhorn-system",
    "cattle-system",
    "cattle-fleet-system",
    "cattle-fleet-local-system",
    "cattle-monitoring-system",
    "cattle-logging-system",
    "cattle-capi-system",
    "cattle-provisioning-capi-system",
    "cattle-turtles-system",
    "calico-system",
    "tigera-operator",
    "cert-manager",
    "kubevirt",
    "cdi",
];
/// Longest quotation, in characters.
const LONGEST: usize = 200;
/// Limit of objects of a finding that are shown one by one.
pub(super) const MOST: usize = 10;

pub(super) fn is_platforms(object: &Value) -> bool {
    NAMESPACES.contains(&text(object, "/metadata/namespace"))
}

/// A quotation on one line, without apparent secrets and with limited length.
pub(super) fn quoted(said: &str) -> String {
    cut(Learner::default().redactor().text(&one_line(said)), LONGEST)
}

/// Whether an upgrade of Harvester of either kind is running.
pub(super) fn is_upgrading(objects: &Objects) -> Result<bool, Unlisted> {
    let by_itself = under_way(objects.all(ObjectKind::UPGRADE)?).is_some();
    Ok(by_itself
        || plans_under_way(objects.all(ObjectKind::UPGRADE_PLAN)?)
            .next()
            .is_some())
}
