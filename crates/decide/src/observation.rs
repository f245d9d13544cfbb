//! What is known of the directory, the cluster and the node right now, as a value.
//!
//! Adapters fill it, [`super::decide`] reads it. Nothing in it is a guess: what was not asked is
//! `NotAsked`, what was refused is `Unknown` with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windrow_model::findings::Finding;
use windrow_model::manifest::{
    AddonName, BaseName, FileContent, GroupKind, ManifestPath, MarkerPath, ObjectRef,
};
use windrow_plan::readiness::node::{CustomProbe, NodeEvent, NodeSeen, ProbeTuning};
use windrow_plan::readiness::{KindSeen, ObjectSeen, ObservedCluster};
use windrow_plan::rules::{NeedTarget, Platform};

use super::mark::Mark;

/// Everything that was observed.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// When this process began to look: deadlines count from then at the earliest.
    pub started: Timestamp,
    /// Why this process has never read the manifests directory, if it tried: then no file and no marker is known.
    pub directory_unread: Option<String>,
    /// Markers by the base name that they hide, in whichever directory they lie.
    pub markers: HashMap<BaseName, Marker>,
    /// Markers that are not as they were decided to be, by the base name that they hide.
    pub marker_troubles: BTreeMap<BaseName, MarkerTrouble>,
    /// Base names of files that are being written, or that were not read yet. Their markers stay.
    pub being_written: BTreeSet<BaseName>,
    /// Does kube-apiserver answer?
    pub api: Api,
    /// Kinds that something waits for.
    pub kinds: HashMap<GroupKind, KindSeen>,
    /// Objects that something waits for.
    pub objects: HashMap<ObjectRef, ObjectSeen>,
    /// Since when it is not known of these whether they are there.
    pub unknown_since: HashMap<NeedTarget, Timestamp>,
    /// RKE2's Addons by name; `None` until they were listed once.
    pub addons: Option<HashMap<AddonName, Addon>>,
    /// Those of them that have the checksum with which this process listed them first.
    pub addons_as_first: HashSet<AddonName>,
    /// The failure of each Addon that was reported last.
    pub failures: HashMap<AddonName, ApplyFailure>,
    /// The node itself; `None` where it is not probed.
    pub node: Option<NodeSeen>,
    /// What others than the plan have found, by who found it.
    pub found: BTreeMap<String, Vec<Finding>>,
}

/// kube-apiserver, as seen from here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Api {
    /// When it first answered since this process started. Deadlines count from then on: before,
    /// RKE2 applies nothing either.
    pub first_reachable: Option<Timestamp>,
    /// Why it does not answer now; `None` when it does (or was never asked).
    pub unreachable: Option<String>,
    /// Since when it does not answer.
    pub unreachable_since: Option<Timestamp>,
    /// Is that because of the credential? Waiting does not mend it.
    pub refused: bool,
}

impl Api {
    fn fall_silent(&mut self, why: String, now: Timestamp) {
        self.unreachable = Some(why);
        self.unreachable_since.get_or_insert(now);
    }

    /// Does it answer? `None` until it was asked. It answers, too, when it refuses the credential.
    pub(super) fn answers(&self) -> Option<bool> {
        match &self.unreachable {
            Some(_) => Some(self.refused),
            None => self.first_reachable.map(|_| true),
        }
    }
}

/// One `<name>.skip`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Its path.
    pub path: MarkerPath,
    /// What Windrow wrote into it; `None` for a marker that Windrow did not make.
    pub mark: Option<Arc<Mark>>,
}

/// A look at the manifests directory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Directory {
    /// Every manifest file that is there. A file that is not listed is gone.
    pub files: Vec<FileChange>,
    /// Every marker.
    pub markers: Vec<Marker>,
}

/// One manifest file, as a look at the directory found it.
#[derive(Debug, Clone, PartialEq)]
pub struct FileChange {
    /// Its path.
    pub path: ManifestPath,
    /// Its content; `None` when it has not changed since the last look.
    pub content: Option<Arc<FileContent>>,
}

/// Why a marker is not as it was decided to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is", content = "error")]
pub enum MarkerTrouble {
    /// It could not be made: nothing hides the file.
    NotMade(String),
    /// It could not be removed: the file stays hidden.
    NotRemoved(String),
}

