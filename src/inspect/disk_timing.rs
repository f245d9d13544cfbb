//! Measures how long a write takes to reach the disk: it does in a file without a name the same as etcd does for every
//! change.
//!
//! The file never has a name, so nothing of it stays when the process ends. Nothing is written to a device itself, or
//! to a file system with little room left.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use windrow_preflight::FsyncReading;

use crate::fs;

/// The size of a write in bytes, as in the measurement that etcd's page on hardware refers to.
const WRITE: usize = 2300;
/// At most 2.3 MB in total.
const MOST_WRITES: usize = 1000;
/// The measurement ends after this time at the latest, except for a write that is under way.
const LONGEST: Duration = Duration::from_secs(5);
/// Free space below which nothing is measured, because the writes could matter.
const LEAST_FREE: u64 = 256 << 20;
const LEAST_FREE_PERCENT: u64 = 5;
/// File systems that have no disk.
const IN_MEMORY: &[&str] = &["tmpfs", "ramfs", "squashfs"];

/// Measures in a directory. `file_system` is its kind, if known. Blocks for some seconds.
///
/// # Errors
///
/// Why it was not measured.
pub(crate) fn measure_fsync(
    directory: &Path,
    file_system: Option<&str>,
) -> Result<FsyncReading, String> {
    let shown = directory.display().to_string();
    match file_system {
        Some(kind) if IN_MEMORY.contains(&kind) => {
            return Err(format!(
                "{shown} is in memory ({kind}), so it was not measured; name a directory on the disk with --disk-test"
            ));
        }
        Some("overlay") => {
            return Err(format!(
                "{shown} is an overlay, and which disk takes its writes is not known, so it was not measured; name a directory on the \
                 disk with --disk-test"
            ));
        }
        _ => {}
    }
    let said = |error: std::io::Error| format!("{shown}: not measured: {error}");
    let space = fs::statvfs(directory).map_err(said)?;
    let bytes = |blocks: u64| blocks.saturating_mul(space.fragment_size());
    let (free, total) = (bytes(space.blocks_available()), bytes(space.blocks()));
    if is_nearly_full(free, total) {
        return Err(format!(
            "{shown} is nearly full ({} MiB free): not measured",
            free >> 20
        ));
    }
    let inside = fs::resolve(directory).map_err(said)?;
    let mut file = tempfile::tempfile_in(inside).map_err(said)?;
    let content = [0x57; WRITE];
    let began = Instant::now();
    let mut micros = Vec::with_capacity(MOST_WRITES);
    while micros.len() < MOST_WRITES && began.elapsed() < LONGEST {
        let write = Instant::now();
        file.write_all(&content).map_err(said)?;
        file.sync_data().map_err(said)?;
        micros.push(u64::try_from(write.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    FsyncReading::of(shown, micros)
}

/// Whether there is so little room, in bytes, that the writes could matter.
fn is_nearly_full(free: u64, total: u64) -> bool {
    free < LEAST_FREE || free < total / 100 * LEAST_FREE_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_measured_and_no_file_stays() {
        let directory = tempfile::tempdir().unwrap();
        match measure_fsync(directory.path(), Some("ext4")) {
            Ok(read) => {
                assert!(
                    read.writes >= 100 && read.p50_micros <= read.p99_micros,
                    "{read:?}"
                );
            }
            // A disk that is too slow or too full for a result.
            Err(why) => assert!(
                why.contains("too few") || why.contains("nearly full"),
                "{why}"
            ),
        }
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_file_system_is_nearly_full_by_what_is_free_and_by_its_share() {
        let mib = |count: u64| count << 20;
        for (free, total, expected) in [
            (mib(255), mib(1000), true),
            (mib(256), mib(1000), false),
            (mib(40_000), mib(1_000_000), true),
            (mib(60_000), mib(1_000_000), false),
        ] {
            assert_eq!(is_nearly_full(free, total), expected, "{free} of {total}");
        }
    }

    #[test]
    fn what_is_no_disk_is_not_measured() {
        let directory = tempfile::tempdir().unwrap();
        for kind in ["tmpfs", "overlay"] {
            let why = measure_fsync(directory.path(), Some(kind)).unwrap_err();
            assert!(why.contains("--disk-test"), "{why}");
        }
        let why = measure_fsync(&directory.path().join("absent"), None).unwrap_err();
        assert!(why.contains("not measured"), "{why}");
    }
}
