//! `windrow replay --harvester VERSION` and `--rke2 VERSION`: the recorded files are simulated with another version.

use windrow_harvester::HarvesterVersion;
use windrow_plan::version::Version;
use windrow_replay::Segment;
use windrow_simulate::rehearse::{Ending, Rehearsal, flown, modelled, rehearse};

use super::super::out::print_whole;
use super::super::output::Output;
use super::super::{Exit, complain, style};
use super::Args;
use crate::render;

/// How many seeds are simulated with another version.
const SEEDS: u64 = 20;

/// The version with which the recorded files are simulated.
#[derive(Debug, Clone, Copy)]
pub(super) enum OtherVersion {
    Harvester(HarvesterVersion),
    Rke2(Version),
}

impl OtherVersion {
    pub(super) fn of(args: &Args) -> Option<Self> {
        let harvester = args.harvester.map(Self::Harvester);
        harvester.or(args.rke2.map(Self::Rke2))
    }
}

/// Simulates the recorded files with another version, from power-on.
pub(super) fn rehearse_recorded(
    segments: &[Segment],
    version: OtherVersion,
    output: Output,
) -> anyhow::Result<Exit> {
    let Some(segment) = segments.last() else {
        return Ok(Exit::Usage);
    };
    let refuse = |why: String| {
        complain(&[why]);
        Ok(Exit::Usage)
    };
    let recorded = match flown::setup(segment, None, false) {
        Ok(setup) => setup,
        Err(why) => return refuse(why),
    };
    let (harvester, rke2, shown) = match (version, recorded.scenario.harvester) {
        (OtherVersion::Harvester(version), Some(_)) => (
            Some(version),
            version.rke2(),
            format!("Harvester v{version}"),
        ),
        (OtherVersion::Rke2(version), None) => (None, Some(version), format!("RKE2 v{version}")),
        (OtherVersion::Harvester(_), None) => {
            return refuse("the recorded node has no Harvester: set --rke2".to_owned());
        }
        (OtherVersion::Rke2(_), Some(_)) => {
            return refuse(
                "the recorded node runs Harvester, which decides RKE2's version: set --harvester"
                    .to_owned(),
            );
        }
    };
    let rewrites = rke2.is_none_or(Version::rewrites_charts);
    let setup = match flown::setup(segment, harvester, rewrites) {
        Ok(setup) => setup,
        Err(why) => return refuse(why),
    };
    let name = format!("the node of {}, with {shown}", segment.head.at);
    let mut node = rehearse(&name, &setup, SEEDS, Vec::new());
    if setup.scenario.harvester.is_none() {
        node.beyond.extend(rke2.and_then(modelled::rke2));
    }
    let rehearsal = Rehearsal::new(vec![node], Vec::new());
    let table = || render::rehearsal(&rehearsal, style());
    print_whole(&output.render(&rehearsal, table)?)?;
    Ok(match rehearsal.worst() {
        Ending::Complete => Exit::Ok,
        Ending::Unknown => Exit::Unknown,
        _ => Exit::Failed,
    })
}
