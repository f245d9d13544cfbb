//! Knowledge of Harvester and of the programs that run on it (Rancher, KubeVirt, Longhorn), by version. It covers the addons,
//! and whether the parts of the platform work. It recognizes incidents in a list of objects, and answers whether a drain would finish
//! and where a pod could run.
//!
//! May know: the crates `model` and `plan`.
//!
//! Invariants: callers pass objects and receive findings with evidence; an object that could not be requested is unknown, never
//! absent.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read what is shipped")
)]

pub mod addons;
pub mod drain;
pub mod etcd_member;
pub mod health;
pub mod incidents;
pub mod network;
pub mod node_condition;
pub mod objects;
pub mod restart;
pub mod schedule;
pub mod system_image;
pub mod upgrade;
mod version;
pub mod versions;

pub use system_image::{ImageFile, SystemImages, SystemPartition, boot_time, booted_image};
pub use version::{HarvesterVersion, ReleaseStage};

use windrow_model::manifest::file_kind::field;
use windrow_model::manifest::{Node, yaml};

/// Path of the installer's configuration on a node.
pub const INSTALLER_CONFIG: &str = "/oem/harvester.config";

/// File name shown for the rules of [`preset_rules`].
pub const PRESET_RULES: &str = "harvester-preset.yaml";

/// Line of a preset storage network in an installer's configuration. The installer writes [`INSTALLER_CONFIG`] with lower-cased
/// keys; users write `systemSettings` or `system_settings`.
pub fn preset_storage_network(config: &Node) -> Option<u32> {
    let preset = field(config, "systemSettings")?.entry("storage-network")?;
    preset
        .value
        .as_str()
        .is_some_and(|value| !value.trim().is_empty())
        .then_some(preset.line)
}

/// How the installer was configured to find the VIP's address: `dhcp` or `static`.
pub fn vip_mode(config: &Node) -> Option<&str> {
    field(field(config, "install")?, "vipMode")?.as_str()
}

pub fn vip_address(config: &Node) -> Option<&str> {
    field(field(config, "install")?, "vip")?.as_str()
}

pub fn presets_storage_network(text: &str) -> bool {
    let root = yaml::parse_configuration(text).ok().flatten();
    root.is_some_and(|root| preset_storage_network(&root).is_some())
}

/// The rule pack for a node whose installer presets a storage network.
pub fn preset_rules() -> (String, String) {
    (
        PRESET_RULES.to_owned(),
        include_str!("preset.yaml").to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use windrow_plan::rules::RuleSet;

    use super::*;

    fn preset(text: &str) -> Option<u32> {
        preset_storage_network(&yaml::parse_configuration(text).unwrap().unwrap())
    }

    #[test]
    fn a_preset_storage_network_is_found_in_either_spelling() {
        assert_eq!(
            preset("token: x\nsystemSettings:\n  storage-network: '{\"vlan\":1}'\n"),
            Some(3)
        );
        assert_eq!(
            preset("systemsettings:\n  storage-network: '{\"vlan\":1}'\n"),
            Some(2)
        );
        assert_eq!(
            preset("system_settings: {storage-network: '{\"vlan\":1}'}\n"),
            Some(1)
        );
        assert_eq!(preset("systemSettings: {storage-network: ''}\n"), None);
        assert_eq!(preset("systemSettings: {ntp-servers: x}\n"), None);
        assert_eq!(preset("token: x\n"), None);
    }

    #[test]
    fn the_vips_mode_is_found_in_every_spelling() {
        for (text, mode) in [
            ("install: {vipMode: dhcp}\n", Some("dhcp")),
            ("install: {vipmode: static}\n", Some("static")),
            ("install: {vip_mode: dhcp}\n", Some("dhcp")),
            ("install: {vip: 10.0.0.9}\n", None),
            ("token: x\n", None),
        ] {
            let config = yaml::parse_configuration(text).unwrap().unwrap();
            assert_eq!(vip_mode(&config), mode, "{text}");
        }
        let config = yaml::parse_configuration("install: {vip: 10.0.0.9}\n");
        assert_eq!(vip_address(&config.unwrap().unwrap()), Some("10.0.0.9"));
    }

    #[test]
    fn the_preset_pack_has_no_error() {
        let (rules, errors) = RuleSet::load(&[preset_rules()]);
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(rules.rules.len(), 3);
    }
}
