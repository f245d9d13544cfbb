//! The paths, their access rules, and their answers. A new path is a line in [`routes`].

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode};
use tokio::time::timeout;

use super::StatusService;
use super::request::{RefusedRequest, StatusRequest, parse_query};
use crate::https::{PeerConnection, Token, shows_token};
use crate::report::metrics::TextFormat;

type Server = State<Arc<StatusService>>;

/// All paths. A layer applies to the paths before it, and to unknown paths.
pub(super) fn routes(server: &Arc<StatusService>) -> Router {
    Router::new()
        .route("/status", get(status))
        .fallback(not_found)
        .layer(from_fn_with_state(server.clone(), require_token))
        .merge(metrics_routes(server))
        // It shows only that the program runs: no token.
        .route("/healthz", get(async || plain(StatusCode::OK, "ok")))
        .layer(from_fn(only_get))
        .with_state(server.clone())
}

/// `/metrics`, if it is on. Otherwise its path does not exist.
fn metrics_routes(server: &Arc<StatusService>) -> Router<Arc<StatusService>> {
    match server.settings.metrics {
        Some(_) => Router::new()
            .route("/metrics", get(metrics))
            .layer(from_fn_with_state(server.clone(), require_some_token)),
        None => Router::new(),
    }
}

async fn only_get(request: Request, next: Next) -> Response {
    if request.method() == Method::GET {
        return next.run(request).await;
    }
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered");
    let allowed = HeaderValue::from_static("GET");
    response.headers_mut().insert(ALLOW, allowed);
    response
}

/// While the server has no token, it refuses every request.
async fn require_token(State(server): Server, request: Request, next: Next) -> Response {
    admit(shows(&request, Some(&server.token)), request, next).await
}

/// The token of the status, or the one that is only for `/metrics`.
async fn require_some_token(State(server): Server, request: Request, next: Next) -> Response {
    // Both are compared, no matter which one is presented.
    let shown =
        shows(&request, Some(&server.token)) | shows(&request, server.scrape_token.as_ref());
    admit(shown, request, next).await
}

async fn admit(shown: bool, request: Request, next: Next) -> Response {
    if !shown {
        return unauthorized();
    }
    if let Some(connection) = request.extensions().get::<PeerConnection>() {
        connection.prove();
    }
    next.run(request).await
}

fn shows(request: &Request, token: Option<&Token>) -> bool {
    let token = token.and_then(|token| token.get().ok());
    token.is_some_and(|token| shows_token(request.headers(), &token))
}

fn unauthorized() -> Response {
    let mut response = plain(
        StatusCode::UNAUTHORIZED,
        "show the node's token: Authorization: Bearer …",
    );
    let realm = HeaderValue::from_static("Bearer realm=\"windrow\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, realm);
    response
}

async fn metrics(State(server): Server, request: Request) -> Response {
    let mut accepted = request.headers().get_all(ACCEPT).iter();
    let accepted = accepted.find_map(|one| {
        let format = TextFormat::accepted(one.to_str().ok()?);
        (format == TextFormat::OpenMetrics).then_some(format)
    });
    let format = accepted.unwrap_or(TextFormat::Prometheus);
    match server.metrics.text(format) {
        Ok(text) => response(StatusCode::OK, format.content_type(), Body::from(text)),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn not_found() -> Response {
    plain(
        StatusCode::NOT_FOUND,
        "there are /status, /healthz and, where it is switched on, /metrics",
    )
}

async fn status(State(server): Server, RawQuery(query): RawQuery) -> Response {
    match parse_query(query.as_deref().unwrap_or_default()) {
        Ok(StatusRequest::Now) => document(&server),
        Ok(StatusRequest::Change { from, wait }) => change(&server, from, wait).await,
        Err(RefusedRequest(why)) => plain(StatusCode::BAD_REQUEST, why),
    }
}

/// The document once its generation differs from `from`; 304 if it does not within `wait`.
async fn change(server: &StatusService, from: u64, wait: Duration) -> Response {
    let mut status = server.status.clone();
    let changed = status.wait_for(|status| {
        status
            .as_ref()
            .is_some_and(|status| status.generation != from)
    });
    let changed = timeout(wait, changed).await.is_ok();
    match changed {
        true => document(server),
        false => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
    }
}

fn document(server: &StatusService) -> Response {
    let Some(status) = server.status.borrow().clone() else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "there is no status yet");
    };
    match status.text() {
        Ok(text) => {
            let bytes = Bytes::from_owner(Arc::<[u8]>::from(text));
            response(StatusCode::OK, "application/json", Body::from(bytes))
        }
        Err(why) => plain(StatusCode::INTERNAL_SERVER_ERROR, &why),
    }
}

fn plain(status: StatusCode, text: &str) -> Response {
    let body = Body::from(format!("{text}\n"));
    response(status, "text/plain; charset=utf-8", body)
}

fn response(status: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
