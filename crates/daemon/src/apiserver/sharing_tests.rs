//! Tests of the state that is shared between callers: the connection, the server's `Retry-After`, their turns.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Response;
use http::header::RETRY_AFTER;
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::tests::{PATIENCE, TestAuthority, TestServer, VERSION, api, kubeconfig};
use super::{RequestCounts, throttle};

fn put_off(seconds: &str) -> Response<Full<Bytes>> {
    let text =
        r#"{"kind": "Status", "status": "Failure", "code": 503, "message": "m", "reason": "r"}"#;
    let answer = Response::builder().status(503).header(RETRY_AFTER, seconds);
    answer.body(text.into()).unwrap()
}

#[tokio::test]
async fn whoever_else_asks_the_same_server_leaves_it_alone_too() {
    let directory = tempfile::tempdir().unwrap();
    let (tell, mut moments) = mpsc::unbounded_channel();
    let server = TestServer::saying(None, move |target| {
        tell.send(std::time::Instant::now()).unwrap();
        match target {
            "/version" => Response::new(VERSION.into()),
            _ => put_off("1"),
        }
    })
    .await;
    let cluster = format!("server: '{}'", server.url);
    let place = |name: &str| {
        let place = directory.path().join(name);
        fs::create_dir(&place).unwrap();
        place
    };
    let admin = kubeconfig(&place("admin"), &cluster, "token: a");
    let kubelet = kubeconfig(&place("kubelet"), &cluster, "token: k");
    let api = api();
    let client = api.client(&admin).await.unwrap();
    let request = http::Request::get("/busy").body(Vec::new()).unwrap();
    client.request_text(request).await.unwrap_err();
    let other = api.clone().client(&kubelet).await.unwrap();
    other.apiserver_version().await.unwrap();
    let refused = moments.recv().await.unwrap();
    let asked = moments.recv().await.unwrap();
    assert!(asked.duration_since(refused) >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_certificate_that_is_renewed_on_disk_goes_with_the_next_request() {
    let directory = tempfile::tempdir().unwrap();
    let (authority, clients) = (TestAuthority::new(), TestAuthority::new());
    let tls = authority.serves("127.0.0.1", Some(&clients));
    let server = TestServer::start(Some(tls)).await;
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let put = |(certificate, key): (String, String)| {
        write("kubelet.crt", &certificate);
        write("kubelet.key", &key);
    };
    write("ca.crt", &authority.pem);
    put(TestAuthority::new().issue("expired"));
    let cluster = format!("server: '{}', certificate-authority: ca.crt", server.url);
    let user = "client-certificate: kubelet.crt, client-key: kubelet.key";
    let path = kubeconfig(directory.path(), &cluster, user);
    let api = api();
    let connection = api.connection(&path).await.unwrap();
    let refused = connection.client().apiserver_version().await;
    assert!(refused.is_err());
    assert!(connection.is_current());
    put(clients.issue("renewed"));
    assert!(!connection.is_current());
    let client = api.client(&path).await.unwrap();
    assert!(client.apiserver_version().await.is_ok());
    // Half written: that is an error, and the old file counts again when it is back.
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, "").unwrap();
    let why = api.client(&path).await.err().unwrap();
    assert!(why.contains("config: it is empty"), "{why}");
    fs::write(&path, whole).unwrap();
    let client = api.client(&path).await.unwrap();
    assert!(client.apiserver_version().await.is_ok());
}

#[tokio::test]
async fn whoever_asks_with_the_same_credential_shares_the_connection_and_all_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let authority = TestAuthority::new();
    let server = TestServer::start(Some(authority.serves("127.0.0.1", None))).await;
    fs::write(directory.path().join("ca.crt"), &authority.pem).unwrap();
    let cluster = format!("server: '{}', certificate-authority: ca.crt", server.url);
    let path = kubeconfig(directory.path(), &cluster, "");
    let api = api();
    for _ in 0..3 {
        let asker = api.clone();
        let client = asker.client(&path).await.unwrap();
        client.apiserver_version().await.unwrap();
        // RKE2 writes it at every start, mostly as it was.
        kubeconfig(directory.path(), &cluster, "");
    }
    let client = api.client(&path).await.unwrap();
    let watch = http::Request::get("/api/v1/nodes?watch=true&allowWatchBookmarks=true");
    let watch = watch.body(Vec::new()).unwrap();
    client.request_text(watch).await.unwrap();
    assert_eq!(server.accepted.load(Ordering::SeqCst), 1);
    let counts = RequestCounts {
        requests: 3,
        watches: 1,
    };
    assert_eq!(api.counts(), counts);
}

#[tokio::test]
async fn not_all_ask_at_once_and_nothing_that_hangs_keeps_others_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = TestServer::start(None).await;
    server.answers.forget_permits(Semaphore::MAX_PERMITS);
    let path = kubeconfig(directory.path(), &format!("server: '{}'", server.url), "");
    let api = api();
    let client = api.client(&path).await.unwrap();
    let ask = |path: &str| {
        let (client, request) = (client.clone(), http::Request::get(path));
        let request = request.body(Vec::new()).unwrap();
        tokio::spawn(async move { client.request_text(request).await })
    };
    let mut next = async || {
        let asked = timeout(PATIENCE, server.asked.recv()).await;
        asked.expect("a request comes").unwrap().0
    };
    let hanging: Vec<_> = (0..throttle::AT_ONCE).map(|_| ask("/hangs")).collect();
    for _ in &hanging {
        assert_eq!(next().await, "/hangs");
    }
    let waiting: Vec<_> = (0..throttle::AT_ONCE).map(|_| ask("/waits")).collect();
    let watch = ask("/nodes?watch=true");
    assert_eq!(next().await, "/nodes?watch=true");
    let health = ask("/readyz");
    assert_eq!(next().await, "/readyz", "it waits for no turn");
    for one in hanging {
        one.abort();
        assert_eq!(next().await, "/waits");
    }
    server.answers.add_permits(2 * throttle::AT_ONCE + 2);
    for one in waiting {
        one.await.unwrap().unwrap();
    }
    watch.await.unwrap().unwrap();
    health.await.unwrap().unwrap();
}
