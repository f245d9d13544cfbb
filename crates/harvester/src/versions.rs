//! The known releases of Harvester: the content of each, and which statements about the platform hold for it. The data, with its
//! sources, is in `data/versions.yaml`.
//!
//! ```text
//!   read:  v1.4.0 ──────────── v1.8.2          a fact holds, or does not
//!   between two that agree                     as for them
//!   v1.8.3, if nothing changed in two minors   as for v1.8.2
//!   any other, and candidates of a change      Unknown, with the most similar release
//! ```

use std::sync::LazyLock;

use serde::Deserialize;
use windrow_model::manifest::yaml;

use crate::objects::{ObjectKind, Objects, Unlisted, items, text, texts};
use crate::version::{HarvesterVersion, ReleaseStage};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HarvesterVersions {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    /// The releases whose sources were read.
    pub read: ReadVersions,
    /// The oldest first.
    pub releases: Vec<HarvesterRelease>,
    /// Statements that hold for some of them.
    pub facts: Vec<KnownFact>,
}

/// The releases whose sources were read for every fact.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadVersions {
    pub from: HarvesterVersion,
    pub to: HarvesterVersion,
    /// The date of the reading.
    pub at: String,
}

/// A release and its content. An unread part is `None`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HarvesterRelease {
    pub version: HarvesterVersion,
    pub rke2: Option<String>,
    pub rancher: Option<String>,
    pub fleet: Option<String>,
    pub rancher_webhook: Option<String>,
    pub helm_controller: Option<String>,
    pub kubevirt: Option<String>,
    /// Containerized Data Importer.
    pub cdi: Option<String>,
    pub longhorn: Option<String>,
    pub kube_vip: Option<String>,
    pub whereabouts: Option<String>,
    /// The oldest release that can be upgraded to this one.
    pub upgradable_from: Option<HarvesterVersion>,
}

/// A statement about the platform, and for which releases it holds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownFact {
    pub name: Fact,
    /// The first release for which it holds; absent if that is the oldest that was read.
    pub since: Option<HarvesterVersion>,
    /// The first release for which it does not hold any more.
    pub before: Option<HarvesterVersion>,
    /// Releases between these for which it does not hold.
    #[serde(default)]
    pub except: Vec<HarvesterVersion>,
    pub says: String,
    /// The project, file and version that show it.
    pub source: String,
}

macro_rules! facts {
    ($($name:ident $key:literal;)+) => {
        /// A statement that holds for some versions only. Its text is in `data/versions.yaml`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[allow(missing_docs, reason = "the data says what each means, with its source")]
        pub enum Fact {
            $(#[serde(rename = $key)] $name,)+
        }

        impl Fact {
            pub const ALL: &'static [Fact] = &[$(Fact::$name,)+];

            pub fn name(self) -> &'static str {
                match self {
                    $(Fact::$name => $key,)+
                }
            }
        }
    };
}

