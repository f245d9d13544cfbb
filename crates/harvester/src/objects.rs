//! The observed state of a cluster, as lists of objects: from the API, or from a saved report. This module does no I/O.
//!
//! A kind that could not be listed differs from a kind without objects: a caller that reads its list gets the reason instead, and
//! has to answer Unknown.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::checks::NoFacts;
use windrow_model::manifest::{GroupKind, group_of};
use windrow_model::object::pods::container_statuses;

mod absent;
mod kinds;
mod metadata;
mod scope;
#[cfg(test)]
mod tests;

pub use self::kinds::ObjectKind;
pub use self::metadata::KeptMetadata;
pub use self::scope::KindScope;
pub use windrow_model::object::Condition;

#[derive(Debug, Clone, PartialEq)]
pub enum KindListing {
    /// Its objects, all of them.
    Objects(Vec<Value>),
    /// It could not be listed, or was not requested.
    Unknown(String),
}

/// Why a kind that could be requested has no list.
const NOT_ASKED: &str = "it was not asked for";
/// Why a kind has no list among saved ones.
const NOT_IN_INPUT: &str = "it is not in the input";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlisted {
    pub kind: GroupKind,
    pub why: String,
    /// It was not requested yet, and can be.
    pub wanted: bool,
}

impl Unlisted {
    /// The input has no list of this kind.
    pub fn is_not_in_input(&self) -> bool {
        self.why == NOT_IN_INPUT
    }
}

impl std::fmt::Display for Unlisted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} could not be listed: {}", self.kind, self.why)
    }
}

