//! Gates that make kube-apiserver watch an API which it serves only where `runtime-config` asks for it. Without that
//! kube-apiserver never becomes ready, or ends.
//!
//! How `runtime-config` is read: apiserver `pkg/server/resourceconfig/helpers.go` (v0.29.15 to v0.36.0).

use std::collections::BTreeMap;

use windrow_model::reasons::Code;
use windrow_plan::rke2::config::MergedConfig;
use windrow_plan::version::Version;

use super::Component;
use super::catalogue::{Catalogue, WatchedApi};
use super::dependencies::{ValueOrigin, places, value};
use super::findings::{Findings, GateAssignment};
use super::syntax::boolean;

/// A gate of kube-apiserver that is on while the API that it watches is not served, or may not be.
#[derive(Debug)]
pub(super) struct UnservedApi<'c> {
    pub(super) gate: &'c str,
    origin: ValueOrigin,
    api: &'c WatchedApi,
    /// What in `runtime-config` cannot be understood.
    unclear: Option<String>,
}

/// Every such gate, once these gates are set.
pub(super) fn unserved<'c>(
    catalogue: &'c Catalogue,
    version: Version,
    set: &BTreeMap<&str, bool>,
    config: &MergedConfig,
) -> Vec<UnservedApi<'c>> {
    let runtime = RuntimeConfig::read(config);
    let disabled = config.flag(
        Component::KubeApiserver.argument(),
        "disable-admission-plugins",
    );
    let is_disabled = |plugin: &str| {
        let mut names = disabled.iter().flat_map(|item| item.text.split(','));
        names.any(|name| name.trim() == plugin)
    };
    let watched = catalogue
        .gates()
        .filter_map(|gate| Some((gate, gate.watched_api(version.minor)?)));
    watched
        .filter_map(|(gate, api)| {
            let (on, origin) = value(catalogue, version, set, gate.name());
            if !on || api.plugin.as_deref().is_some_and(is_disabled) {
                return None;
            }
            let unclear = match runtime.serves(api) {
                Ok(true) => return None,
                Ok(false) => None,
                Err(pair) => Some(pair),
            };
            Some(UnservedApi {
                gate: gate.name(),
                origin,
                api,
                unclear,
            })
        })
        .collect()
}

/// Reports every such gate, at the places that switch it on.
pub(super) fn report(
    catalogue: &Catalogue,
    version: Version,
    sets: &[GateAssignment<'_>],
    config: &MergedConfig,
    findings: &mut Findings,
) {
    let values: BTreeMap<&str, bool> = sets.iter().map(|set| (set.gate, set.value)).collect();
    for api in unserved(catalogue, version, &values, config) {
        let at = places(catalogue, version, sets, &[api.gate]);
        let code = match api.unclear {
            Some(_) => Code::GateUndecided,
            None => Code::GateApiNotServed,
        };
        let through = match api.origin {
            ValueOrigin::Group(_) => format!(" (`{}` {})", api.gate, api.origin.is_on()),
            ValueOrigin::Name | ValueOrigin::Default => String::new(),
        };
        findings.push(code, api.why(version) + &through, at);
    }
}

impl UnservedApi<'_> {
    /// What is wrong and what mends it, in a sentence or two.
    pub(super) fn why(&self, version: Version) -> String {
        let (gate, component) = (self.gate, Component::KubeApiserver);
        let WatchedApi {
            group_version,
            plugin,
            ..
        } = self.api;
        if let Some(pair) = &self.unclear {
            return format!(
                "`{gate}` makes {component} {version} watch {group_version}, and whether that is served is unknown: `{pair}` in its `runtime-config` is neither true nor false"
            );
        }
        let without_plugin = plugin.as_ref().map_or(String::new(), |plugin| {
            format!(", or `disable-admission-plugins={plugin}`")
        });
        format!(
            "`{gate}` needs {group_version}: without it {component} {version} does not become ready. Add `runtime-config={group_version}=true`{without_plugin}"
        )
    }
}

/// What the uses of `runtime-config` say together: the last value of each key counts.
struct RuntimeConfig(BTreeMap<String, String>);

impl RuntimeConfig {
    fn read(config: &MergedConfig) -> Self {
        let uses = config.flag(Component::KubeApiserver.argument(), "runtime-config");
        let pairs = uses.iter().flat_map(|item| item.text.split(','));
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key.trim().to_owned(), value.trim().to_owned())
        };
        Self(pairs.map(pair).collect())
    }

    /// Is all of an API served that is off by default? The error is the pair that cannot be understood.
    fn serves(&self, api: &WatchedApi) -> Result<bool, String> {
        let said = |key: &str, empty: Option<bool>| match self.0.get(key) {
            None => Ok(None),
            Some(text) if text.is_empty() && empty.is_some() => Ok(empty),
            Some(text) => boolean(text)
                .map(Some)
                .ok_or_else(|| format!("{key}={text}")),
        };
        let group_version = api.group_version.as_str();
        let stage = match group_version.contains("beta") {
            true => "api/beta",
            false => "api/alpha",
        };
        // Stages first, then the version, then single resources: each goes before what was said before it.
        let mut whole = false;
        for (key, empty) in [
            ("api/all", None),
            (stage, None),
            (group_version, Some(true)),
        ] {
            whole = said(key, empty)?.unwrap_or(whole);
        }
        let mut all = true;
        for resource in &api.resources {
            let own = said(&format!("{group_version}/{resource}"), Some(true))?;
            all &= own.unwrap_or(whole);
        }
        Ok(all)
    }
}

#[cfg(test)]
#[path = "apis_tests.rs"]
mod tests;
