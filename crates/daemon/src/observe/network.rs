//! The node's links and neighbours, as the kernel lists them to every user.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nix::ifaddrs::InterfaceAddress;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::LinkAddr;
use windrow_harvester::network::{MacAddress, NetworkLink, OwnNetwork, neighbours};

use crate::addresses::interface_addresses;
use crate::files::is_missing;
use crate::fs;
use crate::layout::Layout;
use crate::observe::platform::boot_id;

/// The links and neighbours of this node. Unavailable values are absent: the links of a sandbox, or of another
/// machine's disk.
pub fn own_network(layout: &Layout) -> OwnNetwork {
    let table = fs::read_to_string(layout.path("/proc/net/arp")).unwrap_or_default();
    let links = match has_our_links(layout) {
        true => links().unwrap_or_default().into_iter(),
        false => Vec::new().into_iter(),
    };
    // The links to pods are many, and have no address.
    let tells = |link: &NetworkLink| !link.addresses.is_empty() || link.name.starts_with("vip-");
    OwnNetwork {
        links: links.map(|(link, _)| link).filter(tells).collect(),
        neighbours: neighbours(&table),
    }
}

/// Whether the kernel's links are those of the node: only with the root of this machine, which may be mounted
/// elsewhere.
pub fn has_our_links(layout: &Layout) -> bool {
    layout.is_this_machine()
        || boot_id(&Layout::new("/")).is_some_and(|ours| boot_id(layout) == Some(ours))
}

/// The Ethernet links, and how a packet socket names each.
pub fn links() -> nix::Result<Vec<(NetworkLink, LinkAddr)>> {
    let all = interface_addresses()?;
    let mut addresses: BTreeMap<&str, Vec<(IpAddr, u8)>> = BTreeMap::new();
    for one in &all {
        let known = addresses.entry(&one.interface_name).or_default();
        known.extend(address_of(one));
    }
    let ethernet = all.iter().filter_map(|one| {
        let address = *one.address.as_ref()?.as_link_addr()?;
        let speaks_arp = !one
            .flags
            .intersects(InterfaceFlags::IFF_LOOPBACK | InterfaceFlags::IFF_NOARP);
        let mac = address
            .addr()
            .filter(|_| speaks_arp && address.halen() == 6)?;
        let link = NetworkLink {
            name: one.interface_name.clone(),
            mac: MacAddress(mac),
            running: one
                .flags
                .contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING),
            addresses: addresses
                .get(one.interface_name.as_str())
                .cloned()
                .unwrap_or_default(),
        };
        Some((link, address))
    });
    Ok(ethernet.collect())
}

/// An address with the length of its prefix. A link-local one does not count.
fn address_of(one: &InterfaceAddress) -> Option<(IpAddr, u8)> {
    let (address, mask) = (one.address.as_ref()?, one.netmask.as_ref());
    if let Some(v4) = address.as_sockaddr_in() {
        let mask = mask.and_then(|mask| mask.as_sockaddr_in());
        let prefix = mask.map_or(32, |mask| mask.ip().to_bits().leading_ones());
        return Some((v4.ip().into(), u8::try_from(prefix).unwrap_or(32)));
    }
    let v6 = address.as_sockaddr_in6()?;
    let mask = mask.and_then(|mask| mask.as_sockaddr_in6());
    let prefix = mask.map_or(128, |mask| mask.ip().to_bits().leading_ones());
    let is_of_link = v6.ip().is_unicast_link_local();
    (!is_of_link).then_some((v6.ip().into(), u8::try_from(prefix).unwrap_or(128)))
}

/// Whether there is a default route.
///
/// # Errors
///
/// The table that cannot be read, and why.
pub fn has_default_route(layout: &Layout) -> Result<bool, (&'static str, String)> {
    const V4: &str = "/proc/net/route";
    const V6: &str = "/proc/net/ipv6_route";
    let v4 = fs::read_to_string(layout.path(V4)).map_err(|error| (V4, error.to_string()))?;
    let v6 = match fs::read_to_string(layout.path(V6)) {
        Ok(table) => table,
        // IPv6 is switched off.
        Err(error) if is_missing(&error) => String::new(),
        Err(error) => return Err((V6, error.to_string())),
    };
    Ok(has_default_v4(&v4) || has_default_v6(&v6))
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, in hexadecimal.
fn has_default_v4(table: &str) -> bool {
    const UP: u32 = 1;
    table.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let up = fields
            .get(3)
            .and_then(|flags| u32::from_str_radix(flags, 16).ok())
            .is_some_and(|flags| flags & UP != 0);
        up && fields.get(1) == Some(&"00000000") && fields.get(7) == Some(&"00000000")
    })
}

/// `destination prefix source prefix next-hop metric … device`. The kernel keeps a separate default route on `lo`,
/// which leads nowhere.
fn has_default_v6(table: &str) -> bool {
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let zeros = |field: &str| field.bytes().all(|digit| digit == b'0');
        fields.len() >= 10 && zeros(fields[0]) && zeros(fields[1]) && fields.last() != Some(&"lo")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machines_links_are_those_of_a_node() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        assert!(own_network(&layout).is_empty());
        assert!(!has_our_links(&layout) && has_our_links(&Layout::new("/")));
        // The machine's own root, mounted elsewhere.
        std::os::unix::fs::symlink("/proc", root.path().join("proc")).unwrap();
        assert!(has_our_links(&layout));
    }

    #[test]
    fn a_table_of_routes_that_cannot_be_read_does_not_say_that_there_is_no_default_route() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let tables = layout.path("/proc/net");
        fs::create_dir_all(&tables).unwrap();
        fs::write(tables.join("route"), "Iface\n").unwrap();
        assert_eq!(has_default_route(&layout), Ok(false));
        std::os::unix::fs::symlink("ipv6_route", tables.join("ipv6_route")).unwrap();
        assert_eq!(
            has_default_route(&layout).unwrap_err().0,
            "/proc/net/ipv6_route"
        );
    }

    #[test]
    fn a_default_route_is_one_that_is_up_and_leads_out() {
        let head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n";
        let with = |line: &str| has_default_v4(&format!("{head}{line}\n"));
        assert!(with(
            "mgmt-br\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0"
        ));
        assert!(!with(
            "mgmt-br\t00000000\t0100000A\t0002\t0\t0\t0\t00000000\t0"
        ));
        assert!(!with(
            "mgmt-br\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0"
        ));
        let zeros = "0".repeat(32);
        let v6 = |device: &str| {
            has_default_v6(&format!(
                "{zeros} 00 {zeros} 00 {zeros} 00000400 1 0 00000003 {device}\n"
            ))
        };
        assert!(v6("mgmt-br"));
        assert!(!v6("lo"));
    }
}