impl From<Unlisted> for NoFacts {
    fn from(why: Unlisted) -> Self {
        Self::Unknown(why.to_string())
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Objects {
    /// For a kind of the table, the objects that count come first.
    kinds: BTreeMap<GroupKind, KindListing>,
    /// Can more kinds be requested?
    open: bool,
}

impl Objects {
    /// Without any list. A read of a kind that was not requested returns [`Unlisted::wanted`].
    pub fn to_be_asked() -> Self {
        Self {
            kinds: BTreeMap::new(),
            open: true,
        }
    }

    /// Nothing can be requested: every read returns this reason.
    pub fn closed(why: &str) -> Self {
        let unknown = |kind: &ObjectKind| (kind.group_kind(), KindListing::Unknown(why.to_owned()));
        Self {
            kinds: ObjectKind::ALL.iter().map(unknown).collect(),
            open: false,
        }
    }

    /// Requests kinds together, before any of them is read.
    ///
    /// # Errors
    ///
    /// The first that is still to be requested. A kind that cannot be listed is not an error here.
    pub fn want(&self, kinds: &[ObjectKind]) -> Result<(), Unlisted> {
        let missing = kinds.iter().filter_map(|kind| self.all(*kind).err());
        match missing.into_iter().find(|unlisted| unlisted.wanted) {
            Some(unlisted) => Err(unlisted),
            None => Ok(()),
        }
    }

    /// Adds a kind's list, in place of an earlier one.
    pub fn insert(&mut self, kind: GroupKind, mut listed: KindListing) {
        if let (Some(known), KindListing::Objects(objects)) = (ObjectKind::of(&kind), &mut listed) {
            objects.sort_by_cached_key(|object| !known.counts(object));
        }
        self.kinds.insert(kind, listed);
    }

    /// Adds one object; for a Secret, only the parts to keep, if any.
    pub fn add(&mut self, mut object: Value) {
        let group = group_of(text(&object, "/apiVersion"));
        let mut kind = GroupKind::new(group, text(&object, "/kind"));
        if let "Secret" | "PartialObjectMetadata" = kind.kind.as_str() {
            let Some((read, kept)) =
                ObjectKind::of_secret(&object).and_then(|read| Some((read, read.kept_metadata()?)))
            else {
                return;
            };
            kept.reduce(&mut object);
            kind = read.group_kind();
        }
        let known = ObjectKind::of(&kind);
        match self.kinds.get_mut(&kind) {
            Some(KindListing::Objects(objects)) => match known {
                Some(known) if known.counts(&object) => {
                    objects.insert(known.counted(objects).len(), object);
                }
                _ => objects.push(object),
            },
            _ => {
                self.kinds.insert(kind, KindListing::Objects(vec![object]));
            }
        }
    }

    /// Keeps the newest of the objects of a kind with the same name. Saved files can contain an object twice: at different times, or in
    /// two versions of its API.
    pub fn keep_newest_of_each(&mut self) {
        for (kind, listed) in &mut self.kinds {
            let KindListing::Objects(objects) = listed else {
                continue;
            };
            let known = ObjectKind::of(kind);
            let version = known.map(ObjectKind::api_version);
            // A larger revision is newer. Of one revision, the version of the table.
            let age = |object: &Value| {
                let revision: Option<u64> = text(object, "/metadata/resourceVersion").parse().ok();
                let is_known = version.as_deref() == Some(text(object, "/apiVersion"));
                (revision, is_known)
            };
            let mut newest: BTreeMap<String, usize> = BTreeMap::new();
            for (at, object) in objects.iter().enumerate() {
                if text(object, "/metadata/name").is_empty() {
                    continue;
                }
                let kept = newest.entry(named(object)).or_insert(at);
                if age(object) >= age(&objects[*kept]) {
                    *kept = at;
                }
            }
            let mut at = 0..;
            objects.retain(|object| {
                let kept = newest.get(&named(object));
                at.next() == kept.copied() || kept.is_none()
            });
        }
    }

    /// The kinds that users may have in any namespace become unknown, for a verdict that needs all of their objects.
    pub fn forget_users_kinds(&mut self, why: &str) {
        for kind in ObjectKind::ALL {
            if matches!(kind.scope, KindScope::Any { .. }) {
                self.insert(kind.group_kind(), KindListing::Unknown(why.to_owned()));
            }
        }
    }

    /// The objects of a kind. A kind that is not served has none.
    ///
    /// # Errors
    ///
    /// Why there is no list.
    pub fn list(&self, kind: &GroupKind) -> Result<&[Value], Unlisted> {
        match self.kinds.get(kind) {
            Some(KindListing::Objects(objects)) => Ok(objects),
            Some(KindListing::Unknown(why)) => Err(Unlisted {
                kind: kind.clone(),
                why: why.clone(),
                wanted: false,
            }),
            None => Err(Unlisted {
                kind: kind.clone(),
                why: if self.open { NOT_ASKED } else { NOT_IN_INPUT }.to_owned(),
                wanted: self.open,
            }),
        }
    }

    /// The objects of a kind of the table that count ([`KindScope`]).
    ///
    /// # Errors
    ///
    /// Why there is no list.
    pub fn all(&self, kind: ObjectKind) -> Result<&[Value], Unlisted> {
        Ok(kind.counted(self.list(&kind.group_kind())?))
    }

    /// One object; `None` when it does not exist.
    ///
    /// # Errors
    ///
    /// Why its kind could not be listed.
    pub fn get(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<&Value>, Unlisted> {
        Ok(self.all(kind)?.iter().find(|object| {
            text(object, "/metadata/name") == name
                && text(object, "/metadata/namespace") == namespace
        }))
    }

    /// The pods that do not run yet: from the list of all pods if there is one, else from a separate list.
    ///
    /// # Errors
    ///
    /// Why there is no list.
    pub fn pending_pods(&self) -> Result<Vec<&Value>, Unlisted> {
        let listed = match self.all(ObjectKind::POD) {
            Err(unlisted) if unlisted.wanted => self.all(ObjectKind::PENDING_POD),
            all => all,
        };
        let pending = |pod: &&Value| text(pod, "/status/phase") == "Pending";
        Ok(listed?.iter().filter(pending).collect())
    }

    /// The warnings about pods: from a separate list, or from a saved list of all Events.
    ///
    /// # Errors
    ///
    /// Why there is no list.
    pub fn pod_warnings(&self) -> Result<Vec<&Value>, Unlisted> {
        self.warnings(ObjectKind::POD_WARNING, "Pod")
    }

    /// As [`Objects::pod_warnings`], about volume claims.
    ///
    /// # Errors
    ///
    /// Why there is no list.
    pub fn claim_warnings(&self) -> Result<Vec<&Value>, Unlisted> {
        self.warnings(ObjectKind::CLAIM_WARNING, "PersistentVolumeClaim")
    }

    /// As [`Objects::pod_warnings`], about nodes.
    ///
    /// # Errors
    ///
    /// Why there is no list.
    pub fn node_warnings(&self) -> Result<Vec<&Value>, Unlisted> {
        self.warnings(ObjectKind::NODE_WARNING, "Node")
    }

    fn warnings(&self, kind: ObjectKind, about: &str) -> Result<Vec<&Value>, Unlisted> {
        let listed = match self.all(kind) {
            Err(unlisted) if !unlisted.wanted => self.list(&ObjectKind::EVENT.group_kind()),
            all => all,
        };
        let is_one = |event: &&Value| {
            text(event, "/type") == "Warning" && text(event, "/involvedObject/kind") == about
        };
        Ok(listed?.iter().filter(is_one).collect())
    }

    /// When saved lists were written, at the earliest: the newest time in the status of their objects, in a Lease or in an Event.
    /// `None` without any.
    pub fn newest_time(&self) -> Option<Timestamp> {
        let all = self.kinds.values().flat_map(|listed| match listed {
            KindListing::Objects(objects) => &objects[..],
            KindListing::Unknown(_) => &[],
        });
        all.filter_map(newest_time_of).max()
    }

    pub fn unlisted(&self) -> impl Iterator<Item = Unlisted> + '_ {
        self.kinds.iter().filter_map(|(kind, listed)| match listed {
            KindListing::Unknown(why) => Some(Unlisted {
                kind: kind.clone(),
                why: why.clone(),
                wanted: false,
            }),
            KindListing::Objects(_) => None,
        })
    }

    /// The kinds with objects that no check reads: saved lists can contain any kind.
    pub fn unread(&self) -> impl Iterator<Item = (&GroupKind, &[Value])> {
        self.kinds.iter().filter_map(|(kind, listed)| match listed {
            KindListing::Objects(objects) if !objects.is_empty() && !ObjectKind::is_named(kind) => {
                Some((kind, &objects[..]))
            }
            _ => None,
        })
    }

    /// The listed kinds, with their number of objects.
    pub fn counts(&self) -> impl Iterator<Item = (&GroupKind, usize)> {
        self.kinds.iter().filter_map(|(kind, listed)| match listed {
            KindListing::Objects(objects) => Some((kind, objects.len())),
            KindListing::Unknown(_) => None,
        })
    }
}

/// The newest time at which something had happened to this object. Times of the future, such as the end of a pod's grace, are not
/// among them.
fn newest_time_of(object: &Value) -> Option<Timestamp> {
    const FIELDS: [&str; 6] = [
        "/metadata/creationTimestamp",
        "/status/startTime",
        "/spec/renewTime",
        "/lastTimestamp",
        "/eventTime",
        "/series/lastObservedTime",
    ];
    const OF_CONDITIONS: [&str; 3] = ["lastHeartbeatTime", "lastTransitionTime", "lastUpdateTime"];
    let parse = |field: &str| text(object, field).parse().ok();
    let conditions = Condition::all(object).flat_map(|condition| {
        let times = OF_CONDITIONS.iter();
        times.filter_map(move |field| condition.time(field))
    });
    let ends = container_statuses(object)
        .filter_map(|one| text(one, "/lastState/terminated/finishedAt").parse().ok());
    let own = FIELDS.iter().filter_map(|field| parse(field));
    own.chain(conditions).chain(ends).max()
}

/// A string in an object; empty when it is absent or has another type.
pub fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A list in an object; empty when it is absent or has another type.
pub fn items<'v>(object: &'v Value, pointer: &str) -> &'v [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// A map of strings in an object; other values are left out.
pub fn texts(object: &Value, pointer: &str) -> BTreeMap<String, String> {
    let map = object.pointer(pointer).and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// `namespace/name`, or the name of an object without a namespace.
pub fn named(object: &Value) -> String {
    let name = text(object, "/metadata/name");
    match text(object, "/metadata/namespace") {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

pub fn is_true(object: &Value, name: &str) -> bool {
    Condition::of(object, name).is_some_and(|condition| condition.is_true())
}

/// Why containers of a pod wait, with the image that they wait for.
pub fn waiting(pod: &Value) -> impl Iterator<Item = String> + '_ {
    container_statuses(pod)
        .filter(|container| !text(container, "/state/waiting/reason").is_empty())
        .map(|container| {
            let reason = text(container, "/state/waiting/reason");
            format!("{reason} ({})", text(container, "/image"))
        })
}

/// The newest of these Events that is about this pod.
/// The newest warning of each object, by namespace and name.
pub fn newest_warnings<'o>(warnings: &[&'o Value]) -> BTreeMap<(&'o str, &'o str), &'o Value> {
    let mut newest: BTreeMap<(&str, &str), &Value> = BTreeMap::new();
    for event in warnings {
        let object = (
            text(event, "/involvedObject/namespace"),
            text(event, "/involvedObject/name"),
        );
        let known = newest.entry(object).or_insert(event);
        if last_seen(event) >= last_seen(known) {
            *known = event;
        }
    }
    newest
}

