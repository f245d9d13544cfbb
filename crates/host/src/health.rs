//! Limits of what a machine can bear: asked once by a preflight, again and again by the daemon's probes.

use crate::{HostLink, Temperature};

/// How many degrees have to be left below critical.
pub const MARGIN: f32 = 5.0;
/// How many packets of a million may be lost to errors.
pub const ERRORS_PER_MILLION: u64 = 100;
/// Fewer packets say nothing about the share of errors.
const FEWEST_PACKETS: u64 = 10_000;

/// A sensor that is too near to what it must not reach.
pub fn too_hot(sensor: &Temperature, margin: f32) -> Option<String> {
    let critical = *sensor.critical.known()?;
    (critical > 0.0 && sensor.celsius > critical - margin).then(|| {
        format!(
            "{}: less than {margin:.0} degrees below critical ({critical:.0} °C)",
            sensor.sensor
        )
    })
}

/// What a link has counted, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounts {
    /// Packets.
    pub packets: u64,
    /// Errors.
    pub errors: u64,
}

impl LinkCounts {
    /// Since the boot.
    pub fn of(link: &HostLink) -> Self {
        Self {
            packets: link.packets,
            errors: link.errors,
        }
    }

    /// Since an earlier look. A link that has counted less since was made again: then all of it is new.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let packets = self.packets.checked_sub(before.packets);
        let errors = self.errors.checked_sub(before.errors);
        match (packets, errors) {
            (Some(packets), Some(errors)) => Self { packets, errors },
            _ => self,
        }
    }
}

/// Does a link lose more than that? `None` where there were too few packets to tell.
pub fn too_many_errors(
    name: &str,
    counts: LinkCounts,
    per_million: u64,
) -> Option<Result<(), String>> {
    let packets = counts.packets.saturating_add(counts.errors);
    if packets < FEWEST_PACKETS {
        return None;
    }
    let share = u128::from(counts.errors) * 1_000_000 / u128::from(packets);
    Some(match share > u128::from(per_million) {
        true => Err(format!(
            "{name}: more than {per_million} errors in a million packets"
        )),
        false => Ok(()),
    })
}
