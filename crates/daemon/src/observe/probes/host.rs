//! The machine: routes, links, disks, memory, load, clock, ports. Read below the layout's root.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use windrow_model::reasons::Code;
use windrow_plan::readiness::node::{ProbeLimit, ProbeOutcome};

use super::context::ProbeContext;
use crate::files::{NO_SPACE, is_missing};
use crate::fs;
use crate::layout::Layout;
use crate::observe::network::has_default_route;

fn read(context: &ProbeContext, path: &str) -> Result<String, ProbeOutcome> {
    fs::read_to_string(context.layout().path(path))
        .map_err(|error| ProbeOutcome::unknown(path, error.to_string()))
}

fn outcome(judged: Result<ProbeOutcome, ProbeOutcome>) -> ProbeOutcome {
    judged.unwrap_or_else(|unknown| unknown)
}

pub(super) fn default_route(context: &ProbeContext) -> ProbeOutcome {
    match has_default_route(&context.layout()) {
        Ok(true) => ProbeOutcome::Passed,
        Ok(false) => ProbeOutcome::failed("neither for IPv4 nor for IPv6"),
        Err((path, why)) => ProbeOutcome::unknown(path, why),
    }
}

pub(super) fn carrier(context: &ProbeContext) -> ProbeOutcome {
    let directory = context.layout().path("/sys/class/net");
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) => return ProbeOutcome::unknown("/sys/class/net", error.to_string()),
    };
    let mut without = Vec::new();
    for entry in entries.flatten() {
        // Virtual interfaces have no device behind them.
        if !fs::exists(entry.path().join("device")) {
            continue;
        }
        // The kernel refuses to read it while the interface is down.
        let carrier = fs::read_to_string(entry.path().join("carrier"));
        if carrier.is_ok_and(|carrier| carrier.trim() == "1") {
            return ProbeOutcome::Passed;
        }
        without.push(entry.file_name().to_string_lossy().into_owned());
    }
    without.sort();
    match without.as_slice() {
        [] => ProbeOutcome::unknown("/sys/class/net", "there is no physical NIC"),
        names => ProbeOutcome::failed(format!("{} without a link", names.join(", "))),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scarce {
    Space,
    Inodes,
}

/// Free space or inodes in the directories of RKE2, etcd and images.
pub(super) fn disk(
    context: &ProbeContext,
    scarce: Scarce,
    limit: Option<ProbeLimit>,
) -> ProbeOutcome {
    let layout = context.layout();
    let data = layout.data_dir();
    let mut seen = Vec::new();
    let mut low = Vec::new();
    let mut unread = None;
    let mut full = Vec::new();
    for path in [
        data.join("server/db"),
        data.join("agent"),
        data.to_owned(),
        context.layout().path("/var/lib/kubelet"),
        context.layout().path("/var/lib"),
    ] {
        // By its device: many file systems have no separate identity (NFS, FUSE).
        let found = fs::metadata(&path).and_then(|directory| {
            let found = fs::statvfs(&path)?;
            Ok((directory.dev(), found))
        });
        let (device, found) = match found {
            Ok(found) => found,
            Err(error) if is_missing(&error) => continue,
            Err(error) => {
                unread = unread.or(Some((layout.shown(&path), error.to_string())));
                continue;
            }
        };
        if seen.contains(&device) {
            continue;
        }
        seen.push(device);
        let (free, total) = match scarce {
            Scarce::Space => {
                let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
                (bytes(found.blocks_available()), bytes(found.blocks()))
            }
            Scarce::Inodes => (found.files_available(), found.files()),
        };
        if is_used_up(scarce, free, total) {
            full.push(layout.shown(mount_point(&layout, &path)));
        } else if let Some(why) = too_little(limit, free, total, "free") {
            low.push(format!("{} has {why}", context.layout().shown(&path)));
        }
    }
    if !full.is_empty() {
        let lacks = match scarce {
            Scarce::Space => "space",
            Scarce::Inodes => "inode",
        };
        let why = format!("no {lacks} left in {}", full.join(" and "));
        return ProbeOutcome::failed_as(Code::DiskFull, why);
    }
    if !low.is_empty() {
        return ProbeOutcome::failed(low.join(", "));
    }
    match unread {
        Some((path, why)) => ProbeOutcome::unknown(path, why),
        None if seen.is_empty() => {
            ProbeOutcome::unknown("statvfs", "none of RKE2's directories is there")
        }
        None => ProbeOutcome::Passed,
    }
}

/// Whether nothing more can be written. A file system that counts no inodes cannot run out of them.
fn is_used_up(scarce: Scarce, free: u64, total: u64) -> bool {
    match scarce {
        Scarce::Space => total > 0 && free < NO_SPACE,
        Scarce::Inodes => total > 0 && free == 0,
    }
}

/// The highest directory on the same file system, below the layout's root.
fn mount_point<'p>(layout: &Layout, path: &'p Path) -> &'p Path {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    let own = device(path);
    let root = layout.path("/");
    path.ancestors()
        .take_while(|above| above.starts_with(&root) && device(above) == own)
        .last()
        .unwrap_or(path)
}

