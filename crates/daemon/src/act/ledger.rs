//! The ledger on disk: written whole, read with distrust.

use std::io::{self, Read};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use windrow_decide::Ledger;

use crate::files::{Durability, is_missing, make_private, replace};
use crate::fs;

/// A ledger of a hundred thousand files is smaller.
const LARGEST: u64 = 64 << 20;
/// How many unreadable ledgers are kept. The last one is overwritten.
const KEPT: u32 = 9;
/// How many unreadable entries a message names.
const NAMED: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRead {
    pub ledger: Ledger,
    /// In a line, why the ledger on disk or a part of it could not be used, and the path of the old one. Markers and
    /// Addons fill the gaps.
    pub rebuilt: Option<String>,
}

/// Reads the ledger. One that cannot be used is set aside as `ledger.json.corrupt-<n>`; no ledger
/// at all is a first start.
///
/// # Errors
///
/// If the file system fails: the ledger may be a good one, and is left as it is.
pub fn read_ledger(path: &Path) -> io::Result<LedgerRead> {
    let rebuilt = match read(path) {
        Ok(Some((ledger, lost))) => {
            return Ok(LedgerRead {
                ledger,
                rebuilt: (!lost.is_empty()).then(|| only_in_part(path, &lost)),
            });
        }
        Ok(None) => None,
        Err(Unread::Unusable(why)) => Some(give_up_ledger(path, &why)),
        Err(Unread::Io(error)) => return Err(error),
    };
    Ok(LedgerRead {
        ledger: Ledger::default(),
        rebuilt,
    })
}

/// Sets aside a ledger that cannot be used; returns the report.
pub fn give_up_ledger(path: &Path, why: &str) -> String {
    match set_aside(path) {
        Ok(aside) => format!("{why}; the old one is {}", aside.display()),
        Err(error) => format!("{why}; it could not be set aside either: {error}"),
    }
}

#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error("{0}")]
    Unusable(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes the ledger.
///
/// # Errors
///
/// Those of the file system; the old ledger is then still there.
pub fn save_ledger(path: &Path, ledger: &Ledger) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        make_private(directory)?;
    }
    let mut content = serde_json::to_vec_pretty(ledger)?;
    content.push(b'\n');
    replace(path, &content, 0o600, Durability::Durable)
}

/// The report on unusable entries. The rest is written again, without them.
fn only_in_part(path: &Path, lost: &[String]) -> String {
    let more = match lost.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = lost.iter().take(NAMED).map(String::as_str);
    let named = named.collect::<Vec<_>>().join("; ");
    let what = format!("{}: {named}{more}", path.display());
    let aside = free_name(path);
    match fs::copy(path, &aside) {
        Ok(_) => format!(
            "{what}; the rest counts, and the old one is {}",
            aside.display()
        ),
        Err(error) => {
            format!("{what}; the rest counts, and the old one could not be kept: {error}")
        }
    }
}

