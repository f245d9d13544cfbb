//! The Setting `upgrade-config`, as Harvester's webhook decodes it before it checks VMs: `pkg/util/setting.go` IsRestoreVM,
//! `pkg/settings/settings_helper.go` UpgradeConfig, v1.6.0 to v1.8.2; from v1.7.0 on `upgrade/mutator.go`, too, with and without
//! `skipWebhook`. Only the types of its fields count here: the value `{}` is read, although nobody can write it past the webhook of
//! Settings.

use serde_json::{Map, Value};
use windrow_harvester::objects::{ObjectKind, text};
use windrow_harvester::versions::Fact;

use super::{CheckFacts, CheckResult, Cluster, NoFacts};

/// The type of a field in Go. `null` is read as every type.
enum Type {
    Boolean,
    Text,
    Whole,
    Texts,
    Object(&'static [Field]),
}

struct Field {
    name: &'static str,
    of: Type,
    /// The releases that read it, if not all do.
    read: Option<Fact>,
}

const fn field(name: &'static str, of: Type) -> Field {
    Field {
        name,
        of,
        read: None,
    }
}

const fn read_with(fact: Fact, name: &'static str, of: Type) -> Field {
    Field {
        name,
        of,
        read: Some(fact),
    }
}

const FIELDS: &[Field] = &[
    field(
        "imagePreloadOption",
        Type::Object(&[field(
            "strategy",
            Type::Object(&[field("type", Type::Text), field("concurrency", Type::Whole)]),
        )]),
    ),
    field("restoreVM", Type::Boolean),
    read_with(Fact::NodeUpgradePause, "logReadyTimeout", Type::Text),
    read_with(
        Fact::NodeUpgradePause,
        "nodeUpgradeOption",
        Type::Object(&[field(
            "strategy",
            Type::Object(&[field("mode", Type::Text), field("pauseNodes", Type::Texts)]),
        )]),
    ),
];

/// Harvester rejects an upgrade if it cannot decode the Setting.
pub(super) fn configuration(cluster: &Cluster<'_>) -> CheckResult {
    let mut facts = CheckFacts::default();
    if let Err((field, why)) = upgrade_config(cluster)? {
        facts.add("Setting upgrade-config", field, why);
    }
    Ok(facts)
}

/// Is the upgrade configured to shut down VMs that cannot migrate, and to start them again afterwards?
pub(super) fn are_to_be_restored(cluster: &Cluster<'_>) -> Result<bool, NoFacts> {
    let configured = upgrade_config(cluster)?.unwrap_or_default();
    Ok(named(&configured, "restoreVM").and_then(Value::as_bool) == Some(true))
}

/// Its content, or the field that cannot be decoded and why.
type UpgradeConfig = Result<Map<String, Value>, (&'static str, String)>;

fn upgrade_config(cluster: &Cluster<'_>) -> Result<UpgradeConfig, NoFacts> {
    let setting = cluster
        .objects
        .get(ObjectKind::SETTING, "", "upgrade-config")?;
    let Some(setting) = setting else {
        return Ok(Err(("metadata", "it does not exist".to_owned())));
    };
    let (field, written) = match text(setting, "/value") {
        "" => ("default", text(setting, "/default")),
        value => ("value", value),
    };
    if written.is_empty() {
        return Ok(Ok(Map::new()));
    }
    let content = match serde_json::from_str(written) {
        Ok(Value::Object(content)) => content,
        Ok(Value::Null) => Map::new(),
        Ok(_) | Err(_) => return Ok(Err((field, "it is not a JSON object".to_owned()))),
    };
    Ok(match mistyped(cluster, "", FIELDS, &content) {
        Some(why) => Err((field, why)),
        None => Ok(content),
    })
}

/// The first field with a value of another type.
fn mistyped(
    cluster: &Cluster<'_>,
    path: &str,
    fields: &[Field],
    content: &Map<String, Value>,
) -> Option<String> {
    let is_read = |fact: Fact| cluster.holds(fact).assumed();
    let mut fields = fields.iter().filter(|field| field.read.is_none_or(is_read));
    fields.find_map(|field| {
        let path = format!("{path}{}", field.name);
        let value = named(content, field.name)?;
        let expected = match (&field.of, value) {
            (_, Value::Null) => return None,
            (Type::Object(fields), Value::Object(content)) => {
                return mistyped(cluster, &format!("{path}."), fields, content);
            }
            (Type::Boolean, value) if value.is_boolean() => return None,
            (Type::Text, value) if value.is_string() => return None,
            (Type::Whole, value) if value.is_i64() => return None,
            (Type::Texts, Value::Array(texts))
                if texts.iter().all(|text| text.is_string() || text.is_null()) =>
            {
                return None;
            }
            (Type::Boolean, _) => "true or false, without quotes",
            (Type::Text, _) => "a text in quotes",
            (Type::Whole, _) => "a whole number, without quotes",
            (Type::Texts, _) => "a list of texts",
            (Type::Object(_), _) => "a JSON object",
        };
        Some(format!("{path} is not {expected}"))
    })
}

/// The value of a field. Go reads names in any case, and the last one counts.
fn named<'v>(content: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let mut named = content
        .iter()
        .filter(|(key, _)| key.eq_ignore_ascii_case(name));
    named.next_back().map(|(_, value)| value)
}
