//! Checks the disks, each by its use.

use windrow_harvester::versions::Fact;
use windrow_host::{BlockDevice, DiskKind, Reading};
use windrow_model::checks::NoFacts::NotChecked;
use windrow_model::checks::{CheckFacts, CheckResult};
use windrow_plan::rules::Platform;

use super::Judged;
use super::machine::gib;
use crate::minimums::{Figure, PublishedMinimum};
use crate::{ConfiguredValue, PlannedRole};

const GIB: u64 = 1 << 30;
/// The same limits as in the probes `disk-space` and `disk-inodes`.
const FREE_PERCENT: u128 = 10;
const INODES_PERCENT: u128 = 5;

pub(super) fn install_disk(judged: &Judged<'_>) -> CheckResult {
    if judged.wanted.platform != Platform::Harvester {
        return Err(NotChecked(
            "RKE2 is installed on the running system, and publishes no size",
        ));
    }
    let disks = match judged.host.disks.get() {
        Ok(disks) => disks,
        Err(why) => return Ok(CheckFacts::unknown(why)),
    };
    let mut facts = CheckFacts::default();
    let choice = &judged.wanted.disks;
    let system = figure_of_system(judged);
    let Some(device) = &choice.device else {
        without_choice(judged, disks, system, &mut facts);
        return Ok(facts);
    };
    judge_disk(judged, disks, device, system, &mut facts);
    if let Some(data) = &choice.data {
        judge_disk(judged, disks, data, Figure::DataDiskGib, &mut facts);
    }
    Ok(facts)
}

/// The size of the system disk may be smaller if the data are on another disk, or if the node is a witness.
fn figure_of_system(judged: &Judged<'_>) -> Figure {
    let wanted = judged.wanted;
    let small_witness = wanted.role == PlannedRole::Witness && judged.holds(Fact::WitnessDisk180);
    match wanted.disks.data.is_some() || small_witness {
        true => Figure::SystemDiskGib,
        false => Figure::SingleDiskGib,
    }
}

fn judge_disk(
    judged: &Judged<'_>,
    disks: &[BlockDevice],
    device: &ConfiguredValue,
    figure: Figure,
    facts: &mut CheckFacts,
) {
    let ConfiguredValue { text, at } = device;
    let mut readings = judged.surroundings.devices.iter();
    let leads_to = readings.find(|one| one.device == *text);
    let leads_to = leads_to.map(|one| one.leads_to.get());
    let named = |disk: &&BlockDevice| {
        *text == format!("/dev/{}", disk.name)
            || disk.links.contains(text)
            || leads_to == Some(Ok(&disk.name))
    };
    match (disks.iter().find(named), leads_to) {
        (None, _) if text.starts_with("/dev/mapper/") => facts.unknown.push(format!(
            "{text} ({at}): Windrow does not check multipath disks"
        )),
        (None, Some(Ok(other))) => facts.unknown.push(format!(
            "{text} ({at}) leads to {other}, which Windrow does not check: it is not a single disk"
        )),
        (None, None) if is_link(text) => facts.unknown.push(format!(
            "{text} ({at}): its target was not recorded when the machine was read"
        )),
        (None, _) => {
            let there: Vec<String> = disks.iter().map(describe).collect();
            let there = match there.as_slice() {
                [] => "there is no disk".to_owned(),
                there => format!("there are {}", there.join("; ")),
            };
            facts
                .problems
                .push(format!("{text} ({at}): there is no such disk; {there}"));
        }
        (Some(disk), _) => {
            facts.found.push(format!("{text}: {}", describe(disk)));
            size(judged, disk, figure, facts);
            if disk.removable {
                let why = format!("{text} ({at}) is removable: did this machine boot from it?");
                facts.warnings.push(why);
            }
        }
    }
}

/// True for udev names other than `by-id` and `by-path`, which are not among the links of a disk. The installer follows every
/// link (`checkDevice` in harvester-installer's `pkg/console/validator.go`).
fn is_link(device: &str) -> bool {
    const KNOWN: [&str; 2] = ["/dev/disk/by-id/", "/dev/disk/by-path/"];
    !KNOWN.iter().any(|directory| device.starts_with(directory))
        && device
            .strip_prefix("/dev/")
            .is_some_and(|name| name.contains('/'))
}

fn size(judged: &Judged<'_>, disk: &BlockDevice, figure: Figure, facts: &mut CheckFacts) {
    let Some(minimum) = judged.minimum(figure) else {
        return;
    };
    let enough = |asked| disk.size / GIB >= asked;
    let unit = format!(" GiB on {}", disk.name);
    match judged.installer_skips() && !judged.holds(Fact::SkipchecksCoversDisks) {
        // These installers measure disks regardless of the configuration.
        true if !enough(minimum.least) => facts.problems.push(format!(
            "less than {}{unit}: the installer of v{} checks disks even with `install.skipchecks`",
            minimum.least,
            judged.wanted.release()
        )),
        _ => {
            // The installer only checks the least size.
            let published = PublishedMinimum {
                installer: minimum.installer && !enough(minimum.least),
                ..minimum.clone()
            };
            judged.against(facts, &published, &unit, enough);
        }
    }
}

