//! Manual holds and releases, from the command line or over D-Bus.
//!
//! A request with who, when and why goes to the daemon through the spool, and waits there while the daemon is down. The
//! marker is also made or removed here: the order is in force on the disk before the daemon reads it.

mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::Timestamp;
use thiserror::Error;
use windrow_decide::{Mark, OnFailure};
use windrow_model::manifest::{self, FileContent, ManifestPath, MarkerPath, ReadLimits};
use windrow_model::reasons::Code;
use windrow_plan::FileObstacle;
use windrow_plan::rke2;

use self::names::manifest_paths;
use super::spool::{PublishedRequest, publish_request};
use crate::act::{MarkerOutcome, Markers};
use crate::layout::Layout;
use crate::observe::requests::{RequestAction, SpooledRequest};
use crate::observe::scan::{
    self, FileStamps, MarkerEntry, ScanResult, ScannedContent, ScannedDirectory, scan,
};

/// The user, the reason and the time of an order; and the node's paths.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    pub layout: &'a Layout,
    pub by: &'a str,
    pub reason: &'a str,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOutcome {
    pub file: ManifestPath,
    pub result: Result<ManualChange, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManualChange {
    Held,
    /// Windrow's marker hides it too: it has the same name as a held file.
    HeldTogether,
    Released,
    /// Windrow's marker is gone: it also hid this file, which has the same name as a released one.
    ReleasedTogether,
    /// The marker was missing; the request not to hold the file is recorded.
    WasNotHeld,
}

#[derive(Debug, Error)]
pub enum OrderRefused {
    /// Names that match nothing in the manifests directory, a line each.
    #[error("{}", .0.join("; "))]
    Names(Vec<String>),
    #[error("{0:#}")]
    System(#[from] anyhow::Error),
}

#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// As the user typed them: paths below the manifests directory, base names, absolute paths.
    Named(&'a [String]),
    All,
}

/// Holds files: RKE2 does not apply them until they are released.
///
/// # Errors
///
/// When nothing was done. The result for a single file is in its outcome.
pub fn hold(order: &Order<'_>, typed: &[String]) -> Result<Vec<FileOutcome>, OrderRefused> {
    let manifests = order.layout.manifests();
    let found = list_manifests(&manifests, order.at)?;
    let known: Vec<ManifestPath> = found.files.iter().map(|file| file.path.clone()).collect();
    let files = manifest_paths(typed, &known, &manifests).map_err(OrderRefused::Names)?;
    let markers = Markers::new(&manifests);
    Ok(together(files, &found, |file| {
        hold_file(order, &markers, &found, file)
    }))
}

/// Runs `change` for each file, and reports the effects on files of the same name: one marker hides all of them.
fn together(
    files: Vec<ManifestPath>,
    found: &ScannedDirectory,
    mut act: impl FnMut(&ManifestPath) -> Result<ManualChange, String>,
) -> Vec<FileOutcome> {
    let mut outcomes: Vec<FileOutcome> = Vec::new();
    for file in files {
        if outcomes.iter().any(|known| known.file == file) {
            continue;
        }
        let result = act(&file);
        let follows = match result {
            Ok(ManualChange::Held) => Some(ManualChange::HeldTogether),
            Ok(ManualChange::Released) => Some(ManualChange::ReleasedTogether),
            Ok(done) => Some(done),
            Err(_) => None,
        };
        let namesakes: Vec<ManifestPath> = namesakes(&file, found).collect();
        outcomes.push(FileOutcome { file, result });
        for file in namesakes {
            let result = follows.map(Ok);
            outcomes.extend(result.map(|result| FileOutcome { file, result }));
        }
    }
    outcomes
}

/// The files of the same name in other directories that one marker hides with this one.
fn namesakes<'f>(
    file: &'f ManifestPath,
    found: &'f ScannedDirectory,
) -> impl Iterator<Item = ManifestPath> + 'f {
    found
        .files
        .iter()
        .map(|other| &other.path)
        .filter(move |path| path.name() == file.name() && *path != file)
        .filter(|path| rke2::owner(path).is_none())
        .cloned()
}

