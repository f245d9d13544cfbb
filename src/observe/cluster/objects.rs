//! Watches objects: one watch for each, or one for many of a kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::api::{Api, ApiResource, DynamicObject};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;
use windrow_decide::{ClusterEvent, Detail};
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_plan::readiness::ObjectSeen;

use super::discovery::{KindState, Kinds, SELDOM, SOON};
use super::session::ApiSession;
use crate::apiserver::{Followed, WatchChange, name_of};
use crate::backoff::Backoff;

/// Most objects that have a watch of their own. Each watch is a request of kube-apiserver's and a connection.
pub(super) const MOST_WATCHES: usize = 128;

/// Objects of one kind that share a watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WatchedObjects {
    kind: GroupKind,
    detail: Detail,
    objects: BTreeSet<ObjectRef>,
}

/// Which objects share a watch: none up to `most` objects, then those of a kind and namespace, and then all of a kind. So the number of
/// watches is at most `most`, or the number of kinds.
pub(super) fn share_watches(
    objects: &BTreeMap<ObjectRef, Detail>,
    most: usize,
) -> BTreeSet<WatchedObjects> {
    let single = group_by(objects, |object| Some(object.clone()));
    if single.len() <= most {
        return single;
    }
    let in_namespaces = group_by(objects, |object| object.namespace.clone());
    if in_namespaces.len() <= most {
        return in_namespaces;
    }
    group_by(objects, |_| ())
}

/// One watch for all objects of a kind with the same `part`.
fn group_by<K: Ord>(
    objects: &BTreeMap<ObjectRef, Detail>,
    part: impl Fn(&ObjectRef) -> K,
) -> BTreeSet<WatchedObjects> {
    let mut watches: BTreeMap<(GroupKind, K), WatchedObjects> = BTreeMap::new();
    for (object, detail) in objects {
        let kind = object.group_kind();
        let key = (kind.clone(), part(object));
        let watched = watches.entry(key).or_insert_with(|| WatchedObjects {
            kind,
            detail: *detail,
            objects: BTreeSet::new(),
        });
        watched.detail = watched.detail.max(*detail);
        watched.objects.insert(object.clone());
    }
    watches.into_values().collect()
}

impl WatchedObjects {
    /// What to list and watch, given how the kind is served.
    fn followed(&self, session: &ApiSession, resource: &ApiResource, namespaced: bool) -> Followed {
        let client = session.client();
        let mut namespaces: BTreeSet<&str> = self.objects.iter().map(namespace_of).collect();
        let namespace = namespaces
            .pop_first()
            .filter(|_| namespaced && namespaces.is_empty());
        let api = match namespace {
            Some(namespace) => Api::<DynamicObject>::namespaced_with(client, namespace, resource),
            None => Api::<DynamicObject>::all_with(client, resource),
        };
        let mut objects = self.objects.iter();
        let only = objects.next().filter(|_| objects.next().is_none());
        Followed {
            api,
            detail: self.detail,
            fields: only.map(|object| format!("metadata.name={}", object.name)),
        }
    }

    /// The wanted object that this is. A selector may not be obeyed, and a shared watch also has others.
    fn find(&self, value: &Value, namespaced: bool) -> Option<&ObjectRef> {
        let namespace = value["metadata"]["namespace"].as_str();
        self.objects.iter().find(|object| {
            let is_there =
                !namespaced || namespace.is_none_or(|there| there == namespace_of(object));
            is_there && name_of(value) == object.name
        })
    }

    /// The same event about each object.
    fn each(&self, seen: &ObjectSeen) -> Vec<ClusterEvent> {
        let objects = self.objects.iter();
        objects
            .map(|object| ClusterEvent::Object(object.clone(), seen.clone()))
            .collect()
    }
}

fn namespace_of(object: &ObjectRef) -> &str {
    object.namespace.as_deref().unwrap_or("default")
}

