//! The checks of what a configuration sets for the whole cluster: settings, addons, networks, and how addresses relate.

use windrow_apischema::why_unjudged;
use windrow_model::manifest::{Node, NodeValue};
use windrow_model::suggest::nearest;

use super::addresses::{Addresses, MisfitKind};
use super::embedded::{setting_fault, values_fault};
use super::known::{DatedName, KnownConfiguration};
use super::networks::misfits;
use super::remark::{Remark, RemarkKind};
use super::rules::{Checker, Mode, entry, is_true, text};
use super::values;
use windrow_harvester::HarvesterVersion;

impl Checker<'_, '_> {
    pub(super) fn settings(&mut self, release: HarvesterVersion) {
        let known = &KnownConfiguration::shipped().settings;
        let addresses = Addresses::read(self.os, self.install);
        let settings = entry(self.root, "systemSettings");
        for setting in settings.map_or(&[][..], |settings| settings.value.entries()) {
            if let Some(why) = unknown_setting(&setting.key, known, release) {
                self.refuse_to_create(setting.line, &why);
                continue;
            }
            let is_json = match &setting.value.value {
                NodeValue::String(text) => values::may_be_registry(text.trim()),
                _ => false,
            };
            if setting.key == "containerd-registry" && !is_json {
                self.refuse_to_create(
                    setting.line,
                    "the setting `containerd-registry` must be JSON in a text, and this is not valid JSON",
                );
                continue;
            }
            let value = setting.value.as_str();
            if let Some(why) =
                value.and_then(|value| setting_fault(&setting.key, value, release, &addresses))
            {
                self.overlook(setting.line, why);
            }
        }
    }

    pub(super) fn addons(&mut self, release: HarvesterVersion) {
        let addons = self.install.and_then(|install| entry(install, "addons"));
        for addon in addons.map_or(&[][..], |addons| addons.value.entries()) {
            let (name, known) = (&addon.key, &KnownConfiguration::shipped().addons);
            let is_on =
                entry(&addon.value, "enabled").is_some_and(|enabled| is_true(&enabled.value));
            let is_known = known
                .iter()
                .any(|known| known.key == *name && known.is_in(release));
            if let Some((values, line)) = text(Some(&addon.value), "valuesContent")
                && let Some(why) = values_fault(values).filter(|_| is_on && is_known)
            {
                let why = format!(
                    "Helm never installs the addon `{name}` with its `values_content`: {why}"
                );
                self.overlook(line, why);
            }
        }
    }

    /// Only the node that begins a cluster chooses them.
    pub(super) fn cluster_networks(&mut self) {
        for (line, why) in misfits(self.install) {
            self.overlook(line, why);
        }
    }

    pub(super) fn addresses(&mut self) {
        for misfit in Addresses::read(self.os, self.install).misfits() {
            let (line, why) = (misfit.line, misfit.why);
            let kind = match misfit.kind {
                MisfitKind::OfNode => RemarkKind::Overlooked,
                MisfitKind::NodeNeedsRoute => RemarkKind::Depends,
                MisfitKind::VipNeedsRoute if self.mode == Mode::Join => continue,
                MisfitKind::VipNeedsRoute => RemarkKind::Depends,
                MisfitKind::HidesOthers => RemarkKind::Unintended,
                MisfitKind::OfCluster => {
                    self.overlook(line, why);
                    continue;
                }
            };
            self.remarks.push(Remark { line, kind, why });
        }
    }
}

/// The settings whose values no rule judges, or not completely: path, reason and line.
pub(super) fn unjudged_settings(
    root: &Node,
    release: HarvesterVersion,
) -> Vec<(String, &'static str, u32)> {
    let settings = entry(root, "systemSettings");
    let settings = settings.map_or(&[][..], |settings| settings.value.entries());
    let release = Some((release.major, release.minor));
    let unjudged = settings.iter().filter_map(|setting| {
        let why = why_unjudged(&setting.key, setting.value.as_str()?, release)?;
        Some((format!("systemSettings.{}", setting.key), why, setting.line))
    });
    unjudged.collect()
}

fn unknown_setting(key: &str, known: &[DatedName], release: HarvesterVersion) -> Option<String> {
    let mut named = known.iter();
    match named.find(|setting| setting.key == key) {
        Some(setting) if setting.is_in(release) => None,
        Some(setting) => setting.since.map(|since| {
            format!("it accepts the setting `{key}` from v{since} on; set it once the cluster runs")
        }),
        None => {
            let names = known.iter().filter(|setting| setting.is_in(release));
            let names = names.map(|setting| setting.key.as_str());
            Some(match nearest(key, names) {
                Some(meant) => format!("it knows no setting `{key}`; did you mean `{meant}`?"),
                None => format!("it has no setting `{key}`; set it once the cluster runs"),
            })
        }
    }
}
