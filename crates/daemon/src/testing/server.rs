//! Accepts connections on loopback, with TLS or without, and leaves the answers to the test.

use std::future::Future;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A connection, with TLS or without.
pub type Stream = Box<dyn Duplex>;

pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// A server's half of TLS with an unknown certificate for this name, and the certificate.
pub fn certificate(name: &str) -> (TlsAcceptor, String) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = made.signing_key.serialize_der();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![made.cert.der().clone()],
            rustls::pki_types::PrivatePkcs8KeyDer::from(key).into(),
        )
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), made.cert.pem())
}

/// Serves every connection in a separate task. Returns the listener's URL, and the task that ends all of them.
pub fn start<F, Served>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    serve: F,
) -> (String, JoinHandle<()>)
where
    F: Fn(Stream) -> Served + Clone + Send + 'static,
    Served: Future<Output = ()> + Send + 'static,
{
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (serve, tls) = (serve.clone(), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => serve(Box::new(stream)).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(Box::new(stream)).await;
                        }
                    }
                }
            });
        }
    });
    (url, task)
}
