//! The directories that the sandbox of Windrow's units opens: `/var/lib/rancher`, and the targets of links below it. A data
//! directory elsewhere needs a drop-in for both units that write there. And the paths that it hides.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

use crate::files::read_text;
use crate::fs;
use crate::layout::Layout;

/// The units that write markers.
const UNITS: [&str; 2] = ["windrow.service", "windrow-failsafe.service"];
const PLACES: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
/// `systemd/prepare` creates this directory before systemd makes the sandbox.
const PREPARED: &str = "/var/lib/rancher";
/// Most drop-ins of a unit in one directory. A tree of another machine can have any number.
const MOST_DROP_INS: usize = 64;
const DROP_IN: &str = "50-data-dir.conf";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOnly {
    /// The real path, with links followed; of the nearest existing directory.
    pub real: PathBuf,
    /// Whether the mount is read-only, as in a sandbox, rather than the file system.
    pub by_sandbox: bool,
}

/// Whether this directory is read-only for this process. If it does not exist yet, its nearest existing parent counts.
pub fn read_only(directory: &Path) -> Option<ReadOnly> {
    let real = real(directory)?.0;
    if access(&real, AccessFlags::W_OK) != Err(Errno::EROFS) {
        return None;
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let by_sandbox = !file_system_read_only(&mounts, &real);
    Some(ReadOnly { real, by_sandbox })
}

/// The nearest existing directory with all links followed, and the missing rest of the path below it.
fn real(directory: &Path) -> Option<(PathBuf, PathBuf)> {
    directory.ancestors().find_map(|one| {
        let missing = directory.strip_prefix(one).ok()?.to_owned();
        Some((fs::canonicalize(one).ok()?, missing))
    })
}

/// Whether a sandbox hides this path. systemd mounts an empty directory or file without any permissions there.
pub(crate) fn is_hidden(path: &Path) -> bool {
    let mut places = path.ancestors();
    let nearest = places.find_map(|place| fs::metadata(place).ok());
    nearest.is_some_and(|found| found.mode() & 0o7777 == 0 && (found.is_dir() || found.len() == 0))
}

/// Whether the file system under `path` itself is read-only, independent of the mount. proc_pid_mountinfo(5): the fifth
/// field is the mount point; the file system's own options come last.
fn file_system_read_only(mounts: &str, path: &Path) -> bool {
    let mut best = (0, false);
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let Some(point) = fields.get(4).map(|point| unescaped(point)) else {
            continue;
        };
        let depth = Path::new(&point).components().count();
        if path.starts_with(&point) && depth >= best.0 {
            let options = fields.last().copied().unwrap_or_default();
            best = (depth, options.split(',').any(|option| option == "ro"));
        }
    }
    best.1
}

