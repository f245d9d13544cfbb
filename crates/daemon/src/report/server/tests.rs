//! Real TLS clients, many clients, slow clients, and certificates and tokens that change.

mod unreadable;

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::thread::ThreadId;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use windrow_decide::{CertificateSource, Status};

use super::*;
use crate::report::metrics::{DaemonCounters, MetricsSource, ProcessFacts};
use crate::report::publish::{PublishedStatus, sample};

/// Far longer than anything takes: reaching it is a failure, not a measurement.
const DEADLINE: Duration = Duration::from_secs(600);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

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

fn metrics_of(status: StatusWatch) -> MetricsSource {
    MetricsSource {
        status,
        counters: DaemonCounters::default(),
        process: Arc::new(ProcessFacts::default),
        now: jiff::Timestamp::now,
    }
}

struct Served {
    directory: tempfile::TempDir,
    authority: Authority,
    status: watch::Sender<Option<PublishedStatus>>,
    told: watch::Receiver<ServerState>,
    service: Arc<StatusService>,
    /// The threads on which a certificate was made.
    made_on: Arc<Mutex<Vec<ThreadId>>>,
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
        Self::serve(directory, authority, CertificateSource::Rke2).await
    }

    async fn serve(
        directory: tempfile::TempDir,
        authority: Authority,
        source: CertificateSource,
    ) -> Self {
        let mut first = sample("first");
        first.generation = 1;
        let (status, statuses) = watch::channel(Some(PublishedStatus::new(first)));
        // Bound here, so that its port can be read.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let file = |name: &str| directory.path().join(name);
        let settings = ServerSettings {
            listen: address,
            tokens: vec![file("none"), file("token")],
            certificates: CertificateFiles {
                source,
                pairs: vec![
                    (file("none.crt"), file("none.key")),
                    (file("serving.crt"), file("serving.key")),
                ],
                own: Some(file("state/own.pem")),
            },
            metrics: Some(ServedMetrics {
                token: Some(file("metrics-token")),
            }),
        };
        let (state, told) = watch::channel(ServerState::default());
        let made_on = Arc::<Mutex<Vec<ThreadId>>>::default();
        let making = made_on.clone();
        let context = ServerContext {
            metrics: metrics_of(statuses.clone()),
            status: statuses,
            names: Arc::new(move || {
                making.lock().unwrap().push(std::thread::current().id());
                ["node1", "127.0.0.1", "no näme"]
                    .map(str::to_owned)
                    .to_vec()
            }),
            state,
        };
        let service = StatusService::new(settings, context);
        let server = service.clone();
        let task = tokio::spawn(async move { server.run(listener).await });
        Self {
            directory,
            authority,
            status,
            told,
            service,
            made_on,
            address,
            task,
        }
    }

    fn client(&self) -> reqwest::Client {
        Self::trusting(&self.authority.pem)
    }

    fn trusting(pem: &str) -> reqwest::Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let root = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
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

    async fn served_with(&mut self, source: CertificateSource) -> ServerStatus {
        let served = |state: &ServerState| {
            state
                .status()
                .is_some_and(|status| status.certificate == source)
        };
        let told = tokio::time::timeout(DEADLINE, self.told.wait_for(served)).await;
        let told = told.unwrap_or_else(|_| panic!("never {source:?}")).unwrap();
        told.status().unwrap().clone()
    }

    fn says(&self, generation: u64) {
        let mut status = sample("later");
        status.generation = generation;
        self.status.send_replace(Some(PublishedStatus::new(status)));
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
    for (path, token, status) in [
        ("/status", TOKEN, 200),
        ("/status", "none", 401),
        ("/status?generation=1&timeout=1ms", TOKEN, 304),
        ("/status?generation=x", TOKEN, 400),
        ("/healthz", "", 200),
        ("/metrics", TOKEN, 200),
        ("/%ff", TOKEN, 404),
    ] {
        let asked = served.client().get(served.url(path)).bearer_auth(token);
        let answer = asked.send().await.unwrap();
        let header = |name: &str| answer.headers()[name].to_str().unwrap();
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(header("cache-control"), "no-store", "{path}");
        assert!(header("content-security-policy").starts_with("default-src 'none'"));
        assert!(header("strict-transport-security").starts_with("max-age="));
    }
    // A client without the token does not learn which paths exist.
    assert_eq!(served.get("/else", TOKEN).await.unwrap().0, 404);
    assert_eq!(served.get("/else", "none").await.unwrap().0, 401);
    assert_eq!(served.get("/status/", TOKEN).await.unwrap().0, 404);
    assert_eq!(
        served.get("/status?generation=x", TOKEN).await.unwrap().0,
        400
    );
}

