use proptest::prelude::*;

use super::*;

const NODE: ConnectionBounds = ConnectionBounds {
    connections: 64,
    of_one: 8,
    unproved_of_one: 4,
    few: 2,
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
    // The rest is for peers that have shown it before, and a stranger replaces the oldest of the others.
    assert_eq!(open(&limits), NODE.connections - NODE.reserved);
    assert!(!limits.open.contains_key(&first.id));
    assert_eq!(limits.admit(ours, at(2)).unwrap().instead_of, None);
    let stranger = limits.admit(peer("10.0.0.2"), at(2)).unwrap();
    assert!(stranger.instead_of.is_some());
    assert!(limits.open.contains_key(&has_token.id));
    // If only proved connections are open, none is closed.
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

fn open_of(limits: &ConnectionLimits, peer: Peer) -> usize {
    limits.peers.get(&peer).map_or(0, |usage| usage.open)
}

/// Bounds that a few addresses can fill; no peer connects too often.
const WIDE: ConnectionBounds = ConnectionBounds {
    of_one: 32,
    rate: Rate {
        at_once: 1e9,
        a_second: 1e9,
    },
    ..NODE
};

#[test]
fn addresses_that_fill_all_places_with_the_token_do_not_lock_out_another() {
    for addresses in [2, 3, 4, 19, 27] {
        let mut limits = ConnectionLimits::new(WIDE, HashSet::new());
        for round in 0..WIDE.of_one {
            for number in 0..addresses {
                proved(
                    &mut limits,
                    peer(&format!("10.0.0.{number}")),
                    at(round as u64),
                );
            }
        }
        for other in ["10.0.1.1", "10.0.1.2"] {
            let admitted = limits.admit(peer(other), at(100)).unwrap();
            assert!(limits.open.contains_key(&admitted.id), "{addresses}");
            assert_eq!(open_of(&limits, peer(other)), 1);
        }
    }
}

#[test]
fn peers_that_show_the_token_once_and_hang_then_do_not_push_out_who_is_about_to_show_it() {
    let mut limits = ConnectionLimits::new(WIDE, HashSet::new());
    for number in 0..20 {
        let attacker = peer(&format!("10.0.0.{number}"));
        proved(&mut limits, attacker, at(0));
        for _ in 0..WIDE.unproved_of_one {
            limits.admit(attacker, at(0));
        }
    }
    let ours = limits.admit(peer("10.0.1.1"), at(1)).unwrap();
    for number in 0..10 {
        limits.admit(peer(&format!("10.0.2.{number}")), at(1));
    }
    assert!(limits.open.contains_key(&ours.id));
}

#[test]
fn addresses_without_the_token_displace_no_peer_that_has_shown_it() {
    let mut limits = ConnectionLimits::new(WIDE, HashSet::new());
    let router = peer("10.0.1.1");
    for _ in 0..20 {
        proved(&mut limits, router, at(0));
    }
    for number in 0..100 {
        for _ in 0..WIDE.unproved_of_one {
            limits.admit(peer(&format!("10.0.0.{number}")), at(1));
        }
    }
    assert_eq!(open_of(&limits, router), 20);
}

#[derive(Debug, Clone)]
enum Act {
    Connects { peer: u8, shows_token: bool },
    Leaves(prop::sample::Index),
}

fn any_act(peers: u8) -> impl Strategy<Value = Act> {
    // Few of the peers connect most of the time.
    let peer = prop_oneof![0..peers, 0..peers.min(3)];
    prop_oneof![
        9 => (peer, prop::bool::weighted(0.8))
            .prop_map(|(peer, shows_token)| Act::Connects { peer, shows_token }),
        1 => any::<prop::sample::Index>().prop_map(Act::Leaves),
    ]
}

proptest! {
    #[test]
    fn no_peer_loses_a_place_to_one_that_has_as_many(
        acts in (2..60_u8).prop_flat_map(|peers| prop::collection::vec(any_act(peers), 1..400)),
        expected in prop::option::of(0..60_u8),
    ) {
        let of = |number: u8| Peer::from(IpAddr::from([10, 0, 0, number]));
        let expected = expected.map(of);
        let mut limits = ConnectionLimits::new(WIDE, expected.into_iter().collect());
        for (second, act) in acts.into_iter().enumerate() {
            let now = Duration::from_secs(second as u64);
            let (number, shows_token) = match act {
                Act::Connects { peer, shows_token } => (peer, shows_token),
                Act::Leaves(index) => {
                    let ids: Vec<ConnectionId> = limits.open.keys().copied().collect();
                    if !ids.is_empty() {
                        limits.leave(*index.get(&ids));
                    }
                    continue;
                }
            };
            let peer = of(number);
            let own = open_of(&limits, peer);
            let is_known = limits.is_known(peer);
            let unproved = limits.peers.get(&peer).map_or(0, |usage| usage.unproved);
            let is_at_own_bound = own >= WIDE.of_one || unproved >= WIDE.unproved_of_one;
            let most = limits.peers.values().map(|usage| usage.open).max().unwrap_or(0);
            let of_strangers: usize = limits.strangers().map(|usage| usage.open).sum();
            let is_flood = of_strangers >= WIDE.connections / 2;
            let most_of_strangers = limits.strangers().map(|usage| usage.open).max().unwrap_or(0);
            let before: HashMap<ConnectionId, (Peer, bool)> = limits
                .open
                .iter()
                .map(|(id, connection)| (*id, (connection.peer, limits.is_known(connection.peer))))
                .collect();
            let counts: HashMap<Peer, usize> =
                limits.peers.iter().map(|(peer, usage)| (*peer, usage.open)).collect();

            let admitted = limits.admit(peer, now);
            match admitted {
                // It has as many as any other, or is one of those without the token among many with few.
                None => prop_assert!(
                    is_at_own_bound || most <= (own + 1).max(WIDE.few) || (is_known && most <= own + 1)
                ),
                Some(Admitted { instead_of: None, .. }) => prop_assert!(before.len() < WIDE.connections),
                Some(Admitted { instead_of: Some(closed), .. }) => {
                    let (loser, was_known) = before[&closed];
                    let had = counts[&loser];
                    if is_at_own_bound {
                        prop_assert_eq!(loser, peer);
                    } else if was_known {
                        prop_assert_eq!(had, most);
                        prop_assert!(had > own + 1);
                        prop_assert!(is_known || had > WIDE.few);
                        prop_assert!(!is_flood || most_of_strangers == 0);
                    } else {
                        // A stranger's connection is closed if it has the most of all, or the most of the strangers
                        // while no peer has many.
                        let nobody_has_many = most <= WIDE.few.max(own + 1);
                        prop_assert!(had == most || had == most_of_strangers);
                        prop_assert!(had == most || nobody_has_many || is_flood);
                    }
                }
            }
            if let Some(admitted) = admitted.filter(|_| shows_token) {
                limits.prove(admitted.id);
            }
            // The counts are those of the open connections.
            prop_assert!(limits.open.len() <= WIDE.connections);
            for (peer, usage) in &limits.peers {
                let own = || limits.open.values().filter(|connection| connection.peer == *peer);
                prop_assert_eq!(usage.open, own().count());
                prop_assert_eq!(usage.unproved, own().filter(|connection| !connection.is_proved).count());
            }
        }
    }
}
