//! The versions with a model. Any other version is simulated like the nearest of these, and the results are uncertain, unless the
//! releases around it start in the same way.

use windrow_gates::catalogue::Catalogue;
use windrow_harvester::versions::{Fact, HarvesterVersions, Holds};
use windrow_harvester::{HarvesterVersion, ReleaseStage};
use windrow_model::findings::Finding;
use windrow_model::reasons::Code;
use windrow_plan::version::Version;

/// The version differences in the simulated bootstrap. The provided kinds and objects differ too, according to `plan`'s
/// knowledge.
pub const PLAYED: &[Fact] = &[
    Fact::StorageNetworkEmptyRefused,
    Fact::DriverFollowsFeature,
    Fact::StorageNetworkCapital,
];

/// The differences that change the end of a bootstrap. The third one only changes the text of a message.
const DECIDES: &[Fact] = &[Fact::StorageNetworkEmptyRefused, Fact::DriverFollowsFeature];

/// The releases from which on the bootstrap can end differently, the oldest first.
pub fn turns() -> Vec<HarvesterVersion> {
    let turns = DECIDES.iter().flat_map(|fact| fact.known().turns());
    let mut turns: Vec<_> = turns
        .filter(|turn| *turn <= HarvesterVersion::LATEST)
        .collect();
    turns.sort_unstable();
    turns.dedup();
    turns
}

/// A version whose sources were not examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnreadVersion {
    /// It may start in another way than the simulation; a sentence.
    Unmodelled(String),
    /// The releases around it start in the same way; a sentence.
    Alike(String),
}

impl UnreadVersion {
    /// The sentence, if the result is uncertain.
    pub fn unmodelled(self) -> Option<String> {
        match self {
            UnreadVersion::Unmodelled(why) => Some(why),
            UnreadVersion::Alike(_) => None,
        }
    }

    /// The finding, if the version starts like its neighbours.
    pub fn finding(self) -> Option<Finding> {
        let UnreadVersion::Alike(how) = self else {
            return None;
        };
        let code = Code::VersionUnread;
        Some(Finding {
            incident: None,
            code,
            severity: code.severity(),
            message: code.say(&[("how", &how)]),
            at: Vec::new(),
        })
    }
}

/// The message about an unexamined version of Harvester; `None` for other versions.
pub fn harvester(version: HarvesterVersion) -> Option<UnreadVersion> {
    let known = HarvesterVersions::shipped();
    if known.was_read(version) {
        return None;
    }
    let unknown = DECIDES.iter().find_map(|fact| match fact.holds(version) {
        Holds::Unknown { like, .. } => Some(like),
        _ => None,
    });
    let Some(like) = unknown else {
        let like = known.like(version);
        return Some(UnreadVersion::Alike(format!(
            "Harvester v{version} has not been checked against its sources: it is simulated as v{like}"
        )));
    };
    let (oldest, newest) = (known.read.from, known.read.to);
    let release = version.release();
    let why = if release < oldest {
        format!("is older than the versions that Windrow models (v{oldest} to v{newest})")
    } else if (release.major, release.minor) > (newest.major, newest.minor) {
        format!("is newer than the versions that Windrow models (v{oldest} to v{newest})")
    } else if version.stage != ReleaseStage::Release {
        format!("came before v{release}, which starts differently from the releases before it")
    } else {
        "has not been checked against its sources, and the releases around it start differently"
            .to_owned()
    };
    Some(UnreadVersion::Unmodelled(format!(
        "Harvester v{version} {why}: it is simulated as v{like}"
    )))
}

/// A sentence about a version of RKE2 without a model; `None` for other versions.
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
        "RKE2 v{version} is {relation} than the versions that Windrow models (v{oldest} to v{newest}): it is simulated as v{like}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(version: &str) -> Option<UnreadVersion> {
        harvester(version.parse().unwrap())
    }

    #[test]
    fn nothing_is_said_of_the_releases_that_were_read() {
        for release in &HarvesterVersions::shipped().releases {
            let told = harvester(release.version);
            let read = release.version <= HarvesterVersion::LATEST;
            assert_eq!(told.is_none(), read, "{told:?}");
        }
    }

    #[test]
    fn a_version_beyond_the_model_is_told_with_what_it_is_played_like() {
        let unmodelled = |version: &str| said(version).unwrap().unmodelled().unwrap();
        for (version, sentence) in [
            (
                "v1.9.0",
                "Harvester v1.9.0 is newer than the versions that Windrow models (v1.4.0 to v1.8.2): it is simulated as v1.8.2",
            ),
            (
                "v1.3.2",
                "Harvester v1.3.2 is older than the versions that Windrow models (v1.4.0 to v1.8.2): it is simulated as v1.4.0",
            ),
            (
                "v1.5.1-rc2",
                "Harvester v1.5.1-rc2 came before v1.5.1, which starts differently from the releases before it: it is simulated as v1.5.1",
            ),
            (
                "v1.4.4",
                "Harvester v1.4.4 has not been checked against its sources, and the releases around it start differently: it is simulated as v1.4.3",
            ),
        ] {
            assert_eq!(unmodelled(version), sentence);
        }
        assert!(unmodelled("v2.0.0").contains("newer"));
        assert!(unmodelled("v1.9.0-rc6").contains("newer"));
    }

    #[test]
    fn a_version_whose_neighbours_start_alike_is_told_as_unread() {
        for (version, like) in [
            ("v1.8.3", "v1.8.2"),
            ("v1.6.99", "v1.6.1"),
            ("v1.6.0-rc3", "v1.6.0"),
            ("v1.8.2-rc1", "v1.8.2"),
        ] {
            let told = said(version).unwrap();
            let finding = told.finding().unwrap();
            let sentence = format!(
                "Harvester {version} has not been checked against its sources: it is simulated as {like}"
            );
            assert_eq!(finding.message, sentence);
        }
    }

    #[test]
    fn the_bootstrap_turns_where_a_fact_turns_on_which_its_end_depends() {
        let turns: Vec<String> = turns().iter().map(ToString::to_string).collect();
        assert_eq!(turns, ["1.5.0", "1.5.1"]);
        assert!(DECIDES.iter().all(|fact| PLAYED.contains(fact)));
    }

    #[test]
    fn an_rke2_beyond_the_catalogue_is_told_with_what_it_is_played_like() {
        let said = |version: &str| rke2(version.parse().unwrap());
        assert_eq!(said("v1.32.7+rke2r1"), None);
        assert!(said("v1.99").is_some_and(|said| said.starts_with("RKE2 v1.99 is newer")));
        assert!(said("v2.1.0").is_some_and(|said| said.contains("newer")));
        assert!(said("v1.20.4").is_some_and(|said| said.starts_with("RKE2 v1.20.4 is older")));
    }
}
