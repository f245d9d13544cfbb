//! Finds out which of the awaited kinds the API serves.
//!
//! It only asks for the groups of kinds that may not be served yet: at once, then whenever a CustomResourceDefinition
//! or an APIService changes, and also after pauses that double up to a minute. Each change resets the pauses: an
//! established definition takes a while to reach the discovery documents. If a kind's objects are not found under its
//! version and scope, discovery reads its group again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResourceList};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Resource;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Request};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use windrow_decide::{ClusterEvent, Detail, Interests};
use windrow_model::manifest::GroupKind;
use windrow_model::object::{api_root, api_version};
use windrow_plan::readiness::KindSeen;

use super::session::{ApiSession, SessionTask};
use crate::apiserver::{Connection, Followed, RequestFailure, answer, if_found};
use crate::backoff::Backoff;

/// The pause after something changed.
pub(super) const SOON: Duration = Duration::from_secs(2);
/// The longest pause while nothing changes.
pub(super) const SELDOM: Duration = Duration::from_secs(60);
/// The longest pause while discovery itself fails.
const UNANSWERED: Duration = Duration::from_secs(10);
/// For this long, further changes of definitions are collected before the next discovery.
const SETTLE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, PartialEq)]
pub(super) enum KindState {
    /// It is served like this.
    Served {
        resource: ApiResource,
        namespaced: bool,
    },
    NotServed,
    Unknown(String),
}

impl KindState {
    fn seen(&self) -> KindSeen {
        match self {
            KindState::Served { namespaced, .. } => KindSeen::Served {
                namespaced: *namespaced,
            },
            KindState::NotServed => KindSeen::NotServed,
            KindState::Unknown(why) => KindSeen::Unknown { why: why.clone() },
        }
    }
}

/// The kinds, for the watches on their objects.
pub(super) type Kinds = watch::Sender<HashMap<GroupKind, KindState>>;

pub(super) async fn discover(
    session: Arc<ApiSession>,
    kinds: Arc<Kinds>,
    mut interests: watch::Receiver<Interests>,
) {
    let mut reported: HashMap<GroupKind, KindSeen> = HashMap::new();
    let changed = Arc::new(Notify::new());
    let mut definitions: Option<[SessionTask; 2]> = None;
    let mut pauses = Backoff::new(SOON, SELDOM);
    loop {
        let (asked, needed) = {
            let interests = interests.borrow_and_update();
            let of_objects = interests.objects.keys().map(|object| object.group_kind());
            let needed: BTreeSet<GroupKind> =
                interests.kinds.iter().cloned().chain(of_objects).collect();
            (interests.kinds.clone(), needed)
        };
        let answered = ask_groups(&session, &kinds, &needed).await;
        reported.retain(|kind, _| asked.contains(kind));
        for kind in &asked {
            let seen = kinds
                .borrow()
                .get(kind)
                .map_or(KindSeen::NotAsked, KindState::seen);
            if reported.get(kind) != Some(&seen) {
                reported.insert(kind.clone(), seen.clone());
                let event = ClusterEvent::Kind(kind.clone(), seen);
                if session.events.send(event).await.is_err() {
                    return;
                }
            }
        }
        let complete = needed
            .iter()
            .all(|kind| matches!(kinds.borrow().get(kind), Some(KindState::Served { .. })));
        if complete {
            definitions = None;
            tokio::select! {
                changed = interests.changed() => match changed {
                    Ok(()) => {}
                    Err(_) => return,
                },
                () = session.kind_gone.notified() => {}
            }
            continue;
        }
        definitions.get_or_insert_with(|| {
            [
                watch_definitions::<CustomResourceDefinition>(&session, &changed),
                watch_definitions::<APIService>(&session, &changed),
            ]
        });
        if !answered {
            pauses.at_most(UNANSWERED);
        }
        tokio::select! {
            changed = interests.changed() => match changed {
                Ok(()) => pauses.reset(),
                Err(_) => return,
            },
            () = changed.notified() => {
                pauses.reset();
                tokio::time::sleep(SETTLE).await;
            }
            () = session.kind_gone.notified() => {}
            () = pauses.wait() => {}
        }
    }
}

