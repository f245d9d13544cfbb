use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;

use super::authorization::Authorization;
use super::file::{Credential, CredentialSource, Kubeconfig, ReadFor, Trust};
use super::node_name;

pub(super) struct KubeconfigDir {
    pub(super) directory: tempfile::TempDir,
}

impl KubeconfigDir {
    pub(super) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("config")
    }

    pub(super) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.directory.path().join(name), text).unwrap();
    }

    pub(super) fn read(&self, text: &str) -> Result<Kubeconfig, String> {
        self.read_for(ReadFor::Daemon, text)
    }

    pub(super) fn read_for(&self, whom: ReadFor, text: &str) -> Result<Kubeconfig, String> {
        self.write("config", text);
        let files = (&self.path()).into();
        Kubeconfig::read(&files, whom, &ring::default_provider()).map(|(read, _)| read)
    }

    pub(super) fn wrong(&self, text: &str) -> String {
        self.wrong_for(ReadFor::Daemon, text)
    }

    pub(super) fn wrong_for(&self, whom: ReadFor, text: &str) -> String {
        let why = self.read_for(whom, text).err().expect("a refusal");
        why.replace(&self.path().display().to_string(), "FILE")
    }
}

/// A kubeconfig with these fields of the cluster and the user, as YAML in braces.
pub(super) fn config(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
current-context: here
contexts:
- name: here
  context: {{cluster: c, user: u}}
clusters:
- name: c
  cluster: {{{cluster}}}
users:
- name: u
  user: {{{user}}}
"
    )
}

pub(super) const SERVER: &str = "server: 'https://127.0.0.1:6443'";

