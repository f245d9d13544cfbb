//! `windrow replay --with VERSION`: the recorded files are simulated with another version.

use windrow_harvester::HarvesterVersion;
use windrow_plan::version::Version;
use windrow_replay::Segment;
use windrow_simulate::rehearse::{Ending, Rehearsal, flown, modelled, rehearse};

use super::super::out::print_whole;
use super::super::output::Output;
use super::super::{Exit, complain, style};
use crate::render;

/// How many seeds are simulated with another version.
const SEEDS: u64 = 20;

/// Whether the text looks like a version rather than a path.
pub(super) fn is_version(text: &str) -> bool {
    let plain = text.strip_prefix('v').unwrap_or(text);
    plain.starts_with(|ch: char| ch.is_ascii_digit())
}

/// Simulates the recorded files with another version, from power-on.
pub(super) fn rehearse_recorded(
    segments: &[Segment],
    version: &str,
    output: Output,
) -> anyhow::Result<Exit> {
    let Some(segment) = segments.last() else {
        return Ok(Exit::Usage);
    };
    let refuse = |why: String| {
        complain(&[format!("--with: {why}")]);
        Ok(Exit::Usage)
    };
    let recorded = match flown::setup(segment, None, false) {
        Ok(setup) => setup,
        Err(why) => return refuse(why),
    };
    let (harvester, rke2) = match recorded.scenario.harvester {
        Some(_) => match version.parse::<HarvesterVersion>() {
            Ok(version) => (Some(version), version.rke2()),
            Err(why) => return refuse(why),
        },
        None => match version.parse::<Version>() {
            Ok(version) => (None, Some(version)),
            Err(why) => return refuse(why.to_string()),
        },
    };
    let rewrites = rke2.is_none_or(Version::rewrites_charts);
    let setup = match flown::setup(segment, harvester, rewrites) {
        Ok(setup) => setup,
        Err(why) => return refuse(why),
    };
    let name = format!("the node of {}, with {version}", segment.head.at);
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
