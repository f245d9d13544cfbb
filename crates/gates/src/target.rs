//! Which Kubernetes version will start next on this node: not the running one.
//!
//! Pure: takes the findings from the node. RKE2's binary decides, unless an upgrade is in progress. Without a binary (a
//! first boot), the images in the images directory decide, then the Harvester release.

use serde::{Deserialize, Serialize};
use windrow_plan::version::Version;

use super::TargetVersion;

/// The findings from the node. Texts are as they were found; a text that is not a version is ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionCandidates {
    /// Version of the installed `rke2` binary (`v1.35.6+rke2r1`).
    pub installed: Option<String>,
    pub silent: Option<SilentBinary>,
    /// Directories under `data` in RKE2's data directory: `v1.35.6-rke2r1-<digest>`, one for each
    /// version that was ever unpacked.
    pub data: Vec<String>,
    /// Versions of RKE2's runtime image in the images directory (`v1.35.6-rke2r1`).
    pub images: Vec<String>,
    /// The Harvester release (`v1.7.0`).
    pub harvester: Option<String>,
    /// The target of an upgrade in progress.
    pub upgrade: Option<Upgrade>,
}

/// Why the version of an installed `rke2` is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SilentBinary {
    ReportsNoVersion,
    /// It does not contain one, and a program of another host is not run.
    NotRun,
}

