//! Lists and watches one kind, and reports its objects.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use windrow_decide::flight::{Appeared, ObjectMetadata, provenance};
use windrow_harvester::objects::ObjectKind;
use windrow_model::manifest::ObjectRef;

use super::definitions::NewDefinitions;
use super::requests::{Change, Item, Resource, Watch};
use super::{Sighting, Source};
use crate::apiserver::RequestFailure;
use crate::backoff::Backoff;

pub(super) struct WatchedKind {
    resource: Resource,
    meaning: Meaning,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Itself.
    Object,
    Definition,
    Release,
}

const fn all(kind: ObjectKind) -> WatchedKind {
    WatchedKind {
        resource: Resource {
            kind,
            query: "",
            from_memory: false,
        },
        meaning: Meaning::Object,
    }
}

/// Objects that a file can wait for without naming them: the namespaces of its objects, and the classes and policies
/// that they are judged by.
pub(super) const WATCHED: &[WatchedKind] = &[
    WatchedKind {
        meaning: Meaning::Definition,
        ..all(ObjectKind::DEFINITION)
    },
    all(ObjectKind::NAMESPACE),
    all(ObjectKind::STORAGE_CLASS),
    all(ObjectKind::INGRESS_CLASS),
    all(ObjectKind::PRIORITY_CLASS),
    all(ObjectKind::RUNTIME_CLASS),
    all(ObjectKind::VALIDATING_WEBHOOKS),
    all(ObjectKind::MUTATING_WEBHOOKS),
    all(ObjectKind::LIMIT_RANGE),
    all(ObjectKind::RESOURCE_QUOTA),
    WatchedKind {
        meaning: Meaning::Release,
        resource: Resource {
            kind: ObjectKind::SECRET,
            query: "&labelSelector=owner%3Dhelm&fieldSelector=type%3Dhelm.sh%2Frelease.v1",
            from_memory: true,
        },
    },
];

/// Objects of one kind that are remembered. A cluster has fewer.
const MOST: usize = 50_000;

pub(super) struct FollowedKind {
    watched: &'static WatchedKind,
    /// A hash of the reported state for each uid's hash.
    known: HashMap<u64, u64>,
    numbers: RandomState,
    /// Whether a refusal by kube-apiserver was reported.
    told: bool,
}

impl FollowedKind {
    pub(super) fn new(watched: &'static WatchedKind) -> Self {
        Self {
            watched,
            known: HashMap::new(),
            numbers: RandomState::new(),
            told: false,
        }
    }

    /// Lists and watches, until the receiver of the sightings is gone.
    pub(super) async fn follow(&mut self, source: &Source, definitions: &NewDefinitions) {
        let mut pauses = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        let mut listed = true;
        loop {
            let began = Instant::now();
            match self.round(source, definitions, &mut listed).await {
                Ok(()) => return,
                Err(failure) => self.log_failure(&failure),
            }
            pauses.reset_if_held(began.elapsed());
            pauses.wait().await;
        }
    }

    /// A list, and one watch after the other until one fails. `Ok` when the receiver of the sightings is gone.
    async fn round(
        &mut self,
        source: &Source,
        definitions: &NewDefinitions,
        listed: &mut bool,
    ) -> Result<(), RequestFailure> {
        let Some(mut version) = self.list(source, definitions, *listed).await? else {
            return Ok(());
        };
        *listed = false;
        loop {
            let connection = source.connection().await.map_err(RequestFailure::Other)?;
            let opened = Instant::now();
            let mut watch = Watch::open(&connection, self.watched.resource, &version).await?;
            while let Some(change) = watch.next(&mut version).await? {
                let seen = match change {
                    Change::There(object) => self.sighting(&object, definitions, false),
                    Change::Gone(object) => {
                        self.known.remove(&self.number(&object.uid));
                        definitions.gone(&object.name);
                        None
                    }
                };
                if !source.send(seen.into_iter().collect()).await {
                    return Ok(());
                }
            }
            // After a server has ended a watch at once, the next request waits.
            if opened.elapsed() < Duration::from_secs(5) {
                return Err(RequestFailure::Other("watches end at once".to_owned()));
            }
        }
    }

    /// Reports what is there. Returns the version of the list; `None` when the receiver of the sightings is gone.
    async fn list(
        &mut self,
        source: &Source,
        definitions: &NewDefinitions,
        listed: bool,
    ) -> Result<Option<String>, RequestFailure> {
        let connection = source.connection().await.map_err(RequestFailure::Other)?;
        let mut pages = self.watched.resource.pages();
        let mut version = String::new();
        loop {
            connection.wait().await;
            let Some(page) = pages.next::<Item>(connection.client()).await? else {
                return Ok(Some(version));
            };
            let seen = page.items.iter();
            let seen = seen.filter_map(|item| self.sighting(&item.metadata, definitions, listed));
            let seen = seen.collect();
            if !source.send(seen).await {
                return Ok(None);
            }
            version = page.version;
        }
    }

    fn number(&self, text: &str) -> u64 {
        self.numbers.hash_one(text)
    }

