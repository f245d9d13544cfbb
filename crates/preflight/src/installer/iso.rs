//! The release that a configuration or a kernel command line installs, by the address of its ISO.
//!
//! harvester-installer v1.8.1, `package/harvester-os/files/usr/sbin/harv-install` (get_iso, preload_rke2_images): the images of RKE2 and
//! Harvester come from the ISO at `install.iso_url`. Without this address they come from the booted medium, which `root=live:` names for a
//! boot over the network.

use windrow_harvester::HarvesterVersion;
use windrow_inputs::extract::{FileKind, kind_of};
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{Node, yaml};
use windrow_model::reasons::Code;

use super::arguments::{KernelArguments, normal};

/// A release that an input names, and the line that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRelease {
    pub version: HarvesterVersion,
    pub at: Location,
}

/// The release that a configuration installs; `None` if it names no ISO, or one whose address contains no version.
pub fn of_configuration(shown: &str, text: &str) -> Option<NamedRelease> {
    if kind_of(text) != FileKind::HarvesterConfig {
        return None;
    }
    iso_of(shown, &yaml::installers(text).ok()??)
}

/// The release that the parameters on a kernel command line install.
pub fn of_kernel_arguments(shown: &str, text: &str) -> Option<NamedRelease> {
    let arguments = KernelArguments::read(text)?.into_root();
    iso_of(shown, &arguments).or_else(|| booted(shown, text))
}

/// A finding if an input installs another release than the one that Windrow checks.
pub fn difference(used: HarvesterVersion, named: &NamedRelease) -> Option<Finding> {
    let code = Code::ReleaseDiffers;
    (used != named.version).then(|| Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: code.say(&[
            ("version", &format!("v{}", named.version)),
            ("target", &format!("v{used}")),
        ]),
        at: vec![named.at.clone()],
    })
}

fn iso_of(shown: &str, root: &Node) -> Option<NamedRelease> {
    let install = spelled(root, "install")?;
    let address = spelled(install, "isourl")?;
    let version = in_address(address.as_str()?)?;
    let at = Location::line(shown, address.line);
    Some(NamedRelease { version, at })
}

/// A key in any of the spellings that the installer accepts.
fn spelled<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let mut entries = node.entries().iter();
    let entry = entries.find(|entry| normal(&entry.key) == key)?;
    Some(&entry.value)
}

/// The release of the live system that the line boots.
fn booted(shown: &str, text: &str) -> Option<NamedRelease> {
    (1..).zip(text.lines()).find_map(|(line, written)| {
        let mut words = written.split_whitespace();
        let address = words.find_map(|word| word.strip_prefix("root=live:"))?;
        let version = in_address(address)?;
        let at = Location::line(shown, line);
        Some(NamedRelease { version, at })
    })
}

/// The version in the name of Harvester's file, or else in that of its directory.
fn in_address(address: &str) -> Option<HarvesterVersion> {
    let path = address.split(['?', '#']).next()?;
    if !path.to_lowercase().contains("harvester") {
        return None;
    }
    let mut parts = path.rsplit('/');
    let file = parts.next()?;
    in_name(file).or_else(|| parts.next().and_then(|directory| directory.parse().ok()))
}

/// `harvester-v1.8.1-rc2-amd64.iso`: what follows the three numbers is `rcN` or the architecture.
fn in_name(file: &str) -> Option<HarvesterVersion> {
    let mut parts = file.split('-').skip_while(|part| !part.starts_with('v'));
    let numbers = parts.next()?;
    let numbers = numbers.strip_suffix(".iso").unwrap_or(numbers);
    let candidate = parts.next().filter(|part| part.starts_with("rc"));
    let candidate = candidate.map(|part| part.strip_suffix(".iso").unwrap_or(part));
    match candidate {
        Some(candidate) => format!("{numbers}-{candidate}").parse().ok(),
        None => numbers.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(found: Option<NamedRelease>) -> Option<String> {
        found.map(|found| format!("v{} at {}", found.version, found.at))
    }

    #[test]
    fn the_address_of_the_iso_names_the_release() {
        for (address, version) in [
            (
                "https://releases.rancher.com/harvester/v1.8.1/harvester-v1.8.1-amd64.iso",
                Some("v1.8.1"),
            ),
            (
                "http://10.0.0.1/harvester-v1.7.0-rc2-amd64.iso",
                Some("v1.7.0-rc2"),
            ),
            ("http://10.0.0.1/harvester-v1.7.0.iso", Some("v1.7.0")),
            (
                "http://10.0.0.1/harvester/v1.6.1/installer.iso",
                Some("v1.6.1"),
            ),
            ("http://10.0.0.1/harvester-master-amd64.iso", None),
            ("http://10.0.0.1/harvester-${version}-amd64.iso", None),
            ("http://10.0.0.1/tools/v2.0.0/installer.iso", None),
            ("", None),
        ] {
            for key in ["isoUrl", "iso_url"] {
                let text = format!(
                    "scheme_version: 1\ninstall:\n  mode: create\n  {key}: \"{address}\"\n"
                );
                let wanted = version.map(|version| format!("{version} at c.yaml:4"));
                assert_eq!(shown(of_configuration("c.yaml", &text)), wanted, "{text}");
            }
            let wanted = version.map(|version| format!("{version} at boot.ipxe:2"));
            let line = format!("#!ipxe\nkernel k harvester.install.iso_url={address} quiet\n");
            assert_eq!(
                shown(of_kernel_arguments("boot.ipxe", &line)),
                wanted,
                "{line}"
            );
        }
    }

    #[test]
    fn a_boot_without_the_address_of_an_iso_installs_the_booted_release() {
        let live = "root=live:http://10.0.0.1/harvester-v1.8.0-rootfs-amd64.squashfs";
        let line = format!("kernel k {live} harvester.install.automatic=true\n");
        assert_eq!(
            shown(of_kernel_arguments("boot", &line)).unwrap(),
            "v1.8.0 at boot:1"
        );
        let both = format!(
            "{} harvester.install.iso_url=http://h/harvester-v1.8.1-amd64.iso",
            line.trim()
        );
        assert_eq!(
            shown(of_kernel_arguments("boot", &both)).unwrap(),
            "v1.8.1 at boot:1"
        );
        let other =
            "root=live:http://10.0.0.1/debian-v1.8.0.squashfs harvester.install.automatic=true\n";
        assert_eq!(of_kernel_arguments("boot", other), None);
        assert_eq!(of_configuration("c.yaml", "kind: List\n"), None);
    }

    #[test]
    fn only_another_release_is_a_difference() {
        let named = NamedRelease {
            version: HarvesterVersion::new(1, 8, 1),
            at: Location::line("c.yaml", 4),
        };
        assert_eq!(difference(HarvesterVersion::new(1, 8, 1), &named), None);
        let found = difference(HarvesterVersion::new(1, 8, 2), &named).unwrap();
        assert_eq!(
            (found.code, found.at),
            (Code::ReleaseDiffers, vec![named.at])
        );
    }
}
