//! How the addresses of a configuration relate to each other. The installer checks each one alone (harvester-installer
//! pkg/console/validator.go checkNetworks and checkVip, v1.4.0 to v1.8.1 and harvester v1.9.0-rc6).
//!
//! ```text
//!   node      ip, subnet_mask, gateway          the prefix is counted from the mask (pkg/config/cos.go maskToCIDR)
//!   VIP       kube-vip binds it to the management network and announces it there with ARP (harvester#7093, #5324)
//!   cluster   the networks of pods and Services, by default 10.52.0.0/16 and 10.53.0.0/16: a node reaches no other
//!             computer with an address of them (harvester#4254)
//! ```
//!
//! With `method: dhcp` the node's addresses are unknown, and nothing is said of them.

use std::net::Ipv4Addr;

use windrow_model::manifest::Node;

use super::networks::{PODS, SERVICES};
use super::rules::text;

/// A relation that cannot hold.
pub(super) struct Misfit {
    pub(super) line: u32,
    pub(super) kind: MisfitKind,
    pub(super) why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MisfitKind {
    /// It holds for the node, whether it creates a cluster or joins one.
    OfNode,
    /// Only the node that creates the cluster sets these values.
    OfCluster,
    /// The node needs a route that the file does not show.
    NodeNeedsRoute,
    /// The users of the VIP need one.
    VipNeedsRoute,
    /// Other computers of the node's network are out of reach.
    HidesOthers,
}

/// A network of IPv4: its own address and its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ipv4Network {
    first: u32,
    prefix: u32,
}

impl Ipv4Network {
    /// The network of an address with this prefix; `None` for an impossible prefix.
    pub(super) fn around(address: Ipv4Addr, prefix: u32) -> Option<Self> {
        let mask = mask(prefix)?;
        let first = address.to_bits() & mask;
        Some(Self { first, prefix })
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.trim().split_once('/')?;
        Self::around(address.parse().ok()?, prefix.parse().ok()?)
    }

    pub(super) fn contains(self, address: Ipv4Addr) -> bool {
        Self::around(address, self.prefix) == Some(self)
    }

    pub(super) fn covers(self, other: Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.first.into())
    }

    fn overlaps(self, other: Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    fn broadcast(self) -> Ipv4Addr {
        let hosts = !mask(self.prefix).unwrap_or_default();
        (self.first | hosts).into()
    }

    /// Is it the network's own address or its broadcast address? Networks of one or two addresses have neither.
    fn reserves(self, address: Ipv4Addr) -> bool {
        self.prefix < 31 && (address.to_bits() == self.first || address == self.broadcast())
    }
}

impl std::fmt::Display for Ipv4Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.first), self.prefix)
    }
}

fn mask(prefix: u32) -> Option<u32> {
    let free = u32::BITS.checked_sub(prefix)?;
    Some(u32::MAX.checked_shl(free).unwrap_or_default())
}

/// The prefix of a mask like 255.255.255.0; `None` if a 0 comes before a 1.
fn prefix_of(mask: Ipv4Addr) -> Option<u32> {
    let bits = mask.to_bits();
    (bits.leading_ones() == bits.count_ones()).then(|| bits.count_ones())
}

/// An address of the configuration.
#[derive(Clone, Copy)]
struct Written<'n> {
    called: &'n str,
    address: Ipv4Addr,
    line: u32,
}

/// The addresses of a configuration. A value that is not an address is reported elsewhere, and missing here.
pub(super) struct Addresses<'n> {
    node: Option<Written<'n>>,
    gateway: Option<Written<'n>>,
    vip: Option<Written<'n>>,
    /// The node's network.
    network: Option<Ipv4Network>,
    /// The line of a mask that is not a prefix.
    torn_mask: Option<u32>,
    names: Vec<Written<'n>>,
    pods: Vec<(Ipv4Network, Option<u32>)>,
    services: Vec<(Ipv4Network, Option<u32>)>,
}

