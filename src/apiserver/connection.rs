//! The connection: TCP, TLS and HTTP under a client of kube-apiserver, as `kube` would set them up, but
//! without credential plugins.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::Body;
use kube::client::middleware::BaseUriLayer;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt;
use tower::util::MapRequestLayer;
use tower::{BoxError, Layer, Service, ServiceExt};

use crate::causes;
use crate::kubeconfig::{Kubeconfig, Trust};

/// A peer that takes nothing of a request for this long is gone. How long an answer may take is for the
/// caller to say: a watch is quiet for minutes.
const SENDING: Duration = Duration::from_secs(295);
/// Connections that wait for the next request. When the server goes without a word, each of them makes one request
/// wait as long as its caller does.
const IDLE: usize = 2;

/// What HTTP is for a client.
pub(super) trait Http:
    Service<Request<Body>, Response = Response<Incoming>, Error = legacy::Error, Future: Send>
    + Clone
    + Send
    + 'static
{
}

impl<S> Http for S where
    S: Service<Request<Body>, Response = Response<Incoming>, Error = legacy::Error, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// HTTP for a client of what a kubeconfig says, and the client's namespace. Connecting, with TLS,
/// takes `patience` at most.
///
/// # Errors
///
/// In a line, what keeps TLS from being set up.
pub(super) fn http(
    kubeconfig: Kubeconfig,
    provider: Arc<CryptoProvider>,
    patience: Duration,
) -> Result<(impl Http + use<>, String), String> {
    let tls = tls(&kubeconfig, provider)?;
    let Kubeconfig {
        server,
        server_name,
        authorization,
        namespace,
        ..
    } = kubeconfig;
    let address = server
        .authority()
        .map_or("", |address| address.as_str())
        .to_owned();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let mut https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = server_name {
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    // HTTP/1.1 alone: a watch has its own connection, so that one which hangs holds up no other.
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
        if let Some(value) = authorization.header() {
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        request
    });
    Ok((
        BaseUriLayer::new(server).layer(authorized.layer(http)),
        namespace,
    ))
}

/// Why there is no connection, in words that name the address and what was waited for.
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
    let refused = causes::innermost(&*error)
        .downcast_ref::<io::Error>()
        .is_some_and(|cause| cause.kind() == io::ErrorKind::ConnectionRefused);
    match refused {
        true => Box::new(io::Error::new(
            io::ErrorKind::ConnectionRefused,
            format!("{address} refuses connections"),
        )),
        false => error,
    }
}

fn tls(kubeconfig: &Kubeconfig, provider: Arc<CryptoProvider>) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let encrypted = kubeconfig.server.scheme_str() == Some("https");
    let builder = match &kubeconfig.trust {
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
    Ok(match &kubeconfig.identity {
        Some(identity) => builder.with_client_cert_resolver(identity.clone()),
        None => builder.with_no_client_auth(),
    })
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

    // The key is not known: a signature by it proves nothing.
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