/// A watch on the metadata of objects that define kinds. It is only a trigger.
fn watch_definitions<K: Resource<DynamicType = ()>>(
    session: &Arc<ApiSession>,
    changed: &Arc<Notify>,
) -> SessionTask {
    let (watched, changed) = (session.clone(), changed.clone());
    let resource = ApiResource::erase::<K>(&());
    SessionTask::start(session, async move {
        let definitions = Followed {
            api: Api::<DynamicObject>::all_with(watched.client(), &resource),
            detail: Detail::Metadata,
            fields: None,
            wants: None,
        };
        watched
            .follow(&definitions, |_| {
                changed.notify_one();
                Vec::new()
            })
            .await;
    })
}

/// Asks for the groups of kinds that may not be served yet. False if one request failed.
async fn ask_groups(session: &ApiSession, kinds: &Kinds, needed: &BTreeSet<GroupKind>) -> bool {
    let mut answered = true;
    let mut groups: BTreeMap<&str, Vec<&GroupKind>> = BTreeMap::new();
    for kind in needed {
        if !matches!(kinds.borrow().get(kind), Some(KindState::Served { .. })) {
            groups.entry(&kind.group).or_default().push(kind);
        }
    }
    for (group, wanted) in groups {
        let served = group_kinds(&session.connection, group).await;
        if let Err(Unanswered { path, failure }) = &served {
            answered = false;
            if failure.is_doubtful() {
                session.doubt.notify_one();
            }
            if failure.is_forbidden() {
                let event = ClusterEvent::Refused {
                    what: path.clone(),
                    why: failure.to_string(),
                };
                // It fails when the receiver is gone, which the loop around this notices next.
                let _ = session.events.send(event).await;
            }
        }
        kinds.send_if_modified(|known| {
            let mut changed = false;
            for kind in wanted {
                let now = match &served {
                    Ok(served) => served
                        .get(kind.kind.as_str())
                        .cloned()
                        .unwrap_or(KindState::NotServed),
                    Err(unanswered) => KindState::Unknown(unanswered.to_string()),
                };
                changed |= known.insert(kind.clone(), now.clone()) != Some(now);
            }
            changed
        });
    }
    answered
}

struct Unanswered {
    path: String,
    failure: RequestFailure,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.failure)
    }
}

/// The kinds of a group in the versions that are served, the preferred one first.
async fn group_kinds(
    connection: &Connection,
    group: &str,
) -> Result<HashMap<String, KindState>, Unanswered> {
    let versions = if group.is_empty() {
        vec!["v1".to_owned()]
    } else {
        let Some(found) = get::<APIGroup>(connection, &format!("/apis/{group}")).await? else {
            return Ok(HashMap::new());
        };
        let preferred = found.preferred_version.map(|version| version.version);
        let mut versions: Vec<String> = found
            .versions
            .into_iter()
            .map(|version| version.version)
            .collect();
        // A stable sort keeps the server's order after the preferred version.
        versions.sort_by_key(|version| Some(version) != preferred.as_ref());
        versions
    };
    let mut kinds = HashMap::new();
    for version in versions {
        let api_version = api_version(group, &version);
        let path = api_root(&api_version);
        let Some(list) = get::<APIResourceList>(connection, &path).await? else {
            continue;
        };
        for found in list.resources {
            // `deployments/status` and the like are parts of a resource.
            if found.name.contains('/') {
                continue;
            }
            kinds
                .entry(found.kind.clone())
                .or_insert(KindState::Served {
                    resource: ApiResource {
                        group: group.to_owned(),
                        version: version.clone(),
                        api_version: api_version.clone(),
                        kind: found.kind,
                        plural: found.name,
                    },
                    namespaced: found.namespaced,
                });
        }
    }
    Ok(kinds)
}

