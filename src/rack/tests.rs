//! A rack on real sockets: what nodes send, what browsers and scripts get, whom it asks.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::StatusCode;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use windrow_model::manifest::sha256_hex;
use windrow_rack::{Inventory, RackWord};

use super::announced::{Announced, AskAnnounced};
use super::ask::{AskWith, AskedServer};
use super::server::{Access, RackServer};
use super::*;
use crate::https::{Certificate, CertificateFiles, Token};
use crate::testing::server;

const TOKEN: &str = "0123456789abcdef";
/// Far longer than anything takes: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(600);

/// A rack that serves; it ends with its owner.
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
            .contains("Nothing was heard")
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
            .contains("Phases of this boot")
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
                // The thread of the one before has not ended yet.
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
    // Another node's event under an id that was there.
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

/// A node's status server, which answers everything with this document.
async fn node(document: Value) -> (AskedServer, mpsc::UnboundedReceiver<String>, JoinHandle<()>) {
    node_with(document.to_string()).await
}

async fn node_with(body: String) -> (AskedServer, mpsc::UnboundedReceiver<String>, JoinHandle<()>) {
    let (tls, pem) = server::certificate("node.example");
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let (log, requests) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, task) = server::start(listener, Some(tls), move |mut stream| {
        let (log, body) = (log.clone(), body.clone());
        async move {
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap_or_default();
            let _ = log.send(String::from_utf8_lossy(&head[..read]).into_owned());
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    let server = AskedServer {
        url: format!("{url}/status"),
        fingerprint: sha256_hex(&der),
        identity: None,
    };
    (server, requests, task)
}

#[tokio::test]
async fn a_node_is_asked_under_its_own_certificate_alone() {
    let document = json!({"kind": "Status", "host": "n1", "generation": 7, "readiness": "Ready", "phase": "ready"});
    let (server, mut requests, task) = node(document).await;
    let hub = Hub::new(Inventory::default(), None, Timestamp::now).unwrap();
    let with = AskWith {
        token: Some(Arc::new(TOKEN.to_owned())),
        authority: None,
    };
    for wrong in ["", &"0".repeat(64)] {
        let other = AskedServer {
            fingerprint: wrong.to_owned(),
            ..server.clone()
        };
        ask::once(&hub, &other, &with).await.unwrap_err();
    }
    assert!(
        requests.try_recv().is_err(),
        "the token went to who has no right to it"
    );
    ask::once(&hub, &server, &with).await.unwrap();
    let request = requests.try_recv().unwrap();
    assert!(
        request
            .to_lowercase()
            .contains(&format!("authorization: bearer {TOKEN}")),
        "{request}"
    );
    let view = hub.view();
    assert_eq!(
        (view.nodes[0].name.as_str(), view.nodes[0].word),
        ("n1", RackWord::Ready)
    );
    let kept: Value = serde_json::from_slice(&hub.document(&hub.view().nodes[0]).unwrap()).unwrap();
    assert_eq!(kept["generation"], 7);
    // Asked again and again, with the generation that it has.
    let following = tokio::spawn(ask::follow(hub.clone(), server, with, None));
    let mut heads = Vec::new();
    while heads.len() < 2 {
        heads.push(
            tokio::time::timeout(DEADLINE, requests.recv())
                .await
                .unwrap()
                .unwrap(),
        );
    }
    assert!(
        heads[1].starts_with("GET /status?generation=7&timeout=120s "),
        "{heads:?}"
    );
    following.abort();
    task.abort();
}

#[tokio::test]
async fn an_answer_that_is_none_is_told_and_not_kept() {
    for (document, expected) in [
        (json!({"kind": "Pod"}), "no status document"),
        (json!([1]), "no status document"),
    ] {
        let (server, _requests, task) = node(document).await;
        let hub = Hub::new(Inventory::default(), None, Timestamp::now).unwrap();
        let why = ask::once(&hub, &server, &AskWith::default())
            .await
            .unwrap_err();
        assert!(why.contains(expected), "{why}");
        assert!(hub.view().nodes.is_empty());
        task.abort();
    }
}

#[tokio::test]
async fn a_node_answers_as_another_one_and_the_page_of_that_one_stays_as_it_was() {
    let document = json!({"kind": "Status", "host": "n2", "generation": 7, "readiness": "Ready", "phase": "ready"});
    let (mut server, _requests, _task) = node(document).await;
    let list = Inventory::read("nodes.yaml", "- n1\n- n2\n").unwrap();
    server.identity = Some(list.nodes()[0].identity.clone());
    let hub = Hub::new(list, None, Timestamp::now).unwrap();
    ask::once(&hub, &server, &AskWith::default()).await.unwrap();
    let view = hub.view();
    let [n1, n2] = ["n1", "n2"].map(|name| view.node(name).unwrap());
    assert_eq!((n1.word, n2.word), (RackWord::Ready, RackWord::NeverCame));
    assert!(hub.document(n1).is_some() && hub.document(n2).is_none());
    let notice = &view.notices[0].text;
    assert!(notice.contains("says that it is n2"), "{notice}");
}

/// The largest documents that a status server may answer with, whatever they do to whoever reads them.
#[tokio::test]
async fn a_document_that_grows_when_it_is_read_is_refused() {
    let head = r#"{"kind": "Status", "host": "n1", "generation": 7, "readiness": "Ready", "phase": "ready", "x": ["#;
    for part in ["[],", "{\"a\":1},"] {
        let parts = part.repeat((8 << 20) / part.len() - 100);
        let (server, _requests, task) = node_with(format!("{head}{parts}0]}}")).await;
        let hub = Hub::new(Inventory::default(), None, Timestamp::now).unwrap();
        let why = ask::once(&hub, &server, &AskWith::default()).await;
        let why = why.unwrap_err();
        assert!(why.contains("more parts"), "{why}");
        task.abort();
    }
}

#[test]
fn the_oldest_documents_make_room_for_new_ones() {
    let hub = Hub::new(Inventory::default(), None, Timestamp::now).unwrap();
    let put = |name: &str, bytes| {
        hub.put_document(&NodeIdentity::new("", "", name), vec![b'x'; bytes]);
    };
    put("n0", 1);
    for name in ["n1", "n2", "n3", "n1", "n4", "n5"] {
        put(name, MOST_DOCUMENTS / 4);
    }
    let kept = lock(&hub.documents);
    let hosts: Vec<&str> = kept.iter().map(|(node, _)| node.host.as_str()).collect();
    assert_eq!(hosts, ["n3", "n1", "n4", "n5"]);
}

#[tokio::test]
async fn the_page_of_a_node_stays_small_whatever_its_document_says() {
    let rack = Served::new(false).await;
    rack.post(CLOUD_EVENT, event("n1", 1, "SettingUp")).await;
    // Indented, each of these takes a line of a hundred blanks.
    let deep = format!(
        "{}{}0{}",
        "[".repeat(100),
        "[],".repeat(20_000),
        "]".repeat(100)
    );
    let name = |number: usize| format!("f{number:02}.yaml");
    let held: Vec<Value> = (0..40)
        .map(|number| {
            let blockers: Vec<Value> = (0..number)
                .map(|before| {
                    json!({
                        "what": "the kind W", "condition": "served", "tier": "required", "message": "waits",
                        "requiredBy": "W w, line 1", "broughtBy": name(before),
                        "origin": {"rule": "inferred/kind-served", "file": name(number), "line": 1},
                    })
                })
                .collect();
            json!({"file": name(number), "since": "2026-01-01T00:00:00Z", "code": "waits-for-kind", "why": "waits",
                "by": "windrow", "blockers": blockers})
        })
        .collect();
    let mut document = json!({
        "apiVersion": "windrow.dev/v1", "kind": "Status", "generation": 1, "readiness": "SettingUp", "phase": "staging",
        "since": "2026-01-01T00:00:00Z", "reason": {"code": "waits-for-kind", "message": ""}, "summary": "",
        "staging": {"total": 40, "held": held, "released": [], "applied": [], "failed": []},
        "findings": [], "versions": {"windrow": "0.1.0"},
    });
    document["x"] = serde_json::from_str(&deep).unwrap();
    let node = NodeIdentity::new("", "", "n1");
    rack.hub
        .put_document(&node, document.to_string().into_bytes());
    let page = rack.get("/nodes/n1").await.text().await.unwrap();
    assert!(page.contains("f39.yaml"), "its files are there");
    assert!(page.contains("longer than 512 KiB"));
    assert!(page.len() < 2 << 20, "{}", page.len());
}

/// An event of a node that announces this server.
fn announcement(host: &str, sequence: u64, server: &AskedServer) -> NodeReport {
    let event = json!({
        "specversion": "1.0", "id": format!("{host}-{sequence}"), "type": "dev.windrow.node.seen",
        "data": {"hostname": host, "readiness": "SettingUp", "phase": "api", "sequence": sequence,
            "statusServer": {"url": server.url, "certificate": "selfSigned", "fingerprint": server.fingerprint}},
    });
    windrow_rack::read_event(event.to_string().as_bytes(), Timestamp::now()).unwrap()
}

#[tokio::test]
async fn a_server_that_a_node_announces_is_asked_where_that_is_allowed_and_nobody_else_gets_the_token()
 {
    let document = json!({"kind": "Status", "host": "n1", "generation": 7, "readiness": "Ready", "phase": "ready"});
    let (ours, mut requests, _task) = node(document.clone()).await;
    let (theirs, mut caught, _other) = node(document).await;
    let with = AskWith {
        token: Some(Arc::new(TOKEN.to_owned())),
        authority: None,
    };
    let list = format!(
        "- {{name: a, host: n1, fingerprint: '{}'}}\n",
        ours.fingerprint
    );
    let inventory = Inventory::read("nodes.yaml", &list).unwrap();
    let here = "10.0.0.7".parse().unwrap();
    let hub = Hub::new(inventory.clone(), None, Timestamp::now).unwrap();

    // As it is in the world: another address than the sender's is not asked.
    let strict = Announced::new(AskAnnounced::Any, with.clone(), &inventory);
    strict.hear(&hub, &announcement("n1", 1, &ours), here);
    assert_eq!(strict.asked(), 0);

    let known = Announced::new(AskAnnounced::Known, with.clone(), &inventory).on_this_machine();
    known.hear(&hub, &announcement("n1", 2, &theirs), here);
    // Our node's certificate, which the other server has not.
    let liar = AskedServer {
        url: theirs.url.clone(),
        ..ours.clone()
    };
    known.hear(&hub, &announcement("n2", 1, &liar), here);
    assert_eq!(known.asked(), 1);
    let refused = async {
        let mut changes = hub.changes();
        while !hub
            .view()
            .notices
            .iter()
            .any(|one| one.text.contains("another one than the fingerprint"))
        {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(DEADLINE, refused).await.unwrap();
    assert!(
        caught.try_recv().is_err(),
        "the token went to who announces it"
    );
    drop(known);
    let silent = async {
        let mut changes = hub.changes();
        while !hub.view().notices.is_empty() {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(DEADLINE, silent).await.unwrap();

    let known = Announced::new(AskAnnounced::Known, with.clone(), &inventory).on_this_machine();
    // Whatever name the event has: the certificate says who it is.
    known.hear(&hub, &announcement("n9", 1, &ours), here);
    known.hear(&hub, &announcement("n9", 2, &ours), here);
    let request = tokio::time::timeout(DEADLINE, requests.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(request.to_lowercase().contains(&format!("bearer {TOKEN}")));
    let shown = async {
        let mut changes = hub.changes();
        while hub
            .view()
            .node("a")
            .is_none_or(|row| row.word != RackWord::Ready)
        {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(DEADLINE, shown).await.unwrap();
    assert_eq!(known.asked(), 1);
    drop(known);

    // Where every node may be asked, one address has a bound.
    let any = Announced::new(AskAnnounced::Any, with, &inventory).on_this_machine();
    for number in 0..40 {
        any.hear(&hub, &announcement(&format!("x{number}"), 1, &theirs), here);
    }
    assert_eq!(any.asked(), 16);
    let request = tokio::time::timeout(DEADLINE, caught.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(request.to_lowercase().contains(&format!("bearer {TOKEN}")));
}

/// A server with a certificate of its own, in memory.
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
        // A connection that is kept is closed after ten seconds without a request.
        assert!(before.elapsed() < Duration::from_secs(9), "{request}");
    }
    task.abort();
}
