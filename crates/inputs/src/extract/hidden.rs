//! Files that a mount hides: they are written into the directory below, and another filesystem covers it later.
//!
//! cloud-init writes files before it mounts anything (`config/cloud.cfg.tmpl`, 26.2: `write_files`, then `disk_setup` and
//! `mounts`), and deferred files afterwards. Ignition mounts its filesystems only while it writes its files (Ignition v2.26.0,
//! `internal/exec/stages/mount`); later, only a mount unit mounts them (Butane v0.29.0, `with_mount_unit`).

use windrow_model::reasons::Code;

use super::taker::is_true;
use super::{FileKind, Node, Problem, field};
use crate::manifest_path::{ManifestPlace, configuration, manifest_place};

/// A directory on which a filesystem is mounted or not, in a way that hides the files written there.
struct Mount<'n> {
    path: &'n str,
    line: u32,
    hides: bool,
}

/// The written files that RKE2 or Windrow would read, and that a mount hides.
pub(super) fn problems(kind: FileKind, root: &Node) -> Vec<Problem> {
    match kind {
        FileKind::CloudInit => by_mounts(root),
        FileKind::Ignition | FileKind::Butane => by_filesystems(root),
        _ => Vec::new(),
    }
}

fn by_mounts(root: &Node) -> Vec<Problem> {
    // The image's order of modules, which this list replaces.
    if root.get("cloud_init_modules").is_some() {
        return Vec::new();
    }
    let is_mounted_before = |path: &str| {
        let commands = root.list("bootcmd").iter();
        let mut words = commands.flat_map(|command| match command.as_str() {
            Some(text) => text.split_whitespace().collect::<Vec<_>>(),
            None => command.items().iter().filter_map(Node::as_str).collect(),
        });
        words.any(|word| word.trim_end_matches('/') == path)
    };
    let entries = root.list("mounts").iter();
    let mounts: Vec<Mount<'_>> = entries
        .filter_map(|entry| {
            let path = entry.items().get(1)?;
            let options = entry.items().get(3).and_then(Node::as_str);
            let options = options.unwrap_or_default();
            let written = absolute(path.as_str()?)?;
            let waits = options.split(',').any(|option| option == "noauto");
            // A bind of the directory to itself, and an overlay over it, show its files.
            let device = entry.items().first().and_then(Node::as_str);
            let is_itself = device.is_some_and(|device| device.trim_end_matches('/') == written);
            let mut lower = options
                .split(',')
                .filter_map(|option| option.strip_prefix("lowerdir="));
            let is_below = lower.any(|list| {
                list.split(':')
                    .any(|one| one.trim_end_matches('/') == written)
            });
            Some(Mount {
                path: written,
                line: path.line,
                hides: !waits && !is_itself && !is_below && !is_mounted_before(written),
            })
        })
        .collect();
    let files = root.list("write_files").iter();
    let early = files.filter(|file| !file.get("defer").is_some_and(is_true));
    let why = "cloud-init mounts it later";
    hidden(early, &mounts, why)
}

fn by_filesystems(root: &Node) -> Vec<Problem> {
    let list = |path: &[&str]| root.at(path).map_or(&[][..], Node::items);
    let files = list(&["storage", "files"]);
    // Each of these may mount it too.
    let mounts_too = |file: &Node| {
        file.str_at(&["path"]).is_some_and(|path| {
            path == "/etc/fstab"
                || (path.starts_with("/etc/systemd/system/") && path.contains(".mount"))
        })
    };
    let links = list(&["storage", "links"]).iter();
    let is_unclear = files.iter().chain(links).any(mounts_too)
        || root.get("kernel_arguments").is_some()
        || root.at(&["ignition", "config", "merge"]).is_some();
    if is_unclear {
        return Vec::new();
    }
    let units = list(&["systemd", "units"]);
    let has_unit = |path: &str| {
        let name = format!("{}.mount", unit_name(path));
        units.iter().any(|unit| {
            let text = unit.str_at(&["contents"]).unwrap_or_default();
            let mut lines = text.lines();
            unit.str_at(&["name"]) == Some(&name)
                || lines.any(|line| {
                    line.contains(path) && (line.contains("mount") || line.starts_with("Where"))
                })
        })
    };
    let filesystems = list(&["storage", "filesystems"]).iter();
    let mounts: Vec<Mount<'_>> = filesystems
        .filter_map(|filesystem| {
            let path = filesystem.get("path")?;
            let written = absolute(path.as_str()?)?;
            let with_unit = filesystem.get("with_mount_unit").and_then(Node::as_bool);
            Some(Mount {
                path: written,
                line: path.line,
                hides: with_unit != Some(true) && !has_unit(written),
            })
        })
        .collect();
    let why = "nothing mounts it at boot";
    hidden(files.iter(), &mounts, why)
}

/// A mounted directory other than `/`, without `/` at the end.
fn absolute(path: &str) -> Option<&str> {
    let path = path.trim_end_matches('/');
    path.starts_with('/').then_some(path)
}

