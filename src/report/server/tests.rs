//! Real TLS clients, many clients, slow clients, and certificates and tokens that change.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use super::*;
use crate::report::publish::sample;

/// Far longer than anything takes: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(600);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// RKE2's certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Writes a serving certificate, as RKE2 does when it starts.
    fn issue(&self, directory: &std::path::Path) {
        let key = KeyPair::generate().unwrap();
        let names = vec!["127.0.0.1".to_owned(), "node1".to_owned()];
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        write(&directory.join("serving.crt"), &certificate.pem(), 0o644);
        write(&directory.join("serving.key"), &key.serialize_pem(), 0o600);
    }
}

fn write(path: &std::path::Path, text: &str, mode: u32) {
    let temporary = path.with_extension("new");
    fs::write(&temporary, text).unwrap();
    fs::set_permissions(&temporary, fs::Permissions::from_mode(mode)).unwrap();
    fs::rename(temporary, path).unwrap();
}

/// A server and its files.
struct Served {
    directory: tempfile::TempDir,
    authority: Authority,
    status: watch::Sender<Option<Arc<Status>>>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Served {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        authority.issue(directory.path());
        write(&directory.path().join("token"), TOKEN, 0o600);
        Self::serve(directory, authority).await
    }

    async fn serve(directory: tempfile::TempDir, authority: Authority) -> Self {
        let mut first = sample("first");
        first.generation = 1;
        let (status, statuses) = watch::channel(Some(Arc::new(first)));
        // Bound here, so that its port is known.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let settings = ServerSettings {
            listen: address,
            token: directory.path().join("token"),
            certificates: vec![
                (
                    directory.path().join("none.crt"),
                    directory.path().join("none.key"),
                ),
                (
                    directory.path().join("serving.crt"),
                    directory.path().join("serving.key"),
                ),
            ],
        };
        let server = StatusService::new(settings, statuses);
        let task = tokio::spawn(async move { server.run(listener).await });
        Self {
            directory,
            authority,
            status,
            address,
            task,
        }
    }

    fn client(&self) -> reqwest::Client {
        self.client_of(&self.authority)
    }

    fn client_of(&self, authority: &Authority) -> reqwest::Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let root = reqwest::Certificate::from_pem(authority.pem.as_bytes()).unwrap();
        reqwest::Client::builder()
            .tls_certs_only([root])
            .no_proxy()
            .timeout(DEADLINE)
            .pool_max_idle_per_host(0)
            .build()
            .unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    async fn get(&self, path: &str, token: &str) -> reqwest::Result<(u16, String)> {
        let request = self.client().get(self.url(path)).bearer_auth(token);
        let response = request.send().await?;
        Ok((response.status().as_u16(), response.text().await?))
    }

    fn says(&self, generation: u64) {
        let mut status = sample("later");
        status.generation = generation;
        self.status.send_replace(Some(Arc::new(status)));
    }
}

