//! The settings in force, validated: the result of merging the configuration files.
//!
//! The program finds the files and decides which of them mask others. `load` parses each into a fragment, merges the
//! fragments with the origin of every value, and validates the result into the domain types below. `keys` is the one
//! table of settings. Pure.

mod error;
mod files;
mod gates;
mod keys;
mod load;
mod probes;
pub mod schema;
mod special;
mod template;
mod units;
mod url;
mod value;
mod webhook_list;
mod webhooks;

pub use error::ConfigError;
pub use files::{ConfigFile, ConfigFileRole, ConfigFiles};
pub use keys::{KEYS, SettingKey, record, restore};
pub use load::{
    ConfiguredValue, Loaded, ValueOrigin, add_installer, installer_errors, merge, rule_sources,
};
pub use template::{Field, WebhookTemplate};
pub use url::origin;
pub use webhooks::{Webhook, WebhookEvent};

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use windrow_gates::GateRequest;
use windrow_model::manifest::{ManifestPath, ReadLimits};
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::{CustomProbe, ProbeTuning};
use windrow_plan::rke2;
use windrow_plan::rules::Platform;

pub fn is_settings_section(key: &str) -> bool {
    let begins = |name: &str| name.split('.').next() == Some(key);
    let lists = [gates::SECTION, probes::SECTION, webhook_list::SECTION];
    lists.into_iter().any(begins) || KEYS.iter().any(|known| begins(known.name))
}

/// Everything that can be configured, as domain types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `None` means that Windrow detects it.
    pub platform: Option<Platform>,
    /// RKE2's data directory, an absolute path.
    pub data_dir: String,
    pub staging: Staging,
    pub probes: Probes,
    /// The outlets of the status, in addition to the status document.
    pub outlets: Outlets,
    pub feature_gates: Vec<GateRequest>,
    /// How a change of them is tried.
    pub gates: Trials,
    /// The search for known incidents.
    pub diagnosis: DiagnosisSettings,
    /// The incidents that the daemon repairs automatically.
    pub repair: RepairSettings,
    pub flight: FlightSettings,
    pub webhooks: Vec<Webhook>,
    pub status_server: StatusServer,
    pub metrics: Metrics,
}

/// How a change of feature gates is tried on a running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trials {
    /// The reaction to a changed configuration while RKE2 runs.
    pub on_change: OnChange,
    /// How long each part of a trial may take: to get the lease, to start with the new gates, to return to the old
    /// ones.
    pub patience: Duration,
}

/// The longest `gates.patience`. The Lease lasts three times as long, and a day at most: a lost server must not keep
/// the others from trials for longer.
pub const LONGEST_PATIENCE: Duration = Duration::from_secs(8 * 60 * 60);

/// The reaction to a changed configuration while RKE2 runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnChange {
    /// It waits for a boot, or for `windrow gates apply`.
    Wait,
    Try,
}

impl Default for Trials {
    fn default() -> Self {
        Self {
            on_change: OnChange::Wait,
            patience: Duration::from_secs(10 * 60),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagnosisSettings {
    /// If false, the daemon does not search; `windrow diagnose` does.
    pub enabled: bool,
    /// The interval on a Ready node; on other nodes, the daemon searches five times as often.
    pub interval: Duration,
}

impl Default for DiagnosisSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Duration::from_secs(5 * 60),
        }
    }
}

/// The incidents that the daemon repairs automatically.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairSettings {
    /// Codes of incidents. Empty by default.
    pub auto: Vec<Code>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlightSettings {
    pub enabled: bool,
    /// The maximum size of the file, in bytes, before it begins again; one older file is kept.
    pub file_bytes: u64,
    /// The destination of a copy when the node is Failed.
    pub copy_to: CopyTo,
    /// The site's names in lines recorded for learning.
    pub names: SiteNames,
}

/// The site's names of namespaces, objects, releases, Addons and bundles, in lines recorded for learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SiteNames {
    #[default]
    Keep,
    /// A short digest of each is recorded, the same on every node.
    Hash,
    Drop,
}

/// The destination of a copy of the flight when the node is Failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyTo {
    /// `/oem`, if it exists.
    Auto,
    None,
    Directory(String),
}

impl Default for FlightSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            file_bytes: 8 << 20,
            copy_to: CopyTo::Auto,
            names: SiteNames::Keep,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probes {
    /// If false, the node itself is not judged, and its readiness stays Unknown.
    pub enabled: bool,
    /// Changes to Windrow's own probes, by name.
    pub tunings: Arc<[ProbeTuning]>,
    /// Additional probes, by name.
    pub custom: Arc<[CustomProbe]>,
}

