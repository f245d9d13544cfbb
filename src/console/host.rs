//! The node's own view of itself, which is there even without the daemon.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// Name and addresses of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// Its name; empty when it has none.
    pub(crate) name: String,
    /// Addresses at which it may be reached, with their interfaces.
    pub(crate) addresses: Vec<(IpAddr, String)>,
}

impl Host {
    /// Asks the kernel. Unknown values are left empty: the console has more to show.
    pub(crate) fn now() -> Self {
        let name = nix::unistd::gethostname()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        Self {
            name,
            addresses: addresses(),
        }
    }
}

fn addresses() -> Vec<(IpAddr, String)> {
    let Ok(interfaces) = getifaddrs() else {
        return Vec::new();
    };
    let mut addresses = Vec::new();
    for interface in interfaces {
        let up = interface.flags.contains(InterfaceFlags::IFF_UP);
        let Some(address) = interface.address else {
            continue;
        };
        let ip = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => IpAddr::V4(v4.ip()),
            (_, Some(v6)) => IpAddr::V6(v6.ip()),
            _ => continue,
        };
        if up && reachable(ip) && !of_pods(&interface.interface_name) {
            addresses.push((ip, interface.interface_name));
        }
    }
    // The kernel's order within a family; IPv4 is what people type.
    addresses.sort_by_key(|(ip, _)| ip.is_ipv6());
    addresses.dedup();
    addresses
}

fn reachable(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    }
}

/// Interfaces of the container network: their addresses are the same on every node, or unreachable from outside.
fn of_pods(interface: &str) -> bool {
    [
        "cni",
        "flannel",
        "cali",
        "vxlan.calico",
        "cilium",
        "lxc",
        "veth",
        "kube-ipvs",
        "nodelocaldns",
    ]
    .iter()
    .any(|prefix| interface.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_reached_are_not_shown() {
        for (address, usable) in [
            ("127.0.0.1", false),
            ("169.254.1.1", false),
            ("::1", false),
            ("fe80::1", false),
            ("10.1.2.3", true),
            ("2001:db8::1", true),
        ] {
            assert_eq!(reachable(address.parse().unwrap()), usable, "{address}");
        }
        assert!(of_pods("cali12345") && of_pods("flannel.1") && !of_pods("mgmt-br"));
    }

    #[test]
    fn the_kernel_can_be_asked() {
        assert!(!Host::now().name.is_empty());
    }
}
