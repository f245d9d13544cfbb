//! kube-apiserver's argument `runtime-config`: the APIs that it serves, and the keys that stop it.
//!
//! Its parser: apiserver `pkg/server/resourceconfig/helpers.go` (v0.29.15 to v0.36.0).

use std::collections::BTreeMap;

use windrow_model::findings::Location;
use windrow_model::reasons::Code;
use windrow_plan::rke2::config::MergedConfig;
use windrow_plan::version::{Minor, Version};

use super::catalogue::{Catalogue, WatchedApi};
use super::check::range;
use super::findings::Findings;
use super::syntax::boolean;
use super::{Component, TargetVersion};

/// The merged uses of `runtime-config`: the last value of each key counts.
pub(super) struct RuntimeConfig(BTreeMap<String, RuntimeValue>);

struct RuntimeValue {
    text: String,
    at: Location,
}

impl RuntimeConfig {
    pub(super) fn read(config: &MergedConfig) -> Self {
        let uses = config.flag(Component::KubeApiserver.argument(), "runtime-config");
        let pairs = uses.iter().flat_map(|item| {
            let pairs = item.text.split(',').filter(|pair| !pair.is_empty());
            pairs.map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                let value = RuntimeValue {
                    text: value.trim().to_owned(),
                    at: item.at.clone(),
                };
                (key.trim().to_owned(), value)
            })
        });
        Self(pairs.collect())
    }

    /// Does it serve all of an API that is off by default? The error is the pair that cannot be parsed.
    pub(super) fn serves(&self, api: &WatchedApi) -> Result<bool, String> {
        let value_of = |key: &str, empty: Option<bool>| match self.0.get(key) {
            None => Ok(None),
            Some(value) if value.text.is_empty() && empty.is_some() => Ok(empty),
            Some(RuntimeValue { text, .. }) => boolean(text)
                .map(Some)
                .ok_or_else(|| format!("{key}={text}")),
        };
        let group_version = api.group_version.as_str();
        // Stages first, then the version, then single resources: each replaces the earlier ones.
        let mut whole = false;
        for (key, empty) in [
            ("api/all", None),
            (stage_key(group_version), None),
            (group_version, Some(true)),
        ] {
            whole = value_of(key, empty)?.unwrap_or(whole);
        }
        let mut all = true;
        for resource in &api.resources {
            let own = value_of(&format!("{group_version}/{resource}"), Some(true))?;
            all &= own.unwrap_or(whole);
        }
        Ok(all)
    }

    fn refused(&self, catalogue: &Catalogue, minor: Minor) -> impl Iterator<Item = RefusedKey<'_>> {
        let covered = catalogue.covers(minor);
        let keys = self.0.iter().filter(move |_| covered);
        keys.filter_map(move |(key, value)| {
            let refusal = KeyRefusal::of(catalogue, key, minor)
                .or_else(|| KeyRefusal::of_value(key, &value.text))?;
            let at = &value.at;
            Some(RefusedKey { key, at, refusal })
        })
    }

    /// The keys of an API's group that stop kube-apiserver of a minor: the API replaces them.
    pub(super) fn refused_versions_of(
        &self,
        catalogue: &Catalogue,
        minor: Minor,
        group_version: &str,
    ) -> Vec<&str> {
        let group = group_of(group_version);
        let refused = self.refused(catalogue, minor);
        let of_group = refused.filter(|refused| refused.is_key() && group_of(refused.key) == group);
        of_group.map(|refused| refused.key).collect()
    }
}

/// The key that serves every API of the same stage.
pub(super) fn stage_key(group_version: &str) -> &'static str {
    if group_version.contains("beta") {
        "api/beta"
    } else {
        "api/alpha"
    }
}

fn group_of(group_version: &str) -> &str {
    group_version.split_once('/').map_or("", |(group, _)| group)
}

struct RefusedKey<'r> {
    key: &'r str,
    at: &'r Location,
    refusal: KeyRefusal,
}

enum KeyRefusal {
    /// It is neither `GROUP/VERSION` nor `GROUP/VERSION/RESOURCE`.
    Malformed,
    /// No version of the group is registered.
    UnknownGroup,
    /// Other versions of the group are registered.
    UnknownVersion,
    /// Only `true` and `false` are values of a stage.
    StageValue,
    /// The value is not a boolean.
    Value,
}

