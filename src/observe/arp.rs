//! Asks a link who has an address, by ARP probes (RFC 5227). Needs the right CAP_NET_RAW.

use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{LinkAddr, MsgFlags, recvfrom, sendto};
use rustix::net::{AddressFamily, SocketFlags, SocketType, eth, socket_with};
use windrow_harvester::arp::{Claim, PROBES, claim, probe};
use windrow_harvester::network::{MacAddress, NetworkLink, link_for};

use super::network::links;

/// Longer than any ARP frame.
const LONGEST_FRAME: usize = 256;

/// Who claims an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The link that was asked.
    pub link: NetworkLink,
    /// What other machines said.
    pub others: BTreeSet<Claim>,
}

/// Asks on a link who has an address. Blocks for as long as `waits` say.
///
/// # Errors
///
/// Why it could not be asked, as a sentence for people.
pub fn ask_who_has(
    address: Ipv4Addr,
    named: Option<&str>,
    waits: [Duration; PROBES + 1],
) -> Result<Claims, String> {
    let Target { link, at, own } = target(address, named)?;
    let socket = open().map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "ARP probes need the right CAP_NET_RAW: run it as root".to_owned()
        }
        _ => format!("no packet socket: {error}"),
    })?;
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
    // Without a carrier nobody could be heard.
    if others.is_empty() {
        target(address, Some(&link.name))?;
    }
    Ok(Claims { link, others })
}

/// Where an address is asked for.
struct Target {
    link: NetworkLink,
    at: LinkAddr,
    /// The hardware addresses of all our links.
    own: Vec<MacAddress>,
}

fn target(address: Ipv4Addr, named: Option<&str>) -> Result<Target, String> {
    let links = links().map_err(|error| format!("the kernel does not list its links: {error}"))?;
    let (links, names): (Vec<NetworkLink>, Vec<LinkAddr>) = links.into_iter().unzip();
    let link = link_for(&links, address, named)?;
    let mut all = links.iter().zip(names);
    let found = all.find(|(one, _)| one.name == link.name);
    let (link, at) = found.ok_or_else(|| format!("{} is gone", link.name))?;
    Ok(Target {
        link: link.clone(),
        at,
        own: links.iter().map(|link| link.mac).collect(),
    })
}

/// A socket for ARP frames of all links: an answer may come before it could be bound to one.
fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(
        AddressFamily::PACKET,
        SocketType::RAW,
        flags,
        Some(eth::ARP),
    )?;
    Ok(socket)
}

/// Hands over what comes in on a link until a moment.
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
            // The link went down: what was heard until then proves nothing.
            Err(error) => return Err(error),
        }
    }
}
