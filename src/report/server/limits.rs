//! Bounds on connections, and on how often one peer connects. Pure; time is passed in.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// How much there may be of what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionBounds {
    /// Connections at a time, of all peers and of one.
    pub(crate) connections: usize,
    pub(crate) of_one: usize,
    /// One peer's requests: at once, and in each second after that.
    pub(crate) at_once: f64,
    pub(crate) a_second: f64,
}

/// Those of a node's status server.
const NODE: ConnectionBounds = ConnectionBounds {
    connections: 64,
    of_one: 8,
    at_once: 30.0,
    a_second: 5.0,
};
/// Peers that are remembered.
const PEERS: usize = 1024;

/// A peer: an IPv4 address, or the /64 network of an IPv6 address, which is one machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Peer(IpAddr);

impl From<IpAddr> for Peer {
    fn from(ip: IpAddr) -> Self {
        Self(match ip.to_canonical() {
            IpAddr::V6(ip) => {
                let [a, b, c, d, ..] = ip.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            v4 => v4,
        })
    }
}

struct PeerUsage {
    open: usize,
    /// The requests it has left, at this time.
    left: f64,
    at: Duration,
}

impl PeerUsage {
    fn left(&self, now: Duration, bounds: ConnectionBounds) -> f64 {
        let since = now.saturating_sub(self.at).as_secs_f64();
        (self.left + since * bounds.a_second).min(bounds.at_once)
    }
}

/// The bounds, and how much of them is used.
pub(crate) struct ConnectionLimits {
    bounds: ConnectionBounds,
    peers: HashMap<Peer, PeerUsage>,
    open: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::new(NODE)
    }
}

impl ConnectionLimits {
    pub(crate) fn new(bounds: ConnectionBounds) -> Self {
        Self {
            bounds,
            peers: HashMap::new(),
            open: 0,
        }
    }

    /// May this peer connect now? It counts until [`ConnectionLimits::leave`].
    pub(crate) fn admit(&mut self, peer: Peer, now: Duration) -> bool {
        let bounds = self.bounds;
        if self.open >= bounds.connections {
            return false;
        }
        if !self.peers.contains_key(&peer) && self.peers.len() >= PEERS {
            self.peers
                .retain(|_, usage| usage.open > 0 || usage.left(now, bounds) < bounds.at_once);
            if self.peers.len() >= PEERS {
                // This many busy peers are an attack: those without an open connection are forgotten.
                self.peers.retain(|_, usage| usage.open > 0);
            }
        }
        let usage = self.peers.entry(peer).or_insert(PeerUsage {
            open: 0,
            left: bounds.at_once,
            at: now,
        });
        let left = usage.left(now, bounds);
        if usage.open >= bounds.of_one || left < 1.0 {
            return false;
        }
        usage.open += 1;
        usage.left = left - 1.0;
        usage.at = now;
        self.open += 1;
        true
    }

    /// Its connection is over.
    pub(crate) fn leave(&mut self, peer: Peer) {
        if let Some(usage) = self.peers.get_mut(&peer) {
            usage.open = usage.open.saturating_sub(1);
            self.open = self.open.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn one_peer_has_its_share_of_connections_and_others_theirs() {
        let mut limits = ConnectionLimits::default();
        let (one, other) = (peer("10.0.0.1"), peer("10.0.0.2"));
        for _ in 0..NODE.of_one {
            assert!(limits.admit(one, at(0)));
        }
        assert!(!limits.admit(one, at(0)));
        assert!(limits.admit(other, at(0)));
        limits.leave(one);
        assert!(limits.admit(one, at(0)));
    }

    #[test]
    fn one_peer_comes_only_so_often() {
        let mut limits = ConnectionLimits::default();
        let one = peer("10.0.0.1");
        let mut come = |now| {
            let admitted = limits.admit(one, at(now));
            if admitted {
                limits.leave(one);
            }
            admitted
        };
        assert_eq!((0..100).filter(|_| come(0)).count(), 30);
        assert!(!come(150));
        assert!(come(250));
        assert!(!come(300));
        assert_eq!((0..100).filter(|_| come(3_600_000)).count(), 30);
    }

    #[test]
    fn all_peers_together_are_bounded_and_so_is_what_is_remembered() {
        let mut limits = ConnectionLimits::default();
        let many: Vec<Peer> = (0..5000_u32)
            .map(|number| Peer::from(IpAddr::from(number.to_be_bytes())))
            .collect();
        let admitted = many.iter().filter(|one| limits.admit(**one, at(0))).count();
        assert_eq!(admitted, NODE.connections);
        for one in &many {
            limits.leave(*one);
        }
        for one in &many {
            assert!(limits.admit(*one, at(1)), "{one:?}");
            limits.leave(*one);
            assert!(limits.peers.len() <= PEERS);
        }
    }

    #[test]
    fn a_machine_with_many_ipv6_addresses_is_one_peer() {
        assert_eq!(peer("2001:db8:1:2::1"), peer("2001:db8:1:2:ffff::9"));
        assert_ne!(peer("2001:db8:1:2::1"), peer("2001:db8:1:3::1"));
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
    }
}
