//! A node's links and its neighbours on them, as the kernel lists them. This module does no I/O: the caller has queried the
//! kernel.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::addresses::is_in_network;

/// Limit on the entries to read. The kernel keeps about as many by default (`gc_thresh3`).
const MOST_NEIGHBOURS: usize = 1024;
/// The flag of an entry with a hardware address (`ATF_COM`).
const COMPLETE: u32 = 0x2;

/// A hardware address of Ethernet.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub struct MacAddress(pub [u8; 6]);

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.map(|byte| format!("{byte:02x}"));
        f.write_str(&bytes.join(":"))
    }
}

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes: Vec<u8> = text
            .split([':', '-'])
            .filter(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .filter_map(|part| u8::from_str_radix(part, 16).ok())
            .collect();
        match (<[u8; 6]>::try_from(bytes), text.len()) {
            (Ok(bytes), 17) => Ok(Self(bytes)),
            _ => Err("it is not a valid hardware address".to_owned()),
        }
    }
}

impl From<MacAddress> for String {
    fn from(mac: MacAddress) -> Self {
        mac.to_string()
    }
}

impl TryFrom<String> for MacAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// An Ethernet link of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkLink {
    /// Its name.
    pub name: String,
    /// Its own hardware address.
    pub mac: MacAddress,
    /// Is it up, and is there a carrier?
    pub running: bool,
    /// Its addresses but those of the link alone (`fe80::`), each with the length of its network's prefix.
    pub addresses: Vec<(IpAddr, u8)>,
}

impl NetworkLink {
    pub fn has(&self, address: impl Into<IpAddr>) -> bool {
        let address = address.into();
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// The longest prefix of its networks that contains this address.
    fn reaches(&self, address: IpAddr) -> Option<u8> {
        let own = self.addresses.iter();
        own.filter(|(own, prefix)| is_in_network(address, *own, *prefix))
            .map(|(_, prefix)| *prefix)
            .max()
    }
}

/// Another machine's hardware address, as this node has heard it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Neighbour {
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// Who answered for it last.
    pub mac: MacAddress,
    /// On which link.
    pub link: String,
}

/// A node's links and neighbours.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnNetwork {
    /// Its links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<NetworkLink>,
    /// Its neighbours whose hardware address is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Neighbour>,
}

impl OwnNetwork {
    /// Is it empty because nothing was read? A node always has a link.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.neighbours.is_empty()
    }
}

/// Reads `/proc/net/arp`: address, type, flags, hardware address, mask, device. Incomplete entries are left out.
pub fn neighbours(table: &str) -> Vec<Neighbour> {
    let entry = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [address, _, flags, mac, _, link] = fields[..] else {
            return None;
        };
        let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
        (flags & COMPLETE != 0).then_some(Neighbour {
            address: address.parse().ok()?,
            mac: mac.parse().ok()?,
            link: link.to_owned(),
        })
    };
    let lines = table.lines().take(MOST_NEIGHBOURS);
    lines.filter_map(entry).collect()
}

