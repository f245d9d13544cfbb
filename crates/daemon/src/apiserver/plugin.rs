//! Runs a kubeconfig's command for a credential, and reads its output: an ExecCredential
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins>).
//!
//! Its output is secret: no error shows it. Its standard error is for the user, who sees it.

use std::io::{self, IsTerminal as _};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use windrow_model::manifest::{Node, yaml};

use crate::kubeconfig::{Authorization, Credential, ExecPlugin, Interaction, bearer};

/// Most output of a command, in bytes.
const LARGEST: u64 = 1 << 20;
const WANTED: &str = "KUBERNETES_EXEC_INFO";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Terminal {
    /// It is as the user left it.
    OfPerson,
    /// A console uses it: nothing may be asked or written.
    Taken,
}

pub(super) struct PrintedCredential {
    pub(super) credential: Credential,
    pub(super) ends: Option<Timestamp>,
}

/// Runs the command.
///
/// # Errors
///
/// In a line, why there is no credential, with file, line, command and user.
pub(super) async fn credential(
    plugin: &ExecPlugin,
    terminal: Terminal,
    provider: &CryptoProvider,
    patience: Duration,
) -> Result<PrintedCredential, String> {
    let printed = run(plugin, terminal, patience).await;
    let read = printed.and_then(|printed| read(&printed, &plugin.api_version, provider));
    read.map_err(|why| {
        format!(
            "{}: `{}`, which prints the credential of {:?}, {why}",
            plugin.at,
            plugin.command.display(),
            plugin.user
        )
    })
}

async fn run(
    plugin: &ExecPlugin,
    terminal: Terminal,
    patience: Duration,
) -> Result<Vec<u8>, String> {
    let there = terminal == Terminal::OfPerson && io::stdin().is_terminal();
    let asks = match plugin.interaction {
        Interaction::Never => false,
        Interaction::IfAvailable => there,
        Interaction::Always if there => true,
        Interaction::Always => {
            return Err("wants to ask on the terminal (`interactiveMode: Always`), but there is no terminal: call the verb on one".to_owned());
        }
    };
    let mut spec = json!({ "interactive": asks });
    if let Some(cluster) = &plugin.cluster {
        spec["cluster"] = cluster.clone();
    }
    let wanted =
        json!({ "kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec });
    let mut command = Command::new(&plugin.command);
    command
        .args(&plugin.args)
        .envs(plugin.env.iter().map(|(name, value)| (name, value)))
        .env(WANTED, wanted.to_string())
        .stdin(if asks {
            Stdio::inherit()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(match terminal {
            Terminal::OfPerson => Stdio::inherit(),
            Terminal::Taken => Stdio::null(),
        })
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => not_there(plugin),
        _ => format!("cannot be run: {error}"),
    })?;
    let ended = timeout(patience, output(&mut child)).await;
    let Ok(ended) = ended else {
        // It may have ended in this moment.
        let _ = child.kill().await;
        return Err(format!(
            "has printed nothing whole within {} s and was ended: run it manually to see why it waits",
            patience.as_secs_f32().ceil()
        ));
    };
    let (printed, status) = ended.map_err(|error| format!("cannot be read: {error}"))?;
    if !status.success() {
        let said = match terminal {
            Terminal::OfPerson => "its output is above",
            Terminal::Taken => "run it manually to see its output",
        };
        return Err(format!("has failed ({status}): {said}"));
    }
    Ok(printed)
}

async fn output(child: &mut Child) -> io::Result<(Vec<u8>, ExitStatus)> {
    let mut printed = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(LARGEST).read_to_end(&mut printed).await?;
    }
    Ok((printed, child.wait().await?))
}

fn not_there(plugin: &ExecPlugin) -> String {
    let looked = match plugin.command.components().count() {
        1 => "is not there, in no directory of PATH",
        _ => "is not there",
    };
    match &plugin.install_hint {
        // It is the kubeconfig's, and goes to a terminal.
        Some(hint) => format!("{looked}. {}", crate::printable::printable(hint)),
        None => format!("{looked}: install it, or mend `command`"),
    }
}

/// An ExecCredential, in JSON or YAML as client-go reads both.
fn read(
    printed: &[u8],
    api_version: &str,
    provider: &CryptoProvider,
) -> Result<PrintedCredential, String> {
    let text = std::str::from_utf8(printed).ok();
    let root = text.and_then(|text| yaml::parse_configuration(text).ok().flatten());
    let root = root.filter(|root| root.str_at(&["kind"]) == Some("ExecCredential"));
    let Some(root) = root else {
        return Err("has printed no ExecCredential: run it manually to see its output".to_owned());
    };
    match root.str_at(&["apiVersion"]) {
        Some(version) if version == api_version => {}
        _ => {
            return Err(format!(
                "has printed another version than the kubeconfig's `apiVersion`, {api_version}: write the one that it prints"
            ));
        }
    }
    let field = |name: &str| {
        let text = root.at(&["status", name]).and_then(Node::as_str);
        text.filter(|text| !text.is_empty())
    };
    let authorization = match field("token").map(bearer) {
        None => Authorization::None,
        Some(Some(value)) => Authorization::Always(value),
        Some(None) => return Err("has printed a token that no request can carry".to_owned()),
    };
    let identity = match (field("clientCertificateData"), field("clientKeyData")) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some(identity(certificate, key, provider)?),
        _ => return Err("has printed only one of client certificate and key".to_owned()),
    };
    if identity.is_none() && matches!(authorization, Authorization::None) {
        return Err("has printed neither a token nor a client certificate: run it by hand, you may have to log in".to_owned());
    }
    let ends = match field("expirationTimestamp").map(str::parse::<Timestamp>) {
        None => None,
        Some(Ok(end)) => Some(end),
        Some(Err(_)) => {
            return Err("has printed an `expirationTimestamp` that is not a valid time".to_owned());
        }
    };
    Ok(PrintedCredential {
        credential: Credential {
            identity,
            authorization,
        },
        ends,
    })
}

fn identity(
    certificate: &str,
    key: &str,
    provider: &CryptoProvider,
) -> Result<Arc<SingleCertAndKey>, String> {
    let wrong =
        || "has printed a client certificate and a key that cannot be used together".to_owned();
    let chain =
        CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<Vec<_>, _>>();
    let chain = chain
        .ok()
        .filter(|chain| !chain.is_empty())
        .ok_or_else(wrong)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| wrong())?;
    let certified = CertifiedKey::from_der(chain, key, provider).map_err(|_| wrong())?;
    Ok(Arc::new(certified.into()))
}
