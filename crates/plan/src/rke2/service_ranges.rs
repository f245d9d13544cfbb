//! The addresses and ports that RKE2's configuration keeps for Services.
//!
//! Source: k3s `pkg/cli/cmds/server.go` and `pkg/daemons/control/server.go`; RKE2's documentation of `service-cidr` and
//! `service-node-port-range`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use windrow_model::addresses::is_in_network;
use windrow_model::manifest::{Node, NodeValue};

use super::config::{Rke2ConfigFile, in_order, merge, pairs};

const NODE_PORTS: RangeInclusive<i64> = 30000..=32767;
const ADDRESSES: &str = "10.43.0.0/16";

/// The ports and networks that Services may use on a node. Unknown without its configuration, and for invalid values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceRanges {
    /// RKE2's configuration is known.
    pub is_known: bool,
    /// Node ports.
    pub ports: Option<RangeInclusive<i64>>,
    /// Networks of cluster IPs.
    pub networks: Option<Vec<Network>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// An address and the number of its network bits (`10.43.0.0/16`).
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.trim().split_once('/')?;
        let (address, bits): (IpAddr, u8) = (address.parse().ok()?, bits.parse().ok()?);
        let most = if address.is_ipv4() { 32 } else { 128 };
        (bits <= most).then_some(Self { address, bits })
    }

    pub fn is_ipv6(&self) -> bool {
        self.address.is_ipv6()
    }

    /// The network with its first address.
    pub(super) fn first(&self) -> String {
        let bits = u32::from(self.bits);
        let address: IpAddr = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                Ipv4Addr::from(u32::from(address) & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                Ipv6Addr::from(u128::from(address) & mask).into()
            }
        };
        format!("{address}/{bits}")
    }

    /// The address at this index, counted from the first one of the network.
    pub(super) fn address_at(&self, index: u8) -> Option<IpAddr> {
        let first = Self::parse(&self.first())?.address;
        let address = match first {
            IpAddr::V4(first) => IpAddr::V4(u32::from(first).checked_add(index.into())?.into()),
            IpAddr::V6(first) => IpAddr::V6(u128::from(first).checked_add(index.into())?.into()),
        };
        Some(address).filter(|address| self.contains(*address))
    }

    pub(super) fn bits(&self) -> u8 {
        self.bits
    }

    /// The bits that are left for addresses.
    pub(super) fn host_bits(&self) -> u8 {
        let all = if self.is_ipv6() { 128 } else { 32 };
        all - self.bits
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        is_in_network(address, self.address, self.bits)
    }
}

/// The ranges of RKE2's configuration; without one, RKE2's defaults, marked as unknown.
pub fn service_ranges(files: &[Rke2ConfigFile]) -> ServiceRanges {
    let merged = merge(files);
    let by_hand = |flag: &str| !merged.flag("kube-apiserver-arg", flag).is_empty();
    let written = |key: &str| {
        let mut files = in_order(files).into_iter().rev();
        files.find_map(|file| {
            let entries = pairs(file).ok()?;
            let mut entries = entries.into_iter().rev();
            let entry = entries.find(|entry| entry.key.trim().trim_end_matches('+') == key)?;
            Some(text(&entry.value))
        })
    };
    let ports = match written("service-node-port-range") {
        _ if by_hand("service-node-port-range") => None,
        None => Some(NODE_PORTS),
        Some(text) => text.and_then(|text| port_range(&text)),
    };
    let networks = match written("service-cidr") {
        _ if by_hand("service-cluster-ip-range") => None,
        None => Some(ADDRESSES.to_owned()),
        Some(text) => text,
    };
    ServiceRanges {
        is_known: !files.is_empty(),
        ports,
        networks: networks.and_then(|text| text.split(',').map(Network::parse).collect()),
    }
}

fn text(node: &Node) -> Option<String> {
    match &node.value {
        NodeValue::String(text) => Some(text.clone()),
        NodeValue::Sequence(items) => {
            let items: Option<Vec<&str>> = items.iter().map(Node::as_str).collect();
            Some(items?.join(","))
        }
        _ => None,
    }
}

fn port_range(text: &str) -> Option<RangeInclusive<i64>> {
    let (first, last) = text.trim().split_once('-')?;
    Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::super::config::ConfigLayer;
    use super::*;

    fn ranges(text: &str) -> ServiceRanges {
        service_ranges(&[Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", text)])
    }

    #[test]
    fn services_have_what_the_configuration_keeps_for_them() {
        let default = ranges("token: a\n");
        assert!(default.is_known && !service_ranges(&[]).is_known);
        assert_eq!(default.ports, Some(NODE_PORTS));
        let networks = default.networks.unwrap();
        assert!(networks[0].contains("10.43.255.1".parse().unwrap()));
        assert!(!networks[0].contains("10.44.0.1".parse().unwrap()));
        let both =
            ranges("service-cidr: 10.1.0.0/16,fd00:1::/112\nservice-node-port-range: 80-90\n");
        assert_eq!(both.ports, Some(80..=90));
        let networks = both.networks.unwrap();
        assert!(networks[1].is_ipv6() && networks[1].contains("fd00:1::ffff".parse().unwrap()));
        assert!(!networks[1].contains("fd00:1::1:0".parse().unwrap()));
        let list = ranges("service-cidr: [10.1.0.0/16, 'fd00:1::/112']\n");
        assert_eq!(list.networks.unwrap().len(), 2);
        for unreadable in [
            "service-cidr: many\nservice-node-port-range: many\n",
            "kube-apiserver-arg: [service-node-port-range=1-2, service-cluster-ip-range=10.0.0.0/8]\n",
        ] {
            let ranges = ranges(unreadable);
            assert_eq!(
                (ranges.ports, ranges.networks),
                (None, None),
                "{unreadable}"
            );
        }
    }
}