/// The kernel writes white space and `\` in octal.
fn unescaped(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The directory to open for `real`: all of RKE2's data if it is below that.
pub fn to_open(layout: &Layout, real_path: &Path) -> PathBuf {
    let data = fs::canonicalize(layout.data_dir());
    data.ok()
        .filter(|data| real_path.starts_with(data))
        .unwrap_or_else(|| real_path.to_owned())
}

/// Whether this path needs no escapes for a shell, for printf and in a unit's file.
fn is_plain(path: &Path) -> bool {
    let path = path.as_os_str().as_encoded_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,=@".contains(byte);
    path.iter().all(is_plain)
}

/// The fix: commands that can be pasted. Empty for a path with another meaning in commands: it may come from another
/// machine's tree.
pub fn way_out(real: &Path, open: &Path) -> String {
    if !is_plain(open) {
        return format!(
            "it is {}, which the sandbox of windrow.service does not open. Rename it: its path has characters that mean something else in \
             a unit's file",
            real.display()
        );
    }
    let directories = UNITS.map(|unit| format!("/etc/systemd/system/{unit}.d"));
    let [first, second] = &directories;
    format!(
        "it is {}, which the sandbox of windrow.service does not open. Run: mkdir -p {first} {second}; \
         printf '[Service]\\nReadWritePaths={}\\n' | tee {first}/{DROP_IN} >{second}/{DROP_IN}; \
         systemctl daemon-reload; systemctl restart windrow.service",
        real.display(),
        open.display(),
    )
}

/// For a process outside of the sandbox, from the units' files: why the manifests directory will be read-only to a
/// unit. `None` if it will not be, no unit is installed, or the tree is a part of a system, as an image's overlay is:
/// its remaining files are unknown.
pub fn closed(layout: &Layout) -> Option<String> {
    if !fs::is_dir(layout.path("/var/lib")) {
        return None;
    }
    let (real, missing) = real(&layout.manifests())?;
    let closed: Vec<&str> = UNITS
        .into_iter()
        .filter(|unit| {
            writable_paths(layout, unit).is_some_and(|open| !open.holds(&real.join(&missing)))
        })
        .collect();
    if closed.is_empty() {
        return None;
    }
    // A directory that is made later needs the existing one now.
    let open = match missing.as_os_str().is_empty() {
        true => to_open(layout, &real),
        false => real.clone(),
    };
    Some(format!(
        "{} cannot write to {}: {}",
        closed.join(" and "),
        layout.manifests().display(),
        way_out(&real, &open)
    ))
}

/// The directories in the settings that the daemon cannot write to. A missing directory is not judged.
pub fn closed_by_setting(layout: &Layout, directories: &[(&str, PathBuf)]) -> Vec<String> {
    let daemon = UNITS[0];
    let Some(open) = writable_paths(layout, daemon) else {
        return Vec::new();
    };
    let real = directories
        .iter()
        .filter_map(|(setting, directory)| Some((setting, fs::canonicalize(directory).ok()?)));
    let closed = real.filter(|(_, real)| !open.holds(real));
    let say = |(setting, real): (&&str, PathBuf)| {
        let (directory, name) = (layout.shown(&real), setting.replace('.', "-"));
        if !is_plain(Path::new(&directory)) {
            return format!(
                "{setting}: the sandbox of {daemon} does not open {directory}. Use another directory: its path has characters that mean \
                 something else in a unit's file"
            );
        }
        let place = format!("/etc/systemd/system/{daemon}.d");
        format!(
            "{setting}: the sandbox of {daemon} does not open {directory}. Run: mkdir -p {place}; \
             printf '[Service]\\nReadWritePaths={directory}\\n' >{place}/50-{name}.conf; \
             systemctl daemon-reload; systemctl restart {daemon}"
        )
    };
    closed.map(say).collect()
}

#[derive(Debug, Default)]
struct WritablePaths {
    strict: bool,
    paths: Vec<PathBuf>,
}

impl WritablePaths {
    fn holds(&self, path: &Path) -> bool {
        !self.strict || self.paths.iter().any(|open| path.starts_with(open))
    }
}

fn writable_paths(layout: &Layout, unit: &str) -> Option<WritablePaths> {
    let main = PLACES
        .iter()
        .find_map(|place| read_text(&layout.path(&format!("{place}/{unit}"))).ok())?;
    let mut files = vec![main];
    for place in PLACES {
        let entries = fs::read_dir(layout.path(&format!("{place}/{unit}.d")));
        let names = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|one| one.path());
        let drop_ins = names.filter(|path| path.extension().is_some_and(|end| end == "conf"));
        let drop_ins = drop_ins.take(MOST_DROP_INS);
        files.extend(drop_ins.filter_map(|path| read_text(&path).ok()));
    }
    let mut writable = WritablePaths::default();
    for (key, value) in files
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| {
            let (key, value) = line.split_once('=')?;
            Some((key.trim(), value.trim()))
        })
    {
        match (key, value) {
            ("ProtectSystem", value) => writable.strict = value == "strict",
            ("ReadWritePaths" | "BindPaths", "") => writable.paths.clear(),
            ("ReadWritePaths" | "BindPaths", value) => {
                // As systemd does it: the link's target.
                writable
                    .paths
                    .extend(value.split_whitespace().filter_map(|word| {
                        let word = word.trim_matches('"').trim_start_matches(['-', '+']);
                        let word = word.split(':').next().unwrap_or_default();
                        let (existing, missing) = real(&layout.path(word))?;
                        (missing.as_os_str().is_empty() || word == PREPARED)
                            .then(|| existing.join(missing))
                    }));
            }
            _ => {}
        }
    }
    Some(writable)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::testing::hide;

    const MOUNTS: &str = "\
22 1 0:20 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/a
30 22 0:25 / /data ro,relatime - ext4 /dev/sdb rw
31 22 0:26 / /media/a\\040b ro,relatime - iso9660 /dev/sr0 ro
32 30 0:27 / /data/deep rw - xfs /dev/sdc rw
";

    #[test]
    fn a_read_only_mount_of_a_writable_file_system_is_a_sandbox() {
        for (path, expected) in [
            ("/data/rke2", false),
            ("/data/deep/x", false),
            ("/media/a b/c", true),
            ("/database", false),
        ] {
            assert_eq!(
                file_system_read_only(MOUNTS, Path::new(path)),
                expected,
                "{path}"
            );
        }
    }

    #[test]
    fn what_can_be_written_is_not_read_only_though_it_does_not_exist_yet() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(read_only(&root.path().join("not/yet")), None);
    }

    #[test]
    fn a_path_in_a_directory_without_permissions_is_hidden_and_a_missing_or_an_empty_file_is_not() {
        let root = tempfile::tempdir().unwrap();
        let hidden = root.path().join("hidden");
        let _hidden = hide(&hidden);
        let empty = root.path().join("empty");
        fs::write(&empty, "").unwrap();
        let link = root.path().join("link");
        symlink(&hidden, &link).unwrap();
        for (path, expected) in [
            (hidden.join("a/b"), true),
            (hidden, true),
            (link.join("a"), true),
            (root.path().join("missing/a"), false),
            (empty, false),
        ] {
            assert_eq!(is_hidden(&path), expected, "{}", path.display());
        }
    }

    fn node(unit: &str) -> (tempfile::TempDir, Layout) {
        let root = tempfile::tempdir().unwrap();
        for unit_name in UNITS {
            let place = root.path().join("usr/lib/systemd/system");
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join(unit_name), unit).unwrap();
        }
        for path in ["var/lib/rancher", "data/rke2"] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        let layout = Layout::new(fs::canonicalize(root.path()).unwrap());
        (root, layout)
    }

    const SHIPPED: &str = include_str!("../../data/windrow.service");

    #[test]
    fn a_data_directory_that_the_units_do_not_open_is_said_with_the_drop_in_that_opens_it() {
        let (root, layout) = node(SHIPPED);
        assert_eq!(closed(&layout), None, "the default");
        let elsewhere = layout.clone().with_data_dir("/data/rke2");
        let said = closed(&elsewhere).expect("closed");
        let real = fs::canonicalize(root.path().join("data/rke2")).unwrap();
        assert!(said.starts_with("windrow.service and windrow-failsafe.service cannot write to"));
        let line = format!("ReadWritePaths={}\\n", real.display());
        assert!(said.contains(&line), "{said}");

        for unit in UNITS {
            let place = root.path().join(format!("etc/systemd/system/{unit}.d"));
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join(DROP_IN), "[Service]\nReadWritePaths=/data\n").unwrap();
        }
        assert_eq!(closed(&elsewhere), None);

        // An empty value revokes the lines before it.
        let drop_in = "[Service]\nReadWritePaths=/data\nReadWritePaths=\n";
        let first = root.path().join("etc/systemd/system/windrow.service.d");
        fs::write(first.join(DROP_IN), drop_in).unwrap();
        let said = closed(&elsewhere).expect("closed again");
        assert!(
            said.starts_with("windrow.service cannot write to"),
            "{said}"
        );
    }

    #[test]
    fn links_that_the_units_name_are_opened_and_others_are_not() {
        let (root, layout) = node(SHIPPED);
        symlink(
            "../../../data/rke2",
            root.path().join("var/lib/rancher/rke2"),
        )
        .unwrap();
        assert_eq!(closed(&layout), None);
        fs::create_dir_all(root.path().join("elsewhere")).unwrap();
        symlink("../../elsewhere", root.path().join("data/rke2/other")).unwrap();
        let deeper = layout.with_data_dir("/var/lib/rancher/rke2/other");
        assert!(closed(&deeper).is_some());
    }

    #[test]
    fn before_the_first_boot_the_directory_that_the_unit_creates_counts_as_open() {
        let (root, layout) = node(SHIPPED);
        fs::remove_dir(root.path().join("var/lib/rancher")).unwrap();
        assert_eq!(closed(&layout), None);
        assert!(closed(&layout.with_data_dir("/var/lib/elsewhere")).is_some());
    }

    #[test]
    fn a_directory_of_a_setting_that_the_unit_does_not_open_is_reported_with_its_drop_in() {
        let (root, layout) = node(SHIPPED);
        let closed =
            |path: &str| closed_by_setting(&layout, &[("metrics.textfile", layout.path(path))]);
        assert!(closed("/var/lib/other").is_empty(), "it does not exist");
        for path in ["var/lib/other", "var/lib/node_exporter"] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        assert!(closed("/var/lib/node_exporter").is_empty());
        let messages = closed("/var/lib/other");
        assert!(
            messages[0].starts_with("metrics.textfile: "),
            "{messages:?}"
        );
        let drop_in = "printf '[Service]\\nReadWritePaths=/var/lib/other\\n' >/etc/systemd/system/windrow.service.d";
        assert!(messages[0].contains(drop_in), "{messages:?}");

        let place = root.path().join("etc/systemd/system/windrow.service.d");
        fs::create_dir_all(&place).unwrap();
        let drop_in = "[Service]\nReadWritePaths=/var/lib/other\n";
        fs::write(place.join("50-metrics-textfile.conf"), drop_in).unwrap();
        assert!(closed("/var/lib/other").is_empty());
    }

    #[test]
    fn no_command_is_suggested_for_a_path_that_a_shell_or_a_unit_reads_otherwise() {
        let (root, layout) = node(SHIPPED);
        for name in [
            "a'$(touch b)'",
            "a b",
            "a%n",
            "a\\n",
            "a\nExecStartPre=+",
            "a;b",
            "a\"b",
        ] {
            let path = format!("/data/{name}");
            fs::create_dir_all(root.path().join(format!("data/{name}"))).unwrap();
            let of_data = closed(&layout.clone().with_data_dir(&path)).expect("closed");
            let of_setting = closed_by_setting(&layout, &[("flight.copyTo", layout.path(&path))]);
            for said in [&of_data, &of_setting[0]] {
                assert!(!said.contains("printf"), "{said}");
            }
        }
    }

    #[test]
    fn of_an_overlay_that_has_the_units_alone_nothing_is_said() {
        let (root, layout) = node(SHIPPED);
        let elsewhere = layout.with_data_dir("/data/rke2");
        assert!(closed(&elsewhere).is_some());
        fs::remove_dir_all(root.path().join("var")).unwrap();
        assert_eq!(closed(&elsewhere), None);
    }

    #[test]
    fn all_of_rke2s_data_is_opened_for_what_lies_below_it_and_else_the_directory_alone() {
        let (root, layout) = node(SHIPPED);
        let layout = layout.with_data_dir("/data/rke2");
        let data = fs::canonicalize(root.path().join("data/rke2")).unwrap();
        assert_eq!(to_open(&layout, &data.join("server/manifests")), data);
        let elsewhere = Path::new("/elsewhere/manifests");
        assert_eq!(to_open(&layout, elsewhere), elsewhere);
    }

    #[test]
    fn where_no_unit_is_installed_nothing_is_said() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path()).with_data_dir("/srv/rke2");
        assert_eq!(closed(&layout), None);
    }
}