/// When an Event was seen last.
fn last_seen(event: &Value) -> Option<Timestamp> {
    let fields = ["/lastTimestamp", "/series/lastObservedTime", "/eventTime"];
    let times = fields
        .iter()
        .filter_map(|field| text(event, field).parse().ok());
    times.max()
}

pub fn newest_warning<'o>(pod: &Value, warnings: &[&'o Value]) -> Option<&'o Value> {
    let is_its = |event: &&&Value| {
        text(event, "/involvedObject/name") == text(pod, "/metadata/name")
            && text(event, "/involvedObject/namespace") == text(pod, "/metadata/namespace")
    };
    let last = |event: &&&Value| last_seen(event);
    warnings.iter().filter(is_its).max_by_key(last).copied()
}

/// How often the containers of a pod were restarted. Under `restartPolicy: OnFailure`, which helm-controller gives its Jobs, a
/// failed attempt is counted here and nowhere else.
pub fn restarts(pod: &Value) -> u64 {
    container_statuses(pod)
        .filter_map(|container| container.pointer("/restartCount")?.as_u64())
        .sum()
}

/// How the containers of a pod last ended: exit code and reason. Their output may contain secrets and is left out.
pub fn last_ends(pod: &Value) -> impl Iterator<Item = String> + '_ {
    items(pod, "/status/containerStatuses")
        .iter()
        .filter_map(|container| container.pointer("/lastState/terminated"))
        .filter_map(|ended| {
            let code = ended.pointer("/exitCode").and_then(Value::as_i64)?;
            Some(match text(ended, "/reason") {
                "" => format!("exit code {code}"),
                reason => format!("exit code {code} ({reason})"),
            })
        })
}
