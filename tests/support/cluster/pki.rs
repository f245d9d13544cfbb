//! The cluster's certificates and kubeconfigs.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// The name of kube-apiserver before the APIs that it passes requests on to.
pub(super) const PROXY: &str = "system:auth-proxy";

/// The identity of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// `system:masters`: may do everything, as RKE2's admin kubeconfig.
    Admin,
    /// `system:node:node1` in `system:nodes`: what the kubelet of node1 may do, and no more.
    Node,
    /// A user without any right.
    Viewer,
}

impl Who {
    const ALL: [Self; 3] = [Self::Admin, Self::Node, Self::Viewer];

    fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Node => "node",
            Self::Viewer => "viewer",
        }
    }

    fn subject(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Admin => ("system:admin", Some("system:masters")),
            Self::Node => ("system:node:node1", Some("system:nodes")),
            Self::Viewer => ("viewer", None),
        }
    }
}

/// The files of a cluster's identities.
pub(super) struct Pki {
    dir: PathBuf,
}

impl Pki {
    /// Makes all files below a directory.
    pub(super) fn create(dir: &Path) -> Self {
        let pki = Self {
            dir: dir.join("pki"),
        };
        fs::create_dir_all(&pki.dir).expect("the directory is writable");
        let mut params = CertificateParams::new([]).expect("no names are fine names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        params
            .distinguished_name
            .push(DnType::CommonName, "test-ca");
        let ca = CertifiedIssuer::self_signed(params, key()).expect("a CA can sign itself");
        pki.write("ca.crt", &ca.pem());

        let names = [
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "kubernetes.default.svc".to_owned(),
        ];
        pki.sign(
            &ca,
            "server",
            ("kube-apiserver", None),
            &names,
            ExtendedKeyUsagePurpose::ServerAuth,
        );
        for who in Who::ALL {
            pki.sign(
                &ca,
                who.name(),
                who.subject(),
                &[],
                ExtendedKeyUsagePurpose::ClientAuth,
            );
        }
        // kube-apiserver's own, when it passes requests on to the API of an APIService.
        pki.sign(
            &ca,
            PROXY,
            (PROXY, None),
            &[],
            ExtendedKeyUsagePurpose::ClientAuth,
        );
        let key = key();
        pki.write("service-account.key", &key.serialize_pem());
        // kube-apiserver reads a private key of this form only where it signs.
        pki.write("service-account.pub", &key.public_key_pem());
        pki
    }

    fn sign(
        &self,
        ca: &CertifiedIssuer<'_, KeyPair>,
        file: &str,
        (name, group): (&str, Option<&str>),
        addresses: &[String],
        usage: ExtendedKeyUsagePurpose,
    ) {
        let mut params = CertificateParams::new(addresses).expect("the addresses are ASCII");
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = key();
        let cert = params.signed_by(&key, ca).expect("the CA can sign");
        self.write(&format!("{file}.crt"), &cert.pem());
        self.write(&format!("{file}.key"), &key.serialize_pem());
    }

    fn write(&self, file: &str, content: &str) {
        fs::write(self.dir.join(file), content).expect("the directory is writable");
    }

    /// Writes one kubeconfig per identity.
    pub(super) fn write_kubeconfigs(&self, port: u16) {
        for who in Who::ALL {
            // As RKE2's own: what the files of a directory that stands for a node name outside of it is not read.
            let data = |path: &Path| {
                let pem = fs::read(path).expect("it was written");
                BASE64_STANDARD.encode(pem)
            };
            let file = |end| data(&self.dir.join(format!("{}.{end}", who.name())));
            let text = serde_json::json!({
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{ "name": "default", "cluster": {
                    "server": format!("https://127.0.0.1:{port}"),
                    "certificate-authority-data": data(&self.ca()),
                }}],
                "users": [{ "name": "default", "user": {
                    "client-certificate-data": file("crt"),
                    "client-key-data": file("key"),
                }}],
                "contexts": [{ "name": "default", "context": { "cluster": "default", "user": "default" } }],
                "current-context": "default",
            });
            fs::write(self.kubeconfig(who), text.to_string()).expect("the directory is writable");
        }
    }

    pub(super) fn kubeconfig(&self, who: Who) -> PathBuf {
        self.dir.join(format!("{}.kubeconfig", who.name()))
    }

    pub(super) fn ca(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub(super) fn server(&self) -> (PathBuf, PathBuf) {
        (self.dir.join("server.crt"), self.dir.join("server.key"))
    }

    pub(super) fn proxy(&self) -> (PathBuf, PathBuf) {
        let file = |end| self.dir.join(format!("{PROXY}.{end}"));
        (file("crt"), file("key"))
    }

    /// Puts a certificate of an authority that nobody trusts in place of the API server's, which loads it without a restart.
    pub(super) fn replace_server(&self) -> OwnCertificate {
        let (certificate, key) = self.server();
        let own = [certificate, key].map(|path| (fs::read(&path).expect("it was written"), path));
        let foreign = Self::create(&self.dir);
        let (certificate, key) = foreign.server();
        for (path, (_, place)) in [certificate, key].iter().zip(&own) {
            fs::copy(path, place).expect("the directory is writable");
        }
        OwnCertificate(own)
    }

    pub(super) fn service_account_key(&self) -> PathBuf {
        self.dir.join("service-account.key")
    }

    pub(super) fn service_account_public_key(&self) -> PathBuf {
        self.dir.join("service-account.pub")
    }
}

/// The API server's own certificate and key, while it serves others.
#[must_use]
pub(crate) struct OwnCertificate([(Vec<u8>, PathBuf); 2]);

impl OwnCertificate {
    pub(crate) fn serve_again(self) {
        for (content, path) in self.0 {
            fs::write(path, content).expect("the directory is writable");
        }
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key can be made")
}
