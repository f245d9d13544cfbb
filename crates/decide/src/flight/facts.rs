//! Converts an observation to a map of facts, each under a name, and back.
//!
//! The name is for readers and distinguishes facts. The value has all the data to restore the fact.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windrow_model::findings::Finding;
use windrow_model::manifest::{AddonName, BaseName, GroupKind, MarkerPath, ObjectRef, sha256};
use windrow_plan::readiness::node::{NodeSeen, ProbeId, Track};
use windrow_plan::readiness::{KindSeen, ObjectSeen};
use windrow_plan::rules::NeedTarget;

use super::{missing, redact};
use crate::{Addon, Api, ApplyFailure, Mark, Marker, MarkerTrouble, Observation};

/// The subject of a fact. Serialised as the value of a named fact.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "about"
)]
enum Fact {
    Api {
        started: Timestamp,
        first_reachable: Option<Timestamp>,
        unreachable: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unreachable_since: Option<Timestamp>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refused: bool,
    },
    DirectoryUnread {
        why: String,
    },
    Marker {
        path: MarkerPath,
        mark: Option<Mark>,
    },
    MarkerTrouble {
        name: BaseName,
        trouble: MarkerTrouble,
    },
    BeingWritten {
        names: BTreeSet<BaseName>,
    },
    Kind {
        kind: GroupKind,
        seen: RecordedAnswer,
    },
    Object {
        object: ObjectRef,
        seen: RecordedAnswer,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Value>,
    },
    UnknownSince {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<GroupKind>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        object: Option<ObjectRef>,
        since: Timestamp,
    },
    AddonsListed,
    Addon {
        name: AddonName,
        checksum: String,
        source: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        as_first: bool,
    },
    Failure {
        addon: AddonName,
        reason: String,
        message: String,
        at: Timestamp,
    },
    /// Without its probes: each of them is a separate fact.
    Node {
        node: Box<NodeSeen>,
    },
    Probe {
        track: Box<Track>,
    },
    Found {
        by: String,
        findings: Vec<Finding>,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RecordedAnswer {
    Yes,
    /// Served, and its objects have no namespace.
    ClusterScoped,
    No,
    Done,
    Unknown(String),
}

impl RecordedAnswer {
    fn from_kind(seen: &KindSeen) -> Option<Self> {
        Some(match seen {
            KindSeen::NotAsked => return None,
            KindSeen::Unknown { why } => Self::Unknown(why.clone()),
            KindSeen::NotServed => Self::No,
            KindSeen::Served { namespaced: true } => Self::Yes,
            KindSeen::Served { namespaced: false } => Self::ClusterScoped,
        })
    }

    fn into_kind(self) -> KindSeen {
        match self {
            Self::Yes | Self::Done => KindSeen::SERVED,
            Self::ClusterScoped => KindSeen::Served { namespaced: false },
            Self::No => KindSeen::NotServed,
            Self::Unknown(why) => KindSeen::Unknown { why },
        }
    }

    fn from_object(seen: &ObjectSeen) -> Option<(Self, Option<Value>)> {
        Some(match seen {
            ObjectSeen::NotAsked => return None,
            ObjectSeen::Unknown { why } => (Self::Unknown(why.clone()), None),
            ObjectSeen::Absent => (Self::No, None),
            ObjectSeen::Done => (Self::Done, None),
            ObjectSeen::Present(value) => (Self::Yes, Some(redact::object(value))),
        })
    }

    fn into_object(self, value: Option<Value>) -> ObjectSeen {
        match self {
            Self::Yes | Self::ClusterScoped => {
                ObjectSeen::Present(Arc::new(value.unwrap_or_default()))
            }
            Self::No => ObjectSeen::Absent,
            Self::Done => ObjectSeen::Done,
            Self::Unknown(why) => ObjectSeen::Unknown { why },
        }
    }
}

/// The facts of an observation that the lines of a flight have recorded so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedFacts {
    /// Only a digest of each fact: the digest shows whether it changed, and the value is in the line.
    digests: BTreeMap<String, FactDigest>,
}

/// SHA-256 of a fact as JSON.
type FactDigest = [u8; 32];

/// The changes that a line has to record.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct FactChanges {
    /// Facts that are new or different.
    pub(super) changed: BTreeMap<String, Value>,
    /// Names of facts that no longer exist.
    pub(super) gone: Vec<String>,
}

impl RecordedFacts {
    /// Takes an observation without its secrets, and returns the changes since the last one.
    pub(super) fn take(&mut self, observation: &Observation) -> FactChanges {
        let mut comparison = FactComparison {
            before: &self.digests,
            now: BTreeMap::new(),
            changed: BTreeMap::new(),
        };
        comparison.put_observation(observation);
        let FactComparison { now, changed, .. } = comparison;
        let gone = missing(&self.digests, &now);
        self.digests = now;
        FactChanges { changed, gone }
    }
}