    /// The report about an object, if anything is new about it.
    fn sighting(
        &mut self,
        object: &ObjectMetadata,
        definitions: &NewDefinitions,
        listed: bool,
    ) -> Option<Sighting> {
        if !object.is_plausible() {
            return None;
        }
        let status = match self.watched.meaning {
            Meaning::Release => object.labels.get("status")?.as_str(),
            Meaning::Object | Meaning::Definition => "",
        };
        let (uid, status_now) = (self.number(&object.uid), self.number(status));
        if self.known.get(&uid) == Some(&status_now) {
            // Its status may say now that the kind is served.
            if self.watched.meaning == Meaning::Definition {
                definitions.changed(&object.name);
            }
            return None;
        }
        if self.known.len() >= MOST {
            return None;
        }
        self.known.insert(uid, status_now);
        let created = object.creation_timestamp;
        match self.watched.meaning {
            Meaning::Object => Some(Sighting::Appearance {
                what: Appeared::Object(self.reference(object)),
                by: provenance(object),
                created,
                listed,
            }),
            Meaning::Definition => {
                definitions.add(object, listed);
                None
            }
            // An earlier revision adds nothing to the one after it.
            Meaning::Release if status == "superseded" => None,
            Meaning::Release => Some(Sighting::Release {
                release: object.labels.get("name")?.clone(),
                namespace: object.namespace.clone(),
                status: status.to_owned(),
                began: created,
                modified: object.labels.get("modifiedAt").and_then(|text| {
                    let seconds = text.parse().ok()?;
                    Timestamp::from_second(seconds).ok()
                }),
                listed,
            }),
        }
    }

    fn reference(&self, object: &ObjectMetadata) -> ObjectRef {
        let mut reference = ObjectRef::cluster(
            self.watched.resource.kind.group,
            self.watched.resource.kind.kind,
            object.name.as_str(),
        );
        reference.namespace = match object.namespace.as_str() {
            "" => None,
            namespace => Some(namespace.into()),
        };
        reference
    }

    /// Reports a refusal once. That there is no answer, or that the kind is not served yet, is normal while RKE2 starts.
    fn log_failure(&mut self, failure: &RequestFailure) {
        let kind = self.watched.resource.kind.kind;
        let is_refused = !failure.is_unanswered() && !failure.is_not_found();
        if failure.is_gone() {
            // It is listed again.
        } else if is_refused && !self.told {
            self.told = true;
            tracing::debug!("who brings each {kind} is not recorded: {failure}");
        } else {
            tracing::trace!("the list or watch of every {kind} ended: {failure}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::tests::source;
    use super::*;
    use crate::testing::replies::{ServerReply, TestServer};

    #[tokio::test]
    async fn a_server_that_ends_every_watch_at_once_is_asked_again_after_a_pause() {
        let watches = Arc::new(AtomicUsize::new(0));
        let counted = watches.clone();
        let server = TestServer::http(move |target| {
            if !target.contains("watch=true") {
                return ServerReply::ok(r#"{"metadata": {"resourceVersion": "9"}, "items": []}"#);
            }
            match counted.fetch_add(1, Ordering::Relaxed) {
                0 => ServerReply::ok(""),
                _ => ServerReply::Http(500, "{}".to_owned()),
            }
        })
        .await;
        let place = tempfile::tempdir().unwrap();
        let (source, _seen) = source(&place, &server.url);
        let mut kind = FollowedKind::new(&WATCHED[1]);
        let definitions = NewDefinitions::default();
        let ended = kind.round(&source, &definitions, &mut true).await;
        let said = ended.unwrap_err().to_string();
        assert!(said.contains("watches end at once"), "{said}");
        assert_eq!(watches.load(Ordering::Relaxed), 1);
    }

    fn object(uid: &str, status: &str) -> ObjectMetadata {
        let labels = [("name", "rke2-canal"), ("status", status)];
        ObjectMetadata {
            name: format!("name-of-{uid}"),
            uid: uid.to_owned(),
            labels: labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..ObjectMetadata::default()
        }
    }

    fn is_reported(kind: &mut FollowedKind, uid: &str, status: &str) -> bool {
        let definitions = NewDefinitions::default();
        let seen = kind.sighting(&object(uid, status), &definitions, false);
        seen.is_some()
    }

    #[test]
    fn each_object_is_reported_once_and_a_release_again_with_each_status() {
        let of = |meaning| WATCHED.iter().find(|kind| kind.meaning == meaning).unwrap();
        let mut objects = FollowedKind::new(of(Meaning::Object));
        let mut releases = FollowedKind::new(of(Meaning::Release));
        for (uid, status, object, release) in [
            ("1", "deployed", true, true),
            ("2", "deployed", true, true),
            ("1", "deployed", false, false),
            ("1", "failed", false, true),
            ("2", "superseded", false, false),
        ] {
            let found = [&mut objects, &mut releases].map(|kind| is_reported(kind, uid, status));
            assert_eq!(found, [object, release], "{uid} {status}");
        }
    }
}
