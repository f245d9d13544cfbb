//! Health limits of a machine. A preflight checks them once, and the probes of the daemon check them repeatedly.

use crate::{HostLink, Temperature};

/// Required distance to the critical temperature, in degrees.
pub const MARGIN: f32 = 5.0;
/// Tolerated errors per million packets.
pub const ERRORS_PER_MILLION: u64 = 100;
/// With fewer packets the share of errors means nothing.
const FEWEST_PACKETS: u64 = 10_000;

/// The problem of a sensor that is too close to its critical temperature.
pub fn too_hot(sensor: &Temperature, margin: f32) -> Option<String> {
    let critical = *sensor.critical.known()?;
    (critical > 0.0 && sensor.celsius > critical - margin).then(|| {
        format!(
            "{}: less than {margin:.0} degrees below critical ({critical:.0} °C)",
            sensor.sensor
        )
    })
}

/// Counters of a link, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounts {
    pub packets: u64,
    pub errors: u64,
}

impl LinkCounts {
    /// The counters since the boot.
    pub fn of(link: &HostLink) -> Self {
        Self {
            packets: link.packets,
            errors: link.errors,
        }
    }

    /// The counters since `before`. If they are lower now, the link was created again, so all of them are new.
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

/// Whether a link has more errors than `per_million`. `None` if there are too few packets to tell.
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
