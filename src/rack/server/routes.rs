//! The answers for each path. Every request has passed [`Access`](super::access::Access) before, except for `/healthz`.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, LOCATION,
};
use http::uri::Authority;
use http::{HeaderValue, Method, StatusCode};
use tokio::time::timeout;
use windrow_decide::why;
use windrow_rack::{LARGEST_REPORT, read_event};

use super::live::MOST_OF_ONE;
use super::pages::{PageKey, SharedPage};
use super::{HEAD, RackServer};
use crate::https::PeerConnection;
use crate::printable::{escaped, json_pretty};
use crate::rack::NotTaken;
use crate::render::{ChainFile, ChainLink, NodePage, node_page, policy, rack_page, rack_part};

type Server = State<Arc<RackServer>>;

/// All paths. A layer applies to the paths before it, and to unknown paths.
pub(super) fn routes(server: &Arc<RackServer>) -> Router {
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
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(server.clone(), guard))
        // It shows only that the program runs.
        .route("/healthz", get(healthz).fallback(wrong_method))
        .with_state(server.clone())
}

async fn healthz() -> Response {
    last(plain(StatusCode::OK, "ok"))
}

async fn wrong_method() -> Response {
    last(plain(
        StatusCode::METHOD_NOT_ALLOWED,
        "pages are read with GET, and events are sent with POST",
    ))
}

/// Points a client that speaks HTTP to HTTPS. A browser is redirected; it has sent no token yet.
pub(super) async fn speak_https(request: Request) -> Response {
    const WHY: &str = "this rack speaks HTTPS here: write https://";
    let host = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    let there = host.filter(|host| reads && !host.as_str().contains('@'));
    let there = there.and_then(|host| HeaderValue::from_str(&format!("https://{host}{path}")).ok());
    let Some(there) = there else {
        return last(plain(StatusCode::UPGRADE_REQUIRED, WHY));
    };
    let mut response = last(plain(StatusCode::PERMANENT_REDIRECT, WHY));
    response.headers_mut().insert(LOCATION, there);
    response
}

async fn guard(State(server): Server, request: Request, next: Next) -> Response {
    if let Some(refusal) = server.access.refusal(request.headers()) {
        return last(refusal);
    }
    if let Some(connection) = request.extensions().get::<PeerConnection>() {
        connection.prove();
    }
    next.run(request).await
}

async fn home(State(server): Server) -> Response {
    let (number, view) = server.hub.numbered_view();
    html(
        server
            .pages
            .get(PageKey::Rack, number, || Ok(rack_page(&view))),
    )
}

async fn part(State(server): Server) -> Response {
    let (number, view) = server.hub.numbered_view();
    html(
        server
            .pages
            .get(PageKey::RackPart, number, || Ok(rack_part(&view))),
    )
}

async fn document(State(server): Server) -> Response {
    let (number, view) = server.hub.numbered_view();
    let page = server.pages.get(PageKey::Document, number, || {
        json_pretty(&*view).map(|text| text + "\n")
    });
    match page {
        Ok(page) => shared("application/json", page),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// A path that is not text names no node.
type Id = Result<Path<String>, PathRejection>;

async fn node(State(server): Server, id: Id) -> Response {
    one_node(&server, id, PageKey::Node)
}

async fn node_part(State(server): Server, id: Id) -> Response {
    one_node(&server, id, PageKey::NodePart)
}

fn one_node(server: &RackServer, id: Id, key: fn(String) -> PageKey) -> Response {
    let (number, view) = server.hub.numbered_view();
    let Some(row) = id.ok().and_then(|Path(id)| view.node(&id)) else {
        return plain(StatusCode::NOT_FOUND, "there is no such node");
    };
    let key = key(row.id.clone());
    let part_alone = matches!(key, PageKey::NodePart(_));
    html(server.pages.get(key, number, || {
        let document = server.hub.document(row);
        let page = NodePage {
            row,
            view: &view,
            chain: document.as_deref().map(chain).unwrap_or_default(),
            document: document.as_deref().and_then(shown_document),
        };
        Ok(node_page(&page, part_alone))
    }))
}

/// The waiting files of a node, and their dependencies. Empty if this version cannot read a newer node's document.
fn chain(document: &[u8]) -> Vec<ChainFile> {
    /// Most files on the page.
    const MOST: usize = 50;
    let Ok(status) = serde_json::from_slice::<windrow_decide::Status>(document) else {
        return Vec::new();
    };
    let held = status.staging.held.iter().map(|file| &file.file);
    let failed = status.staging.failed.iter().map(|file| &file.file);
    let files = why::explain_needs(&status, failed.chain(held).take(MOST)).into_iter();
    let files = files.map(|file| ChainFile {
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
    });
    files.collect()
}

/// A document for a page, indented; a long one is shown in part, and says so.
fn shown_document(document: &[u8]) -> Option<String> {
    /// Longest text of it, in bytes.
    const LONGEST: usize = 512 << 10;
    let mut out = FirstBytes {
        bytes: Vec::new(),
        most: LONGEST,
    };
    let value: serde_json::Value = serde_json::from_slice(document).ok()?;
    let written = serde_json::to_writer_pretty(&mut out, &value);
    let mut text = escaped(String::from_utf8_lossy(&out.bytes).into_owned());
    if written.is_err() {
        text.push_str("\n… It is longer than 512 KiB: ask the node for the rest.");
    }
    Some(text)
}

/// Keeps the first bytes that are written.
struct FirstBytes {
    bytes: Vec<u8>,
    most: usize,
}

impl std::io::Write for FirstBytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = self.most - self.bytes.len();
        if room == 0 {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        let taken = bytes.len().min(room);
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn event(
    State(server): Server,
    Extension(peer): Extension<PeerConnection>,
    request: Request,
) -> Response {
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
    let announced = server
        .announced
        .as_ref()
        .map(|asked| (asked, report.clone()));
    match server.hub.take(report).await {
        Ok(()) => {
            if let Some((asked, report)) = announced {
                asked.hear(&server.hub, &report, peer.address);
            }
            plain(StatusCode::ACCEPTED, "taken")
        }
        Err(NotTaken::Full(why)) => plain(StatusCode::TOO_MANY_REQUESTS, &why),
        Err(NotTaken::NotKept(why)) => plain(StatusCode::SERVICE_UNAVAILABLE, &why),
    }
}

async fn live(State(server): Server, Extension(peer): Extension<PeerConnection>) -> Response {
    match server.live.begin(peer.address) {
        Some(stream) => answer(
            StatusCode::OK,
            "text/event-stream",
            stream.into_body(server.hub.changes()),
        ),
        None => plain(
            StatusCode::TOO_MANY_REQUESTS,
            &format!("{MOST_OF_ONE} live pages are open at this address already: close one"),
        ),
    }
}

/// The last answer on its connection: a client without the token keeps none.
fn last(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

fn shared(kind: &'static str, page: SharedPage) -> Response {
    let length = HeaderValue::from(page.length);
    let mut response = answer(StatusCode::OK, kind, page.into_body());
    response.headers_mut().insert(CONTENT_LENGTH, length);
    response
}

fn html(page: Result<SharedPage, Infallible>) -> Response {
    let page = page.unwrap_or_else(|never| match never {});
    let mut response = shared("text/html; charset=utf-8", page);
    if let Ok(policy) = HeaderValue::from_str(&policy()) {
        let headers = response.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

pub(super) fn plain(status: StatusCode, text: &str) -> Response {
    answer(
        status,
        "text/plain; charset=utf-8",
        Body::from(format!("{text}\n")),
    )
}

fn answer(status: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
