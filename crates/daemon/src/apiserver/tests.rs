use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::{AUTHORIZATION, RETRY_AFTER, USER_AGENT};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use http::{HeaderMap, Response, StatusCode};

use super::*;
use crate::causes;
use crate::testing::server;

/// Long enough for a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

pub(super) fn api() -> ApiServer {
    ApiServer::connecting_within(PATIENCE)
}

pub(super) struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

impl TestAuthority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// A certificate for a name, and its key; both in PEM.
    pub(super) fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A server's half of TLS; with an authority of clients, only its clients are let in.
    pub(super) fn serves(&self, name: &str, clients: Option<&TestAuthority>) -> TlsAcceptor {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(der(&clients.pem)).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let (certificate, key) = self.issue(name);
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let config = builder.with_single_cert(vec![der(&certificate)], key);
        TlsAcceptor::from(Arc::new(config.unwrap()))
    }
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

pub(super) type ReceivedRequest = (String, Option<String>);

/// A kube-apiserver that knows its version, or answers with another status.
pub(super) struct TestServer {
    pub(super) url: String,
    pub(super) asked: mpsc::UnboundedReceiver<ReceivedRequest>,
    /// How many answers it gives.
    pub(super) answers: Arc<Semaphore>,
    pub(super) accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TestServer {
    pub(super) async fn start(tls: Option<TlsAcceptor>) -> Self {
        Self::saying(tls, |_| Response::new(VERSION.into())).await
    }

    pub(super) async fn saying(
        tls: Option<TlsAcceptor>,
        says: impl Fn(&str) -> Response<Full<Bytes>> + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (tell, asked) = mpsc::unbounded_channel();
        let answers = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        let accepted = Arc::new(AtomicUsize::new(0));
        let (gate, counter) = (answers.clone(), accepted.clone());
        let (url, task) = server::start(listener, tls, move |stream| {
            counter.fetch_add(1, Ordering::SeqCst);
            let (tell, says, gate) = (tell.clone(), says.clone(), gate.clone());
            let answer = service_fn(move |request: http::Request<Incoming>| {
                let target = request.uri().to_string();
                // A reader of the server's audit log sees which program sent it.
                let program = concat!("windrow/", env!("CARGO_PKG_VERSION"));
                assert_eq!(request.headers()[USER_AGENT], program);
                let header = request.headers().get(AUTHORIZATION);
                let header = header.map(|value| value.to_str().unwrap().to_owned());
                let answer = says(&target);
                tell.send((target, header)).unwrap();
                let gate = gate.clone();
                async move {
                    gate.acquire().await.unwrap().forget();
                    Ok::<_, std::convert::Infallible>(answer)
                }
            });
            async move {
                let connection = hyper::server::conn::http1::Builder::new();
                // A client that goes away in the middle is its own affair.
                let _ = connection
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            }
        });
        Self {
            url,
            asked,
            answers,
            accepted,
            task,
        }
    }

    fn asked(&mut self) -> Vec<ReceivedRequest> {
        std::iter::from_fn(|| self.asked.try_recv().ok()).collect()
    }
}

pub(super) const VERSION: &str = r#"{"major": "1", "minor": "35", "gitVersion": "v1.35.0", "gitCommit": "",
    "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}"#;

/// A kubeconfig in a directory, with the fields of cluster and user as YAML in braces.
pub(super) fn kubeconfig(directory: &Path, cluster: &str, user: &str) -> PathBuf {
    let path = directory.join("config");
    let text = format!(
        "current-context: here\ncontexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
    );
    fs::write(&path, text).unwrap();
    path
}

async fn version(path: &Path) -> Result<String, String> {
    let client = api().client(path).await?;
    let version = client.apiserver_version().await;
    version
        .map(|version| version.git_version)
        .map_err(|error| causes::in_words(&error))
}

#[tokio::test]
async fn the_authority_of_the_kubeconfig_is_believed_and_no_other_unless_all_are() {
    let directory = tempfile::tempdir().unwrap();
    let authority = TestAuthority::new();
    let server = TestServer::start(Some(authority.serves("127.0.0.1", None))).await;
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("ca.crt", &authority.pem);
    write("other.crt", &TestAuthority::new().pem);
    write("both.crt", &(TestAuthority::new().pem + &authority.pem));
    for (fields, expected) in [
        ("certificate-authority: ca.crt", None),
        ("certificate-authority: both.crt", None),
        ("insecure-skip-tls-verify: true", None),
        (
            "certificate-authority: other.crt",
            Some("the server's certificate is "),
        ),
        // The machine's trust store, if it has one.
        ("", Some("certificate")),
    ] {
        let cluster = format!("server: '{}', {fields}", server.url);
        let said = version(&kubeconfig(directory.path(), &cluster, "")).await;
        match expected {
            None => assert_eq!(said.as_deref(), Ok("v1.35.0"), "{fields}"),
            Some(why) => assert!(said.as_ref().unwrap_err().contains(why), "{said:?}"),
        }
    }
}

#[tokio::test]
async fn the_name_in_the_servers_certificate_is_its_address_or_the_one_that_is_given() {
    let directory = tempfile::tempdir().unwrap();
    let authority = TestAuthority::new();
    let server = TestServer::start(Some(authority.serves("node.example", None))).await;
    fs::write(directory.path().join("ca.crt"), &authority.pem).unwrap();
    let cluster = format!("server: '{}', certificate-authority: ca.crt", server.url);
    let why = version(&kubeconfig(directory.path(), &cluster, "")).await;
    assert!(why.unwrap_err().contains("not valid for name"));
    let named = format!("{cluster}, tls-server-name: node.example");
    let said = version(&kubeconfig(directory.path(), &named, "")).await;
    assert_eq!(said.as_deref(), Ok("v1.35.0"));
    let other = format!("{cluster}, tls-server-name: other.example");
    let why = version(&kubeconfig(directory.path(), &other, "")).await;
    assert!(why.unwrap_err().contains("not valid for name"));
}

#[tokio::test]
async fn the_client_certificate_is_shown_to_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let (authority, clients) = (TestAuthority::new(), TestAuthority::new());
    let tls = authority.serves("127.0.0.1", Some(&clients));
    let server = TestServer::start(Some(tls)).await;
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("ca.crt", &authority.pem);
    let (certificate, key) = clients.issue("admin");
    write("admin.crt", &certificate);
    write("admin.key", &key);
    let (certificate, key) = TestAuthority::new().issue("admin");
    write("other.crt", &certificate);
    write("other.key", &key);
    let cluster = format!("server: '{}', certificate-authority: ca.crt", server.url);
    let asked = async |user: &str| version(&kubeconfig(directory.path(), &cluster, user)).await;
    let said = asked("client-certificate: admin.crt, client-key: admin.key").await;
    assert_eq!(said.as_deref(), Ok("v1.35.0"));
    for user in ["", "client-certificate: other.crt, client-key: other.key"] {
        let why = asked(user).await.unwrap_err();
        assert!(!why.is_empty(), "{user}");
    }
}

