//! Bounds on connections, and on how often one peer connects. Pure; time is passed in.
//!
//! A connection is proved once a request on it has shown the token. Whoever has no token can fill no place for long: of those
//! that are not proved the oldest one is closed where a new one needs its place.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::token_bucket::{Rate, TokenBucket};

/// How much there may be of what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionBounds {
    /// Connections at a time, of all peers and of one.
    pub(crate) connections: usize,
    pub(crate) of_one: usize,
    /// Connections of one peer that are not proved.
    pub(crate) unproved_of_one: usize,
    /// Those of all that are kept for peers that are expected, or have shown the token before.
    pub(crate) reserved: usize,
    /// One peer's connections.
    pub(crate) rate: Rate,
}

/// Peers that are remembered.
const PEERS: usize = 1024;
/// A peer's own connections have so long for a handshake and a request before a new one of it takes the place of one.
const GRACE: Duration = Duration::from_secs(2);

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

#[derive(Debug)]
struct PeerUsage {
    open: usize,
    unproved: usize,
    /// Has it ever shown the token?
    has_token: bool,
    /// The connections it may still make.
    bucket: TokenBucket,
}

/// A connection, the larger the newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(u64);

/// A connection that may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admitted {
    pub(crate) id: ConnectionId,
    /// The one that has to be closed for it.
    pub(crate) instead_of: Option<ConnectionId>,
}

#[derive(Debug)]
struct OpenConnection {
    peer: Peer,
    since: Duration,
    is_proved: bool,
}

/// The bounds, and how much of them is used.
pub(crate) struct ConnectionLimits {
    bounds: ConnectionBounds,
    expected: HashSet<Peer>,
    peers: HashMap<Peer, PeerUsage>,
    open: BTreeMap<ConnectionId, OpenConnection>,
    next: u64,
}

impl ConnectionLimits {
    /// `expected`: peers for which places are kept from the beginning.
    pub(crate) fn new(bounds: ConnectionBounds, expected: HashSet<Peer>) -> Self {
        Self {
            bounds,
            expected,
            peers: HashMap::new(),
            open: BTreeMap::new(),
            next: 0,
        }
    }

    /// May this peer connect now? It counts until [`ConnectionLimits::leave`].
    pub(crate) fn admit(&mut self, peer: Peer, now: Duration) -> Option<Admitted> {
        let bounds = self.bounds;
        self.forget(peer, now);
        let usage = self.peers.entry(peer).or_insert(PeerUsage {
            open: 0,
            unproved: 0,
            has_token: false,
            bucket: TokenBucket::full(bounds.rate, now),
        });
        if usage.bucket.left(bounds.rate, now) < 1.0 {
            return None;
        }
        let has_most = usage.open >= bounds.of_one || usage.unproved >= bounds.unproved_of_one;
        let most = match self.is_known(peer) {
            true => bounds.connections,
            false => bounds.connections.saturating_sub(bounds.reserved),
        };
        let instead_of = if has_most {
            let old =
                |one: &OpenConnection| one.peer == peer && now.saturating_sub(one.since) >= GRACE;
            Some(self.oldest_unproved(old)?)
        } else if self.open.len() >= most {
            let is_unknown = |one: &OpenConnection| !self.is_known(one.peer);
            Some(self.oldest_unproved(is_unknown)?)
        } else {
            None
        };
        if let Some(oldest) = instead_of {
            self.leave(oldest);
        }
        let id = ConnectionId(self.next);
        self.next += 1;
        let connection = OpenConnection {
            peer,
            since: now,
            is_proved: false,
        };
        self.open.insert(id, connection);
        if let Some(usage) = self.peers.get_mut(&peer) {
            usage.open += 1;
            usage.unproved += 1;
            usage.bucket.take(bounds.rate, now);
        }
        Some(Admitted { id, instead_of })
    }

    /// A request on it has shown the token.
    pub(crate) fn prove(&mut self, id: ConnectionId) {
        let Some(connection) = self.open.get_mut(&id) else {
            return;
        };
        let was_proved = std::mem::replace(&mut connection.is_proved, true);
        if let Some(usage) = self.peers.get_mut(&connection.peer) {
            usage.has_token = true;
            usage.unproved -= usize::from(!was_proved);
        }
    }

    /// It is over.
    pub(crate) fn leave(&mut self, id: ConnectionId) {
        let Some(connection) = self.open.remove(&id) else {
            return;
        };
        if let Some(usage) = self.peers.get_mut(&connection.peer) {
            usage.open -= 1;
            usage.unproved -= usize::from(!connection.is_proved);
        }
    }

    fn is_known(&self, peer: Peer) -> bool {
        let has_token = |usage: &PeerUsage| usage.has_token;
        self.expected.contains(&peer) || self.peers.get(&peer).is_some_and(has_token)
    }

    fn oldest_unproved(&self, which: impl Fn(&OpenConnection) -> bool) -> Option<ConnectionId> {
        let mut open = self.open.iter();
        let oldest = open.find(|(_, one)| !one.is_proved && which(one));
        oldest.map(|(id, _)| *id)
    }

