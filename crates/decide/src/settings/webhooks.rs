//! `webhooks:` of the configuration, and `install.webhooks` of the configuration that Harvester's installer leaves on
//! the node: which event is sent where.
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
//! Windrow's. The lists of all files are joined.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windrow_model::findings::Location;

use super::template::WebhookTemplate;
use super::url;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WebhookEvent {
    NodeReady,
    /// It works, but something is wrong.
    NodeDegraded,
    /// It does not work, and no progress is expected.
    NodeFailed,
    /// The cluster's first server is ready for the first time.
    ClusterReady,
    /// A manifest is held beyond its deadline, or RKE2 cannot apply it.
    StagingBlocked,
    NodeStalled,
    NodePhase,
    /// Windrow runs on the node, in any state.
    NodeSeen,
}

impl WebhookEvent {
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

#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    pub at: Location,
    pub event: WebhookEvent,
    /// In upper case.
    pub method: String,
    /// Begins with `http://` or `https://`.
    pub url: WebhookTemplate,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
    /// The body; `None`: a CloudEvent, if the method takes a body.
    pub payload: Option<WebhookTemplate>,
    pub insecure: bool,
    /// SHA-256 of the one accepted certificate, in lower-case hexadecimal; `None`: the certificates that the node
    /// trusts.
    pub fingerprint: Option<String>,
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
    /// Scheme, host and port: the part of the URL that may be shown.
    pub fn console(&self) -> String {
        url::origin(self.url.head())
    }

    pub fn has_body(&self) -> bool {
        matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }
}
