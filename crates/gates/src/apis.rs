//! Gates that make kube-apiserver watch an API that it serves only if `runtime-config` enables it. Without that,
//! kube-apiserver never becomes ready, or stops.

use std::collections::BTreeMap;

use windrow_model::reasons::Code;
use windrow_plan::rke2::config::MergedConfig;
use windrow_plan::version::Version;

use super::Component;
use super::catalogue::{Catalogue, WatchedApi};
use super::dependencies::{ValueOrigin, places, value};
use super::findings::{Findings, GateAssignment};
use super::runtime_config::{RuntimeConfig, stage_key};

/// A gate of kube-apiserver that is on although the API that it watches is not served, or may not be.
#[derive(Debug)]
pub(super) struct UnservedApi<'c> {
    pub(super) gate: &'c str,
    origin: ValueOrigin,
    api: &'c WatchedApi,
    /// The part of `runtime-config` that cannot be parsed.
    unclear: Option<String>,
    /// The keys of `runtime-config` that this version refuses and the API replaces.
    replaces: Vec<String>,
}

/// Every such gate after these gates are set.
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
            let group_version = &api.group_version;
            let replaces = runtime.refused_versions_of(catalogue, version.minor, group_version);
            Some(UnservedApi {
                gate: gate.name(),
                origin,
                api,
                unclear,
                replaces: replaces.into_iter().map(str::to_owned).collect(),
            })
        })
        .collect()
}

/// Reports every such gate, at the places that switch it on. The advice is for kube-apiserver of the version `runs`.
pub(super) fn report(
    catalogue: &Catalogue,
    (version, runs): (Version, Version),
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
        let advice = api.advice(catalogue, version, runs);
        findings.push(code, api.problem(version) + &advice + &through, at);
    }
}

impl UnservedApi<'_> {
    /// The problem and the fix if this version runs.
    pub(super) fn why(&self, catalogue: &Catalogue, version: Version) -> String {
        self.problem(version) + &self.advice(catalogue, version, version)
    }

    fn problem(&self, version: Version) -> String {
        let (gate, component) = (self.gate, Component::KubeApiserver);
        let group_version = &self.api.group_version;
        match &self.unclear {
            Some(pair) => format!(
                "`{gate}` makes {component} {version} watch {group_version}, and whether that is served is unknown: `{pair}` in its `runtime-config` is neither true nor false"
            ),
            None => format!(
                "`{gate}` needs {group_version}: without it {component} {version} does not become ready"
            ),
        }
    }

    /// The change to make. kube-apiserver of the running version must start with it: it refuses a group version that it
    /// does not have.
    fn advice(&self, catalogue: &Catalogue, version: Version, runs: Version) -> String {
        if self.unclear.is_some() {
            return String::new();
        }
        let WatchedApi {
            group_version,
            plugin,
            ..
        } = self.api;
        // kube-apiserver also refuses a plugin that it does not have.
        let has_plugin = catalogue
            .gate(self.gate)
            .is_some_and(|gate| gate.watched_api(runs.minor).is_some());
        let plugin = plugin.as_ref().filter(|_| has_plugin);
        let without_plugin = plugin.map_or(String::new(), |plugin| {
            format!(", or set `disable-admission-plugins={plugin}`")
        });
        let served = format!("`{group_version}=true`");
        let replace = if self.replaces.is_empty() {
            String::new()
        } else {
            let keys: Vec<String> = self.replaces.iter().map(|key| format!("`{key}`")).collect();
            format!(
                "Replace {} in `runtime-config` with {served}",
                keys.join(", ")
            )
        };
        let add = format!("Add `runtime-config={group_version}=true`");
        let takes = |minor| {
            catalogue
                .registered(minor)
                .any(|known| known == group_version)
        };
        let fix = if version == runs {
            if replace.is_empty() { add } else { replace }
        } else if !takes(runs.minor) {
            let change = if replace.is_empty() { add } else { replace };
            let stage = stage_key(group_version);
            format!(
                "{change} together with the upgrade: {} {runs} does not have it. Both take `runtime-config={stage}=true`",
                Component::KubeApiserver
            )
        } else {
            format!("{add} before the upgrade")
        };
        format!(". {fix}{without_plugin}")
    }
}

#[cfg(test)]
#[path = "apis_tests.rs"]
mod tests;
