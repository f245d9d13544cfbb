//! Random sequences of edits, boots, crashes and requests against the code that decides about feature gates, judged by
//! an independent oracle.
//!
//! `world` is the node: a disk whose writes can be interrupted, RKE2, and a kube-apiserver with rules that are not in
//! the catalogue. `agent` is the daemon and the hook without their system calls: it calls the same decisions in the
//! same order. `oracle` knows neither; it observes the events on the node, and checks the promises of `docs/gates.md`.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod agent;
mod oracle;
mod world;

use proptest::prelude::*;

use self::world::{Configured, Event, Trap, World};

fn gates() -> impl Strategy<Value = Vec<(usize, bool)>> {
    proptest::collection::vec((0..world::GATES.len(), any::<bool>()), 0..3)
}

fn configured() -> impl Strategy<Value = Configured> {
    prop_oneof![
        6 => gates().prop_map(Configured::Asks),
        1 => gates().prop_map(Configured::Broken),
        1 => Just(Configured::Missing),
        1 => Just(Configured::Unreadable),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => configured().prop_map(Event::Configure),
        2 => any::<bool>().prop_map(Event::OnChange),
        5 => (1u32..20).prop_map(Event::Wait),
        4 => (0u32..16).prop_map(Event::Boot),
        1 => Just(Event::RestartDaemon),
        3 => (0u32..12, any::<bool>()).prop_map(|(writes, is_done)| Event::Crash { writes, is_done }),
        2 => any::<bool>().prop_map(Event::Apply),
        3 => Just(Event::Rollback),
        1 => (0..world::VERSIONS.len()).prop_map(Event::Upgrade),
        1 => (1u32..30).prop_map(Event::Silent),
        2 => Just(Event::RemoveDropIn),
        2 => gates().prop_map(Event::EditDropIn),
    ]
}

fn trap() -> impl Strategy<Value = Trap> {
    let gate = (0..world::GATES.len(), any::<bool>(), any::<bool>());
    gate.prop_map(|(gate, value, is_needed)| Trap {
        gate,
        value,
        is_needed,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_to_a_node_its_gates_keep_their_promises(
        traps in proptest::collection::vec(trap(), 0..3),
        events in proptest::collection::vec(event(), 1..24),
    ) {
        let mut world = World::new(traps);
        for event in &events {
            world.play(event);
        }
        world.play(&Event::Wait(world::LONGEST_TRIAL + 1));
        let objections = oracle::objections(&world);
        prop_assert!(objections.is_empty(), "{:#?}\n{:#?}", objections, world.seen);
    }
}
