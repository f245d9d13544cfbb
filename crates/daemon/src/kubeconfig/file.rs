//! The file: its current context, as kubectl reads it.
//!
//! Fields are those of <https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/>; unknown ones are passed over.
//! Fields that require another kind of connection (another user's name; for the daemon plugins and proxies too) are
//! refused. Errors name fields and lines, never values: many of them are secret.

use std::path::Path;
use std::sync::Arc;

use http::{HeaderValue, Uri};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use windrow_model::manifest::Node;

use super::authorization::{Authorization, basic, bearer};
use super::files::KubeconfigFiles;
use super::plugin::ExecPlugin;
use super::proxy::Proxy;
use super::reader::{self, KubeconfigReader, MergedFile};
use super::sources::Sources;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFor {
    /// The daemon, and everything else that runs automatically: no command in a kubeconfig is run, and no proxy is
    /// used.
    Daemon,
    /// For a user who calls a verb: fields count as for kubectl.
    Person,
}

/// The current context of a kubeconfig. It has no `Debug`: it must never be printed.
pub struct Kubeconfig {
    pub(crate) endpoint: Endpoint,
    pub(crate) credential: CredentialSource,
    pub(crate) namespace: String,
}

pub struct Endpoint {
    /// Where kube-apiserver is; a path counts as the beginning of every request's.
    pub(crate) server: Uri,
    pub(crate) trust: Trust,
    /// The name in the server's certificate, if it is not the server's address.
    pub(crate) server_name: Option<ServerName<'static>>,
    pub(crate) proxy: Option<Proxy>,
}

pub enum CredentialSource {
    /// The kubeconfig, or a file that it names.
    Known(Credential),
    Plugin(Box<ExecPlugin>),
}

pub struct Credential {
    pub(crate) identity: Option<Arc<SingleCertAndKey>>,
    pub(crate) authorization: Authorization,
}

pub enum Trust {
    /// The cluster's authorities.
    Roots(Arc<RootCertStore>),
    /// The machine's trust store: no authority is named.
    System,
    /// Any certificate is accepted.
    Anything,
}

impl Kubeconfig {
    /// Reads a kubeconfig and the files that it names. For a value in several files, the first one counts.
    ///
    /// # Errors
    ///
    /// All errors in the parts that count, each with file and line, in one line.
    pub fn read(
        files: &KubeconfigFiles,
        reads_for: ReadFor,
        provider: &CryptoProvider,
    ) -> Result<(Self, Sources), String> {
        let mut reader = KubeconfigReader::new(reads_for);
        let merged = reader.merged(files)?;
        let found = match files.context() {
            Some(name) => reader.in_context(&merged, files, name, provider),
            None => reader.current(&merged, provider),
        };
        // An invalid field counts as absent until here.
        match found {
            Some(found) if reader.wrong.is_empty() => Ok((found, reader.sources)),
            _ => Err(reader.wrong.join("; ")),
        }
    }
}

/// The first client certificates of the users in a kubeconfig, in PEM. Unreadable ones are left out.
pub(super) fn certificates(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = KubeconfigReader::new(ReadFor::Daemon);
    let Ok(merged) = reader.merged(&path.into()) else {
        return Vec::new();
    };
    let mut certificates = Vec::new();
    for file in &merged {
        reader.enter(file);
        let users = file.items("users").iter();
        let users = users.filter_map(|item| item.get("user"));
        let found = users.filter_map(|user| reader.pem(user, "client-certificate"));
        certificates.extend(found.map(|pem| pem.bytes));
    }
    certificates
}

impl KubeconfigReader {
    fn current(&mut self, files: &[MergedFile], provider: &CryptoProvider) -> Option<Kubeconfig> {
        let names_one = |file: &&MergedFile| file.names_context();
        let first = files.iter().find(names_one).or(files.first())?;
        self.enter(first);
        let (line, name) =
            self.needed(&first.root, "current-context", "name the context to use")?;
        let (file, context) = self.named(files, ("contexts", "context"), name, line)?;
        self.of_context(files, (file, context), provider)
    }

