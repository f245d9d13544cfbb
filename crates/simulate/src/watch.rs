//! Reports of Windrow's adapters about the simulated cluster: watches, reduced to differences.

use std::collections::BTreeMap;

use jiff::Timestamp;
use windrow_decide::{ClusterEvent, Detail, Interests};
use windrow_model::manifest::{AddonName, GroupKind, ObjectRef};
use windrow_plan::readiness::{KindSeen, ObjectSeen};

use super::cluster::SimulatedCluster;

/// The state that was reported already. A new watch reports everything, like the first list of a new process.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// The server whose kube-apiserver answers.
    server: usize,
    reachable: Option<bool>,
    /// The interests of the last call.
    asked: Interests,
    progress: WatchProgress,
    /// Served kinds; true for namespaced ones.
    kinds: BTreeMap<GroupKind, Option<bool>>,
    /// How often a kind had got another version or scope when discovery first listed it.
    found: BTreeMap<GroupKind, u32>,
    /// The last reported revision, and its detail.
    objects: BTreeMap<ObjectRef, (Option<u64>, Detail)>,
    listed: bool,
    failures: BTreeMap<AddonName, Timestamp>,
}

/// The position of a watch in the cluster's history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct WatchProgress {
    objects: usize,
    kinds: u64,
    addons: u64,
    failures: u64,
}

impl Watch {
    /// A watch at a server's own kube-apiserver.
    pub fn for_server(server: usize) -> Self {
        Self {
            server,
            ..Self::default()
        }
    }

    /// The changes since the last call, for the present interests.
    pub fn poll(&mut self, cluster: &SimulatedCluster, interests: &Interests) -> Vec<ClusterEvent> {
        let mut events = Vec::new();
        let renewed = interests.renewed;
        if self.asked.renewed != renewed {
            self.cut();
            self.asked.renewed = renewed;
            events.push(ClusterEvent::SessionBegins { renewed });
        }
        let up = cluster.is_up_on(self.server);
        if self.reachable != Some(up) {
            self.reachable = Some(up);
            events.push(match up {
                true => ClusterEvent::ApiReachable,
                false => ClusterEvent::ApiUnreachable {
                    why: "connection refused".to_owned(),
                },
            });
        }
        if up {
            self.report(cluster, interests, &mut events);
        }
        events
    }

