//! The node's platform, according to its files.

use std::io;
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use windrow_decide::ClusterIdentity;
use windrow_gates::BootMoment;
use windrow_model::manifest::sha256_hex;
use windrow_plan::rules::Platform;

use crate::files::is_missing;
use crate::fs;
use crate::layout::Layout;

/// Files that only a Harvester node has. The installer writes them before the first boot of the
/// installed system.
///
/// rancherd's own configuration is not among them: rancherd installs other clusters too.
const HARVESTER: &[&str] = &[
    windrow_harvester::INSTALLER_CONFIG,
    "/etc/harvester-release.yaml",
    "/etc/rancher/rancherd/config.yaml.d/10-harvester.yaml",
];
/// The paths of RKE2's program and of the files that it creates.
const RKE2: &[&str] = &[
    "/etc/rancher/rke2",
    "/usr/local/bin/rke2",
    "/usr/bin/rke2",
    "/opt/rke2/bin/rke2",
    "/usr/local/lib/systemd/system/rke2-server.service",
    "/usr/lib/systemd/system/rke2-server.service",
];

/// The platform; `None` while its files do not show it.
pub fn detect(layout: &Layout) -> Option<Platform> {
    find(layout, &mut false)
}

/// As [`detect`]; the `known` platform if some files cannot be read.
pub fn detect_or(layout: &Layout, known: Option<Platform>) -> Option<Platform> {
    let mut is_doubtful = false;
    let found = find(layout, &mut is_doubtful);
    if is_doubtful { known } else { found }
}

fn find(layout: &Layout, is_doubtful: &mut bool) -> Option<Platform> {
    let mut exists = |path: &&str| {
        let error = fs::symlink_metadata(layout.path(path)).err();
        *is_doubtful |= error.as_ref().is_some_and(|error| !is_missing(error));
        error.is_none()
    };
    if HARVESTER.iter().any(&mut exists) {
        *is_doubtful = false;
        return Some(Platform::Harvester);
    }
    let is_rke2 = RKE2.iter().any(exists);
    match oem_names_harvester(layout) {
        Ok(true) => {
            *is_doubtful = false;
            return Some(Platform::Harvester);
        }
        Ok(false) => {}
        Err(_) => *is_doubtful = true,
    }
    is_rke2.then_some(Platform::Rke2)
}

/// `/oem/9?_custom.yaml`: the installer's files for yip.
fn oem_names_harvester(layout: &Layout) -> io::Result<bool> {
    let entries = match fs::read_dir(layout.path("/oem")) {
        Ok(entries) => entries,
        Err(error) if is_missing(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_custom = name.len() == "90_custom.yaml".len()
            && name.starts_with('9')
            && name.ends_with("_custom.yaml");
        if !is_custom || !entry.file_type()?.is_file() {
            continue;
        }
        let content = fs::read(entry.path())?.to_ascii_lowercase();
        let mut words = content.windows(b"harvester".len());
        if words.any(|window| window == b"harvester") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The kernel's ID of the node's present boot; `None` if no file below the root contains it.
pub fn boot_id(layout: &Layout) -> Option<String> {
    let text = fs::read_to_string(layout.path("/proc/sys/kernel/random/boot_id")).ok()?;
    let id = text.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

/// Now, by the clock of this boot; `None` if the boot is unknown.
pub fn boot_moment(layout: &Layout) -> Option<BootMoment> {
    let up = clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?;
    Some(BootMoment {
        boot: boot_id(layout)?,
        seconds: Duration::from(up).as_secs(),
    })
}

/// Which cluster the node's RKE2 belongs to: SHA-256 of its server CA; `None` until RKE2 has started for the first
/// time, and after it was removed.
pub fn cluster(layout: &Layout) -> Option<String> {
    digest_of(&layout.server_ca()).ok()?
}

/// Which cluster the manifests directory belongs to.
///
/// # Errors
///
/// When a file that identifies the cluster exists and cannot be read: then Windrow cannot tell whether the cluster is
/// another one.
pub fn identity(layout: &Layout) -> io::Result<ClusterIdentity> {
    Ok(ClusterIdentity {
        ca: digest_of(&layout.server_ca())?,
        datastore: digest_of(&layout.etcd_name())?,
    })
}

/// SHA-256 of a file, if there is one.
fn digest_of(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        // RKE2 is about to write it.
        Ok(content) if content.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(content) => Ok(Some(sha256_hex(&content))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_known_by_its_files_and_not_where_one_cannot_be_read() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let write = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(identity(&layout).unwrap(), ClusterIdentity::default());
        write(&layout.server_ca(), "a certificate");
        let first = identity(&layout).unwrap();
        assert!(first.ca.is_some() && first.datastore.is_none());
        write(&layout.etcd_name(), "node1-1a2b3c4d");
        write(&layout.etcd_name(), "");
        assert!(identity(&layout).is_err(), "it is being written");
        write(&layout.etcd_name(), "node1-1a2b3c4d");
        let started = identity(&layout).unwrap();
        assert!(started.ca == first.ca && started.datastore.is_some());
        // A directory cannot be read as a file.
        fs::remove_file(layout.server_ca()).unwrap();
        fs::create_dir(layout.server_ca()).unwrap();
        assert!(identity(&layout).is_err());
        assert_eq!(cluster(&layout), None);
    }

    #[test]
    fn a_platform_that_is_known_stays_so_while_its_files_cannot_be_read() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        fs::create_dir_all(layout.path("/etc/rancher/rke2")).unwrap();
        // Nothing below a link to itself can be read.
        std::os::unix::fs::symlink("oem", layout.path("/oem")).unwrap();
        assert_eq!(detect(&layout), Some(Platform::Rke2));
        for known in [None, Some(Platform::Harvester)] {
            assert_eq!(detect_or(&layout, known), known);
        }
        fs::remove_file(layout.path("/oem")).unwrap();
        let known = Some(Platform::Harvester);
        assert_eq!(detect_or(&layout, known), Some(Platform::Rke2));
    }

    #[test]
    fn a_node_is_what_its_files_say_and_harvester_before_rke2() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let write = |path: &str, text: &str| {
            let path = layout.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(detect(&layout), None);
        write("/etc/rancher/rke2/config.yaml", "");
        assert_eq!(detect(&layout), Some(Platform::Rke2));
        write("/oem/90_custom.yaml", "stages: {}\n");
        write("/oem/something_custom.yaml", "harvester\n");
        assert_eq!(detect(&layout), Some(Platform::Rke2));
        write("/oem/99_custom.yaml", "name: Harvester Configuration\n");
        assert_eq!(detect(&layout), Some(Platform::Harvester));
        fs::remove_file(layout.path("/oem/99_custom.yaml")).unwrap();
        write("/etc/rancher/rancherd/config.yaml", "");
        assert_eq!(
            detect(&layout),
            Some(Platform::Rke2),
            "rancherd without Harvester's files is not Harvester"
        );
        write("/oem/harvester.config", "");
        assert_eq!(detect(&layout), Some(Platform::Harvester));
    }
}
