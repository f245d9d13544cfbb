//! RKE2's binary on the disk: the one that will start, and the version in it. Nothing is run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::systemd::{RKE2_UNITS, UNIT_DIRECTORIES};
use crate::files::{FileStamp, read_text};
use crate::fs;
use crate::layout::Layout;

/// Where installers put the binary: the archive, on a read-only system, and packages.
const BINARIES: &[&str] = &["/usr/local/bin/rke2", "/opt/rke2/bin/rke2", "/usr/bin/rke2"];
pub fn stamp(layout: &Layout) -> Option<FileStamp> {
    let found = fs::metadata(binary(layout)?).ok()?;
    Some(FileStamp::from(&found))
}

/// When the content of the installed binary last changed, if RKE2 is installed.
pub fn installed_at(layout: &Layout) -> Option<Timestamp> {
    let modified = fs::metadata(binary(layout)?).ok()?.modified().ok()?;
    Timestamp::try_from(modified).ok()
}

/// The Kubernetes version of the installed binary, if it shows without running it.
pub fn installed_on_disk(layout: &Layout) -> Option<String> {
    version_inside(&binary(layout)?)
}

/// The one that RKE2's units start, or else in an installer's directory.
pub(super) fn binary(layout: &Layout) -> Option<PathBuf> {
    RKE2_UNITS
        .iter()
        .filter_map(|unit| started_by(layout, unit))
        .chain(BINARIES.iter().map(|path| (*path).to_owned()))
        .map(|path| layout.path(&path))
        .find(|path| fs::is_file(path))
}

/// The `rke2` that a unit starts, by its file and its drop-ins; `None` if it starts something else, or is missing.
fn started_by(layout: &Layout, unit: &str) -> Option<String> {
    let unit_file = UNIT_DIRECTORIES
        .iter()
        .find_map(|directory| read_text(&layout.path(directory).join(unit)).ok())?;
    let mut drop_ins: BTreeMap<OsString, PathBuf> = BTreeMap::new();
    for directory in UNIT_DIRECTORIES.iter().rev() {
        let found = fs::read_dir(layout.path(directory).join(format!("{unit}.d")));
        for entry in found.into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|end| end == "conf") {
                drop_ins.insert(entry.file_name(), entry.path());
            }
        }
    }
    let texts = drop_ins
        .into_values()
        .filter_map(|path| read_text(&path).ok());
    let texts: Vec<String> = [unit_file].into_iter().chain(texts).collect();
    let command = texts
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| {
            line.trim_start()
                .strip_prefix("ExecStart")?
                .trim_start()
                .strip_prefix('=')
        })
        .filter_map(|command| command.split_whitespace().next())
        .next_back()?;
    let path = command.trim_start_matches(['-', '@', ':', '+', '!', '|', '"', '\'']);
    let path = path.trim_end_matches(['"', '\'']);
    (Path::new(path).is_absolute() && path.ends_with("/rke2")).then(|| path.to_owned())
}

/// The Kubernetes version that is linked into a binary (`v1.35.6+rke2r1`), if there is only one. Reading a hundred
/// megabytes takes some 50 ms, and RKE2 reads them next anyway; running the binary takes many times that.
pub(super) fn version_inside(path: &Path) -> Option<String> {
    const PIECE: usize = 1 << 20;
    /// A version that spans two pieces is found in the second.
    const OVERLAP: usize = 64;
    let mut file = io::BufReader::with_capacity(PIECE, fs::open(path).ok()?);
    let mut found: Option<String> = None;
    let mut piece: Vec<u8> = Vec::with_capacity(PIECE + OVERLAP);
    loop {
        let more = file.fill_buf().ok()?;
        if more.is_empty() {
            return found;
        }
        piece.extend_from_slice(more);
        let length = more.len();
        file.consume(length);
        for at in memchr::memmem::find_iter(&piece, b"+rke2r") {
            let before = &piece[at.saturating_sub(24)..at];
            let Some(start) = memchr::memmem::rfind(before, b"v1.") else {
                continue;
            };
            let Ok(version) = std::str::from_utf8(&before[start..]) else {
                continue;
            };
            if version.parse::<windrow_plan::version::Version>().is_err() {
                continue;
            }
            match &found {
                Some(known) if known != version => return None,
                _ => found = Some(version.to_owned()),
            }
        }
        let keep = piece.len().saturating_sub(OVERLAP);
        piece.drain(..keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_the_one_that_the_units_start_and_else_where_installers_put_it() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let installed = || installed_on_disk(&layout);
        assert_eq!(installed(), None);
        // One that an earlier installation left behind.
        write("usr/local/bin/rke2", "v1.33.3+rke2r1");
        assert_eq!(installed().as_deref(), Some("v1.33.3"));
        let unit = "usr/lib/systemd/system/rke2-server.service";
        write(
            unit,
            "[Service]\nExecStartPre=/bin/true\nExecStart=/usr/bin/rke2 server\n",
        );
        assert_eq!(installed().as_deref(), Some("v1.33.3"), "it is not there");
        write("usr/bin/rke2", "v1.34.2+rke2r1");
        assert_eq!(installed().as_deref(), Some("v1.34.2"));
        write("data/rke2/bin/rke2", "v1.35.2+rke2r1");
        let drop_in = "etc/systemd/system/rke2-server.service.d/10-prefix.conf";
        write(
            drop_in,
            "[Service]\nExecStart=\nExecStart=-/data/rke2/bin/rke2 server\n",
        );
        assert_eq!(installed().as_deref(), Some("v1.35.2"));
        // An operator's script: it may start any binary, so the installers' directories count.
        write(
            drop_in,
            "[Service]\nExecStart=\nExecStart=/opt/start-rke2.sh\n",
        );
        assert_eq!(installed().as_deref(), Some("v1.33.3"));
    }

    #[test]
    fn a_binary_shows_its_version_when_it_holds_only_one() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("rke2");
        let padding = vec![b'x'; (1 << 20) - 8];
        let with = |texts: &[&str]| {
            let mut content = padding.clone();
            for text in texts {
                content.extend_from_slice(text.as_bytes());
                content.extend_from_slice(&padding);
            }
            fs::write(&path, content).unwrap();
            version_inside(&path)
        };
        // Strings in a binary have no separators.
        let one = "rke2-runtime:v1.35.6-rke2r1vv1.35.6+rke2r12006-01-02";
        assert_eq!(with(&[one]).as_deref(), Some("v1.35.6"));
        assert_eq!(with(&[one, one]).as_deref(), Some("v1.35.6"));
        assert_eq!(with(&[one, "v1.34.2+rke2r1"]), None);
        assert_eq!(with(&["no version"]), None);
        assert_eq!(version_inside(&root.path().join("nowhere")), None);
    }
}
