//! Reads the machine's hardware: once at each start, outside the loop. Keeps the inventory for the comparison in the
//! probe `hardware`, and provides the class for the flight.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use windrow_host::{HardwareInventory, HostFacts, hardware_class};

use crate::act::save_inventory;
use crate::layout::Layout;
use crate::observe::host::{UnreadInventory, read_host, read_inventory};

pub(super) type HardwareClass = Arc<OnceLock<Option<String>>>;

/// Updates the inventory in a separate thread: firmware may answer slowly.
pub(super) fn read_hardware(layout: Layout, now: Timestamp, class: HardwareClass) {
    let started = std::thread::Builder::new()
        .name("hardware".to_owned())
        .spawn(move || {
            let facts = read_host(&layout, now);
            // It is read once.
            let _ = class.set(hardware_class(&facts));
            take_in(&layout, &facts, now);
        });
    if let Err(error) = started {
        tracing::warn!("the hardware is not compared: {error}");
    }
}

fn take_in(layout: &Layout, facts: &HostFacts, now: Timestamp) {
    let known = match read_inventory(layout) {
        Ok(known) => known,
        // A new inventory reports that nothing was lost.
        Err(UnreadInventory::Unreadable(why)) => {
            tracing::warn!("the hardware is not compared: {why}");
            return;
        }
        Err(UnreadInventory::Unusable(why)) => {
            tracing::warn!("the hardware inventory is begun again: {why}");
            None
        }
    };
    let before = known
        .clone()
        .unwrap_or_else(|| HardwareInventory::begun(now));
    let after = before.with(facts);
    if after.is_empty() || known.as_ref() == Some(&after) {
        return;
    }
    if let Err(error) = save_inventory(&layout.hardware(), &after) {
        tracing::warn!("{}: {error}", layout.hardware().display());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_there_once_is_remembered_over_starts_and_a_broken_inventory_is_begun_again() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let look = || {
            let now = Timestamp::UNIX_EPOCH;
            take_in(&layout, &read_host(&layout, now), now);
        };
        look();
        assert_eq!(read_inventory(&layout), Ok(None), "nothing could be read");
        let disk = |name: &str| {
            let path = layout.path(&format!("/sys/block/{name}"));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("size"), "2097152\n").unwrap();
            path
        };
        let first = disk("sda");
        look();
        fs::remove_dir_all(first).unwrap();
        disk("sdb");
        look();
        let names = || -> Vec<String> {
            let known = read_inventory(&layout).unwrap().unwrap();
            known.disks.into_iter().map(|disk| disk.name).collect()
        };
        assert_eq!(names(), ["sda", "sdb"]);
        fs::write(layout.hardware(), "{\"version\": 1").unwrap();
        assert!(read_inventory(&layout).is_err());
        look();
        assert_eq!(names(), ["sdb"]);
        // A read that fails says nothing about the content.
        fs::remove_file(layout.hardware()).unwrap();
        std::os::unix::fs::symlink("hardware.json", layout.hardware()).unwrap();
        look();
        assert!(layout.hardware().is_symlink(), "the inventory is kept");
    }
}
