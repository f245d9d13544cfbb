//! Finds the values of a configuration that Harvester's installer rejects or ignores, by release. The keys that it reads are data
//! (`data/installer.yaml`); its checks are in `rules`.
//!
//! ```text
//!   the caller names a version    the most similar release that was read is checked
//!   no version                    all are checked: a common answer is certain, others depend on the version
//! ```
//!
//! Findings never repeat a value that may be a secret: the token, passwords, addresses with a user.

mod addresses;
mod arguments;
mod bond;
mod chart_values;
mod cluster;
mod disks;
mod embedded;
mod iso;
mod known;
mod missing;
mod networks;
mod remark;
mod rules;
mod shape;
#[cfg(test)]
mod tests;
mod values;
mod webhooks;

use std::collections::BTreeMap;

use windrow_inputs::extract::{FileKind, kind_of};
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::yaml;
use windrow_model::unchecked::{ANY_TEXT, CanStop, NotChecked};

pub use self::arguments::KernelArguments;
pub use self::iso::{NamedRelease, difference, of_configuration, of_kernel_arguments};
pub use self::values::MTU;

use windrow_harvester::versions::HarvesterVersions;
use windrow_harvester::{HarvesterVersion, ReleaseStage};

use self::known::{KnownConfiguration, as_read, free_keys};
use self::remark::{AskedReleases, Remark, Remarks};
use self::shape::Shape;

/// The findings of the installer of a version; without a version, of all known versions. A text that is not a
/// configuration or cannot be read has no findings here: the caller that reads it reports that.
pub fn findings(shown: &str, text: &str, version: Option<HarvesterVersion>) -> Vec<Finding> {
    findings_with(shown, text, version, None)
}

/// Like [`findings`] if the parameters of the kernel's command line are known, too.
pub fn findings_with(
    shown: &str,
    text: &str,
    version: Option<HarvesterVersion>,
    arguments: Option<&KernelArguments>,
) -> Vec<Finding> {
    if kind_of(text) != FileKind::HarvesterConfig {
        return Vec::new();
    }
    let Ok(Some(root)) = yaml::installers(text) else {
        return Vec::new();
    };
    let root = match arguments {
        Some(arguments) => arguments.merged(&root),
        None => root,
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
        let read = as_read(&root, *release);
        rules::check(&read, *release, arguments, &mut remarks);
        remarks.sort_unstable();
        remarks.dedup();
        for remark in remarks {
            said.entry(remark).or_default().push(*release);
        }
    }
    remark::findings(shown, &asked, said)
}

/// The texts of a configuration, or of a kernel command line, that no rule judges: the installer takes any of them.
pub fn unjudged(shown: &str, text: &str, version: Option<HarvesterVersion>) -> Vec<NotChecked> {
    let root = match kind_of(text) {
        FileKind::HarvesterConfig => yaml::installers(text).ok().flatten(),
        _ => KernelArguments::read(text).map(KernelArguments::into_root),
    };
    let asked = asked(version);
    let (Some(root), Some(release)) = (root, asked.releases.last()) else {
        return Vec::new();
    };
    let read = as_read(&root, *release);
    let keys = free_keys(&read).into_iter();
    let keys = keys.map(|(path, line)| (path, ANY_TEXT, line));
    let unjudged = keys.chain(cluster::unjudged_settings(&read, *release));
    let unjudged = unjudged.map(|(path, why, line)| NotChecked {
        what: format!("`{path}`"),
        why: why.to_owned(),
        can_stop: CanStop::Itself,
        at: vec![Location::line(shown, line)],
    });
    unjudged.collect()
}

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
    // Windrow cannot tell which candidate introduced a change.
    let is_candidate = version.stage != ReleaseStage::Release && turns.contains(&version.release());
    let is_read = versions.covers(version) && version.release() <= known.read.to && !is_candidate;
    AskedReleases {
        releases: vec![versions.like(version)],
        unread: (!is_read).then_some(version),
    }
}
