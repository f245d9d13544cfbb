//! Keeps a watch for everything of interest, and no other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event as KubernetesEvent;
use kube::api::{Api, ApiResource, DynamicObject};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use windrow_decide::{Addon, ApplyFailure, ClusterEvent, Detail, Interests};
use windrow_model::manifest::{AddonName, ObjectRef};
use windrow_model::redact;
use windrow_plan::readiness::ObjectSeen;

use super::discovery::{KindState, Kinds, SELDOM, SOON, discover};
use super::session::{ApiSession, SessionTask};
use crate::apiserver::{Followed, WatchChange, name_of};
use crate::backoff::Backoff;

/// Where RKE2 keeps its Addons (k3s `pkg/deploy/controller.go`).
const ADDONS_NAMESPACE: &str = "kube-system";
/// The reasons of events in which RKE2 reports that it could not apply a file.
const FAILURES: &[&str] = &[
    "ReadManifestFailed",
    "ParseManifestFailed",
    "ValidateManifestFailed",
    "ApplyManifestFailed",
];

/// Watches the objects of interest as long as the session lives.
pub(super) async fn watch_interests(
    session: &Arc<ApiSession>,
    mut interests: watch::Receiver<Interests>,
) {
    let kinds: Arc<Kinds> = Arc::new(watch::Sender::new(HashMap::new()));
    let _standing = [
        SessionTask::start(
            session,
            discover(session.clone(), kinds.clone(), interests.clone()),
        ),
        SessionTask::start(session, watch_addons(session.clone())),
        SessionTask::start(session, watch_failures(session.clone())),
    ];
    let mut objects: BTreeMap<(ObjectRef, Detail), SessionTask> = BTreeMap::new();
    loop {
        {
            let interests = interests.borrow_and_update();
            objects.retain(|(object, detail), _| interests.objects.get(object) == Some(detail));
            for (object, detail) in &interests.objects {
                objects.entry((object.clone(), *detail)).or_insert_with(|| {
                    let work =
                        watch_object(session.clone(), kinds.clone(), object.clone(), *detail);
                    SessionTask::start(session, work)
                });
            }
        }
        if interests.changed().await.is_err() {
            return;
        }
    }
}

