//! Which link is a port of which other one (a bridge, a bond), from the kernel over rtnetlink. Not from
//! `/sys/class/net`: in a network namespace that may be another one's.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};

/// `NETLINK_ROUTE` is number 0.
const ROUTE: Option<Protocol> = None;
/// The kernel sends no more in one piece (`NLMSG_GOODSIZE`, and 32 KiB in a dump).
const LONGEST: usize = 1 << 16;
/// A bridge of a bond is two above its NIC; no link is its own master.
const HIGHEST: usize = 8;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LinkMasters(BTreeMap<usize, usize>);

impl LinkMasters {
    pub(super) fn read() -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            ROUTE,
        )?;
        send(socket.as_raw_fd(), &request(), MsgFlags::empty())?;
        let mut found = Self::default();
        let mut messages = vec![0; LONGEST];
        loop {
            match recv(socket.as_raw_fd(), &mut messages, MsgFlags::empty()) {
                Ok(length) => {
                    if found.take(messages.get(..length).unwrap_or_default())? {
                        return Ok(found);
                    }
                }
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The uppermost link that a link is a port of, as long as `is_link` accepts it; else the link itself.
    pub(super) fn top(&self, link: usize, is_link: impl Fn(usize) -> bool) -> usize {
        let above = |link: &usize| self.0.get(link).copied().filter(|master| is_link(*master));
        let ways = std::iter::successors(Some(link), above);
        ways.take(HIGHEST).last().unwrap_or(link)
    }

    /// Takes in messages. True if they were the last ones.
    fn take(&mut self, mut messages: &[u8]) -> io::Result<bool> {
        const ERROR: u16 = 2;
        const DONE: u16 = 3;
        const LINK: u16 = 16;
        while let Some((message, rest)) = next_message(messages) {
            messages = rest;
            match message.kind {
                DONE => return Ok(true),
                ERROR => return Err(io::Error::other("it refuses the question")),
                LINK => self.0.extend(port(message.body)),
                _ => {}
            }
        }
        match messages {
            [] => Ok(false),
            _ => Err(io::Error::other("its answer is cut off")),
        }
    }
}

/// `RTM_GETLINK` with `NLM_F_REQUEST | NLM_F_DUMP`: a header, and an empty `ifinfomsg`.
fn request() -> [u8; 32] {
    let mut request = [0; 32];
    request[..4].copy_from_slice(&32_u32.to_ne_bytes());
    request[4..6].copy_from_slice(&18_u16.to_ne_bytes());
    request[6..8].copy_from_slice(&0x301_u16.to_ne_bytes());
    request
}

struct Message<'m> {
    kind: u16,
    body: &'m [u8],
}

/// The first message, and the rest: a length, a kind, flags, a number, a port, and the body.
fn next_message(messages: &[u8]) -> Option<(Message<'_>, &[u8])> {
    const HEADER: usize = 16;
    let length = usize::try_from(u32::from_ne_bytes(*messages.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(messages.get(4..6)?.try_into().ok()?);
    let body = messages.get(HEADER..length)?;
    let rest = messages.get(aligned(length)..).unwrap_or_default();
    Some((Message { kind, body }, rest))
}

/// A port's index and its master's: an `ifinfomsg`, and attributes, each with its length and kind.
fn port(link: &[u8]) -> Option<(usize, usize)> {
    const ATTRIBUTES: usize = 16;
    const MASTER: u16 = 10;
    let number = |bytes: &[u8]| {
        let number = u32::from_ne_bytes(bytes.try_into().ok()?);
        usize::try_from(number).ok()
    };
    let index = number(link.get(4..8)?)?;
    let mut rest = link.get(ATTRIBUTES..)?;
    loop {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
        let value = rest.get(4..length)?;
        if kind == MASTER {
            return Some((index, number(value)?));
        }
        rest = rest.get(aligned(length)..)?;
    }
}

/// Messages and attributes begin at every fourth byte.
fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

#[cfg(test)]
impl LinkMasters {
    /// From these ports and their masters.
    pub(super) fn of(ports: &[(usize, usize)]) -> Self {
        Self(ports.iter().copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(16 + body.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(4 + value.len())
            .unwrap()
            .to_ne_bytes()
            .to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    fn link(index: u32, master: Option<u32>) -> Vec<u8> {
        let mut body = vec![0; 16];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        body.extend(attribute(3, b"ens3\0"));
        body.extend(master.map_or_else(Vec::new, |master| attribute(10, &master.to_ne_bytes())));
        message(16, &body)
    }

    #[test]
    fn a_port_is_asked_for_on_the_uppermost_link_that_can_be_asked() {
        let mut masters = LinkMasters::default();
        let links = [
            link(2, Some(4)),
            link(3, None),
            link(4, Some(5)),
            link(5, None),
        ]
        .concat();
        assert!(!masters.take(&links).unwrap());
        assert!(masters.take(&message(3, &[0; 4])).unwrap());
        assert_eq!(masters.top(2, |_| true), 5);
        assert_eq!(masters.top(4, |_| true), 5);
        assert_eq!(masters.top(3, |_| true), 3);
        // A VRF does not use ARP.
        assert_eq!(masters.top(2, |link| link != 5), 4);
        assert_eq!(masters.top(2, |link| link == 2), 2);
    }

    #[test]
    fn a_refusal_and_half_an_answer_are_no_answer() {
        let whole = link(2, Some(4));
        for wrong in [message(2, &[0; 4]), whole[..whole.len() - 1].to_vec()] {
            assert!(LinkMasters::default().take(&wrong).is_err());
        }
    }

    #[test]
    fn the_kernel_tells_each_port() {
        let found = LinkMasters::read().unwrap();
        let count = std::process::Command::new("ip")
            .args(["-o", "link"])
            .output();
        let Some(listed) = count.ok().filter(|done| done.status.success()) else {
            eprintln!("skipped: ip does not run here");
            return;
        };
        let listed = String::from_utf8(listed.stdout).unwrap();
        let ports = listed.lines().filter(|line| line.contains(" master "));
        assert_eq!(found.0.len(), ports.count(), "{listed}");
    }
}
