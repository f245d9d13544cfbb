//! How one bootstrap ended, and the files that are held at its end.

use std::collections::{BTreeMap, BTreeSet};

use windrow_decide::{Blocker, HeldFile};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;
use windrow_plan::rules::NeedTarget;

use super::rehearsal::{Ending, StillHeld};
use crate::{BootstrapVerdict, MayBring, Run};

/// The end of a bootstrap. While Windrow still holds a file, except on purpose, the bootstrap is not complete.
pub(super) fn ended(run: &Run) -> Ending {
    match &run.outcome.verdict {
        BootstrapVerdict::Complete if all_kept(run).any(|kept| is_held_for_good(&kept)) => {
            Ending::Stuck
        }
        BootstrapVerdict::Complete if guesses(run).next().is_some() => Ending::Unknown,
        BootstrapVerdict::Complete => Ending::Complete,
        BootstrapVerdict::Unconfigured { .. }
            if all_kept(run).any(|kept| is_held_for_good(&kept)) =>
        {
            Ending::Stuck
        }
        BootstrapVerdict::Unconfigured { .. } => Ending::Unconfigured,
        BootstrapVerdict::Underway => Ending::Underway,
        BootstrapVerdict::Stuck { .. } => Ending::Stuck,
        BootstrapVerdict::Deadlocked { .. } => Ending::Deadlocked,
    }
}

/// Assumptions about unknown facts. Only Windrow waits for objects that are created outside.
fn guesses(run: &Run) -> impl Iterator<Item = String> {
    let awaited = run.status.iter();
    let awaited = awaited.flat_map(|_| run.cluster.made_elsewhere.values());
    let awaited = awaited.flat_map(|waits| waits.values());
    run.cluster.guesses().chain(awaited.cloned())
}

/// A file that is still held at the end.
struct Kept {
    held: StillHeld,
    /// Whether it waits only for objects that are created outside, and for files of which the same is true. The expectation of a
    /// rule for such an object cannot be simulated.
    awaits_elsewhere: bool,
}

/// Whether it is held although it should not be: not by a user, an annotation or a foreign marker, and not because of an unknown
/// fact.
fn is_held_for_good(kept: &Kept) -> bool {
    !kept.awaits_elsewhere && is_held_without_purpose(kept)
}

fn is_held_without_purpose(kept: &Kept) -> bool {
    !matches!(
        kept.held.code,
        Code::HeldByAnnotation | Code::HeldByHand | Code::HeldAppliedOnce | Code::HeldByOther
    )
}

/// The missing or unknown things at the end.
pub(super) fn because(run: &Run) -> Vec<String> {
    let mut because = match &run.outcome.verdict {
        BootstrapVerdict::Complete | BootstrapVerdict::Underway => Vec::new(),
        BootstrapVerdict::Unconfigured { because } => because.clone(),
        BootstrapVerdict::Stuck { missing } => missing.clone(),
        BootstrapVerdict::Deadlocked { proof } => proof.clone(),
    };
    if ended(run) == Ending::Unknown {
        because.extend(guesses(run));
    }
    let held = all_kept(run).filter(is_held_for_good);
    because.extend(held.map(|Kept { held, .. }| format!("{} stays held: {}", held.file, held.why)));
    because
}

/// The held files on all nodes that apply them. On an agent a hold has no effect, because its Windrow sends no requests.
fn all_kept(run: &Run) -> impl Iterator<Item = Kept> {
    let joined = (1..).zip(&run.joined);
    let applying = joined.filter(|(_, node)| node.applies_manifests);
    let servers = std::iter::once(0).chain(applying.map(|(server, _)| server));
    servers.flat_map(|server| kept(run, server))
}

/// Files that wait only for objects that are created outside, for one another, and for consequences of one another.
fn awaiting_elsewhere(run: &Run, held: &[HeldFile]) -> BTreeSet<ManifestPath> {
    let cluster = &run.cluster;
    let mut awaiting: BTreeSet<ManifestPath> = BTreeSet::new();
    loop {
        let waits_for = |waits: &BTreeMap<NeedTarget, String>, blocker: &Blocker| {
            let mut elsewhere = waits.keys();
            let installers = cluster.may_bring.values();
            let mut brought = installers
                .filter(|one| awaiting.contains(&one.file))
                .flat_map(MayBring::things);
            match &blocker.brought_by {
                Some(file) => awaiting.contains(file),
                None => {
                    elsewhere.any(|target| target.to_string() == blocker.what)
                        || brought.any(|thing| thing == blocker.what)
                }
            }
        };
        let more = held.iter().filter(|one| {
            let mut blockers = one.blockers.iter();
            let waits = cluster.made_elsewhere.get(&one.file);
            !awaiting.contains(&one.file)
                && !one.blockers.is_empty()
                && waits.is_some_and(|waits| blockers.all(|blocker| waits_for(waits, blocker)))
        });
        let more: Vec<ManifestPath> = more.map(|one| one.file.clone()).collect();
        if more.is_empty() {
            return awaiting;
        }
        awaiting.extend(more);
    }
}

fn kept(run: &Run, server: usize) -> Vec<Kept> {
    let Some((_, _, Some(status))) = run.results_of(server) else {
        return Vec::new();
    };
    let held = &status.staging.held;
    let awaiting = awaiting_elsewhere(run, held);
    held.iter()
        .map(|held| {
            let mut rules = Vec::new();
            for blocker in &held.blockers {
                if !rules.contains(&blocker.origin) {
                    rules.push(blocker.origin.clone());
                }
            }
            Kept {
                awaits_elsewhere: awaiting.contains(&held.file),
                held: StillHeld {
                    file: held.file.clone(),
                    code: held.code,
                    why: held.why.to_string(),
                    rules,
                },
            }
        })
        .collect()
}

/// The files on a node that are held forever.
pub(super) fn stays_held(run: &Run, server: usize) -> Vec<StillHeld> {
    let kept = kept(run, server).into_iter();
    let known = kept.filter(|kept| !kept.awaits_elsewhere);
    known.map(|kept| kept.held).collect()
}