/// Watches one object, from the moment its kind is served. Meanwhile the kind may move to another version or scope.
async fn watch_object(
    session: Arc<ApiSession>,
    kinds: Arc<Kinds>,
    object: ObjectRef,
    detail: Detail,
) {
    let kind = object.group_kind();
    let mut pauses = Backoff::new(SOON, SELDOM);
    while let Some((resource, namespaced)) = until_served(&session, &kinds, &object).await {
        let began = Instant::now();
        if !until_gone(&session, &object, (&resource, namespaced), detail).await {
            return;
        }
        pauses.reset_if_held(began.elapsed());
        // Whether the object exists is not known: it may be there in another version or scope.
        let api_version = &resource.api_version;
        let why = format!("{kind} is not served in {api_version} any more");
        let seen = ObjectSeen::Unknown { why: why.clone() };
        let event = ClusterEvent::Object(object.clone(), seen);
        if session.events.send(event).await.is_err() {
            return;
        }
        kinds.send_if_modified(|known| {
            let served = known.get_mut(&kind).filter(|state| {
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

/// Waits until the kind of an object is served: as which resource, and whether in namespaces. `None` when nobody listens any more.
async fn until_served(
    session: &ApiSession,
    kinds: &Kinds,
    object: &ObjectRef,
) -> Option<(ApiResource, bool)> {
    let mut known = kinds.subscribe();
    let mut reported = None;
    let kind = object.group_kind();
    loop {
        let seen = match known.borrow_and_update().get(&kind) {
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
            reported = Some(seen.clone());
            let event = ClusterEvent::Object(object.clone(), seen);
            session.events.send(event).await.ok()?;
        }
        known.changed().await.ok()?;
    }
}

/// Watches one object until its resource is not found any more; false when nobody listens any more.
async fn until_gone(
    session: &ApiSession,
    object: &ObjectRef,
    (resource, namespaced): (&ApiResource, bool),
    detail: Detail,
) -> bool {
    let client = session.client();
    let api = if namespaced {
        let namespace = object.namespace.as_deref().unwrap_or("default");
        Api::<DynamicObject>::namespaced_with(client, namespace, resource)
    } else {
        Api::<DynamicObject>::all_with(client, resource)
    };
    let followed = Followed {
        api,
        detail,
        fields: Some(format!("metadata.name={}", object.name)),
    };
    let is_gone = Notify::new();
    let present = |value: Value| ObjectSeen::Present(Arc::new(typed(value, resource)));
    // A list over all namespaces also finds the objects of a kind that has got a namespace.
    let is_of_other_scope =
        |value: &Value| !namespaced && value["metadata"]["namespace"].is_string();
    let follow = session.follow(&followed, |change| {
        let seen = match change {
            // The selector leaves one object. A server that ignores the selector is not trusted.
            WatchChange::Listed(objects) => {
                let mut named = objects
                    .into_iter()
                    .filter(|found| name_of(found) == object.name);
                match named.next() {
                    Some(found) if is_of_other_scope(&found) => {
                        is_gone.notify_one();
                        return Vec::new();
                    }
                    found => found.map_or(ObjectSeen::Absent, present),
                }
            }
            WatchChange::Applied(value) if name_of(&value) == object.name => present(value),
            WatchChange::Gone(value) if name_of(&value) == object.name => ObjectSeen::Absent,
            WatchChange::Applied(_) | WatchChange::Gone(_) => return Vec::new(),
            // A list of a resource that is served never ends so, whether its objects or their namespace exist or not.
            WatchChange::Failed(failure) if failure.is_not_found() => {
                is_gone.notify_one();
                return Vec::new();
            }
            WatchChange::Failed(failure) => ObjectSeen::Unknown {
                why: failure.to_string(),
            },
        };
        vec![ClusterEvent::Object(object.clone(), seen)]
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

/// Watches RKE2's Addons: which content of which file was applied.
async fn watch_addons(session: Arc<ApiSession>) {
    let resource = ApiResource {
        group: "k3s.cattle.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "k3s.cattle.io/v1".to_owned(),
        kind: "Addon".to_owned(),
        plural: "addons".to_owned(),
    };
    let followed = Followed {
        api: Api::<DynamicObject>::namespaced_with(session.client(), ADDONS_NAMESPACE, &resource),
        detail: Detail::Full,
        fields: None,
    };
    session
        .follow(&followed, |change| {
            let event = match change {
                WatchChange::Listed(addons) => ClusterEvent::Addons(
                    addons
                        .iter()
                        .map(|addon| (name_of(addon).into(), addon_of(addon)))
                        .collect(),
                ),
                WatchChange::Applied(addon) => {
                    ClusterEvent::Addon(name_of(&addon).into(), Some(addon_of(&addon)))
                }
                WatchChange::Gone(addon) => ClusterEvent::Addon(name_of(&addon).into(), None),
                // RKE2 registers the kind while it starts. Addons listed before stay known.
                WatchChange::Failed(failure) => {
                    tracing::trace!("RKE2's Addons cannot be listed: {failure}");
                    return Vec::new();
                }
            };
            vec![event]
        })
        .await;
}

fn addon_of(addon: &Value) -> Addon {
    let text = |key: &str| addon["spec"][key].as_str().unwrap_or_default().to_owned();
    Addon {
        checksum: text("checksum"),
        source: text("source"),
    }
}

/// Watches the events in which RKE2 reports that it could not apply a file.
async fn watch_failures(session: Arc<ApiSession>) {
    let resource = ApiResource::erase::<KubernetesEvent>(&());
    let followed = Followed {
        api: Api::<DynamicObject>::namespaced_with(session.client(), ADDONS_NAMESPACE, &resource),
        detail: Detail::Full,
        fields: Some("involvedObject.kind=Addon,type=Warning".to_owned()),
    };
    session
        .follow(&followed, |change| {
            let events = match change {
                WatchChange::Listed(mut events) => {
                    events.sort_by_key(order_written);
                    events
                }
                WatchChange::Applied(event) => vec![event],
                WatchChange::Gone(_) => return Vec::new(),
                WatchChange::Failed(failure) => {
                    tracing::trace!("RKE2's events cannot be listed: {failure}");
                    return Vec::new();
                }
            };
            events
                .iter()
                .filter_map(failure_of)
                .map(|(addon, failure)| ClusterEvent::ApplyFailed { addon, failure })
                .collect()
        })
        .await;
}

/// Longest message that is kept: RKE2 joins the errors of all objects of a file.
const MESSAGE: usize = 2048;

/// The order in which objects of a list were written last: by the version that the datastore gave them. The times in events are of
/// several clocks, which may have been set meanwhile.
fn order_written(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

fn failure_of(event: &Value) -> Option<(AddonName, ApplyFailure)> {
    let reason = event["reason"].as_str()?;
    if !FAILURES.contains(&reason) {
        return None;
    }
    let at = ["lastTimestamp", "eventTime"]
        .iter()
        .find_map(|key| event[key].as_str())
        .or_else(|| event["metadata"]["creationTimestamp"].as_str())?;
    // RKE2 passes on what kube-apiserver quotes of an object. The quote is cut before the text is shortened.
    let message = redact::message(event["message"].as_str().unwrap_or_default());
    Some((
        event["involvedObject"]["name"].as_str()?.into(),
        ApplyFailure {
            reason: reason.to_owned(),
            message: message.chars().take(MESSAGE).collect(),
            at: at.parse::<Timestamp>().ok()?,
        },
    ))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::apiserver::Connection;

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
        let watched = watch_object(session.clone(), kinds, object.clone(), Detail::Metadata);
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
            let work = watch_object(
                session.clone(),
                kinds.clone(),
                object.clone(),
                Detail::Metadata,
            );
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

    #[test]
    fn of_listed_events_the_one_that_was_written_last_comes_last_whatever_their_times() {
        let event = |version: &str, at: &str| json!({"metadata": {"resourceVersion": version}, "lastTimestamp": at});
        let mut events = [
            event("1000", "2026-01-01T00:00:00Z"),
            event("999", "2026-01-01T02:00:00Z"),
            event("99", "2026-01-01T01:00:00Z"),
        ];
        events.sort_by_key(order_written);
        let order = events.each_ref().map(order_written);
        assert_eq!(order, [99, 999, 1000]);
    }
}