/// The configuration names no disk, so this looks for any suitable one.
fn without_choice(
    judged: &Judged<'_>,
    disks: &[BlockDevice],
    figure: Figure,
    facts: &mut CheckFacts,
) {
    let fixed = disks.iter().filter(|disk| !disk.removable);
    let Some(largest) = fixed.clone().max_by_key(|disk| disk.size) else {
        facts.problems.push("there is no fixed disk".to_owned());
        return;
    };
    facts.found.extend(fixed.map(describe));
    size(judged, largest, figure, facts);
}

fn describe(disk: &BlockDevice) -> String {
    let kind = match disk.kind {
        Reading::Known(DiskKind::Nvme) => " NVMe",
        Reading::Known(DiskKind::SolidState) => " SSD",
        Reading::Known(DiskKind::Rotational) => " turning",
        Reading::Known(DiskKind::Virtual) => " virtual",
        Reading::Unknown { .. } => "",
    };
    let model = match disk.model.as_str() {
        "" => String::new(),
        model => format!(", {model}"),
    };
    format!("{} {}{kind}{model}", disk.name, gib(disk.size))
}

pub(super) fn kind(judged: &Judged<'_>) -> CheckResult {
    let disks = match judged.host.disks.get() {
        Ok(disks) => disks,
        Err(why) => return Ok(CheckFacts::unknown(why)),
    };
    let mut facts = CheckFacts::default();
    for disk in disks.iter().filter(|disk| !disk.removable) {
        match disk.kind.get() {
            Ok(DiskKind::Rotational) => facts.warnings.push(format!("{} turns", disk.name)),
            Ok(DiskKind::Virtual) => facts.unknown.push(format!(
                "{} is a virtual disk of unknown physical kind",
                disk.name
            )),
            Ok(_) => facts.found.push(describe(disk)),
            Err(why) => facts.unknown.push(format!("{}: {why}", disk.name)),
        }
    }
    Ok(facts)
}

pub(super) fn fsync(judged: &Judged<'_>) -> CheckResult {
    if judged.wanted.role == PlannedRole::Worker {
        return Err(NotChecked("a worker has no etcd"));
    }
    let bound = u64::from(judged.published.etcd.fsync_p99_millis) * 1000;
    let read = match &judged.surroundings.fsync {
        None => {
            return Ok(CheckFacts::unknown(
                "not measured: name a directory on the disk that etcd will use with --disk-test DIR",
            ));
        }
        Some(reading) => reading.get(),
    };
    let read = match read {
        Ok(read) => read,
        Err(why) => return Ok(CheckFacts::unknown(why)),
    };
    let mut facts = CheckFacts::found(format!(
        "{} writes to {}: half within {}, 99% within {}, the longest {}",
        read.writes,
        read.directory,
        millis(read.p50_micros),
        millis(read.p99_micros),
        millis(read.max_micros)
    ));
    if read.p99_micros >= bound {
        facts.problems.push(format!(
            "99% within {}: etcd asks for less than {}",
            millis(read.p99_micros),
            millis(bound)
        ));
    }
    Ok(facts)
}

fn millis(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10),
        _ => format!("{} ms", micros / 1000),
    }
}

pub(super) fn space(judged: &Judged<'_>) -> CheckResult {
    if judged.wanted.platform == Platform::Harvester {
        return Err(NotChecked("Harvester's installer makes the file systems"));
    }
    if judged.host.directories.is_empty() {
        return Ok(CheckFacts::unknown("no file system could be read"));
    }
    let mut facts = CheckFacts::default();
    for one in &judged.host.directories {
        if let Some(why) = &one.unknown {
            facts.unknown.push(format!("{}: {why}", one.path));
            continue;
        }
        let share = |free: u64, total: u64| (u128::from(free) * 100).checked_div(total.into());
        facts.found.push(format!(
            "{}: {} free of {}",
            one.path,
            gib(one.free),
            gib(one.total)
        ));
        if let Some(percent) = share(one.free, one.total).filter(|it| *it < FREE_PERCENT) {
            facts
                .problems
                .push(format!("{}: {percent}% of the space free", one.path));
        }
        if let Some(percent) = share(one.free_inodes, one.inodes).filter(|it| *it < INODES_PERCENT)
        {
            facts
                .problems
                .push(format!("{}: {percent}% of the inodes free", one.path));
        }
    }
    Ok(facts)
}
