//! Lists, then watches, and begins anew when the watch breaks: the one loop under every watch.

use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::core::ObjectList;
use serde_json::Value;
use tokio::time::timeout;
use windrow_decide::{ClusterEvent, Detail};
use windrow_model::redact;

use super::connect::{Shared, explain};
use crate::backoff::Backoff;

/// kube-apiserver ends a watch after so long; it is then taken up where it stood.
const WATCH_SECONDS: u32 = 290;
/// A watch that is silent for longer is dead, whatever the connection says.
const DEAD: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 20);
/// More of a list than this is asked for in no case.
const PAGE: u32 = 500;

/// What a watch tells.
pub(super) enum Change {
    /// All that is there.
    Listed(Vec<Value>),
    /// One object is new or changed.
    Applied(Value),
    /// One object is gone; how it was at the end.
    Gone(Value),
    /// It cannot be asked.
    Failed {
        /// Why.
        why: String,
        /// The answer was 404: the kind is not served.
        not_found: bool,
    },
}

/// What to watch.
pub(super) struct Followed {
    pub(super) api: Api<DynamicObject>,
    pub(super) detail: Detail,
    /// Field selector.
    pub(super) fields: Option<String>,
}

impl Followed {
    /// Lists and watches until nobody listens any more. `tell` says what a change means.
    pub(super) async fn follow<F>(&self, shared: &Shared, tell: F)
    where
        F: FnMut(Change) -> Vec<ClusterEvent> + Send,
    {
        let mut pauses = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        let mut outlet = Outlet { shared, tell };
        loop {
            let failure = match self.list(shared).await {
                Ok((objects, version)) => {
                    if !outlet.tell(Change::Listed(objects)).await {
                        return;
                    }
                    let began = tokio::time::Instant::now();
                    let failure = match self.watch(version, &mut outlet).await {
                        Ended::Closed => return,
                        Ended::Expired => None,
                        Ended::Failed(failure) => Some(failure),
                    };
                    // A watch that held for a while was a success; one that never does is not
                    // asked for without pauses.
                    if began.elapsed() > Duration::from_secs(10) {
                        pauses.reset();
                    }
                    failure
                }
                Err(failure) => Some(failure),
            };
            if let Some(failure) = failure {
                if failure.doubtful {
                    shared.doubt.notify_one();
                }
                if failure.forbidden && !outlet.refused(self.what(), &failure.why).await {
                    return;
                }
                let change = Change::Failed {
                    why: failure.why,
                    not_found: failure.not_found,
                };
                if !outlet.tell(change).await {
                    return;
                }
            }
            pauses.wait().await;
        }
    }

    /// What is asked, for people.
    fn what(&self) -> String {
        let url = self.api.resource_url();
        match &self.fields {
            Some(fields) => format!("{url} with {fields}"),
            None => url.to_owned(),
        }
    }

    async fn list(&self, shared: &Shared) -> Result<(Vec<Value>, String), Failure> {
        let mut objects = Vec::new();
        let mut parameters = ListParams {
            field_selector: self.fields.clone(),
            ..ListParams::default().limit(PAGE)
        };
        loop {
            let page = match self.detail {
                Detail::Full => page(shared, self.api.list(&parameters)).await?,
                Detail::Metadata => page(shared, self.api.list_metadata(&parameters)).await?,
            };
            objects.extend(page.objects);
            match page.next {
                Some(next) => parameters.continue_token = Some(next),
                None => return Ok((objects, page.version)),
            }
        }
    }