impl Default for Probes {
    fn default() -> Self {
        Self {
            enabled: true,
            tunings: Arc::new([]),
            custom: Arc::new([]),
        }
    }
}

/// The outlets of the node's state, in addition to the status document, the journal and D-Bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlets {
    /// Condition `windrow.dev/BootstrapIncomplete` on the node's own Node.
    pub node_condition: bool,
    /// Events about the node's own Node.
    pub node_events: bool,
    /// Two lines at the login prompt and after the login.
    pub login_notices: bool,
}

impl Default for Outlets {
    fn default() -> Self {
        Self {
            node_condition: true,
            node_events: true,
            login_notices: true,
        }
    }
}

/// The default path of the status server's token.
pub const STATUS_TOKEN: &str = "/etc/rancher/windrow/status-token";

/// The systemd credential with the status server's token.
pub const STATUS_TOKEN_CREDENTIAL: &str = "windrow.status-token";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusServer {
    pub enabled: bool,
    pub listen: SocketAddr,
    /// File with the required token, an absolute path; `None`: [`STATUS_TOKEN`], or the credential of that name.
    pub token_file: Option<String>,
    /// File with the certificate, an absolute path; `None`: the certificate that RKE2 gives the node.
    pub certificate_file: Option<String>,
    /// File with its key.
    pub key_file: Option<String>,
    pub metrics: StatusServerMetrics,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusServerMetrics {
    pub enabled: bool,
    /// File with a token that may read only the metrics, an absolute path; `None`: only the server's own token may.
    pub token_file: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    /// File for node_exporter's textfile collector, an absolute path.
    pub textfile: Option<String>,
}

impl Default for StatusServer {
    fn default() -> Self {
        Self {
            enabled: false,
            listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 9346)),
            token_file: None,
            certificate_file: None,
            key_file: None,
            metrics: StatusServerMetrics::default(),
        }
    }
}

impl StatusServer {
    /// The files whose content is a secret, absolute paths on the node: tokens and the key.
    pub fn secret_files(&self) -> impl Iterator<Item = &str> {
        let token = self.token_file.as_deref().unwrap_or(STATUS_TOKEN);
        let others = [&self.metrics.token_file, &self.key_file];
        std::iter::once(token).chain(others.into_iter().flatten().map(String::as_str))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staging {
    /// If false, everything is observed and reported, and nothing is held.
    pub enabled: bool,
    /// How long a requirement may hold a file if it only sets an order, or if nothing here creates the required object.
    pub advisory_deadline: Duration,
    /// How long an inferred requirement may hold a file if RKE2 could already apply some of it, and something here
    /// creates the missing object.
    pub inferred_deadline: Duration,
    pub refused_deadline: Duration,
    /// How long a file is held before it is reported as overdue.
    pub overdue_after: Duration,
    /// How long files are held while kube-apiserver has never answered Windrow. RKE2 may still reach it.
    pub blind_deadline: Duration,
    /// How often the directory is read again without an event.
    pub rescan: Duration,
    pub limits: ReadLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            platform: None,
            data_dir: windrow_plan::rke2::DATA_DIR.to_owned(),
            staging: Staging::default(),
            probes: Probes::default(),
            outlets: Outlets::default(),
            feature_gates: Vec::new(),
            gates: Trials::default(),
            diagnosis: DiagnosisSettings::default(),
            repair: RepairSettings::default(),
            flight: FlightSettings::default(),
            webhooks: Vec::new(),
            status_server: StatusServer::default(),
            metrics: Metrics::default(),
        }
    }
}

impl Staging {
    /// May Windrow hold this file at all? Not if staging is off, and not if the file belongs to RKE2.
    pub fn may_hold(&self, path: &ManifestPath) -> bool {
        self.enabled && rke2::owner(path).is_none()
    }
}

impl Default for Staging {
    fn default() -> Self {
        Self {
            enabled: true,
            advisory_deadline: Duration::from_secs(2 * 60),
            inferred_deadline: Duration::from_secs(10 * 60),
            refused_deadline: Duration::from_secs(10 * 60),
            overdue_after: Duration::from_secs(30 * 60),
            blind_deadline: Duration::from_secs(30 * 60),
            rescan: Duration::from_secs(60),
            limits: ReadLimits::default(),
        }
    }
}
