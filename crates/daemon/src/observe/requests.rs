//! Manual requests: one JSON file per request in a spool directory.
//!
//! They are files and not messages on a socket, so that `windrow hold` and `windrow release` work while the daemon is
//! down. A request is written under a temporary name and renamed to `*.json`. The daemon renames it to `*.taken` before
//! it acts on it. The program that wrote it can take it back until then, and not later.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use windrow_decide::Manual;
use windrow_model::reasons::Code;

use crate::fs;
use crate::printable::in_brief;

/// Larger requests are refused.
const LARGEST: u64 = 64 << 10;

/// The extension of a request that the daemon has taken, and whose consequences are not on the disk yet.
const TAKEN: &str = "taken";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestAction {
    Hold,
    Release,
    /// Try the requested feature gates of the configuration.
    #[serde(rename = "gates-apply")]
    GatesApply,
    /// Restore the feature gates that were in force before the last change.
    #[serde(rename = "gates-rollback")]
    GatesRollback,
    #[serde(rename = "repair-begun")]
    RepairBegun,
    #[serde(rename = "repair-done")]
    RepairDone,
    /// Record that a cure did not finish, or did not help.
    #[serde(rename = "repair-failed")]
    RepairFailed,
    #[serde(rename = "repair-undone")]
    RepairUndone,
}

impl RequestAction {
    /// Whether it is about feature gates, and not about a manifest file.
    pub fn is_about_gates(self) -> bool {
        matches!(self, Self::GatesApply | Self::GatesRollback)
    }

    /// The event about a cure; `None` for everything else.
    pub fn of_repair(self) -> Option<Code> {
        match self {
            Self::RepairBegun => Some(Code::RepairBegun),
            Self::RepairDone => Some(Code::RepairDone),
            Self::RepairFailed => Some(Code::RepairFailed),
            Self::RepairUndone => Some(Code::RepairUndone),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpooledRequest {
    pub action: RequestAction,
    /// Path below the manifests directory. It is empty for requests about feature gates; for those about a cure it is
    /// the name of its record.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// Digest of the released content: a release counts only for that content. Without it, the release counts for the
    /// file's content when the request is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The digests of files of that name in other directories, by path: one marker hid all of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namesakes: BTreeMap<String, String>,
    /// Try feature gates although the check refuses them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    pub by: String,
    pub at: Timestamp,
    #[serde(default)]
    pub reason: String,
}

impl SpooledRequest {
    /// A request without a file and without a reason.
    pub fn new(action: RequestAction, by: impl Into<String>, at: Timestamp) -> Self {
        Self {
            action,
            file: String::new(),
            digest: None,
            namesakes: BTreeMap::new(),
            force: false,
            by: by.into(),
            at,
            reason: String::new(),
        }
    }

    pub fn manual(&self) -> Manual {
        Manual {
            hold: self.action == RequestAction::Hold,
            by: self.by.clone(),
            at: self.at,
            reason: self.reason.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnreadRequest {
    Broken(String),
    /// It cannot be read now, but perhaps at the next look.
    NotNow(String),
}

/// A request's file and its content, or why it was not read.
pub type Spooled = (PathBuf, Result<SpooledRequest, UnreadRequest>);

/// Takes a request over: its writer can no longer take it back. Returns its new path; `None` if it was taken back.
///
/// A request that cannot be renamed belongs to the daemon nevertheless: then it cannot be removed either.
pub fn take(path: PathBuf) -> Option<PathBuf> {
    let taken = path.with_extension(TAKEN);
    match fs::rename(&path, &taken) {
        Ok(()) => Some(taken),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => Some(path),
    }
}

/// Whether an earlier process of the daemon took it.
pub fn is_taken(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == TAKEN)
}

/// Reads the spool, in the order of the file names. A missing spool is empty.
///
/// # Errors
///
/// When the directory cannot be listed.
pub fn read_spool(spool: &Path) -> io::Result<Vec<Spooled>> {
    let entries = match fs::read_dir(spool) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let hidden = path
            .file_name()
            .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let extension = path.extension();
        if !hidden && extension.is_some_and(|extension| extension == "json" || extension == TAKEN) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths
        .into_iter()
        .filter_map(|path| match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some((path, Err(UnreadRequest::NotNow(error.to_string())))),
            Ok(None) => {
                let why = "it is not a regular file".to_owned();
                Some((path, Err(UnreadRequest::Broken(why))))
            }
            Ok(Some(content)) => Some((path, parse(&content).map_err(UnreadRequest::Broken))),
        })
        .collect())
}

/// Reads a request.
///
/// # Errors
///
/// Why it is not a request.
pub fn parse(content: &[u8]) -> Result<SpooledRequest, String> {
    let request: SpooledRequest =
        serde_json::from_slice(content).map_err(|error| in_brief(&error.to_string()))?;
    if request.file.is_empty() != request.action.is_about_gates() {
        return Err(
            "a file is given for an action without one, or missing for an action that requires one"
                .to_owned(),
        );
    }
    Ok(request)
}

/// The content of a regular file; `None` for anything else.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.take(LARGEST).read_to_end(&mut content)?;
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_and_never_will_be_is_broken() {
        let spool = tempfile::tempdir().unwrap();
        let at = |name: &str| spool.path().join(name);
        fs::create_dir(at("1.json")).unwrap();
        std::os::unix::fs::symlink("/nowhere", at("2.json")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("3.json")).unwrap();
        for (path, read) in read_spool(spool.path()).unwrap() {
            assert!(
                matches!(read, Err(UnreadRequest::Broken(_))),
                "{path:?}: {read:?}"
            );
        }
    }

    #[test]
    fn requests_come_in_the_order_of_their_names_and_a_bad_one_says_why() {
        let spool = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            fs::write(spool.path().join(name), content).unwrap();
        };
        write(
            "2.json",
            r#"{"action":"release","file":"a.yaml","by":"root","at":"2026-01-02T03:04:05Z"}"#,
        );
        write("1.json", r#"{"action":"explode","file":"a.yaml"}"#);
        write(
            "3.json",
            r#"{"action":"gates-apply","force":true,"by":"root","at":"2026-01-02T03:04:05Z"}"#,
        );
        write(
            "5.json",
            r#"{"action":"hold","by":"root","at":"2026-01-02T03:04:05Z"}"#,
        );
        write(".3.json", "half");
        write("4.json.tmp", "half");
        let found = read_spool(spool.path()).unwrap();
        assert_eq!(found.len(), 4);
        let why = found[0].1.as_ref().unwrap_err();
        assert!(matches!(why, UnreadRequest::Broken(why) if why.contains("explode")));
        let request = found[1].1.as_ref().unwrap();
        assert_eq!(request.file, "a.yaml");
        assert!(!request.manual().hold);
        assert!(found[2].1.as_ref().unwrap().force);
        assert!(found[3].1.is_err(), "of no file");
        assert!(
            read_spool(&spool.path().join("nothing"))
                .unwrap()
                .is_empty()
        );
        let no_directory = spool.path().join("1.json");
        assert!(read_spool(&no_directory).is_err(), "it is not empty");
    }
}