impl KeyRefusal {
    fn of(catalogue: &Catalogue, key: &str, minor: Minor) -> Option<Self> {
        if matches!(
            key,
            "api/all"
                | "api/ga"
                | "api/beta"
                | "api/alpha"
                | "api/legacy"
                | "api/v1"
                | "/v1"
                | "v1"
        ) {
            return None;
        }
        let mut parts = key.splitn(4, '/');
        let (group, version) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(group), Some(version), _, None) => (group, version),
            _ => return Some(Self::Malformed),
        };
        let mut known = catalogue
            .registered(minor)
            .filter_map(|known| known.split_once('/'));
        if known.clone().any(|known| known == (group, version)) {
            None
        } else if known.any(|(known, _)| known == group) {
            Some(Self::UnknownVersion)
        } else {
            Some(Self::UnknownGroup)
        }
    }
}

impl KeyRefusal {
    /// A stage takes exactly `true` or `false`; other keys take any boolean, and nothing for true.
    fn of_value(key: &str, value: &str) -> Option<Self> {
        if matches!(key, "api/all" | "api/ga" | "api/beta" | "api/alpha") {
            return (!matches!(value, "true" | "false")).then_some(Self::StageValue);
        }
        (!value.is_empty() && boolean(value).is_none()).then_some(Self::Value)
    }
}

impl RefusedKey<'_> {
    /// Whether the key is refused, and not its value.
    fn is_key(&self) -> bool {
        !matches!(self.refusal, KeyRefusal::StageValue | KeyRefusal::Value)
    }

    fn remedy(&self, version: Version) -> String {
        let (why, key) = (self.describe(version), self.key);
        if self.is_key() {
            format!("{why}: it does not start. Remove `{key}`")
        } else {
            format!("{why}: it does not start. Write `{key}=true` or `{key}=false`")
        }
    }

    fn describe(&self, version: Version) -> String {
        let (key, component) = (self.key, Component::KubeApiserver);
        match self.refusal {
            KeyRefusal::Malformed => format!(
                "`{key}` in the `runtime-config` of {component} is neither GROUP/VERSION nor GROUP/VERSION/RESOURCE"
            ),
            KeyRefusal::UnknownGroup => format!(
                "{component} {version} has no API group of `{key}`, which its `runtime-config` names"
            ),
            KeyRefusal::UnknownVersion => format!(
                "{component} {version} does not have the API version `{key}`, which its `runtime-config` names"
            ),
            KeyRefusal::StageValue => format!(
                "`{key}` in the `runtime-config` of {component} takes `true` or `false` and nothing else"
            ),
            KeyRefusal::Value => format!(
                "the value of `{key}` in the `runtime-config` of {component} is not a boolean"
            ),
        }
    }
}

pub(super) fn report(config: &MergedConfig, target: &TargetVersion, findings: &mut Findings) {
    let catalogue = Catalogue::builtin();
    let runtime = RuntimeConfig::read(config);
    if *target == TargetVersion::Unknown {
        return report_anywhere(catalogue, &runtime, findings);
    }
    for version in target.plausible(catalogue) {
        for refused in runtime.refused(catalogue, version.minor) {
            findings.push(
                Code::RuntimeConfigRefused,
                refused.remedy(version),
                vec![refused.at.clone()],
            );
        }
        let next = version.minor.next();
        for refused in runtime.refused(catalogue, next) {
            let is_new = KeyRefusal::of(catalogue, refused.key, version.minor).is_none();
            if refused.is_key() && is_new {
                findings.push(
                    Code::GateNextMinor,
                    format!(
                        "the next minor stops: {}. Remove `{}` together with the upgrade",
                        refused.describe(next.into()),
                        refused.key
                    ),
                    vec![refused.at.clone()],
                );
            }
        }
    }
}

/// The same for an unknown version: a key is an error if every minor refuses it.
fn report_anywhere(catalogue: &Catalogue, runtime: &RuntimeConfig, findings: &mut Findings) {
    let Some(newest) = catalogue.minors().next_back() else {
        return;
    };
    for (key, value) in &runtime.0 {
        let takes = |minor: &Minor| KeyRefusal::of(catalogue, key, *minor).is_none();
        let taking: Vec<Minor> = catalogue.minors().filter(takes).collect();
        let at = vec![value.at.clone()];
        let of_key = KeyRefusal::of(catalogue, key, newest).filter(|_| taking.is_empty());
        if let Some(refusal) = of_key.or_else(|| KeyRefusal::of_value(key, &value.text)) {
            let refused = RefusedKey {
                key,
                at: &value.at,
                refusal,
            };
            let message = refused.remedy(newest.into());
            findings.push(Code::RuntimeConfigRefused, message, at);
        } else if taking.len() < catalogue.minors().count() {
            let message = format!(
                "`{key}` in the `runtime-config` of {} works with Kubernetes {} only, and Windrow cannot tell which version will start: name it with --rke2",
                Component::KubeApiserver,
                range(&taking)
            );
            findings.push(Code::GateTargetUnknown, message, at);
        }
    }
}

#[cfg(test)]
#[path = "runtime_config_tests.rs"]
mod tests;
