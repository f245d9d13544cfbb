//! Harvester's versions: what it does depends on them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_plan::version::Version;

/// A Harvester version: what it does at its start depends on it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct HarvesterVersion {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Patch.
    pub patch: u32,
}

impl HarvesterVersion {
    /// The newest version that the simulation was written after.
    pub const LATEST: Self = Self::new(1, 6, 0);

    /// A version.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// The minor version of the Kubernetes that it ships (its `scripts/version-rke2`); `None` where
    /// that is not known.
    pub fn rke2(self) -> Option<Version> {
        let minor = match (self.major, self.minor) {
            (1, 3) => 28,
            (1, minor @ 4..=9) => 27 + minor,
            _ => return None,
        };
        format!("v1.{minor}").parse().ok()
    }

    /// The Rancher that is in it (its `scripts/version-rancher`); of a version that is not known, the nearest one's.
    pub fn rancher(self) -> &'static str {
        match (self.major, self.minor) {
            (..=0, _) | (1, ..=4) => "v2.9.2",
            (1, 5) => "v2.11.0",
            (1, 6) => "v2.12.0",
            _ => "v2.13.0",
        }
    }

    /// Is `/v1/harvester/readyz` there? It came with v1.8.0; v1.7.3's source has no word of it.
    pub fn serves_readyz(self) -> bool {
        self >= Self::new(1, 8, 0)
    }

    /// Up to 1.5.0 the check was made for an empty setting too (harvester#8407, fixed by #8390).
    pub fn checks_empty(self) -> bool {
        self < Self::new(1, 5, 1)
    }
}

impl fmt::Display for HarvesterVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for HarvesterVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a Harvester version; write it like v1.5.1");
        let plain = text.strip_prefix('v').unwrap_or(text);
        let plain = plain.split(['-', '+']).next().unwrap_or(plain);
        let mut parts = plain.split('.').map(str::parse::<u32>);
        let mut next = || parts.next().ok_or_else(wrong)?.map_err(|_| wrong());
        let version = Self::new(next()?, next()?, next()?);
        match parts.next() {
            None => Ok(version),
            Some(_) => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_they_are_written_in_the_field() {
        let version = |text: &str| text.parse::<HarvesterVersion>();
        assert_eq!(version("v1.5.1-rc2"), Ok(HarvesterVersion::new(1, 5, 1)));
        assert_eq!(version("1.6.0"), Ok(HarvesterVersion::new(1, 6, 0)));
        assert!(version("1.6").is_err() && version("master").is_err());
    }
}