    async fn watch<F>(&self, mut version: String, outlet: &mut Outlet<'_, F>) -> Ended
    where
        F: FnMut(Change) -> Vec<ClusterEvent> + Send,
    {
        let parameters = WatchParams {
            field_selector: self.fields.clone(),
            ..WatchParams::default().timeout(WATCH_SECONDS)
        };
        loop {
            let shared = outlet.shared;
            let opened = match self.detail {
                Detail::Full => open(shared, self.api.watch(&parameters, &version)).await,
                Detail::Metadata => {
                    open(shared, self.api.watch_metadata(&parameters, &version)).await
                }
            };
            let mut stream = match opened {
                Ok(stream) => stream,
                Err(failure) if failure.gone => return Ended::Expired,
                Err(failure) => return Ended::Failed(failure),
            };
            let began = tokio::time::Instant::now();
            loop {
                match timeout(DEAD, stream.next()).await {
                    // Silent, or ended: whatever the reason, it is taken up where it stood.
                    Err(_) | Ok(None) => break,
                    Ok(Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => {
                        remember(&mut version, &object);
                        if !outlet.tell(Change::Applied(object)).await {
                            return Ended::Closed;
                        }
                    }
                    Ok(Some(Ok(WatchEvent::Deleted(object)))) => {
                        remember(&mut version, &object);
                        if !outlet.tell(Change::Gone(object)).await {
                            return Ended::Closed;
                        }
                    }
                    Ok(Some(Ok(WatchEvent::Bookmark(bookmark)))) => {
                        version = bookmark.metadata.resource_version;
                    }
                    Ok(Some(Ok(WatchEvent::Error(status)))) => {
                        let failure = Failure::of(&kube::Error::Api(status));
                        return if failure.gone {
                            Ended::Expired
                        } else {
                            Ended::Failed(failure)
                        };
                    }
                    // What was cut or cannot be read may have hidden a change: list anew.
                    Ok(Some(Err(error))) => {
                        tracing::trace!("a watch broke: {}", explain(&error));
                        return Ended::Expired;
                    }
                }
            }
            // A server that ends every watch at once is asked with pauses, from the list on.
            if began.elapsed() < Duration::from_secs(5) {
                return Ended::Expired;
            }
        }
    }
}

/// Where changes go once it is known what they mean.
struct Outlet<'s, F> {
    shared: &'s Shared,
    tell: F,
}

impl<F> Outlet<'_, F>
where
    F: FnMut(Change) -> Vec<ClusterEvent> + Send,
{
    /// False when nobody listens any more.
    async fn refused(&self, what: String, why: &str) -> bool {
        let why = why.to_owned();
        let event = ClusterEvent::Refused { what, why };
        self.shared.events.send(event).await.is_ok()
    }

    /// False when nobody listens any more.
    async fn tell(&mut self, change: Change) -> bool {
        for event in (self.tell)(change) {
            if self.shared.events.send(event).await.is_err() {
                return false;
            }
        }
        true
    }
}

enum Ended {
    Closed,
    /// The version is too old, or the stream broke: list anew.
    Expired,
    Failed(Failure),
}

struct Failure {
    why: String,
    gone: bool,
    not_found: bool,
    forbidden: bool,
    doubtful: bool,
}

impl Failure {
    fn of(error: &kube::Error) -> Self {
        let code = match error {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        };
        Self {
            why: explain(error),
            gone: code == Some(410),
            not_found: code == Some(404),
            forbidden: code == Some(403),
            // 401: the credential; 5xx or no answer: the server. 403 and the like are about this
            // one request.
            doubtful: code.is_none_or(|code| code == 401 || code >= 500),
        }
    }

    fn late(why: String) -> Self {
        Self {
            why,
            gone: false,
            not_found: false,
            forbidden: false,
            doubtful: true,
        }
    }
}

struct Page {
    objects: Vec<Value>,
    version: String,
    next: Option<String>,
}

async fn page<K>(
    shared: &Shared,
    request: impl Future<Output = kube::Result<ObjectList<K>>>,
) -> Result<Page, Failure>
where
    K: Clone + serde::Serialize,
{
    let list = match shared.answer(request).await {
        Ok(Ok(list)) => list,
        Ok(Err(error)) => return Err(Failure::of(&error)),
        Err(late) => return Err(Failure::late(late)),
    };
    Ok(Page {
        objects: list.items.iter().filter_map(slim).collect(),
        version: list.metadata.resource_version.unwrap_or_default(),
        next: list.metadata.continue_.filter(|token| !token.is_empty()),
    })
}

async fn open<K, S>(
    shared: &Shared,
    request: impl Future<Output = kube::Result<S>>,
) -> Result<BoxStream<'static, kube::Result<WatchEvent<Value>>>, Failure>
where
    K: Clone + serde::Serialize + 'static,
    S: Stream<Item = kube::Result<WatchEvent<K>>> + Send + 'static,
{
    match shared.answer(request).await {
        Ok(Ok(stream)) => Ok(stream.map(|event| event.map(plain)).boxed()),
        Ok(Err(error)) => Err(Failure::of(&error)),
        Err(late) => Err(Failure::late(late)),
    }
}

fn plain<K: Clone + serde::Serialize>(event: WatchEvent<K>) -> WatchEvent<Value> {
    let value = |object: K| slim(&object).unwrap_or(Value::Null);
    match event {
        WatchEvent::Added(object) => WatchEvent::Added(value(object)),
        WatchEvent::Modified(object) => WatchEvent::Modified(value(object)),
        WatchEvent::Deleted(object) => WatchEvent::Deleted(value(object)),
        WatchEvent::Bookmark(bookmark) => WatchEvent::Bookmark(bookmark),
        WatchEvent::Error(status) => WatchEvent::Error(status),
    }
}

/// The object without what is large and never asked for.
fn slim<K: serde::Serialize>(object: &K) -> Option<Value> {
    let mut value = serde_json::to_value(object).ok()?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            annotations.remove("objectset.rio.cattle.io/applied");
        }
    }
    redact::messages(&mut value);
    Some(value)
}

fn remember(version: &mut String, object: &Value) {
    if let Some(newer) = object["metadata"]["resourceVersion"].as_str() {
        newer.clone_into(version);
    }
}

/// The name in an object's metadata.
pub(super) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