/// Watches objects, from the moment their kind is served. Meanwhile the kind may move to another version or scope.
pub(super) async fn watch_objects(
    session: Arc<ApiSession>,
    kinds: Arc<Kinds>,
    watched: WatchedObjects,
) {
    let kind = &watched.kind;
    let mut pauses = Backoff::new(SOON, SELDOM);
    while let Some((resource, namespaced)) = until_served(&session, &kinds, &watched).await {
        let began = Instant::now();
        if !until_gone(&session, &watched, (&resource, namespaced)).await {
            return;
        }
        pauses.reset_if_held(began.elapsed());
        // Whether an object exists is not known: it may be there in another version or scope.
        let api_version = &resource.api_version;
        let why = format!("{kind} is not served in {api_version} any more");
        let seen = ObjectSeen::Unknown { why: why.clone() };
        if !session.send(watched.each(&seen)).await {
            return;
        }
        kinds.send_if_modified(|known| {
            let served = known.get_mut(kind).filter(|state| {
                matches!(state, KindState::Served { resource: known, namespaced: scope }
                    if *known == resource && *scope == namespaced)
            });
            served
                .map(|state| *state = KindState::Unknown(why))
                .is_some()
        });
        session.kind_gone.notify_one();
        pauses.wait().await;
    }
}

/// Waits until the kind is served: as which resource, and whether in namespaces. `None` when nobody listens any more.
async fn until_served(
    session: &ApiSession,
    kinds: &Kinds,
    watched: &WatchedObjects,
) -> Option<(ApiResource, bool)> {
    let mut known = kinds.subscribe();
    let mut reported = None;
    loop {
        let seen = match known.borrow_and_update().get(&watched.kind) {
            Some(KindState::Served {
                resource,
                namespaced,
            }) => return Some((resource.clone(), *namespaced)),
            // A kind that the API does not serve has no objects.
            Some(KindState::NotServed) => Some(ObjectSeen::Absent),
            Some(KindState::Unknown(why)) => Some(ObjectSeen::Unknown { why: why.clone() }),
            None => None,
        };
        if let Some(seen) = seen
            && reported.as_ref() != Some(&seen)
        {
            let events = watched.each(&seen);
            reported = Some(seen);
            if !session.send(events).await {
                return None;
            }
        }
        known.changed().await.ok()?;
    }
}

/// Watches objects until their resource is not found any more; false when nobody listens any more.
async fn until_gone(
    session: &ApiSession,
    watched: &WatchedObjects,
    (resource, namespaced): (&ApiResource, bool),
) -> bool {
    let followed = watched.followed(session, resource, namespaced);
    let is_gone = Notify::new();
    let present = |value: Value| ObjectSeen::Present(Arc::new(typed(value, resource)));
    // A list over all namespaces also finds the objects of a kind that has got a namespace.
    let is_of_other_scope =
        |value: &Value| !namespaced && value["metadata"]["namespace"].is_string();
    let follow = session.follow(&followed, |change| {
        let (seen, object) = match change {
            WatchChange::Listed(values) => {
                let mut found = BTreeMap::new();
                for value in values {
                    let Some(object) = watched.find(&value, namespaced) else {
                        continue;
                    };
                    if is_of_other_scope(&value) {
                        is_gone.notify_one();
                        return Vec::new();
                    }
                    found.insert(object, present(value));
                }
                let objects = watched.objects.iter();
                return objects
                    .map(|object| {
                        let seen = found.remove(object).unwrap_or(ObjectSeen::Absent);
                        ClusterEvent::Object(object.clone(), seen)
                    })
                    .collect();
            }
            WatchChange::Applied(value) => {
                let object = watched.find(&value, namespaced);
                (present(value), object)
            }
            WatchChange::Gone(value) => (ObjectSeen::Absent, watched.find(&value, namespaced)),
            // A list of a resource that is served never ends so, whether its objects or their namespace exist or not.
            WatchChange::Failed(failure) if failure.is_not_found() => {
                is_gone.notify_one();
                return Vec::new();
            }
            WatchChange::Failed(failure) => {
                let why = failure.to_string();
                return watched.each(&ObjectSeen::Unknown { why });
            }
        };
        let object = object.into_iter();
        object
            .map(|object| ClusterEvent::Object(object.clone(), seen.clone()))
            .collect()
    });
    tokio::select! {
        () = is_gone.notified() => true,
        () = follow => false,
    }
}