impl<'n> Addresses<'n> {
    pub(super) fn read(os: Option<&'n Node>, install: Option<&'n Node>) -> Self {
        let management = install.and_then(|install| install.entry("managementInterface"));
        let management = management.map(|entry| &entry.value);
        let is = |section, key, word: &str| {
            text(section, key).is_some_and(|(text, _)| text.eq_ignore_ascii_case(word))
        };
        let fixed = management.filter(|_| is(management, "method", "static"));
        let written = |section, key, called| {
            let (address, line) = text(section, key)?;
            let address = address.parse().ok()?;
            Some(Written {
                called,
                address,
                line,
            })
        };
        let node = written(fixed, "ip", "install.management_interface.ip");
        let netmask = written(fixed, "subnetMask", "");
        let prefix = netmask.and_then(|mask| prefix_of(mask.address));
        let network = node
            .zip(prefix)
            .and_then(|(node, prefix)| Ipv4Network::around(node.address, prefix));
        let names = os.and_then(|os| os.entry("dnsNameservers"));
        let names = names.map_or(&[][..], |names| names.value.items());
        let networks = |key, default: &str| match text(install, key) {
            None => (Ipv4Network::parse(default).into_iter())
                .map(|network| (network, None))
                .collect(),
            Some((written, line)) => (written.split(',').filter_map(Ipv4Network::parse))
                .map(|network| (network, Some(line)))
                .collect(),
        };
        Self {
            node,
            gateway: written(fixed, "gateway", "install.management_interface.gateway"),
            vip: written(
                install.filter(|_| is(install, "vipMode", "static")),
                "vip",
                "install.vip",
            ),
            network,
            torn_mask: netmask.filter(|_| prefix.is_none()).map(|mask| mask.line),
            names: names
                .iter()
                .filter_map(|node| {
                    Some(Written {
                        called: "os.dns_nameservers",
                        address: node.as_str()?.parse().ok()?,
                        line: node.line,
                    })
                })
                .collect(),
            pods: networks("clusterPodCidr", PODS),
            services: networks("clusterServiceCidr", SERVICES),
        }
    }

    /// Every relation that cannot hold.
    pub(super) fn misfits(&self) -> Vec<Misfit> {
        let mut found = Vec::new();
        self.of_node(&mut found);
        self.of_vip(&mut found);
        self.of_cluster(&mut found);
        found
    }

    /// The addresses that this configuration gives to a computer, and their keys.
    pub(super) fn written(&self) -> impl Iterator<Item = (&'n str, Ipv4Addr)> {
        let own = [self.gateway, self.vip, self.node].into_iter().flatten();
        own.map(|written| (written.called, written.address))
    }

    /// The network of pods or of Services that overlaps with this one.
    pub(super) fn cluster_network(
        &self,
        network: Ipv4Network,
    ) -> Option<(&'static str, Ipv4Network)> {
        let pods = self.pods.iter().map(|(own, _)| ("pods", *own));
        let services = self.services.iter().map(|(own, _)| ("Services", *own));
        pods.chain(services).find(|(_, own)| own.overlaps(network))
    }

    pub(super) fn node(&self) -> Option<Ipv4Addr> {
        self.node.map(|node| node.address)
    }

    fn of_node(&self, found: &mut Vec<Misfit>) {
        let mut say = |line, kind, why: String| found.push(Misfit { line, kind, why });
        if let Some(line) = self.torn_mask {
            let why = "`subnet_mask` is not a mask: all its bits after the first 0 must be 0; write it like 255.255.255.0";
            say(line, MisfitKind::OfNode, why.to_owned());
        }
        if let Some(node) = self.node
            && let Some(why) = unusable(node.address)
        {
            say(
                node.line,
                MisfitKind::OfNode,
                format!("`ip` {} {why}", node.address),
            );
        }
        let (Some(node), Some(network)) = (self.node, self.network) else {
            return;
        };
        if network.reserves(node.address) {
            let why = format!(
                "`ip` {} is the network address or the broadcast address of {network}; no node can have it",
                node.address
            );
            say(node.line, MisfitKind::OfNode, why);
        }
        let Some(gateway) = self.gateway else { return };
        if gateway.address == node.address {
            let why = "`gateway` is the node's own address; write that of the router";
            say(gateway.line, MisfitKind::OfNode, why.to_owned());
        } else if !network.contains(gateway.address) {
            let why = format!(
                "`gateway` {} is not in the node's network {network}; the node reaches it only if the router answers there",
                gateway.address
            );
            say(gateway.line, MisfitKind::NodeNeedsRoute, why);
        } else if network.reserves(gateway.address) {
            let why = format!(
                "`gateway` {} is the network address or the broadcast address of {network}; no router can have it",
                gateway.address
            );
            say(gateway.line, MisfitKind::OfNode, why);
        }
    }