facts! {
    StorageNetworkEmptyRefused "storage-network-empty-refused";
    DriverFollowsFeature "driver-follows-feature";
    RancherWebhookPanics "rancher-webhook-panics";
    RancherdSetsNodeName "rancherd-sets-node-name";
    ChartTimeout600 "chart-timeout-600";
    ManagedChartKubeovn "managed-chart-kubeovn";
    ManagedSystemUpgradeController "managed-system-upgrade-controller";
    NetworkManager "network-manager";
    NetworkAskedOnce "network-asked-once";
    ShutdownService "shutdown-service";
    ImagesInHarvester "images-in-harvester";
    BiosWarned "bios-warned";
    BiosRefused "bios-refused";
    MissingDiskAborts "missing-disk-aborts";
    WitnessDisk180 "witness-disk-180";
    SkipchecksCoversDisks "skipchecks-covers-disks";
    StorageNetworkChangeRefused "storage-network-change-refused";
    StorageNetworkCapital "storage-network-capital";
    StorageNetworkAllocation "storage-network-allocation";
    StorageNetworkOverlapRefused "storage-network-overlap-refused";
    AddonDeletionRefused "addon-deletion-refused";
    LoggingWaitsForUpgradeLog "logging-waits-for-upgrade-log";
    DeschedulerNeedsNodes "descheduler-needs-nodes";
    DevicesKeepAddons "devices-keep-addons";
    ManagedChartDeletionRefused "managed-chart-deletion-refused";
    RepositoryDeletionRefused "repository-deletion-refused";
    DriverInUseRefused "driver-in-use-refused";
    PreflightAddons "preflight-addons";
    PreflightCertificates "preflight-certificates";
    PreflightCertificatesByUpgrade "preflight-certificates-by-upgrade";
    PreflightMachinesMatch "preflight-machines-match";
    PreflightRestoredMachines "preflight-restored-machines";
    PreflightFreeSpace "preflight-free-space";
    PreflightDetachedReplicas "preflight-detached-replicas";
    PreflightStaleHotplug "preflight-stale-hotplug";
    PreflightCountsMedia "preflight-counts-media";
    PreflightLeavesOutWitnesses "preflight-leaves-out-witnesses";
    NodeUpgradePause "node-upgrade-pause";
    UpgradeCleanup "upgrade-cleanup";
    RepositoryIsDeployment "repository-is-deployment";
    RepositoryClassStatic "repository-class-static";
    ImageClassByUid "image-class-by-uid";
    UpgradeHeartbeat "upgrade-heartbeat";
    CosStateSmall "cos-state-small";
    UpgradeImage4300 "upgrade-image-4300";
    SkipsMultus "skips-multus";
    WorkloadUpdatesPaused "workload-updates-paused";
    DeschedulerPaused "descheduler-paused";
    KubevirtPinsItsPods "kubevirt-pins-its-pods";
    KubevirtInfraInValues "kubevirt-infra-in-values";
    BudgetsOneLess "budgets-one-less";
    DrainPolicyByInstaller "drain-policy-by-installer";
    ChartJobsSuspended "chart-jobs-suspended";
    AddonEndsByJob "addon-ends-by-job";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    Yes,
    No,
    /// The version was not read, and the fact may differ there.
    Unknown {
        /// The release that it is assumed to be like.
        like: HarvesterVersion,
        /// Does the fact hold for that release?
        there: bool,
    },
}

impl Holds {
    /// The assumption of a simulation. A verdict that depends on an unknown fact is Unknown.
    pub fn assumed(self) -> bool {
        match self {
            Holds::Yes => true,
            Holds::No => false,
            Holds::Unknown { there, .. } => there,
        }
    }
}

impl Fact {
    /// Its entry in the data.
    pub fn known(self) -> &'static KnownFact {
        let known = &HarvesterVersions::shipped().facts;
        let mut known = known.iter();
        known
            .find(|fact| fact.name == self)
            .expect("the data has every fact, which a test holds")
    }

    pub fn holds(self, version: HarvesterVersion) -> Holds {
        HarvesterVersions::shipped().holds(self.known(), version)
    }
}

impl KnownFact {
    /// The releases in which the fact changes.
    pub fn turns(&self) -> impl Iterator<Item = HarvesterVersion> + '_ {
        self.since
            .into_iter()
            .chain(self.before)
            .chain(self.except.iter().copied())
    }

    /// Does it hold for a known release?
    fn includes(&self, release: HarvesterVersion) -> bool {
        self.since.is_none_or(|since| release >= since)
            && self.before.is_none_or(|before| release < before)
            && !self.except.contains(&release)
    }
}

