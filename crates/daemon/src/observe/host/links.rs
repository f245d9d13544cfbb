//! The machine's network links, as /sys lists them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use windrow_host::{HostLink, LinkState, Reading};

use super::{is_this_machine, names, number, text};
use crate::addresses::interface_addresses;
use crate::fs;
use crate::layout::Layout;

/// A machine has fewer of these.
const MOST: usize = 256;

/// The links that are a device's, a bond's, a bridge's or a VLAN's: there are many links to pods and VMs.
pub fn links(layout: &Layout) -> Reading<Vec<HostLink>> {
    let read = names(layout, "/sys/class/net").map(|names| {
        let addresses = match is_this_machine(layout) {
            Ok(()) => addresses(),
            Err(_) => BTreeMap::new(),
        };
        let vlans = vlans(layout);
        let links = names
            .iter()
            .filter_map(|name| link(layout, name, vlans.get(name).copied(), &addresses));
        let mut links: Vec<HostLink> = links.collect();
        // A NIC may have more virtual functions than there is room for; it counts itself.
        links.sort_by_key(|link| (link.virtual_function, !link.physical));
        links.truncate(MOST);
        links.sort_by(|one, other| one.name.cmp(&other.name));
        links
    });
    read.into()
}

fn link(
    layout: &Layout,
    name: &str,
    vlan: Option<u16>,
    addresses: &BTreeMap<String, Vec<(IpAddr, u8)>>,
) -> Option<HostLink> {
    let file = |part: &str| format!("/sys/class/net/{name}/{part}");
    let exists = |part: &str| fs::symlink_metadata(layout.path(&file(part))).is_ok();
    let physical = exists("device");
    // Every user may read this, and only root may read the VLAN.
    let is_vlan = || {
        let event = text(layout, &file("uevent")).unwrap_or_default();
        event.lines().any(|line| line == "DEVTYPE=vlan")
    };
    let is_made_of_others = || exists("bonding") || exists("bridge") || is_vlan();
    if !physical && vlan.is_none() && !is_made_of_others() {
        return None;
    }
    // As a bond's port it shows the bond's address (`fail_over_mac=none` in the kernel's bonding.rst).
    let permanent = text(layout, &file("bonding_slave/perm_hwaddr")).ok();
    let mac = permanent.and_then(|mac| mac.parse().ok());
    let mac = mac.or_else(|| text(layout, &file("address")).ok()?.parse().ok())?;
    let count = |part: &str| number::<u64>(layout, &file(part)).unwrap_or_default();
    let both = |what: &str| {
        let received = count(&format!("statistics/rx_{what}"));
        received.saturating_add(count(&format!("statistics/tx_{what}")))
    };
    // If the link is down, the kernel refuses to return the speed, and a driver may not know it (-1).
    let speed = number::<i64>(layout, &file("speed")).ok();
    let speed = speed.and_then(|speed| u32::try_from(speed).ok().filter(|speed| *speed > 0));
    Some(HostLink {
        name: name.to_owned(),
        mac,
        physical,
        virtual_function: exists("device/physfn"),
        vlan,
        state: state(layout, name).into(),
        speed: speed.ok_or("the link tells no speed".to_owned()).into(),
        mtu: number(layout, &file("mtu")).unwrap_or_default(),
        addresses: addresses.get(name).cloned().unwrap_or_default(),
        packets: both("packets"),
        errors: both("errors"),
    })
}

/// The VLANs of links, as the kernel lists them to root: `mgmt-br.100 | 100 | mgmt-br`.
fn vlans(layout: &Layout) -> BTreeMap<String, u16> {
    let table = text(layout, "/proc/net/vlan/config").unwrap_or_default();
    let entry = |line: &str| {
        let mut fields = line.split('|').map(str::trim);
        Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
    };
    table.lines().filter_map(entry).collect()
}

fn state(layout: &Layout, name: &str) -> Result<LinkState, String> {
    const UP: u32 = 1;
    let path = format!("/sys/class/net/{name}/flags");
    let flags = text(layout, &path)?;
    let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16)
        .map_err(|_| format!("{path}: no number"))?;
    if flags & UP == 0 {
        return Ok(LinkState::Down);
    }
    let carrier: u8 = number(layout, &format!("/sys/class/net/{name}/carrier"))?;
    Ok(match carrier {
        1 => LinkState::Up,
        _ => LinkState::NoCarrier,
    })
}

fn addresses() -> BTreeMap<String, Vec<(IpAddr, u8)>> {
    let mut found: BTreeMap<String, Vec<(IpAddr, u8)>> = BTreeMap::new();
    for one in interface_addresses().unwrap_or_default() {
        let (address, mask) = (one.address.as_ref(), one.netmask.as_ref());
        let v4 = address.and_then(|it| it.as_sockaddr_in()).map(|it| {
            let mask = mask.and_then(|mask| mask.as_sockaddr_in());
            let prefix = mask.map_or(32, |mask| mask.ip().to_bits().leading_ones());
            (IpAddr::V4(it.ip()), prefix)
        });
        let v6 = address.and_then(|it| it.as_sockaddr_in6()).map(|it| {
            let mask = mask.and_then(|mask| mask.as_sockaddr_in6());
            let prefix = mask.map_or(128, |mask| mask.ip().to_bits().leading_ones());
            (IpAddr::V6(it.ip()), prefix)
        });
        if let Some((address, prefix)) = v4.or(v6) {
            let known = found.entry(one.interface_name).or_default();
            known.push((address, u8::try_from(prefix).unwrap_or(u8::MAX)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn each_link_has_its_addresses_with_the_length_of_their_prefix() {
        let loopback = (IpAddr::V4(Ipv4Addr::LOCALHOST), 8);
        assert!(addresses()["lo"].contains(&loopback));
    }

    #[test]
    fn a_speed_is_one_that_the_driver_knows() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let directory = layout.path("/sys/class/net/e0");
        fs::create_dir_all(directory.join("device")).unwrap();
        fs::write(directory.join("address"), "52:54:00:00:00:01\n").unwrap();
        for (speed, expected) in [("25000\n", Some(&25_000)), ("0\n", None), ("-1\n", None)] {
            fs::write(directory.join("speed"), speed).unwrap();
            let link = link(&layout, "e0", None, &BTreeMap::new()).unwrap();
            assert_eq!(link.speed.known(), expected, "{speed}");
        }
    }
}
