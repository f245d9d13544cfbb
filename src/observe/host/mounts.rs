//! The file systems of the directories that matter.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use windrow_host::{DirectoryRole, DirectorySpace};

use super::{names, text};
use crate::layout::Layout;

/// How many devices lie one below the other at most: LVM on RAID on an encrypted partition is three.
const DEEPEST: usize = 8;

/// The file systems where etcd, images and the rest live or will live, each once.
pub(super) fn directories(layout: &Layout) -> Vec<DirectorySpace> {
    let data = layout.data_dir();
    let mut seen = Vec::new();
    let all = [
        (data.join("server/db"), DirectoryRole::Etcd),
        (data.join("agent"), DirectoryRole::Images),
        (data.to_owned(), DirectoryRole::Rke2),
        (layout.path("/var/lib/kubelet"), DirectoryRole::Kubelet),
        (layout.path("/var/lib"), DirectoryRole::State),
    ];
    let directory = |(path, role): (PathBuf, DirectoryRole)| {
        let path = nearest_directory(&path)?;
        let found = statvfs(&path).ok()?;
        if seen.contains(&found.filesystem_id()) {
            return None;
        }
        seen.push(found.filesystem_id());
        let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
        Some(DirectorySpace {
            path: layout.shown(&path),
            role,
            file_system: file_system_of(layout, &path).unwrap_or_default(),
            disks: disks_of(layout, &path),
            total: bytes(found.blocks()),
            free: bytes(found.blocks_available()),
            inodes: found.files(),
            free_inodes: found.files_available(),
        })
    };
    all.into_iter().filter_map(directory).collect()
}

/// The directory, or the next one above it that is there.
pub fn nearest_directory(path: &Path) -> Option<PathBuf> {
    let mut above = path.ancestors();
    above.find(|path| path.is_dir()).map(Path::to_owned)
}

/// The kind of file system that a directory of this machine is on, as the kernel calls it.
pub fn file_system_of(layout: &Layout, path: &Path) -> Option<String> {
    mount_of(layout, path).map(|mount| mount.kind)
}

/// A line of the kernel's table.
struct Mount {
    source: String,
    kind: String,
}

/// The mount that a directory of this machine lies on.
fn mount_of(layout: &Layout, path: &Path) -> Option<Mount> {
    let table = text(layout, "/proc/self/mounts").or_else(|_| text(layout, "/proc/mounts"));
    let path = path.canonicalize().ok()?;
    let table = table.ok()?;
    let mounts = table.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let source = fields.next()?;
        let point = fields.next()?.replace("\\040", " ");
        let kind = fields.next()?;
        let mount = Mount {
            source: source.to_owned(),
            kind: kind.to_owned(),
        };
        path.starts_with(&point).then_some((point.len(), mount))
    });
    // Of two at one place the later one lies above.
    let innermost = mounts.max_by_key(|(length, _)| *length)?;
    Some(innermost.1)
}

/// The disks that a directory lies on: below its partition, and below what is made of several.
fn disks_of(layout: &Layout, path: &Path) -> Vec<String> {
    let device = mount_of(layout, path).and_then(|mount| {
        let source = mount.source.strip_prefix("/dev/")?;
        // `/dev/mapper/NAME` leads to the device's own name.
        let device = layout.path(&format!("/dev/{source}"));
        let device = device.canonicalize().unwrap_or(device);
        Some(device.file_name()?.to_str()?.to_owned())
    });
    let mut disks = BTreeSet::new();
    if let Some(device) = device {
        add_disks(layout, &device, DEEPEST, &mut disks);
    }
    disks.into_iter().collect()
}

fn add_disks(layout: &Layout, device: &str, deeper: usize, disks: &mut BTreeSet<String>) {
    let class = format!("/sys/class/block/{device}");
    let below = names(layout, &format!("{class}/slaves")).unwrap_or_default();
    if let Some(left) = deeper.checked_sub(1).filter(|_| !below.is_empty()) {
        for device in below {
            add_disks(layout, &device, left, disks);
        }
        return;
    }
    // A partition is a directory in its disk's.
    let disk = match layout.path(&format!("{class}/partition")).exists() {
        true => fs::read_link(layout.path(&class)).ok().and_then(|path| {
            let disk = path.parent()?.file_name()?.to_str()?;
            Some(disk.to_owned())
        }),
        false => Some(device.to_owned()),
    };
    disks.extend(disk);
}
