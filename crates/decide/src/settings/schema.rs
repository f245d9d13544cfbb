//! The form of `windrow.yaml` for editors: a JSON schema, draft 7, from the types below. Files are read by [`KEYS`](super::KEYS);
//! a test holds both together.

pub mod probes;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

use self::probes::ProbesFile;

/// Windrow's configuration: windrow.yaml, or a file below conf.d.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SettingsFile {
    /// What the node is; auto finds out.
    pub platform: Option<PlatformWord>,
    /// RKE2's data directory, an absolute path.
    pub data_dir: Option<AbsolutePath>,
    /// Probes of the node.
    pub probes: Option<ProbesFile>,
    /// Where the node's state is shown.
    pub outlets: Option<OutletsFile>,
    /// How manifests are staged.
    pub staging: Option<StagingFile>,
    /// Feature gates, by component and name.
    pub feature_gates: Option<FeatureGatesFile>,
    /// How a change of feature gates is tried.
    pub gates: Option<GatesFile>,
    /// The status over HTTPS.
    pub status_server: Option<StatusServerFile>,
    /// Metrics for node_exporter.
    pub metrics: Option<MetricsFile>,
    /// The look for known incidents.
    pub diagnosis: Option<DiagnosisFile>,
    /// What the daemon cures by itself.
    pub repair: Option<RepairFile>,
    /// The flight recorder.
    pub flight: Option<FlightFile>,
    /// Which events are sent where.
    pub webhooks: Option<Vec<WebhookFile>>,
}

/// A duration like 90s, 15m or 1h30m.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub struct DurationText(
    #[schemars(regex(pattern = r"^\s*([0-9]+(ms|s|sec|m|min|h|hr|d)\s*)+$"))] pub String,
);

/// An absolute path.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub struct AbsolutePath(#[schemars(regex(pattern = "^/"))] pub String);

/// A size like 512KiB or 16MiB, or a number of bytes.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Size {
    /// In bytes.
    Bytes(u64),
    /// With a binary unit.
    Text(#[schemars(regex(pattern = r"^[0-9]+\s*(KiB|Ki|MiB|Mi|GiB|Gi)?$"))] String),
}

/// What a node is.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum PlatformWord {
    /// Auto.
    Auto,
    /// Harvester.
    Harvester,
    /// Rke2.
    Rke2,
}

/// Where the node's state is shown.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutletsFile {
    /// Condition WindrowBootstrap on the own Node.
    pub node_condition: Option<bool>,
    /// Events about the own Node.
    pub node_events: Option<bool>,
    /// Lines at the login prompt and after the login.
    pub login_notices: Option<bool>,
}

/// How manifests are staged.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct StagingFile {
    /// false: everything is observed and reported, nothing is held.
    pub enabled: Option<bool>,
    /// How long a requirement that only orders may hold a file.
    pub advisory_deadline: Option<DurationText>,
    /// How long an inferred requirement may hold a file.
    pub inferred_deadline: Option<DurationText>,
    /// Between which bounds that follows what earlier boots have shown.
    pub learned_deadline: Option<LearnedDeadlineFile>,
    /// How long a file that RKE2 would refuse is kept from it.
    pub refused_deadline: Option<DurationText>,
    /// After how long a file that stays held is reported as overdue.
    pub overdue_after: Option<DurationText>,
    /// How long files are held while kube-apiserver has never answered.
    pub blind_deadline: Option<DurationText>,
    /// How often the directory is read again without an event.
    pub rescan: Option<DurationText>,
    /// Bounds against hostile input.
    pub limits: Option<LimitsFile>,
}

/// Between which bounds a deadline follows what earlier boots have shown.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LearnedDeadlineFile {
    /// Never shorter than this.
    pub at_least: Option<LeastDeadline>,
    /// Never longer than this.
    pub at_most: Option<DurationText>,
}

/// A duration, or the word inferredDeadline: what that setting says.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum LeastDeadline {
    /// The word.
    Word(InferredDeadlineWord),
    /// A duration.
    Duration(DurationText),
}

/// What the setting of this name says.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub enum InferredDeadlineWord {
    /// What the setting of this name says.
    InferredDeadline,
}

/// Bounds against hostile input.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitsFile {
    /// The largest file that is read.
    pub file_bytes: Option<Size>,
    /// The most documents in a file.
    #[schemars(range(min = 1))]
    pub documents: Option<u32>,
    /// The deepest nesting of lists and maps.
    #[schemars(range(min = 1))]
    pub depth: Option<u32>,
    /// The most values that aliases may add to a document.
    #[schemars(range(min = 1))]
    pub alias_nodes: Option<u32>,
    /// The most memory that the values of a document may take.
    pub expanded_bytes: Option<Size>,
    /// The most that is read of the directory in one look.
    pub directory_bytes: Option<Size>,
}

/// Feature gates, by component and name.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeatureGatesFile {
    /// Those of kube-apiserver.
    pub kube_apiserver: Option<BTreeMap<String, GateFile>>,
    /// Those of kube-controller-manager.
    pub kube_controller_manager: Option<BTreeMap<String, GateFile>>,
    /// Those of kube-scheduler.
    pub kube_scheduler: Option<BTreeMap<String, GateFile>>,
    /// Those of kubelet.
    pub kubelet: Option<BTreeMap<String, GateFile>>,
}

/// The value of a gate; null takes back what an earlier file asks for.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum GateFile {
    /// Value.
    Value(Option<bool>),
    /// Asked.
    Asked(AskedGate),
}

