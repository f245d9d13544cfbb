//! Consoles that are slow, wrong, dead and back.

mod events;

use std::sync::Mutex;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use windrow_decide::settings::{WebhookEvent, WebhookTemplate};
use windrow_decide::{
    CertificateSource, DeliveryState, ExpectationSource, NodeRole, Pace, Phase, PhaseExpectation,
    PhaseState, PhaseStatus, Readiness, ServerStatus, StatusWriter,
};
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::sha256_hex;
use windrow_model::reasons::Severity;

use super::payload::WebhookMessage;
use super::send::send;
use super::*;
use crate::report::publish::sample;
use crate::testing::server::{self, Stream};

/// Far longer than anything takes: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(600);

#[derive(Debug, Clone)]
enum Says {
    Http(u16, &'static str),
    /// Redirects to `/moved`, which answers 200.
    Moved(u16),
    ToHttps,
    Garbage,
    Nothing,
    Hangup,
}

/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 22;

#[derive(Debug, Clone)]
struct Request {
    head: String,
    body: String,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

struct Console {
    url: String,
    /// SHA-256 of its certificate, if it has one.
    fingerprint: String,
    requests: mpsc::UnboundedReceiver<Request>,
    says: Arc<Mutex<Says>>,
    task: JoinHandle<()>,
}

impl Console {
    async fn new(says: Says) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), says, None)
    }

    /// Serves with an unknown certificate.
    async fn https(says: Says) -> Self {
        let (tls, pem) = server::certificate("console.example");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut console = Self::on(listener, says, Some(tls));
        console.fingerprint = sha256_hex(&der);
        console
    }

    fn on(listener: TcpListener, says: Says, tls: Option<TlsAcceptor>) -> Self {
        let (log, requests) = mpsc::unbounded_channel();
        let says = Arc::new(Mutex::new(says));
        let answers = says.clone();
        let (url, task) = server::start(listener, tls, move |stream| {
            serve(stream, log.clone(), answers.clone())
        });
        Self {
            url,
            fingerprint: String::new(),
            requests,
            says,
            task,
        }
    }

    fn now_says(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    async fn next(&mut self) -> Request {
        tokio::time::timeout(DEADLINE, self.requests.recv())
            .await
            .expect("nothing arrives")
            .unwrap()
    }

    fn is_silent(&mut self) -> bool {
        self.requests.try_recv().is_err()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: Stream, log: mpsc::UnboundedSender<Request>, says: Arc<Mutex<Says>>) {
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 4096];
    let request = loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
        if bytes[0] == TLS_HANDSHAKE {
            let (head, body) = ("a TLS handshake".to_owned(), String::new());
            let _ = log.send(Request { head, body });
            return;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let request = Request {
            head: head.to_owned(),
            body: body.to_owned(),
        };
        let length = request.header("content-length");
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            break request;
        }
    };
    let says = says.lock().unwrap().clone();
    let moved = request.head.contains(" /moved ");
    let host = request.header("host").unwrap_or_default().to_owned();
    let _ = log.send(request);
    let answer = match says {
        Says::Moved(_) if moved => "HTTP/1.1 200 X\r\nconnection: close\r\n\r\n".to_owned(),
        Says::Moved(status) => format!(
            "HTTP/1.1 {status} X\r\nlocation: /moved\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        ),
        Says::ToHttps => format!(
            "HTTP/1.1 308 X\r\nlocation: https://{host}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        ),
        Says::Http(status, headers) => format!(
            "HTTP/1.1 {status} X\r\n{headers}content-length: 0\r\nconnection: close\r\n\r\n"
        ),
        Says::Garbage => "SSH-2.0-OpenSSH_9.9\r\n\r\n".to_owned(),
        Says::Nothing => return std::future::pending().await,
        Says::Hangup => return,
    };
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn hook(event: WebhookEvent, url: &str) -> Webhook {
    Webhook {
        at: Location::line("windrow.yaml", 1),
        event,
        method: "POST".to_owned(),
        url: WebhookTemplate::parse(url).unwrap(),
        headers: Vec::new(),
        payload: None,
        insecure: false,
        fingerprint: None,
        basic_auth: None,
        every: None,
    }
}

async fn tried(hook: &Webhook, path: &str) -> Result<(), String> {
    impatiently(hook, path, DEADLINE).await
}

async fn impatiently(hook: &Webhook, path: &str, patience: Duration) -> Result<(), String> {
    let message = WebhookMessage {
        url: format!("{}{path}", hook.url.render(|_| "")),
        body: Some("{}".to_owned()),
        content_type: Some("application/json"),
    };
    send(hook, message, patience).await
}

#[tokio::test]
async fn a_console_that_is_wrong_is_told_in_a_line_without_secrets() {
    for (says, expected) in [
        (Says::Http(200, ""), None),
        (Says::Http(204, ""), None),
        (Says::Http(500, ""), Some("the console answered HTTP 500")),
        (Says::Http(401, ""), Some("the console answered HTTP 401")),
        (Says::Garbage, Some("")),
        (Says::Hangup, Some("")),
        (
            Says::Http(302, "location: /other\r\n"),
            Some("the console redirects with HTTP 302"),
        ),
        (
            Says::Http(307, "location: http://elsewhere.example/\r\n"),
            Some("redirected to another console, http://elsewhere.example"),
        ),
        (
            Says::Http(308, "location: /hook\r\n"),
            Some("more than 3 redirects"),
        ),
    ] {
        let console = Console::new(says.clone()).await;
        let hook = hook(WebhookEvent::NodeReady, &console.url);
        let said = tried(&hook, "/secret-token").await;
        match expected {
            None => assert_eq!(said, Ok(()), "{says:?}"),
            Some(expected) => {
                let why = said.unwrap_err();
                assert!(why.contains(expected) && !why.is_empty(), "{says:?}: {why}");
                assert!(!why.contains("secret"), "{why}");
            }
        }
    }
    let console = Console::new(Says::Nothing).await;
    let slow = hook(WebhookEvent::NodeReady, &console.url);
    let why = impatiently(&slow, "/", Duration::from_secs(1)).await;
    assert_eq!(why.unwrap_err(), "no answer within 1 s");
    let no_console = hook(WebhookEvent::NodeReady, "http://127.0.0.1:1");
    assert!(
        tried(&no_console, "/secret-token")
            .await
            .unwrap_err()
            .contains("refused")
    );
}

#[tokio::test]
async fn an_unknown_certificate_is_refused_unless_insecure() {
    let mut console = Console::https(Says::Http(200, "")).await;
    let mut hook = hook(WebhookEvent::NodeReady, &console.url);
    let why = tried(&hook, "/").await.unwrap_err();
    assert!(why.contains("certificate"), "{why}");
    assert!(console.is_silent());
    hook.insecure = true;
    assert_eq!(tried(&hook, "/").await, Ok(()));
    console.next().await;
}

#[tokio::test]
async fn a_console_may_be_known_by_its_certificate_alone() {
    let mut console = Console::https(Says::Http(200, "")).await;
    let mut hook = hook(WebhookEvent::NodeSeen, &console.url);
    hook.fingerprint = Some("ab".repeat(32));
    let why = tried(&hook, "/").await.unwrap_err();
    assert!(why.contains("another one than the fingerprint"), "{why}");
    assert!(console.is_silent());
    hook.fingerprint = Some(console.fingerprint.clone());
    assert_eq!(tried(&hook, "/").await, Ok(()));
    console.next().await;
}

#[tokio::test]
async fn a_redirect_within_the_console_keeps_method_body_and_password() {
    let mut console = Console::new(Says::Moved(307)).await;
    let mut hook = hook(WebhookEvent::NodeReady, &console.url);
    hook.basic_auth = Some(("ann".to_owned(), "secret".to_owned()));
    hook.headers = vec![("X-Rack".to_owned(), "r12".to_owned())];
    assert_eq!(tried(&hook, "/first").await, Ok(()));
    assert!(console.next().await.head.starts_with("POST /first "));
    let last = console.next().await;
    assert!(last.head.starts_with("POST /moved "), "{last:?}");
    assert_eq!(last.body, "{}");
    assert_eq!(last.header("x-rack"), Some("r12"));
    assert!(last.header("authorization").unwrap().starts_with("Basic "));
}

#[tokio::test]
async fn a_password_does_not_go_along_from_http_to_https() {
    let mut console = Console::new(Says::ToHttps).await;
    let place = console.url.replace("http://", "https://");
    for (header, is_followed) in [
        (None, true),
        (Some("Content-Type"), true),
        (Some("user-agent"), true),
        (Some("authorization"), false),
        (Some("Cookie"), false),
        (Some("X-Api-Key"), false),
    ] {
        let mut hook = hook(WebhookEvent::NodeReady, &console.url);
        let headers = header.map(|name| (name.to_owned(), "secret".to_owned()));
        hook.headers = headers.into_iter().collect();
        let why = tried(&hook, "/").await.unwrap_err();
        assert!(console.next().await.head.starts_with("POST "));
        if is_followed {
            assert_eq!(console.next().await.head, "a TLS handshake", "{header:?}");
        } else {
            let expected = format!("{place}, where the password would not go along");
            assert!(why.contains(&expected), "{header:?}: {why}");
            assert!(!why.contains("secret"), "{why}");
            assert!(console.is_silent(), "{header:?}");
        }
    }
    // Another service may listen on another port of the host.
    let console = Console::new(Says::Http(308, "location: https://127.0.0.1:1/\r\n")).await;
    let hook = hook(WebhookEvent::NodeReady, &console.url);
    let why = tried(&hook, "/").await.unwrap_err();
    assert!(
        why.contains("redirected to another console, https://127.0.0.1:1"),
        "{why}"
    );
}

fn numbered(number: u64) -> DeliveryMemory {
    serde_json::from_value(json!({"occurrences": {}, "delivered": {}, "sequence": number})).unwrap()
}

#[tokio::test]
async fn that_deliveries_cannot_be_recorded_is_said_once_until_they_can() {
    let directory = tempfile::tempdir().unwrap();
    let parent = directory.path().join("windrow");
    let path = parent.join("webhooks.json");
    let mut saved = SavedMemory::new(path.clone(), &DeliveryMemory::default());
    let mut number = 0;
    let mut said = Vec::new();
    // A file is in the place of the directory.
    fs::write(&parent, "").unwrap();
    for there in [false, false, true, true, false, false] {
        match there {
            true if parent.is_file() => fs::remove_file(&parent).unwrap(),
            false if parent.is_dir() => {
                fs::remove_dir_all(&parent).unwrap();
                fs::write(&parent, "").unwrap();
            }
            _ => {}
        }
        number += 1;
        let memory = numbered(number);
        let event = saved.save(&memory).await;
        said.push(event.is_some());
        if let Some(event) = event {
            assert_eq!(event.code, Code::ActionFailed);
            assert!(event.message.contains("webhooks.json"), "{event:?}");
        }
        assert_eq!(path.exists(), there);
    }
    assert_eq!(said, [true, false, false, false, true, false]);
    assert_eq!(saved.save(&saved.kept.clone()).await, None);
}
