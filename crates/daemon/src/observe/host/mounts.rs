//! The file systems of the directories that RKE2 and Harvester use.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use windrow_host::{DirectoryRole, DirectorySpace};

use super::names;
use crate::files::is_missing;
use crate::fs;
use crate::layout::Layout;

/// How many layers of devices there are at most: LVM on RAID on an encrypted partition is three.
const DEEPEST: usize = 8;

/// The file systems of the data of etcd, images and the rest, each once. An unreadable one has the reason.
pub(super) fn directories(layout: &Layout) -> Vec<DirectorySpace> {
    let data = layout.data_dir();
    let mut devices = BTreeSet::new();
    let all = [
        (data.join("server/db"), DirectoryRole::Etcd),
        (data.join("agent"), DirectoryRole::Images),
        (data.to_owned(), DirectoryRole::Rke2),
        (layout.path("/var/lib/kubelet"), DirectoryRole::Kubelet),
        (layout.path("/var/lib"), DirectoryRole::State),
    ];
    let directory = |(path, role): (PathBuf, DirectoryRole)| {
        let nearest = match nearest_directory(&path) {
            Ok(nearest) => nearest,
            Err(error) if is_missing(&error) => return None,
            Err(error) => return Some(unknown_room(layout, &path, role, &error)),
        };
        match fs::metadata(&nearest).map(|found| found.dev()) {
            Ok(device) if !devices.insert(device) => None,
            Ok(_) => Some(match room(layout, &nearest, role) {
                Ok(room) => room,
                Err(error) => unknown_room(layout, &nearest, role, &error),
            }),
            Err(error) => Some(unknown_room(layout, &nearest, role, &error)),
        }
    };
    all.into_iter().filter_map(directory).collect()
}

fn room(layout: &Layout, path: &Path, role: DirectoryRole) -> io::Result<DirectorySpace> {
    let found = fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
    Ok(DirectorySpace {
        path: layout.shown(path),
        role,
        file_system: file_system_of(layout, path).unwrap_or_default(),
        disks: disks_of(layout, path),
        total: bytes(found.blocks()),
        free: bytes(found.blocks_available()),
        inodes: found.files(),
        free_inodes: found.files_available(),
        unknown: None,
    })
}

fn unknown_room(
    layout: &Layout,
    path: &Path,
    role: DirectoryRole,
    error: &io::Error,
) -> DirectorySpace {
    DirectorySpace {
        path: layout.shown(path),
        role,
        file_system: String::new(),
        disks: Vec::new(),
        total: 0,
        free: 0,
        inodes: 0,
        free_inodes: 0,
        unknown: Some(format!("it cannot be read ({error})")),
    }
}

/// The directory, or the nearest existing one above it.
///
/// # Errors
///
/// It is unknown whether it exists: its disk does not answer, or a permission is missing.
pub fn nearest_directory(path: &Path) -> io::Result<PathBuf> {
    for above in path.ancestors() {
        match fs::metadata(above) {
            Ok(found) if found.is_dir() => return Ok(above.to_owned()),
            Err(error) if !is_missing(&error) => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// The kind of file system that a directory of this machine is on, as the kernel calls it.
pub fn file_system_of(layout: &Layout, path: &Path) -> Option<String> {
    mount_of(layout, path).map(|mount| mount.kind)
}

struct Mount {
    source: String,
    kind: String,
}

fn mount_of(layout: &Layout, path: &Path) -> Option<Mount> {
    let read = |table: &str| fs::read(layout.path(table)).ok();
    let table = read("/proc/self/mounts").or_else(|| read("/proc/mounts"))?;
    let path = fs::canonicalize(path).ok()?;
    let mounts = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ').map(unescaped);
        let (source, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
        let mount = Mount {
            source: source.to_string_lossy().into_owned(),
            kind: kind.to_string_lossy().into_owned(),
        };
        path.starts_with(&point).then_some((point.len(), mount))
    });
    // Of two mounts at one place, the later one is on top.
    let innermost = mounts.max_by_key(|(length, _)| *length)?;
    Some(innermost.1)
}

/// A field of the kernel's table, where a blank and the like are three octal digits: `\040`.
fn unescaped(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .first_chunk::<3>()
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes)
}

/// The disks that contain a directory: below its partition, and below devices that consist of several.
fn disks_of(layout: &Layout, path: &Path) -> Vec<String> {
    let device = mount_of(layout, path).and_then(|mount| {
        let source = mount.source.strip_prefix("/dev/")?;
        // `/dev/mapper/NAME` leads to the device's own name.
        let device = layout.path(&format!("/dev/{source}"));
        let device = fs::canonicalize(&device).unwrap_or(device);
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
    // `/dev/root` is a name that the kernel lists nowhere else.
    if !fs::exists(layout.path(&class)) {
        return;
    }
    // A partition is a directory in its disk's.
    let disk = match fs::exists(layout.path(&format!("{class}/partition"))) {
        true => fs::read_link(layout.path(&class)).ok().and_then(|path| {
            let disk = path.parent()?.file_name()?.to_str()?;
            Some(disk.to_owned())
        }),
        false => Some(device.to_owned()),
    };
    disks.extend(disk);
}
