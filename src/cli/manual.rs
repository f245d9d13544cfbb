//! What a person says about files: recorded with who and when, and in force at once on disk.
//!
//! The request goes to the daemon through a spool, so that it is kept when the daemon is down; the
//! marker is created or removed here as well, so that nobody has to wait for the daemon.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::Context;
use super::document::means;
use crate::daemon;
use crate::files;
use crate::manifest::{Limits, MARKER_SUFFIX};
use crate::observe::requests::{Request, RequestAction};
use crate::observe::scan::{Found, MarkerEntry, ScanResult, Stamps, scan};

/// The manifests directory as it is: its files and markers, without their content.
pub(super) fn look(manifests: &Path, now: Timestamp) -> anyhow::Result<Found> {
    // Only names are wanted: with this limit no file is read.
    let limits = Limits {
        file_bytes: 0,
        ..Limits::default()
    };
    match scan(manifests, &limits, &Stamps::new(), now) {
        ScanResult::Found(found) => Ok(found),
        ScanResult::Missing => anyhow::bail!(
            "{} does not exist: RKE2 has not been started here, or has another data-dir",
            manifests.display()
        ),
        ScanResult::Unreadable { error } => {
            anyhow::bail!("{} cannot be read: {error}", manifests.display())
        }
    }
}

/// What a person typed, as paths below the manifests directory; every one that means nothing there
/// is named.
pub(super) fn paths(
    typed: &[String],
    known: &[String],
    manifests: &Path,
) -> Result<Vec<String>, Vec<String>> {
    let mut paths = Vec::new();
    let mut errors = Vec::new();
    for typed in typed {
        let wanted = inside(typed, manifests).unwrap_or_else(|| typed.clone());
        let exact: Vec<&String> = known.iter().filter(|path| **path == wanted).collect();
        let meant: Vec<&String> = if exact.is_empty() {
            known
                .iter()
                .filter(|path| means(&wanted, path, manifests))
                .collect()
        } else {
            exact
        };
        match meant[..] {
            [] => errors.push(format!(
                "{typed}: no such manifest file below {}",
                manifests.display()
            )),
            [one] => paths.push(one.clone()),
            // A marker hides its name in every directory: they go together.
            ref many => paths.extend(many.iter().map(|path| (*path).clone())),
        }
    }
    paths.sort();
    paths.dedup();
    if errors.is_empty() {
        Ok(paths)
    } else {
        Err(errors)
    }
}

/// A path typed relative to the working directory that leads into the manifests directory.
fn inside(typed: &str, manifests: &Path) -> Option<String> {
    let directory = manifests.canonicalize().ok()?;
    let typed = Path::new(typed);
    let parent = match typed.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return None,
    };
    let path = parent.canonicalize().ok()?.join(typed.file_name()?);
    Some(path.strip_prefix(&directory).ok()?.to_str()?.to_owned())
}

/// The path of the marker that hides a file: beside it, unless its name is hidden from elsewhere.
pub(super) fn marker_of(file: &str, markers: &[MarkerEntry]) -> String {
    let beside = format!("{file}{MARKER_SUFFIX}");
    let name = file.rsplit('/').next().unwrap_or(file);
    if markers.iter().any(|marker| marker.path == beside) {
        return beside;
    }
    markers
        .iter()
        .find(|marker| marker.hides == name)
        .map_or(beside, |marker| marker.path.clone())
}

/// Lays requests into the daemon's spool.
pub(super) fn request(
    context: &Context,
    action: RequestAction,
    file: &str,
    by: &str,
    at: Timestamp,
    reason: &str,
) -> anyhow::Result<()> {
    let spool = daemon::spool(&context.layout);
    make_spool(&spool)?;
    let request = Request {
        action,
        file: file.to_owned(),
        by: by.to_owned(),
        at,
        reason: reason.to_owned(),
    };
    // Requests are taken in the order of their names.
    let name = format!(
        "{:020}-{}-{}.json",
        at.as_nanosecond(),
        std::process::id(),
        file.replace('/', "%2f")
    );
    let text = serde_json::to_string_pretty(&request)? + "\n";
    files::replace(
        &spool.join(&name),
        text.as_bytes(),
        0o600,
        files::Durability::Durable,
    )
    .map_err(|error| anyhow::anyhow!("{} cannot be written: {error}", spool.join(name).display()))
}

fn make_spool(spool: &PathBuf) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(spool)
        .map_err(|error| anyhow::anyhow!("{} cannot be created: {error}", spool.display()))
}

/// Who asks: the person behind sudo, the login name, or the user id.
pub(super) fn who() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid())
        .ok()
        .flatten()
        .map(|user| user.name);
    ["SUDO_USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .filter(|name| !name.is_empty() && !name.chars().any(char::is_control))
        .or(user)
        .unwrap_or_else(|| format!("uid {}", nix::unistd::getuid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_means_nothing_is_named() {
        let known = [
            "a.yaml".to_owned(),
            "sub/a.yaml".to_owned(),
            "b.yaml".to_owned(),
        ];
        let typed = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        let manifests = Path::new("/nowhere/manifests");
        assert_eq!(
            paths(
                &typed(&["/nowhere/manifests/b.yaml", "b.yaml"]),
                &known,
                manifests
            ),
            Ok(typed(&["b.yaml"]))
        );
        assert_eq!(
            paths(&typed(&["a.yaml"]), &known, manifests),
            Ok(typed(&["a.yaml"]))
        );
        let errors = paths(&typed(&["x.yaml", "b.yaml", "y.yaml"]), &known, manifests);
        assert_eq!(errors.unwrap_err().len(), 2);
    }

    #[test]
    fn a_name_that_is_hidden_from_another_directory_has_its_marker_there() {
        let marker = MarkerEntry {
            path: "other/a.yaml.skip".to_owned(),
            hides: "a.yaml".to_owned(),
            content: None,
        };
        assert_eq!(
            marker_of("sub/a.yaml", std::slice::from_ref(&marker)),
            "other/a.yaml.skip"
        );
        assert_eq!(marker_of("b.yaml", &[marker]), "b.yaml.skip");
    }
}