/// The link on which to ask for an address: the named one, the one that has the address, or the one whose network contains it.
///
/// # Errors
///
/// The reason for a missing link, and the fix.
pub fn link_for<'l>(
    links: &'l [NetworkLink],
    address: IpAddr,
    named: Option<&str>,
) -> Result<&'l NetworkLink, String> {
    let link = match named {
        Some(name) => links
            .iter()
            .find(|link| link.name == name)
            .ok_or_else(|| format!("there is no Ethernet link {name}"))?,
        None => links
            .iter()
            .filter_map(|link| Some((link.reaches(address)?, link)))
            .max_by_key(|(prefix, link)| (link.has(address), *prefix, link.running))
            .map(|(_, link)| link)
            .ok_or_else(|| {
                format!(
                    "no link has an address in the network of {address}: name one with --interface"
                )
            })?,
    };
    match link.running {
        true => Ok(link),
        false => Err(format!("{} is down, or has no carrier", link.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, running: bool, addresses: &[(&str, u8)]) -> NetworkLink {
        let addresses = addresses.iter();
        NetworkLink {
            name: name.to_owned(),
            mac: MacAddress([2, 0, 0, 0, 0, 1]),
            running,
            addresses: addresses
                .map(|(address, prefix)| (address.parse().unwrap(), *prefix))
                .collect(),
        }
    }

    #[test]
    fn a_hardware_address_is_read_as_it_is_written_and_nothing_else_is() {
        let mac: MacAddress = "52:54:00:Ab:cd:0E".parse().unwrap();
        assert_eq!(mac.to_string(), "52:54:00:ab:cd:0e");
        let kept = serde_json::to_value(mac).unwrap();
        assert_eq!(kept, "52:54:00:ab:cd:0e");
        assert_eq!(serde_json::from_value::<MacAddress>(kept).unwrap(), mac);
        for wrong in [
            "",
            "52:54:00:ab:cd",
            "52:54:00:ab:cd:0e:01",
            "52:54:00:ab:cd:+e",
            "5254.00ab.cd0e",
        ] {
            assert!(wrong.parse::<MacAddress>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn of_the_kernels_table_only_what_has_been_answered_counts() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                     10.0.0.1         0x1         0x2         52:54:00:00:00:01     *        mgmt-br\n\
                     10.0.0.2         0x1         0x0         00:00:00:00:00:00     *        mgmt-br\n\
                     10.0.0.3         0x1         0x6         52:54:00:00:00:03     *        mgmt-br\n\
                     10.0.0.4         0x20        0x2         80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01     *        ib0\n\
                     cut off";
        let seen: Vec<String> = neighbours(table)
            .iter()
            .map(|one| format!("{} {} {}", one.address, one.mac, one.link))
            .collect();
        assert_eq!(
            seen,
            [
                "10.0.0.1 52:54:00:00:00:01 mgmt-br",
                "10.0.0.3 52:54:00:00:00:03 mgmt-br"
            ]
        );
    }

    #[test]
    fn an_address_is_asked_for_where_it_is_else_where_its_network_is_else_where_the_user_says() {
        let links = [
            link("wide", true, &[("10.0.0.2", 8)]),
            link("mgmt-br", true, &[("10.1.0.2", 24)]),
            link("vip-398f068d", true, &[("10.1.0.10", 32)]),
            link("down", false, &[("192.0.2.1", 24), ("2001:db8:2::1", 64)]),
            link("six", true, &[("2001:db8::1", 32), ("10.0.0.3", 16)]),
            link("six-near", true, &[("2001:db8:0:1::1", 64)]),
        ];
        let name = |address: &str, named| {
            link_for(&links, address.parse().unwrap(), named).map(|link| link.name.as_str())
        };
        assert_eq!(name("10.1.0.10", None), Ok("vip-398f068d"));
        assert_eq!(name("10.1.0.11", None), Ok("mgmt-br"));
        assert_eq!(name("10.2.0.11", None), Ok("wide"));
        assert_eq!(name("10.1.0.11", Some("wide")), Ok("wide"));
        assert_eq!(name("2001:db8:0:1::9", None), Ok("six-near"));
        assert_eq!(name("2001:db8:0:2::9", None), Ok("six"));
        assert_eq!(name("10.0.7.1", None), Ok("six"), "the nearer of two");
        // The first 32 bits are equal, but the family differs.
        assert_eq!(name("10.1.0.2", None), Ok("mgmt-br"));
        assert!(
            name("2001:db9::1", None)
                .unwrap_err()
                .contains("--interface")
        );
        assert!(
            name("172.16.0.1", None)
                .unwrap_err()
                .contains("--interface")
        );
        assert!(
            name("10.1.0.11", Some("eth9"))
                .unwrap_err()
                .contains("eth9")
        );
        assert!(name("192.0.2.9", None).unwrap_err().contains("no carrier"));
    }
}