fn percent(free: u64, total: u64) -> Option<u64> {
    (u128::from(free) * 100)
        .checked_div(u128::from(total))
        .and_then(|percent| u64::try_from(percent).ok())
}

/// The message if there is less than the limit. A file system that counts no inodes cannot run out of them.
fn too_little(limit: Option<ProbeLimit>, free: u64, total: u64, word: &str) -> Option<String> {
    let limit = limit?;
    let percent = percent(free, total)?;
    let low = match limit {
        ProbeLimit::FreePercent(least) | ProbeLimit::InodesPercent(least) => {
            percent < u64::from(least)
        }
        ProbeLimit::FreeBytes(least) => free < least,
        ProbeLimit::LoadPerCore(_)
        | ProbeLimit::Left(_)
        | ProbeLimit::Degrees(_)
        | ProbeLimit::ErrorsPerMillion(_) => false,
    };
    low.then(|| format!("{percent}% {word} (less than {limit})"))
}

pub(super) fn memory(context: &ProbeContext, limit: Option<ProbeLimit>) -> ProbeOutcome {
    outcome((|| {
        let text = read(context, "/proc/meminfo")?;
        // In units of 1024 bytes.
        let figure = |name: &str| -> Option<u64> {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()?
                .checked_mul(1024)
        };
        let (free, total) = figure("MemAvailable")
            .zip(figure("MemTotal"))
            .filter(|(_, total)| *total > 0)
            .ok_or_else(|| ProbeOutcome::unknown("/proc/meminfo", "it says no figures"))?;
        Ok(match too_little(limit, free, total, "available") {
            Some(why) => ProbeOutcome::failed(why),
            None => ProbeOutcome::Passed,
        })
    })())
}

/// The load of the last 15 minutes, by core.
pub(super) fn load(context: &ProbeContext, limit: Option<ProbeLimit>) -> ProbeOutcome {
    outcome((|| {
        let text = read(context, "/proc/loadavg")?;
        let cores = read(context, "/proc/stat")?
            .lines()
            .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
            .count();
        let load: Option<f64> = text
            .split_whitespace()
            .nth(2)
            .and_then(|load| load.parse().ok());
        let cores = u32::try_from(cores).ok().filter(|cores| *cores > 0);
        let (load, cores) = load
            .zip(cores)
            .ok_or_else(|| ProbeOutcome::unknown("/proc/loadavg", "it says no figures"))?;
        let by_core = load / f64::from(cores);
        Ok(match limit {
            Some(limit @ ProbeLimit::LoadPerCore(most)) if by_core * 100.0 > f64::from(most) => {
                ProbeOutcome::failed(format!(
                    "more than {limit} waiting for each of {cores} cores"
                ))
            }
            _ => ProbeOutcome::Passed,
        })
    })())
}

pub(super) async fn clock(context: &ProbeContext) -> ProbeOutcome {
    match context.bus.synchronised().await {
        Ok(true) => ProbeOutcome::Passed,
        Ok(false) => ProbeOutcome::failed("NTPSynchronized=no (timedate1)"),
        Err(why) => ProbeOutcome::unknown("timedate1's NTPSynchronized", why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_neither_overflow_nor_divide_by_nothing() {
        assert_eq!(percent(u64::MAX, u64::MAX), Some(100));
        assert_eq!(percent(0, 0), None);
        assert_eq!(percent(1, 3), Some(33));
    }

    #[test]
    fn a_file_system_is_full_when_nothing_more_can_be_written() {
        let [space, inodes] = [Scarce::Space, Scarce::Inodes];
        assert!(is_used_up(space, 0, 1 << 30) && is_used_up(space, 4096, 1 << 30));
        assert!(!is_used_up(space, 1 << 20, 1 << 30));
        assert!(is_used_up(inodes, 0, 1000) && !is_used_up(inodes, 1, 1000));
        // If a file system returns nothing, its state is unknown.
        assert!(!is_used_up(space, 0, 0) && !is_used_up(inodes, 0, 0));
    }
}
