use serde_json::json;

use super::*;
use crate::objects::KindListing;

fn version(text: &str) -> HarvesterVersion {
    text.parse().unwrap()
}

#[test]
fn the_data_is_read_in_order_and_every_fact_has_its_statement_and_source() {
    let known = HarvesterVersions::shipped();
    let releases: Vec<HarvesterVersion> = known.releases.iter().map(|one| one.version).collect();
    assert!(
        releases.is_sorted_by(|one, next| one < next),
        "{releases:?}"
    );
    assert_eq!(known.read.from, releases[0]);
    assert_eq!(known.read.to, HarvesterVersion::LATEST);
    let after: Vec<_> = releases
        .iter()
        .filter(|one| **one > known.read.to)
        .collect();
    let candidate = |one: &HarvesterVersion| one.stage != ReleaseStage::Release;
    assert!(after.iter().all(|one| candidate(one)), "{after:?}");

    let names: Vec<Fact> = known.facts.iter().map(|fact| fact.name).collect();
    for fact in Fact::ALL {
        let times = names.iter().filter(|name| *name == fact).count();
        assert_eq!(times, 1, "{}", fact.name());
    }
    for fact in &known.facts {
        let name = fact.name.name();
        assert!(!fact.says.is_empty() && fact.source.len() > 20, "{name}");
        for turn in fact.turns().filter(|turn| *turn <= known.read.to) {
            assert!(
                known.was_read(turn),
                "{name} turns at {turn}, which was not read"
            );
            assert!(turn > known.read.from, "{name} does not turn at {turn}");
        }
        if let (Some(since), Some(before)) = (fact.since, fact.before) {
            assert!(since < before, "{name}");
        }
        for except in &fact.except {
            assert!(fact.since.is_none_or(|since| *except > since), "{name}");
        }
    }
}

#[test]
fn what_is_in_a_release_never_gets_older_with_its_patches_and_each_can_be_upgraded_to_the_next() {
    let known = HarvesterVersions::shipped();
    for release in &known.releases {
        let rke2 = release.rke2.as_deref().unwrap();
        assert!(release.version.rke2().is_some(), "{rke2}");
        if let Some(from) = release.upgradable_from {
            assert!(from < release.version);
        }
    }
    let of = |release: &HarvesterRelease| release.version.rke2().map(|rke2| rke2.minor);
    assert!(known.releases.is_sorted_by_key(of));
    for pair in known.releases.windows(2) {
        let numbers = |text: &Option<String>| -> Option<Vec<u32>> {
            let text = text.as_deref()?.trim_start_matches('v');
            text.split('.').map(|part| part.parse().ok()).collect()
        };
        for component in [
            |one: &HarvesterRelease| one.rancher.clone(),
            |one: &HarvesterRelease| one.longhorn.clone(),
            |one: &HarvesterRelease| one.kubevirt.clone(),
            |one: &HarvesterRelease| one.kube_vip.clone(),
        ] {
            let (old, new) = (component(&pair[0]), component(&pair[1]));
            if let (Some(old), Some(new)) = (numbers(&old), numbers(&new)) {
                assert!(old <= new, "{} and {}", pair[0].version, pair[1].version);
            }
        }
    }
}

#[test]
fn a_fact_holds_for_the_releases_that_were_read_as_their_sources_say() {
    let holds = |fact: Fact, text: &str| fact.holds(version(text));
    for (fact, before, from) in [
        (Fact::BiosRefused, "v1.7.3", "v1.8.0"),
        (Fact::PreflightAddons, "v1.6.1", "v1.7.0"),
        (Fact::SkipsMultus, "v1.7.1", "v1.7.2"),
        (Fact::DriverFollowsFeature, "v1.4.3", "v1.5.0"),
        (Fact::PreflightStaleHotplug, "v1.8.1", "v1.8.2"),
    ] {
        assert_eq!(holds(fact, before), Holds::No, "{}", fact.name());
        assert_eq!(holds(fact, from), Holds::Yes, "{}", fact.name());
    }
    assert_eq!(
        holds(Fact::StorageNetworkEmptyRefused, "v1.5.0"),
        Holds::Yes
    );
    assert_eq!(holds(Fact::StorageNetworkEmptyRefused, "v1.5.1"), Holds::No);
    let paused = ["v1.7.1", "v1.7.2", "v1.7.3", "v1.8.0", "v1.8.1"]
        .map(|text| holds(Fact::WorkloadUpdatesPaused, text));
    use Holds::{No, Yes};
    assert_eq!(paused, [No, Yes, Yes, No, Yes]);
    let suspended = ["v1.7.2", "v1.7.3", "v1.8.0", "v1.8.1", "v1.8.2"]
        .map(|text| holds(Fact::ChartJobsSuspended, text));
    assert_eq!(suspended, [No, Yes, No, No, Yes]);
    for release in &HarvesterVersions::shipped().releases {
        if release.version <= HarvesterVersion::LATEST {
            for fact in Fact::ALL {
                let holds = fact.holds(release.version);
                assert!(matches!(holds, Yes | No), "{}: {holds:?}", fact.name());
            }
        }
    }
}

