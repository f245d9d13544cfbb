//! Against servers that answer watches badly.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response, StatusCode};
use kube::Client;
use kube::api::ApiResource;
use kube::client::Body;

use super::*;

const LIST: &str = r#"{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
    "metadata": {"resourceVersion": "5"}, "items": []}"#;
const TOO_OLD: &str = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure",
    "reason": "Expired", "message": "too old resource version", "code": 410}"#;

/// Lists are answered; each watch gets this status and body. Also returns the counter of watches.
fn client(status: u16, body: String, watches: Arc<AtomicUsize>) -> Client {
    let answer = move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let (status, body) = match query.contains("watch=true") {
            true => {
                watches.fetch_add(1, Ordering::Relaxed);
                (status, body.clone())
            }
            false => (200, LIST.to_owned()),
        };
        async move {
            let mut response = Response::new(Body::from(body.into_bytes()));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok::<_, Infallible>(response)
        }
    };
    Client::new(tower::service_fn(answer), "default")
}

struct InWords {
    watches: Arc<AtomicUsize>,
    said: Vec<String>,
}

impl WatchSink for InWords {
    async fn take(&mut self, change: WatchChange) -> bool {
        self.said.push(match change {
            WatchChange::Listed(_) => {
                let watches = self.watches.load(Ordering::Relaxed);
                format!("listed after {watches} watches")
            }
            WatchChange::Failed(failure) => failure.to_string(),
            WatchChange::Applied(_) | WatchChange::Gone(_) => "a change".to_owned(),
        });
        let lists = self.said.iter().filter(|said| said.starts_with("listed"));
        lists.count() < 2
    }
}

async fn seen(status: u16, body: &str) -> Vec<String> {
    let watches = Arc::new(AtomicUsize::new(0));
    let client = client(status, body.to_owned(), watches.clone());
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    let followed = Followed {
        api: Api::all_with(client.clone(), &resource),
        detail: Detail::Metadata,
        fields: None,
        wants: None,
    };
    let mut sink = InWords {
        watches,
        said: Vec::new(),
    };
    followed
        .follow(&Connection::with_client(client), &mut sink)
        .await;
    sink.said
}

const LISTED_AGAIN: [&str; 2] = ["listed after 0 watches", "listed after 1 watches"];

#[tokio::test]
async fn a_watch_that_ends_at_once_is_opened_once_for_each_list() {
    assert_eq!(seen(200, "").await, LISTED_AGAIN);
    let cut_off = r#"{"type": "ADDED", "obj"#;
    assert_eq!(seen(200, cut_off).await, LISTED_AGAIN);
}

#[tokio::test]
async fn a_version_that_is_too_old_is_no_failure_and_leads_to_a_new_list() {
    assert_eq!(seen(410, TOO_OLD).await, LISTED_AGAIN);
    let status = TOO_OLD.replace('\n', "");
    let event = format!(r#"{{"type": "ERROR", "object": {status}}}"#);
    assert_eq!(seen(200, &format!("{event}\n")).await, LISTED_AGAIN);
}

#[tokio::test]
async fn a_watch_that_is_refused_is_a_failure_with_its_reason() {
    let refusal = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": "Forbidden", "message": "no", "code": 403}"#;
    let failed = "403: no";
    assert_eq!(
        seen(403, refusal).await,
        [LISTED_AGAIN[0], failed, LISTED_AGAIN[1]]
    );
}