    fn in_context(
        &mut self,
        files: &[MergedFile],
        read_from: &KubeconfigFiles,
        name: &str,
        provider: &CryptoProvider,
    ) -> Option<Kubeconfig> {
        let names = files.iter().flat_map(|file| file.names_in("contexts"));
        let names: Vec<&str> = names.collect();
        if !names.contains(&name) {
            self.wrong.push(format!(
                "{read_from}: no context is called {name:?}: --context takes {}",
                match names.as_slice() {
                    [] => "one of the kubeconfig's contexts, but it has none".to_owned(),
                    names => reader::listed(names),
                }
            ));
            return None;
        }
        // It is there: its line is found with it.
        let found = self.named(files, ("contexts", "context"), name, 0)?;
        self.of_context(files, found, provider)
    }

    fn of_context(
        &mut self,
        files: &[MergedFile],
        (file, context): (&MergedFile, &Node),
        provider: &CryptoProvider,
    ) -> Option<Kubeconfig> {
        self.enter(file);
        let namespace = self.text(context, "namespace");
        let namespace = namespace.map_or("default", |(_, name)| name).to_owned();
        let user = self.text(context, "user");
        let user = user.and_then(|(line, name)| {
            let (file, user) = self.named(files, ("users", "user"), name, line)?;
            Some((file, user, name))
        });
        let (line, name) = self.needed(context, "cluster", "name the context's cluster")?;
        let (file, cluster) = self.named(files, ("clusters", "cluster"), name, line)?;
        // All of these are checked, so that one message has all errors.
        self.enter(file);
        let server = self.server(cluster);
        let trust = self.trust(cluster);
        let server_name = self.server_name(cluster);
        let proxy = self.proxy(cluster, server.as_ref());
        let credential = match user {
            None => CredentialSource::Known(Credential {
                identity: None,
                authorization: Authorization::None,
            }),
            Some((user_file, user, name)) => {
                self.enter(user_file);
                self.credential((user, name), (file, cluster), provider)
            }
        };
        Some(Kubeconfig {
            endpoint: Endpoint {
                server: server?,
                trust,
                server_name,
                proxy,
            },
            credential,
            namespace,
        })
    }

    /// A credential in the file counts before the one that a command would print.
    fn credential(
        &mut self,
        (user, name): (&Node, &str),
        (cluster_file, cluster): (&MergedFile, &Node),
        provider: &CryptoProvider,
    ) -> CredentialSource {
        let identity = self.identity(user, provider);
        let mut authorization = self.authorization(user);
        if self.reads_for == ReadFor::Person {
            let plugin = self.plugin((user, name), (cluster_file, cluster));
            let provided = self.provided_token(user, name);
            if identity.is_none() && matches!(authorization, Authorization::None) {
                if let Some(plugin) = plugin {
                    return CredentialSource::Plugin(Box::new(plugin));
                }
                authorization = provided.unwrap_or(Authorization::None);
            }
        }
        CredentialSource::Known(Credential {
            identity,
            authorization,
        })
    }

    fn server(&mut self, cluster: &Node) -> Option<Uri> {
        let (line, text) = self.needed(cluster, "server", "write https://HOST:PORT")?;
        let uri = text.parse::<Uri>().ok().filter(|uri| {
            // A name or password in it would be treated as a part of the host.
            let authority = uri.authority().map_or("@", |authority| authority.as_str());
            matches!(uri.scheme_str(), Some("https" | "http")) && !authority.contains('@')
        });
        if uri.is_none() {
            self.say(
                line,
                "`server` is not a valid address: write https://HOST:PORT, without a user's name",
            );
        }
        uri
    }

    fn trust(&mut self, cluster: &Node) -> Trust {
        let insecure = self.flag(cluster, "insecure-skip-tls-verify");
        let Some(pem) = self.pem(cluster, "certificate-authority") else {
            return match insecure {
                true => Trust::Anything,
                false => Trust::System,
            };
        };
        if insecure {
            self.say(
                pem.line,
                format!(
                    "`{}` and `insecure-skip-tls-verify: true` exclude each other, for kubectl too: remove one",
                    pem.key
                ),
            );
        }
        let mut roots = RootCertStore::empty();
        for certificate in self.chain(&pem) {
            if let Err(error) = roots.add(certificate) {
                self.say(
                    pem.line,
                    format!(
                        "`{}` has an authority that cannot be used: {error}",
                        pem.key
                    ),
                );
            }
        }
        Trust::Roots(Arc::new(roots))
    }

