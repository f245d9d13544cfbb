//! A kubeconfig: its server and its user, read with line numbers.
//!
//! The reader is our own (docs/dev/dependencies.md gives the reasons). The connection that a kubeconfig describes is made
//! in [`crate::apiserver`].

mod authorization;
mod file;
#[cfg(test)]
mod file_tests;
mod files;
#[cfg(test)]
mod merge_tests;
#[cfg(test)]
mod person_tests;
mod plugin;
mod provided;
mod proxy;
mod reader;
#[cfg(test)]
mod refusal_tests;
mod sources;

use std::path::Path;

use x509_parser::pem::Pem;
use x509_parser::prelude::parse_x509_pem;

pub use self::authorization::{Authorization, bearer};
pub use self::file::{Credential, CredentialSource, Endpoint, Kubeconfig, ReadFor, Trust};
pub use self::files::KubeconfigFiles;
pub(crate) use self::plugin::{ExecPlugin, Interaction};
pub(crate) use self::proxy::Proxy;
pub(crate) use self::sources::Sources;

/// The name of the node whose identity the file is (`system:node:NAME`), by its client certificate.
pub fn node_name(path: &Path) -> Option<String> {
    file::certificates(path).into_iter().find_map(|pem| {
        let (_, pem): (_, Pem) = parse_x509_pem(&pem).ok()?;
        let certificate = pem.parse_x509().ok()?;
        let name = certificate.subject().iter_common_name().next()?;
        let name = name.as_str().ok()?.strip_prefix("system:node:")?;
        Some(name.to_owned())
    })
}