impl SilentBinary {
    fn why(self) -> &'static str {
        match self {
            Self::ReportsNoVersion => "an rke2 is installed that does not report its version",
            Self::NotRun => {
                "the version of the installed rke2 is unknown: it was not run, because the tree belongs to another machine"
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Upgrade {
    Rke2(String),
    Harvester(String),
    /// To an unknown version.
    Somewhere,
}

/// The version that will start, and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedVersion {
    pub target: TargetVersion,
    /// The source of the version, or why it is unknown, in a sentence.
    pub because: String,
}

/// Finds the version that will start. `brings` returns the Kubernetes versions that a release of Harvester may contain;
/// none if they are unknown.
pub fn resolve(
    found: &VersionCandidates,
    brings: impl Fn(&str) -> Vec<Version>,
) -> ResolvedVersion {
    let installed = found.installed.as_deref().and_then(version);
    let images = versions(&found.images);
    if let Some(upgrade) = &found.upgrade {
        return upgrading(installed, &images, upgrade, brings);
    }
    if let Some(installed) = installed {
        // A newer version in the images directory can become the next one at any moment.
        let newer: Vec<Version> = images
            .into_iter()
            .filter(|image| *image > installed)
            .collect();
        let because = match newer.is_empty() {
            true => format!("the installed rke2 is {installed}"),
            false => format!(
                "the installed rke2 is {installed}, and images of {} are present",
                list(&newer)
            ),
        };
        return among([installed].into_iter().chain(newer), because);
    }
    if let Some(silent) = found.silent {
        // Other files may belong to an earlier version.
        return ResolvedVersion {
            target: TargetVersion::Unknown,
            because: silent.why().to_owned(),
        };
    }
    if !images.is_empty() {
        let because = format!(
            "no rke2 is installed; images of {} are present",
            list(&images)
        );
        return among(images, because);
    }
    if let Some(release) = &found.harvester {
        let versions = brings(release);
        let because = match versions.is_empty() {
            true => format!("Windrow does not know which Kubernetes Harvester {release} contains"),
            false => format!(
                "no rke2 is installed; Harvester {release} contains Kubernetes {}",
                list(&versions)
            ),
        };
        return among(versions, because);
    }
    let data = versions(&found.data);
    if !data.is_empty() {
        let because = format!(
            "no rke2 is installed; the previous version here was {}",
            list(&data)
        );
        return among(data, because);
    }
    ResolvedVersion {
        target: TargetVersion::Unknown,
        because: "no installed rke2, no images and no Harvester release were found".to_owned(),
    }
}

fn upgrading(
    installed: Option<Version>,
    images: &[Version],
    upgrade: &Upgrade,
    brings: impl Fn(&str) -> Vec<Version>,
) -> ResolvedVersion {
    let (to, name) = match upgrade {
        Upgrade::Rke2(text) => (version(text).into_iter().collect(), text.as_str()),
        Upgrade::Harvester(release) => (brings(release), release.as_str()),
        Upgrade::Somewhere => (images.to_vec(), "an unnamed version"),
    };
    if to.is_empty() {
        return ResolvedVersion {
            target: TargetVersion::Unknown,
            because: format!(
                "an upgrade to {name} is in progress, and Windrow does not know its Kubernetes version"
            ),
        };
    }
    // Until the upgrade has replaced the binary, the old version may start once more.
    among(
        installed.into_iter().chain(to),
        format!("an upgrade to {name} is in progress"),
    )
}

fn among(versions: impl IntoIterator<Item = Version>, because: String) -> ResolvedVersion {
    let mut versions: Vec<Version> = versions.into_iter().collect();
    versions.sort_unstable();
    versions.dedup();
    let target = match versions.as_slice() {
        [] => TargetVersion::Unknown,
        [only] => TargetVersion::Known(*only),
        _ => TargetVersion::OneOf(versions),
    };
    ResolvedVersion { target, because }
}

fn version(text: &str) -> Option<Version> {
    text.parse().ok()
}

fn versions(texts: &[String]) -> Vec<Version> {
    let mut versions: Vec<Version> = texts.iter().filter_map(|text| version(text)).collect();
    versions.sort_unstable();
    versions.dedup();
    versions
}

/// Separates versions in a list.
pub(crate) const OR: &str = " or ";

pub(crate) fn list(versions: &[Version]) -> String {
    let texts: Vec<String> = versions.iter().map(Version::to_string).collect();
    texts.join(OR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn brings(release: &str) -> Vec<Version> {
        match release {
            "v1.7.0" => vec![v("1.34.2")],
            "v1.8.1" => vec![v("1.35.6")],
            _ => Vec::new(),
        }
    }

    fn target(found: VersionCandidates) -> TargetVersion {
        resolve(&found, brings).target
    }

    #[test]
    fn the_installed_binary_decides_whatever_was_unpacked_before() {
        let found = VersionCandidates {
            installed: Some("v1.34.2+rke2r1".into()),
            data: vec!["v1.33.3-rke2r1-0a1b2c".into(), "v1.35.0-rke2r1-ffee".into()],
            images: vec!["v1.34.2-rke2r1".into()],
            harvester: Some("v1.6.0".into()),
            ..VersionCandidates::default()
        };
        assert_eq!(target(found), TargetVersion::Known(v("1.34.2")));
    }

    #[test]
    fn newer_images_that_lie_ready_make_it_one_of_two() {
        let found = VersionCandidates {
            installed: Some("v1.33.3+rke2r1".into()),
            images: vec!["v1.34.2-rke2r1".into(), "v1.32.3-rke2r1".into()],
            ..VersionCandidates::default()
        };
        assert_eq!(
            target(found),
            TargetVersion::OneOf(vec![v("1.33.3"), v("1.34.2")])
        );
    }

    #[test]
    fn an_upgrade_in_progress_counts_both_versions_and_an_unknown_one_makes_it_unknown() {
        let with = |upgrade| VersionCandidates {
            installed: Some("v1.33.3+rke2r1".into()),
            upgrade: Some(upgrade),
            ..VersionCandidates::default()
        };
        let both = TargetVersion::OneOf(vec![v("1.33.3"), v("1.34.2")]);
        assert_eq!(target(with(Upgrade::Harvester("v1.7.0".into()))), both);
        assert_eq!(target(with(Upgrade::Rke2("v1.34.2+rke2r1".into()))), both);
        assert_eq!(
            target(with(Upgrade::Harvester("v1.99.0".into()))),
            TargetVersion::Unknown
        );
        assert_eq!(target(with(Upgrade::Somewhere)), TargetVersion::Unknown);
    }

    #[test]
    fn before_the_first_start_images_decide_then_the_harvester_release() {
        let mut found = VersionCandidates {
            images: vec!["v1.34.2-rke2r1".into()],
            harvester: Some("v1.8.1".into()),
            data: vec!["v1.30.1-rke2r1-aa".into()],
            ..VersionCandidates::default()
        };
        assert_eq!(target(found.clone()), TargetVersion::Known(v("1.34.2")));
        found.images.clear();
        assert_eq!(target(found.clone()), TargetVersion::Known(v("1.35.6")));
        found.harvester = None;
        assert_eq!(target(found.clone()), TargetVersion::Known(v("1.30.1")));
        found.data = vec!["not-a-version".into()];
        assert_eq!(target(found), TargetVersion::Unknown);
    }

    #[test]
    fn an_installed_binary_that_tells_nothing_makes_it_unknown() {
        let found = VersionCandidates {
            silent: Some(SilentBinary::ReportsNoVersion),
            data: vec!["v1.30.1-rke2r1-aa".into()],
            harvester: Some("v1.8.1".into()),
            ..VersionCandidates::default()
        };
        assert_eq!(target(found.clone()), TargetVersion::Unknown);
        let of_another_machine = VersionCandidates {
            silent: Some(SilentBinary::NotRun),
            ..found
        };
        let resolved = resolve(&of_another_machine, brings);
        assert_eq!(resolved.target, TargetVersion::Unknown);
        assert!(
            resolved
                .because
                .contains("not run, because the tree belongs to another machine")
        );
    }

    #[test]
    fn why_it_is_this_version_names_each_version_that_may_start() {
        let because = |found: &VersionCandidates| resolve(found, brings).because;
        let mut found = VersionCandidates {
            installed: Some("v1.33.3+rke2r1".into()),
            images: vec!["v1.33.3-rke2r1".into()],
            ..VersionCandidates::default()
        };
        assert_eq!(because(&found), "the installed rke2 is 1.33.3");
        found.images.push("v1.34.2-rke2r1".into());
        assert!(because(&found).ends_with("images of 1.34.2 are present"));
        found.installed = None;
        assert!(because(&found).ends_with("images of 1.33.3 or 1.34.2 are present"));
    }
}
