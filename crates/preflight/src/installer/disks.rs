//! The keys of the disks that a release rejects, or that depend on the disks of the server.

use windrow_model::manifest::Node;

use super::remark::{Remark, RemarkKind};
use super::rules::is_true;
use windrow_harvester::HarvesterVersion;
use windrow_harvester::versions::Fact;

/// The smallest partition, in bytes (harvester-installer `pkg/util/disk.go`, MinPersistentSize, v1.4.0 to v1.8.1).
const SMALLEST_PARTITION: u64 = 150 << 30;

/// The size of the partition for the system's data, which counts only if VMs' data have no disk of their own
/// (`pkg/config/cos.go`, CreateRootPartitioningLayoutSharedDataDisk).
fn partition(install: Option<&Node>, release: HarvesterVersion) -> Option<Remark> {
    let install = install?;
    let is_set = |key: &str| install.str_at(&[key]).is_some_and(|text| !text.is_empty());
    let is_on = |key: &str| {
        install
            .entry(key)
            .is_some_and(|entry| is_true(&entry.value))
    };
    if is_set("dataDisk") || is_on("forceMbr") {
        return None;
    }
    let entry = install.entry("persistentPartitionSize")?;
    let size = entry.value.as_str().filter(|size| !size.is_empty())?;
    let gib = |unit: &str| size.strip_suffix(unit);
    let number = gib("Gi").map(|number| (number, 30));
    let number = number.or_else(|| gib("Mi").map(|number| (number, 20)));
    let is_digit = |letter: char| letter.is_ascii_digit();
    let Some((number, shift)) =
        number.filter(|(number, _)| !number.is_empty() && number.chars().all(is_digit))
    else {
        let why = "`install.persistent_partition_size` must be a whole number with `Mi` or `Gi`, for example 150Gi";
        return Some(Remark::refused(entry.line, why));
    };
    let is_skipped = is_on("skipchecks") && Fact::SkipchecksCoversDisks.holds(release).assumed();
    let bytes = number
        .parse()
        .ok()
        .and_then(|number: u64| number.checked_mul(1 << shift));
    let is_small = bytes.is_some_and(|bytes| bytes < SMALLEST_PARTITION);
    (is_small && !is_skipped).then(|| {
        let why = "`install.persistent_partition_size` must be at least 150Gi";
        Remark::refused(entry.line, why)
    })
}

pub(super) fn remarks(install: Option<&Node>, release: HarvesterVersion) -> Vec<Remark> {
    let mut found = Vec::from_iter(partition(install, release));
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