struct FactComparison<'r> {
    before: &'r BTreeMap<String, FactDigest>,
    now: BTreeMap<String, FactDigest>,
    changed: BTreeMap<String, Value>,
}

impl FactComparison<'_> {
    fn put(&mut self, name: impl Into<String>, fact: &Fact) {
        let name = name.into();
        // Maps with string keys, strings and numbers: always JSON.
        let digest = sha256(&serde_json::to_vec(fact).unwrap_or_default());
        if self.before.get(&name) != Some(&digest) {
            let value = serde_json::to_value(fact).unwrap_or_default();
            self.changed.insert(name.clone(), value);
        }
        self.now.insert(name, digest);
    }

    fn put_observation(&mut self, observation: &Observation) {
        self.put_markers(observation);
        self.put_cluster(observation);
        self.put_addons(observation);
        if let Some(node) = &observation.node {
            self.put_node(node);
        }
        for (by, findings) in &observation.found {
            let fact = Fact::Found {
                by: by.clone(),
                findings: findings.clone(),
            };
            self.put(format!("found by {by}"), &fact);
        }
    }

    fn put_markers(&mut self, observation: &Observation) {
        if let Some(why) = observation.directory_unread.clone() {
            self.put("manifests directory", &Fact::DirectoryUnread { why });
        }
        for (name, marker) in &observation.markers {
            let fact = Fact::Marker {
                path: marker.path.clone(),
                mark: marker.mark.as_deref().cloned(),
            };
            self.put(format!("marker {name}"), &fact);
        }
        for (name, trouble) in &observation.marker_troubles {
            let fact = Fact::MarkerTrouble {
                name: name.clone(),
                trouble: trouble.clone(),
            };
            self.put(format!("trouble with marker {name}"), &fact);
        }
        if !observation.being_written.is_empty() {
            let names = observation.being_written.clone();
            let fact = Fact::BeingWritten { names };
            self.put("files that are being written", &fact);
        }
    }

    fn put_cluster(&mut self, observation: &Observation) {
        let api = &observation.api;
        let fact = Fact::Api {
            started: observation.started,
            first_reachable: api.first_reachable,
            unreachable: api.unreachable.clone(),
            unreachable_since: api.unreachable_since,
            refused: api.refused,
        };
        self.put("api", &fact);
        for (kind, seen) in &observation.kinds {
            let Some(seen) = RecordedAnswer::from_kind(seen) else {
                continue;
            };
            let kind = kind.clone();
            self.put(format!("kind {kind}"), &Fact::Kind { kind, seen });
        }
        for (object, seen) in &observation.objects {
            let Some((seen, value)) = RecordedAnswer::from_object(seen) else {
                continue;
            };
            let name = format!("object {object} {}", object.group);
            let fact = Fact::Object {
                object: object.clone(),
                seen,
                value,
            };
            self.put(name.trim_end(), &fact);
        }
        for (target, since) in &observation.unknown_since {
            let (name, kind, object) = match target.clone() {
                NeedTarget::Kind(kind) => (format!("unknown kind {kind}"), Some(kind), None),
                NeedTarget::Object(object) => {
                    let name = format!("unknown object {object} {}", object.group);
                    (name, None, Some(object))
                }
            };
            let fact = Fact::UnknownSince {
                kind,
                object,
                since: *since,
            };
            self.put(name.trim_end(), &fact);
        }
    }

    fn put_addons(&mut self, observation: &Observation) {
        if let Some(addons) = &observation.addons {
            self.put("addons", &Fact::AddonsListed);
            for (name, addon) in addons {
                let fact = Fact::Addon {
                    name: name.clone(),
                    checksum: addon.checksum.clone(),
                    source: addon.source.clone(),
                    as_first: observation.addons_as_first.contains(name),
                };
                self.put(format!("addon {name}"), &fact);
            }
        }
        for (addon, failure) in &observation.failures {
            let fact = Fact::Failure {
                addon: addon.clone(),
                reason: failure.reason.clone(),
                message: failure.message.clone(),
                at: failure.at,
            };
            self.put(format!("failure {addon}"), &fact);
        }
    }

    fn put_node(&mut self, node: &NodeSeen) {
        let bare = NodeSeen {
            probes: BTreeMap::new(),
            ..node.clone()
        };
        let node_fact = Fact::Node {
            node: Box::new(bare),
        };
        self.put("node", &node_fact);
        for (id, track) in &node.probes {
            let track = Box::new(track.clone());
            self.put(format!("probe {id}"), &Fact::Probe { track });
        }
    }
}

