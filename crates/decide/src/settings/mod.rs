//! The settings in force, validated: what the configuration files say once they are merged.
//!
//! The program finds the files and says which masks which. `load` parses each into a fragment, merges
//! the fragments with the origin of every value, and validates the result into the domain types below.
//! `keys` is the one table of what can be set. Pure.

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

/// Is this the name of a section that stands at the top of the settings?
pub fn is_settings_section(key: &str) -> bool {
    let begins = |name: &str| name.split('.').next() == Some(key);
    let lists = [gates::SECTION, probes::SECTION, webhook_list::SECTION];
    lists.into_iter().any(begins) || KEYS.iter().any(|known| begins(known.name))
}

/// Everything that can be configured, as domain types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What the node is; `None` means that it is found out.
    pub platform: Option<Platform>,
    /// RKE2's data directory, an absolute path.
    pub data_dir: String,
    /// Staging.
    pub staging: Staging,
    /// Probes of the node.
    pub probes: Probes,
    /// Where the status goes besides the status document.
    pub outlets: Outlets,
    /// Feature gates that are asked for.
    pub feature_gates: Vec<GateRequest>,
    /// How a change of them is tried.
    pub gates: Trials,
    /// The look for known incidents.
    pub diagnosis: DiagnosisSettings,
    /// What the daemon cures by itself.
    pub repair: RepairSettings,
    /// The flight recorder.
    pub flight: FlightSettings,
    /// Which events are sent where.
    pub webhooks: Vec<Webhook>,
    /// The status over HTTPS.
    pub status_server: StatusServer,
    /// Metrics for Prometheus.
    pub metrics: Metrics,
}

/// How a change of feature gates is tried on a running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trials {
    /// What a changed configuration does while RKE2 runs.
    pub on_change: OnChange,
    /// How long each part of a trial may take: to get the lease, to come up with the new gates, to come
    /// back with the old ones.
    pub patience: Duration,
}

/// The longest `gates.patience`. The Lease counts for three times as long, and for a day at most: a server that is lost must not keep the
/// others from trials for longer.
pub const LONGEST_PATIENCE: Duration = Duration::from_secs(8 * 60 * 60);

/// What a changed configuration does while RKE2 runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnChange {
    /// It waits for a boot, or for `windrow gates apply`.
    Wait,
    /// It is tried.
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

/// The daemon's look for known incidents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagnosisSettings {
    /// Off: the daemon does not look; `windrow diagnose` does.
    pub enabled: bool,
    /// How often it looks on a Ready node; five times as often on one that is not.
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

/// What the daemon cures by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairSettings {
    /// Incidents of these codes. None by default.
    pub auto: Vec<Code>,
}

/// The flight recorder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlightSettings {
    /// Off: nothing is recorded.
    pub enabled: bool,
    /// How large the file may become, in bytes, before it begins again; one older file is kept.
    pub file_bytes: u64,
    /// Where a copy is put when the node is Failed.
    pub copy_to: CopyTo,
    /// The site's names in what is recorded for learning.
    pub names: SiteNames,
}

/// The names that a site gives to namespaces, objects, releases, Addons and bundles, in what is recorded for learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SiteNames {
    /// They are recorded.
    #[default]
    Keep,
    /// A short digest of each is recorded, the same on every node.
    Hash,
    /// They are left out.
    Drop,
}

/// Where a copy of the flight is put when the node is Failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyTo {
    /// Into `/oem`, where there is one.
    Auto,
    /// Nowhere.
    None,
    /// Into this directory.
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

/// How the node is probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probes {
    /// Off: the node itself is not judged, and its readiness stays Unknown.
    pub enabled: bool,
    /// What is changed about those that come with Windrow, by name.
    pub tunings: Arc<[ProbeTuning]>,
    /// Probes beside those that come with Windrow, by name.
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

/// Where the node's state is shown, besides the status document, the journal and D-Bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlets {
    /// Condition `windrow.dev/BootstrapIncomplete` on the own Node.
    pub node_condition: bool,
    /// Events about the own Node.
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

/// Where the status server's token is looked for unless the configuration names a file.
pub const STATUS_TOKEN: &str = "/etc/rancher/windrow/status-token";

/// The systemd credential with the status server's token.
pub const STATUS_TOKEN_CREDENTIAL: &str = "windrow.status-token";

/// The status over HTTPS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusServer {
    /// Is it served?
    pub enabled: bool,
    /// Where.
    pub listen: SocketAddr,
    /// File with the token that has to be shown, an absolute path; `None`: [`STATUS_TOKEN`], or the credential of that name.
    pub token_file: Option<String>,
    /// File with the certificate, an absolute path; `None`: the one that RKE2 gives the node.
    pub certificate_file: Option<String>,
    /// File with its key.
    pub key_file: Option<String>,
    /// `/metrics`.
    pub metrics: StatusServerMetrics,
}

/// `/metrics` of the status server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusServerMetrics {
    /// Is it served?
    pub enabled: bool,
    /// File with a token that may read it and nothing else, an absolute path; `None`: the server's own token alone may.
    pub token_file: Option<String>,
}

/// Metrics for Prometheus.
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

/// How manifests are staged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staging {
    /// Off: everything is observed and reported, nothing is held.
    pub enabled: bool,
    /// How long a file may be held by a requirement that only orders, or by one for something that nothing here
    /// creates.
    pub advisory_deadline: Duration,
    /// How long an inferred requirement may hold a file where RKE2 could already apply some of it, and something
    /// here creates what it lacks.
    pub inferred_deadline: Duration,
    /// How long a file that RKE2 would refuse is kept from it.
    pub refused_deadline: Duration,
    /// After how long a file that stays held is reported as overdue.
    pub overdue_after: Duration,
    /// How long files are held while kube-apiserver has never answered Windrow. RKE2 may well reach it.
    pub blind_deadline: Duration,
    /// How often the directory is read again without an event.
    pub rescan: Duration,
    /// Bounds against hostile input.
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
    /// May Windrow hold this file at all? Not when staging is off, and not what belongs to RKE2.
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