impl HarvesterVersions {
    /// The data that Windrow includes.
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<HarvesterVersions> = LazyLock::new(|| {
            parse(include_str!("../data/versions.yaml"))
                .expect("the data can be read, which a test holds")
        });
        &SHIPPED
    }

    pub fn release(&self, version: HarvesterVersion) -> Option<&HarvesterRelease> {
        let mut releases = self.releases.iter();
        releases.find(|release| release.version == version)
    }

    /// Were this version's sources read for every fact?
    pub fn was_read(&self, version: HarvesterVersion) -> bool {
        version <= self.read.to && self.release(version).is_some()
    }

    /// The release that was read and that a version is most like: the one that it is to become, or else the newest before it.
    pub fn like(&self, version: HarvesterVersion) -> HarvesterVersion {
        let release = version.release();
        let mut read = self.read_releases();
        let found = read.rfind(|read| *read <= release);
        found.unwrap_or(self.read.from)
    }

    /// The releases whose sources were read for every fact, the oldest first.
    pub fn read_releases(&self) -> impl DoubleEndedIterator<Item = HarvesterVersion> + '_ {
        let releases = self.releases.iter().map(|release| release.version);
        releases.filter(|release| *release <= self.read.to)
    }

    /// The value of the newest release before a version, of the same minor.
    pub(crate) fn before<'v>(
        &'v self,
        version: HarvesterVersion,
        component: impl Fn(&'v HarvesterRelease) -> Option<&'v str>,
    ) -> Option<&'v str> {
        let minor = |one: HarvesterVersion| (one.major, one.minor);
        let older = self.releases.iter().rev().filter(|release| {
            release.version < version && minor(release.version) == minor(version)
        });
        older.filter_map(component).next()
    }

    /// The value of a release, or else of the newest one before it, or else of the oldest.
    pub(crate) fn nearest<'v>(
        &'v self,
        version: HarvesterVersion,
        component: impl Fn(&'v HarvesterRelease) -> Option<&'v str>,
    ) -> &'v str {
        let mut not_newer = self.releases.iter().rev();
        let not_newer = not_newer
            .by_ref()
            .filter(|release| release.version <= version);
        let found = not_newer.filter_map(&component).next();
        let oldest = || self.releases.iter().filter_map(&component).next();
        found.or_else(oldest).unwrap_or_default()
    }

    /// Is a version among the known minor releases?
    pub fn covers(&self, version: HarvesterVersion) -> bool {
        let minor = |one: HarvesterVersion| (one.major, one.minor);
        version.release() >= self.read.from && minor(version) <= minor(self.read.to)
    }

    fn holds(&self, fact: &KnownFact, version: HarvesterVersion) -> Holds {
        let unknown = |like: HarvesterVersion| Holds::Unknown {
            like,
            there: fact.includes(like),
        };
        let known = |holds: bool| if holds { Holds::Yes } else { Holds::No };
        let release = version.release();
        if release < self.read.from {
            return unknown(self.read.from);
        }
        if !self.covers(release) {
            return unknown(self.read.to);
        }
        // Windrow cannot tell which candidate introduced a change.
        if version.stage != ReleaseStage::Release && fact.turns().any(|turn| turn == release) {
            return unknown(release);
        }
        if self.was_read(release) {
            return known(fact.includes(release));
        }
        let before = self.like(release);
        let after = self.read_releases().find(|read| *read > release);
        let there = fact.includes(before);
        match after {
            // A change can reach an older minor in a patch: the answer is certain if both neighbours agree.
            Some(after) if fact.includes(after) == there => known(there),
            None if self.is_steady(fact) => known(there),
            _ => unknown(before),
        }
    }

    /// Is a fact the same for all releases of the newest two minors?
    fn is_steady(&self, fact: &KnownFact) -> bool {
        let newest = self.read.to;
        let is_recent =
            |one: &HarvesterVersion| one.major == newest.major && one.minor + 1 >= newest.minor;
        let mut recent = self.read_releases().filter(is_recent);
        recent.all(|release| fact.includes(release) == fact.includes(newest))
    }
}

fn parse(text: &str) -> Result<HarvesterVersions, String> {
    let document = yaml::parse_configuration(text)
        .map_err(|problems| format!("{problems:?}"))?
        .ok_or("it is empty")?;
    serde_json::from_value(document.to_json()).map_err(|error| error.to_string())
}

/// The version of a cluster's Harvester, from its Setting `server-version`, or else from the image of its own API server. `None`
/// if neither is a version, as for a build of a branch. During an upgrade it is the older one until Harvester's chart is
/// upgraded.
///
/// # Errors
///
/// Why the version is unknown.
pub fn the_clusters_version(objects: &Objects) -> Result<Option<HarvesterVersion>, Unlisted> {
    if let Some(setting) = objects.get(ObjectKind::SETTING, "", "server-version")? {
        let said = match text(setting, "/value") {
            "" => text(setting, "/default"),
            value => value,
        };
        return Ok(said.parse().ok());
    }
    let pods = objects.all(ObjectKind::POD)?.iter();
    Ok(pods
        .filter(|pod| is_api_server(pod))
        .flat_map(|pod| items(pod, "/spec/containers"))
        .find_map(|container| image_version(text(container, "/image"))))
}

/// Is it one of Harvester's own API servers?
pub(crate) fn is_api_server(pod: &serde_json::Value) -> bool {
    let labels = texts(pod, "/metadata/labels");
    let is = |key: &str, value: &str| labels.get(key).map(String::as_str) == Some(value);
    text(pod, "/metadata/namespace") == "harvester-system"
        && is("app.kubernetes.io/name", "harvester")
        && is("app.kubernetes.io/component", "apiserver")
}

/// The version in the tag of an image.
pub(crate) fn image_version(image: &str) -> Option<HarvesterVersion> {
    let (image, _digest) = image.split_once('@').unwrap_or((image, ""));
    let (_, tag) = image.rsplit_once(":v")?;
    tag.parse().ok()
}

#[cfg(test)]
mod tests;
