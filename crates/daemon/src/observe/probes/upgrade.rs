//! Upgrades of RKE2 other than by Harvester: by system-upgrade-controller, or manually.
//!
//! There are three signs, each observed by another probe: a Job of a Plan runs on the node (a server may ask); the
//! binary on the disk is newer than the running version, and either the unit does not run or the node is cordoned. Only
//! a newer binary is not a sign: it may be there for weeks.

use std::sync::Mutex;

use windrow_plan::readiness::node::{NodeEvent, Transition};
use windrow_plan::rules::Platform;
use windrow_plan::version::Version;

use super::context::ProbeContext;
use crate::files::FileStamp;
use crate::locked::lock;
use crate::observe::rke2_binary;

/// A Job that was observed is doubtful when its list was refused this often in a row.
const DOUBTFUL: u32 = 3;

#[derive(Default)]
pub(super) struct SignMemory(Mutex<Signs>);

#[derive(Debug, Default)]
struct Signs {
    /// The running version (`v1.34.2+rke2r1`), as the node's own Node reports it.
    running: Option<String>,
    /// The version on the disk, and the stamp of that file.
    installed: Option<(FileStamp, Option<String>)>,
    job: Option<String>,
    jobs_unknown: u32,
    /// The unit does not run, and will run a newer version.
    restart: Option<String>,
    cordon: Option<String>,
}

/// One sign, present or not.
pub(super) enum Sign {
    /// A Job of this Plan runs on the node; `None`: no Job runs.
    Job(Option<String>),
    JobUnknown,
    Down(bool),
    Node {
        cordoned: bool,
        running: Option<String>,
    },
}

/// Whether these signs count here. On a server of Harvester, Harvester's own Upgrade counts instead.
pub(super) fn is_seen_by_signs(platform: Option<Platform>, serves_api: bool) -> bool {
    !(platform == Some(Platform::Harvester) && serves_api)
}

/// Adds a sign. The event has the conclusion from all signs.
pub(super) fn take_sign(context: &ProbeContext, memory: &SignMemory, sign: Sign) -> NodeEvent {
    let mut signs = lock(&memory.0);
    match sign {
        Sign::Job(plan) => {
            signs.jobs_unknown = 0;
            signs.job = plan.map(|plan| format!("Plan {plan} of system-upgrade-controller"));
        }
        Sign::JobUnknown => {
            signs.jobs_unknown = signs.jobs_unknown.saturating_add(1);
            if signs.jobs_unknown >= DOUBTFUL {
                signs.job = None;
            }
        }
        Sign::Down(down) => signs.restart = newer(context, &mut signs, down),
        Sign::Node { cordoned, running } => {
            signs.running = running;
            signs.cordon = newer(context, &mut signs, cordoned);
        }
    }
    let Signs {
        job,
        restart,
        cordon,
        ..
    } = &*signs;
    let sign = job.as_ref().or(restart.as_ref()).or(cordon.as_ref());
    NodeEvent::Transition(Transition::Upgrade, sign.cloned().map(Into::into))
}

/// The version on the disk, if it is newer than the running one; looked for only when it matters.
fn newer(context: &ProbeContext, signs: &mut Signs, matters: bool) -> Option<String> {
    let running = signs.running.as_deref().filter(|_| matters)?;
    let (running, _) = running.split_once('+').unwrap_or((running, ""));
    let layout = context.layout();
    let stamp = rke2_binary::stamp(&layout)?;
    if signs
        .installed
        .as_ref()
        .is_none_or(|(known, _)| *known != stamp)
    {
        signs.installed = Some((stamp, rke2_binary::installed_on_disk(&layout)));
    }
    let installed = signs.installed.as_ref()?.1.as_deref()?;
    let (before, after): (Version, Version) = (running.parse().ok()?, installed.parse().ok()?);
    (after > before).then(|| format!("RKE2 {installed} is installed, {running} ran"))
}
