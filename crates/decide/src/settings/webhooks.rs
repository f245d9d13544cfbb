//! `webhooks:` of the configuration, and `install.webhooks` of the configuration that Harvester's
//! installer leaves on the node: which event is sent where.
//!
//! ```yaml
//! webhooks:
//! - event: NODE_READY
//!   method: POST
//!   url: https://console.example/nodes/{{.Hostname}}
//!   headers: {X-Rack: [r12]}
//!   payload: '{"node": "{{.Hostname}}"}'
//!   insecure: false
//!   basicAuth: {user: windrow, password: secret}
//!   every: 60s
//!   fingerprint: 9f86d081…
//! ```
//!
//! The schema is Harvester's own (`pkg/installer/config/config.go`, `Webhook`), and `every` and `fingerprint` are
//! Windrow's. The files add up.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windrow_model::findings::Location;

use super::template::WebhookTemplate;
use super::url;

/// An event that a webhook can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WebhookEvent {
    /// The node has become Ready.
    NodeReady,
    /// It works, and something is wrong.
    NodeDegraded,
    /// It does not work and is not on its way.
    NodeFailed,
    /// The cluster's first server is ready for the first time.
    ClusterReady,
    /// A manifest is held beyond its deadline, or RKE2 cannot apply it.
    StagingBlocked,
    /// The boot hangs.
    NodeStalled,
    /// The node has come to another phase.
    NodePhase,
    /// Windrow runs on the node, whatever its state.
    NodeSeen,
}

impl WebhookEvent {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::NodeReady,
        Self::NodeDegraded,
        Self::NodeFailed,
        Self::ClusterReady,
        Self::StagingBlocked,
        Self::NodeStalled,
        Self::NodePhase,
        Self::NodeSeen,
    ];

    /// The name, as it is configured.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeReady => "NODE_READY",
            Self::NodeDegraded => "NODE_DEGRADED",
            Self::NodeFailed => "NODE_FAILED",
            Self::ClusterReady => "CLUSTER_READY",
            Self::StagingBlocked => "STAGING_BLOCKED",
            Self::NodeStalled => "NODE_STALLED",
            Self::NodePhase => "NODE_PHASE",
            Self::NodeSeen => "NODE_SEEN",
        }
    }
}

/// One webhook.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Who configured it.
    pub at: Location,
    /// The event that it asks for.
    pub event: WebhookEvent,
    /// HTTP method, in upper case.
    pub method: String,
    /// Where the event is sent; begins with `http://` or `https://`.
    pub url: WebhookTemplate,
    /// Further header lines.
    pub headers: Vec<(String, String)>,
    /// The body; `None`: a CloudEvent, where the method takes a body.
    pub payload: Option<WebhookTemplate>,
    /// Is any certificate accepted?
    pub insecure: bool,
    /// SHA-256 of the one certificate that is accepted, in lower-case hexadecimal; `None`: whom the machine trusts.
    pub fingerprint: Option<String>,
    /// User and password.
    pub basic_auth: Option<(String, String)>,
    /// How often the event is sent again while it is true; `None`: once.
    pub every: Option<Duration>,
}

/// URL, headers, payload and password may be secrets.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("at", &self.at)
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}

impl Webhook {
    /// Scheme, host and port: what of the URL may be shown.
    pub fn console(&self) -> String {
        url::origin(self.url.head())
    }

    /// Does a request of this method have a body?
    pub fn has_body(&self) -> bool {
        matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }
}
