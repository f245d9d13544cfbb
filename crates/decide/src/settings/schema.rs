//! The form of `windrow.yaml` for editors: a JSON schema, draft 7. Single values stand in [`KEYS`], what has lists or names of its own in the
//! types below.

pub mod probes;

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use self::probes::{BuiltinProbes, CustomProbes};
use super::keys::KEYS;

/// What each section is.
const SECTIONS: [(&str, &str); 11] = [
    ("diagnosis", "The look for known incidents."),
    ("flight", "The flight recorder."),
    ("gates", "How a change of feature gates is tried."),
    ("metrics", "Metrics for node_exporter."),
    ("outlets", "Where the node's state is shown."),
    ("probes", "Probes of the node."),
    ("repair", "What the daemon cures by itself."),
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

/// Which events are sent where.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub struct Webhooks(pub Vec<WebhookFile>);

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
    // A schema is made of maps and strings, and always serialises.
    serde_json::to_string_pretty(&root).unwrap_or_default() + "\n"
}

fn optional<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Option<T>>()
}

/// The map below `path`, of the keys that lie there.
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
