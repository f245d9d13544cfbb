//! The machine's own disks, as /sys lists them.

use std::collections::BTreeMap;

use windrow_host::{BlockDevice, DiskKind, Reading};

use super::{cannot_read, names, number, text, text_if_present};
use crate::fs;
use crate::layout::Layout;

/// Block devices that are not disks, or consist of other ones.
const NO_DISKS: &[&str] = &[
    "loop", "ram", "zram", "dm-", "md", "sr", "nbd", "fd", "mtd", "drbd", "rbd", "ublk",
];
const SECTOR: u64 = 512;
/// A machine has fewer disks.
const MOST: usize = 512;

pub(super) fn disks(layout: &Layout) -> Reading<Vec<BlockDevice>> {
    let read = names(layout, "/sys/block").and_then(|names| {
        let links = links(layout);
        let is_disk = |name: &&String| !NO_DISKS.iter().any(|prefix| name.starts_with(prefix));
        let names = names.iter().filter(is_disk).take(MOST);
        names
            .filter_map(|name| disk(layout, name, &links).transpose())
            .collect()
    });
    read.into()
}

/// A disk; `None` for a device that is not a disk of this machine.
fn disk(
    layout: &Layout,
    name: &str,
    links: &BTreeMap<String, Vec<String>>,
) -> Result<Option<BlockDevice>, String> {
    let file = |part: &str| format!("/sys/block/{name}/{part}");
    let device = fs::read_link(layout.path(&format!("/sys/block/{name}")));
    let device = device.map_or_else(|_| String::new(), |path| path.display().to_string());
    // It consists of other disks, or of memory: a zvol, a bcache. An NVMe disk is elsewhere below /sys/devices/virtual.
    let is_made_of_others = device.contains("/virtual/block/");
    // A path to an NVMe disk, which has its own device.
    let is_hidden = number::<u8>(layout, &file("hidden")) == Ok(1);
    // Disks over a network are volumes, Longhorn's own among them.
    let is_volume = device.contains("/session") || is_nvme_over_network(layout, name);
    if is_made_of_others || is_hidden || is_volume {
        return Ok(None);
    }
    let Some(size) = text_if_present(layout, &file("size"))? else {
        return Ok(None);
    };
    let size: u64 = size
        .parse()
        .map_err(|_| format!("{}: no number", file("size")))?;
    // A reader without a card in it.
    if size == 0 {
        return Ok(None);
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
    Ok(Some(BlockDevice {
        name: name.to_owned(),
        size: size.saturating_mul(SECTOR),
        kind: kind.into(),
        model,
        serial: first(&["device/serial", "serial", "device/wwid", "wwid"]).unwrap_or_default(),
        links: links.get(name).cloned().unwrap_or_default(),
        removable: number::<u8>(layout, &file("removable")) == Ok(1) || device.contains("/usb"),
        fibre_channel: device.contains("/rport-"),
    }))
}

/// Whether it is reached by NVMe over TCP or the like. Below a subsystem with several paths each controller has its own
/// directory.
fn is_nvme_over_network(layout: &Layout, name: &str) -> bool {
    if !name.starts_with("nvme") {
        return false;
    }
    let device = format!("/sys/block/{name}/device");
    let below = names(layout, &device).unwrap_or_default();
    let controllers = below.iter().map(|below| format!("{device}/{below}"));
    let mut known = controllers
        .chain([device.clone()])
        .filter_map(|path| text(layout, &format!("{path}/transport")).ok())
        .peekable();
    known.peek().is_some() && known.all(|transport| transport != "pcie")
}

/// The whole device that the name of a disk leads to, as the installer follows it: through every link.
pub fn device_behind(layout: &Layout, device: &str) -> Reading<String> {
    let path = fs::canonicalize(layout.path(device));
    let name = path
        .map_err(|error| cannot_read(device, &error))
        .and_then(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.map(str::to_owned)
                .ok_or_else(|| format!("{device} is no device"))
        });
    let is_whole = |name: &String| fs::exists(layout.path(&format!("/sys/block/{name}")));
    let whole = name.and_then(|name| match is_whole(&name) {
        true => Ok(name),
        false => Err(format!("{device} leads to no whole disk")),
    });
    whole.into()
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