#[tokio::test]
async fn every_request_goes_below_the_servers_path_with_the_token() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = TestServer::start(None).await;
    for (prefix, user, target, header) in [
        ("", "", "/version", None),
        ("/", "token: abc", "/version", Some("Bearer abc")),
        (
            "/k8s/clusters/c-m-1",
            "username: Aladdin, password: open sesame",
            "/k8s/clusters/c-m-1/version",
            Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ),
    ] {
        let cluster = format!("server: '{}{prefix}'", server.url);
        let said = version(&kubeconfig(directory.path(), &cluster, user)).await;
        assert_eq!(said.as_deref(), Ok("v1.35.0"));
        let header = header.map(str::to_owned);
        assert_eq!(server.asked(), [(target.to_owned(), header)]);
    }
}

#[tokio::test]
async fn a_token_that_is_renewed_in_its_file_goes_with_the_next_request() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = TestServer::start(None).await;
    let put = |token: &str| {
        let temporary = directory.path().join("token.new");
        fs::write(&temporary, token).unwrap();
        fs::rename(temporary, directory.path().join("token")).unwrap();
    };
    put("first\n");
    let cluster = format!("server: '{}'", server.url);
    let path = kubeconfig(directory.path(), &cluster, "tokenFile: token");
    let client = api().client(&path).await.unwrap();
    let mut sent = async || {
        client.apiserver_version().await.unwrap();
        server.asked().remove(0).1.unwrap()
    };
    assert_eq!(sent().await, "Bearer first");
    put("second");
    assert_eq!(sent().await, "Bearer second");
    // Half written, and gone: kube-apiserver says whether the last one still counts.
    put("");
    assert_eq!(sent().await, "Bearer second");
    fs::remove_file(directory.path().join("token")).unwrap();
    assert_eq!(sent().await, "Bearer second");
    put("third");
    assert_eq!(sent().await, "Bearer third");
}

