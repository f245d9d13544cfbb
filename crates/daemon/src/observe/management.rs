//! How other machines know the node: its name, the addresses of its management interface, and its name in a lease.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use sysinfo::System;

use crate::addresses::interface_addresses;
use crate::fs;
use crate::layout::Layout;

const HARVESTER: &str = "mgmt-br";

/// The node, as other machines know it. Unknown values are left empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Management {
    pub hostname: String,
    pub mac: String,
    /// Its first IPv4 address that other machines can use.
    pub ipv4: Option<Ipv4Addr>,
    /// Its first IPv6 address. A link-local one does not count: it means nothing on another machine.
    pub ipv6: Option<Ipv6Addr>,
}

/// Asks the kernel; with another root, it reads only the files there, which contain no address. The management
/// interface is Harvester's, or else the interface of the default route.
pub fn management(layout: &Layout) -> Management {
    let hostname = host_name_of(layout).unwrap_or_default();
    if !layout.is_this_machine() {
        let mac = |name: &str| read_line(layout, &format!("/sys/class/net/{name}/address"));
        let mac = mac(HARVESTER).or_else(|| mac(&default_route(layout)?));
        return Management {
            hostname,
            mac: mac.unwrap_or_default(),
            ..Management::default()
        };
    }
    let addresses = interface_addresses().unwrap_or_default();
    let is_there = |name: &str| addresses.iter().any(|one| one.interface_name == name);
    let name = match is_there(HARVESTER) {
        true => Some(HARVESTER.to_owned()),
        false => default_route(layout),
    };
    let Some(name) = name else {
        return Management {
            hostname,
            ..Management::default()
        };
    };
    let mut ours = Management {
        hostname,
        ..Management::default()
    };
    let here = addresses.iter().filter(|one| one.interface_name == name);
    for address in here.filter_map(|one| one.address) {
        if let Some(v4) = address.as_sockaddr_in() {
            let ip = v4.ip();
            ours.ipv4 = ours.ipv4.or((!ip.is_link_local()).then_some(ip));
        } else if let Some(v6) = address.as_sockaddr_in6() {
            let ip = v6.ip();
            ours.ipv6 = ours.ipv6.or((!ip.is_unicast_link_local()).then_some(ip));
        } else if let Some(mac) = address
            .as_link_addr()
            .and_then(nix::sys::socket::LinkAddr::addr)
        {
            let bytes = mac.map(|byte| format!("{byte:02x}"));
            ours.mac = bytes.join(":");
        }
    }
    ours
}

/// Tells machines with the same name apart: by the system, and by the hardware if a system was copied.
const MACHINE: &[&str] = &[
    "/etc/machine-id",
    "/sys/class/dmi/id/product_uuid",
    "/sys/class/dmi/id/product_serial",
];
/// Used when none of these can be read. It lasts until the machine starts again, and so does a lease.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The machine's name as the holder of a lease: its host name, which may not be unique (`localhost`), and a part that
/// is. It is the same after a restart.
pub fn lease_holder(layout: &Layout) -> String {
    let name = nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "windrow".to_owned());
    holder(layout, &name)
}

fn holder(layout: &Layout, name: &str) -> String {
    let read = |path: &&str| {
        let text = fs::read_to_string(layout.path(path)).ok()?;
        let text = text.trim().to_owned();
        // What systemd writes before the first start.
        (!text.is_empty() && text != "uninitialized").then_some(text)
    };
    let mut known: Vec<String> = MACHINE.iter().filter_map(read).collect();
    if known.is_empty() {
        known.extend(read(&BOOT));
    }
    // A separate digest: the machine's identity is not for others to read (machine-id(5)).
    let digest = Sha256::digest(format!("windrow lease\n{}", known.join("\n")));
    let digest: String = digest
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{name}_{digest}")
}

/// Longer serial numbers are ignored.
const LONGEST_SERIAL: usize = 64;
/// Values of boards without a serial number, in lower case.
const NO_SERIAL: &[&str] = &[
    "none",
    "n/a",
    "not specified",
    "not applicable",
    "not available",
    "unknown",
    "default string",
    "default",
    "system serial number",
    "serial number",
    "to be filled by o.e.m.",
    "to be filled by oem",
    "o.e.m.",
    "oem",
    "empty",
    "invalid",
    "0123456789",
    "123456789",
    "1234567890",
];

/// The machine's serial number, as its maker has written it; empty if it has no such number.
pub fn serial_number(layout: &Layout) -> String {
    let path = layout.path("/sys/class/dmi/id/product_serial");
    let text = fs::read_to_string(path).unwrap_or_default();
    let serial: String = text.trim().chars().take(LONGEST_SERIAL).collect();
    let is_filler = serial
        .chars()
        .all(|one| matches!(one, '0' | 'x' | 'X' | '.' | '-' | ' '))
        || NO_SERIAL.contains(&serial.to_lowercase().as_str());
    if is_filler { String::new() } else { serial }
}

/// The machine's uptime, independent of its clock.
pub fn uptime() -> Option<Duration> {
    let seconds = System::uptime();
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

fn default_route(layout: &Layout) -> Option<String> {
    let table = fs::read_to_string(layout.path("/proc/net/route")).ok()?;
    default_interface(&table)
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, in hexadecimal: the default route with
/// the lowest metric.
fn default_interface(table: &str) -> Option<String> {
    let routes = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, "00000000", _, flags, _, _, metric, "00000000", ..] = fields[..] else {
            return None;
        };
        let up = u32::from_str_radix(flags, 16).ok()? & 1 != 0;
        let metric: u32 = metric.parse().ok()?;
        up.then(|| (metric, name.to_owned()))
    });
    routes.min().map(|(_, name)| name)
}

