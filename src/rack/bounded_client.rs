//! An HTTP client for servers that may be hostile. The head of an answer has a bound, and its body is read in pieces.
//!
//! `reqwest` cannot bound the head: it keeps 400 KiB of each answer whose head does not end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::time::error::Elapsed;

use crate::causes;
use crate::pinned::pinned;

/// The largest head of an answer, and the most that a connection buffers.
const HEAD: usize = 16 << 10;

/// How a server is identified.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerIdentity<'i> {
    /// By the SHA-256 of its certificate.
    Fingerprint(&'i str),
    /// By one of these authorities, as PEM.
    Authority(&'i str),
    /// By the authorities that this machine trusts.
    Machine,
    /// Not at all: only plain HTTP connects.
    Unproved,
}

impl ServerIdentity<'_> {
    fn tls(self) -> Result<ClientConfig, String> {
        if let Self::Fingerprint(fingerprint) = self {
            return pinned(fingerprint);
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match self {
            Self::Authority(pem) => builder.with_root_certificates(roots(pem)?),
            Self::Unproved => builder.with_root_certificates(RootCertStore::empty()),
            _ => builder
                .with_platform_verifier()
                .map_err(|error| causes::in_words(&error))?,
        };
        Ok(builder.with_no_client_auth())
    }
}

fn roots(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| causes::in_words(&error))?;
        roots
            .add(certificate)
            .map_err(|error| causes::in_words(&error))?;
    }
    Ok(roots)
}

pub(crate) struct BoundedClient {
    http: legacy::Client<TimeoutConnector<HttpsConnector<HttpConnector>>, Empty<Bytes>>,
    connect: Duration,
}

impl BoundedClient {
    /// It follows no redirect, uses no proxy and keeps no connection. `connect`: for TCP and TLS.
    ///
    /// # Errors
    ///
    /// In a line, why the server cannot be identified.
    pub(crate) fn new(server: ServerIdentity<'_>, connect: Duration) -> Result<Self, String> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(server.tls()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let mut connector = TimeoutConnector::new(https);
        connector.set_connect_timeout(Some(connect));
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .http1_max_buf_size(HEAD)
            .build(connector);
        Ok(Self { http, connect })
    }

    /// The head of the answer; its body is still to be read.
    ///
    /// # Errors
    ///
    /// The reason, in a line.
    pub(crate) async fn get(
        &self,
        url: &str,
        token: Option<&str>,
    ) -> Result<BoundedAnswer, String> {
        let mut request = Request::get(url);
        if let Some(token) = token {
            let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|error| error.to_string())?;
            bearer.set_sensitive(true);
            request = request.header(AUTHORIZATION, bearer);
        }
        let request = request
            .body(Empty::new())
            .map_err(|error| error.to_string())?;
        let answer = self.http.request(request).await;
        answer
            .map(BoundedAnswer)
            .map_err(|error| self.in_words(&error))
    }

    fn in_words(&self, error: &legacy::Error) -> String {
        let cause = causes::innermost(error);
        let parsed = cause.downcast_ref::<hyper::Error>();
        if parsed.is_some_and(hyper::Error::is_parse_too_large) {
            return format!("the head of its answer is larger than {} KiB", HEAD >> 10);
        }
        let is_late =
            |error: &io::Error| error.get_ref().is_some_and(|inner| inner.is::<Elapsed>());
        if cause.is::<Elapsed>() || cause.downcast_ref().is_some_and(is_late) {
            return format!("no connection within {} s", self.connect.as_secs());
        }
        causes::in_words(error)
    }
}

pub(crate) struct BoundedAnswer(Response<Incoming>);

impl BoundedAnswer {
    pub(crate) fn status(&self) -> StatusCode {
        self.0.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.0.headers()
    }

    /// The length of the body according to the head; its pieces have no more together.
    pub(crate) fn declared_length(&self) -> Option<u64> {
        self.0.body().size_hint().exact()
    }

    /// The next piece of the body, of 16 KiB at most; `None` at the end.
    ///
    /// # Errors
    ///
    /// The reason, in a line.
    pub(crate) async fn next_piece(&mut self) -> Result<Option<Bytes>, String> {
        while let Some(frame) = self.0.body_mut().frame().await {
            let frame = frame.map_err(|error| causes::in_words(&error))?;
            if let Ok(piece) = frame.into_data() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::testing::server::{self, Stream};

    const CONNECT: Duration = Duration::from_secs(60);

    async fn serve<Served>(
        answer: impl Fn(Stream) -> Served + Clone + Send + 'static,
    ) -> (BoundedClient, String)
    where
        Served: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (url, _task) = server::start(listener, None, move |mut stream| {
            let answer = answer.clone();
            async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                answer(stream).await;
            }
        });
        let client = BoundedClient::new(ServerIdentity::Unproved, CONNECT).unwrap();
        (client, url)
    }

    #[tokio::test]
    async fn a_head_that_is_too_large_is_refused() {
        let (client, url) = serve(async |mut stream: Stream| {
            let long = "x".repeat(HEAD);
            let head = format!("HTTP/1.1 200 OK\r\nx: {long}\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).await;
        })
        .await;
        let Err(why) = client.get(&url, None).await else {
            panic!("it has a head");
        };
        assert_eq!(why, "the head of its answer is larger than 16 KiB");
    }

    #[tokio::test]
    async fn a_body_has_no_more_than_its_head_declares_and_comes_in_pieces() {
        let (client, url) = serve(async |mut stream: Stream| {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n";
            let _ = stream.write_all(head).await;
            while stream.write_all(&[b'x'; 1024]).await.is_ok() {}
        })
        .await;
        let mut answer = client.get(&url, None).await.unwrap();
        assert_eq!(answer.declared_length(), Some(100_000));
        let mut read = 0;
        while let Some(piece) = answer.next_piece().await.unwrap() {
            assert!(piece.len() <= HEAD, "{}", piece.len());
            read += piece.len();
        }
        assert_eq!(read, 100_000);
    }
}
