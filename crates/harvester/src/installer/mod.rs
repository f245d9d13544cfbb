//! What Harvester's installer refuses of its configuration, and what it passes over, by release. What it reads is data
//! (`data/installer.yaml`); what it checks is in `rules`.
//!
//! ```text
//!   a version is named     asked is the release that was read and is like it
//!   none is named          all are asked: what they agree on is certain, the rest depends on the version
//! ```
//!
//! A value is never repeated that may be a secret: the token, passwords, addresses with a user.

mod known;
mod networks;
mod preset;
mod remark;
mod rules;
mod shape;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;

use windrow_model::findings::Finding;
use windrow_model::manifest::extract::{FileKind, kind_of};
use windrow_model::manifest::yaml;

pub use self::values::MTU;

use self::known::{KnownConfiguration, as_read};
use self::remark::{AskedReleases, Remark, Remarks};
use self::shape::Shape;
use crate::version::{HarvesterVersion, ReleaseStage};
use crate::versions::HarvesterVersions;

/// What the installer of a version makes of a configuration; of all versions that were read where none is named. Nothing is said of a
/// text that is none, or that cannot be read: whoever reads it says so.
pub fn findings(shown: &str, text: &str, version: Option<HarvesterVersion>) -> Vec<Finding> {
    if kind_of(text) != FileKind::HarvesterConfig {
        return Vec::new();
    }
    let Ok(Some(root)) = yaml::installers(text) else {
        return Vec::new();
    };
    let asked = asked(version);
    let mut said: BTreeMap<Remark, Vec<HarvesterVersion>> = BTreeMap::new();
    for release in &asked.releases {
        let mut remarks = Remarks::new();
        let mut shape = Shape {
            release: *release,
            remarks: &mut remarks,
        };
        shape.walk(&root);
        rules::check(&as_read(&root, *release), *release, &mut remarks);
        remarks.sort_unstable();
        remarks.dedup();
        for remark in remarks {
            said.entry(remark).or_default().push(*release);
        }
    }
    remark::findings(shown, &asked, said)
}

/// Which releases are asked.
fn asked(version: Option<HarvesterVersion>) -> AskedReleases {
    let known = KnownConfiguration::shipped();
    let turns = known.turns();
    let Some(version) = version else {
        return AskedReleases {
            releases: turns,
            unread: None,
        };
    };
    let versions = HarvesterVersions::shipped();
    // Which of its candidates brought a change is not known.
    let is_candidate = version.stage != ReleaseStage::Release && turns.contains(&version.release());
    let is_read = versions.covers(version) && version.release() <= known.read.to && !is_candidate;
    AskedReleases {
        releases: vec![versions.like(version)],
        unread: (!is_read).then_some(version),
    }
}
