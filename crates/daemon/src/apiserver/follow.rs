//! The loop under every watch of whole objects: it lists, watches, and lists again when the watch breaks. The search
//! for new objects has another loop (`observe/appearances/follow.rs`): it reads only metadata, one object after the
//! other, because it lists whole kinds and keeps none of them.
//!
//! A watch that kube-apiserver ends after its time continues where it was. One that breaks, expires or is refused is
//! followed by a pause and a new list.

use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::time::timeout;
use windrow_decide::Detail;
use windrow_model::redact;

use super::answer::{ANSWER, explain};
use super::{
    Connection, ListBounds, ListForm, Pages, RequestFailure, WhenExpired, answer, escaped,
};
use crate::backoff::Backoff;

/// kube-apiserver ends a watch after this time.
pub const WATCH_SECONDS: u32 = 290;
/// A watch that is silent for longer is dead, even when its connection is not.
pub const DEAD: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 20);

pub enum WatchChange {
    Listed(Vec<Value>),
    Applied(Value),
    Gone(Value),
    Failed(RequestFailure),
}

pub trait WatchSink: Send {
    fn take(&mut self, change: WatchChange) -> impl Future<Output = bool> + Send;
}

pub(crate) type Wants = Box<dyn Fn(&Value) -> bool + Send + Sync>;

pub struct Followed {
    pub api: Api<DynamicObject>,
    pub detail: Detail,
    pub fields: Option<String>,
    pub wants: Option<Wants>,
}

impl Followed {
    /// Lists and watches until the sink wants no more.
    pub async fn follow(&self, connection: &Connection, sink: &mut impl WatchSink) {
        let mut pauses = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        loop {
            let failure = match self.list(connection).await {
                Ok((objects, version)) => {
                    if !sink.take(WatchChange::Listed(objects)).await {
                        return;
                    }
                    let began = tokio::time::Instant::now();
                    let failure = match self.watch(version, connection, sink).await {
                        WatchEnd::Closed => return,
                        WatchEnd::Expired => None,
                        WatchEnd::Failed(failure) => Some(failure),
                    };
                    pauses.reset_if_held(began.elapsed());
                    failure
                }
                Err(failure) => Some(failure),
            };
            if let Some(failure) = failure
                && !sink.take(WatchChange::Failed(failure)).await
            {
                return;
            }
            pauses.wait().await;
        }
    }

    pub(crate) fn request(&self) -> String {
        let url = self.api.resource_url();
        match &self.fields {
            Some(fields) => format!("{url} with {fields}"),
            None => url.to_owned(),
        }
    }

    async fn list(&self, connection: &Connection) -> Result<(Vec<Value>, String), RequestFailure> {
        let form = match self.detail {
            Detail::Full => ListForm::Objects,
            Detail::Metadata => ListForm::Metadata,
        };
        let fields = self.fields.as_deref().map(escaped);
        let query = fields.map_or_else(String::new, |fields| format!("&fieldSelector={fields}"));
        let bounds = ListBounds::of(ANSWER);
        let path = self.api.resource_url();
        let mut pages = Pages::new(path, &query, form, bounds, WhenExpired::Fail);
        let (mut objects, mut version) = (Vec::new(), String::new());
        loop {
            connection.wait().await;
            let Some(page) = pages.next_values(connection.client()).await? else {
                return Ok((objects, version));
            };
            for item in page.items {
                let object = serde_json::from_value::<DynamicObject>(item).map_err(unreadable)?;
                let object = slim(&object);
                let is_wanted =
                    |value: &Value| self.wants.as_ref().is_none_or(|wants| wants(value));
                objects.extend(object.filter(is_wanted));
            }
            version = page.version;
        }
    }

    async fn watch(
        &self,
        mut version: String,
        connection: &Connection,
        sink: &mut impl WatchSink,
    ) -> WatchEnd {
        let parameters = WatchParams {
            field_selector: self.fields.clone(),
            ..WatchParams::default().timeout(WATCH_SECONDS)
        };
        loop {
            let opened = match self.detail {
                Detail::Full => open(connection, self.api.watch(&parameters, &version)).await,
                Detail::Metadata => {
                    open(connection, self.api.watch_metadata(&parameters, &version)).await
                }
            };
            let mut stream = match opened {
                Ok(stream) => stream,
                Err(failure) if failure.is_gone() => return WatchEnd::Expired,
                Err(failure) => return WatchEnd::Failed(failure),
            };
            let began = tokio::time::Instant::now();
            loop {
                match timeout(DEAD, stream.next()).await {
                    // Silent, or ended by the server: continue where it was.
                    Err(_) | Ok(None) => break,
                    Ok(Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => {
                        remember(&mut version, &object);
                        if !sink.take(WatchChange::Applied(object)).await {
                            return WatchEnd::Closed;
                        }
                    }
                    Ok(Some(Ok(WatchEvent::Deleted(object)))) => {
                        remember(&mut version, &object);
                        if !sink.take(WatchChange::Gone(object)).await {
                            return WatchEnd::Closed;
                        }
                    }
                    Ok(Some(Ok(WatchEvent::Bookmark(bookmark)))) => {
                        version = bookmark.metadata.resource_version;
                    }
                    Ok(Some(Ok(WatchEvent::Error(status)))) => {
                        let failure = RequestFailure::from_error(&kube::Error::Api(status));
                        return if failure.is_gone() {
                            WatchEnd::Expired
                        } else {
                            WatchEnd::Failed(failure)
                        };
                    }
                    // A line that was cut off or cannot be read may have hidden a change: list again.
                    Ok(Some(Err(error))) => {
                        tracing::trace!("a watch broke: {}", explain(&error));
                        return WatchEnd::Expired;
                    }
                }
            }
            // If a server ends every watch at once, a pause and a new list keep this loop from spinning.
            if began.elapsed() < Duration::from_secs(5) {
                return WatchEnd::Expired;
            }
        }
    }
}

fn unreadable(error: serde_json::Error) -> RequestFailure {
    let why = redact::message(&error.to_string());
    RequestFailure::Other(format!("an object of the list cannot be read: {why}"))
}

enum WatchEnd {
    Closed,
    /// The version is too old, or the stream broke: list again.
    Expired,
    Failed(RequestFailure),
}

async fn open<K, S>(
    connection: &Connection,
    request: impl Future<Output = kube::Result<S>>,
) -> Result<BoxStream<'static, kube::Result<WatchEvent<Value>>>, RequestFailure>
where
    K: Clone + serde::Serialize + 'static,
    S: Stream<Item = kube::Result<WatchEvent<K>>> + Send + 'static,
{
    let stream = answer(connection, request).await?;
    Ok(stream.map(|event| event.map(plain)).boxed())
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

/// The object without its large fields, which no expression needs.
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

pub fn read_line(line: &[u8]) -> Option<Value> {
    match plain(serde_json::from_slice::<WatchEvent<DynamicObject>>(line).ok()?) {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            Some(object)
        }
        WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
    }
}

fn remember(version: &mut String, object: &Value) {
    if let Some(newer) = object["metadata"]["resourceVersion"].as_str() {
        newer.clone_into(version);
    }
}

pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
