//! An observation as a map of facts, each under a name of its own, and back.
//!
//! The name is for people and for telling facts apart; what is needed to restore a fact stands in
//! its value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windrow_model::manifest::{AddonName, BaseName, GroupKind, MarkerPath, ObjectRef};
use windrow_plan::Finding;
use windrow_plan::readiness::node::{NodeSeen, ProbeId, Track};
use windrow_plan::readiness::{KindSeen, ObjectSeen};

use super::redact;
use crate::{Addon, Api, ApplyFailure, Mark, Marker, MarkerTrouble, Observation};

/// What a fact is about. Serialised as the value of a named fact.
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
    AddonsListed,
    Addon {
        name: AddonName,
        checksum: String,
        source: String,
    },
    Failure {
        addon: AddonName,
        reason: String,
        message: String,
        at: Timestamp,
    },
    /// Without its probes: each is a fact of its own.
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

/// How far something is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RecordedAnswer {
    Yes,
    No,
    Done,
    Unknown(String),
}

/// Every fact of an observation, without secrets.
pub(super) fn observation_facts(observation: &Observation) -> BTreeMap<String, Value> {
    let mut facts = Facts(BTreeMap::new());
    let api = &observation.api;
    facts.put(
        "api".to_owned(),
        &Fact::Api {
            started: observation.started,
            first_reachable: api.first_reachable,
            unreachable: api.unreachable.clone(),
        },
    );
    for (name, marker) in &observation.markers {
        facts.put(
            format!("marker {name}"),
            &Fact::Marker {
                path: marker.path.clone(),
                mark: marker.mark.as_deref().cloned(),
            },
        );
    }
    for (name, trouble) in &observation.marker_troubles {
        facts.put(
            format!("trouble with marker {name}"),
            &Fact::MarkerTrouble {
                name: name.clone(),
                trouble: trouble.clone(),
            },
        );
    }
    if !observation.being_written.is_empty() {
        let names = observation.being_written.clone();
        let fact = Fact::BeingWritten { names };
        facts.put("files that are being written".to_owned(), &fact);
    }
    for (kind, seen) in &observation.kinds {
        let seen = match seen {
            KindSeen::NotAsked => continue,
            KindSeen::Unknown { why } => RecordedAnswer::Unknown(why.clone()),
            KindSeen::NotServed => RecordedAnswer::No,
            KindSeen::Served => RecordedAnswer::Yes,
        };
        let kind = kind.clone();
        facts.put(format!("kind {kind}"), &Fact::Kind { kind, seen });
    }
    for (object, seen) in &observation.objects {
        let (seen, value) = match seen {
            ObjectSeen::NotAsked => continue,
            ObjectSeen::Unknown { why } => (RecordedAnswer::Unknown(why.clone()), None),
            ObjectSeen::Absent => (RecordedAnswer::No, None),
            ObjectSeen::Done => (RecordedAnswer::Done, None),
            ObjectSeen::Present(value) => (RecordedAnswer::Yes, Some(redact::object(value))),
        };
        let object = object.clone();
        let name = format!("object {object} {}", object.group);
        facts.put(
            name.trim_end().to_owned(),
            &Fact::Object {
                object,
                seen,
                value,
            },
        );
    }
    if let Some(addons) = &observation.addons {
        facts.put("addons".to_owned(), &Fact::AddonsListed);
        for (name, addon) in addons {
            facts.put(
                format!("addon {name}"),
                &Fact::Addon {
                    name: name.clone(),
                    checksum: addon.checksum.clone(),
                    source: addon.source.clone(),
                },
            );
        }
    }
    for (addon, failure) in &observation.failures {
        facts.put(
            format!("failure {addon}"),
            &Fact::Failure {
                addon: addon.clone(),
                reason: failure.reason.clone(),
                message: failure.message.clone(),
                at: failure.at,
            },
        );
    }
    if let Some(node) = &observation.node {
        facts.node(node);
    }
    for (by, findings) in &observation.found {
        facts.put(
            format!("found by {by}"),
            &Fact::Found {
                by: by.clone(),
                findings: findings.clone(),
            },
        );
    }
    facts.0
}

struct Facts(BTreeMap<String, Value>);

impl Facts {
    fn put(&mut self, name: String, fact: &Fact) {
        // Maps with string keys, strings and numbers: always JSON.
        self.0
            .insert(name, serde_json::to_value(fact).unwrap_or_default());
    }

    fn node(&mut self, node: &NodeSeen) {
        self.put(
            "node".to_owned(),
            &Fact::Node {
                node: Box::new(NodeSeen {
                    probes: BTreeMap::new(),
                    ..node.clone()
                }),
            },
        );
        for (id, track) in &node.probes {
            self.put(
                format!("probe {id}"),
                &Fact::Probe {
                    track: Box::new(track.clone()),
                },
            );
        }
    }
}

/// The observation that has these facts.
///
/// # Errors
///
/// When a fact is not one that this program knows: its name and why.
pub(super) fn restore(facts: &BTreeMap<String, Value>) -> Result<Observation, String> {
    let mut observation = Observation::default();
    let mut probes: BTreeMap<ProbeId, Track> = BTreeMap::new();
    for (name, value) in facts {
        let fact = Fact::deserialize(value).map_err(|error| format!("{name}: {error}"))?;
        match fact {
            Fact::Api {
                started,
                first_reachable,
                unreachable,
            } => {
                observation.started = started;
                observation.api = Api {
                    first_reachable,
                    unreachable,
                };
            }
            Fact::Marker { path, mark } => {
                observation.markers.insert(
                    path.hides(),
                    Marker {
                        path,
                        mark: mark.map(Arc::new),
                    },
                );
            }
            Fact::MarkerTrouble { name, trouble } => {
                observation.marker_troubles.insert(name, trouble);
            }
            Fact::BeingWritten { names } => observation.being_written = names,
            Fact::Kind { kind, seen } => {
                let seen = match seen {
                    RecordedAnswer::Yes | RecordedAnswer::Done => KindSeen::Served,
                    RecordedAnswer::No => KindSeen::NotServed,
                    RecordedAnswer::Unknown(why) => KindSeen::Unknown { why },
                };
                observation.kinds.insert(kind, seen);
            }
            Fact::Object {
                object,
                seen,
                value,
            } => {
                let seen = match seen {
                    RecordedAnswer::Yes => ObjectSeen::Present(Arc::new(value.unwrap_or_default())),
                    RecordedAnswer::No => ObjectSeen::Absent,
                    RecordedAnswer::Done => ObjectSeen::Done,
                    RecordedAnswer::Unknown(why) => ObjectSeen::Unknown { why },
                };
                observation.objects.insert(object, seen);
            }
            Fact::AddonsListed => {
                observation.addons.get_or_insert_default();
            }
            Fact::Addon {
                name,
                checksum,
                source,
            } => {
                let addon = Addon { checksum, source };
                observation
                    .addons
                    .get_or_insert_default()
                    .insert(name, addon);
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
    if let Some(node) = &mut observation.node {
        node.probes = probes;
    }
    Ok(observation)
}