    /// Reports the changes. If the interests differ from the last call, everything is compared.
    fn report(
        &mut self,
        cluster: &SimulatedCluster,
        interests: &Interests,
        events: &mut Vec<ClusterEvent>,
    ) {
        let now = WatchProgress {
            objects: cluster.changes(),
            kinds: cluster.served_at(),
            addons: cluster.addons_at(),
            failures: cluster.failures_reported(),
        };
        let before = std::mem::replace(&mut self.progress, now);
        let same = self.asked == *interests;
        if !same {
            self.asked = interests.clone();
            self.kinds.retain(|kind, _| interests.kinds.contains(kind));
            self.objects
                .retain(|id, _| interests.objects.contains_key(id));
        }
        let moved = before.kinds != now.kinds;
        if !same || moved {
            self.find_kinds(cluster, interests);
            self.report_kinds(cluster, interests, events);
        }
        let mut ids: Vec<&ObjectRef> = match same && !moved {
            true => cluster.changed_since(before.objects).collect(),
            false => interests.objects.keys().collect(),
        };
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            if let Some(detail) = interests.objects.get(id) {
                self.report_object(cluster, id, *detail, events);
            }
        }
        if !std::mem::replace(&mut self.listed, true) {
            let addons = cluster.addons.iter();
            let addons = addons.map(|(name, addon)| (name.clone(), addon.seen.clone()));
            events.push(ClusterEvent::Addons(addons.collect()));
        } else if before.addons != now.addons {
            report_addons(before.addons, cluster, events);
        }
        if before.failures != now.failures {
            self.report_failures(cluster, events);
        }
    }

    /// kube-apiserver does not answer, or rejects the credential: everything is unknown from now on.
    pub fn hears_nothing(&mut self, interests: &Interests, refused: bool) -> Vec<ClusterEvent> {
        if self.reachable == Some(false) {
            return Vec::new();
        }
        let was_reachable = self.reachable == Some(true);
        let why = "no answer within 10 s";
        let mut events = Vec::new();
        if refused {
            let why = why.to_owned();
            events.push(ClusterEvent::CredentialRefused { why });
            if was_reachable {
                events.extend(self.refused(interests, "401 Unauthorized"));
            }
        } else {
            let why = why.to_owned();
            events.push(ClusterEvent::ApiUnreachable { why });
        }
        self.cut();
        self.reachable = Some(false);
        events
    }

    /// Was everything listed, and has kube-apiserver answered since, so that changes are reported immediately?
    pub fn is_following(&self, interests: &Interests) -> bool {
        self.listed && self.reachable == Some(true) && self.asked.renewed == interests.renewed
    }

    /// The watch is interrupted: the next call lists and reports everything again.
    pub fn cut(&mut self) {
        *self = Self::for_server(self.server);
    }

    /// Every request gets an error instead. The next call reports the true state again.
    pub fn refused(&mut self, interests: &Interests, why: &str) -> Vec<ClusterEvent> {
        self.cut();
        let why = || why.to_owned();
        let kinds = interests
            .kinds
            .iter()
            .map(|kind| ClusterEvent::Kind(kind.clone(), KindSeen::Unknown { why: why() }));
        let objects = interests
            .objects
            .keys()
            .map(|id| ClusterEvent::Object(id.clone(), ObjectSeen::Unknown { why: why() }));
        kinds.chain(objects).collect()
    }

    /// The program keeps the version and the scope with which it found a kind.
    fn find_kinds(&mut self, cluster: &SimulatedCluster, interests: &Interests) {
        let of_objects = interests.objects.keys().map(ObjectRef::group_kind);
        for kind in interests.kinds.iter().cloned().chain(of_objects) {
            if cluster.serves(&kind).is_some() {
                let moves = cluster.moves_of(&kind);
                self.found.entry(kind).or_insert(moves);
            }
        }
        // If an object is watched under a version or scope that is gone, the kind is looked up again.
        for kind in interests.objects.keys().map(ObjectRef::group_kind) {
            if cluster.serves(&kind).is_some() {
                let moves = cluster.moves_of(&kind);
                self.found.insert(kind, moves);
            }
        }
    }

    fn has_moved(&self, cluster: &SimulatedCluster, kind: &GroupKind) -> bool {
        let found = self.found.get(kind);
        found.is_some_and(|found| *found != cluster.moves_of(kind))
    }

    fn report_kinds(
        &mut self,
        cluster: &SimulatedCluster,
        interests: &Interests,
        events: &mut Vec<ClusterEvent>,
    ) {
        for kind in &interests.kinds {
            let served = cluster.serves(kind);
            if self.kinds.get(kind) == Some(&served) || self.has_moved(cluster, kind) {
                continue;
            }
            self.kinds.insert(kind.clone(), served);
            let seen = match served {
                Some(namespaced) => KindSeen::Served { namespaced },
                None => KindSeen::NotServed,
            };
            events.push(ClusterEvent::Kind(kind.clone(), seen));
        }
    }

    fn report_object(
        &mut self,
        cluster: &SimulatedCluster,
        id: &ObjectRef,
        detail: Detail,
        events: &mut Vec<ClusterEvent>,
    ) {
        let stored = cluster
            .stored(id)
            .filter(|_| !self.has_moved(cluster, &id.group_kind()));
        let revision = stored.map(|stored| stored.revision);
        let known = self.objects.insert(id.clone(), (revision, detail));
        if known == Some((revision, detail)) {
            return;
        }
        let shown = cluster.shown(id, detail).filter(|_| revision.is_some());
        let seen = match shown {
            Some(object) => ObjectSeen::Present(object),
            None => ObjectSeen::Absent,
        };
        events.push(ClusterEvent::Object(id.clone(), seen));
    }

    fn report_failures(&mut self, cluster: &SimulatedCluster, events: &mut Vec<ClusterEvent>) {
        for (addon, failure) in &cluster.failures {
            if self.failures.get(addon) != Some(&failure.at) {
                self.failures.insert(addon.clone(), failure.at);
                events.push(ClusterEvent::ApplyFailed {
                    addon: addon.clone(),
                    failure: failure.clone(),
                });
            }
        }
    }
}