#[tokio::test]
async fn the_status_is_told_to_those_who_have_the_token() {
    let served = Served::start().await;
    let (code, body) = served.get("/status", TOKEN).await.unwrap();
    assert_eq!(code, 200);
    let status: Status = serde_json::from_str(&body).unwrap();
    assert_eq!(status.generation, 1);
    let (code, body) = served
        .get("/status", "fedcba9876543210fedcba9876543210")
        .await
        .unwrap();
    assert_eq!(code, 401);
    assert!(!body.contains("first"));
    let response = served
        .client()
        .get(served.url("/status"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status().as_u16(), 401);
    assert!(response.headers().contains_key("www-authenticate"));
    let response = served
        .client()
        .get(served.url("/healthz"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.text().await.unwrap(), "ok\n");
    for method in [
        reqwest::Method::POST,
        reqwest::Method::HEAD,
        reqwest::Method::OPTIONS,
    ] {
        let asked = served.client().request(method, served.url("/status"));
        let response = asked.bearer_auth(TOKEN).body("x").send().await.unwrap();
        assert_eq!(response.status().as_u16(), 405);
        assert_eq!(response.headers()["allow"], "GET");
    }
    // Who has no token does not learn which paths there are.
    assert_eq!(served.get("/else", TOKEN).await.unwrap().0, 404);
    assert_eq!(served.get("/else", "none").await.unwrap().0, 401);
    assert_eq!(served.get("/status/", TOKEN).await.unwrap().0, 404);
    assert_eq!(
        served.get("/status?generation=x", TOKEN).await.unwrap().0,
        400
    );
}

#[tokio::test]
async fn a_reader_waits_for_the_next_generation() {
    let served = Served::start().await;
    let known = served
        .get("/status?generation=0&timeout=5m", TOKEN)
        .await
        .unwrap();
    assert_eq!(known.0, 200, "it is another already");
    let none = served
        .get("/status?generation=1&timeout=10ms", TOKEN)
        .await
        .unwrap();
    assert_eq!(none, (304, String::new()));
    let waiting = served.get("/status?generation=1&timeout=5m", TOKEN);
    let (answer, ()) = tokio::join!(waiting, async {
        // Whether it is asked before or after this, it is answered.
        tokio::task::yield_now().await;
        served.says(2);
    });
    let (code, body) = answer.unwrap();
    assert_eq!(code, 200);
    let status: Status = serde_json::from_str(&body).unwrap();
    assert_eq!(status.generation, 2);
}

#[tokio::test]
async fn a_renewed_certificate_and_a_new_token_count_at_once() {
    let mut served = Served::start().await;
    assert_eq!(served.get("/status", TOKEN).await.unwrap().0, 200);
    let renewed = Authority::new();
    // It is half written: the old one is used.
    let pair = KeyPair::generate().unwrap();
    write(
        &served.directory.path().join("serving.key"),
        &pair.serialize_pem(),
        0o600,
    );
    assert_eq!(served.get("/status", TOKEN).await.unwrap().0, 200);
    renewed.issue(served.directory.path());
    assert!(
        served.get("/status", TOKEN).await.is_err(),
        "the old authority signed it"
    );
    served.authority = renewed;
    assert_eq!(served.get("/status", TOKEN).await.unwrap().0, 200);
    let other = "another-token-of-some-length";
    write(&served.directory.path().join("token"), other, 0o600);
    assert_eq!(served.get("/status", TOKEN).await.unwrap().0, 401);
    assert_eq!(served.get("/status", other).await.unwrap().0, 200);
    fs::remove_file(served.directory.path().join("token")).unwrap();
    assert_eq!(served.get("/status", other).await.unwrap().0, 401);
}

#[tokio::test]
async fn without_a_certificate_nothing_is_said_and_it_may_come_later() {
    let directory = tempfile::tempdir().unwrap();
    write(&directory.path().join("token"), TOKEN, 0o600);
    let served = Served::serve(directory, Authority::new()).await;
    assert!(served.get("/status", TOKEN).await.is_err());
    served.authority.issue(served.directory.path());
    assert_eq!(served.get("/status", TOKEN).await.unwrap().0, 200);
}

/// Connects from one of this machine's own addresses, as another peer.
async fn connect(from: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::from(from), 0))?;
    socket.connect(to).await
}

/// Is the connection closed without a byte?
async fn is_turned_away(stream: &mut TcpStream) -> bool {
    // The client speaks first in a handshake: the server has nothing to say before.
    let mut byte = [0];
    let read = tokio::time::timeout(DEADLINE, stream.read(&mut byte)).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

#[tokio::test]
async fn one_peer_that_floods_does_not_keep_others_out() {
    let served = Served::start().await;
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(connect([127, 0, 0, 2], served.address).await.unwrap());
    }
    // The ninth is turned away while the others are silent.
    let mut ninth = connect([127, 0, 0, 2], served.address).await.unwrap();
    assert!(is_turned_away(&mut ninth).await);
    assert_eq!(served.get("/status", TOKEN).await.unwrap().0, 200);
    // This is more than one peer may send: the rest is turned away, while other peers are served.
    for _ in 0..200 {
        drop(connect([127, 0, 0, 3], served.address).await.unwrap());
    }
    assert_eq!(served.get("/status", TOKEN).await.unwrap().0, 200);
}

#[tokio::test]
async fn a_peer_without_tls_or_http_or_with_too_much_is_cut_off() {
    let served = Served::start().await;
    let mut stream = connect([127, 0, 0, 2], served.address).await.unwrap();
    stream
        .write_all(b"GET /status HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "it is kept");
    assert!(!answer.starts_with(b"HTTP"));

    let roots = {
        use rustls::pki_types::pem::PemObject;
        let mut roots = rustls::RootCertStore::empty();
        let pem = served.authority.pem.as_bytes();
        roots
            .add(rustls::pki_types::CertificateDer::from_pem_slice(pem).unwrap())
            .unwrap();
        roots
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    for head in [
        "SSH-2.0-OpenSSH_9.9\r\n\r\n".to_owned(),
        format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(64 << 10)),
        format!("GET /status HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100)),
    ] {
        let stream = connect([127, 0, 0, 4], served.address).await.unwrap();
        let name = "node1".try_into().unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        let _ = stream.write_all(head.as_bytes()).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "it is kept");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(!answer.contains(" 200 "), "{answer}");
    }
    // One that is silent after the handshake, or sends half a head, is cut off too.
    let stream = connect([127, 0, 0, 5], served.address).await.unwrap();
    let mut slow = connector
        .connect("node1".try_into().unwrap(), stream)
        .await
        .unwrap();
    slow.write_all(b"GET /status HTTP/1.1\r\nhost:")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(DEADLINE, slow.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "it is kept");
    assert_eq!(served.get("/status", TOKEN).await.unwrap().0, 200);
}
