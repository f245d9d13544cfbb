//! The same bootstraps without Windrow: only RKE2 and its cluster.

use windrow_decide::Ledger;

use super::super::chance::Chance;
use super::super::faults::Faults;
use super::super::files::SimulatedDirectory;
use super::super::node::SimulatedNode;
use super::super::prepared::PreparedSetup;
use super::super::run::{DueChanges, JoinedNode, Run, Setup};
use super::daemon::earliest;
use super::{LIMIT, fleet, write_again};

pub fn without_windrow(setup: &Setup, seed: u64) -> Run {
    without_windrow_but_faults(setup, &Faults::NONE, seed)
}

/// The same, with those faults that affect the cluster.
pub fn without_windrow_but_faults(setup: &Setup, faults: &Faults, seed: u64) -> Run {
    run_alone(setup, &PreparedSetup::read(setup), faults, seed, &|| true).0
}

/// The run, and whether it was played to its end.
pub(super) fn run_alone(
    setup: &Setup,
    known: &PreparedSetup,
    faults: &Faults,
    seed: u64,
    go_on: &dyn Fn() -> bool,
) -> (Run, bool) {
    let mut node = fleet(setup, faults, seed);
    let mut disks = known.disks.clone();
    let mut changes = DueChanges::new(setup, &mut Chance::new(seed).branch(3));
    let end = setup.scenario.start + LIMIT;
    loop {
        let next = earliest([node.next_event_at(), changes.next_at()]);
        let Some(next) = next.filter(|next| *next < end) else {
            break;
        };
        if !go_on() {
            return (ended(seed, node, disks), false);
        }
        node.advance(next, &disks[..]);
        for signal in node.signals() {
            write_again(known, signal, &mut node, &mut disks, next);
        }
        changes.make(next, &mut disks, &mut node);
        if changes.next_at().is_none() && node.is_settled(&disks[..]) {
            break;
        }
    }
    (ended(seed, node, disks), true)
}

pub(super) fn ended(seed: u64, mut node: SimulatedNode, mut disks: Vec<SimulatedDirectory>) -> Run {
    let outcome = node.outcome(&disks[..]);
    let joined = (1..disks.len())
        .map(|number| {
            let (applied, unapplied) = node.applied(&disks[number]);
            JoinedNode {
                applies_manifests: node.applies_manifests(number),
                applied,
                unapplied,
                status: None,
                releases: Vec::new(),
                untrue: Vec::new(),
            }
        })
        .collect();
    let counts = node.counts();
    let (log, cluster) = node.into_parts();
    Run {
        seed,
        counts,
        outcome,
        ended: cluster.now(),
        log,
        cluster,
        files: disks.swap_remove(0),
        ledger: Ledger::default(),
        status: None,
        releases: Vec::new(),
        untrue: Vec::new(),
        joined,
        decisions: 0,
        restless: 0,
    }
}
