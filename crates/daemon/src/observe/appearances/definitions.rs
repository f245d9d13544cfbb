//! Definitions whose kinds are not reported yet. A definition's metadata has neither kind nor scope: discovery of its group says both
//! once the kind is served, and that is when the kind appeared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;
use windrow_decide::flight::{Appeared, ObjectMetadata, Provenance, provenance};
use windrow_model::manifest::GroupKind;

use super::{Sighting, Source};
use crate::backoff::Backoff;
use crate::locked::lock;
use crate::observe::cluster::group_resources;

/// An established definition takes a while to reach the discovery documents; for this long further ones are collected.
const SETTLE: Duration = Duration::from_millis(200);
/// Definitions that are not served yet. No cluster has as many.
const MOST: usize = 5000;

#[derive(Debug, Clone)]
struct Definition {
    created: Option<Timestamp>,
    by: Provenance,
    listed: bool,
}

/// The definitions, by name: `PLURAL.GROUP`.
#[derive(Default)]
pub(super) struct NewDefinitions {
    waiting: Mutex<BTreeMap<String, Definition>>,
    changed: Notify,
}

impl NewDefinitions {
    pub(super) fn add(&self, object: &ObjectMetadata, listed: bool) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() < MOST {
            let definition = Definition {
                created: object.creation_timestamp,
                by: provenance(object),
                listed,
            };
            waiting.insert(object.name.clone(), definition);
            self.changed.notify_one();
        }
    }

    pub(super) fn changed(&self, name: &str) {
        if lock(&self.waiting).contains_key(name) {
            self.changed.notify_one();
        }
    }

    pub(super) fn gone(&self, name: &str) {
        lock(&self.waiting).remove(name);
    }

    fn groups(&self) -> BTreeSet<String> {
        let waiting = lock(&self.waiting);
        let groups = waiting.keys().filter_map(|name| name.split_once('.'));
        groups.map(|(_, group)| group.to_owned()).collect()
    }

    /// Asks for the groups of the waiting definitions: at once, whenever one of them changes, and after growing pauses.
    /// Ends when the receiver of the sightings is gone.
    pub(super) async fn resolve(&self, source: &Source) {
        let mut pauses = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        loop {
            let groups = self.groups();
            for group in &groups {
                if !self.ask(source, group).await {
                    return;
                }
            }
            let wait = async {
                match groups.is_empty() {
                    true => std::future::pending().await,
                    false => pauses.wait().await,
                }
            };
            let changed = tokio::select! {
                () = self.changed.notified() => true,
                () = wait => false,
            };
            if changed {
                tokio::time::sleep(SETTLE).await;
                pauses.reset();
            }
        }
    }

    /// Asks for one group, and reports those of its kinds that are served. False when the receiver is gone.
    async fn ask(&self, source: &Source, group: &str) -> bool {
        let served = match source.connection().await {
            Ok(connection) => group_resources(&connection, group).await,
            Err(why) => Err(why),
        };
        let served = match served {
            Ok(served) => served,
            Err(why) => {
                tracing::trace!("the kinds of {group} are unknown: {why}");
                return true;
            }
        };
        let mut seen = Vec::new();
        for resource in served {
            let name = format!("{}.{group}", resource.plural);
            if let Some(definition) = lock(&self.waiting).remove(&name) {
                seen.push(Sighting::Appearance {
                    what: Appeared::Kind {
                        kind: GroupKind::new(group, resource.kind),
                        namespaced: resource.namespaced,
                    },
                    by: definition.by,
                    created: definition.created,
                    listed: definition.listed,
                });
            }
        }
        source.send(seen).await
    }
}
