//! Clients that take all places, read nothing, or ask for missing paths.

use std::net::SocketAddr;

use tokio::net::{TcpSocket, TcpStream};

use super::*;
use crate::https::{ConnectionBounds, ServerBounds};
use crate::pinned::use_ring;
use crate::rack::server::BOUNDS;

fn empty_hub() -> Arc<Hub> {
    Hub::new(Inventory::default(), None, Timestamp::now).unwrap()
}

async fn serve_within(hub: Arc<Hub>, bounds: ServerBounds) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = RackServer::new(hub, Access::Loopback, None, None);
    (address, tokio::spawn(server.run_within(listener, bounds)))
}

/// Sends a request for this path from one of this machine's own addresses.
async fn ask(from: u8, to: SocketAddr, path: &str) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, from], 0)))?;
    let mut stream = socket.connect(to).await?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    Ok(stream)
}

/// The first bytes of the answer; empty without an answer.
async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 1024];
    let read = tokio::time::timeout(DEADLINE, stream.read(&mut bytes)).await;
    let read = read.unwrap().unwrap_or_default();
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

#[tokio::test]
async fn addresses_that_take_all_places_do_not_lock_out_another() {
    let bounds = ServerBounds {
        connections: ConnectionBounds {
            connections: 96,
            of_one: 48,
            unproved_of_one: 16,
            few: 2,
            reserved: 8,
            ..BOUNDS.connections
        },
        ..BOUNDS
    };
    for addresses in [2..4, 2..5, 2..21] {
        let (address, task) = serve_within(empty_hub(), bounds).await;
        let mut held = Vec::new();
        for _ in 0..bounds.connections.of_one {
            for from in addresses.clone() {
                let Ok(mut stream) = ask(from, address, "/live").await else {
                    continue;
                };
                answer(&mut stream).await;
                held.push(stream);
            }
        }
        for other in [101, 102, 103] {
            let mut stream = ask(other, address, "/healthz").await.unwrap();
            let answer = answer(&mut stream).await;
            assert!(
                answer.starts_with("HTTP/1.1 200"),
                "{addresses:?}: {answer:?}"
            );
        }
        task.abort();
    }
}

#[tokio::test]
async fn one_peer_has_its_share_of_live_pages() {
    let (address, _task) = serve_within(empty_hub(), BOUNDS).await;
    let mut held = Vec::new();
    for _ in 0..64 {
        let mut stream = ask(2, address, "/live").await.unwrap();
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
        held.push(stream);
    }
    let mut more = ask(2, address, "/live").await.unwrap();
    assert!(answer(&mut more).await.starts_with("HTTP/1.1 429"));
    let mut other = ask(3, address, "/live").await.unwrap();
    assert!(answer(&mut other).await.starts_with("HTTP/1.1 200"));
    // One that ends makes room, once the server has noticed.
    held.pop();
    loop {
        let mut again = ask(2, address, "/live").await.unwrap();
        if answer(&mut again).await.starts_with("HTTP/1.1 200") {
            break;
        }
    }
}

#[tokio::test]
async fn who_reads_nothing_loses_the_connection_and_others_read_the_whole_page() {
    let hub = empty_hub();
    for number in 0..700 {
        let mut event: Value =
            serde_json::from_str(&event(&format!("n{number}"), 1, "SettingUp")).unwrap();
        let finding = json!({"code": "c".repeat(100), "severity": "warning", "subject": "s"});
        event["data"]["findings"] = json!(vec![finding; 20]);
        let report = windrow_rack::read_event(event.to_string().as_bytes(), Timestamp::now());
        hub.take(report.unwrap()).await.unwrap();
    }
    let client = client();
    let (address, _task) = serve_within(hub.clone(), BOUNDS).await;
    let url = format!("http://{address}/rack.json");
    let whole = client.get(&url).send().await.unwrap();
    let length = whole.content_length().unwrap();
    assert_eq!(whole.bytes().await.unwrap().len() as u64, length);
    assert!(length > 1 << 20);
    let impatient = ServerBounds {
        write: Duration::from_millis(50),
        ..BOUNDS
    };
    let (address, _impatient) = serve_within(hub, impatient).await;
    // It reads nothing until the server has closed it: its later bytes are refused.
    let mut unread = ask(2, address, "/rack.json").await.unwrap();
    while unread.write_all(b"x").await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn every_answer_has_the_headers_that_protect_its_reader_and_is_windrows_own() {
    let rack = Served::new(false).await;
    let with_token = Served::new(true).await;
    let (secure, task) = https().await;
    let secure = format!("https://127.0.0.1:{secure}");
    use_ring();
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_danger_accept_invalid_certs(true)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    rack.post(CLOUD_EVENT, event("n1", 1, "Ready")).await;
    for (method, path, status) in [
        ("GET", "/", 200),
        ("HEAD", "/", 200),
        ("GET", "/part", 200),
        ("GET", "/live", 200),
        ("GET", "/rack.json", 200),
        ("GET", "/healthz", 200),
        ("GET", "/nodes/%ff", 404),
        ("GET", "/nodes/%ff/part", 404),
        ("GET", "/nodes/none", 404),
        ("GET", "/nodes/", 404),
        ("GET", "/none", 404),
        ("GET", "/events", 405),
        ("POST", "/", 405),
        ("DELETE", "/rack.json", 405),
        ("PUT", "/healthz", 405),
        ("TRACE", "/nodes/n1", 405),
        ("POST", "/events", 415),
    ] {
        for (url, shown) in [
            (&rack.url, status),
            (
                &with_token.url,
                if path == "/healthz" { status } else { 401 },
            ),
            (&secure, status),
        ] {
            let asked = client.request(method.parse().unwrap(), format!("{url}{path}"));
            let answer = asked.send().await.unwrap();
            let asked = format!("{method} {url}{path}");
            assert_eq!(answer.status(), shown, "{asked}");
            let headers = answer.headers().clone();
            let header = |name: &str| {
                headers
                    .get(name)
                    .map_or("", |value| value.to_str().unwrap())
            };
            assert_eq!(header("x-content-type-options"), "nosniff", "{asked}");
            assert_eq!(header("referrer-policy"), "no-referrer", "{asked}");
            assert_eq!(header("cache-control"), "no-store", "{asked}");
            assert!(
                header("content-security-policy").starts_with("default-src 'none'"),
                "{asked}"
            );
            assert_eq!(
                header("strict-transport-security").is_empty(),
                url != &secure,
                "{asked}"
            );
            if status == 405 && shown == 405 {
                assert!(!header("allow").is_empty(), "{asked}");
            }
            if status >= 400 && method != "HEAD" {
                let text = answer.text().await.unwrap();
                assert!(text.ends_with('\n') && text.len() > 10, "{asked}: {text:?}");
            }
        }
    }
    let plain = secure.replace("https", "http");
    let sent_on = client.get(plain).send().await.unwrap();
    assert_eq!(sent_on.status(), 308);
    assert!(!sent_on.headers().contains_key("strict-transport-security"));
    assert_eq!(sent_on.headers()["x-content-type-options"], "nosniff");
    task.abort();
}