fn read(path: &Path) -> Result<Option<(Ledger, Vec<String>)>, Unread> {
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if is_missing(&error) => return Ok(None),
        // A link is in its place.
        Err(error) if error.raw_os_error() == Some(Errno::ELOOP as i32) => {
            return Err(Unread::Unusable(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    let mut content = Vec::new();
    file.take(LARGEST).read_to_end(&mut content)?;
    let read = Ledger::read(&content);
    let (ledger, lost) =
        read.map_err(|error| Unread::Unusable(format!("{}: {error}", path.display())))?;
    if ledger.version != Ledger::VERSION {
        return Err(Unread::Unusable(format!(
            "{} has format version {}, this program writes {}",
            path.display(),
            ledger.version,
            Ledger::VERSION
        )));
    }
    Ok(Some((ledger, lost)))
}

fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let free = free_name(path);
    fs::rename(path, &free)?;
    Ok(free)
}

/// A free name in the same directory for an unusable ledger; the last one is used again.
fn free_name(path: &Path) -> PathBuf {
    let name = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".corrupt-{number}"));
        PathBuf::from(name)
    };
    (NonZeroU32::MIN.get()..KEPT)
        .map(name)
        .find(|aside| fs::symlink_metadata(aside).is_err())
        .unwrap_or_else(|| name(KEPT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_ledger(path: &Path) -> LedgerRead {
        super::read_ledger(path).unwrap()
    }

    #[test]
    fn a_ledger_is_read_as_it_was_saved() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/ledger.json");
        assert_eq!(read_ledger(&path).rebuilt, None);
        save_ledger(&path, &Ledger::default()).unwrap();
        assert_eq!(
            read_ledger(&path),
            LedgerRead {
                ledger: Ledger::default(),
                rebuilt: None
            }
        );
    }

    #[test]
    fn a_ledger_that_cannot_be_used_is_set_aside_and_said() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.json");
        let broken = [
            "{\"version\": 1, \"fil",
            "",
            "{\"version\":99,\"files\":{}}",
            "[]",
        ];
        for (number, content) in (1..).zip(broken) {
            fs::write(&path, content).unwrap();
            let read = read_ledger(&path);
            assert_eq!(read.ledger, Ledger::default());
            let aside = directory
                .path()
                .join(format!("ledger.json.corrupt-{number}"));
            assert!(
                read.rebuilt.unwrap().contains(&aside.display().to_string()),
                "{content}"
            );
            assert_eq!(fs::read_to_string(aside).unwrap(), content);
            assert!(!path.exists());
        }
    }

    #[test]
    fn of_a_ledger_of_a_newer_version_what_can_be_read_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.json");
        let at = "2026-11-27T00:00:00Z";
        let entry = |cause: &str| {
            serde_json::json!({
                "digest": "d", "firstSeen": at, "since": at, "state": {"is": "released", "cause": cause}, "newField": 1,
            })
        };
        let mut files = serde_json::json!({"app.yaml": entry("byHand")});
        let mut whole = serde_json::json!({"version": 1, "files": files, "newInNextRelease": {}});
        fs::write(&path, whole.to_string()).unwrap();
        let read = read_ledger(&path);
        assert_eq!((read.ledger.files.len(), read.rebuilt), (1, None));

        files["other.yaml"] = entry("aNewCause");
        whole["files"] = files;
        whole["node"] = serde_json::json!({"lastReady": 7});
        fs::write(&path, whole.to_string()).unwrap();
        let read = read_ledger(&path);
        let names: Vec<String> = read.ledger.files.keys().map(ToString::to_string).collect();
        assert_eq!(names, ["app.yaml"]);
        let why = read.rebuilt.unwrap();
        for part in [
            "other.yaml: unknown variant `aNewCause`",
            "the rest counts",
            "corrupt-1",
        ] {
            assert!(why.contains(part), "{why}");
        }
        let old = fs::read_to_string(directory.path().join("ledger.json.corrupt-1"));
        assert_eq!(old.unwrap(), whole.to_string());
    }

    #[test]
    fn a_ledger_that_is_no_file_of_its_own_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (
            directory.path().join("ledger.json"),
            directory.path().join("other.json"),
        );
        save_ledger(&other, &Ledger::default()).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(read_ledger(&path).rebuilt.is_some(), "a link");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(read_ledger(&path).rebuilt.is_some(), "a pipe");
        assert!(other.exists() && !path.exists());
    }

    #[test]
    fn a_ledger_that_the_file_system_does_not_give_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        // Opening a directory works, and reading it fails.
        let path = directory.path().join("ledger.json");
        fs::create_dir(&path).unwrap();
        assert!(super::read_ledger(&path).is_err());
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn many_unusable_ledgers_do_not_fill_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.json");
        for _ in 0..20 {
            fs::write(&path, "x").unwrap();
            assert!(read_ledger(&path).rebuilt.is_some());
        }
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            KEPT as usize
        );
    }
}