#[test]
fn nothing_is_certain_of_a_version_that_was_not_read_unless_its_neighbours_agree() {
    let unknown = |like: &str, there: bool| Holds::Unknown {
        like: version(like),
        there,
    };
    for (fact, asked, holds) in [
        // A newer minor, its candidates, and older ones.
        (Fact::BiosRefused, "v1.9.0", unknown("v1.8.2", true)),
        (Fact::BiosRefused, "v1.9.0-rc6", unknown("v1.8.2", true)),
        (Fact::BudgetsOneLess, "v2.0.0", unknown("v1.8.2", true)),
        (Fact::BiosRefused, "v1.3.2", unknown("v1.4.0", false)),
        (Fact::ChartJobsSuspended, "v1.9.0", unknown("v1.8.2", true)),
        // A patch after the newest: a fact that has not changed for two minors is assumed to stay.
        (Fact::StorageNetworkEmptyRefused, "v1.8.3", Holds::No),
        (Fact::NodeUpgradePause, "v1.8.3", Holds::Yes),
        (Fact::BiosRefused, "v1.8.3", unknown("v1.8.2", true)),
        (
            Fact::WorkloadUpdatesPaused,
            "v1.8.3",
            unknown("v1.8.2", true),
        ),
        // A patch between two known ones.
        (Fact::BudgetsOneLess, "v1.6.2", Holds::Yes),
        (Fact::PreflightAddons, "v1.6.2", unknown("v1.6.1", false)),
        // Candidates: certain except for facts that changed in their release.
        (
            Fact::StorageNetworkEmptyRefused,
            "v1.5.1-rc2",
            unknown("v1.5.1", false),
        ),
        (Fact::BiosRefused, "v1.5.1-rc2", Holds::No),
        (Fact::StorageNetworkEmptyRefused, "v1.5.2-rc1", Holds::No),
        (
            Fact::WorkloadUpdatesPaused,
            "v1.8.0-rc1",
            unknown("v1.8.0", false),
        ),
    ] {
        assert_eq!(fact.holds(version(asked)), holds, "{} {asked}", fact.name());
    }
}

/// Rancher's own version shows it too.
#[test]
fn the_driver_follows_its_feature_from_rancher_2_11_on() {
    for release in &HarvesterVersions::shipped().releases {
        let rancher: windrow_plan::version::Version = release.version.rancher().parse().unwrap();
        let follows = (rancher.minor.major, rancher.minor.minor) >= (2, 11);
        let holds = Fact::DriverFollowsFeature.holds(release.version);
        assert_eq!(holds.assumed(), follows, "{}", release.version);
    }
}

#[test]
fn data_with_an_unknown_fact_or_field_is_refused() {
    let head = "apiVersion: windrow.dev/v1\nkind: HarvesterVersions\n\
                read: {from: v1.4.0, to: v1.8.2, at: x}\n";
    let whole = format!("{head}releases: []\nfacts: []\n");
    assert!(parse(&whole).is_ok());
    for wrong in [
        "releases: [{version: v1.4}]\nfacts: []\n",
        "releases: [{version: v1.4.0, k3s: v1.29.9}]\nfacts: []\n",
        "releases: []\nfacts: [{name: unheard-of, says: x, source: x}]\n",
        "releases: []\nfacts: [{name: bios-refused, says: x}]\n",
    ] {
        assert!(parse(&format!("{head}{wrong}")).is_err(), "{wrong}");
    }
}

fn cluster(setting: Option<serde_json::Value>, image: &str) -> Objects {
    let mut objects = Objects::default();
    for kind in [ObjectKind::SETTING, ObjectKind::POD] {
        objects.insert(kind.group_kind(), KindListing::Objects(Vec::new()));
    }
    if let Some(mut setting) = setting {
        setting["apiVersion"] = json!("harvesterhci.io/v1beta1");
        setting["kind"] = json!("Setting");
        setting["metadata"] = json!({"name": "server-version"});
        objects.add(setting);
    }
    objects.add(json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "harvester-1", "namespace": "harvester-system", "labels": {
            "app.kubernetes.io/name": "harvester", "app.kubernetes.io/component": "apiserver"}},
        "spec": {"containers": [{"image": image}]}}));
    objects
}

#[test]
fn a_clusters_version_is_that_of_its_setting_or_else_of_its_servers_image() {
    let found = |setting, image: &str| the_clusters_version(&cluster(setting, image)).unwrap();
    let said = |value: &str| Some(json!({"value": value, "default": "dev"}));
    let image = "rancher/harvester:v1.6.0";
    assert_eq!(found(said("v1.6.1"), image), Some(version("v1.6.1")));
    assert_eq!(
        found(said("v1.7.0-rc2"), image),
        Some(version("v1.7.0-rc2"))
    );
    // A build of a branch is not a version, regardless of its image.
    assert_eq!(found(said("master-1a2b3c4d-head"), image), None);
    assert_eq!(found(said(""), image), None);
    assert_eq!(found(None, image), Some(version("v1.6.0")));
    let with_digest = "registry.example.com:5000/rancher/harvester:v1.5.2@sha256:00";
    assert_eq!(found(None, with_digest), Some(version("v1.5.2")));
    assert_eq!(found(None, "rancher/harvester:master-head"), None);

    let refused = Objects::default();
    assert!(the_clusters_version(&refused).is_err());
}
