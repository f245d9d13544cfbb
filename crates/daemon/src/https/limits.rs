//! Bounds on connections, and on how often one peer connects. Pure; time is passed in.
//!
//! A connection is proved once a request on it has shown the token. If no place is free, a new connection takes the
//! place of another one:
//!
//! 1. of the peer with the most connections, proved or not, if it has more than a few and more than the new one's peer;
//! 2. else of a peer that has never shown the token;
//! 3. else of the peer with the most connections, if the new one's peer has shown the token and has fewer.
//!
//! So neither few nor many addresses keep another one out, with the token or without it. If peers that have never shown
//! the token have half of the places, 2 comes first: a peer without the token never displaces a peer that has shown it.
//!
//! Networks wider than the /64 are not grouped: the nodes of a rack share one, and would count as one attacker.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::token_bucket::{Rate, TokenBucket};

#[derive(Debug, Clone, Copy)]
pub struct ConnectionBounds {
    /// Connections at a time, of all peers and of one.
    pub connections: usize,
    pub of_one: usize,
    /// Connections of one peer that are not proved.
    pub unproved_of_one: usize,
    /// Connections of one peer that are few: they are not closed for a peer that has not shown the token.
    pub few: usize,
    /// Connections reserved for peers with few connections that the server expects, or that have shown the token
    /// before.
    pub reserved: usize,
    pub rate: Rate,
}

const PEERS: usize = 1024;
/// A peer's own connections have this long for a handshake and a request before a new one of it takes the place of one.
const GRACE: Duration = Duration::from_secs(2);

/// A peer: an IPv4 address, or the /64 network of an IPv6 address, which is one machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(IpAddr);

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
    has_token: bool,
    /// The connections it may still make.
    bucket: TokenBucket,
}

/// A connection, the larger the newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admitted {
    pub(crate) id: ConnectionId,
    /// The connection that has to be closed for it.
    pub(crate) instead_of: Option<ConnectionId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Free,
    /// It replaces this one.
    InsteadOf(ConnectionId),
    /// It is refused.
    Taken,
}

#[derive(Debug)]
struct OpenConnection {
    peer: Peer,
    since: Duration,
    is_proved: bool,
}

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

    /// Whether this peer may connect now. If so, the connection counts until [`ConnectionLimits::leave`].
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
        let instead_of = match self.place_for(peer, now) {
            Place::Free => None,
            Place::InsteadOf(id) => Some(id),
            Place::Taken => return None,
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

    pub(crate) fn leave(&mut self, id: ConnectionId) {
        let Some(connection) = self.open.remove(&id) else {
            return;
        };
        if let Some(usage) = self.peers.get_mut(&connection.peer) {
            usage.open -= 1;
            usage.unproved -= usize::from(!connection.is_proved);
        }
    }

    fn place_for(&self, peer: Peer, now: Duration) -> Place {
        let bounds = self.bounds;
        let (open, unproved) = self
            .peers
            .get(&peer)
            .map_or((0, 0), |usage| (usage.open, usage.unproved));
        let instead_of = |id: Option<ConnectionId>| id.map_or(Place::Taken, Place::InsteadOf);
        if open >= bounds.of_one || unproved >= bounds.unproved_of_one {
            return instead_of(self.oldest(|connection| {
                connection.peer == peer
                    && !connection.is_proved
                    && now.saturating_sub(connection.since) >= GRACE
            }));
        }
        let may_use_reserved = self.is_known(peer) && open < bounds.few;
        let reserved = if may_use_reserved { 0 } else { bounds.reserved };
        if self.open.len() < bounds.connections.saturating_sub(reserved) {
            return Place::Free;
        }
        instead_of(self.connection_to_close(peer, open))
    }

    /// The connection that makes room for a peer with this many, as the module's first lines say.
    fn connection_to_close(&self, peer: Peer, open: usize) -> Option<ConnectionId> {
        let most = self.peers.values().map(|usage| usage.open).max()?;
        let of_largest = || {
            self.oldest(|connection| {
                let usage = self.peers.get(&connection.peer);
                usage.is_some_and(|usage| usage.open == most)
            })
        };
        // The peer that loses one has at least as many afterwards.
        let has_more = most > open + 1;
        let has_many = has_more && most > self.bounds.few;
        let of_strangers: usize = self.strangers().map(|usage| usage.open).sum();
        if has_many && of_strangers < self.bounds.connections / 2 {
            return of_largest();
        }
        let of_stranger = self.oldest_of_strangers();
        let may_close_largest = has_many || (has_more && self.is_known(peer));
        of_stranger.or_else(|| may_close_largest.then(of_largest)?)
    }

    /// The oldest connection of the stranger with the most connections: a peer that has never shown the token.
    fn oldest_of_strangers(&self) -> Option<ConnectionId> {
        let most = self.strangers().map(|usage| usage.open).max()?;
        self.oldest(|connection| {
            let usage = self.peers.get(&connection.peer);
            !self.is_known(connection.peer) && usage.is_some_and(|usage| usage.open == most)
        })
    }

    fn strangers(&self) -> impl Iterator<Item = &PeerUsage> {
        let peers = self.peers.iter();
        peers.filter_map(|(peer, usage)| (!self.is_known(*peer)).then_some(usage))
    }

    fn is_known(&self, peer: Peer) -> bool {
        let has_token = |usage: &PeerUsage| usage.has_token;
        self.expected.contains(&peer) || self.peers.get(&peer).is_some_and(has_token)
    }

    fn oldest(&self, which: impl Fn(&OpenConnection) -> bool) -> Option<ConnectionId> {
        let mut open = self.open.iter();
        open.find(|(_, connection)| which(connection))
            .map(|(id, _)| *id)
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
mod tests;
