//! The machine's addresses, as other machines can use them.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::libc;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, SockaddrStorage, bind,
    recv, socket,
};

pub(crate) fn interface_addresses() -> nix::Result<Vec<InterfaceAddress>> {
    let addresses = getifaddrs()?.map(|mut address| {
        let length = interface_of(&address.interface_name).len();
        address.interface_name.truncate(length);
        address
    });
    Ok(addresses.collect())
}

/// The interface of an IPv4 address, which the C library calls by the label of the address: `eth0:1`. The kernel takes no colon in
/// the name of an interface.
fn interface_of(label: &str) -> &str {
    label.split(':').next().unwrap_or(label)
}

pub fn own_addresses() -> Vec<IpAddr> {
    let interfaces = getifaddrs().into_iter().flatten();
    let addresses = interfaces.filter_map(|interface| ip_of(interface.address.as_ref()?));
    addresses.collect()
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(IpAddr::V4(v4.ip())),
        (_, Some(v6)) => Some(IpAddr::V6(v6.ip())),
        _ => None,
    }
}

/// The addresses at which other machines may reach this one, with their interfaces. Empty if the kernel does not
/// answer.
pub fn usable_addresses() -> Vec<(IpAddr, String)> {
    let Ok(interfaces) = interface_addresses() else {
        return Vec::new();
    };
    let mut addresses = Vec::new();
    for interface in interfaces {
        let up = interface.flags.contains(InterfaceFlags::IFF_UP);
        let Some(ip) = interface.address.as_ref().and_then(ip_of) else {
            continue;
        };
        if up && reachable(ip) && !of_pods(&interface.interface_name) {
            addresses.push((ip, interface.interface_name));
        }
    }
    // The kernel's order within a family; users type IPv4 addresses.
    addresses.sort_by_key(|(ip, _)| ip.is_ipv6());
    addresses.dedup();
    addresses
}

/// Wakes when an address or a link of this machine comes, goes or changes.
pub struct AddressWatch(OwnedFd);

impl AddressWatch {
    /// # Errors
    ///
    /// The kernel's own.
    pub fn begin() -> nix::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let kind = (SockType::Raw, SockProtocol::NetlinkRoute);
        let socket = socket(AddressFamily::Netlink, kind.0, flags, kind.1)?;
        let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        bind(
            socket.as_raw_fd(),
            &NetlinkAddr::new(0, groups.unsigned_abs()),
        )?;
        Ok(Self(socket))
    }

    /// Readable when something has changed.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Whether anything has changed since the last call. The change itself is not read: the caller asks for the
    /// addresses again.
    pub fn noticed(&self) -> bool {
        let mut buffer = [0; 8192];
        let mut changed = false;
        loop {
            match recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                // More changes than the kernel keeps.
                Ok(_) | Err(Errno::ENOBUFS) => changed = true,
                Err(Errno::EINTR) => {}
                Err(_) => return changed,
            }
        }
    }
}

/// The names in a server's own certificate: the host's name, the addresses of the machine, and loopback.
pub fn certificate_names(host: Option<String>) -> Vec<String> {
    let addresses = usable_addresses().into_iter().map(|(ip, _)| ip.to_string());
    let here = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    host.into_iter().chain(addresses).chain(here).collect()
}

fn reachable(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    }
}

/// Whether this is an interface of the container network: its addresses are the same on every node, or unreachable from
/// outside.
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
    fn an_address_with_a_label_is_one_of_its_interface() {
        assert_eq!(interface_of("mgmt-br:vip"), "mgmt-br");
        assert_eq!(interface_of("bond0.100"), "bond0.100");
    }

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
}