/// One Addon of RKE2's deploy controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addon {
    /// `spec.checksum`: SHA-256 of the file that was last applied without an error.
    pub checksum: String,
    /// `spec.source`: path of the file.
    pub source: String,
}

impl Addon {
    /// Did RKE2 last apply this file of those that have this Addon?
    pub fn is_of(&self, path: &ManifestPath) -> bool {
        let below = self.source.strip_suffix(path.as_str());
        below.is_some_and(|below| below.ends_with(BELOW))
    }
}

/// What RKE2 said when it could not apply a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyFailure {
    /// The event's reason (`ApplyManifestFailed`).
    pub reason: String,
    /// The event's message.
    pub message: String,
    /// When it was last seen.
    pub at: Timestamp,
}

impl ApplyFailure {
    /// What RKE2 said, without the path, which is known, and its Addon: `failed to create NAMESPACE/NAME GROUP/VERSION, Kind=KIND for
    /// ADDON: REFUSAL` (wrangler `pkg/apply`) is the refusal, with the object where that does not begin with its kind.
    pub fn in_words(&self) -> String {
        let said = self.message.as_str();
        let said = self.path_and_words().map_or(said, |(_, said)| said);
        let refusal = || {
            let (object, rest) = said.strip_prefix("failed to ")?.split_once(", Kind=")?;
            let name = object.split(' ').nth(1)?;
            let (kind, rest) = rest.split_once(" for ")?;
            let (_, refusal) = rest.split_once(": ")?;
            Some(match refusal.starts_with(kind) {
                true => refusal.to_owned(),
                false => format!("{kind} {name}: {refusal}"),
            })
        };
        refusal().unwrap_or_else(|| said.to_owned())
    }

    /// The path of the file as RKE2 names it, and what it says of it.
    fn path_and_words(&self) -> Option<(&str, &str)> {
        let (_, said) = self.message.split_once(" manifest at \"")?;
        said.split_once("\" failed: ")
    }

    /// Does RKE2 name a file? It does not where it cannot parse one.
    pub(super) fn names_a_file(&self) -> bool {
        self.path_and_words().is_some()
    }

    /// Does RKE2 name this file of the manifests directory, or, where it names no such directory, one with a longer path that ends like it?
    pub(super) fn may_be_of(&self, file: &ManifestPath) -> bool {
        let Some((path, _)) = self.path_and_words() else {
            return false;
        };
        let directory = path.strip_suffix(file.as_str());
        directory.is_some_and(|directory| match path.contains(BELOW) {
            true => directory.ends_with(BELOW),
            false => directory.ends_with('/'),
        })
    }
}

/// Where the manifests directory is in RKE2's data directory.
const BELOW: &str = "/server/manifests/";

/// One change, as an adapter reports it.
#[derive(Debug, Clone, PartialEq)]
pub enum ClusterEvent {
    /// A session with kube-apiserver begins. What follows was asked after `Interests::renewed` had this value.
    SessionBegins {
        /// That value.
        renewed: u64,
    },
    /// kube-apiserver answers.
    ApiReachable,
    /// kube-apiserver does not answer.
    ApiUnreachable {
        /// Why.
        why: String,
    },
    /// kube-apiserver cannot be asked with the credential that there is: the kubeconfig is not a valid one, or kube-apiserver
    /// refuses it (401).
    CredentialRefused {
        /// Why, with the file's name.
        why: String,
    },
    /// What is known of a kind.
    Kind(GroupKind, KindSeen),
    /// What is known of an object.
    Object(ObjectRef, ObjectSeen),
    /// All Addons, at the start of a watch.
    Addons(HashMap<AddonName, Addon>),
    /// One Addon; `None` when it was deleted.
    Addon(AddonName, Option<Addon>),
    /// A request was refused (403). What is known because of it comes in an event of its own.
    Refused {
        /// What was asked.
        what: String,
        /// What kube-apiserver said.
        why: String,
    },
    /// Something about the node itself.
    Node(NodeEvent),
    /// RKE2 reported that it could not apply a file. The last one counts, whatever its time.
    ApplyFailed {
        /// The Addon's name.
        addon: AddonName,
        /// What it said.
        failure: ApplyFailure,
    },
}