#[tokio::test]
async fn after_a_panic_the_server_goes_on() {
    let served = Served::start().await;
    let service = served.service.clone();
    let panics = std::thread::spawn(move || {
        let _reported = service.reported.lock().unwrap();
        panic!("on purpose");
    });
    assert!(panics.join().is_err());
    assert_eq!(served.get("/status", TOKEN).await.unwrap().0, 200);
    fs::remove_file(served.directory.path().join("token")).unwrap();
    assert_eq!(served.get("/status", TOKEN).await.unwrap().0, 401);
    assert_eq!(*served.told.borrow(), ServerState::NotServed);
}

#[tokio::test]
async fn the_token_of_the_metrics_opens_them_and_nothing_else() {
    const SCRAPE: &str = "fedcba9876543210fedcba9876543210";
    let served = Served::start().await;
    let file = served.directory.path().join("metrics-token");
    let code = async |path: &str, token: &str| served.get(path, token).await.unwrap().0;
    // Before there is one, only the token of the status opens them.
    assert_eq!(code("/metrics", SCRAPE).await, 401);
    assert_eq!(code("/metrics", TOKEN).await, 200);
    write(&file, SCRAPE, 0o600);
    assert_eq!(code("/metrics", SCRAPE).await, 200);
    assert_eq!(code("/metrics", TOKEN).await, 200);
    assert_eq!(code("/metrics", "").await, 401);
    for path in ["/status", "/status?generation=0", "/metrics/", "/else"] {
        assert_eq!(code(path, SCRAPE).await, 401, "{path}");
    }
    // A file that every user can read is not a secret.
    write(&file, SCRAPE, 0o644);
    assert_eq!(code("/metrics", SCRAPE).await, 401);

    for (accept, kind) in [
        (
            "application/openmetrics-text",
            "application/openmetrics-text;",
        ),
        ("text/plain", "text/plain; version=0.0.4;"),
    ] {
        let asked = served.client().get(served.url("/metrics"));
        let asked = asked.bearer_auth(TOKEN).header("accept", accept);
        let answer = asked.send().await.unwrap();
        let said = answer.headers()["content-type"].to_str().unwrap();
        assert!(said.starts_with(kind), "{said}");
        let text = answer.text().await.unwrap();
        assert!(text.contains("\nwindrow_status_generation 1.0\n"), "{text}");
        assert_eq!(text.ends_with("# EOF\n"), kind.starts_with("app"));
    }
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
        // The request is answered, no matter whether it comes before or after this.
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

fn fingerprint(pem: &str) -> String {
    use rustls::pki_types::pem::PemObject;
    let first = rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    windrow_model::manifest::sha256_hex(&first)
}

fn without_certificate() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    write(&directory.path().join("token"), TOKEN, 0o600);
    directory
}

#[tokio::test]
async fn before_rke2_has_made_a_certificate_there_is_one_of_its_own_that_stays_the_same() {
    let directory = without_certificate();
    let mut served = Served::serve(directory, Authority::new(), CertificateSource::Rke2).await;
    let own = served.served_with(CertificateSource::SelfSigned).await;
    assert_eq!(own.listen, served.address.to_string());
    let path = served.directory.path().join("state/own.pem");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let pem = fs::read_to_string(&path).unwrap();
    assert_eq!(own.fingerprint, fingerprint(&pem));
    // By its address as well as by its name, independent of the clocks.
    let certificate = pem
        .split_inclusive("-----END CERTIFICATE-----")
        .next()
        .unwrap();
    let (_, parsed) = x509_parser::pem::parse_x509_pem(certificate.as_bytes()).unwrap();
    let validity = parsed.parse_x509().unwrap().validity().clone();
    assert_eq!(validity.not_before.timestamp(), 0);
    assert!(validity.not_after.timestamp() > 100_000_000_000);
    let names = ["127.0.0.1", "node1"];
    for name in names {
        let client = Served::trusting(certificate);
        let client = match name {
            "127.0.0.1" => client,
            _ => {
                let root = reqwest::Certificate::from_pem(certificate.as_bytes()).unwrap();
                let builder = reqwest::Client::builder().tls_certs_only([root]).no_proxy();
                builder.resolve(name, served.address).build().unwrap()
            }
        };
        let url = format!("https://{name}:{}/status", served.address.port());
        let answer = client.get(url).bearer_auth(TOKEN).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
    }

    // Another start has the same one.
    served.task.abort();
    let (again, unused) = (tempfile::tempdir().unwrap(), Authority::new());
    write(&again.path().join("token"), TOKEN, 0o600);
    fs::create_dir(again.path().join("state")).unwrap();
    fs::copy(&path, again.path().join("state/own.pem")).unwrap();
    let mut later = Served::serve(again, unused, CertificateSource::Rke2).await;
    assert_eq!(later.served_with(CertificateSource::SelfSigned).await, {
        let listen = later.address.to_string();
        ServerStatus {
            listen,
            ..own.clone()
        }
    });
    // RKE2's key comes before its certificate: the current certificate stays in use. Then RKE2's is used, without a
    // request.
    later.authority.issue(later.directory.path());
    let issued = fs::read_to_string(later.directory.path().join("serving.crt")).unwrap();
    later.says(2);
    let rke2 = later.served_with(CertificateSource::Rke2).await;
    assert_eq!(rke2.fingerprint, fingerprint(&issued));
    assert_eq!(later.get("/status", TOKEN).await.unwrap().0, 200);
    // It is gone, and the fingerprint of the first one is as it was.
    fs::remove_file(later.directory.path().join("serving.crt")).unwrap();
    later.says(3);
    let back = later.served_with(CertificateSource::SelfSigned).await;
    assert_eq!(back.fingerprint, own.fingerprint);
}

