//! A client of kube-apiserver from a kubeconfig file, for those who ask it on their own account.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use x509_parser::pem::Pem;
use x509_parser::prelude::parse_x509_pem;

/// A client of what the file's current context names. Nothing is tried twice by itself: when to try
/// again is the caller's to choose.
///
/// # Errors
///
/// What is wrong with the file, with its name, in a line.
pub async fn client(path: &Path, connect: Duration) -> Result<Client, String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if !path.exists() {
        return Err(told(&"it is not there yet"));
    }
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| told(&error))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options);
    let mut config = config.await.map_err(|error| told(&error))?;
    config.default_retry = false;
    config.connect_timeout = Some(connect);
    Client::try_from(config).map_err(|error| told(&error))
}

/// The name of the node whose identity the file is (`system:node:NAME`), by its client certificate.
pub fn node_name(path: &Path) -> Option<String> {
    let kubeconfig = Kubeconfig::read_from(path).ok()?;
    kubeconfig.auth_infos.iter().find_map(|named| {
        let user = named.auth_info.as_ref()?;
        let pem = match (&user.client_certificate_data, &user.client_certificate) {
            (Some(data), _) => crate::manifest::base64(data.as_bytes()).ok()?,
            (None, Some(file)) => std::fs::read(file).ok()?,
            (None, None) => return None,
        };
        let (_, pem): (_, Pem) = parse_x509_pem(&pem).ok()?;
        let certificate = pem.parse_x509().ok()?;
        let name = certificate.subject().iter_common_name().next()?;
        let name = name.as_str().ok()?.strip_prefix("system:node:")?;
        Some(name.to_owned())
    })
}