#[tokio::test]
async fn another_component_is_asked_with_the_certificate_and_without_the_token() {
    let directory = tempfile::tempdir().unwrap();
    let clients = TestAuthority::new();
    let tls = TestAuthority::new().serves("node.example", Some(&clients));
    let mut server = TestServer::start(Some(tls)).await;
    let (certificate, key) = clients.issue("admin");
    fs::write(directory.path().join("admin.crt"), certificate).unwrap();
    fs::write(directory.path().join("admin.key"), key).unwrap();
    fs::write(directory.path().join("ca.crt"), TestAuthority::new().pem).unwrap();
    let path = kubeconfig(
        directory.path(),
        "server: 'https://127.0.0.1:1/prefix', certificate-authority: ca.crt, tls-server-name: x",
        "client-certificate: admin.crt, client-key: admin.key, token: abc",
    );
    let port = server.url.rsplit(':').next().unwrap().parse().unwrap();
    let client = api().on_loopback(&path, port).await.unwrap();
    client.apiserver_version().await.unwrap();
    assert_eq!(server.asked(), [("/version".to_owned(), None)]);
}

#[tokio::test]
async fn what_the_server_refuses_is_told_once_and_its_wish_to_be_left_alone_heard() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = TestServer::saying(None, |target| {
        let status = if target == "/version" { 429 } else { 401 };
        let text = format!(
            r#"{{"kind": "Status", "status": "Failure", "code": {status}, "message": "m", "reason": "r"}}"#
        );
        let answer = Response::builder().status(status).header(RETRY_AFTER, "30");
        answer.body(text.into()).unwrap()
    })
    .await;
    let cluster = format!("server: '{}'", server.url);
    let path = kubeconfig(directory.path(), &cluster, "");
    let connection = api().connection(&path).await.unwrap();
    let client = connection.client();
    let request = http::Request::get("/other").body(Vec::new()).unwrap();
    let Err(kube::Error::Api(status)) = client.request_text(request).await else {
        panic!("not refused");
    };
    assert_eq!(status.code, 401);
    assert_eq!(connection.left(), Duration::ZERO);
    let Err(kube::Error::Api(status)) = client.apiserver_version().await else {
        panic!("not refused");
    };
    assert_eq!((status.code, status.message.as_str()), (429, "m"));
    assert!(connection.left() > Duration::ZERO);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_server_that_is_not_there_or_says_nothing_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let cluster = format!("server: 'https://{address}', insecure-skip-tls-verify: true");
    let path = kubeconfig(directory.path(), &cluster, "");
    // The kernel accepts the connection; TLS is never answered.
    let api = ApiServer::connecting_within(Duration::from_secs(1));
    let client = api.client(&path).await.unwrap();
    let error = client.apiserver_version().await.unwrap_err();
    assert_eq!(causes::in_words(&error), "no connection within 1 s");
    let path = kubeconfig(
        directory.path(),
        "server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true",
        "",
    );
    let why = version(&path).await.unwrap_err();
    assert!(why == "127.0.0.1:1 refuses connections", "{why}");
    fs::remove_file(&path).unwrap();
    let why = version(&path).await.unwrap_err();
    assert!(why.ends_with("config: it is not there yet"), "{why}");
}

fn left_after(status: u16, said: &str) -> u64 {
    let throttle = Throttle::default();
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, said.parse().unwrap());
    throttle.heard(StatusCode::from_u16(status).unwrap(), &headers);
    // A second that has begun counts as a whole one.
    let left = throttle.left();
    left.as_secs() + u64::from(left.subsec_nanos() > 0)
}

#[test]
fn retry_after_is_honoured_and_bounded() {
    assert_eq!(Throttle::default().left(), Duration::ZERO);
    assert!((1..=9).contains(&left_after(429, "9")));
    // A probe that asks every 10 s does not miss three answers.
    assert!((1..=15).contains(&left_after(503, "86400")));
    for (status, said) in [
        (500, "50"),
        (200, "50"),
        (429, "Wed, 21 Oct 2026 07:28:00 GMT"),
        (429, "-1"),
    ] {
        assert_eq!(left_after(status, said), 0, "{status} {said}");
    }
}
