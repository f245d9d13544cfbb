//! A rack on real sockets: the events of nodes, the answers to browsers and scripts, and its polling.

mod asked;
mod hostile;

use std::time::Duration;

use jiff::Timestamp;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use windrow_rack::{Inventory, RackWord};

use super::server::{Access, RackServer};
use super::*;
use crate::https::{Certificate, CertificateFiles, Token};

const TOKEN: &str = "0123456789abcdef";
/// Far longer than anything takes: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(600);

struct Served {
    hub: Arc<Hub>,
    url: String,
    port: u16,
    task: JoinHandle<()>,
    _directory: tempfile::TempDir,
}

impl Served {
    async fn new(with_token: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let hub = Hub::new(Inventory::default(), None, Timestamp::now).unwrap();
        let access = match with_token {
            false => Access::Loopback,
            true => {
                let path = directory.path().join("token");
                crate::files::replace(
                    &path,
                    TOKEN.as_bytes(),
                    0o600,
                    crate::files::Durability::Volatile,
                )
                .unwrap();
                Access::Token(Token::new(vec![path]))
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(RackServer::new(hub.clone(), access, None, None).run(listener));
        Self {
            hub,
            url: format!("http://127.0.0.1:{port}"),
            port,
            task,
            _directory: directory,
        }
    }

    async fn get(&self, path: &str) -> reqwest::Response {
        client()
            .get(format!("{}{path}", self.url))
            .send()
            .await
            .unwrap()
    }

    async fn post(&self, kind: &str, body: String) -> (u16, String) {
        let request = client()
            .post(format!("{}/events", self.url))
            .header("content-type", kind);
        let answer = request.body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

const CLOUD_EVENT: &str = "application/cloudevents+json";

fn event(host: &str, sequence: u64, readiness: &str) -> String {
    json!({
        "specversion": "1.0", "id": format!("{host}-{sequence}"), "type": "dev.windrow.node.phase",
        "data": {"hostname": host, "bootId": "b", "sequence": sequence, "uptimeSeconds": 60, "readiness": readiness, "phase": "api"},
    })
    .to_string()
}

#[tokio::test]
async fn an_event_is_on_the_page_and_in_the_json_and_what_is_wrong_is_said() {
    let rack = Served::new(false).await;
    assert!(
        rack.get("/")
            .await
            .text()
            .await
            .unwrap()
            .contains("No node has reported")
    );
    let taken = rack.post(CLOUD_EVENT, event("n1", 1, "SettingUp")).await;
    assert_eq!(taken, (202, "taken\n".to_owned()));
    let page = rack.get("/").await;
    let policy = page.headers()["content-security-policy"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(page.text().await.unwrap().contains("href=\"/nodes/n1\""));
    let text = rack.get("/rack.json").await.text().await.unwrap();
    let view: RackView = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (view.nodes[0].name.as_str(), view.nodes[0].word),
        ("n1", RackWord::SettingUp)
    );
    assert!(
        rack.get("/nodes/n1")
            .await
            .text()
            .await
            .unwrap()
            .contains("Steps of this boot")
    );
    assert_eq!(
        rack.get("/nodes/other").await.status(),
        StatusCode::NOT_FOUND
    );
    assert_eq!(rack.get("/other").await.status(), StatusCode::NOT_FOUND);
    assert_eq!(rack.get("/healthz").await.text().await.unwrap(), "ok\n");
    let (status, why) = rack.post(CLOUD_EVENT, "{\"data\": {}}".to_owned()).await;
    assert_eq!(status, 400);
    assert!(
        why.contains("specversion") && why.contains("id: write"),
        "{why}"
    );
    assert_eq!(
        rack.post("text/plain", event("n1", 2, "Ready")).await.0,
        415
    );
    assert_eq!(rack.post(CLOUD_EVENT, " ".repeat(70_000)).await.0, 413);
    assert_eq!(
        rack.get("/events").await.status(),
        StatusCode::METHOD_NOT_ALLOWED
    );
}

#[tokio::test]
async fn without_a_token_it_answers_under_this_machines_names_alone() {
    let rack = Served::new(false).await;
    let ask = async |host: String| {
        let request = client()
            .get(format!("{}/rack.json", rack.url))
            .header("host", host);
        request.send().await.unwrap().status()
    };
    for own in ["localhost", "127.0.0.1", "[::1]"] {
        assert_eq!(
            ask(format!("{own}:{}", rack.port)).await,
            StatusCode::OK,
            "{own}"
        );
        assert_eq!(ask(own.to_owned()).await, StatusCode::OK, "{own}");
    }
    for other in [
        "evil.example",
        "localhost.evil.example",
        "10.0.0.1:80",
        "127.0.0.1.evil.example:1",
    ] {
        assert_eq!(
            ask(other.to_owned()).await,
            StatusCode::FORBIDDEN,
            "{other}"
        );
    }
}

#[tokio::test]
async fn with_a_token_everything_but_the_health_wants_it() {
    let rack = Served::new(true).await;
    let paths = [
        "/",
        "/part",
        "/live",
        "/rack.json",
        "/nodes/x",
        "/nodes/x/part",
        "/other",
    ];
    for path in paths {
        let answer = rack.get(path).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
        assert!(
            answer.headers()["www-authenticate"]
                .to_str()
                .unwrap()
                .starts_with("Basic")
        );
    }
    assert_eq!(rack.post(CLOUD_EVENT, event("n1", 1, "Ready")).await.0, 401);
    assert_eq!(rack.get("/healthz").await.status(), StatusCode::OK);
    let url = format!("{}/rack.json", rack.url);
    for (request, expected) in [
        (client().get(&url).bearer_auth(TOKEN), StatusCode::OK),
        (
            client().get(&url).basic_auth("any", Some(TOKEN)),
            StatusCode::OK,
        ),
        (
            client().get(&url).bearer_auth("0123456789abcdee"),
            StatusCode::UNAUTHORIZED,
        ),
        (
            client().get(&url).basic_auth(TOKEN, Some("")),
            StatusCode::UNAUTHORIZED,
        ),
        (
            client().get(&url).header("authorization", "Basic %%%"),
            StatusCode::UNAUTHORIZED,
        ),
    ] {
        assert_eq!(request.send().await.unwrap().status(), expected);
    }
    assert!(rack.hub.view().nodes.is_empty());
}

#[tokio::test]
async fn a_browser_hears_of_every_change() {
    let rack = Served::new(false).await;
    let mut live = rack.get("/live").await;
    assert_eq!(live.headers()["content-type"], "text/event-stream");
    let mut next = async || {
        let chunk = tokio::time::timeout(DEADLINE, live.chunk()).await.unwrap();
        String::from_utf8(chunk.unwrap().unwrap().to_vec()).unwrap()
    };
    let first = next().await;
    assert!(first.contains("data: 0\n\n"), "{first}");
    rack.post(CLOUD_EVENT, event("n1", 1, "SettingUp")).await;
    let second = next().await;
    assert!(second.contains("data: 1\n\n"), "{second}");
}

#[tokio::test]
async fn what_was_taken_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        loop {
            match store::Store::open(directory.path(), Timestamp::now()) {
                Ok(opened) => {
                    break Hub::new(Inventory::default(), Some(opened), Timestamp::now).unwrap();
                }
                // The thread of the previous store has not ended yet.
                Err(store::StoreError::InUse(_)) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    };
    let hub = open();
    for sequence in 1..4 {
        let event = event("n1", sequence, "SettingUp");
        let report = windrow_rack::read_event(event.as_bytes(), Timestamp::now()).unwrap();
        hub.take(report).await.unwrap();
    }
    // Another node's event under an existing id.
    let other = event("n1", 3, "Ready").replace(r#""hostname":"n1""#, r#""hostname":"n2""#);
    let report = windrow_rack::read_event(other.as_bytes(), Timestamp::now()).unwrap();
    hub.take(report).await.unwrap();
    let before = hub.view();
    drop(hub);
    let after = open().view();
    assert_eq!(after.nodes.len(), 2);
    assert_eq!(before.nodes[0].phases, after.nodes[0].phases);
    assert_eq!(before.nodes[0].heard, after.nodes[0].heard);
}

/// A server with its own certificate, in memory.
async fn https() -> (u16, JoinHandle<()>) {
    let hub = Hub::new(Inventory::default(), None, Timestamp::now).unwrap();
    let files = CertificateFiles {
        source: windrow_decide::CertificateSource::Configured,
        pairs: Vec::new(),
        own: None,
    };
    let names = Arc::new(|| vec!["127.0.0.1".to_owned()]);
    let certificate = Certificate::new(files, names);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = RackServer::new(hub, Access::Loopback, Some(certificate), None);
    (port, tokio::spawn(server.run(listener)))
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_ended_and_holds_up_nobody() {
    let (port, task) = https().await;
    let mut hanging = Vec::new();
    // Nothing at all, and the beginning of a handshake that goes no further.
    for begun in [&b""[..], &b"\x16"[..], &b"\x16\x03\x01\x02\x00\x01"[..]] {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .unwrap();
        stream.write_all(begun).await.unwrap();
        hanging.push(stream);
    }
    for mut stream in hanging {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(!String::from_utf8_lossy(&rest).contains("HTTP"));
    }
    task.abort();
}

#[tokio::test]
async fn whoever_shows_no_token_keeps_no_connection() {
    let rack = Served::new(true).await;
    let (secure, task) = https().await;
    for (port, request) in [
        (rack.port, "GET / HTTP/1.1"),
        (rack.port, "GET /healthz HTTP/1.1"),
        (rack.port, "GET /other HTTP/1.1"),
        (secure, "GET / HTTP/1.1"),
        (secure, "POST /events HTTP/1.1"),
    ] {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .unwrap();
        let head = format!("{request}\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let before = std::time::Instant::now();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("connection: close"), "{request}: {answer}");
        // A kept connection is closed after ten seconds without a request.
        assert!(before.elapsed() < Duration::from_secs(9), "{request}");
    }
    task.abort();
}
