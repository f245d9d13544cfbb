//! The connection: TCP or a proxy, TLS and HTTP under a client of kube-apiserver, as `kube` would set them up, but
//! without credential plugins.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue, USER_AGENT};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::Body;
use kube::client::middleware::BaseUriLayer;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::net::TcpStream;
use tower::util::{BoxCloneSyncService, MapRequestLayer};
use tower::{BoxError, Layer, ServiceExt};

use crate::causes;
use crate::kubeconfig::{Credential, Endpoint, Proxy, Trust};

/// A peer that takes nothing of a request for this long is gone. How long an answer may take is for the caller to
/// decide: a watch is quiet for minutes.
const SENDING: Duration = Duration::from_secs(295);
/// The number of idle connections. When the server disappears silently, each of them makes one request wait for its
/// whole timeout.
const IDLE: usize = 2;
/// The client's name in kube-apiserver's audit log and in the `managedFields` of objects that it changes.
const PROGRAM: HeaderValue =
    HeaderValue::from_static(concat!("windrow/", env!("CARGO_PKG_VERSION")));

pub(super) type Http = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;
/// A connection to a server over TCP.
type Tcp = BoxCloneSyncService<Uri, TokioIo<TcpStream>, BoxError>;

/// HTTP to a server with a credential. Connecting, with TLS, takes `patience` at most.
///
/// # Errors
///
/// In a line, why it cannot be set up.
pub(super) fn http(
    endpoint: &Endpoint,
    credential: Credential,
    provider: Arc<CryptoProvider>,
    patience: Duration,
) -> Result<Http, String> {
    let Credential {
        identity,
        authorization,
    } = credential;
    let tls = tls(endpoint, identity, provider)?;
    let address = endpoint
        .server
        .authority()
        .map_or("", |address| address.as_str())
        .to_owned();
    let tcp = tcp(endpoint.proxy.as_ref())?;
    let mut https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = &endpoint.server_name {
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name.clone()));
    }
    // Only HTTP/1.1: a watch has its own connection, so that a hanging watch blocks no other request.
    let mut connector = TimeoutConnector::new(https.enable_http1().wrap_connector(tcp));
    connector.set_connect_timeout(Some(patience));
    connector.set_write_timeout(Some(SENDING));
    let connector = connector.map_err(move |error| in_words(error, &address, patience));
    let http = legacy::Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(IDLE)
        .build::<_, Body>(connector);

    // Each clone of the service has the one that reads the token.
    let authorization = Arc::new(authorization);
    let authorized = MapRequestLayer::new(move |mut request: Request<Body>| {
        let headers = request.headers_mut();
        headers.entry(USER_AGENT).or_insert(PROGRAM);
        if let Some(value) = authorization.header() {
            headers.insert(AUTHORIZATION, value);
        }
        request
    });
    let http = BaseUriLayer::new(endpoint.server.clone()).layer(authorized.layer(http));
    Ok(Http::new(http.map_err(Into::into)))
}

fn tcp(proxy: Option<&Proxy>) -> Result<Tcp, String> {
    let mut direct = HttpConnector::new();
    direct.enforce_http(false);
    let Some(proxy) = proxy else {
        return Ok(Tcp::new(direct.map_err(Into::into)));
    };
    let uri = proxy.uri().clone();
    let address = uri.authority().map_or("", |one| one.as_str()).to_owned();
    match uri.scheme_str() {
        Some("http") => {
            let mut tunnel = Tunnel::new(uri, direct);
            if let Some(header) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(header.clone());
            }
            Ok(Tcp::new(
                tunnel.map_err(move |error| of_proxy(&error, &address)),
            ))
        }
        // As for Go, the proxy resolves names with either.
        Some("socks5" | "socks5h") => {
            let mut socks = SocksV5::new(uri, direct);
            if let Some((user, password)) = proxy.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            Ok(Tcp::new(
                socks.map_err(move |error| of_proxy(&error, &address)),
            ))
        }
        _ => Err(
            "the proxy of HTTPS_PROXY or ALL_PROXY is neither http:// nor socks5://: name one that is, or except \
             the server in NO_PROXY"
                .to_owned(),
        ),
    }
}

fn of_proxy(error: &(dyn std::error::Error + 'static), address: &str) -> BoxError {
    let cause = causes::innermost(error).downcast_ref::<io::Error>();
    let kind = cause.map_or(io::ErrorKind::Other, io::Error::kind);
    let why = match kind {
        io::ErrorKind::ConnectionRefused => "refuses connections".to_owned(),
        _ => format!("brings no connection: {}", causes::in_words(error)),
    };
    Box::new(io::Error::other(format!("the proxy {address} {why}")))
}

fn in_words(error: BoxError, address: &str, patience: Duration) -> BoxError {
    let cause = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    if cause.is_some_and(|cause| cause.is::<tokio::time::error::Elapsed>()) {
        return Box::new(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no connection within {} s", patience.as_secs_f32().ceil()),
        ));
    }
    match causes::innermost(&*error).downcast_ref::<io::Error>() {
        Some(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => Box::new(
            io::Error::new(cause.kind(), format!("{address} refuses connections")),
        ),
        // The system's own errors (no route, a reset) do not contain the address.
        Some(cause) if cause.raw_os_error().is_some() => {
            Box::new(io::Error::new(cause.kind(), format!("{address}: {cause}")))
        }
        _ => error,
    }
}

fn tls(
    endpoint: &Endpoint,
    identity: Option<Arc<SingleCertAndKey>>,
    provider: Arc<CryptoProvider>,
) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let encrypted = endpoint.server.scheme_str() == Some("https");
    let builder = match &endpoint.trust {
        Trust::Roots(roots) => builder.with_root_certificates(roots.clone()),
        Trust::Anything => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified)),
        Trust::System if encrypted => builder.with_platform_verifier().map_err(|error| {
            format!(
                "there is no `certificate-authority`, and what this machine trusts is not known: {error}"
            )
        })?,
        Trust::System => builder.with_root_certificates(RootCertStore::empty()),
    };
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(identity),
        None => builder.with_no_client_auth(),
    };
    // A resumed session shows no certificate, so one that was replaced would never be noticed.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Takes any certificate, as `insecure-skip-tls-verify` asks.
#[derive(Debug)]
pub(super) struct Unverified;

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    // The key is unknown, so a signature by it proves nothing.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    /// All that servers have: a server whose certificate is of another kind would not talk at all.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::ED25519,
            SignatureScheme::ED448,
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PSS_SHA384,
            SignatureScheme::RSA_PSS_SHA512,
            SignatureScheme::RSA_PKCS1_SHA256,
            SignatureScheme::RSA_PKCS1_SHA384,
            SignatureScheme::RSA_PKCS1_SHA512,
            SignatureScheme::ECDSA_SHA1_Legacy,
            SignatureScheme::RSA_PKCS1_SHA1,
        ]
    }
}