    fn server_name(&mut self, cluster: &Node) -> Option<ServerName<'static>> {
        let (line, text) = self.text(cluster, "tls-server-name")?;
        let name = ServerName::try_from(text.to_owned()).ok();
        if name.is_none() {
            self.say(
                line,
                "`tls-server-name` is neither a host name nor an address: write one that the server's certificate has",
            );
        }
        name
    }

    fn identity(
        &mut self,
        user: &Node,
        provider: &CryptoProvider,
    ) -> Option<Arc<SingleCertAndKey>> {
        let said = self.wrong.len();
        let certificate = self.pem(user, "client-certificate");
        let key = self.pem(user, "client-key");
        if self.wrong.len() > said {
            return None;
        }
        let (certificate, key) = match (certificate, key) {
            (None, None) => return None,
            (Some(certificate), Some(key)) => (certificate, key),
            (Some(only), None) | (None, Some(only)) => {
                let other = match only.key.starts_with("client-key") {
                    true => "client-certificate",
                    false => "client-key",
                };
                self.say(
                    only.line,
                    format!("`{}` requires `{other}` or `{other}-data`", only.key),
                );
                return None;
            }
        };
        let chain = self.chain(&certificate);
        // The error of a key reveals nothing about the key.
        let Ok(private) = PrivateKeyDer::from_pem_slice(&key.bytes) else {
            self.say(
                key.line,
                format!(
                    "`{}` has no private key in PEM (`BEGIN … PRIVATE KEY`)",
                    key.key
                ),
            );
            return None;
        };
        if self.wrong.len() > said {
            return None;
        }
        match CertifiedKey::from_der(chain, private, provider) {
            Ok(identity) => Some(Arc::new(identity.into())),
            Err(error) => {
                self.say(
                    key.line,
                    format!(
                        "`{}` and `{}` do not fit: {error}",
                        certificate.key, key.key
                    ),
                );
                None
            }
        }
    }

    fn authorization(&mut self, user: &Node) -> Authorization {
        if self.reads_for == ReadFor::Daemon {
            for key in ["exec", "auth-provider"] {
                let instead = "no credential plugin is run; give this user a client certificate \
                               (`client-certificate`, `client-key`) or a token (`token`, `tokenFile`)";
                self.refuse(user, key, instead);
            }
        }
        for key in ["as", "as-uid", "as-groups", "as-user-extra"] {
            let instead = "use a client certificate or a token of the user that you mean";
            self.refuse(user, key, instead);
        }
        let name = self.text(user, "username");
        let password = self.text(user, "password").map_or("", |(_, text)| text);
        let token = self.text(user, "token");
        let file = self.text(user, "tokenFile");
        if let (Some((line, _)), true) = (name, token.is_some() || file.is_some()) {
            self.say(
                line,
                "`username` and a token exclude each other, for kubectl too: remove one",
            );
            return Authorization::None;
        }
        if let Some((line, name)) = name {
            return self.header(line, "username", basic(name, password));
        }
        let (line, file) = match (token, file) {
            (None, None) => return Authorization::None,
            (Some((line, token)), None) => return self.header(line, "token", bearer(token)),
            (_, Some(file)) => file,
        };
        // The file's token counts before the other one, which counts until the file is there.
        let otherwise = token.and_then(|(_, token)| bearer(token));
        match Authorization::of_file(self.beside(file), otherwise) {
            Ok(authorization) => authorization,
            Err(why) => {
                self.say(line, format!("`tokenFile`: {why}"));
                Authorization::None
            }
        }
    }

    fn header(&mut self, line: u32, key: &str, value: Option<HeaderValue>) -> Authorization {
        value.map_or_else(
            || {
                self.say(
                    line,
                    format!("`{key}` has a line break or another character that no request can carry: write it again"),
                );
                Authorization::None
            },
            Authorization::Always,
        )
    }
}
