//! The present knowledge about the directory, the cluster and the node, as a value.
//!
//! Adapters fill it, [`super::decide`] reads it. It contains no guesses: an object that was not requested is
//! `NotAsked`, and one that was refused is `Unknown` with the reason.

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

#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// When this process started: deadlines count from then at the earliest.
    pub started: Timestamp,
    /// Why this process has never read the manifests directory, if it tried: then all files and markers are unknown.
    pub directory_unread: Option<String>,
    /// Markers by the base name that they hide, in any directory.
    pub markers: HashMap<BaseName, Marker>,
    /// Markers whose state differs from the decision, by the base name that they hide.
    pub marker_troubles: BTreeMap<BaseName, MarkerTrouble>,
    /// Base names of files that are being written, or were not read yet. Their markers stay.
    pub being_written: BTreeSet<BaseName>,
    pub api: Api,
    /// Only kinds that something waits for.
    pub kinds: HashMap<GroupKind, KindSeen>,
    /// Only objects that something waits for.
    pub objects: HashMap<ObjectRef, ObjectSeen>,
    /// Since when Windrow cannot tell whether these objects exist.
    pub unknown_since: HashMap<NeedTarget, Timestamp>,
    /// RKE2's Addons by name; `None` until they were listed once.
    pub addons: Option<HashMap<AddonName, Addon>>,
    /// The Addons whose checksum has not changed since this process first listed them.
    pub addons_as_first: HashSet<AddonName>,
    pub failures: HashMap<AddonName, ApplyFailure>,
    /// `None` if the node is not probed.
    pub node: Option<NodeSeen>,
    /// Findings from other sources than the plan, by source.
    pub found: BTreeMap<String, Vec<Finding>>,
}

/// The state of kube-apiserver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Api {
    /// When it first answered since this process started. Deadlines count from then, because RKE2 applies nothing
    /// before that either.
    pub first_reachable: Option<Timestamp>,
    /// Why it does not answer; `None` if it does, or before the first request.
    pub unreachable: Option<String>,
    pub unreachable_since: Option<Timestamp>,
    /// Does it reject the credential? Waiting does not fix that.
    pub refused: bool,
}

impl Api {
    fn fall_silent(&mut self, why: String, now: Timestamp) {
        self.unreachable = Some(why);
        self.unreachable_since.get_or_insert(now);
    }

    /// `None` before the first answer. A rejected credential is also an answer.
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
    pub path: MarkerPath,
    /// The parsed content; `None` for a marker that Windrow did not make.
    pub mark: Option<Arc<Mark>>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Directory {
    /// Every existing manifest file. All others were removed.
    pub files: Vec<FileChange>,
    pub markers: Vec<Marker>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FileChange {
    pub path: ManifestPath,
    /// Its content; `None` if it has not changed since the last scan.
    pub content: Option<Arc<FileContent>>,
}

/// Why the state of a marker differs from the decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is", content = "error")]
pub enum MarkerTrouble {
    /// It could not be created: nothing hides the file.
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
    /// Is this the file that RKE2 applied last among those that share the Addon?
    pub fn is_of(&self, path: &ManifestPath) -> bool {
        let below = self.source.strip_suffix(path.as_str());
        below.is_some_and(|below| below.ends_with(BELOW))
    }
}

/// RKE2's report that it could not apply a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyFailure {
    /// The event's reason (`ApplyManifestFailed`).
    pub reason: String,
    pub message: String,
    /// When it was last observed.
    pub at: Timestamp,
}

impl ApplyFailure {
    /// RKE2's message without the known path and Addon. Of `failed to create NAMESPACE/NAME GROUP/VERSION, Kind=KIND
    /// for ADDON: REFUSAL` (wrangler `pkg/apply`) only the refusal remains, with the object if the refusal does not
    /// begin with its kind.
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

    /// The path of the file in RKE2's message, and the rest of the message.
    fn path_and_words(&self) -> Option<(&str, &str)> {
        let (_, said) = self.message.split_once(" manifest at \"")?;
        said.split_once("\" failed: ")
    }

    /// Does RKE2 name a file? It does not if it cannot parse the path.
    pub(super) fn names_a_file(&self) -> bool {
        self.path_and_words().is_some()
    }

    /// Does RKE2 name this file of the manifests directory? If the named path has no such directory, its end is
    /// compared.
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
    /// A session with kube-apiserver begins. The following answers were requested after `Interests::renewed` had this
    /// value.
    SessionBegins {
        renewed: u64,
    },
    ApiReachable,
    ApiUnreachable {
        why: String,
    },
    /// kube-apiserver cannot be asked with the present credential: the kubeconfig is invalid, or kube-apiserver rejects
    /// it (401).
    CredentialRefused {
        /// Why, with the file's name.
        why: String,
    },
    Kind(GroupKind, KindSeen),
    Object(ObjectRef, ObjectSeen),
    Addons(HashMap<AddonName, Addon>),
    /// One Addon; `None` if it was deleted.
    Addon(AddonName, Option<Addon>),
    /// A request was refused (403). A separate event reports the state that follows.
    Refused {
        what: String,
        why: String,
    },
    Node(NodeEvent),
    /// RKE2 reported that it could not apply a file. The last event counts, even if its time is earlier.
    ApplyFailed {
        addon: AddonName,
        failure: ApplyFailure,
    },
}

/// Everything to watch. Nothing else is watched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interests {
    pub kinds: BTreeSet<GroupKind>,
    pub objects: BTreeMap<ObjectRef, Detail>,
    /// `None` if probes are switched off.
    pub probes: Option<ProbeInterest>,
    /// Increases when all answers have to be requested again in a new session: after a change of cluster, or when an
    /// object is needed again after its answer was dropped.
    pub renewed: u64,
}

/// Answers that were dropped because nothing waited for them any more.
#[derive(Debug, Clone, Default)]
pub(super) struct Forgotten {
    kinds: BTreeSet<GroupKind>,
    objects: BTreeSet<ObjectRef>,
}

impl Forgotten {
    /// Does something wait for one of these again?
    pub(super) fn is_wanted(&self, interests: &Interests) -> bool {
        let mut kinds = self.kinds.iter();
        let mut objects = self.objects.iter();
        kinds.any(|kind| interests.kinds.contains(kind))
            || objects.any(|object| interests.objects.contains_key(object))
    }
}

/// The input for the probes of the node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProbeInterest {
    /// `None` if unknown.
    pub platform: Option<Platform>,
    /// Was it installed before? Checks that matter only on day 0 are then not needed.
    pub installed: bool,
    /// Did it join a cluster that another server created?
    pub joined: bool,
    /// RKE2's data directory; empty for the default.
    pub data_dir: String,
    /// Changes to the probes of the table, from the configuration.
    pub tunings: Arc<[ProbeTuning]>,
    /// Probes of the configuration.
    pub custom: Arc<[CustomProbe]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detail {
    /// Only whether it exists.
    Metadata,
    Full,
}

impl Observation {
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
                // The clock that dated the event may be ahead of this one. The event would then count for later
                // content.
                let at = failure.at.min(now);
                self.failures.insert(addon, ApplyFailure { at, ..failure });
            }
        }
    }

    /// Visits every time that this process recorded. The node moves its own times. A new field has to be added here.
    pub(super) fn visit_times(&mut self, visit: &mut dyn FnMut(&mut Timestamp)) {
        let Self {
            started,
            // These reflect the disk.
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

    /// Drops everything about the cluster, because it was replaced. The directory and the node stay.
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

    /// Drops everything that nothing waits for. It is no longer watched, so it would become outdated.
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
