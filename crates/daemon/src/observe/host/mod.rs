//! The machine: read once for a preflight, for the console and for the inventory of the first boot.
//!
//! Processors, memory, load, sensors and the time of the boot come from `sysinfo`, which reads the machine that it runs on. Below another
//! root than `/` they are unknown: it would be another machine's. The rest is read below the layout's root.

mod disks;
mod inventory;
mod links;
mod machine;
mod mounts;

use std::io;

use jiff::Timestamp;
use nix::errno::Errno;
use windrow_host::{ClockState, HostFacts, Reading};

use crate::files::is_missing;
use crate::fs;
use crate::layout::Layout;

pub use disks::device_behind;
pub use inventory::{UnreadInventory, read_inventory};
pub use links::links as read_links;
pub use machine::temperatures as read_temperatures;
pub use mounts::{file_system_of, nearest_directory};

/// Reads the machine: some hundred small files. That is quick enough for a request by a user, and too slow for a loop.
pub fn read_host(layout: &Layout, now: Timestamp) -> HostFacts {
    HostFacts {
        machine: machine::identity(layout),
        cpus: machine::cpus(layout),
        memory: machine::memory(layout),
        disks: disks::disks(layout),
        directories: mounts::directories(layout),
        load: machine::load(layout),
        temperatures: machine::temperatures(layout),
        links: links::links(layout),
        clock: ClockState {
            now: Reading::Known(now),
            booted: machine::booted(layout),
            synchronised: Reading::default(),
        },
    }
}

/// An error unless it is the machine that this program runs on.
fn is_this_machine(layout: &Layout) -> Result<(), String> {
    match layout.root().as_os_str() == "/" {
        true => Ok(()),
        false => Err("not available with --root".to_owned()),
    }
}

/// A small file below the root, without surrounding blanks. Firmware and operators write bytes that are not UTF-8; they
/// are replaced.
pub fn text(layout: &Layout, path: &str) -> Result<String, String> {
    read(layout, path).map_err(|error| cannot_read(path, &error))
}

/// As [`text`]; `None` if there is no such file.
pub fn text_if_present(layout: &Layout, path: &str) -> Result<Option<String>, String> {
    match read(layout, path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(cannot_read(path, &error)),
    }
}

fn read(layout: &Layout, path: &str) -> io::Result<String> {
    let bytes = fs::read(layout.path(path))?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Whether there is no such file, or its device was removed meanwhile.
fn is_absent(error: &io::Error) -> bool {
    is_missing(error) || error.raw_os_error() == Some(Errno::ENODEV as i32)
}

fn cannot_read(path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no {path}"),
        io::ErrorKind::PermissionDenied => format!("no right to read {path}"),
        _ => format!("{path} cannot be read ({error})"),
    }
}

fn number<T: std::str::FromStr>(layout: &Layout, path: &str) -> Result<T, String> {
    let text = text(layout, path)?;
    text.parse().map_err(|_| format!("{path}: no number"))
}

fn names(layout: &Layout, path: &str) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(layout.path(path)).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| cannot_read(path, &error))?;
    let names = entries.into_iter().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests;
