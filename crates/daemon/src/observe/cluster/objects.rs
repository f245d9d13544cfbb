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

/// Most objects that have a separate watch. Each watch is a request to kube-apiserver and a connection.
pub(super) const MOST_WATCHES: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WatchScope {
    kind: GroupKind,
    detail: Detail,
    part: KindPart,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum KindPart {
    Object(ObjectRef),
    Namespace(Option<String>),
    All,
}

impl KindPart {
    fn object(object: &ObjectRef) -> Self {
        Self::Object(object.clone())
    }

    fn namespace(object: &ObjectRef) -> Self {
        Self::Namespace(object.namespace.as_deref().map(str::to_owned))
    }

    fn all(_: &ObjectRef) -> Self {
        Self::All
    }
}

type PartOf = fn(&ObjectRef) -> KindPart;

/// Ways to share watches, for objects whose existence matters and for those whose content does. A shared watch costs a list of everything in
/// its scope, and contents are large, so they are shared last.
const SHARING: [(PartOf, PartOf); 5] = [
    (KindPart::object, KindPart::object),
    (KindPart::namespace, KindPart::object),
    (KindPart::all, KindPart::object),
    (KindPart::namespace, KindPart::namespace),
    (KindPart::all, KindPart::all),
];

/// Which objects share a watch, in the first way that needs at most `most` watches. The last way needs two for each kind.
pub(super) fn share_watches(
    objects: &BTreeMap<ObjectRef, Detail>,
    most: usize,
) -> BTreeMap<WatchScope, BTreeSet<ObjectRef>> {
    let mut watches = BTreeMap::new();
    for (of_metadata, of_content) in SHARING {
        watches = BTreeMap::new();
        for (object, detail) in objects {
            let part = match detail {
                Detail::Metadata => of_metadata(object),
                Detail::Full => of_content(object),
            };
            let scope = WatchScope {
                kind: object.group_kind(),
                detail: *detail,
                part,
            };
            let of_scope: &mut BTreeSet<ObjectRef> = watches.entry(scope).or_default();
            of_scope.insert(object.clone());
        }
        if watches.len() <= most {
            break;
        }
    }
    watches
}

#[derive(Debug, Clone)]
pub(super) struct WatchedObjects {
    kind: GroupKind,
    detail: Detail,
    objects: Arc<BTreeSet<ObjectRef>>,
}

impl WatchedObjects {
    pub(super) fn new(scope: &WatchScope, objects: BTreeSet<ObjectRef>) -> Self {
        Self {
            kind: scope.kind.clone(),
            detail: scope.detail,
            objects: Arc::new(objects),
        }
    }

    pub(super) fn covers(&self, objects: &BTreeSet<ObjectRef>) -> bool {
        objects.is_subset(&self.objects)
    }

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
        let watched = self.clone();
        Followed {
            api,
            detail: self.detail,
            fields: only.map(|object| format!("metadata.name={}", object.name)),
            // A list of everything in a namespace may be large.
            wants: Some(Box::new(move |value| {
                watched.find(value, namespaced).next().is_some()
            })),
        }
    }

    /// The wanted objects that match this value: two references may mean one object, with and without its namespace. A
    /// server may ignore a selector, and a shared watch also has other objects.
    fn find(&self, value: &Value, namespaced: bool) -> impl Iterator<Item = &ObjectRef> {
        let namespace = value["metadata"]["namespace"].as_str();
        self.objects.iter().filter(move |object| {
            let is_there =
                !namespaced || namespace.is_none_or(|there| there == namespace_of(object));
            is_there && name_of(value) == object.name
        })
    }

    fn events(&self, value: &Value, namespaced: bool, seen: &ObjectSeen) -> Vec<ClusterEvent> {
        let found = self.find(value, namespaced);
        found
            .map(|object| ClusterEvent::Object(object.clone(), seen.clone()))
            .collect()
    }

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
        // Whether an object exists is unknown: it may be there in another version or scope.
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

/// Waits until the kind is served. Returns its resource, and whether it is namespaced; `None` when the receiver is
/// gone.
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

/// Watches objects until their resource is not found any more; false when the receiver is gone.
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
        match change {
            WatchChange::Listed(values) => {
                let mut found = BTreeMap::new();
                for value in values {
                    let objects: Vec<&ObjectRef> = watched.find(&value, namespaced).collect();
                    if !objects.is_empty() && is_of_other_scope(&value) {
                        is_gone.notify_one();
                        return Vec::new();
                    }
                    let seen = present(value);
                    found.extend(objects.into_iter().map(|object| (object, seen.clone())));
                }
                let objects = watched.objects.iter();
                objects
                    .map(|object| {
                        let seen = found.remove(object).unwrap_or(ObjectSeen::Absent);
                        ClusterEvent::Object(object.clone(), seen)
                    })
                    .collect()
            }
            WatchChange::Applied(value) => {
                let seen = present(value.clone());
                watched.events(&value, namespaced, &seen)
            }
            WatchChange::Gone(value) => watched.events(&value, namespaced, &ObjectSeen::Absent),
            // A list of a resource that is served never ends so, whether its objects or their namespace exist or not.
            WatchChange::Failed(failure) if failure.is_not_found() => {
                is_gone.notify_one();
                Vec::new()
            }
            WatchChange::Failed(failure) => {
                let why = failure.to_string();
                watched.each(&ObjectSeen::Unknown { why })
            }
        }
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

    fn only(object: &ObjectRef) -> WatchedObjects {
        let objects = BTreeMap::from([(object.clone(), Detail::Metadata)]);
        let (scope, objects) = share_watches(&objects, 1).pop_first().unwrap();
        WatchedObjects::new(&scope, objects)
    }

    #[test]
    fn the_number_of_watches_is_bounded_and_every_object_is_in_exactly_one() {
        let mut objects = BTreeMap::new();
        for index in 0..1000 {
            let (name, namespace) = (format!("o{index}"), format!("n{}", index % 10));
            let kind = ["Secret", "ConfigMap"][index % 2];
            let object = ObjectRef::namespaced("", kind, &namespace, &name);
            objects.insert(object, Detail::Metadata);
        }
        objects.insert(
            ObjectRef::cluster("", "Namespace", "shop"),
            Detail::Metadata,
        );
        for name in ["a", "b"] {
            let object = ObjectRef::namespaced("apps", "Deployment", "shop", name);
            objects.insert(object, Detail::Full);
        }
        // 1003 objects; five namespaces for each of two kinds, the Namespace and two contents; three kinds and two contents; these two together.
        for (most, watches) in [(1003, 1003), (1002, 13), (13, 13), (12, 5), (4, 4), (0, 4)] {
            let shared = share_watches(&objects, most);
            assert_eq!(shared.len(), watches, "{most}");
            let watched: Vec<&ObjectRef> = shared.values().flatten().collect();
            assert_eq!(watched.len(), objects.len(), "{most}");
            for (object, detail) in &objects {
                let (scope, _) = shared.iter().find(|(_, of)| of.contains(object)).unwrap();
                assert_eq!((scope.detail, &scope.kind), (*detail, &object.group_kind()));
            }
        }
    }

    #[test]
    fn a_shared_watch_tells_objects_of_one_name_in_two_namespaces_apart() {
        let object = |namespace: &str| ObjectRef::namespaced("", "Secret", namespace, "token");
        let objects = ["a", "b"].map(|namespace| (object(namespace), Detail::Metadata));
        let (scope, objects) = share_watches(&objects.into(), 0).pop_first().unwrap();
        let watched = WatchedObjects::new(&scope, objects);
        assert!(watched.covers(&BTreeSet::from([object("a")])));
        assert!(!watched.covers(&BTreeSet::from([object("c")])));
        let value = |namespace: &str, name: &str| json!({"metadata": {"namespace": namespace, "name": name}});
        let find = |namespace: &str, name: &str| {
            let value = value(namespace, name);
            watched.find(&value, true).cloned().collect::<Vec<_>>()
        };
        assert_eq!(find("b", "token"), [object("b")]);
        assert_eq!(find("c", "token"), []);
        assert_eq!(find("a", "other"), []);
    }

    #[test]
    fn every_reference_to_an_object_is_found_with_its_namespace_and_without() {
        let with = ObjectRef::namespaced("example.com", "Widget", "default", "web");
        let mut without = with.clone();
        without.namespace = None;
        let objects = [with, without].map(|object| (object, Detail::Metadata));
        let (scope, objects) = share_watches(&objects.into(), 0).pop_first().unwrap();
        let watched = WatchedObjects::new(&scope, objects);
        let value = json!({"metadata": {"namespace": "default", "name": "web"}});
        assert_eq!(watched.events(&value, true, &ObjectSeen::Absent).len(), 2);
    }

    /// First there are no objects. Then the object appears and disappears, and another one too, as from a server that
    /// ignores selectors.
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

    /// Serves Widgets in v1 only, with the object.
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