/// The name by which other machines know this node.
pub fn host_name() -> String {
    own_host_name().unwrap_or_else(|| "windrow".to_owned())
}

/// The host name, as `hostname` prints it; `None` when it has none.
pub fn own_host_name() -> Option<String> {
    let name = nix::unistd::gethostname().ok()?.into_string().ok()?;
    (!name.is_empty()).then_some(name)
}

/// The host name of the node. With another root, it comes from the files there, if they contain it.
pub fn host_name_of(layout: &Layout) -> Option<String> {
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let mut files = files
        .iter()
        .filter(|_| !layout.is_this_machine())
        .filter_map(|file| read_line(layout, file));
    files.next().or_else(own_host_name)
}

fn read_line(layout: &Layout, path: &str) -> Option<String> {
    let text = fs::read_to_string(layout.path(path)).ok()?;
    let line = text.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_up_for_as_long_as_the_kernel_says() {
        let kernels = || -> u64 {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            text.split('.').next().unwrap().parse().unwrap()
        };
        let before = kernels();
        let found = uptime().unwrap().as_secs();
        assert!((before..=kernels()).contains(&found), "{before} {found}");
    }

    #[test]
    fn below_another_root_nothing_of_this_machine_is_told_of_the_node() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let write = |path: &str, text: &str| {
            let path = layout.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        // This machine has a link of this name too.
        let route = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\nlo\t00000000\t0\t0003\t0\t0\t0\t00000000\n";
        write("/proc/net/route", route);
        let node = management(&layout);
        assert_eq!((node.mac.as_str(), node.ipv4, node.ipv6), ("", None, None));
        write("/sys/class/net/lo/address", "52:54:00:00:00:01\n");
        write("/etc/hostname", "n1\n");
        let node = management(&layout);
        assert_eq!(node.mac, "52:54:00:00:00:01");
        assert_eq!((node.hostname.as_str(), node.ipv4), ("n1", None));
        // The interface that Harvester makes comes before the one of the default route.
        write("/sys/class/net/mgmt-br/address", "52:54:00:00:00:02\n");
        assert_eq!(management(&layout).mac, "52:54:00:00:00:02");
    }

    #[test]
    fn two_machines_of_one_name_hold_leases_under_two_names_and_each_keeps_its_own() {
        let machine = |files: &[(&str, &str)]| {
            let root = tempfile::tempdir().unwrap();
            let layout = Layout::new(root.path());
            for (path, text) in files {
                let path = layout.path(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            holder(&layout, "localhost")
        };
        let id = "/etc/machine-id";
        let uuid = "/sys/class/dmi/id/product_uuid";
        let one = machine(&[(id, "4c0a5f9e6d2b4f7e8a9b0c1d2e3f4a5b\n")]);
        assert!(one.starts_with("localhost_"), "{one}");
        assert!(!one.contains("4c0a5f9e"), "{one}");
        assert_eq!(one, machine(&[(id, "4c0a5f9e6d2b4f7e8a9b0c1d2e3f4a5b")]));
        assert_ne!(one, machine(&[(id, "5c0a5f9e6d2b4f7e8a9b0c1d2e3f4a5b")]));
        // An image that was started once before it was copied has one machine-id for all copies.
        let copied =
            |hardware| machine(&[(id, "4c0a5f9e6d2b4f7e8a9b0c1d2e3f4a5b"), (uuid, hardware)]);
        assert_ne!(copied("03000200-0400"), copied("03000200-0500"));
        // A machine with neither is identified by its boot.
        let fresh = |boot| machine(&[(id, "uninitialized\n"), (BOOT, boot)]);
        assert_ne!(fresh("a"), fresh("b"));
        assert_eq!(fresh("a"), fresh("a"));
    }

    #[test]
    fn a_serial_number_is_one_that_somebody_has_written() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        assert_eq!(serial_number(&layout), "");
        let path = layout.path("/sys/class/dmi/id/product_serial");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        for (text, expected) in [
            (" J3X9K2\n", "J3X9K2"),
            ("To Be Filled By O.E.M.\n", ""),
            ("0000000000\n", ""),
            ("Default string\n", ""),
            ("\n", ""),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(serial_number(&layout), expected, "{text}");
        }
        std::fs::write(&path, "9".repeat(500)).unwrap();
        assert_eq!(serial_number(&layout).len(), LONGEST_SERIAL);
    }

    #[test]
    fn the_default_route_with_the_lowest_metric_counts() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n\
                     bond1\t00000000\t0101A8C0\t0003\t0\t0\t200\t00000000\t0\n\
                     bond0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\n\
                     down0\t00000000\t0101A8C0\t0002\t0\t0\t1\t00000000\t0\n\
                     bond0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n";
        assert_eq!(default_interface(table).as_deref(), Some("bond0"));
        assert_eq!(default_interface("Iface\n"), None);
    }

    #[test]
    fn the_holder_of_a_lease_begins_with_the_machines_name() {
        let holder = lease_holder(&Layout::new("/"));
        let (name, unique) = holder.rsplit_once('_').unwrap();
        assert_eq!(name, host_name());
        assert_eq!(unique.len(), 12);
    }

    #[test]
    fn the_kernel_can_be_asked() {
        assert!(!management(&Layout::new("/")).hostname.is_empty());
    }
}
