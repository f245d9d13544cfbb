//! Gates of ours that a component has refused in its log, looked for before a start of RKE2.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use windrow_gates::{Component, GateRequest, LastChange, RefusedGates, read_gates, version_text};

use super::startup_watch::RECENT;
use crate::act::{
    GatesLock, StateFile, WrittenAt, drop_in_written_at, read_drop_in, remember_refused,
};
use crate::configuration::Configuration;
use crate::observe::rke2::{candidates_on_disk, resolved};
use crate::observe::{effect, rke2_binary};

/// Gates of ours that were set, and since when.
struct SetGates {
    gates: Vec<GateRequest>,
    since: Option<Timestamp>,
    /// If the clock was set back, or starts behind: lines of that clock are still there.
    ahead: Option<Timestamp>,
}

/// The gates that were set when RKE2 last started. `Err`: the drop-in cannot be read.
fn gates_that_were_set(configuration: &Configuration) -> io::Result<Vec<SetGates>> {
    let layout = configuration.layout();
    let own = layout.gates_drop_in().display().to_string();
    let now = Timestamp::now();
    let mut all = Vec::new();
    if let Some(text) = read_drop_in(layout)? {
        let written = drop_in_written_at(layout, now);
        let since = written.and_then(WrittenAt::past);
        all.push(SetGates {
            gates: read_gates(&own, &text, &[]),
            since: since.or_else(|| now.checked_sub(RECENT).ok()),
            ahead: written.and_then(WrittenAt::ahead),
        });
    }
    // The drop-in may have been removed by hand, or a gate taken out of it whose refusal could not be written. What another binary has
    // refused says nothing, nor does a refusal that names a gate which was never set.
    let last: Option<LastChange> = StateFile::LastChange.recall(layout).unwrap_or_default();
    let text = last.and_then(|last| last.content).unwrap_or_default();
    let mut gates = read_gates(&own, &text, &[]);
    let requests = &configuration.settings().feature_gates;
    let is_there = |gate: &GateRequest| {
        let mut there = all.iter().flat_map(|set| &set.gates);
        there.any(|known| known.sets_as(gate))
    };
    gates.retain(|gate| !is_there(gate) && requests.iter().any(|request| request.sets_as(gate)));
    // They were set then. A trial may have kept them after an earlier refusal.
    let set = StateFile::LastChange.written_at(layout, now);
    let set = set.and_then(WrittenAt::past);
    let set = set.or_else(|| now.checked_sub(RECENT).ok());
    let installed = rke2_binary::installed_at(layout).filter(|at| *at <= now);
    all.push(SetGates {
        gates,
        since: set.max(installed),
        ahead: None,
    });
    Ok(all)
}

/// Before a start: gates of ours that kube-apiserver or the kubelet has refused since they were written are remembered, so that
/// settling takes them out, or does not write them again if the drop-in was removed by hand.
///
/// # Errors
///
/// All known refusals, and why the new ones could not be written, as on a full disk.
pub(super) fn own_refusals(
    configuration: &Configuration,
    patience: &mut Duration,
) -> Result<(), (RefusedGates, String)> {
    let layout = configuration.layout();
    let own = layout.gates_drop_in().display().to_string();
    let Ok(set) = gates_that_were_set(configuration) else {
        return Ok(());
    };
    let mut unwritten: Option<(RefusedGates, String)> = None;
    let components = [Component::KubeApiserver, Component::Kubelet];
    for (set, component) in set.iter().flat_map(|set| components.map(|one| (set, one))) {
        if set.gates.is_empty() {
            continue;
        }
        let said = effect::refusal(layout, component, set.since);
        let said = said.or_else(|| effect::refusal(layout, component, Some(set.ahead?)));
        let Some((refusal, _)) = said else {
            continue;
        };
        let mut mine = set.gates.clone();
        mine.retain(|gate| gate.component == component && refusal.gates.contains(&gate.gate));
        if mine.is_empty() {
            continue;
        }
        let data_dir = &configuration.settings().data_dir;
        let resolved = resolved(&candidates_on_disk(layout, data_dir));
        let version = version_text(&resolved.target);
        let _lock = GatesLock::take_within(layout, patience);
        let known: Option<RefusedGates> = StateFile::Refused.recall(layout).unwrap_or_default();
        let is_known = known.as_ref().is_some_and(|known| {
            let known_gates = known.gates(&own);
            known.version == version
                && mine
                    .iter()
                    .all(|mine| known_gates.iter().any(|gate| gate.sets_as(mine)))
        });
        if is_known {
            continue;
        }
        let why = format!("{component} says: {}", refusal.line);
        let written = remember_refused(layout, &version, &mine, &why, &own);
        // What was written after a failure belongs to the refusals that count for this start, too.
        let (before, error) = match (unwritten.take(), written) {
            (None, Ok(())) => continue,
            (Some((before, error)), Ok(())) => (Some(before), error),
            (before, Err(error)) => (before.map(|(before, _)| before).or(known), error),
        };
        let all = RefusedGates::and(before, &version, &mine, &why, &own);
        unwritten = Some((all, error));
    }
    unwritten.map_or(Ok(()), Err)
}
