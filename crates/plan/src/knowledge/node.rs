//! What is known of a node before it boots: its platform, the versions, what RKE2's configuration selects.

use windrow_model::manifest::Node;

use super::range::{Numbers, numbers};
use super::{Presence, Selection};
use crate::rules::Platform;
use crate::version::Version;

/// What RKE2 takes where `cni` says nothing.
const DEFAULT_CNI: &str = "canal";
/// What Harvester writes into RKE2's configuration.
const HARVESTER_CNI: [&str; 2] = ["multus", "canal"];

/// What is known of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// What the node is.
    pub platform: Option<Platform>,
    kubernetes: Option<Numbers>,
    harvester: Option<Numbers>,
    /// RKE2's configuration, where it is known.
    rke2: Option<Rke2Selections>,
    /// Components that are switched off.
    disabled: Vec<String>,
}

/// What RKE2's configuration selects. Empty: it says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// The same with a version of Kubernetes, where it is known.
    #[must_use]
    pub fn with_kubernetes(mut self, version: Option<Version>) -> Self {
        self.kubernetes = version.and_then(|version| numbers(&version.to_string()));
        self
    }

    /// The same with a version of Harvester, as text, where it is known.
    #[must_use]
    pub fn with_harvester(mut self, version: Option<&str>) -> Self {
        self.harvester = version.and_then(numbers);
        self
    }

    /// The same with components that are switched off.
    #[must_use]
    pub fn without<'c>(mut self, components: impl IntoIterator<Item = &'c str>) -> Self {
        self.disabled
            .extend(components.into_iter().map(str::to_owned));
        self
    }

    /// The same with one file of RKE2's configuration. They come in the order in which RKE2 reads them.
    pub fn add_rke2_configuration(&mut self, root: &Node) {
        let known = self.rke2.get_or_insert_default();
        for entry in root.entries() {
            let (key, adds) = match entry.key.strip_suffix('+') {
                Some(key) => (key, true),
                None => (entry.key.as_str(), false),
            };
            let list = match key {
                "cni" => &mut known.cni,
                "ingress-controller" => &mut known.ingress_controller,
                _ => continue,
            };
            if !adds {
                list.clear();
            }
            let items = match entry.value.as_str() {
                Some(_) => std::slice::from_ref(&entry.value),
                None => entry.value.items(),
            };
            let words = items.iter().filter_map(Node::as_str);
            let words = words.flat_map(|text| text.split(',')).map(str::trim);
            list.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
        }
    }

    /// Is a component switched off?
    pub fn is_disabled(&self, component: &str) -> bool {
        self.disabled.iter().any(|one| one == component)
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

    /// Does RKE2's configuration select a chart by this word?
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
            // ingress-nginx up to 1.35, traefik from then on; an older cluster keeps what it has.
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
    use windrow_model::manifest::yaml;

    use super::*;

    fn facts(configuration: &[&str]) -> NodeFacts {
        let mut facts = NodeFacts::from(Some(Platform::Rke2));
        for text in configuration {
            let root = yaml::parse_configuration(text).unwrap();
            facts.add_rke2_configuration(&root.unwrap());
        }
        facts
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
