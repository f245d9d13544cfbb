//! RKE2 being upgraded where Harvester does not do it: by system-upgrade-controller, or by hand.
//!
//! Three signs, each seen by another probe: a Job of a Plan is at work on the node (a server may ask);
//! the binary on the disk is newer than what runs, and the unit does not run, or the node is cordoned.
//! A newer binary alone is none: it may lie there for weeks.

use windrow_gates::Version;
use windrow_plan::readiness::node::{NodeEvent, Transition};
use windrow_plan::rules::Platform;

use super::world::{World, lock};
use crate::observe::rke2;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// What runs (`v1.34.2+rke2r1`), as the own Node says.
    running: Option<String>,
    /// What lies on the disk, and by what that file is known.
    installed: Option<(rke2::Stamp, Option<String>)>,
    /// A Job of a Plan.
    job: Option<String>,
    /// The unit does not run, and will run something newer.
    restart: Option<String>,
    /// The node is cordoned, and something newer lies on the disk.
    cordon: Option<String>,
}

/// One sign, seen or not.
pub(super) enum Sign {
    /// A Job of this Plan is at work on the node; `None`: none is.
    Job(Option<String>),
    /// The unit does not run.
    Down(bool),
    /// The node is cordoned, and this version runs.
    Node {
        cordoned: bool,
        running: Option<String>,
    },
}

/// Does this file tell of upgrades here? On a server of Harvester, Harvester's own Upgrade does.
pub(super) fn is_told_here(platform: Option<Platform>, serves_api: bool) -> bool {
    !(platform == Some(Platform::Harvester) && serves_api)
}

/// Takes a sign in, and tells what all of them amount to.
pub(super) fn seen(world: &World, sign: Sign) -> NodeEvent {
    let mut signs = lock(&world.upgrade);
    match sign {
        Sign::Job(plan) => {
            signs.job = plan.map(|plan| format!("Plan {plan} of system-upgrade-controller"));
        }
        Sign::Down(down) => signs.restart = newer(world, &mut signs, down),
        Sign::Node { cordoned, running } => {
            signs.running = running;
            signs.cordon = newer(world, &mut signs, cordoned);
        }
    }
    let Signs {
        job,
        restart,
        cordon,
        ..
    } = &*signs;
    let sign = job.as_ref().or(restart.as_ref()).or(cordon.as_ref());
    NodeEvent::Transition(Transition::Upgrade, sign.cloned())
}

/// What is newer on the disk than what runs; looked for only when it matters.
fn newer(world: &World, signs: &mut Signs, matters: bool) -> Option<String> {
    let running = signs.running.as_deref().filter(|_| matters)?;
    let (running, _) = running.split_once('+').unwrap_or((running, ""));
    let layout = world.layout();
    let stamp = rke2::stamp(&layout)?;
    if signs
        .installed
        .as_ref()
        .is_none_or(|(known, _)| *known != stamp)
    {
        signs.installed = Some((stamp, rke2::installed_on_disk(&layout)));
    }
    let installed = signs.installed.as_ref()?.1.as_deref()?;
    let (before, after): (Version, Version) = (running.parse().ok()?, installed.parse().ok()?);
    (after > before).then(|| format!("RKE2 {installed} is installed, {running} ran"))
}
