//! The listening sockets of this machine.

use std::collections::BTreeMap;

use windrow_host::PortHolder;
use windrow_host::sockets::{ListeningSocket, Protocol, listening};

use super::{text, text_if_present};
use crate::fs;
use crate::layout::Layout;

/// The tables, with the protocol of each. Those of IPv6 are missing if it is switched off.
const TABLES: [(&str, Protocol, bool); 4] = [
    ("/proc/net/tcp", Protocol::Tcp, true),
    ("/proc/net/tcp6", Protocol::Tcp, false),
    ("/proc/net/udp", Protocol::Udp, true),
    ("/proc/net/udp6", Protocol::Udp, false),
];

/// The listeners on these ports.
///
/// # Errors
///
/// The kernel does not list its sockets.
pub fn listeners(layout: &Layout, wanted: &[(u16, Protocol)]) -> Result<Vec<PortHolder>, String> {
    let mut found: Vec<ListeningSocket> = Vec::new();
    for (path, protocol, is_needed) in TABLES {
        let table = if is_needed {
            text(layout, path)?
        } else {
            text_if_present(layout, path)?.unwrap_or_default()
        };
        found.extend(listening(protocol, &table));
    }
    found.retain(|one| wanted.contains(&(one.port, one.protocol)));
    let processes = match found.is_empty() {
        true => BTreeMap::new(),
        false => processes(layout, &found),
    };
    let holder = |one: ListeningSocket| PortHolder {
        port: one.port,
        protocol: one.protocol,
        address: one.address,
        process: processes.get(&one.inode).cloned(),
    };
    Ok(found.into_iter().map(holder).collect())
}

/// The processes that hold sockets, by inode, as far as they are visible. Root sees all. If several processes share a
/// socket, it returns the first in the kernel's order of numbers: a process may share its sockets with its children.
fn processes(layout: &Layout, sockets: &[ListeningSocket]) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    let Ok(entries) = fs::read_dir(layout.path("/proc")) else {
        return found;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(files) = fs::read_dir(entry.path().join("fd")) else {
            continue;
        };
        for file in files.flatten() {
            let target = fs::read_link(file.path()).unwrap_or_default();
            let inode = target.to_str().and_then(|target| {
                let inode = target.strip_prefix("socket:[")?.strip_suffix(']')?;
                inode.parse::<u64>().ok()
            });
            if let Some(inode) = inode.filter(|it| sockets.iter().any(|one| one.inode == *it)) {
                let name = text(layout, &format!("/proc/{pid}/comm")).unwrap_or_default();
                let process = format!("{name} (pid {pid})");
                found.entry(inode).or_insert(process);
            }
        }
    }
    found
}