/// What has to be watched. Nothing else is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interests {
    /// Kinds whose being served matters.
    pub kinds: BTreeSet<GroupKind>,
    /// Objects, and how much of them.
    pub objects: BTreeMap<ObjectRef, Detail>,
    /// The node itself; `None` where probes are switched off.
    pub probes: Option<ProbeInterest>,
    /// Rises when everything has to be asked again, in a new session: the cluster is another one, or something is wanted again
    /// that was forgotten meanwhile.
    pub renewed: u64,
}

/// What was known and nothing waited for any more.
#[derive(Debug, Clone, Default)]
pub(super) struct Forgotten {
    kinds: BTreeSet<GroupKind>,
    objects: BTreeSet<ObjectRef>,
}

impl Forgotten {
    /// Is some of it wanted again?
    pub(super) fn is_wanted(&self, interests: &Interests) -> bool {
        let mut kinds = self.kinds.iter();
        let mut objects = self.objects.iter();
        kinds.any(|kind| interests.kinds.contains(kind))
            || objects.any(|object| interests.objects.contains_key(object))
    }
}

/// What a node is to be probed for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProbeInterest {
    /// What the node is, as far as it is known.
    pub platform: Option<Platform>,
    /// Was it installed once? What matters on day 0 only need not be asked then.
    pub installed: bool,
    /// Did it join a cluster that another server began?
    pub joined: bool,
    /// RKE2's data directory; empty for the usual one.
    pub data_dir: String,
    /// What the configuration changes about the probes of the table.
    pub tunings: Arc<[ProbeTuning]>,
    /// Probes of the configuration.
    pub custom: Arc<[CustomProbe]>,
}

/// How much of an object is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detail {
    /// Does it exist?
    Metadata,
    /// All of it.
    Full,
}

impl Observation {
    /// Takes in a change.
    pub fn apply(&mut self, event: ClusterEvent, now: Timestamp) {
        match event {
            ClusterEvent::ApiReachable => {
                self.api.first_reachable.get_or_insert(now);
                self.api.unreachable_since = None;
                self.api.unreachable = None;
                self.api.refused = false;
            }
            ClusterEvent::ApiUnreachable { why } => {
                self.api.fall_silent(why, now);
                self.api.refused = false;
            }
            ClusterEvent::CredentialRefused { why } => {
                self.api.fall_silent(why, now);
                self.api.refused = true;
            }
            ClusterEvent::Kind(kind, seen) => {
                let is_unknown = matches!(seen, KindSeen::Unknown { .. });
                self.note_unknown(NeedTarget::Kind(kind.clone()), is_unknown, now);
                self.kinds.insert(kind, seen);
            }
            ClusterEvent::Object(object, seen) => {
                let is_unknown = matches!(seen, ObjectSeen::Unknown { .. });
                self.note_unknown(NeedTarget::Object(object.clone()), is_unknown, now);
                self.objects.insert(object, seen);
            }
            ClusterEvent::Addons(addons) => self.take_addons(addons),
            ClusterEvent::Addon(name, addon) => {
                let addons = self.addons.get_or_insert_default();
                let checksum = |addon: &Addon| addon.checksum.clone();
                if addons.get(&name).map(checksum) != addon.as_ref().map(checksum) {
                    self.addons_as_first.remove(&name);
                }
                match addon {
                    Some(addon) => addons.insert(name, addon),
                    None => addons.remove(&name),
                };
            }
            ClusterEvent::SessionBegins { .. } | ClusterEvent::Refused { .. } => {}
            ClusterEvent::Node(event) => NodeSeen::apply(&mut self.node, event, now),
            ClusterEvent::ApplyFailed { addon, failure } => {
                // The clock that dated it may be ahead of this one. It would count for content that comes later.
                let at = failure.at.min(now);
                self.failures.insert(addon, ApplyFailure { at, ..failure });
            }
        }
    }

