//! The certificates that a server presents.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::connection::Unverified;

const PATIENCE: Duration = Duration::from_secs(10);

/// When the first of the certificates that a server presents ends, no matter who signed it. Nothing is sent to the
/// server.
///
/// # Errors
///
/// Why that is unknown.
pub async fn earliest_end(address: SocketAddr) -> Result<Timestamp, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified))
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let shaken = timeout(PATIENCE, async {
        let stream = TcpStream::connect(address).await?;
        connector
            .connect(ServerName::from(address.ip()), stream)
            .await
    });
    let stream = match shaken.await {
        Ok(stream) => stream.map_err(|error| error.to_string())?,
        Err(_) => return Err(format!("no answer within {} s", PATIENCE.as_secs())),
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let mut first: Option<i64> = None;
    for certificate in chain {
        let (_, read) = x509_parser::parse_x509_certificate(certificate)
            .map_err(|error| format!("a certificate that cannot be read: {error}"))?;
        let end = read.validity().not_after.timestamp();
        first = Some(first.map_or(end, |first| first.min(end)));
    }
    let first = first.ok_or("it presents no certificate")?;
    Timestamp::from_second(first).map_err(|error| error.to_string())
}
