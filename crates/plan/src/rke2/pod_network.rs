//! Which parts of the network RKE2 installs itself: the CNI and kube-proxy.

use windrow_model::findings::Location;

use super::chart_selections::chart_selections;
use super::config::Rke2ConfigFile;
use super::keys::is_true;
use super::written_keys::written;

/// RKE2's default for `cni`.
const DEFAULT: &str = "canal";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodNetwork {
    /// The CNI that `cni` selects, next to Multus; `None` for `cni: none`.
    pub cni: Option<String>,
    /// The place of `cni`, or else of the whole configuration.
    pub at: Location,
    /// The place of `disable-kube-proxy: true`.
    pub without_kube_proxy: Option<Location>,
}

impl PodNetwork {
    /// The parts that these files select; `None` without files.
    pub fn read(files: &[Rke2ConfigFile]) -> Option<Self> {
        let whole = Location::file(files.first()?.shown.clone());
        let selected = chart_selections(files).cni;
        let primary = selected.iter().find(|item| item.text != "multus");
        let cni = primary.map_or(DEFAULT, |item| item.text.as_str());
        let keys = written(files);
        let proxy = keys.get("disable-kube-proxy");
        Some(Self {
            cni: (cni != "none").then(|| cni.to_owned()),
            at: primary.map_or(whole, |item| item.at.clone()),
            without_kube_proxy: proxy
                .filter(|key| is_true(Some(key)))
                .and_then(|key| key.at.clone()),
        })
    }
}
