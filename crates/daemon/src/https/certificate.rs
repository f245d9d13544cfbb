//! A server's certificate with its key, read again when a file changes: RKE2 renews its certificates.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use windrow_decide::CertificateSource;
use windrow_model::manifest::sha256_hex;

use super::self_signed;
use crate::files::{Kept, is_missing, may_be_there, read_bytes, read_text};
use crate::locked::lock;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The component that makes these.
    pub source: CertificateSource,
    /// Pairs of certificate and key; the first existing pair counts.
    pub pairs: Vec<(PathBuf, PathBuf)>,
    /// The file with the server's own certificate, used until one of the pairs exists; `None`: it is only in memory.
    pub own: Option<PathBuf>,
}

pub struct ServingCertificate {
    pub config: Arc<ServerConfig>,
    pub source: CertificateSource,
    /// SHA-256 of the certificate, in hexadecimal.
    pub fingerprint: String,
    pub note: String,
}

pub struct Certificate {
    files: CertificateFiles,
    kept: Kept<ServingCertificate>,
    /// The server's own certificate, after its first use.
    own: Mutex<Option<Arc<ServingCertificate>>>,
    names: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
}

impl Certificate {
    pub fn new(files: CertificateFiles, names: Arc<dyn Fn() -> Vec<String> + Send + Sync>) -> Self {
        Self {
            files,
            kept: Kept::default(),
            own: Mutex::default(),
            names,
        }
    }

    /// The current certificate. While a new one is half written, the old one is used; before the first one, the
    /// server's own. A certificate from an operator is never replaced by the server's own after it has existed once:
    /// readers know it.
    pub fn current(&self) -> Result<Arc<ServingCertificate>, String> {
        let mut pairs = self.files.pairs.iter();
        let source = self.files.source;
        let Some((certificate, key)) = pairs.find(|(certificate, _)| may_be_there(certificate))
        else {
            let configured = (source == CertificateSource::Configured).then(|| self.kept.last());
            return configured.flatten().map_or_else(|| self.own(), Ok);
        };
        let now = self
            .kept
            .get(&[certificate, key], || read_pair(source, certificate, key));
        match (now.or_else(|why| self.before(why)), source) {
            // RKE2 is making them. An operator's certificate has to be corrected by the operator.
            (Err(_), CertificateSource::Rke2) => self.own(),
            (now, _) => now,
        }
    }

    /// The certificate that was served before, with why the current one is not.
    fn before(&self, why: String) -> Result<Arc<ServingCertificate>, String> {
        let Some(last) = self.kept.last() else {
            return Err(why);
        };
        Ok(Arc::new(ServingCertificate {
            config: last.config.clone(),
            source: last.source,
            fingerprint: last.fingerprint.clone(),
            note: format!("; it was replaced, and the new one cannot be used ({why})"),
        }))
    }

    fn own(&self) -> Result<Arc<ServingCertificate>, String> {
        let mut own = lock(&self.own);
        if let Some(own) = &*own {
            return Ok(own.clone());
        }
        let source = CertificateSource::SelfSigned;
        let found = match self.kept_own() {
            Ok(found) => found,
            Err(place) => {
                let made = self_signed::make(place, &(self.names)())?;
                ServingCertificate {
                    note: made.unsaved.map_or_else(String::new, |why| {
                        format!(
                            "; it is only kept in memory, and the next start makes another one ({why})"
                        )
                    }),
                    ..serving(source, &made.pem, &made.pem)?
                }
            }
        };
        Ok(own.insert(Arc::new(found)).clone())
    }

    /// The server's own certificate of an earlier start. Without one: the path for a new certificate, or why it has no
    /// path. An unusable certificate is replaced. An unreadable one stays, because readers know it, and a later start
    /// may read it.
    fn kept_own(&self) -> Result<ServingCertificate, Result<&Path, String>> {
        let Some(path) = self.files.own.as_deref() else {
            return Err(Err("no directory to keep it in".to_owned()));
        };
        match read_bytes(path) {
            Ok(pem) => {
                let pem = String::from_utf8_lossy(&pem);
                serving(CertificateSource::SelfSigned, &pem, &pem).map_err(|_| Ok(path))
            }
            Err(error) if is_missing(&error) => Err(Ok(path)),
            Err(error) => Err(Err(format!("{}: {error}", path.display()))),
        }
    }
}

/// Whether these can be served with.
///
/// # Errors
///
/// Why not, with the file, in a line.
pub fn check_pair(certificate: &Path, key: &Path) -> Result<(), String> {
    read_pair(CertificateSource::Configured, certificate, key).map(|_| ())
}

fn read_pair(
    source: CertificateSource,
    certificate: &Path,
    key: &Path,
) -> Result<ServingCertificate, String> {
    let read =
        |path: &Path| read_text(path).map_err(|error| format!("{}: {error}", path.display()));
    let (chain, private) = (read(certificate)?, read(key)?);
    // The error of a key reveals nothing about the key.
    if PrivateKeyDer::from_pem_slice(private.as_bytes()).is_err() {
        return Err(format!("{}: it is not a private key in PEM", key.display()));
    }
    serving(source, &chain, &private).map_err(|error| format!("{}: {error}", certificate.display()))
}

fn serving(
    source: CertificateSource,
    chain: &str,
    private: &str,
) -> Result<ServingCertificate, String> {
    let private = PrivateKeyDer::from_pem_slice(private.as_bytes())
        .map_err(|_| "it is not a private key in PEM".to_owned())?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let first = chain.first().ok_or("it has no certificate in PEM")?;
    let fingerprint = sha256_hex(first);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(chain, private)
        })
        .map_err(|error| error.to_string())?;
    Ok(ServingCertificate {
        config: Arc::new(config),
        source,
        fingerprint,
        note: String::new(),
    })
}
