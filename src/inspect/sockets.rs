//! The listening sockets of this machine.

use std::collections::BTreeMap;

use windrow_preflight::PortHolder;
use windrow_preflight::sockets::{ListeningSocket, Protocol, listening};

use crate::fs;
use crate::layout::Layout;
use crate::observe::host::{text, text_if_present};

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
pub(crate) fn listeners(
    layout: &Layout,
    wanted: &[(u16, Protocol)],
) -> Result<Vec<PortHolder>, String> {
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

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::inspect::testing::machine;

    #[test]
    fn who_listens_on_a_port_is_named() {
        let layout = Layout::new("/");
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = |address: std::io::Result<SocketAddr>| address.unwrap().port();
        let (tcp_port, udp_port) = (port(tcp.local_addr()), port(udp.local_addr()));
        let wanted = [(tcp_port, Protocol::Tcp), (udp_port, Protocol::Udp)];
        let found = listeners(&layout, &wanted).unwrap();
        let own = format!("(pid {})", std::process::id());
        for (port, protocol) in wanted {
            let holder = found
                .iter()
                .find(|one| one.port == port && one.protocol == protocol)
                .unwrap();
            assert!(
                holder.process.as_ref().unwrap().ends_with(&own),
                "{holder:?}"
            );
            assert_eq!(holder.address.to_string(), "127.0.0.1");
        }
        // Nothing listens on port 1. Servers of other tests may have these two for a moment after they are closed here.
        let unused = [(1, Protocol::Tcp), (1, Protocol::Udp)];
        assert_eq!(listeners(&layout, &unused), Ok(Vec::new()));
    }

    #[test]
    fn a_table_of_sockets_that_cannot_be_read_does_not_say_that_a_port_is_free() {
        let head = "  sl  local_address rem_address\n";
        let (_root, layout) = machine(&[("/proc/net/tcp", head), ("/proc/net/udp", head)]);
        let wanted = [(6443, Protocol::Tcp)];
        assert_eq!(listeners(&layout, &wanted), Ok(Vec::new()));
        // A link to itself: not even root can read it.
        symlink("tcp6", layout.path("/proc/net/tcp6")).unwrap();
        assert!(listeners(&layout, &wanted).is_err());
    }
}
