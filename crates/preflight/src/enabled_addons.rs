//! The addons that an installer's configuration enables.

use windrow_inputs::extract::{FileKind, INSTALLER_ADDONS, field, kind_of};
use windrow_model::manifest::{Node, yaml};

/// The addons in an installer's configuration, and whether it enables each. Empty for any other text.
pub fn named_by_installer(text: &str) -> Vec<(String, bool)> {
    if kind_of(text) != FileKind::HarvesterConfig {
        return Vec::new();
    }
    let root = yaml::parse_configuration(text).ok().flatten();
    let install = root.as_ref().and_then(|root| field(root, "install"));
    let addons = install.and_then(|install| field(install, "addons"));
    let entries = addons.map_or(&[][..], Node::entries).iter();
    entries
        .filter_map(|entry| {
            let mut known = INSTALLER_ADDONS.iter();
            let (_, addon) = known.find(|(key, _)| *key == entry.key)?;
            let enabled = field(&entry.value, "enabled").and_then(Node::as_bool);
            Some(((*addon).to_owned(), enabled == Some(true)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installer_enables_addons_by_its_own_keys() {
        let text = "install:\n  addons:\n    harvester_pcidevices_controller:\n      enabled: true\n    rancher_logging: {}\n    rancher-monitoring: {enabled: true}\n";
        let named = named_by_installer(text);
        let named: Vec<_> = named
            .iter()
            .map(|(name, enabled)| (name.as_str(), *enabled))
            .collect();
        assert_eq!(
            named,
            [("pcidevices-controller", true), ("rancher-logging", false)]
        );
        let other = format!("apiVersion: v1\nkind: A\n{text}");
        assert_eq!(named_by_installer(&other), []);
    }
}
