//! What Harvester's webhook refuses of the value of a Setting. `table` describes the values; what needs the cluster (its nodes, VMs,
//! volumes and Secrets) is not checked.
//!
//! The same rules count for the settings that an installer's configuration presets. rancherd writes these before the webhook runs, but
//! Harvester itself updates each Setting when it starts and after it has handled the value, and these updates pass the webhook.
//!
//! Source: harvester/harvester v1.8.2 `pkg/webhook/resources/setting/validator.go`, `pkg/settings/settings_helper.go`; updates:
//! `pkg/controller/global/settings/register.go` SetAll, `pkg/controller/master/setting/handler.go` settingOnChanged. The functions have
//! the same text from v1.4.0 to v1.9.0-rc6 unless a rule says since when. The rules were compared with the functions on 675 values.

mod form;
mod pem;
mod relations;
mod storage_network;
mod table;
#[cfg(test)]
mod tests;
mod texts;

use serde_json::{Map, Value};
use windrow_model::manifest::Object;
use windrow_model::unchecked::{ANY_TEXT, CanStop, NotChecked};
use windrow_plan::SourceMap;

use self::form::Judge;
pub use self::relations::proxy_exceptions;
pub use self::storage_network::{StorageNetwork, storage_network};
use self::table::{KnownSetting, Shape};
use crate::path::Path;
use crate::problem::{Problem, Reason};
use crate::release::MinorRelease;

/// Why Harvester's webhook refuses this value of a setting, and what to write; `None` also for a setting without rules. The text
/// never contains the value. Without a release, the newest rules count.
pub fn setting_fault(setting: &str, value: &str, release: Option<MinorRelease>) -> Option<String> {
    let known = KnownSetting::find(setting, release)?;
    if value.is_empty() {
        return None;
    }
    match &known.shape {
        Shape::Text(form) => Judge { release }.text("", form, value),
        Shape::Json(form, relation) => {
            let Ok(value) = serde_json::from_str::<Value>(value) else {
                return Some("it is not JSON".to_owned());
            };
            if !value.is_object() && !value.is_null() {
                return Some("it is not a JSON object".to_owned());
            }
            let none = Map::new();
            let fields = value.as_object().unwrap_or(&none);
            let broken = || relation.and_then(|relation| relation(fields));
            Judge { release }
                .value("", form, Some(&value))
                .or_else(broken)
        }
        Shape::Network => storage_network(value).err(),
        Shape::Unknown => None,
    }
}

/// The problems of a Setting of Harvester; none for other kinds.
pub(crate) fn judge(object: &Object, release: Option<MinorRelease>) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !is_setting(object) {
        return problems;
    }
    let name = object.id.name.as_str();
    for field in ["default", "value"] {
        let Some(node) = object.node.get(field) else {
            continue;
        };
        let Some(text) = node.as_str().filter(|text| !is_exempt(name, field, text)) else {
            continue;
        };
        if let Some(why) = setting_fault(name, text, release) {
            let path = Path::ROOT.field(field);
            let mut problem = Problem::invalid(node.line, &path, Reason::Invalid, &why);
            // It is another program that refuses it.
            problem.refusal = None;
            problems.push(problem);
        }
    }
    problems
}

/// The value of a Setting, if no rule judges it, or not completely.
pub(crate) fn unjudged(
    object: &Object,
    release: Option<MinorRelease>,
    shown: &SourceMap,
) -> Option<NotChecked> {
    let value = object.node.get("value").filter(|_| is_setting(object))?;
    let name = object.id.name.as_str();
    let why = why_unjudged(name, value.as_str()?, release)?;
    Some(NotChecked {
        what: format!("the value of the Setting {name}"),
        why: why.to_owned(),
        can_stop: CanStop::Itself,
        at: vec![shown.at(Some(value.line))],
    })
}

/// Why the value of a setting is not judged, or not completely.
pub fn why_unjudged(
    setting: &str,
    value: &str,
    release: Option<MinorRelease>,
) -> Option<&'static str> {
    let known = KnownSetting::find(setting, release);
    let why = known.map_or(Some(ANY_TEXT), |known| known.cluster);
    why.filter(|_| !value.is_empty())
}

fn is_setting(object: &Object) -> bool {
    object.id.group == "harvesterhci.io" && object.id.kind == "Setting"
}

/// Defaults that the webhook does not look at.
fn is_exempt(setting: &str, field: &str, text: &str) -> bool {
    field == "default"
        && match setting {
            "support-bundle-image" => text == "{}",
            "instance-manager-resources" => true,
            _ => false,
        }
}

/// A field of an object that is not null. Go reads the names of fields in any case, and the last one counts.
fn field<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let named = fields
        .iter()
        .filter(|(key, _)| key.eq_ignore_ascii_case(name));
    named
        .map(|(_, value)| value)
        .next_back()
        .filter(|value| !value.is_null())
}
