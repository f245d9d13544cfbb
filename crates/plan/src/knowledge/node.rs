//! Facts about a node before it boots: its platform, the versions, and the selections in RKE2's configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::range::{Numbers, numbers};
use super::{Presence, Selection};
use crate::rke2::config::{ConfigItem, Rke2ConfigFile};
use crate::rke2::{CNI, INGRESS, chart_selections};
use crate::rules::Platform;
use crate::version::Version;

/// RKE2's default for `cni`.
const DEFAULT_CNI: &str = "canal";
/// The value that Harvester writes into RKE2's configuration.
const HARVESTER_CNI: [&str; 2] = ["multus", "canal"];

/// Facts about a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeFacts {
    /// Platform of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Whether the platform is only assumed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_assumed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubernetes: Option<Numbers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    harvester: Option<Numbers>,
    /// RKE2's configuration, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    rke2: Option<Rke2Selections>,
    /// Disabled components.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disabled: Vec<String>,
    /// Enabled addons of Harvester.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addons: Vec<String>,
    /// Release on the machine: that of Harvester, or of Kubernetes on plain RKE2. Only learned knowledge depends on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<Numbers>,
    /// Hardware class of the machine. Only learned knowledge depends on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hardware: Option<String>,
    /// Release of the platform, for example `Harvester v1.9.0`, if the data do not cover it.
    #[serde(skip_serializing_if = "Option::is_none")]
    unread_release: Option<String>,
}

/// Selections in RKE2's configuration; empty if it contains none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct Rke2Selections {
    cni: Vec<String>,
    ingress_controller: Vec<String>,
}

impl From<Option<Platform>> for NodeFacts {
    fn from(platform: Option<Platform>) -> Self {
        Self {
            platform,
            ..Self::default()
        }
    }
}

impl From<&Self> for NodeFacts {
    fn from(facts: &Self) -> Self {
        facts.clone()
    }
}

impl NodeFacts {
    #[must_use]
    pub fn with_kubernetes(mut self, version: Option<Version>) -> Self {
        self.kubernetes = version.and_then(|version| numbers(&version.to_string()));
        self
    }

    /// Sets the version of Harvester as text, if known.
    #[must_use]
    pub fn with_harvester(mut self, version: Option<&str>) -> Self {
        self.harvester = version.and_then(numbers);
        self
    }

    /// Sets the release of the platform, for example `Harvester v1.9.0`, if the data do not cover it. It may provide more kinds
    /// than the data contain.
    #[must_use]
    pub fn with_unread_release(mut self, release: Option<String>) -> Self {
        self.unread_release = release;
        self
    }