/// The name of a mount unit without its suffix (`systemd-escape --path`).
fn unit_name(path: &str) -> String {
    let escaped = path.trim_matches('/').replace('-', "\\x2d");
    escaped.replace('/', "-")
}

/// The files whose innermost mount hides them.
fn hidden<'n>(
    files: impl Iterator<Item = &'n Node>,
    mounts: &[Mount<'_>],
    why: &str,
) -> Vec<Problem> {
    let problem = |file: &Node| {
        let path = field(file, "path")?;
        let written = path.as_str()?;
        let is_read = configuration(written).is_some()
            || matches!(manifest_place(written), Ok(ManifestPlace::Below { .. }));
        let is_below = |mount: &&Mount<'_>| {
            let rest = written.strip_prefix(mount.path);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        let innermost = mounts
            .iter()
            .filter(is_below)
            .max_by_key(|mount| mount.path.len());
        let mount = innermost.filter(|mount| mount.hides && is_read)?;
        let place = format!("{} (line {})", mount.path, mount.line);
        let words = [("path", written), ("what", &*place), ("why", why)];
        Some(Problem {
            code: Code::FileHidden,
            line: Some(path.line),
            message: Code::FileHidden.say(&words),
        })
    };
    files.filter_map(problem).collect()
}

#[cfg(test)]
mod tests {
    use windrow_model::manifest::ReadLimits;

    use super::super::extract;
    use super::*;

    /// The lines of the hidden files.
    fn found(text: &str) -> Vec<Option<u32>> {
        let problems = extract("u", text, &ReadLimits::default()).problems;
        let hidden = problems
            .into_iter()
            .filter(|problem| problem.code == Code::FileHidden);
        hidden.map(|problem| problem.line).collect()
    }

    #[test]
    fn a_file_that_cloud_init_writes_before_it_mounts_its_directory_is_hidden() {
        let text = "#cloud-config
mounts:
- [/dev/sdb1, /var/lib/rancher, ext4, 'defaults,nofail']
write_files:
- path: /var/lib/rancher/rke2/server/manifests/a.yaml
  content: ''
- path: /etc/rancher/rke2/config.yaml
  content: ''
- path: /var/lib/rancher/notes
";
        assert_eq!(found(text), [Some(5)]);
        for (from, to) in [
            ("content: ''\n- path: /etc", "defer: true\n- path: /etc"),
            ("defaults,nofail", "noauto"),
            ("/var/lib/rancher, ext4", "/var/lib/ranch, ext4"),
            ("/var/lib/rancher, ext4", "none, swap"),
            (
                "/dev/sdb1, /var/lib/rancher, ext4",
                "/var/lib/rancher/, /var/lib/rancher, none",
            ),
            (
                "ext4, 'defaults,nofail'",
                "overlay, 'lowerdir=/opt:/var/lib/rancher,upperdir=/u'",
            ),
            (
                "#cloud-config",
                "#cloud-config\nbootcmd: [mount /dev/sdb1 /var/lib/rancher]",
            ),
            (
                "#cloud-config",
                "#cloud-config\ncloud_init_modules: [mounts, write_files]",
            ),
        ] {
            assert!(text.contains(from), "{from}");
            assert_eq!(found(&text.replace(from, to)), [], "{to}");
        }
        assert_eq!(
            found(&text.replace("/var/lib/rancher, ext4", "/etc/, ext4")),
            [Some(7)]
        );
    }

    #[test]
    fn a_file_on_a_filesystem_that_only_ignition_mounts_is_hidden() {
        let text = "variant: fcos
version: 1.5.0
storage:
  filesystems:
  - path: /var/lib/rancher
    device: /dev/sdb1
    format: xfs
  files:
  - path: /var/lib/rancher/rke2/server/manifests/a.yaml
    contents: {inline: ''}
";
        assert_eq!(found(text), [Some(9)]);
        let inner = "- path: /var/lib/rancher/rke2/server\n    device: /dev/sdc1\n    format: xfs\n    with_mount_unit: true\n  - path: /var/lib/rancher\n";
        for (from, to) in [
            ("format: xfs", "format: xfs\n    with_mount_unit: true"),
            ("- path: /var/lib/rancher\n", inner),
            ("- path: /var/lib/rancher\n", "- path: /\n"),
            (
                "  files:\n",
                "  files:\n  - path: /etc/systemd/system/var-lib-rancher.mount\n",
            ),
            (
                "storage:",
                "systemd:\n  units: [{name: var-lib-rancher.mount, enabled: true}]\nstorage:",
            ),
            (
                "storage:",
                "systemd:\n  units: [{name: a.service, contents: 'ExecStart=/bin/mount /dev/sdb1 /var/lib/rancher'}]\nstorage:",
            ),
        ] {
            assert!(text.contains(from), "{from}");
            assert_eq!(found(&text.replacen(from, to, 1)), [], "{to}");
        }
    }

    #[test]
    fn a_mount_unit_has_the_escaped_name_of_its_path() {
        assert_eq!(unit_name("/var/lib/rancher"), "var-lib-rancher");
        assert_eq!(unit_name("/data/my-disk"), r"data-my\x2ddisk");
    }
}
