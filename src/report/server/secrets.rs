//! The server's files: its certificate with its key, and the token. Each is read again when its file changes: RKE2
//! renews its certificates, and people change tokens.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::files::{Kept, read_text};

/// Shorter tokens are refused.
const SHORTEST: usize = 16;

/// The certificate.
pub(super) struct Certificate {
    /// Pairs of certificate and key; the first that is there counts.
    places: Vec<(PathBuf, PathBuf)>,
    kept: Kept<ServerConfig>,
}

impl Certificate {
    pub(super) fn new(places: Vec<(PathBuf, PathBuf)>) -> Self {
        Self {
            places,
            kept: Kept::default(),
        }
    }

    /// The configuration with the current certificate. While a new one is half written, the old one is used.
    pub(super) fn config(&self) -> Result<Arc<ServerConfig>, String> {
        let place = self
            .places
            .iter()
            .find(|(certificate, _)| certificate.exists());
        let Some((certificate, key)) = place else {
            let places: Vec<String> = self
                .places
                .iter()
                .map(|(certificate, _)| certificate.display().to_string())
                .collect();
            return Err(format!(
                "there is no certificate yet: {}",
                places.join(" or ")
            ));
        };
        let read = || {
            let chain = read_text(certificate)
                .map_err(|error| format!("{}: {error}", certificate.display()))?;
            let chain: Vec<CertificateDer<'static>> =
                CertificateDer::pem_slice_iter(chain.as_bytes())
                    .collect::<Result<_, _>>()
                    .map_err(|error| format!("{}: {error}", certificate.display()))?;
            // The error of a key reveals nothing about the key.
            let text = read_text(key).map_err(|error| format!("{}: {error}", key.display()))?;
            let private = PrivateKeyDer::from_pem_slice(text.as_bytes())
                .map_err(|_| format!("{}: it is not a private key in PEM", key.display()))?;
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .and_then(|builder| {
                    builder
                        .with_no_client_auth()
                        .with_single_cert(chain, private)
                })
                .map_err(|error| format!("{}: {error}", certificate.display()))
        };
        let now = self.kept.get(&[certificate, key], read);
        now.or_else(|why| self.kept.last().ok_or(why))
    }
}

/// The token.
pub(super) struct Token {
    path: PathBuf,
    kept: Kept<String>,
}

impl Token {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            kept: Kept::default(),
        }
    }

    /// The current token: the file's text without white space around it. A removed token is no longer accepted.
    pub(super) fn get(&self) -> Result<Arc<String>, String> {
        let shown = self.path.display();
        self.kept.get(&[&self.path], || {
            let mode = std::fs::metadata(&self.path)
                .map_err(|error| format!("{shown}: {error}"))?
                .mode();
            if mode & 0o007 != 0 {
                return Err(format!(
                    "{shown} can be read by every user (mode {:04o}): chmod 0600 {shown}",
                    mode & 0o7777
                ));
            }
            let text = read_text(&self.path).map_err(|error| format!("{shown}: {error}"))?;
            let token = text.trim();
            let good = token.len() >= SHORTEST && token.bytes().all(|byte| byte.is_ascii_graphic());
            if !good {
                return Err(format!(
                    "{shown} has no token: write {SHORTEST} or more letters and digits on one line \
                     (openssl rand -hex 32)"
                ));
            }
            Ok(token.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_read_again_when_it_changes_and_a_bad_one_is_refused_without_showing_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let token = Token::new(path.clone());
        assert!(token.get().unwrap_err().contains("No such file"));
        let write = |text: &str, mode: u32| {
            let temporary = directory.path().join("new");
            fs::write(&temporary, text).unwrap();
            fs::set_permissions(&temporary, fs::Permissions::from_mode(mode)).unwrap();
            fs::rename(temporary, &path).unwrap();
        };
        write("  0123456789abcdef\n", 0o600);
        assert_eq!(*token.get().unwrap(), "0123456789abcdef");
        write("fedcba9876543210\n", 0o640);
        assert_eq!(*token.get().unwrap(), "fedcba9876543210");
        for (text, mode, expected) in [
            ("0123456789abcdef\n", 0o644, "chmod 0600"),
            ("short\n", 0o600, "has no token"),
            ("two words that are long\n", 0o600, "has no token"),
            ("", 0o600, "has no token"),
        ] {
            write(text, mode);
            let why = token.get().unwrap_err();
            assert!(why.contains(expected), "{why}");
            assert!(text.is_empty() || !why.contains(text.trim()), "{why}");
        }
        fs::remove_file(&path).unwrap();
        assert!(token.get().is_err(), "a token that is gone counts no more");
    }
}
