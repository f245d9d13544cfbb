//! The machine's own disks, as /sys lists them.

use std::collections::BTreeMap;
use std::fs;

use windrow_host::{BlockDevice, DiskKind, Reading};

use super::{names, number, text};
use crate::layout::Layout;

/// Block devices that are no disks, or are made of others.
const NO_DISKS: &[&str] = &[
    "loop", "ram", "zram", "dm-", "md", "sr", "nbd", "fd", "mtd", "drbd", "rbd",
];
const SECTOR: u64 = 512;
/// A machine has fewer disks.
const MOST: usize = 512;

pub(super) fn disks(layout: &Layout) -> Reading<Vec<BlockDevice>> {
    let read = names(layout, "/sys/block").map(|names| {
        let links = links(layout);
        let is_disk = |name: &&String| !NO_DISKS.iter().any(|prefix| name.starts_with(prefix));
        let names = names.iter().filter(is_disk).take(MOST);
        names
            .filter_map(|name| disk(layout, name, &links))
            .collect()
    });
    read.into()
}

fn disk(layout: &Layout, name: &str, links: &BTreeMap<String, Vec<String>>) -> Option<BlockDevice> {
    let file = |part: &str| format!("/sys/block/{name}/{part}");
    let device = fs::read_link(layout.path(&format!("/sys/block/{name}")));
    let device = device.map_or_else(|_| String::new(), |path| path.display().to_string());
    // Disks over iSCSI are volumes, Longhorn's own among them.
    if device.contains("/session") {
        return None;
    }
    let size = number::<u64>(layout, &file("size")).ok()?;
    // A reader without a card in it.
    if size == 0 {
        return None;
    }
    let first = |parts: &[&str]| {
        let mut found = parts
            .iter()
            .filter_map(|part| text(layout, &file(part)).ok());
        found.find(|text| !text.is_empty())
    };
    let model = first(&["device/model"]).unwrap_or_default();
    let turns = number::<u8>(layout, &file("queue/rotational"));
    let virtual_model = ["qemu", "vmware", "vbox", "virtual"]
        .iter()
        .any(|part| model.to_lowercase().contains(part));
    let kind = match turns {
        _ if name.starts_with("vd") || name.starts_with("xvd") || virtual_model => {
            Ok(DiskKind::Virtual)
        }
        _ if name.starts_with("nvme") => Ok(DiskKind::Nvme),
        Ok(0) => Ok(DiskKind::SolidState),
        Ok(_) => Ok(DiskKind::Rotational),
        Err(why) => Err(why),
    };
    Some(BlockDevice {
        name: name.to_owned(),
        size: size.saturating_mul(SECTOR),
        kind: kind.into(),
        model,
        serial: first(&["device/serial", "serial", "device/wwid", "wwid"]).unwrap_or_default(),
        links: links.get(name).cloned().unwrap_or_default(),
        removable: number::<u8>(layout, &file("removable")) == Ok(1) || device.contains("/usb"),
    })
}

/// The names below /dev/disk, by the device that they lead to.
fn links(layout: &Layout) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for directory in ["/dev/disk/by-id", "/dev/disk/by-path"] {
        for name in names(layout, directory).unwrap_or_default() {
            let link = format!("{directory}/{name}");
            let device = fs::read_link(layout.path(&link)).ok();
            let device = device.and_then(|path| path.file_name()?.to_str().map(str::to_owned));
            if let Some(device) = device {
                found.entry(device).or_default().push(link);
            }
        }
    }
    found
}