/// Restores the observation from its facts.
///
/// # Errors
///
/// The name of the first fact that this program does not know, and why.
pub fn restore(facts: &BTreeMap<String, Value>) -> Result<Observation, String> {
    let mut observation = Observation::default();
    let mut probes = BTreeMap::new();
    for (name, value) in facts {
        let fact = Fact::deserialize(value).map_err(|error| format!("{name}: {error}"))?;
        restore_fact(fact, &mut observation, &mut probes);
    }
    if let Some(node) = &mut observation.node {
        node.probes = probes;
    }
    Ok(observation)
}

fn restore_fact(fact: Fact, observation: &mut Observation, probes: &mut BTreeMap<ProbeId, Track>) {
    match fact {
        Fact::Api {
            started,
            first_reachable,
            unreachable,
            unreachable_since,
            refused,
        } => {
            observation.started = started;
            observation.api = Api {
                first_reachable,
                unreachable,
                unreachable_since,
                refused,
            };
        }
        Fact::DirectoryUnread { why } => observation.directory_unread = Some(why),
        Fact::Marker { path, mark } => {
            let mark = mark.map(Arc::new);
            let marker = Marker { path, mark };
            observation.markers.insert(marker.path.hides(), marker);
        }
        Fact::MarkerTrouble { name, trouble } => {
            observation.marker_troubles.insert(name, trouble);
        }
        Fact::BeingWritten { names } => observation.being_written = names,
        Fact::Kind { kind, seen } => {
            observation.kinds.insert(kind, seen.into_kind());
        }
        Fact::Object {
            object,
            seen,
            value,
        } => {
            observation.objects.insert(object, seen.into_object(value));
        }
        Fact::UnknownSince {
            kind,
            object,
            since,
        } => {
            let target = kind.map(NeedTarget::Kind);
            if let Some(target) = target.or(object.map(NeedTarget::Object)) {
                observation.unknown_since.insert(target, since);
            }
        }
        Fact::AddonsListed => {
            observation.addons.get_or_insert_default();
        }
        Fact::Addon {
            name,
            checksum,
            source,
            as_first,
        } => {
            if as_first {
                observation.addons_as_first.insert(name.clone());
            }
            let addons = observation.addons.get_or_insert_default();
            addons.insert(name, Addon { checksum, source });
        }
        Fact::Failure {
            addon,
            reason,
            message,
            at,
        } => {
            let failure = ApplyFailure {
                reason,
                message,
                at,
            };
            observation.failures.insert(addon, failure);
        }
        Fact::Node { node } => observation.node = Some(*node),
        Fact::Probe { track } => {
            probes.insert(track.spec.id.clone(), *track);
        }
        Fact::Found { by, findings } => {
            observation.found.insert(by, findings);
        }
    }
}

#[cfg(test)]
mod tests {
    use windrow_model::manifest::GroupKind;

    use super::*;
    use crate::ClusterEvent;

    #[test]
    fn a_fact_is_said_once_again_when_it_changes_and_its_name_when_it_is_gone() {
        let kind = GroupKind::new("example.com", "Widget");
        let mut observation = Observation::default();
        observation.kinds.insert(kind.clone(), KindSeen::NotServed);
        let mut recorded = RecordedFacts::default();
        let first = recorded.take(&observation);
        assert_eq!(first.changed.len(), 2, "{first:?}");
        assert_eq!(recorded.take(&observation), FactChanges::default());

        observation.kinds.insert(kind.clone(), KindSeen::SERVED);
        let changed = recorded.take(&observation);
        let names: Vec<&str> = changed.changed.keys().map(String::as_str).collect();
        assert_eq!(
            (names, &changed.gone[..]),
            (vec!["kind Widget.example.com"], &[][..])
        );
        let whole = first.changed.into_iter().chain(changed.changed).collect();
        assert_eq!(restore(&whole).unwrap().kinds, observation.kinds);

        observation.kinds.remove(&kind);
        let gone = recorded.take(&observation);
        assert_eq!(gone.gone, ["kind Widget.example.com"]);
        assert!(gone.changed.is_empty());
    }

    #[test]
    fn an_addon_that_is_as_it_was_listed_first_is_restored_as_such() {
        let mut observation = Observation::default();
        let addon = |checksum: &str| Addon {
            checksum: checksum.to_owned(),
            source: String::new(),
        };
        let names = ["a", "b"].map(AddonName::from);
        let listed = names.clone().map(|name| (name, addon("1")));
        let now = Timestamp::UNIX_EPOCH;
        observation.apply(ClusterEvent::Addons(listed.into_iter().collect()), now);
        let again = ClusterEvent::Addon(names[1].clone(), Some(addon("2")));
        observation.apply(again, now);
        let facts = RecordedFacts::default().take(&observation).changed;
        let restored = restore(&facts).unwrap();
        assert_eq!(restored.addons_as_first, observation.addons_as_first);
        assert_eq!(restored.addons_as_first.len(), 1);
    }
}