/// Items of a list come without version and kind.
fn typed(mut value: Value, resource: &ApiResource) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.insert("apiVersion".to_owned(), resource.api_version.clone().into());
        object.insert("kind".to_owned(), resource.kind.clone().into());
    }
    value
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tokio::sync::watch;
    use windrow_decide::Interests;

    use super::super::discovery::discover;
    use super::super::session::SessionTask;
    use super::*;
    use crate::apiserver::Connection;

    /// The watch of one object.
    fn only(object: &ObjectRef) -> WatchedObjects {
        let objects = BTreeMap::from([(object.clone(), Detail::Metadata)]);
        share_watches(&objects, 1).pop_first().unwrap()
    }

    #[test]
    fn the_number_of_watches_is_bounded_and_every_object_is_in_exactly_one() {
        let mut objects = BTreeMap::new();
        for index in 0..1000 {
            let (name, namespace) = (format!("o{index}"), format!("n{}", index % 10));
            let kind = ["Secret", "ConfigMap"][index % 2];
            let object = ObjectRef::namespaced("", kind, &namespace, &name);
            let detail = if index == 7 {
                Detail::Full
            } else {
                Detail::Metadata
            };
            objects.insert(object, detail);
        }
        objects.insert(
            ObjectRef::cluster("", "Namespace", "shop"),
            Detail::Metadata,
        );
        // 1001 objects; five namespaces for each of two kinds and the Namespace; three kinds.
        for (most, watches) in [(1001, 1001), (1000, 11), (11, 11), (10, 3), (0, 3)] {
            let shared = share_watches(&objects, most);
            assert_eq!(shared.len(), watches, "{most}");
            let watched: Vec<&ObjectRef> =
                shared.iter().flat_map(|watched| &watched.objects).collect();
            assert_eq!(watched.len(), objects.len(), "{most}");
            let all: BTreeSet<&ObjectRef> = watched.into_iter().collect();
            assert_eq!(all, objects.keys().collect(), "{most}");
            for (object, detail) in &objects {
                let of = shared
                    .iter()
                    .find(|watched| watched.objects.contains(object));
                let of = of.unwrap();
                assert!(of.detail >= *detail && of.kind == object.group_kind());
            }
        }
    }

    #[test]
    fn a_shared_watch_tells_objects_of_one_name_in_two_namespaces_apart() {
        let object = |namespace: &str| ObjectRef::namespaced("", "Secret", namespace, "token");
        let objects = ["a", "b"].map(|namespace| (object(namespace), Detail::Metadata));
        let watched = share_watches(&objects.into(), 0).pop_first().unwrap();
        let value = |namespace: &str, name: &str| json!({"metadata": {"namespace": namespace, "name": name}});
        assert_eq!(watched.find(&value("b", "token"), true), Some(&object("b")));
        assert_eq!(watched.find(&value("c", "token"), true), None);
        assert_eq!(watched.find(&value("a", "other"), true), None);
    }

    /// Nothing is there at first. Then the object comes and goes, and another one too, as a server sends it that ignores selectors.
    async fn comes_and_goes(request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let line = |kind: &str, name: &str| {
            let metadata = json!({"name": name, "resourceVersion": "6"});
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
            json!({"type": kind, "object": object}).to_string() + "\n"
        };
        let query = request.uri().query().unwrap_or_default();
        let body = match query.contains("watch=true") {
            true => [
                line("ADDED", "other"),
                line("ADDED", "web"),
                line("DELETED", "other"),
                line("DELETED", "web"),
            ]
            .concat(),
            false => json!({"metadata": {"resourceVersion": "5"}, "items": []}).to_string(),
        };
        Ok(Response::new(Body::from(body.into_bytes())))
    }

    #[tokio::test]
    async fn an_object_is_there_from_when_it_comes_until_it_goes_whatever_others_do() {
        let client = Client::new(tower::service_fn(comes_and_goes), "default");
        let (events, mut seen) = tokio::sync::mpsc::channel(16);
        let session = Arc::new(ApiSession::new(Connection::with_client(client), events));
        let object = ObjectRef::cluster("", "Namespace", "web");
        let state = KindState::Served {
            resource: ApiResource::erase::<k8s_openapi::api::core::v1::Namespace>(&()),
            namespaced: false,
        };
        let kinds = Arc::new(watch::Sender::new(HashMap::from([(
            object.group_kind(),
            state,
        )])));
        let watched = watch_objects(session.clone(), kinds, only(&object));
        let _task = SessionTask::start(&session, watched);
        for expected in [false, true, false] {
            let ClusterEvent::Object(of, now) = seen.recv().await.unwrap() else {
                panic!("it is about another thing");
            };
            assert_eq!(of, object);
            match now {
                ObjectSeen::Present(value) => assert!(expected && name_of(&value) == "web"),
                other => assert_eq!((other, expected), (ObjectSeen::Absent, false)),
            }
        }
    }

    /// Serves Widgets in v1 only. The object is there.
    async fn serves_v1(request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let version = json!({"groupVersion": "example.com/v1", "version": "v1"});
        let query = request.uri().query().unwrap_or_default();
        let body = match request.uri().path() {
            "/apis/example.com" => {
                json!({"name": "example.com", "versions": [version], "preferredVersion": version})
            }
            "/apis/example.com/v1" => json!({"groupVersion": "example.com/v1", "resources": [
                {"name": "widgets", "kind": "Widget", "namespaced": true, "singularName": "", "verbs": ["list"]},
            ]}),
            "/apis/example.com/v1/namespaces/default/widgets" if !query.contains("watch=true") => {
                json!({"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "web"}}]})
            }
            "/apis/example.com/v1/namespaces/default/widgets" => Value::Null,
            _ => json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}),
        };
        let is_missing = body["code"] == 404;
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let mut response = Response::new(Body::from(body));
        if is_missing {
            *response.status_mut() = http::StatusCode::NOT_FOUND;
        }
        Ok(response)
    }

    #[tokio::test]
    async fn an_object_whose_kind_has_moved_to_another_version_is_unknown_and_found_there() {
        let client = Client::new(tower::service_fn(serves_v1), "default");
        let (events, mut seen) = tokio::sync::mpsc::channel(16);
        let session = Arc::new(ApiSession::new(Connection::with_client(client), events));
        let object = ObjectRef::namespaced("example.com", "Widget", "default", "web");
        for (version, namespaced) in [("v1beta1", true), ("v1", false)] {
            let state = KindState::Served {
                resource: ApiResource {
                    group: "example.com".to_owned(),
                    version: version.to_owned(),
                    api_version: format!("example.com/{version}"),
                    kind: "Widget".to_owned(),
                    plural: "widgets".to_owned(),
                },
                namespaced,
            };
            let kinds = HashMap::from([(object.group_kind(), state)]);
            let kinds = Arc::new(watch::Sender::new(kinds));
            let interests = Interests {
                objects: BTreeMap::from([(object.clone(), Detail::Metadata)]),
                ..Interests::default()
            };
            let (_wanted, interests) = watch::channel(interests);
            let work = watch_objects(session.clone(), kinds.clone(), only(&object));
            let _watch = SessionTask::start(&session, work);
            let work = discover(session.clone(), kinds, interests);
            let _discovery = SessionTask::start(&session, work);
            let mut answers = Vec::new();
            while !matches!(answers.last(), Some(ObjectSeen::Present(_))) {
                if let Some(ClusterEvent::Object(_, answer)) = seen.recv().await {
                    answers.push(answer);
                }
            }
            assert!(
                !answers.contains(&ObjectSeen::Absent),
                "{version}: {answers:?}"
            );
        }
    }
}
