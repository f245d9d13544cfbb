//! A JSON schema (draft 7) of `windrow.yaml` for editors. [`KEYS`] has the single values; the types below describe
//! lists and maps with names chosen by the user.

pub mod probes;

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use self::probes::{BuiltinProbes, CustomProbes};
use super::keys::KEYS;

const SECTIONS: [(&str, &str); 11] = [
    ("diagnosis", "The search for known incidents."),
    ("flight", "The flight recorder."),
    ("gates", "How a change of feature gates is tried."),
    ("metrics", "Metrics for node_exporter."),
    ("outlets", "The outlets of the node's state."),
    ("probes", "Probes of the node."),
    (
        "repair",
        "The incidents that the daemon repairs automatically.",
    ),
    ("staging", "How manifests are staged."),
    ("staging.limits", "Bounds against hostile input."),
    ("statusServer", "The status over HTTPS."),
    (
        "statusServer.metrics",
        "Metrics for Prometheus, under /metrics.",
    ),
];

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

/// A whole number from 1 on.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub struct Count(#[schemars(range(min = 1))] pub u32);

/// Feature gates, by component and name.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeatureGatesFile {
    /// The gates of kube-apiserver.
    pub kube_apiserver: Option<BTreeMap<String, GateFile>>,
    /// The gates of kube-controller-manager.
    pub kube_controller_manager: Option<BTreeMap<String, GateFile>>,
    /// The gates of kube-scheduler.
    pub kube_scheduler: Option<BTreeMap<String, GateFile>>,
    /// The gates of kubelet.
    pub kubelet: Option<BTreeMap<String, GateFile>>,
}

/// The value of a gate; null cancels the request of an earlier file.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum GateFile {
    /// true, false or null.
    Value(Option<bool>),
    /// With conditions.
    Asked(AskedGate),
}

/// A gate with its value and conditions.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AskedGate {
    /// The value of the gate.
    pub value: bool,
    /// On which minors of Kubernetes, like `>=1.32, <1.34`.
    pub when: Option<String>,
    /// The reason for the request.
    pub reason: Option<String>,
}

/// The events to send, and their addresses.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub struct Webhooks(pub Vec<WebhookFile>);

/// An event, and its address.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookFile {
    /// The event.
    pub event: String,
    /// The method; POST by default.
    pub method: Option<String>,
    /// Headers: lists of values by name.
    pub headers: Option<BTreeMap<String, Vec<String>>>,
    /// The address.
    pub url: String,
    /// The body of the request.
    pub payload: Option<String>,
    /// true disables the check of the certificate.
    pub insecure: Option<bool>,
    /// SHA-256 of the one certificate that is accepted.
    pub fingerprint: Option<String>,
    /// User and password.
    pub basic_auth: Option<BasicAuthFile>,
    /// How often it is sent again while the event is true, from 10s to 24h; without a value it is sent once.
    pub every: Option<DurationText>,
}

/// User and password.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BasicAuthFile {
    /// The user name.
    pub user: String,
    /// The password.
    pub password: String,
}

pub fn settings_schema() -> String {
    let mut generator = SchemaSettings::draft07().into_generator();
    let mut keys: Vec<(&str, Schema)> = KEYS
        .iter()
        .map(|key| (key.name, key.schema(&mut generator)))
        .collect();
    keys.extend([
        ("featureGates", optional::<FeatureGatesFile>(&mut generator)),
        ("probes.builtin", optional::<BuiltinProbes>(&mut generator)),
        ("probes.custom", optional::<CustomProbes>(&mut generator)),
        ("webhooks", optional::<Webhooks>(&mut generator)),
    ]);
    let mut root = section("", &keys);
    root["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    root["title"] = "windrow.yaml".into();
    root["description"] = "Windrow's configuration: windrow.yaml, or a file below conf.d.".into();
    root["definitions"] = generator.take_definitions(true).into();
    // A schema consists of maps and strings, and always serialises.
    serde_json::to_string_pretty(&root).unwrap_or_default() + "\n"
}

fn optional<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Option<T>>()
}

/// The map at `path`, with the keys below it.
fn section(path: &str, keys: &[(&str, Schema)]) -> Value {
    let below = |name: &'_ str| -> Option<String> {
        match path {
            "" => Some(name.to_owned()),
            _ => Some(name.strip_prefix(path)?.strip_prefix('.')?.to_owned()),
        }
    };
    let mut properties = Map::new();
    for (name, schema) in keys {
        let Some(rest) = below(name) else { continue };
        match rest.split_once('.') {
            None => properties.insert(rest, schema.clone().to_value()),
            Some((first, _)) if properties.contains_key(first) => None,
            Some((first, _)) => {
                let dot = if path.is_empty() { "" } else { "." };
                let inner = section(&format!("{path}{dot}{first}"), keys);
                properties.insert(first.to_owned(), inner)
            }
        };
    }
    let says = SECTIONS.iter().find(|(name, _)| *name == path);
    let mut section = json!({
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": false,
    });
    if let Some((_, says)) = says {
        section["description"] = (*says).into();
    }
    section
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::settings::KEYS;

    /// Every key of a section, with dots. Maps with names chosen by the user count as one key.
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