pub(in crate::observe) struct ServedKind {
    pub(in crate::observe) kind: String,
    pub(in crate::observe) plural: String,
    pub(in crate::observe) namespaced: bool,
}

/// The kinds of a group that are served now.
///
/// # Errors
///
/// Why discovery does not list them, in a line.
pub(in crate::observe) async fn group_resources(
    connection: &Connection,
    group: &str,
) -> Result<Vec<ServedKind>, String> {
    let kinds = group_kinds(connection, group).await;
    let kinds = kinds.map_err(|unanswered| unanswered.to_string())?;
    let served = kinds.into_values().filter_map(|state| match state {
        KindState::Served {
            resource,
            namespaced,
        } => Some(ServedKind {
            kind: resource.kind,
            plural: resource.plural,
            namespaced,
        }),
        _ => None,
    });
    Ok(served.collect())
}

/// Asks for a discovery document; `None` when it does not exist.
async fn get<T: DeserializeOwned>(
    connection: &Connection,
    path: &str,
) -> Result<Option<T>, Unanswered> {
    // A list without parameters is a plain GET of the path.
    let request = Request::new(path).list(&ListParams::default());
    let answer = answer(connection, async {
        let request = request.map_err(kube::Error::BuildRequest)?;
        connection.client().request::<T>(request).await
    });
    if_found(answer.await).map_err(|failure| Unanswered {
        path: path.to_owned(),
        failure,
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// Serves one kind, in one version.
    async fn serves_widgets(request: http::Request<Body>) -> Result<Response<Body>, Infallible> {
        let version = json!({"groupVersion": "example.com/v1", "version": "v1"});
        let found: Option<Value> = match request.uri().path() {
            "/apis/example.com" => Some(
                json!({"name": "example.com", "versions": [version], "preferredVersion": version}),
            ),
            "/apis/example.com/v1" => {
                let resource = |name: &str| {
                    json!({"name": name, "kind": "Widget", "namespaced": true,
                    "singularName": "widget", "verbs": ["list"]})
                };
                let resources = [resource("widgets/status"), resource("widgets")];
                Some(json!({"groupVersion": "example.com/v1", "resources": resources}))
            }
            _ => None,
        };
        let absent =
            || json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
        let mut response = Response::new(Body::from(
            found
                .clone()
                .unwrap_or_else(absent)
                .to_string()
                .into_bytes(),
        ));
        if found.is_none() {
            *response.status_mut() = http::StatusCode::NOT_FOUND;
        }
        Ok(response)
    }

    #[tokio::test]
    async fn whoever_waits_for_a_kind_hears_when_its_state_changes_and_not_when_it_is_the_same() {
        let client = Client::new(tower::service_fn(serves_widgets), "default");
        let (events, _seen) = tokio::sync::mpsc::channel(16);
        let session = ApiSession::new(Connection::with_client(client), events);
        let [widget, gadget, other] = [
            ("example.com", "Widget"),
            ("example.com", "Gadget"),
            ("other.example", "Widget"),
        ]
        .map(|(group, kind)| GroupKind::new(group, kind));
        let needed = BTreeSet::from([widget.clone(), gadget.clone(), other.clone()]);
        let kinds: Kinds = watch::Sender::new(HashMap::new());
        let mut waits = kinds.subscribe();
        assert!(ask_groups(&session, &kinds, &needed).await);
        assert!(waits.has_changed().unwrap());
        let known = waits.borrow_and_update().clone();
        let Some(KindState::Served {
            resource,
            namespaced,
        }) = known.get(&widget)
        else {
            panic!("{known:?}");
        };
        assert_eq!((&*resource.plural, *namespaced), ("widgets", true));
        assert_eq!(known.get(&gadget), Some(&KindState::NotServed));
        assert_eq!(known.get(&other), Some(&KindState::NotServed));
        assert!(ask_groups(&session, &kinds, &needed).await);
        assert!(!waits.has_changed().unwrap());
    }
}
