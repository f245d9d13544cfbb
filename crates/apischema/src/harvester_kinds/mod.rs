//! What webhooks of Harvester, CDI and Longhorn refuse of their kinds and of StorageClasses, and kube-apiserver's definitions do not.
//!
//! Sources: harvester/harvester v1.4.0 to v1.8.2, `pkg/webhook/resources/NAME/validator.go` (images from v1.5 on:
//! `pkg/image/common/validator.go`); kubevirt/containerized-data-importer v1.61.0 (Harvester v1.5) to v1.64.0 (v1.8),
//! `pkg/apiserver/webhooks/{datavolume-validate,util}.go`; longhorn/longhorn-manager v1.7.2 (Harvester v1.4) to v1.11.2 (v1.8),
//! `webhook/resources`. A rule is the same in all of these unless it says from which release of Harvester on. What needs other objects
//! of the files is in `cross_check/harvester.rs`.

mod backup;
mod data_volume;
mod image;
mod key_pair;
mod others;
mod recurring_job;
mod storage_class;

pub(crate) use backup::{Runs, is_exempt};
pub(crate) use storage_class::SECRETS as ENCRYPTION_SECRETS;
use windrow_model::manifest::{Node, Object};
use windrow_plan::rules::Platform;

use crate::problem::{Problem, ProblemKind};
use crate::release::{MinorRelease, minor};

/// The problems of an object of these kinds; none for others.
pub(crate) fn judge(
    object: &Object,
    platform: Option<Platform>,
    release: Option<&str>,
) -> Vec<Problem> {
    let mut judged = Judged {
        problems: Vec::new(),
        release: release.and_then(minor),
        patch: release.and_then(|release| release.rsplit('.').next()?.parse().ok()),
    };
    let kind = (object.id.group.as_str(), object.id.kind.as_str());
    match (kind, object.node.get("spec")) {
        (("cdi.kubevirt.io", "DataVolume"), Some(spec)) => judged.data_volume(spec),
        (("longhorn.io", "RecurringJob"), Some(spec)) => judged.recurring_job(object, spec),
        _ if platform != Some(Platform::Harvester) => {}
        (("storage.k8s.io", "StorageClass"), _) => judged.storage_class(object),
        ((GROUP, "KeyPair"), Some(spec)) => judged.key_pair(spec),
        ((GROUP, "ResourceQuota"), spec) => judged.resource_quota(object, spec),
        ((GROUP, "ScheduleVMBackup"), Some(spec)) => judged.schedule_of_backups(object, spec),
        ((GROUP, "Version"), Some(spec)) => judged.version(spec),
        ((GROUP, "VirtualMachineBackup"), Some(spec)) => judged.backup(spec),
        ((GROUP, "VirtualMachineImage"), Some(spec)) => judged.image(object, spec),
        ((GROUP, "VirtualMachineRestore"), Some(spec)) => judged.restore(spec),
        ((GROUP, "VirtualMachineTemplateVersion"), Some(spec)) => {
            judged.template_version(object, spec);
        }
        _ => {}
    }
    judged.problems.sort_by_key(|problem| problem.line);
    judged.problems
}

pub(crate) const GROUP: &str = "harvesterhci.io";

/// Why an object is judged only in part, if a webhook has more rules than these. Kinds of `harvester_network` and `harvester_setting`
/// have their own entries.
pub(crate) fn why_unjudged(object: &Object, platform: Option<Platform>) -> Option<&'static str> {
    let (group, kind) = (object.id.group.as_str(), object.id.kind.as_str());
    let of_spec = |path: &[&str]| object.node.get("spec")?.str_at(path);
    match group {
        "cdi.kubevirt.io" => {
            let kinds = [
                "DataImportCron",
                "ObjectTransfer",
                "VolumeImportSource",
                "VolumeUploadSource",
            ];
            let why = "CDI's webhooks check more of it than Windrow";
            kinds.contains(&kind).then_some(why)
        }
        "longhorn.io" => {
            let without = [
                "BackingImageDataSource",
                "BackingImageManager",
                "RecurringJob",
                "ShareManager",
            ];
            let why = "Longhorn's webhook checks more of it than Windrow";
            (!without.contains(&kind)).then_some(why)
        }
        _ if platform != Some(Platform::Harvester) => None,
        GROUP => {
            let is_more = match kind {
                "SupportBundle"
                | "Upgrade"
                | "VirtualMachineBackup"
                | "VirtualMachineRestore"
                | "VolumeRemoteBackup"
                | "VolumeRemoteRestore" => true,
                // A backup needs a backup target.
                "ScheduleVMBackup" => of_spec(&["vmbackup", "type"]) != Some("snapshot"),
                // Other images and volumes of the cluster.
                "VirtualMachineImage" => ["clone", "export-from-volume"]
                    .map(Some)
                    .contains(&of_spec(&["sourceType"])),
                _ => false,
            };
            is_more.then_some(HARVESTER_CHECKS_MORE)
        }
        "network.harvesterhci.io" => (kind == "HostNetworkConfig").then_some(HARVESTER_CHECKS_MORE),
        // Their controllers have webhooks of their own.
        "devices.harvesterhci.io"
        | "loadbalancer.harvesterhci.io"
        | "migration.harvesterhci.io" => Some(HARVESTER_CHECKS_MORE),
        _ => None,
    }
}

const HARVESTER_CHECKS_MORE: &str = "Harvester's webhooks check more of it than Windrow";

struct Judged {
    problems: Vec<Problem>,
    /// Harvester's.
    release: Option<MinorRelease>,
    /// The last number of the release.
    patch: Option<u32>,
}

impl Judged {
    /// Whether it may be this release of Harvester or a newer one.
    fn is_since(&self, release: MinorRelease) -> bool {
        self.release.is_none_or(|own| own >= release)
    }

    /// Whether it may be this patch of a release or a newer one.
    fn is_since_patch(&self, release: MinorRelease, patch: u32) -> bool {
        self.is_since(release)
            && (self.release != Some(release) || self.patch.is_none_or(|own| own >= patch))
    }

    fn add(&mut self, line: u32, field: &str, why: &str) {
        self.problems.push(Problem {
            kind: ProblemKind::Invalid,
            line,
            field: field.to_owned(),
            message: format!("is not valid: {why}"),
            // It is another program that refuses it.
            refusal: None,
        });
    }

    fn add_at(&mut self, node: &Node, field: &str, why: &str) {
        self.add(node.line, field, why);
    }
}

/// A field that is not null.
fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    node.get(name).filter(|value| !value.is_null())
}

/// The text of a field; empty if it has none.
fn text<'n>(node: &'n Node, name: &str) -> &'n str {
    node.str_at(&[name]).unwrap_or_default()
}

/// The line of a field, or else of what lacks it.
fn line_of(node: &Node, name: &str) -> u32 {
    node.get(name).map_or(node.line, |value| value.line)
}

#[cfg(test)]
mod tests;
