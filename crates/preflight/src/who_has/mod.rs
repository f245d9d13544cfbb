//! Is an address in use on a link? Uses ARP probes (RFC 5227), and for IPv6 the neighbour solicitations of duplicate address
//! detection (RFC 4862). This module does no I/O: the caller sends the frames and passes the answers.

mod arp;
mod ndp;

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use windrow_harvester::network::MacAddress;

/// `PROBE_NUM`. RFC 4862 leaves the number to the sender; with only one solicitation, a lost packet would make an address free.
pub const PROBES: usize = 3;
/// `PROBE_MIN`, which is also the maximum addition by `PROBE_WAIT` and `PROBE_MAX`; RFC 4862's `RetransTimer` and delay are as
/// long.
const SECOND: u64 = 1000;
/// `ANNOUNCE_WAIT`: how long a late answer to the last probe still counts.
const LATE: Duration = Duration::from_secs(2);

/// How long to listen before the first probe, between two, and after the last one. `random` are any numbers, so that hosts that
/// start together do not probe together.
pub fn waits(random: [u64; PROBES]) -> [Duration; PROBES + 1] {
    let [first, second, third] = random.map(|number| number % SECOND);
    let millis = Duration::from_millis;
    [
        millis(first),
        millis(SECOND + second),
        millis(SECOND + third),
        LATE,
    ]
}

/// The Ethernet frame that asks who has an address. It claims nothing itself: its sender has no address.
pub fn probe(from: MacAddress, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => arp::probe(from, address),
        IpAddr::V6(address) => ndp::solicitation(from, address),
    }
}

/// The multicast groups to join to hear every message about an address. ARP is broadcast.
pub fn groups(address: IpAddr) -> Vec<Ipv6Addr> {
    match address {
        IpAddr::V4(_) => Vec::new(),
        IpAddr::V6(address) => vec![ndp::ALL_NODES, ndp::solicited_node(address)],
    }
}

/// The claim of another machine to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// It has it: it answered, asked for another address as its owner, or announced it.
    Has(MacAddress),
    /// It also probes for it, and is about to take it.
    Probes(MacAddress),
}

/// The claim to an address in a frame, unless one of our own links (`own`) sent it.
pub fn claim(frame: &[u8], address: IpAddr, own: &[MacAddress]) -> Option<Claim> {
    match address {
        IpAddr::V4(address) => arp::claim(frame, address, own),
        IpAddr::V6(address) => ndp::claim(frame, address, own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_of_the_rfc_whatever_the_random_numbers_are() {
        assert_eq!(
            waits([0, 0, 0]).map(|wait| wait.as_millis()),
            [0, 1000, 1000, 2000]
        );
        let longest = waits([u64::MAX, 999, 1999]).map(|wait| wait.as_millis());
        assert!(longest[0] < 1000 && longest[1..3].iter().all(|wait| *wait < 2000));
    }
}
