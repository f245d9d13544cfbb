//! What the configuration changes about the probes of the table. A probe that it switches off stays in
//! the list: it is Unknown, with the line that says so.

use std::fmt;
use std::time::Duration;

use windrow_model::findings::Location;

use super::{NodeRole, ProbeSeverity, ProbeSpec, specs};
use crate::rules::Platform;

/// What a probe measures against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeLimit {
    /// The least that has to be free, in percent.
    FreePercent(u8),
    /// The least that has to be free, in bytes.
    FreeBytes(u64),
    /// The inodes that have to be free at least, in percent.
    InodesPercent(u8),
    /// The highest load for each core, in hundredths.
    LoadPerCore(u32),
    /// How many degrees have to be left below what a sensor calls critical.
    Degrees(u8),
    /// How many packets of a million may be lost to errors.
    ErrorsPerMillion(u32),
    /// How long a certificate has to be valid at least.
    Left(Duration),
}

impl fmt::Display for ProbeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        const DAY: u64 = 24 * 60 * 60;
        match self {
            ProbeLimit::FreePercent(percent) | ProbeLimit::InodesPercent(percent) => {
                write!(f, "{percent}%")
            }
            ProbeLimit::FreeBytes(bytes) => write!(f, "{} MiB", bytes.div_ceil(MIB)),
            ProbeLimit::LoadPerCore(load) => write!(f, "{}", f64::from(*load) / 100.0),
            ProbeLimit::Degrees(degrees) => write!(f, "{degrees}"),
            ProbeLimit::ErrorsPerMillion(errors) => write!(f, "{errors} in a million"),
            ProbeLimit::Left(time) => write!(f, "{} days", time.as_secs().div_ceil(DAY)),
        }
    }
}

/// What the configuration changes about one probe of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeTuning {
    /// The probe's name.
    pub name: String,
    /// The line that switches it off.
    pub off: Option<Location>,
    /// Another period.
    pub period: Option<Duration>,
    /// Another number of failures in a row.
    pub fall: Option<u32>,
    /// It is wanted only, though the table requires it.
    pub only_wanted: bool,
    /// Another limit.
    pub limit: Option<ProbeLimit>,
}

impl ProbeTuning {
    fn apply(&self, spec: &mut ProbeSpec) {
        spec.off.clone_from(&self.off);
        spec.period = self.period.unwrap_or(spec.period);
        spec.fall = self.fall.unwrap_or(spec.fall);
        if let Some(limit) = self.limit {
            spec.limit = Some(limit.to_string());
        }
        if self.only_wanted {
            spec.severity = ProbeSeverity::Wanted;
        }
    }
}

/// The probes of the table that apply to a node, as the configuration has them.
pub fn tuned_specs(
    role: NodeRole,
    platform: Option<Platform>,
    tunings: &[ProbeTuning],
) -> Vec<ProbeSpec> {
    let mut specs = specs(role, platform);
    for tuning in tunings {
        let tuned = specs
            .iter_mut()
            .filter(|spec| spec.id.as_str() == tuning.name);
        tuned.for_each(|spec| tuning.apply(spec));
    }
    specs
}

/// What the probe measures against.
pub fn limit_of(name: &str, tunings: &[ProbeTuning]) -> Option<ProbeLimit> {
    let configured = tunings.iter().find(|tuning| tuning.name == name);
    let rows = super::BUILTIN.iter();
    configured.and_then(|tuning| tuning.limit).or_else(|| {
        rows.filter(|row| row.name == name)
            .find_map(|row| row.limit)
    })
}