    /// Adds disabled components.
    #[must_use]
    pub fn without<'c>(mut self, components: impl IntoIterator<Item = &'c str>) -> Self {
        self.disabled
            .extend(components.into_iter().map(str::to_owned));
        self
    }

    /// Sets RKE2's configuration from the files on the node, or from the files that a configuration writes. Without files it
    /// stays unknown.
    #[must_use]
    pub fn with_rke2_files(mut self, files: &[Rke2ConfigFile]) -> Self {
        if files.is_empty() {
            return self;
        }
        let selections = chart_selections(files);
        let words = |items: &[ConfigItem]| items.iter().map(|item| item.text.clone()).collect();
        self.rke2 = Some(Rke2Selections {
            cni: words(&selections.cni),
            ingress_controller: words(&selections.ingress_controller),
        });
        self.disabled
            .extend(selections.disabled.into_iter().map(|item| item.text));
        self
    }

    /// Adds enabled addons of Harvester.
    #[must_use]
    pub fn with_addons(mut self, addons: impl IntoIterator<Item = String>) -> Self {
        self.addons.extend(addons);
        self
    }

    /// Sets the machine's own release and hardware class, if known: times depend on them.
    #[must_use]
    pub fn with_machine(mut self, release: Option<&str>, hardware: Option<String>) -> Self {
        self.release = release.and_then(numbers);
        self.hardware = hardware;
        self
    }

    /// Marks the platform as assumed, so that things of other platforms are possible.
    #[must_use]
    pub fn assumed(self) -> Self {
        Self {
            is_assumed: true,
            ..self
        }
    }

    #[must_use]
    pub fn on(self, platform: Option<Platform>) -> Self {
        Self { platform, ..self }
    }

    /// Whether no fact is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an addon of Harvester is enabled. A disabled one can be enabled later.
    pub(super) fn enables(&self, addon: &str) -> Presence {
        match self.addons.iter().any(|one| one == addon) {
            true => Presence::There,
            false => Presence::Where(format!("the addon {addon} is enabled")),
        }
    }

    pub fn is_disabled(&self, component: &str) -> bool {
        self.disabled.iter().any(|one| one == component)
    }

    /// Why this RKE2 does not install one of its packaged charts; `None` if it does, or if that is unknown. Only a cluster that
    /// ran an older RKE2 has an ingress controller that is not the default.
    pub fn leaves_out(&self, chart: &str) -> Option<&'static str> {
        if self.platform != Some(Platform::Rke2) || self.is_assumed {
            return None;
        }
        if self.is_disabled(chart) {
            return Some("`disable` has it");
        }
        let word = chart.strip_prefix("rke2-")?;
        let word = word.strip_suffix("-crd").unwrap_or(word);
        let is_network = CNI.contains(&word) || word == "multus";
        let is_written = |rke2: &Rke2Selections| !rke2.ingress_controller.is_empty();
        let keeps = word == "ingress-nginx" && !self.rke2.as_ref().is_some_and(is_written);
        let (setting, why) = if is_network {
            (Selection::Cni, "`cni` does not select it")
        } else if INGRESS.contains(&word) && !keeps {
            (
                Selection::IngressController,
                "`ingress-controller` does not select it",
            )
        } else {
            return None;
        };
        (self.selects(setting, word) == Presence::Absent).then_some(why)
    }

    pub(super) fn may_be_another(&self) -> bool {
        self.is_assumed || self.platform.is_none()
    }

    pub(super) fn unread_release(&self) -> Option<&str> {
        self.unread_release.as_deref()
    }

    pub(super) fn is_harvester(&self) -> bool {
        self.platform == Some(Platform::Harvester)
    }

    pub(super) fn kubernetes(&self) -> Option<Numbers> {
        self.kubernetes
    }

    pub(super) fn harvester(&self) -> Option<Numbers> {
        self.harvester
    }

    pub(super) fn release(&self) -> Option<Numbers> {
        self.release.or(match self.platform? {
            Platform::Harvester => self.harvester,
            Platform::Rke2 => self.kubernetes,
        })
    }

    /// The hardware class, if known.
    pub fn hardware(&self) -> Option<&str> {
        self.hardware.as_deref()
    }

    /// Whether RKE2's configuration selects a chart with this word.
    pub(super) fn selects(&self, setting: Selection, word: &str) -> Presence {
        let written = self.rke2.as_ref().map(|rke2| match setting {
            Selection::Cni => &rke2.cni,
            Selection::IngressController => &rke2.ingress_controller,
        });
        if let Some(words) = written.filter(|words| !words.is_empty()) {
            return match words.iter().any(|one| one == word) {
                true => Presence::There,
                false => Presence::Absent,
            };
        }
        let is_known = written.is_some() || self.is_harvester();
        let is_default = match setting {
            Selection::Cni if self.is_harvester() => HARVESTER_CNI.contains(&word),
            Selection::Cni => word == DEFAULT_CNI,
            // ingress-nginx up to 1.35, traefik from then on; an older cluster keeps its controller.
            Selection::IngressController => match self.kubernetes {
                Some(version) => (version >= [1, 36, 0]) == (word == "traefik"),
                None => return self.unknown(setting, word),
            },
        };
        match (is_default, is_known) {
            (true, _) => Presence::There,
            (false, true) => Presence::Absent,
            (false, false) => self.unknown(setting, word),
        }
    }

    fn unknown(&self, setting: Selection, word: &str) -> Presence {
        let setting = setting.as_str();
        Presence::Where(format!("RKE2's `{setting}` names {word}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rke2::config::ConfigLayer;

    /// A node with these drop-ins, in their order.
    fn facts(configuration: &[&str]) -> NodeFacts {
        let files = configuration.iter().zip('a'..);
        let files = files.map(|(text, name)| {
            Rke2ConfigFile::new(ConfigLayer::DropIn, format!("{name}.yaml"), *text)
        });
        let files: Vec<_> = files.collect();
        NodeFacts::from(Some(Platform::Rke2)).with_rke2_files(&files)
    }

    #[test]
    fn a_chart_is_there_where_rke2s_configuration_or_its_default_selects_it() {
        let cni = |facts: &NodeFacts, word| facts.selects(Selection::Cni, word);
        let unknown = NodeFacts::from(Some(Platform::Rke2));
        assert_eq!(cni(&unknown, "canal"), Presence::There);
        assert!(matches!(cni(&unknown, "multus"), Presence::Where(_)));
        let says_nothing = facts(&["token: x"]);
        assert_eq!(cni(&says_nothing, "canal"), Presence::There);
        assert_eq!(cni(&says_nothing, "multus"), Presence::Absent);
        for text in ["cni: [multus, cilium]", "cni: 'multus,cilium'"] {
            let known = facts(&["cni: canal", text]);
            assert_eq!(cni(&known, "multus"), Presence::There);
            assert_eq!(cni(&known, "canal"), Presence::Absent);
        }
        assert_eq!(
            cni(&facts(&["cni: multus", "cni+: calico"]), "multus"),
            Presence::There
        );
        let harvester = NodeFacts::from(Some(Platform::Harvester));
        assert_eq!(cni(&harvester, "multus"), Presence::There);
        assert_eq!(cni(&harvester, "cilium"), Presence::Absent);
    }

    #[test]
    fn the_ingress_controller_that_nothing_names_depends_on_the_version() {
        let ingress = |version: &str, word| {
            let version = Some(version.parse().unwrap());
            let facts = facts(&["token: x"]).with_kubernetes(version);
            facts.selects(Selection::IngressController, word)
        };
        assert_eq!(ingress("v1.35.6", "ingress-nginx"), Presence::There);
        assert_eq!(ingress("v1.35.6", "traefik"), Presence::Absent);
        assert_eq!(ingress("v1.36.0", "traefik"), Presence::There);
        let unknown = facts(&["token: x"]);
        let traefik = unknown.selects(Selection::IngressController, "traefik");
        assert!(matches!(traefik, Presence::Where(_)));
    }
}
