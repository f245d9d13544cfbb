//! Volume claims whose volume is gone, or that get none.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};

use super::{CONDITION_FALSE, Clock, subject};
use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::{is_platforms, quoted};
use crate::objects::{ObjectKind, Objects, Unlisted, newest_warnings, text};
use crate::upgrade::time;

/// The Event of a provisioner that could not make the volume (kubernetes-csi external-provisioner `controller.go`, `ProvisioningFailed`;
/// Kubernetes' own is `pkg/controller/volume/events/event.go`). A claim that waits for its first pod has `WaitForFirstConsumer`.
const FAILED: &str = "ProvisioningFailed";

/// A claim whose volume is gone.
pub(super) fn find_lost(objects: &Objects, _: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let claims = objects.all(ObjectKind::CLAIM)?.iter();
    let lost = claims.filter(|claim| text(claim, "/status/phase") == "Lost");
    Ok(lost
        .map(|claim| {
            let about = subject(claim, "PersistentVolumeClaim");
            let volume = text(claim, "/spec/volumeName");
            let why = format!("its PersistentVolume {volume} does not exist");
            let seen = Evidence::new(&about, "status.phase", "Lost");
            let mut finding = IncidentFinding::new(Code::ProblemStays, about, &why).seen([seen]);
            if is_platforms(claim) {
                finding.severity = Severity::Error;
            }
            "Restore the volume from a backup, or delete the claim and let its controller create it again."
                .clone_into(&mut finding.advice);
            finding
        })
        .collect())
}

/// A claim for which no volume can be made.
pub(super) fn find_pending(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let is_pending = |claim: &&Value| {
        text(claim, "/status/phase") == "Pending"
            && claim.pointer("/metadata/deletionTimestamp").is_none()
    };
    let claims = objects.all(ObjectKind::CLAIM)?.iter();
    let pending: Vec<&Value> = claims.filter(is_pending).collect();
    if pending.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let warnings = newest_warnings(&objects.claim_warnings()?);
    let late = pending.into_iter().filter(|claim| {
        clock.is_late(time(claim, "/metadata/creationTimestamp"), &CONDITION_FALSE)
    });
    let failed = late.filter_map(|claim| {
        let name = |field| text(claim, field);
        let warning = *warnings.get(&(name("/metadata/namespace"), name("/metadata/name")))?;
        (text(warning, "/reason") == FAILED).then_some((claim, warning))
    });
    Ok(failed
        .map(|(claim, warning)| {
            let about = subject(claim, "PersistentVolumeClaim");
            let made = text(claim, "/metadata/creationTimestamp");
            let words = quoted(text(warning, "/message"));
            let why = format!("it has been Pending since {made}: {words}");
            let seen = [
                Evidence::new(&about, "status.phase", "Pending"),
                Evidence::new(&about, "newest warning", format!("{FAILED}: {words}")),
            ];
            let mut finding = IncidentFinding::new(Code::ProblemStays, about, &why).seen(seen);
            "Fix what the provisioner of its StorageClass reports; it tries again automatically."
                .clone_into(&mut finding.advice);
            finding
        })
        .collect())
}