fn hold_file(
    order: &Order<'_>,
    markers: &Markers,
    found: &ScannedDirectory,
    file: &ManifestPath,
) -> Result<ManualChange, String> {
    if let Some(owner) = rke2::owner(file) {
        return Err(left_alone(owner) + instead_of_hold(owner));
    }
    let path = marker_of(file, &found.markers);
    let there = found.markers.iter().find(|marker| marker.path == path);
    there.map_or(Ok(()), check_readable)?;
    if let Some(why) = no_marker_hides(found, file) {
        return Err(format!("it cannot be held: {why}"));
    }
    let mark = Mark {
        by: Mark::BY.to_owned(),
        file: file.clone(),
        code: Code::HeldByHand,
        why: Mark::shortened(
            &Code::HeldByHand.say(&[("why", &format!("{} ({})", order.reason, order.by))]),
        ),
        since: order.at,
        // An operator requested it, so no fail-safe may override it.
        on_failure: OnFailure::Keep,
        // The hold does not depend on the file's content.
        digest: "".into(),
        release: Mark::release_command(file),
    };
    // The daemon lifts a marker without an order, so it has to know the order first.
    let request = publish_file_request(order, RequestAction::Hold, file, BTreeMap::new())
        .map_err(|error| format!("{error:#}"))?;
    let refused = match markers.create(&path, &mark) {
        Ok(MarkerOutcome::Changed | MarkerOutcome::Unchanged) => return Ok(ManualChange::Held),
        Ok(MarkerOutcome::Foreign) => format!(
            "{path} is there already and Windrow did not make it (Harvester makes such markers \
             during upgrades); it is left alone, and RKE2 does not apply the file while it is there"
        ),
        Ok(MarkerOutcome::NoDirectory) => "its directory is gone".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(refused + &withdraw(request))
}

/// Takes back the request of an order that failed, so that it is not carried out later. Returns a remark for the user.
fn withdraw(request: PublishedRequest) -> String {
    match request.withdraw() {
        Ok(true) => String::new(),
        Ok(false) => "; the daemon has the order already, and tries to carry it out".to_owned(),
        Err(error) => format!("; the daemon tries to carry the order out, because {error:#}"),
    }
}

/// Why a file of this owner is neither held nor released.
fn left_alone(owner: &str) -> String {
    format!("it is {owner}'s own; Windrow leaves it alone")
}

/// How to keep such a file out without Windrow.
fn instead_of_hold(owner: &str) -> &'static str {
    match owner {
        "RKE2" => {
            ". RKE2's own ways are disable and cni in its configuration, or an empty marker beside it whose name ends in .skip"
        }
        _ => "",
    }
}

/// Why a marker would not keep this file from RKE2; `None` if it does.
fn no_marker_hides(found: &ScannedDirectory, file: &ManifestPath) -> Option<&'static str> {
    let entry = found.files.iter().find(|entry| entry.path == *file)?;
    let trouble = match &entry.state {
        ScannedContent::Read(FileContent::DanglingSymlink { .. }) => FileObstacle::Dangling,
        ScannedContent::Read(FileContent::NotUtf8Name { .. }) => FileObstacle::Refused,
        ScannedContent::Read(_) | ScannedContent::Unchanged => return None,
    };
    trouble.why_not_held()
}

/// Releases files: RKE2 applies them at its next pass.
///
/// # Errors
///
/// When nothing was done. The result for a single file is in its outcome.
pub fn release(
    order: &Order<'_>,
    which: Which<'_>,
    limits: &ReadLimits,
) -> Result<Vec<FileOutcome>, OrderRefused> {
    let manifests = order.layout.manifests();
    let found = list_manifests(&manifests, order.at)?;
    let files = match which {
        Which::All => held_by_us(&found),
        Which::Named(typed) => {
            // A marker may be the only trace of a file.
            let files = found.files.iter().map(|file| file.path.clone());
            let mut known: Vec<ManifestPath> = files.chain(marked(&found)).collect();
            known.sort();
            known.dedup();
            manifest_paths(typed, &known, &manifests).map_err(OrderRefused::Names)?
        }
    };
    let markers = Markers::new(&manifests);
    Ok(together(files, &found, |file| {
        release_file(order, &markers, &found, file, limits)
    }))
}

fn release_file(
    order: &Order<'_>,
    markers: &Markers,
    found: &ScannedDirectory,
    file: &ManifestPath,
    limits: &ReadLimits,
) -> Result<ManualChange, String> {
    let foreign = |path: &str| {
        format!(
            "{path} is a marker that Windrow did not make (Harvester makes such markers during \
             upgrades); it is left alone. If you know that it is no longer needed, remove it with \
             rm"
        )
    };
    if let Some(owner) = rke2::owner(file) {
        let marker = own_marker(file, found).ok_or_else(|| left_alone(owner))?;
        // The daemon takes no request about it: removing the marker is enough.
        return remove(markers, &BTreeSet::from([marker]), foreign);
    }
    let beside = marker_of(file, &found.markers);
    let name = file.name();
    let markers_there = found.markers.iter();
    let hiding = markers_there.filter(|marker| marker.path.hides() == name);
    let mut ours = BTreeSet::from([beside]);
    for marker in hiding {
        check_readable(marker)?;
        if marker.mark.is_none() {
            return Err(foreign(&marker.path));
        }
        ours.insert(marker.path.clone());
    }
    // The daemon restores a marker that is gone without an order, so it has to know the order first. If the request
    // cannot be written anywhere, the marker is removed nevertheless.
    let manifests = order.layout.manifests();
    let digests = namesakes(file, found)
        .chain([file.clone()])
        .filter_map(|path| Some((path.clone(), digest(&manifests, &path, limits)?)))
        .collect();
    let request = publish_file_request(order, RequestAction::Release, file, digests);
    // The daemon may be quicker, so the look before it shows whether the file was held.
    let was_held = found
        .markers
        .iter()
        .any(|marker| marker.path.hides() == name);
    let removed = remove(markers, &ours, foreign).map(|done| {
        if was_held {
            ManualChange::Released
        } else {
            done
        }
    });
    match (removed, request) {
        (Ok(done), Ok(_)) => Ok(done),
        (Err(error), Ok(request)) => Err(error + &withdraw(request)),
        (Err(error), Err(_)) => Err(error),
        (Ok(ManualChange::Released), Err(error)) => Err(format!(
            "its marker is removed, but the release is not recorded, and the daemon may hold the file again before RKE2 has \
             applied it: {error:#}"
        )),
        (Ok(_), Err(error)) => Err(format!("{error:#}")),
    }
}

