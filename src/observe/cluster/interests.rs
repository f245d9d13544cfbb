//! Keeps a watch for everything of interest, and no other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event as KubernetesEvent;
use kube::api::{Api, ApiResource, DynamicObject};
use serde_json::Value;
use tokio::sync::watch;
use windrow_decide::{Addon, ApplyFailure, ClusterEvent, Detail, Interests};
use windrow_model::manifest::{AddonName, ObjectRef};
use windrow_model::redact;
use windrow_plan::readiness::ObjectSeen;

use super::discovery::{KindState, Kinds, discover};
use super::session::{ApiSession, SessionTask};
use crate::apiserver::{Followed, WatchChange, name_of};

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

/// Watches one object, from the moment its kind is served.
async fn watch_object(
    session: Arc<ApiSession>,
    kinds: Arc<Kinds>,
    object: ObjectRef,
    detail: Detail,
) {
    let mut known = kinds.subscribe();
    let mut reported = None;
    let kind = object.group_kind();
    let (resource, namespaced) = loop {
        let seen = match known.borrow_and_update().get(&kind) {
            Some(KindState::Served {
                resource,
                namespaced,
            }) => break (resource.clone(), *namespaced),
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
            if session.events.send(event).await.is_err() {
                return;
            }
        }
        if known.changed().await.is_err() {
            return;
        }
    };
    let client = session.client();
    let api = if namespaced {
        let namespace = object.namespace.as_deref().unwrap_or("default");
        Api::<DynamicObject>::namespaced_with(client, namespace, &resource)
    } else {
        Api::<DynamicObject>::all_with(client, &resource)
    };
    let followed = Followed {
        api,
        detail,
        fields: Some(format!("metadata.name={}", object.name)),
    };
    let present = |value: Value| ObjectSeen::Present(Arc::new(typed(value, &resource)));
    session
        .follow(&followed, |change| {
            let seen = match change {
                // The selector leaves one object. A server that ignores the selector is not trusted.
                WatchChange::Listed(objects) => objects
                    .into_iter()
                    .find(|found| name_of(found) == object.name)
                    .map_or(ObjectSeen::Absent, present),
                WatchChange::Applied(value) if name_of(&value) == object.name => present(value),
                WatchChange::Gone(value) if name_of(&value) == object.name => ObjectSeen::Absent,
                WatchChange::Applied(_) | WatchChange::Gone(_) => return Vec::new(),
                WatchChange::Failed(failure) if failure.is_not_found() => ObjectSeen::Absent,
                WatchChange::Failed(failure) => ObjectSeen::Unknown {
                    why: failure.to_string(),
                },
            };
            vec![ClusterEvent::Object(object.clone(), seen)]
        })
        .await;
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
