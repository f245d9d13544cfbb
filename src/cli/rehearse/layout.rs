//! Names, and files, with which the same manifests need less time: each proposal is simulated and compared with the given files.

use std::time::{Duration, Instant};

use windrow_model::manifest::ReadLimits;
use windrow_simulate::PreparedSetup;
use windrow_simulate::rehearse::layout::{LayoutMove, LayoutProposal, LayoutTrial};

use super::args::SetupArgs;
use super::fleet::Fleet;
use super::play::try_layout;

/// Simulates the proposals, and adds those that were better with every seed to the findings of the nodes with these files. Returns them
/// in the order in which RKE2 applies them.
pub(super) fn improve(
    fleet: &mut Fleet,
    known: &PreparedSetup,
    (args, seeds): (&SetupArgs, u64),
    began: Instant,
) -> Vec<LayoutMove> {
    let limits = ReadLimits::default();
    let mut best: Option<(LayoutProposal, LayoutTrial)> = None;
    for proposal in std::mem::take(&mut fleet.proposals) {
        let left = args.timeout.saturating_sub(began.elapsed());
        if left == Duration::ZERO {
            break;
        }
        let Some(other) = proposal.lay_out(&fleet.setup, &limits) else {
            continue;
        };
        let setups = (&fleet.setup, known, &other);
        let better = try_layout(&proposal, setups, seeds, left)
            .filter(|trial| trial.is_better_in_all(seeds));
        let Some(trial) = better else {
            continue;
        };
        // Of two proposals that save as many passes, the one that changes less is enough.
        let spares_more = |known: &LayoutTrial| trial.least_saved() > known.least_saved() + 5.0;
        if best.as_ref().is_none_or(|(_, known)| spares_more(known)) {
            best = Some((proposal, trial));
        }
    }
    let Some((proposal, trial)) = best else {
        return Vec::new();
    };
    for node in &mut fleet.nodes {
        let finding = proposal.finding(&trial, &node.found.files);
        if !finding.at.is_empty() {
            node.found.findings.layout.push(finding);
        }
    }
    proposal.moves
}