    fn of_vip(&self, found: &mut Vec<Misfit>) {
        let Some(vip) = self.vip else { return };
        let address = vip.address;
        let mut say = |kind, why: String| {
            found.push(Misfit {
                line: vip.line,
                kind,
                why,
            });
        };
        if let Some(why) = unusable(address) {
            return say(
                MisfitKind::OfCluster,
                format!("`install.vip` {address} {why}"),
            );
        }
        for other in [self.node, self.gateway].into_iter().flatten() {
            if other.address == address {
                let why = format!(
                    "`install.vip` is also `{}`; the VIP must be an address that no other computer has",
                    other.called
                );
                return say(MisfitKind::OfCluster, why);
            }
        }
        let Some(network) = self.network else { return };
        if !network.contains(address) {
            let why = format!(
                "`install.vip` {address} is not in the node's network {network}: the VIP is announced with ARP, and other computers \
                 reach it only if a router sends it to this network"
            );
            say(MisfitKind::VipNeedsRoute, why);
        } else if network.reserves(address) {
            let why = format!(
                "`install.vip` {address} is the network address or the broadcast address of {network}"
            );
            say(MisfitKind::OfCluster, why);
        }
    }

    fn of_cluster(&self, found: &mut Vec<Misfit>) {
        let mut say = |line: Option<u32>, kind, why: String| {
            if let Some(line) = line {
                found.push(Misfit { line, kind, why });
            }
        };
        for (pods, line) in &self.pods {
            for (services, other) in &self.services {
                if pods.overlaps(*services) {
                    let why = format!(
                        "the network of pods, {pods}, overlaps with that of Services, {services}"
                    );
                    say(line.or(*other), MisfitKind::OfCluster, why);
                }
            }
        }
        let pods = self.pods.iter().map(|network| ("pods", network));
        let services = self.services.iter().map(|network| ("Services", network));
        for (whose, (cluster, line)) in pods.chain(services) {
            if let (Some(network), Some(node)) = (self.network, self.node)
                && cluster.overlaps(network)
            {
                let why = format!(
                    "the management network {network} overlaps with the cluster's network of {whose}, {cluster}; choose another \
                     network for one of them"
                );
                // The route to the pods is longer than that of a flat network around it.
                let inside = [Some(node), self.gateway, self.vip].into_iter().flatten();
                let mut inside = inside.chain(self.names.iter().copied());
                if network.prefix < cluster.prefix
                    && !inside.any(|one| cluster.contains(one.address))
                {
                    let why = format!(
                        "the management network {network} is around the cluster's network of {whose}, {cluster}: no node reaches other \
                         computers with its addresses"
                    );
                    say(line.or(Some(node.line)), MisfitKind::HidesOthers, why);
                } else {
                    say(line.or(Some(node.line)), MisfitKind::OfCluster, why);
                }
                continue;
            }
            for other in self.vip.iter().chain(&self.names) {
                if cluster.contains(other.address) {
                    let (called, address) = (other.called, other.address);
                    let why = format!(
                        "`{called}` {address} is in the cluster's network of {whose}, {cluster}, and no node reaches it there"
                    );
                    say(Some(other.line), MisfitKind::OfCluster, why);
                }
            }
        }
    }
}

/// Why no computer of a network can have this address.
fn unusable(address: Ipv4Addr) -> Option<&'static str> {
    if address.is_multicast() {
        Some("is a multicast address")
    } else if address.is_loopback() {
        Some("is a loopback address")
    } else if address.is_unspecified() || address.is_broadcast() {
        Some("is not the address of one computer")
    } else {
        None
    }
}

#[cfg(test)]
#[path = "addresses_tests.rs"]
mod tests;
