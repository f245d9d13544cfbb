//! The versions that Windrow has a model of. Any other is played like the nearest of these, and what a rehearsal says of it
//! is not known to be true.

use windrow_gates::catalogue::Catalogue;
use windrow_harvester::HarvesterVersion;
use windrow_plan::version::Version;

/// The oldest Harvester whose start was read in its sources.
const OLDEST: HarvesterVersion = HarvesterVersion::new(1, 4, 0);

/// A sentence about a version of Harvester that there is no model of; `None` for the others.
pub fn harvester(version: HarvesterVersion) -> Option<String> {
    let newest = HarvesterVersion::LATEST;
    let (relation, like) = if version < OLDEST {
        ("older", OLDEST)
    } else if (version.major, version.minor) > (newest.major, newest.minor) {
        ("newer", newest)
    } else {
        return None;
    };
    Some(format!(
        "Harvester v{version} is {relation} than what Windrow has a model of (v{}.{} to v{}.{}): it is played like v{}.{}",
        OLDEST.major, OLDEST.minor, newest.major, newest.minor, like.major, like.minor
    ))
}

/// A sentence about a version of RKE2 that there is no model of; `None` for the others.
pub fn rke2(version: Version) -> Option<String> {
    let mut minors = Catalogue::builtin().minors();
    let (oldest, newest) = (minors.next()?, minors.next_back()?);
    let (relation, like) = if version.minor < oldest {
        ("older", oldest)
    } else if version.minor > newest {
        ("newer", newest)
    } else {
        return None;
    };
    Some(format!(
        "RKE2 v{version} is {relation} than what Windrow has a model of (v{oldest} to v{newest}): it is played like v{like}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_beyond_the_model_is_told_with_what_it_is_played_like() {
        let said = |version: &str| harvester(version.parse().unwrap());
        for known in ["v1.4.0", "v1.5.1-rc2", "v1.6.0", "v1.6.99"] {
            assert_eq!(said(known), None, "{known}");
        }
        let newer = "Harvester v1.7.0 is newer than what Windrow has a model of (v1.4 to v1.6): it is played like v1.6";
        assert_eq!(said("v1.7.0").as_deref(), Some(newer));
        assert!(said("v2.0.0").is_some_and(|said| said.contains("newer")));
        assert!(
            said("v1.3.2")
                .is_some_and(|said| said.contains("older") && said.ends_with("like v1.4"))
        );

        let said = |version: &str| rke2(version.parse().unwrap());
        assert_eq!(said("v1.32.7+rke2r1"), None);
        assert!(said("v1.99").is_some_and(|said| said.starts_with("RKE2 v1.99 is newer")));
        assert!(said("v2.1.0").is_some_and(|said| said.contains("newer")));
        assert!(said("v1.20.4").is_some_and(|said| said.starts_with("RKE2 v1.20.4 is older")));
    }
}
