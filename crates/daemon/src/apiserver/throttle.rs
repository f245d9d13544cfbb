//! The gate for requests before they are sent: how many there may be at once, and for how long the server asks for a
//! pause. Both count for all who ask the same server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use kube::client::Body;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt as _};

use super::connection::Http;
use crate::locked::lock;

/// Requests to one server at once; watches, which last, are not counted among them. At a node's start
/// every object that something waits for is listed, and every probe asks: kube-apiserver has others to
/// serve then. A request that hangs gives its turn back when its caller's time is over.
pub(super) const AT_ONCE: usize = 8;
/// No longer than this: one wrong answer must not blind the node. Probes ask every 10 s, and after three questions that
/// were not sent they know nothing.
const LONGEST: Duration = Duration::from_secs(15);

/// kube-apiserver's own health waits for no turn: its silence means that it is down, and waiting here would look like silence. It serves
/// health checks even when it limits all other requests.
const HEALTH: &str = "/readyz";

pub(super) struct Throttle {
    /// The end of the pause that it asks for: the `Retry-After` of its answers 429 and 503, in seconds.
    until: Mutex<Option<Instant>>,
    turns: Semaphore,
}

impl Default for Throttle {
    fn default() -> Self {
        Self {
            until: Mutex::default(),
            turns: Semaphore::new(AT_ONCE),
        }
    }
}

impl Throttle {
    pub(super) fn heard(&self, status: StatusCode, headers: &HeaderMap) {
        if !matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        ) {
            return;
        }
        let seconds = headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.trim().parse().ok());
        if let Some(seconds) = seconds {
            let until = Instant::now() + Duration::from_secs(seconds).min(LONGEST);
            // Another answer may ask for longer.
            let mut known = lock(&self.until);
            *known = (*known).max(Some(until));
        }
    }

    pub(super) fn left(&self) -> Duration {
        let until = *lock(&self.until);
        until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }

    pub(super) async fn wait(&self) {
        let left = self.left();
        if !left.is_zero() {
            tokio::time::sleep(left).await;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests except watches.
    pub requests: u64,
    pub watches: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    requests: AtomicU64,
    watches: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> RequestCounts {
        RequestCounts {
            requests: self.requests.load(Ordering::Relaxed),
            watches: self.watches.load(Ordering::Relaxed),
        }
    }

    fn count(&self, watches: bool) {
        let counter = match watches {
            true => &self.watches,
            false => &self.requests,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Puts a throttle and the counters before HTTP. A caller that gives up its answer gives up its place here, too.
pub(super) fn before(
    http: Http,
    throttle: Arc<Throttle>,
    counters: Arc<Counters>,
) -> impl Service<Request<Body>, Response = Response<Incoming>, Error = BoxError, Future: Send> + Send
{
    tower::service_fn(move |request: Request<Body>| {
        let (http, throttle, counters) = (http.clone(), throttle.clone(), counters.clone());
        async move {
            let watches = is_watch(&request);
            let asks_for_health = request.uri().path() == HEALTH;
            let turn = if watches || asks_for_health {
                None
            } else {
                // It is never closed.
                throttle.turns.acquire().await.ok()
            };
            if !asks_for_health {
                throttle.wait().await;
            }
            counters.count(watches);
            let answer = http.oneshot(request).await;
            drop(turn);
            if let Ok(answer) = &answer {
                throttle.heard(answer.status(), answer.headers());
            }
            answer
        }
    })
}

/// Whether it is a watch, whose answer goes on.
fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .any(|field| matches!(field, "watch" | "watch=1" | "watch=true"))
}
