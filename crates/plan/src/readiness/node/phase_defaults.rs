//! What is expected of a phase before this node has taught anything: longer is slow. Generous, because a bare-metal
//! node loads its images from a slow disk.

use super::Phase;
use crate::rules::Platform;

/// One row.
struct PhaseDefault {
    phase: Phase,
    /// `None` for every platform.
    platform: Option<Platform>,
    seconds: u64,
    /// Why so long: what others wait for it, with the place in their source.
    source: &'static str,
}

const MINUTE: u64 = 60;
const HARVESTER: Option<Platform> = Some(Platform::Harvester);
const ESTIMATE: &str = "Windrow's own estimate";

/// A row of a platform comes before the one of all.
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
        "Windrow's own estimate: rancherd waits for Rancher's rollout without an end",
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

/// How long a phase takes at most, as far as nothing else is known.
pub(super) fn default_seconds(phase: Phase, platform: Option<Platform>) -> u64 {
    row_of(phase, platform).map_or(15 * MINUTE, |row| row.seconds)
}

/// Where that comes from.
pub fn default_source(phase: Phase, platform: Option<Platform>) -> &'static str {
    row_of(phase, platform).map_or(ESTIMATE, |row| row.source)
}
