//! The keys of the disks that a release rejects, or that depend on the disks of the server.

use windrow_model::manifest::Node;

use super::remark::{Remark, RemarkKind};
use super::rules::is_true;
use windrow_harvester::HarvesterVersion;
use windrow_harvester::versions::Fact;

pub(super) fn remarks(install: Option<&Node>, release: HarvesterVersion) -> Vec<Remark> {
    let mut found = Vec::new();
    let entry = |key| install.and_then(|install| install.entry(key));
    if let Some(mbr) = entry("forceMbr").filter(|entry| is_true(&entry.value))
        && Fact::BiosRefused.holds(release).assumed()
    {
        // checkForceMBR in pkg/console/validator.go refuses it with UEFI.
        found.push(Remark::refused(
            mbr.line,
            "`install.force_mbr` needs a legacy BIOS, and the installer needs UEFI from v1.8.0 on; remove the key",
        ));
    }
    if let Some(list) = entry("wipeDisksList").filter(|list| !list.value.items().is_empty())
        && Fact::MissingDiskAborts.holds(release).assumed()
    {
        found.push(Remark {
            line: list.line,
            kind: RemarkKind::Depends,
            why: "before v1.8.1 it aborts if a disk of `install.wipe_disks_list` is not in the server (harvester#10591); list only \
                  disks that every server has"
                .to_owned(),
        });
    }
    found
}
