//! The node's links and neighbours, as the kernel lists them to anyone.

use std::collections::BTreeMap;
use std::fs;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::LinkAddr;
use windrow_harvester::network::{MacAddress, NetworkLink, OwnNetwork, neighbours};

use crate::layout::Layout;

/// The links and neighbours of this node. What cannot be asked is absent.
pub fn own_network(layout: &Layout) -> OwnNetwork {
    let table = fs::read_to_string(layout.path("/proc/net/arp")).unwrap_or_default();
    let links = links().unwrap_or_default().into_iter();
    // The links to pods are many, and have no address.
    let tells = |link: &NetworkLink| !link.addresses.is_empty() || link.name.starts_with("vip-");
    OwnNetwork {
        links: links.map(|(link, _)| link).filter(tells).collect(),
        neighbours: neighbours(&table),
    }
}

/// The Ethernet links, and how a packet socket names each.
pub(super) fn links() -> nix::Result<Vec<(NetworkLink, LinkAddr)>> {
    let all: Vec<InterfaceAddress> = getifaddrs()?.collect();
    let mut addresses: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for one in &all {
        if let Some(v4) = one.address.as_ref().and_then(|a| a.as_sockaddr_in()) {
            let mask = one.netmask.as_ref().and_then(|mask| mask.as_sockaddr_in());
            let prefix = mask.map_or(32, |mask| mask.ip().to_bits().leading_ones());
            let known = addresses.entry(&one.interface_name).or_default();
            known.push((v4.ip(), u8::try_from(prefix).unwrap_or(32)));
        }
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
