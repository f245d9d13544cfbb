//! Changes of built-in probes by the configuration. A disabled probe stays in the list: it is Unknown, with the line of the
//! configuration that disables it.

use std::fmt;
use std::time::Duration;

use windrow_model::findings::Location;

use super::{NodeRole, ProbeSeverity, ProbeSpec, specs};
use crate::rules::Platform;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeLimit {
    /// Required free space, in percent.
    FreePercent(u8),
    /// Required free space, in bytes.
    FreeBytes(u64),
    /// Required free inodes, in percent.
    InodesPercent(u8),
    /// Highest load per core, in hundredths.
    LoadPerCore(u32),
    /// Required distance to the critical temperature, in degrees.
    Degrees(u8),
    /// Tolerated errors per million packets.
    ErrorsPerMillion(u32),
    /// Required remaining validity of a certificate.
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

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeTuning {
    pub name: String,
    /// The line of the configuration that disables it.
    pub off: Option<Location>,
    pub period: Option<Duration>,
    pub fall: Option<u32>,
    /// Makes a required probe wanted.
    pub only_wanted: bool,
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

/// The built-in probes that apply to a node, with the changes of the configuration.
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

/// The limit of a probe with its changes.
pub fn limit_of(name: &str, tunings: &[ProbeTuning]) -> Option<ProbeLimit> {
    let configured = tunings.iter().find(|tuning| tuning.name == name);
    let rows = super::BUILTIN.iter();
    configured.and_then(|tuning| tuning.limit).or_else(|| {
        rows.filter(|row| row.name == name)
            .find_map(|row| row.limit)
    })
}