    /// Makes room for a peer. Those that have shown the token are remembered before others; as many busy ones as there is room
    /// for are an attack.
    fn forget(&mut self, peer: Peer, now: Duration) {
        if self.peers.contains_key(&peer) {
            return;
        }
        let rate = self.bounds.rate;
        let is_busy = |usage: &PeerUsage| usage.bucket.left(rate, now) < rate.at_once;
        let worth: [&dyn Fn(&PeerUsage) -> bool; 3] = [
            &|usage| usage.has_token || is_busy(usage),
            &|usage| usage.has_token,
            &|_| false,
        ];
        for worth in worth {
            if self.peers.len() < PEERS {
                return;
            }
            self.peers.retain(|_, usage| usage.open > 0 || worth(usage));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: ConnectionBounds = ConnectionBounds {
        connections: 64,
        of_one: 8,
        unproved_of_one: 4,
        reserved: 8,
        rate: Rate {
            at_once: 30.0,
            a_second: 5.0,
        },
    };

    fn node() -> ConnectionLimits {
        ConnectionLimits::new(NODE, HashSet::new())
    }

    fn peer(text: &str) -> Peer {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// A connection that shows the token.
    fn proved(limits: &mut ConnectionLimits, peer: Peer, now: Duration) -> Option<Admitted> {
        let admitted = limits.admit(peer, now)?;
        limits.prove(admitted.id);
        Some(admitted)
    }

    #[test]
    fn one_peer_has_its_share_of_connections_and_others_theirs() {
        let mut limits = node();
        let (one, other) = (peer("10.0.0.1"), peer("10.0.0.2"));
        let first = proved(&mut limits, one, at(0)).unwrap();
        for _ in 1..NODE.of_one {
            assert!(proved(&mut limits, one, at(0)).is_some());
        }
        assert_eq!(limits.admit(one, at(9_000)), None);
        assert!(limits.admit(other, at(0)).is_some());
        limits.leave(first.id);
        limits.leave(first.id);
        assert!(limits.admit(one, at(0)).is_some());
    }

    #[test]
    fn a_peer_without_the_token_has_few_connections_and_its_oldest_makes_room_after_a_while() {
        let mut limits = node();
        let one = peer("10.0.0.1");
        let first = limits.admit(one, at(0)).unwrap();
        for _ in 1..NODE.unproved_of_one {
            assert_eq!(limits.admit(one, at(0)).unwrap().instead_of, None);
        }
        assert_eq!(limits.admit(one, at(1_000)), None);
        let later = limits.admit(one, at(2_000)).unwrap();
        assert_eq!(later.instead_of, Some(first.id));
        limits.prove(later.id);
        limits.prove(later.id);
        let next = limits.admit(one, at(2_000)).unwrap();
        assert_eq!(next.instead_of, None, "a proved one takes no place of them");
    }

    #[test]
    fn who_shows_no_token_keeps_out_nobody() {
        let mut limits = node();
        let ours = peer("10.0.0.1");
        let has_token = proved(&mut limits, ours, at(0)).unwrap();
        let open = |limits: &ConnectionLimits| limits.open.len();
        let mut attackers =
            (0..200_u32).map(|number| Peer::from(IpAddr::from([10, 1, 0, number as u8])));
        let first = attackers.next().unwrap();
        let first = limits.admit(first, at(1)).unwrap();
        for one in attackers {
            assert!(limits.admit(one, at(1)).is_some());
        }
        // The rest is for those who have shown it before, and a stranger comes in place of the oldest of the others.
        assert_eq!(open(&limits), NODE.connections - NODE.reserved);
        assert!(!limits.open.contains_key(&first.id));
        for _ in 0..NODE.unproved_of_one {
            assert_eq!(limits.admit(ours, at(2)).unwrap().instead_of, None);
        }
        let stranger = limits.admit(peer("10.0.0.2"), at(2)).unwrap();
        assert!(stranger.instead_of.is_some());
        assert!(limits.open.contains_key(&has_token.id));
        // Where only proved ones are open, nobody is closed.
        let mut limits = node();
        for number in 0..=255_u8 {
            proved(&mut limits, peer(&format!("10.2.0.{number}")), at(0));
        }
        assert!(open(&limits) <= NODE.connections);
        assert_eq!(limits.admit(ours, at(0)), None);
    }

    #[test]
    fn places_are_kept_for_peers_that_are_expected() {
        let ours = peer("10.0.0.1");
        let mut limits = ConnectionLimits::new(NODE, HashSet::from([ours]));
        for number in 0..=255_u8 {
            proved(&mut limits, peer(&format!("10.2.0.{number}")), at(0));
        }
        let before = limits.open.len();
        assert_eq!(before, NODE.connections - NODE.reserved);
        assert_eq!(limits.admit(ours, at(0)).unwrap().instead_of, None);
    }

    #[test]
    fn one_peer_comes_only_so_often() {
        let mut limits = node();
        let one = peer("10.0.0.1");
        let mut come = |now| {
            let admitted = limits.admit(one, at(now));
            if let Some(admitted) = admitted {
                limits.leave(admitted.id);
            }
            admitted.is_some()
        };
        assert_eq!((0..100).filter(|_| come(0)).count(), 30);
        assert!(!come(150));
        assert!(come(250));
        assert!(!come(300));
        assert_eq!((0..100).filter(|_| come(3_600_000)).count(), 30);
    }

    #[test]
    fn all_peers_together_are_bounded_and_so_is_what_is_remembered() {
        let mut limits = node();
        let many: Vec<Peer> = (0..5000_u32)
            .map(|number| Peer::from(IpAddr::from(number.to_be_bytes())))
            .collect();
        for one in &many {
            limits.admit(*one, at(0));
            assert!(limits.open.len() <= NODE.connections);
            assert!(limits.peers.len() <= PEERS);
        }
        let open: Vec<ConnectionId> = limits.open.keys().copied().collect();
        for one in open {
            limits.leave(one);
        }
        for one in &many {
            let admitted = proved(&mut limits, *one, at(1)).unwrap();
            limits.leave(admitted.id);
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
