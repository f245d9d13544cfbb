//! Default durations of phases, until this node has recorded its own boots; a longer phase is slow. They are generous, because a
//! bare-metal node loads its images from a slow disk.

use super::Phase;
use crate::rules::Platform;

struct PhaseDefault {
    phase: Phase,
    /// `None` for all platforms.
    platform: Option<Platform>,
    seconds: u64,
    /// The reason for the duration: time limits in other projects, with the place in their sources.
    source: &'static str,
}

const MINUTE: u64 = 60;
const HARVESTER: Option<Platform> = Some(Platform::Harvester);
const ESTIMATE: &str = "Windrow's own estimate";

/// The row of a platform comes before the row for all platforms.
const DEFAULTS: &[PhaseDefault] = &[
    row(Phase::Network, None, 3, ESTIMATE),
    row(
        Phase::Rke2Installed,
        None,
        5,
        "Windrow's own estimate: a download and unpacking",
    ),
    row(
        Phase::Api,
        None,
        15,
        "RKE2's server gives kube-apiserver 15 minutes and starts over: k3s-io/k3s pkg/util/api.go, \
         DefaultAPIServerReadyTimeout, as RKE2 v1.35 uses it",
    ),
    row(Phase::Node, None, 5, ESTIMATE),
    row(
        Phase::Rancher,
        HARVESTER,
        15,
        "Windrow's own estimate: rancherd waits for Rancher's rollout without a time limit",
    ),
    row(
        Phase::HarvesterChart,
        HARVESTER,
        20,
        "Windrow's own estimate: Fleet installs the chart with all of its parts",
    ),
    row(Phase::Settings, HARVESTER, 5, ESTIMATE),
    row(Phase::StorageNetwork, HARVESTER, 10, ESTIMATE),
    row(Phase::Manifests, None, 15, ESTIMATE),
    row(Phase::Ready, None, 5, ESTIMATE),
];

const fn row(
    phase: Phase,
    platform: Option<Platform>,
    minutes: u64,
    source: &'static str,
) -> PhaseDefault {
    PhaseDefault {
        phase,
        platform,
        seconds: minutes * MINUTE,
        source,
    }
}

fn row_of(phase: Phase, platform: Option<Platform>) -> Option<&'static PhaseDefault> {
    let of_phase = || DEFAULTS.iter().filter(move |row| row.phase == phase);
    of_phase()
        .find(|row| row.platform.is_some() && row.platform == platform)
        .or_else(|| of_phase().next())
}

/// The longest normal duration of a phase without other data.
pub(super) fn default_seconds(phase: Phase, platform: Option<Platform>) -> u64 {
    row_of(phase, platform).map_or(15 * MINUTE, |row| row.seconds)
}

/// The source of this duration.
pub fn default_source(phase: Phase, platform: Option<Platform>) -> &'static str {
    row_of(phase, platform).map_or(ESTIMATE, |row| row.source)
}
