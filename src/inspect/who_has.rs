//! Asks a link who has an address: by ARP probes, or for IPv6 by solicitations of neighbours. Requires CAP_NET_RAW.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{LinkAddr, MsgFlags, recvfrom, sendto};
use rustix::net::{AddressFamily, SocketFlags, SocketType, eth, socket_with};
use windrow_harvester::network::{MacAddress, NetworkLink, link_for};
use windrow_preflight::who_has::{Claim, PROBES, claim, groups, probe};

use super::link_masters::LinkMasters;
use crate::observe::network::links;

/// Longer than any ARP frame, and than the useful part of a neighbour's message.
const LONGEST_FRAME: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) link: NetworkLink,
    pub(crate) others: BTreeSet<Claim>,
}

/// Asks on a link who has an address. For a port, it asks on the port's bridge or bond, where the kernel delivers
/// packets. Blocks for as long as `waits` say.
///
/// # Errors
///
/// Why it could not be asked, as a sentence for users.
pub(crate) fn ask_who_has(
    address: IpAddr,
    named: Option<&str>,
    waits: [Duration; PROBES + 1],
) -> Result<Claims, String> {
    if matches!(address, IpAddr::V6(one) if one.is_unicast_link_local()) {
        return Err("a link-local address cannot be a VIP".to_owned());
    }
    let Target { link, at, own } = target(address, named)?;
    let socket = open(address).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "probes need the right CAP_NET_RAW: run it as root".to_owned()
        }
        _ => format!("no packet socket: {error}"),
    })?;
    let _member = join(&groups(address), &at)
        .map_err(|error| format!("{} does not speak IPv6: {error}", link.name))?;
    let mut others = BTreeSet::new();
    let frame = probe(link.mac, address);
    for (sent, wait) in waits.into_iter().enumerate() {
        let mut take = |heard: &[u8]| others.extend(claim(heard, address, &own));
        let until = Instant::now() + wait;
        let asked = hear(&socket, &at, until, &mut take).and_then(|()| match sent < PROBES {
            true => sendto(socket.as_raw_fd(), &frame, &at, MsgFlags::empty()).map(drop),
            false => Ok(()),
        });
        asked.map_err(|error| format!("{}: {error}", link.name))?;
    }
    // Without a carrier, no answer could arrive.
    if others.is_empty() {
        target(address, Some(&link.name))?;
    }
    Ok(Claims { link, others })
}

struct Target {
    link: NetworkLink,
    at: LinkAddr,
    own: Vec<MacAddress>,
}

fn target(address: IpAddr, named: Option<&str>) -> Result<Target, String> {
    let links = links().map_err(|error| format!("the kernel does not list its links: {error}"))?;
    let (links, names): (Vec<NetworkLink>, Vec<LinkAddr>) = links.into_iter().unzip();
    let named = link_for(&links, address, named)?;
    let masters = LinkMasters::read().map_err(|error| {
        format!("the kernel does not tell of which bridge or bond a link is a port: {error}")
    })?;
    let indexed = links.iter().zip(names.iter().map(LinkAddr::ifindex));
    let asked = asked_on(&named.name, indexed, &masters);
    let found = links
        .iter()
        .zip(&names)
        .find(|(_, at)| Some(at.ifindex()) == asked);
    let (link, at) = found.ok_or_else(|| format!("{} is gone", named.name))?;
    Ok(Target {
        link: link_for(&links, address, Some(&link.name))?.clone(),
        at: *at,
        own: links.iter().map(|link| link.mac).collect(),
    })
}

/// The index of the link that is used instead of the given one: the uppermost one that it is a port of. `None` if it is
/// gone.
fn asked_on<'l>(
    named: &str,
    links: impl Iterator<Item = (&'l NetworkLink, usize)> + Clone,
    masters: &LinkMasters,
) -> Option<usize> {
    let is_link = |wanted| links.clone().any(|(_, index)| index == wanted);
    let (_, index) = links.clone().find(|(link, _)| link.name == named)?;
    Some(masters.top(index, is_link))
}

/// A socket for such frames from all links: an answer may come before it could be bound to one.
fn open(address: IpAddr) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = match address {
        IpAddr::V4(_) => eth::ARP,
        IpAddr::V6(_) => eth::IPV6,
    };
    let socket = socket_with(
        AddressFamily::PACKET,
        SocketType::RAW,
        flags,
        Some(protocol),
    )?;
    Ok(socket)
}

/// Makes the link receive messages to these groups, as long as the socket lives. `None` without groups.
fn join(groups: &[Ipv6Addr], at: &LinkAddr) -> io::Result<Option<UdpSocket>> {
    if groups.is_empty() {
        return Ok(None);
    }
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
    let link = u32::try_from(at.ifindex()).unwrap_or_default();
    for group in groups {
        socket.join_multicast_v6(group, link)?;
    }
    Ok(Some(socket))
}

/// Passes on the frames of a link until a point in time.
fn hear(
    socket: &OwnedFd,
    at: &LinkAddr,
    until: Instant,
    take: &mut impl FnMut(&[u8]),
) -> nix::Result<()> {
    let mut frame = [0; LONGEST_FRAME];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        match recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut frame) {
            Ok((length, Some(from))) if from.ifindex() == at.ifindex() => {
                take(frame.get(..length).unwrap_or_default());
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let left = PollTimeout::try_from(left + Duration::from_millis(1));
                let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
                match poll(&mut ready, left.unwrap_or(PollTimeout::ZERO)) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(error) => return Err(error),
                }
            }
            // The link went down: the frames until then prove nothing.
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_asked_on_itself_or_on_the_bridge_that_it_is_a_port_of() {
        let links = ["ens3", "ens4", "mgmt-br"].map(|name| NetworkLink {
            name: name.to_owned(),
            mac: MacAddress([0; 6]),
            running: true,
            addresses: Vec::new(),
        });
        let masters = LinkMasters::of(&[(2, 4)]);
        let asked = |named: &str| asked_on(named, links.iter().zip(2..), &masters);
        assert_eq!(asked("ens3"), Some(4));
        assert_eq!(asked("ens4"), Some(3));
        assert_eq!(asked("mgmt-br"), Some(4));
        assert_eq!(asked("ens5"), None);
    }
}
