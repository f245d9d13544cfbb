//! Harvester's versions, on which its behaviour depends. The facts about each are in `data/versions.yaml`.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use windrow_plan::version::{Minor, Version};

use crate::versions::{Fact, HarvesterRelease, HarvesterVersions};

/// A Harvester version. A candidate comes before its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct HarvesterVersion {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
    pub stage: ReleaseStage,
}

/// How far a version has come, the earliest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReleaseStage {
    /// A build from the time before the release: `v1.8.0-dev-20260301`, `v1.8-head`.
    Development,
    /// `-rc1`, `-rc2` and so on.
    Candidate(u32),
    Release,
}

impl HarvesterVersion {
    /// The newest version whose sources were read. Statements without a version are about this one.
    pub const LATEST: Self = Self::new(1, 8, 2);

    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
            stage: ReleaseStage::Release,
        }
    }

    /// The release that this is, or is to become.
    #[must_use]
    pub const fn release(self) -> Self {
        Self::new(self.major, self.minor, self.patch)
    }

    /// The Kubernetes that it ships; `None` if unknown. For a version that was not read, the minor version of the previous one
    /// with the same minor.
    pub fn rke2(self) -> Option<Version> {
        let known = HarvesterVersions::shipped();
        if let Some(read) = known.release(self) {
            return read.rke2.as_deref()?.parse().ok();
        }
        let before = known.before(self, |release| release.rke2.as_deref())?;
        let version: Version = before.parse().ok()?;
        Some(version.minor.into())
    }

    /// The Kubernetes versions that it may ship: the one that was read, or else each minor from the previous release to the next.
    /// The list is empty for versions outside the known range.
    pub fn may_ship(self) -> Vec<Version> {
        let known = HarvesterVersions::shipped();
        let shipped = |release: &HarvesterRelease| release.rke2.as_deref()?.parse::<Version>().ok();
        if let Some(read) = known.release(self) {
            return Vec::from_iter(shipped(read));
        }
        let mut older = known.releases.iter().rev();
        let older = older.by_ref().filter(|release| release.version < self);
        let newer = known
            .releases
            .iter()
            .filter(|release| release.version > self);
        match (
            older.filter_map(shipped).next(),
            newer.filter_map(shipped).next(),
        ) {
            (Some(before), Some(after)) => (before.minor.minor..=after.minor.minor)
                .map(|minor| Minor::v1(minor).into())
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The Rancher that it contains; for an unknown version, that of the nearest one.
    pub fn rancher(self) -> &'static str {
        let known = HarvesterVersions::shipped();
        known.nearest(self, |release| release.rancher.as_deref())
    }

    /// Does the webhook check for VMs even when the setting is empty (harvester#8407, fixed by harvester#8390)?
    pub fn checks_empty(self) -> bool {
        Fact::StorageNetworkEmptyRefused.holds(self).assumed()
    }
}

impl fmt::Display for HarvesterVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        match self.stage {
            ReleaseStage::Development => f.write_str("-dev"),
            ReleaseStage::Candidate(number) => write!(f, "-rc{number}"),
            ReleaseStage::Release => Ok(()),
        }
    }
}

impl FromStr for HarvesterVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a Harvester version; write it like v1.5.1");
        let plain = text.strip_prefix('v').unwrap_or(text);
        // A plus sign starts build metadata.
        let plain = plain.split('+').next().unwrap_or(plain);
        let (plain, stage) = match plain.split_once('-') {
            None => (plain, ReleaseStage::Release),
            Some((plain, before)) => {
                let number = before.strip_prefix("rc").and_then(|rest| rest.parse().ok());
                let stage = number.map_or(ReleaseStage::Development, ReleaseStage::Candidate);
                (plain, stage)
            }
        };
        let mut parts = plain.split('.').map(str::parse::<u32>);
        let mut next = || parts.next().ok_or_else(wrong)?.map_err(|_| wrong());
        let version = Self {
            stage,
            ..Self::new(next()?, next()?, next()?)
        };
        match parts.next() {
            None => Ok(version),
            Some(_) => Err(wrong()),
        }
    }
}

impl TryFrom<String> for HarvesterVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> HarvesterVersion {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_read_as_they_are_written_in_the_field() {
        assert_eq!(version("1.6.0"), HarvesterVersion::new(1, 6, 0));
        assert_eq!(version("v1.7.0+abc"), HarvesterVersion::new(1, 7, 0));
        for text in ["1.6", "master", "", "v", "1.6.0.1", "1.6.x", "v1.8-head"] {
            assert!(text.parse::<HarvesterVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_candidate_comes_after_its_builds_and_before_its_release_and_is_written_as_it_was_read() {
        let in_order = ["1.5.0", "1.5.1-dev", "1.5.1-rc1", "1.5.1-rc10", "1.5.1"].map(version);
        assert!(in_order.is_sorted());
        assert_eq!(version("v1.5.1-rc2").to_string(), "1.5.1-rc2");
        assert_eq!(
            version("v1.5.1-dev-20250120"),
            version("1.5.1-rc1x"),
            "builds that are not candidates"
        );
        assert_eq!(version("v1.5.1-rc2").release(), version("v1.5.1"));
    }

    #[test]
    fn what_is_in_a_release_is_told_by_its_patch() {
        for (release, rke2, rancher) in [
            ("v1.4.0", "1.29.9", "v2.9.2"),
            ("v1.4.1", "1.30.7", "v2.9.3"),
            ("v1.4.2", "1.31.4", "v2.10.1"),
            ("v1.6.1", "1.33.5", "v2.12.2"),
            ("v1.8.0", "1.35.2", "v2.14.0"),
        ] {
            let release = version(release);
            assert_eq!(release.rke2().unwrap().to_string(), rke2, "{release}");
            assert_eq!(release.rancher(), rancher, "{release}");
        }
    }

    #[test]
    fn what_a_release_may_ship_is_not_guessed_beyond_its_neighbours() {
        let may = |text: &str| {
            let shipped = version(text).may_ship();
            let shipped = shipped.iter().map(Version::to_string);
            shipped.collect::<Vec<_>>().join(" ")
        };
        for (release, kubernetes) in [
            ("v1.6.0", "1.33.3"),
            ("v1.7.1", "1.34.3"),
            ("v1.8.2", "1.35.7"),
            // Not in the data.
            ("v1.5.9", "1.32 1.33"),
            ("v1.8.0-rc2", "1.34 1.35"),
            ("v1.9.0", ""),
            ("v1.3.2", ""),
        ] {
            assert_eq!(may(release), kubernetes, "{release}");
        }
    }

    #[test]
    fn of_a_release_that_was_not_read_the_one_before_it_tells_the_minor_of_kubernetes() {
        let rke2 = |text: &str| version(text).rke2().map(|rke2| rke2.to_string());
        assert_eq!(rke2("v1.4.9").as_deref(), Some("1.31"));
        assert_eq!(rke2("v1.8.9").as_deref(), Some("1.35"));
        assert_eq!(rke2("v1.9.0").as_deref(), Some("1.36"));
        assert_eq!(rke2("v1.3.2"), None);
        assert_eq!(rke2("v1.10.0"), None);
        assert_eq!(version("v1.8.2").rancher(), "v2.14.3");
        assert_eq!(version("v1.3.2").rancher(), "v2.9.2");
        assert_eq!(version("v2.0.0").rancher(), "v2.15.0");
    }
}