/// Reports the Addons that changed after a revision.
fn report_addons(since: u64, cluster: &SimulatedCluster, events: &mut Vec<ClusterEvent>) {
    let addons = cluster.addons.iter();
    for (name, addon) in addons.filter(|(_, addon)| addon.revision > since) {
        events.push(ClusterEvent::Addon(name.clone(), Some(addon.seen.clone())));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use windrow_decide::Addon;

    use super::super::Chance;
    use super::super::cluster::AddonRecord;
    use super::*;

    fn object(name: &str) -> ObjectRef {
        ObjectRef::namespaced("", "ConfigMap", "default", name)
    }

    fn asked(objects: &[(&str, Detail)]) -> Interests {
        let objects = objects.iter();
        Interests {
            objects: objects
                .map(|(name, detail)| (object(name), *detail))
                .collect(),
            ..Interests::default()
        }
    }

    fn reported(watch: &mut Watch, cluster: &SimulatedCluster, asked: &Interests) -> Vec<String> {
        let events = watch.poll(cluster, asked).into_iter();
        events
            .filter_map(|event| match event {
                ClusterEvent::Object(object, ObjectSeen::Present(json)) => {
                    let all = if json.get("data").is_some() {
                        "all of"
                    } else {
                        "only"
                    };
                    Some(format!("{all} {}", object.name))
                }
                ClusterEvent::Object(object, _) => Some(format!("no {}", object.name)),
                ClusterEvent::Addon(name, _) => Some(format!("Addon {name}")),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn an_object_is_told_when_it_is_asked_for_and_when_it_changes_each_in_the_detail_that_is_asked()
    {
        let mut cluster = SimulatedCluster::new(Timestamp::UNIX_EPOCH, Chance::new(1));
        cluster.set_up(0, true);
        let mut watch = Watch::for_server(0);
        let put =
            |cluster: &mut SimulatedCluster, name| cluster.put(object(name), json!({"data": {}}));
        put(&mut cluster, "a");
        let first = asked(&[("a", Detail::Metadata), ("c", Detail::Full)]);
        assert_eq!(reported(&mut watch, &cluster, &first), ["only a", "no c"]);
        put(&mut cluster, "b");
        assert_eq!(reported(&mut watch, &cluster, &first), [""; 0]);
        put(&mut cluster, "a");
        assert_eq!(reported(&mut watch, &cluster, &first), ["only a"]);
        let then = asked(&[("a", Detail::Full), ("b", Detail::Metadata)]);
        put(&mut cluster, "c");
        assert_eq!(
            reported(&mut watch, &cluster, &then),
            ["all of a", "only b"]
        );
        put(&mut cluster, "c");
        assert_eq!(reported(&mut watch, &cluster, &then), [""; 0]);
        assert_eq!(
            reported(&mut watch, &cluster, &first),
            ["only a", "all of c"]
        );
        watch.cut();
        assert_eq!(
            reported(&mut watch, &cluster, &first),
            ["only a", "all of c"]
        );
    }

    #[test]
    fn addons_are_listed_once_and_each_is_told_when_it_changes() {
        let mut cluster = SimulatedCluster::new(Timestamp::UNIX_EPOCH, Chance::new(1));
        cluster.set_up(0, true);
        let addon = |cluster: &mut SimulatedCluster, name: &str| {
            let revision = cluster.touch_addon();
            let seen = Addon {
                checksum: revision.to_string(),
                source: name.to_owned(),
            };
            let record = AddonRecord {
                seen,
                kinds: Arc::default(),
                revision,
                by: 0,
                appliers: std::collections::BTreeSet::new(),
            };
            cluster.addons.insert(name.into(), record);
        };
        let (mut watch, nothing) = (Watch::for_server(0), asked(&[]));
        addon(&mut cluster, "a");
        addon(&mut cluster, "b");
        let listed = watch.poll(&cluster, &nothing);
        assert!(
            matches!(&listed[..], [ClusterEvent::ApiReachable, ClusterEvent::Addons(all)] if all.len() == 2),
            "{listed:?}"
        );
        assert_eq!(reported(&mut watch, &cluster, &nothing), [""; 0]);
        addon(&mut cluster, "b");
        assert_eq!(reported(&mut watch, &cluster, &nothing), ["Addon b"]);
        addon(&mut cluster, "a");
        addon(&mut cluster, "c");
        assert_eq!(
            reported(&mut watch, &cluster, &nothing),
            ["Addon a", "Addon c"]
        );
        assert_eq!(reported(&mut watch, &cluster, &nothing), [""; 0]);
    }
}
