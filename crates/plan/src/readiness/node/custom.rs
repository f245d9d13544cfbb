//! Probes that the configuration defines: what is asked, and what follows.

use std::time::Duration;

use windrow_model::reasons::Code;

use super::{NodeRole, Phase, ProbeId, ProbeSeverity, ProbeSpec};
use crate::rules::{Expression, Platform};

/// A probe of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomProbe {
    /// Its name; it is shown as `user/NAME`.
    pub name: String,
    /// What is asked.
    pub question: CustomQuestion,
    /// How often.
    pub period: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How many passes in a row make it passing.
    pub rise: u32,
    /// How many failures in a row make it failing.
    pub fall: u32,
    /// What follows when it fails.
    pub severity: ProbeSeverity,
    /// The roles in which a node is asked.
    pub roles: Vec<NodeRole>,
    /// The phase of the bootstrap that waits for it; one that the platform does not have counts as
    /// [`Phase::Node`].
    pub phase: Phase,
    /// What its failure means, in the words of whoever wrote it.
    pub message: Option<String>,
}

/// What a probe of the configuration asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CustomQuestion {
    /// GET over HTTP or HTTPS. No redirect is followed and no proxy is used.
    Http(HttpQuestion),
    /// Does a program listen there?
    Tcp {
        /// Name or address, IPv6 without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// The state of a unit of systemd.
    Unit {
        /// Its whole name (`chronyd.service`).
        name: String,
        /// `ActiveState`s that are as they should be.
        states: Vec<String>,
    },
    /// A file.
    File(FileQuestion),
    /// A Kubernetes object.
    Object(ObjectQuestion),
}

/// A question over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpQuestion {
    /// Where; it holds no user and no password.
    pub url: String,
    /// Statuses that are as they should be; every 2xx when there are none.
    pub status: Vec<u16>,
    /// A text that the body has to contain.
    pub contains: Option<String>,
    /// A file with the certificate authorities that are trusted, instead of the system's.
    pub ca_file: Option<String>,
    /// The certificate is not checked.
    pub insecure: bool,
    /// A file with `Name: value` lines, read again for every question. It may hold secrets.
    pub headers_file: Option<String>,
}

/// A question about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileQuestion {
    /// Its absolute path.
    pub path: String,
    /// It has to be there, or not.
    pub exists: bool,
    /// A text that it has to contain, in its first 256 KiB.
    pub contains: Option<String>,
    /// It has to have been written no longer ago.
    pub newer_than: Option<Duration>,
}

/// A question about a Kubernetes object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectQuestion {
    /// `v1`, `apps/v1`…
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; `default` where the kind has namespaces and none is given.
    pub namespace: Option<String>,
    /// Its name; `None` is the node's own, for a Node.
    pub name: Option<String>,
    /// What has to be true of it; that it exists is enough when there is none.
    pub expression: Option<Expression>,
}

impl ObjectQuestion {
    /// May a node ask for it with its own identity (`system:node:NAME`)? Its own Node and Services: what
    /// else the node authorizer allows depends on the pods that the node runs.
    pub fn is_for_nodes(&self) -> bool {
        self.api_version == "v1"
            && match self.kind.as_str() {
                "Node" => self.name.is_none(),
                "Service" => true,
                _ => false,
            }
    }
}

impl CustomProbe {
    /// Its name wherever probes are named.
    pub fn id(&self) -> ProbeId {
        ProbeId::user(&self.name)
    }

    fn spec(&self, platform: Option<Platform>) -> ProbeSpec {
        let known = Phase::bootstrap(platform).contains(&self.phase);
        ProbeSpec {
            id: self.id(),
            period: self.period,
            timeout: self.timeout,
            rise: self.rise,
            fall: self.fall,
            severity: self.severity,
            phase: if known { self.phase } else { Phase::Node },
            code: Code::ProbeFailed,
            day_zero: false,
            off: None,
            limit: None,
        }
    }
}

/// The probes of the configuration that apply to a node.
pub fn custom_specs(
    custom: &[CustomProbe],
    role: NodeRole,
    platform: Option<Platform>,
) -> Vec<ProbeSpec> {
    custom
        .iter()
        .filter(|probe| probe.roles.contains(&role))
        .map(|probe| probe.spec(platform))
        .collect()
}
