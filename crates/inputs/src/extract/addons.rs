//! Harvester's addons, under their names in the installer's configuration.

use super::{Node, Problem, field, key_not_read};

/// The keys of `install.addons` and the Addons that they enable: harvester/addons,
/// `pkg/templates/rancherd-22-addons.yaml`. Since v1.4.0; kubeovn-operator since v1.6.0, descheduler since v1.7.0. The
/// installer accepts only these exact names.
pub const INSTALLER_ADDONS: [(&str, &str); 8] = [
    ("descheduler", "descheduler"),
    ("harvester_pcidevices_controller", "pcidevices-controller"),
    ("harvester_seeder", "harvester-seeder"),
    ("harvester_vm_import_controller", "vm-import-controller"),
    ("kubeovn_operator", "kubeovn-operator"),
    ("nvidia_driver_toolkit", "nvidia-driver-toolkit"),
    ("rancher_logging", "rancher-logging"),
    ("rancher_monitoring", "rancher-monitoring"),
];

/// Keys that are meant for an addon but that the installer never reads.
pub(super) fn misspelt(root: &Node) -> Vec<Problem> {
    let install = field(root, "install");
    let addons = install.and_then(|install| field(install, "addons"));
    let plain = |name: &str| name.replace(['-', '_'], "").to_lowercase();
    let mut found = Vec::new();
    for entry in addons.map_or(&[][..], Node::entries) {
        let written = plain(&entry.key);
        let mut known = INSTALLER_ADDONS.iter();
        let meant = known.find(|(key, addon)| written == plain(key) || written == plain(addon));
        if let Some((key, _)) = meant.filter(|(key, _)| *key != entry.key) {
            let why = format!("the installer has no such addon; did you mean `{key}`?");
            let name = format!("install.addons.{}", entry.key);
            found.push(key_not_read(&name, entry.line, &why));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use windrow_model::manifest::yaml;
    use windrow_model::reasons::Code;

    use super::*;

    #[test]
    fn an_addon_under_its_own_name_is_enabled_by_nothing() {
        let found = |key: &str| {
            let text = format!("install:\n  addons:\n    {key}: {{enabled: true}}\n");
            misspelt(&yaml::parse_configuration(&text).unwrap().unwrap())
        };
        for key in [
            "pcidevices-controller",
            "rancher-logging",
            "kubeovnOperator",
        ] {
            let problems = found(key);
            assert_eq!(problems.len(), 1, "{key}");
            assert_eq!(
                (problems[0].code, problems[0].line),
                (Code::KeyNotRead, Some(3))
            );
        }
        for key in [
            "harvester_pcidevices_controller",
            "rancher_logging",
            "of_another_version",
        ] {
            assert_eq!(found(key), [], "{key}");
        }
    }
}
