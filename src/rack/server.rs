//! The rack's HTTP server: takes events, serves the pages and the JSON.
//!
//! Everything that a peer can do is bounded: connections, how often it connects, heads, bodies, times. Without a token it
//! serves this machine alone, and only under this machine's own names: a page of somebody else's cannot read it through a
//! browser here.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use base64::Engine as _;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use windrow_rack::{LARGEST_REPORT, read_event};

use super::{Hub, NotTaken};
use crate::backoff::Backoff;
use crate::locked::lock;
use crate::printable::json_pretty;
use crate::render::{ChainFile, ChainLink, NodePage, node_page, policy, rack_page, rack_part};
use crate::report::server::shared::{
    ConnectionBounds, ConnectionLimits, Peer, SharedToken, shows_token,
};
use crate::report::why;

/// For a request's head, and for its body.
const HEAD: Duration = Duration::from_secs(10);
/// Longest connection: browsers begin a new one by themselves.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// Largest head, in bytes and in lines.
const HEAD_BYTES: usize = 16 << 10;
const HEADERS: usize = 48;
/// Pauses where no connection can be accepted.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// A thousand nodes behind one router are one peer.
const BOUNDS: ConnectionBounds = ConnectionBounds {
    connections: 1024,
    of_one: 512,
    at_once: 2000.0,
    a_second: 1000.0,
};
/// Live events come no closer than this, and a view is drawn again after that long: ages go on.
const BETWEEN: Duration = Duration::from_secs(1);
const AGES: Duration = Duration::from_secs(20);

/// Who may ask.
pub(crate) enum Access {
    /// Whoever reaches this machine's loopback.
    Loopback,
    /// Who shows the token.
    Token(SharedToken),
}

pub(crate) struct RackServer {
    hub: Arc<Hub>,
    access: Access,
    limits: Mutex<ConnectionLimits>,
    start: Instant,
}

type Server = State<Arc<RackServer>>;

impl RackServer {
    pub(crate) fn new(hub: Arc<Hub>, access: Access) -> Arc<Self> {
        Arc::new(Self {
            hub,
            access,
            limits: Mutex::new(ConnectionLimits::new(BOUNDS)),
            start: Instant::now(),
        })
    }

    /// Serves until it is dropped.
    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener) {
        let routes = routes(&self);
        let mut connections = JoinSet::new();
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            let Ok((stream, peer)) = accepted else {
                // Out of file descriptors, most likely: trying at once would spin.
                backoff.wait().await;
                continue;
            };
            backoff.reset();
            let peer = Peer::from(peer.ip());
            if lock(&self.limits).admit(peer, self.start.elapsed()) {
                let (server, routes) = (self.clone(), routes.clone());
                connections.spawn(async move {
                    let _here = Open(server, peer);
                    serve(stream, routes).await;
                });
            }
        }
    }

    /// What is answered to who has no right to ask.
    fn refusal(&self, headers: &HeaderMap) -> Option<Response> {
        let token = match &self.access {
            Access::Loopback if is_own_name(headers) => return None,
            Access::Loopback => {
                return Some(plain(
                    StatusCode::FORBIDDEN,
                    "without a token it answers under 127.0.0.1, [::1] and localhost alone",
                ));
            }
            Access::Token(token) => token.get(),
        };
        let why = match token {
            Ok(token) if shows_token(headers, &token) || shows_password(headers, &token) => {
                return None;
            }
            Ok(_) => "show the token: Authorization: Bearer …, or as the password".to_owned(),
            Err(why) => why,
        };
        let mut response = plain(StatusCode::UNAUTHORIZED, &why);
        // A browser asks for a password: any name will do.
        let realm = HeaderValue::from_static("Basic realm=\"windrow rack\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, realm);
        Some(response)
    }
}

/// A connection counts while this exists.
struct Open(Arc<RackServer>, Peer);

impl Drop for Open {
    fn drop(&mut self) {
        lock(&self.0.limits).leave(self.1);
    }
}

async fn serve(stream: TcpStream, routes: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_headers(HEADERS)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    // These errors are the peer's.
    let _ = timeout(LONGEST, connection).await;
}

/// All paths. A layer holds for the paths that stand before it, and for those that there are not.
fn routes(server: &Arc<RackServer>) -> Router {
    Router::new()
        .route("/", get(home))
        .route("/part", get(part))
        .route("/live", get(live))
        .route("/rack.json", get(document))
        .route("/nodes/{id}", get(node))
        .route("/nodes/{id}/part", get(node_part))
        .route("/events", post(event))
        .fallback(async || {
            plain(
                StatusCode::NOT_FOUND,
                "there are /, /rack.json, /nodes/… and /events",
            )
        })
        .layer(from_fn_with_state(server.clone(), guard))
        // It shows only that the program runs.
        .route("/healthz", get(async || plain(StatusCode::OK, "ok")))
        .with_state(server.clone())
}

async fn guard(State(server): Server, request: Request, next: Next) -> Response {
    match server.refusal(request.headers()) {
        None => next.run(request).await,
        Some(refusal) => refusal,
    }
}

async fn home(State(server): Server) -> Response {
    html(rack_page(&server.hub.view()))
}

async fn part(State(server): Server) -> Response {
    html(rack_part(&server.hub.view()))
}

