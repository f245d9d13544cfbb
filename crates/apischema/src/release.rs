//! Minor releases of Harvester, by which rules of its webhooks differ.

/// A minor release of Harvester: (1, 8).
pub type MinorRelease = (u32, u32);

/// The minor of a release: `v1.8.2` is (1, 8).
pub(crate) fn minor(release: &str) -> Option<MinorRelease> {
    let mut parts = release.trim_start_matches('v').split('.');
    let mut next = || parts.next()?.parse().ok();
    Some((next()?, next()?))
}