#[tokio::test]
async fn the_daemons_thread_makes_no_certificate() {
    for connects in [false, true] {
        let mut served = Served::start().await;
        served.served_with(CertificateSource::Rke2).await;
        fs::remove_file(served.directory.path().join("serving.crt")).unwrap();
        match connects {
            true => assert!(served.get("/status", TOKEN).await.is_err()),
            false => served.says(2),
        }
        served.served_with(CertificateSource::SelfSigned).await;
        let made_on = served.made_on.lock().unwrap().clone();
        assert_eq!(made_on.len(), 1);
        assert_ne!(made_on[0], std::thread::current().id(), "{connects}");
    }
}

#[tokio::test]
async fn a_broken_certificate_is_no_reason_to_be_silent_unless_a_person_has_configured_it() {
    for (source, is_served) in [
        (CertificateSource::Rke2, true),
        (CertificateSource::Configured, false),
    ] {
        let directory = without_certificate();
        write(&directory.path().join("serving.crt"), "half", 0o644);
        write(&directory.path().join("serving.key"), "half", 0o600);
        let mut served = Served::serve(directory, Authority::new(), source).await;
        let said = served
            .told
            .wait_for(|state| *state != ServerState::Starting);
        let said = tokio::time::timeout(DEADLINE, said).await.unwrap().unwrap();
        assert_eq!(said.status().is_some(), is_served, "{source:?}");
    }
}

#[tokio::test]
async fn one_that_cannot_be_kept_is_served_all_the_same_and_a_broken_one_is_made_again() {
    let directory = without_certificate();
    // Root may write anywhere, except where a file is in the place of the directory.
    write(&directory.path().join("state"), "", 0o600);
    let mut served = Served::serve(directory, Authority::new(), CertificateSource::Rke2).await;
    served.served_with(CertificateSource::SelfSigned).await;
    let files = CertificateFiles {
        source: CertificateSource::Rke2,
        pairs: Vec::new(),
        own: Some(served.directory.path().join("state/own.pem")),
    };
    let names = || Arc::new(Vec::new) as Arc<dyn Fn() -> Vec<String> + Send + Sync>;
    let unsaved = Certificate::new(files.clone(), names()).current().unwrap();
    assert!(
        unsaved.note.contains("only kept in memory"),
        "{}",
        unsaved.note
    );
    assert!(unsaved.note.contains("own.pem: "), "{}", unsaved.note);

    fs::remove_file(served.directory.path().join("state")).unwrap();
    fs::create_dir(served.directory.path().join("state")).unwrap();
    write(
        files.own.as_deref().unwrap(),
        "-----BEGIN CERTIFICATE-----\nhalf",
        0o600,
    );
    let made = Certificate::new(files.clone(), names()).current().unwrap();
    assert_eq!(made.note, "");
    let again = Certificate::new(files, names()).current().unwrap();
    assert_eq!(again.fingerprint, made.fingerprint);
}

/// Connects from one of this machine's own addresses, as another peer.
async fn connect(from: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::from(from), 0))?;
    socket.connect(to).await
}

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
    for _ in 0..4 {
        open.push(connect([127, 0, 0, 2], served.address).await.unwrap());
    }
    // The fifth is turned away while the others have just come, and are silent.
    let mut fifth = connect([127, 0, 0, 2], served.address).await.unwrap();
    assert!(is_turned_away(&mut fifth).await);
    assert_eq!(served.get("/status", TOKEN).await.unwrap().0, 200);
    // This is more than one peer may send: the rest is turned away, while other peers are served.
    for _ in 0..200 {
        drop(connect([127, 0, 0, 3], served.address).await.unwrap());
    }
    assert_eq!(served.get("/status", TOKEN).await.unwrap().0, 200);
}

#[tokio::test]
async fn many_peers_that_hold_all_connections_do_not_keep_others_out() {
    let served = Served::start().await;
    let mut open = Vec::new();
    for peer in 2..42 {
        for _ in 0..4 {
            open.push(connect([127, 0, 1, peer], served.address).await.unwrap());
        }
    }
    for _ in 0..3 {
        assert_eq!(served.get("/status", TOKEN).await.unwrap().0, 200);
    }
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