/// The marker next to a file that Windrow made for exactly this file.
fn own_marker(file: &ManifestPath, found: &ScannedDirectory) -> Option<MarkerPath> {
    let beside = file.marker();
    let marker = found.markers.iter().find(|marker| marker.path == beside)?;
    let mark = marker.mark.as_ref()?;
    (mark.file == *file).then_some(beside)
}

/// The digest of the content of a file that is being released; `None` if it cannot be read.
fn digest(manifests: &Path, file: &ManifestPath, limits: &ReadLimits) -> Option<String> {
    let bytes = scan::bytes(manifests, file, limits.file_bytes)?;
    let content = FileContent::Bytes(bytes);
    Some(manifest::read_each(file, &content, limits, &mut |_| {}).digest)
}

fn remove(
    markers: &Markers,
    paths: &BTreeSet<MarkerPath>,
    foreign: impl Fn(&str) -> String,
) -> Result<ManualChange, String> {
    let paths: Vec<&MarkerPath> = paths.iter().collect();
    let mut done = ManualChange::WasNotHeld;
    for (path, result) in paths.iter().zip(markers.remove_all(&paths)) {
        match result {
            Ok(MarkerOutcome::Foreign) => return Err(foreign(path)),
            Ok(MarkerOutcome::Changed) => done = ManualChange::Released,
            Ok(MarkerOutcome::Unchanged | MarkerOutcome::NoDirectory) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(done)
}

fn check_readable(marker: &MarkerEntry) -> Result<(), String> {
    match &marker.unreadable {
        Some(error) => Err(format!("{} cannot be read: {error}", marker.path)),
        None => Ok(()),
    }
}

fn marked(found: &ScannedDirectory) -> impl Iterator<Item = ManifestPath> {
    found.markers.iter().map(|marker| marker.path.file())
}

fn held_by_us(found: &ScannedDirectory) -> Vec<ManifestPath> {
    let markers = found.markers.iter();
    let ours = markers.filter(|marker| marker.mark.is_some());
    ours.map(|marker| marker.path.file()).collect()
}

/// The manifests directory as it is: its files and markers, without their content.
///
/// # Errors
///
/// When it is missing or cannot be read.
pub fn list_manifests(manifests: &Path, now: Timestamp) -> anyhow::Result<ScannedDirectory> {
    // Only names are needed: with this limit no file is read.
    let limits = ReadLimits {
        file_bytes: 0,
        ..ReadLimits::default()
    };
    match scan(manifests, &limits, &FileStamps::new(), now) {
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

/// The path of the marker that hides a file: next to it, unless another marker hides its name.
pub fn marker_of(file: &ManifestPath, markers: &[MarkerEntry]) -> MarkerPath {
    let beside = file.marker();
    let name = file.name();
    if markers.iter().any(|marker| marker.path == beside) {
        return beside;
    }
    markers
        .iter()
        .find(|marker| marker.path.hides() == name)
        .map_or(beside, |marker| marker.path.clone())
}

/// Leaves a request about a file in the daemon's spool; `digests` are those of the released content, by path.
///
/// # Errors
///
/// Those of the file system.
pub fn publish_file_request(
    order: &Order<'_>,
    action: RequestAction,
    file: &ManifestPath,
    mut digests: BTreeMap<ManifestPath, String>,
) -> anyhow::Result<PublishedRequest> {
    let request = SpooledRequest {
        file: file.to_string(),
        digest: digests.remove(file),
        namesakes: digests
            .into_iter()
            .map(|(path, digest)| (path.to_string(), digest))
            .collect(),
        reason: Mark::shortened(order.reason).to_string(),
        ..SpooledRequest::new(action, order.by, order.at)
    };
    publish_request(order.layout, &request, &file.replace('/', "%2f"))
}

#[cfg(test)]
mod tests;
