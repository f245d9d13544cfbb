//! The command line of `windrow rack` and its files.

use std::path::PathBuf;

use windrow_decide::CertificateSource;
use windrow_rack::Inventory;

use super::Args;
use super::running::RunningRack;
use crate::cli::inputs::{name_of, text_of};
use crate::fs;
use crate::https::{CertificateFiles, Token, check_pair};
use crate::rack::ask::{AskWith, AskedServer};

/// The names of the unit's credentials from systemd: the token, and a certificate with its key.
const TOKEN: &str = "windrow-rack.token";
const CERTIFICATE: &str = "windrow-rack.crt";
const KEY: &str = "windrow-rack.key";
/// The self-signed certificate, in the directory of `--state`.
const OWN_CERTIFICATE: &str = "certificate.pem";

pub(super) struct Prepared {
    pub(super) inventory: Inventory,
    pub(super) asked: Vec<AskedServer>,
    pub(super) with: AskWith,
    pub(super) token: Option<PathBuf>,
    /// For HTTPS; without them, HTTP is used.
    pub(super) certificate: Option<CertificateFiles>,
}

impl Args {
    /// Reads and checks everything that the command line names.
    ///
    /// # Errors
    ///
    /// All errors in it.
    pub(super) fn prepare(&self) -> Result<Prepared, Vec<String>> {
        let mut errors = Vec::new();
        let inventory = match &self.nodes {
            None => Inventory::default(),
            Some(path) => {
                let read = text_of(path).map_err(|why| vec![why]);
                let read = read.and_then(|text| {
                    Inventory::read(&name_of(path), &text)
                        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
                });
                read.unwrap_or_else(|wrong| {
                    errors.extend(wrong);
                    Inventory::default()
                })
            }
        };
        let mut asked: Vec<AskedServer> = Vec::new();
        for node in inventory.nodes().iter().filter(|node| !node.url.is_empty()) {
            asked.push(AskedServer {
                url: node.url.clone(),
                fingerprint: node.fingerprint.clone(),
                identity: Some(node.identity.clone()),
            });
        }
        for url in &self.ask {
            match url.parse::<reqwest::Url>() {
                Ok(url) if matches!(url.scheme(), "https" | "http") => asked.push(AskedServer {
                    url: url.into(),
                    ..AskedServer::default()
                }),
                _ => errors.push(format!("--ask {url}: write https://node:9346/status")),
            }
        }
        let with = AskWith::read(self.ask_token_file.as_deref(), self.ca_file.as_deref());
        let with = with.unwrap_or_else(|why| {
            errors.push(why);
            AskWith::default()
        });
        let in_clear = asked.iter().filter(|one| !one.speaks_https());
        if with.token.is_some() {
            errors.extend(in_clear.map(|one| {
                format!(
                    "{}: the token of --ask-token-file would be sent unencrypted: write https://",
                    one.url
                )
            }));
        }
        let token = self.token_file.clone().or_else(|| credential(TOKEN));
        if token.is_none() && !self.listen.ip().is_loopback() {
            errors.push(format!(
                "--listen {}: other hosts can reach it: set a token with --token-file (openssl rand -hex 32)",
                self.listen
            ));
        }
        if let Some(path) = &token
            && let Err(why) = Token::new(vec![path.clone()]).get()
        {
            errors.push(why);
        }
        let certificate = self.certificate_files();
        // A certificate that an operator has configured is used or reported as wrong; nothing else replaces it.
        if let Some(files) = &certificate
            && let Some((certificate, key)) = files.pairs.first()
            && let Err(why) = check_pair(certificate, key)
        {
            errors.push(why);
        }
        match errors.is_empty() {
            true => Ok(Prepared {
                certificate,
                inventory,
                asked,
                with,
                token,
            }),
            false => Err(errors),
        }
    }

    /// The state directory: from the command line, from systemd, or none.
    pub(super) fn state(&self) -> Option<PathBuf> {
        let asked = self.state.clone();
        asked.or_else(|| std::env::var_os("STATE_DIRECTORY").map(PathBuf::from))
    }

    /// The certificate for HTTPS: the given files, or a self-signed one on every address except loopback.
    fn certificate_files(&self) -> Option<CertificateFiles> {
        let own = self.tls_cert_file.clone().zip(self.tls_key_file.clone());
        let pair = own.or_else(|| credential(CERTIFICATE).zip(credential(KEY)));
        let speaks = pair.is_some() || !self.listen.ip().is_loopback();
        (speaks && !self.plain_http).then(|| CertificateFiles {
            source: CertificateSource::Configured,
            pairs: pair.into_iter().collect(),
            own: self
                .state()
                .map(|directory| directory.join(OWN_CERTIFICATE)),
        })
    }

    pub(super) fn running(&self) -> RunningRack {
        RunningRack {
            listen: self.listen,
            // With a fingerprint nothing is sent before the certificate is checked.
            plain: self.fingerprint.is_none()
                && (self.plain_http
                    || (self.listen.ip().is_loopback() && self.tls_cert_file.is_none())),
            fingerprint: self.fingerprint.clone(),
        }
    }
}

fn credential(name: &str) -> Option<PathBuf> {
    let directory = std::env::var_os("CREDENTIALS_DIRECTORY")?;
    let path = PathBuf::from(directory).join(name);
    fs::exists(&path).then_some(path)
}