async fn document(State(server): Server) -> Response {
    match json_pretty(&*server.hub.view()) {
        Ok(text) => answer(StatusCode::OK, "application/json", Body::from(text + "\n")),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn node(State(server): Server, Path(id): Path<String>) -> Response {
    one_node(&server, &id, false)
}

async fn node_part(State(server): Server, Path(id): Path<String>) -> Response {
    one_node(&server, &id, true)
}

fn one_node(server: &RackServer, id: &str, part_alone: bool) -> Response {
    let view = server.hub.view();
    let Some(row) = view.node(id) else {
        return plain(StatusCode::NOT_FOUND, "there is no such node");
    };
    let document = server.hub.document(&row.host);
    let page = NodePage {
        row,
        view: &view,
        chain: document.as_deref().map(chain).unwrap_or_default(),
        document: document.and_then(|document| json_pretty(&*document).ok()),
    };
    html(node_page(&page, part_alone))
}

/// The files of a node that wait, and for what. A newer node's document may not be read here: then there are none.
fn chain(document: &serde_json::Value) -> Vec<ChainFile> {
    /// Most files that are shown.
    const MOST: usize = 50;
    let Ok(status) = serde_json::from_value::<windrow_decide::Status>(document.clone()) else {
        return Vec::new();
    };
    let held = status.staging.held.iter().map(|file| file.file.as_str());
    let failed = status.staging.failed.iter().map(|file| file.file.as_str());
    let mut files: Vec<ChainFile> = Vec::new();
    for asked in failed.chain(held).take(MOST) {
        let Some(answer) = why::explain(&status, asked, std::path::Path::new("")) else {
            continue;
        };
        files.extend(
            answer
                .files
                .into_iter()
                .filter(|file| file.file.as_str() == asked)
                .map(|file| ChainFile {
                    file: file.file.to_string(),
                    state: file.state.to_owned(),
                    why: file.why,
                    links: file
                        .waits_for
                        .into_iter()
                        .map(|one| ChainLink {
                            what: format!("{} {}", one.blocker.what, one.blocker.condition),
                            message: one.blocker.message,
                            root: one.root,
                            brought_by: one
                                .blocker
                                .brought_by
                                .map(|file| file.to_string())
                                .unwrap_or_default(),
                        })
                        .collect(),
                }),
        );
    }
    files
}

async fn event(State(server): Server, request: Request) -> Response {
    // A form of another page can send no JSON without the browser asking first.
    let kind = request.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    if !matches!(
        kind.as_str(),
        "application/cloudevents+json" | "application/json"
    ) {
        return plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send a CloudEvent in structured JSON: application/cloudevents+json",
        );
    }
    let body = match timeout(HEAD, to_bytes(request.into_body(), LARGEST_REPORT)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return plain(StatusCode::PAYLOAD_TOO_LARGE, "an event has 64 KiB at most"),
        Err(_) => {
            return plain(
                StatusCode::REQUEST_TIMEOUT,
                "the event did not come within 10 s",
            );
        }
    };
    let report = match read_event(&body, server.hub.now()) {
        Ok(report) => report,
        Err(wrong) => return plain(StatusCode::BAD_REQUEST, &wrong.join("\n")),
    };
    match server.hub.take(report).await {
        Ok(()) => plain(StatusCode::ACCEPTED, "taken"),
        Err(NotTaken::Full(why)) => plain(StatusCode::TOO_MANY_REQUESTS, &why),
        Err(NotTaken::NotKept(why)) => plain(StatusCode::SERVICE_UNAVAILABLE, &why),
    }
}

/// Server-sent events: a message whenever there is something new to fetch.
async fn live(State(server): Server) -> Response {
    let mut changes = server.hub.changes();
    changes.mark_unchanged();
    let messages = futures::stream::unfold((changes, true), |(mut changes, first)| async move {
        if !first {
            tokio::time::sleep(BETWEEN).await;
            match timeout(AGES, changes.changed()).await {
                Ok(Ok(())) | Err(_) => {}
                Ok(Err(_)) => return None,
            }
        }
        let generation = *changes.borrow_and_update();
        let message = Bytes::from(format!("retry: 2000\ndata: {generation}\n\n"));
        Some((Ok::<_, Infallible>(message), (changes, false)))
    });
    answer(
        StatusCode::OK,
        "text/event-stream",
        Body::from_stream(messages),
    )
}

fn html(page: String) -> Response {
    answer(StatusCode::OK, "text/html; charset=utf-8", Body::from(page))
}

fn plain(status: StatusCode, text: &str) -> Response {
    answer(
        status,
        "text/plain; charset=utf-8",
        Body::from(format!("{text}\n")),
    )
}

fn answer(status: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Ok(policy) = HeaderValue::from_str(&policy()) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// Is it asked under a name of this machine's loopback?
fn is_own_name(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let Some(host) = host else { return false };
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Is the token shown as the password of Basic authentication? That is how a browser shows it.
fn shows_password(headers: &HeaderMap, token: &str) -> bool {
    let shown = headers
        .get(AUTHORIZATION)
        .and_then(|shown| shown.to_str().ok());
    let encoded = shown.and_then(|shown| {
        let (scheme, encoded) = shown.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("basic")
            .then_some(encoded.trim())
    });
    let decoded = encoded.and_then(|encoded| {
        base64::engine::general_purpose::STANDARD
            .decode(encoded)
            .ok()
    });
    let password = decoded.and_then(|decoded| {
        let text = String::from_utf8(decoded).ok()?;
        Some(text.split_once(':')?.1.to_owned())
    });
    let Some(value) =
        password.and_then(|password| HeaderValue::from_str(&format!("Bearer {password}")).ok())
    else {
        return false;
    };
    let mut bearer = HeaderMap::new();
    bearer.insert(AUTHORIZATION, value);
    shows_token(&bearer, token)
}