/// A certificate with this common name, signed by its own key, and that key; both in PEM.
pub(super) fn certificate_of(name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

pub(super) fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

/// The credential in the kubeconfig itself.
pub(super) fn known(kubeconfig: &Kubeconfig) -> &Credential {
    match &kubeconfig.credential {
        CredentialSource::Known(credential) => credential,
        CredentialSource::Plugin(_) => panic!("a command prints it"),
    }
}

pub(super) fn sent(authorization: &Authorization) -> Option<String> {
    let value: Option<HeaderValue> = authorization.header();
    value.map(|value| value.to_str().unwrap().to_owned())
}

#[test]
fn what_the_current_context_names_is_read_and_what_is_unknown_passed_over() {
    let place = KubeconfigDir::new();
    let (certificate, key) = certificate_of("admin");
    let text = format!(
        "apiVersion: v1
kind: Config
preferences: {{colors: true}}
later: than this
current-context: \"yes\"
contexts:
- name: other
  context: {{cluster: other, user: other}}
- name: 'yes'
  context: {{cluster: c, user: u, namespace: cattle-system, extensions: []}}
clusters:
- name: other
  cluster: {{server: 1, proxy-url: socks5://x}}
- name: c
  cluster:
    server: https://rancher.example/k8s/clusters/c-m-1
    certificate-authority-data: {authority}
    certificate-authority: /not/read
    tls-server-name: kubernetes
    disable-compression: true
users:
- name: other
  user: {{exec: {{command: x}}}}
- name: u
  user:
    client-certificate-data: {certificate}
    client-key-data: |
      {key}
    token: abc
    exec: null
    as: ''
    as-groups: []
    auth-provider: {{}}
",
        authority = encoded(&certificate_of("authority").0),
        certificate = encoded(&certificate),
        key = encoded(&key),
    );
    let read = place.read(&text).unwrap();
    assert_eq!(
        read.endpoint.server,
        "https://rancher.example/k8s/clusters/c-m-1"
    );
    assert!(matches!(&read.endpoint.trust, Trust::Roots(roots) if roots.len() == 1));
    assert_eq!(
        read.endpoint.server_name,
        ServerName::try_from("kubernetes").ok()
    );
    assert!(known(&read).identity.is_some());
    assert_eq!(
        sent(&known(&read).authorization).as_deref(),
        Some("Bearer abc")
    );
    assert_eq!(read.namespace, "cattle-system");
}

#[test]
fn files_are_found_beside_the_kubeconfig() {
    let place = KubeconfigDir::new();
    let (certificate, key) = certificate_of("admin");
    place.write("ca.crt", certificate_of("one").0 + &certificate_of("two").0);
    place.write("client.crt", certificate);
    place.write("client.key", key);
    place.write("token", "  from-file\n");
    let read = place
        .read(&config(
            &format!("{SERVER}, certificate-authority: ca.crt"),
            "client-certificate: ./client.crt, client-key: client.key, tokenFile: token",
        ))
        .unwrap();
    assert!(matches!(&read.endpoint.trust, Trust::Roots(roots) if roots.len() == 2));
    assert!(known(&read).identity.is_some());
    assert_eq!(
        sent(&known(&read).authorization).as_deref(),
        Some("Bearer from-file")
    );
    assert_eq!(read.namespace, "default");
    let absolute = place.directory.path().join("token");
    let read = place.read(&config(
        SERVER,
        &format!("tokenFile: '{}'", absolute.display()),
    ));
    assert_eq!(
        sent(&known(&read.unwrap()).authorization).as_deref(),
        Some("Bearer from-file")
    );
}

#[test]
fn who_asks_is_told_as_kubectl_would_tell_it() {
    let place = KubeconfigDir::new();
    place.write("token", "from-file");
    for (user, expected) in [
        ("", None),
        ("token: ''", None),
        ("token: null, tokenFile: ~", None),
        ("token: abc", Some("Bearer abc")),
        ("token: abc, tokenFile: token", Some("Bearer from-file")),
        ("token: abc, tokenFile: not-there", Some("Bearer abc")),
        // RFC 7617's own example.
        (
            "username: Aladdin, password: open sesame",
            Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ),
        ("username: only", Some("Basic b25seTo=")),
    ] {
        let read = place.read(&config(SERVER, user)).unwrap();
        assert_eq!(
            sent(&known(&read).authorization).as_deref(),
            expected,
            "{user}"
        );
        assert!(known(&read).identity.is_none());
    }
    let without_user = config(SERVER, "").replace(", user: u", "");
    assert_eq!(
        sent(&known(&place.read(&without_user).unwrap()).authorization),
        None
    );
    let nothing = config(SERVER, "").replace("user: {}", "user:");
    assert_eq!(
        sent(&known(&place.read(&nothing).unwrap()).authorization),
        None
    );
}

#[test]
fn without_an_authority_the_machine_decides_unless_anything_is_believed() {
    let place = KubeconfigDir::new();
    let trust = |cluster: &str| place.read(&config(cluster, "")).unwrap().endpoint.trust;
    assert!(matches!(trust(SERVER), Trust::System));
    let insecure = format!("{SERVER}, insecure-skip-tls-verify: true");
    assert!(matches!(trust(&insecure), Trust::Anything));
    let not = format!("{SERVER}, insecure-skip-tls-verify: false");
    assert!(matches!(trust(&not), Trust::System));
}

#[test]
fn a_node_is_known_by_its_certificate_whatever_else_is_wrong() {
    let place = KubeconfigDir::new();
    let (node, _) = certificate_of("system:node:node1");
    place.write("admin.crt", certificate_of("system:admin").0);
    place.write("node.crt", &node);
    let users = |node: &str| {
        format!(
            "users: [{{name: a}}, {{name: b, user: {{client-certificate: admin.crt}}}}, \
             {{name: c, user: {{client-certificate-data: '*', exec: {{}}}}}}, {{name: d, user: {{{node}}}}}]\n"
        )
    };
    for (text, expected) in [
        (users("client-certificate: node.crt"), Some("node1")),
        (
            users(&format!("client-certificate-data: {}", encoded(&node))),
            Some("node1"),
        ),
        (users("client-certificate: not-there"), None),
        (users(""), None),
        ("users: [".to_owned(), None),
    ] {
        place.write("config", &text);
        assert_eq!(node_name(&place.path()).as_deref(), expected, "{text}");
    }
    fs::remove_file(place.path()).unwrap();
    assert_eq!(node_name(&place.path()), None);
}