    /// Visits every time that this process took down. The node's are moved by the node itself. A new field has to be named here.
    pub(super) fn visit_times(&mut self, visit: &mut dyn FnMut(&mut Timestamp)) {
        let Self {
            started,
            // They say what is on the disk.
            directory_unread: _,
            markers: _,
            marker_troubles: _,
            being_written: _,
            api,
            kinds: _,
            objects: _,
            unknown_since,
            addons: _,
            addons_as_first: _,
            failures,
            node: _,
            found: _,
        } = self;
        let Api {
            first_reachable,
            unreachable: _,
            unreachable_since,
            refused: _,
        } = api;
        visit(started);
        first_reachable.iter_mut().for_each(&mut *visit);
        unreachable_since.iter_mut().for_each(&mut *visit);
        unknown_since.values_mut().for_each(&mut *visit);
        for failure in failures.values_mut() {
            let ApplyFailure {
                reason: _,
                message: _,
                at,
            } = failure;
            visit(at);
        }
    }

    /// Drops what is known of the cluster: it is another one now. What is known of the directory and of the node stays.
    pub(super) fn forget_cluster(&mut self) {
        self.api.first_reachable = None;
        self.kinds.clear();
        self.objects.clear();
        self.unknown_since.clear();
        self.addons = None;
        self.addons_as_first.clear();
        self.failures.clear();
    }

    fn note_unknown(&mut self, target: NeedTarget, is_unknown: bool, now: Timestamp) {
        if is_unknown {
            self.unknown_since.entry(target).or_insert(now);
        } else {
            self.unknown_since.remove(&target);
        }
    }

    fn take_addons(&mut self, addons: HashMap<AddonName, Addon>) {
        let is_same = |name: &AddonName, before: &HashMap<AddonName, Addon>| {
            before.get(name).map(|addon| &addon.checksum)
                == addons.get(name).map(|addon| &addon.checksum)
        };
        match &self.addons {
            None => self.addons_as_first = addons.keys().cloned().collect(),
            Some(before) => self.addons_as_first.retain(|name| is_same(name, before)),
        }
        self.addons = Some(addons);
    }

    /// Drops what nothing waits for. It is no longer watched, so it would grow stale.
    pub(super) fn forget_all_but(&mut self, interests: &Interests, forgotten: &mut Forgotten) {
        let kinds = &mut forgotten.kinds;
        self.kinds.retain(|kind, _| {
            interests.kinds.contains(kind) || {
                kinds.insert(kind.clone());
                false
            }
        });
        let objects = &mut forgotten.objects;
        self.objects.retain(|object, _| {
            interests.objects.contains_key(object) || {
                objects.insert(object.clone());
                false
            }
        });
        self.unknown_since.retain(|target, _| match target {
            NeedTarget::Kind(kind) => self.kinds.contains_key(kind),
            NeedTarget::Object(object) => self.objects.contains_key(object),
        });
    }
}

impl ObservedCluster for Observation {
    fn object(&self, object: &ObjectRef) -> &ObjectSeen {
        self.objects.get(object).unwrap_or(&ObjectSeen::NotAsked)
    }

    fn kind(&self, kind: &GroupKind) -> &KindSeen {
        self.kinds.get(kind).unwrap_or(&KindSeen::NotAsked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_by_what_was_refused_and_not_by_how_rke2_got_there() {
        const HEAD: &str =
            "Applying manifest at \"/var/lib/rancher/rke2/server/manifests/web.yaml\" failed: ";
        for (said, words) in [
            (
                "failed to create default/web /v1, Kind=Service for  kube-system/web: Service \"web\" is invalid: spec.ports: no",
                "Service \"web\" is invalid: spec.ports: no",
            ),
            (
                "failed to create default/web apps/v1, Kind=Deployment for  kube-system/web: admission webhook \"guard\" denied the request: no",
                "Deployment default/web: admission webhook \"guard\" denied the request: no",
            ),
            (
                "no matches for kind \"Widget\"",
                "no matches for kind \"Widget\"",
            ),
        ] {
            let failure = |message: String| ApplyFailure {
                reason: "ApplyManifestFailed".to_owned(),
                message,
                at: Timestamp::UNIX_EPOCH,
            };
            assert_eq!(failure(format!("{HEAD}{said}")).in_words(), words);
            assert_eq!(failure(said.to_owned()).in_words(), words);
        }
    }
}