/// A gate that is asked for.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AskedGate {
    /// Its value.
    pub value: bool,
    /// On which minors of Kubernetes, like `>=1.32, <1.34`.
    pub when: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// How a change of feature gates is tried.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatesFile {
    /// What a changed configuration does while RKE2 runs: it waits for a boot, or it is tried.
    pub on_change: Option<OnChangeWord>,
    /// How long each part of a trial may take.
    pub patience: Option<DurationText>,
}

/// What a changed configuration does while RKE2 runs.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum OnChangeWord {
    /// Wait.
    Wait,
    /// Try.
    Try,
}

/// The status over HTTPS.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusServerFile {
    /// Is it served?
    pub enabled: Option<bool>,
    /// The address and the port, from 1024 on.
    pub listen: Option<String>,
    /// The file with the token that has to be shown; auto: /etc/rancher/windrow/status-token, or else the systemd credential
    /// windrow.status-token.
    pub token_file: Option<String>,
    /// The file with the certificate; auto: the one that RKE2 gives the node. Until it is there: a self-signed one.
    pub certificate_file: Option<String>,
    /// The file with its key.
    pub key_file: Option<String>,
    /// Metrics for Prometheus, under /metrics.
    pub metrics: Option<StatusServerMetricsFile>,
}

/// Metrics for Prometheus, under /metrics.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusServerMetricsFile {
    /// Are they served?
    pub enabled: Option<bool>,
    /// The file with a token that may read them and nothing else; none: the token of the status alone may.
    pub token_file: Option<PathOrNone>,
}

/// Metrics for node_exporter.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct MetricsFile {
    /// The file for its textfile collector, or none.
    pub textfile: Option<TextfilePath>,
}

/// An absolute path, or none.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub struct PathOrNone(#[schemars(regex(pattern = "^(/.*|none)$"))] pub String);

/// An absolute path that ends in .prom, or none.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub struct TextfilePath(#[schemars(regex(pattern = r"^(/.*\.prom|none)$"))] pub String);

/// The look for known incidents.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DiagnosisFile {
    /// false: the daemon does not look.
    pub enabled: Option<bool>,
    /// How often it looks on a Ready node.
    pub interval: Option<DurationText>,
}

/// What the daemon cures by itself.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RepairFile {
    /// Codes of incidents.
    pub auto: Option<Vec<String>>,
}

/// The flight recorder.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlightFile {
    /// false: nothing is recorded.
    pub enabled: Option<bool>,
    /// How large the file may become; 256KiB or more.
    pub file_bytes: Option<Size>,
    /// Where a copy is put when the node is Failed: auto, none, or a directory.
    pub copy_to: Option<String>,
    /// The site's names in what is recorded for learning.
    pub names: Option<SiteNamesWord>,
}

/// What is recorded of a site's names.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum SiteNamesWord {
    /// The names.
    Keep,
    /// A short digest of each.
    Hash,
    /// Nothing.
    Drop,
}

/// An event, and where it is sent.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookFile {
    /// Which event.
    pub event: String,
    /// The method; POST where there is none.
    pub method: Option<String>,
    /// Headers: lists of values by name.
    pub headers: Option<BTreeMap<String, Vec<String>>>,
    /// The address.
    pub url: String,
    /// What is sent.
    pub payload: Option<String>,
    /// true checks no certificate.
    pub insecure: Option<bool>,
    /// SHA-256 of the one certificate that is accepted.
    pub fingerprint: Option<String>,
    /// User and password.
    pub basic_auth: Option<BasicAuthFile>,
    /// How often it is sent again while the event is true, from 10s to 24h; once where there is none.
    pub every: Option<DurationText>,
}

/// User and password.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BasicAuthFile {
    /// User.
    pub user: String,
    /// Password.
    pub password: String,
}

/// The schema as text.
pub fn settings_schema() -> String {
    let generator = SchemaSettings::draft07().into_generator();
    let schema = generator.into_root_schema_for::<SettingsFile>();
    // A schema is made of maps and strings, and always serialises.
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::settings::KEYS;

    /// Every key of a section, with dots; what users name themselves has none below it.
    fn keys(root: &Value, section: &Value, before: &str, found: &mut BTreeSet<String>) {
        let alternatives = section["anyOf"].as_array().into_iter().flatten();
        let alternatives: Vec<&Value> = std::iter::once(section).chain(alternatives).collect();
        let resolved = alternatives.into_iter().find_map(|one| {
            let one = match one["$ref"].as_str() {
                Some(path) => root.pointer(path.strip_prefix('#')?)?,
                None => one,
            };
            one["properties"].as_object()
        });
        match resolved {
            Some(properties) => {
                for (name, below) in properties {
                    let dot = if before.is_empty() { "" } else { "." };
                    keys(root, below, &format!("{before}{dot}{name}"), found);
                }
            }
            None => {
                found.insert(before.to_owned());
            }
        }
    }

    #[test]
    fn the_schema_has_every_key_that_is_read_and_no_other() {
        let schema: Value = serde_json::from_str(&settings_schema()).unwrap();
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
        let mut found = BTreeSet::new();
        keys(&schema, &schema, "", &mut found);
        let mut known: BTreeSet<String> = KEYS.iter().map(|key| key.name.to_owned()).collect();
        known.extend(["probes.builtin", "probes.custom", "webhooks"].map(str::to_owned));
        let gates = windrow_gates::Component::ALL.into_iter();
        let gates = gates.filter_map(windrow_gates::Component::setting);
        known.extend(gates.map(|component| format!("featureGates.{component}")));
        assert_eq!(found, known);
    }
}
