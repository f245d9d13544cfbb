//! Probes from the configuration: their checks and their consequences.

use std::time::Duration;

use windrow_model::reasons::Code;

use super::{NodeRole, Phase, ProbeId, ProbeSeverity, ProbeSpec};
use crate::rules::{Expression, Platform};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomProbe {
    /// It is shown as `user/NAME`.
    pub name: String,
    pub question: CustomQuestion,
    pub period: Duration,
    pub timeout: Duration,
    /// Consecutive passes after which it is passing.
    pub rise: u32,
    /// Consecutive failures after which it is failing.
    pub fall: u32,
    pub severity: ProbeSeverity,
    pub roles: Vec<NodeRole>,
    /// The bootstrap phase that waits for it. A phase that the platform does not have counts as [`Phase::Node`].
    pub phase: Phase,
    /// The meaning of a failure, from the configuration.
    pub message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CustomQuestion {
    /// GET over HTTP or HTTPS, without redirects and without a proxy.
    Http(HttpQuestion),
    /// Checks whether a program listens there.
    Tcp {
        /// IPv6 addresses have no brackets.
        host: String,
        port: u16,
    },
    /// The state of a systemd unit.
    Unit {
        /// Full name of the unit (`chronyd.service`).
        name: String,
        /// `ActiveState`s that pass.
        states: Vec<String>,
    },
    File(FileQuestion),
    Object(ObjectQuestion),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpQuestion {
    /// Contains neither a user nor a password.
    pub url: String,
    /// Status codes that pass; empty for any 2xx.
    pub status: Vec<u16>,
    /// Text that the body must contain.
    pub contains: Option<String>,
    /// File with the trusted certificate authorities, instead of those of the system.
    pub ca_file: Option<String>,
    /// Accept any certificate.
    pub insecure: bool,
    /// File with `Name: value` lines, read again for each check. It may contain secrets.
    pub headers_file: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileQuestion {
    /// Absolute.
    pub path: String,
    /// Whether the file must exist or must not exist.
    pub exists: bool,
    /// Text that the first 256 KiB must contain.
    pub contains: Option<String>,
    /// Largest allowed age of the last write.
    pub newer_than: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectQuestion {
    /// For example `v1` or `apps/v1`.
    pub api_version: String,
    pub kind: String,
    /// Defaults to `default` if the kind has namespaces.
    pub namespace: Option<String>,
    /// `None` means the own Node of the node.
    pub name: Option<String>,
    /// Condition for the object. Without one the object must only exist.
    pub expression: Option<Expression>,
}

impl ObjectQuestion {
    /// Whether a node may read it with its own identity (`system:node:NAME`): its own Node and Services. All other permissions of
    /// the node authorizer depend on the pods of the node.
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

/// The configured probes that apply to a node.
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
