//! RKE2's deploy controller (k3s `pkg/deploy/controller.go`), according to its source and to observations.
//!
//! ```text
//!            ┌──────────── 15 s after the end of each pass ────────────┐
//!            v                                                         │
//!   walk: names and markers at once ──> file ──> file ──> ... ──> end of pass
//!            │ dangling link                │ FIFO
//!            v                              v
//!     nothing is applied            hangs forever
//! ```
//! Files that something else applies (`ManifestPath::applied_by`) are simulated as if they were in the directory. In reality,
//! they are also applied in the order of their names and retried until they succeed, but less often.
//!
//! Until one pass was clean every file is applied in every pass (`force`); from then on only a file whose modification time
//! changed is read, and only one whose checksum differs is applied.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use windrow_decide::{Addon, ApplyFailure};
use windrow_model::manifest::{
    APPLIED_BY_IMAGE_BUILDER, AddonName, FileContent, ManifestPath, ObjectRef,
};
use windrow_plan::rke2;

use super::cluster::{AddonRecord, SimulatedCluster};
use super::declared::Declared;
use super::files::{DirectoryWalk, SimulatedDirectory};
use super::log::HappeningKind;
use super::reading::FileReading;
use super::timer::Timer;
use super::times;

#[derive(Debug, Clone, Default)]
pub struct DeployController {
    server: usize,
    force: bool,
    mtimes: foldhash::HashMap<ManifestPath, Timestamp>,
    pass: Option<Pass>,
    /// A slow scan of the directory that is in progress: its own entries, as found. The entries of its subdirectories come next.
    looking: Option<SimulatedDirectory>,
    hung: Option<ManifestPath>,
    /// Cluster and directory at the beginning of the last complete pass, if that pass changed neither: then the next one changes
    /// nothing either.
    idle: Option<(u64, u64)>,
    passes: u64,
}

#[derive(Debug, Clone)]
struct Pass {
    walk: DirectoryWalk,
    done: usize,
    clean: bool,
    began: (u64, u64),
}

enum NextTask {
    /// The next file, or the end of the pass: the last step took no time and changed nothing.
    AtOnce,
    After(Duration),
    Never,
}

enum FileResult {
    /// Unchanged and skipped.
    PassedOver,
    Applied(usize),
}

/// A file could not be applied: the event's reason and the error.
struct ApplyError {
    reason: &'static str,
    message: String,
}

impl DeployController {
    /// A controller as it is when RKE2 starts.
    pub(super) fn new(server: usize) -> Self {
        Self {
            server,
            force: true,
            ..Self::default()
        }
    }

    pub fn hung(&self) -> Option<&str> {
        self.hung.as_deref()
    }

    pub fn forces(&self) -> bool {
        self.force
    }

    /// Will the next pass change nothing, as long as cluster and directory stay the same?
    pub(super) fn is_idle(&self, cluster: &SimulatedCluster, files: &SimulatedDirectory) -> bool {
        self.hung.is_some() || self.idle == Some((cluster.revision(), files.generation()))
    }

    /// Does its next step: a file, or the scan of the directory that begins a pass.
    pub(super) fn step(&mut self, cluster: &mut SimulatedCluster, files: &SimulatedDirectory) {
        loop {
            let delay = match self.next(cluster, files) {
                // Nothing else happens at this instant, so this is the next step.
                NextTask::AtOnce if !cluster.is_due() => continue,
                NextTask::AtOnce => Duration::ZERO,
                NextTask::After(delay) => delay,
                NextTask::Never => return,
            };
            return cluster.after(delay, Timer::Deploy(self.server));
        }
    }

    fn next(&mut self, cluster: &mut SimulatedCluster, files: &SimulatedDirectory) -> NextTask {
        let mut pass = match self.pass.take() {
            Some(pass) => pass,
            None if self.looks_slowly(cluster, files) => {
                let delay = cluster.walk_chance.between(times::SLOW_WALK);
                return NextTask::After(delay);
            }
            None => match begin(cluster, files, self.looking.take()) {
                Ok(pass) => {
                    self.passes += 1;
                    pass
                }
                Err(why) => {
                    self.idle = Some((cluster.revision(), files.generation()));
                    cluster.record(HappeningKind::PassAborted { why });
                    return NextTask::After(times::POLL);
                }
            },
        };
        let Some((path, mtime)) = pass.walk.shown.get(pass.done) else {
            return self.end(&pass, cluster, files);
        };
        let next = match self.file(path, *mtime, cluster, files) {
            Ok(done) => {
                match self.mtimes.get_mut(path) {
                    Some(known) => *known = *mtime,
                    None => {
                        self.mtimes.insert(path.clone(), *mtime);
                    }
                }
                match done {
                    FileResult::PassedOver => NextTask::AtOnce,
                    FileResult::Applied(objects) => NextTask::After(cost(objects)),
                }
            }
            Err(ApplyError { reason, message }) => {
                if self.hung.is_some() {
                    cluster.record(HappeningKind::Hung { file: path.clone() });
                    return NextTask::Never;
                }
                pass.clean &= path.applied_by().is_some();
                self.report(path, reason, message, cluster);
                NextTask::After(cost(1))
            }
        };
        pass.done += 1;
        self.pass = Some(pass);
        next
    }

    /// The entries of the directory itself that the scan in progress has found.
    pub(super) fn looking(&self) -> Option<&SimulatedDirectory> {
        self.looking.as_ref()
    }

    /// Is it between passes, neither scanning nor applying?
    pub(super) fn is_between_passes(&self) -> bool {
        self.pass.is_none() && self.looking.is_none()
    }

    pub(super) fn passes(&self) -> u64 {
        self.passes
    }

    /// The files that the present pass applies, or has applied.
    pub(super) fn shown(&self) -> impl Iterator<Item = &ManifestPath> {
        let shown = self.pass.iter().flat_map(|pass| &pass.walk.shown);
        shown.map(|(path, _)| path)
    }

    /// Begins a slow scan of the directory, now and then.
    fn looks_slowly(&mut self, cluster: &mut SimulatedCluster, files: &SimulatedDirectory) -> bool {
        let one_in = cluster.slow_walks;
        let is_slow = self.looking.is_none() && one_in > 0 && cluster.walk_chance.one_in(one_in);
        if is_slow {
            self.looking = Some(files.clone());
        }
        is_slow
    }

    fn end(
        &mut self,
        pass: &Pass,
        cluster: &mut SimulatedCluster,
        files: &SimulatedDirectory,
    ) -> NextTask {
        self.force &= !pass.clean;
        let now = (cluster.revision(), files.generation());
        self.idle = (pass.began == now).then_some(now);
        cluster.record(HappeningKind::PassEnded { clean: pass.clean });
        NextTask::After(times::POLL)
    }

    fn file(
        &mut self,
        path: &ManifestPath,
        mtime: Timestamp,
        cluster: &mut SimulatedCluster,
        files: &SimulatedDirectory,
    ) -> Result<FileResult, ApplyError> {
        if !self.force && self.mtimes.get(path) == Some(&mtime) {
            return Ok(FileResult::PassedOver);
        }
        let failure = |reason, message: String| ApplyError { reason, message };
        let file = match files.get(path) {
            None => {
                let message = format!("open {}: no such file or directory", full(path));
                return Err(failure("ReadManifestFailed", message));
            }
            Some(file) => match &**file.content() {
                FileContent::Bytes(_) => file,
                FileContent::Fifo => {
                    self.hung = Some(path.clone());
                    return Err(failure("", String::new()));
                }
                other => {
                    let message = format!("open {}: {}", full(path), unreadable(other));
                    return Err(failure("ReadManifestFailed", message));
                }
            },
        };
        let name = &path.addon();
        if path.applied_by().is_none() && path.name().addon_error().is_some() {
            let message = format!(
                "Addon.k3s.cattle.io \"{name}\" is invalid: metadata.name: Invalid value: \
                 \"{name}\": a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.'"
            );
            return Err(failure("", message));
        }
        let reading = file.reading(path);
        let known = cluster.addons.get(name);
        let is_same = known.is_some_and(|addon| addon.seen.checksum == reading.sha256);
        if is_same && !self.force {
            return Ok(FileResult::PassedOver);
        }
        cluster.counts.repeated += u64::from(is_same);
        cluster.counts.applies += 1;
        self.ensure_addon(name, path, cluster);
        if let Some(refused) = &reading.refused {
            return Err(failure("ParseManifestFailed", refused.clone()));
        }
        if let Some(invalid) = reading.invalid {
            return Err(failure("ValidateManifestFailed", invalid.to_owned()));
        }
        cluster.counts.events += 1; // ApplyingManifest
        apply(reading, name, cluster).map_err(|errors| {
            let (path, errors) = (full(path), errors.join(", "));
            let message = format!("Applying manifest at \"{path}\" failed: {errors}");
            failure("ApplyManifestFailed", message)
        })?;
        self.record(name, path, reading, cluster);
        Ok(FileResult::Applied(reading.objects.len()))
    }

    /// The Addon exists before its file is read, so that events can refer to it.
    fn ensure_addon(&self, name: &AddonName, path: &ManifestPath, cluster: &mut SimulatedCluster) {
        if cluster.addons.contains_key(name) {
            return;
        }
        let revision = cluster.touch_addon();
        cluster.counts.writes += 1;
        let seen = Addon {
            checksum: String::new(),
            source: full(path),
        };
        cluster.addons.insert(
            name.clone(),
            AddonRecord {
                seen,
                kinds: Arc::default(),
                revision,
                by: self.server,
                appliers: BTreeSet::new(),
            },
        );
    }

    /// Checksum and kinds are written only after complete success.
    fn record(
        &self,
        name: &AddonName,
        path: &ManifestPath,
        reading: &FileReading,
        cluster: &mut SimulatedCluster,
    ) {
        cluster.counts.events += 1; // AppliedManifest
        cluster.counts.writes += 1;
        cluster.record(HappeningKind::Applied { file: path.clone() });
        let revision = cluster.revision();
        let Some(addon) = cluster.addons.get_mut(name) else {
            return;
        };
        let is_other = addon.seen.checksum != reading.sha256;
        if is_other && addon.by != self.server && !addon.seen.checksum.is_empty() {
            *cluster.taken.entry(name.clone()).or_default() += 1;
        }
        if is_other {
            addon.appliers.clear();
        }
        addon.appliers.insert(self.server);
        if is_other || !is_full(&addon.seen.source, path) || addon.kinds != reading.kinds {
            *addon = AddonRecord {
                seen: Addon {
                    checksum: reading.sha256.clone(),
                    source: full(path),
                },
                kinds: Arc::clone(&reading.kinds),
                revision: revision + 1,
                by: self.server,
                appliers: std::mem::take(&mut addon.appliers),
            };
            cluster.touch_addon();
        }
    }

    fn report(
        &self,
        path: &ManifestPath,
        reason: &str,
        message: String,
        cluster: &mut SimulatedCluster,
    ) {
        if reason != "ReadManifestFailed" {
            cluster.counts.failed += 1;
        }
        // An Addon whose name is rejected has no events: RKE2 reports that only in its log.
        if !reason.is_empty() && path.applied_by().is_none() {
            cluster.counts.events += 1;
            let failure = ApplyFailure {
                reason: reason.to_owned(),
                message: message.clone(),
                at: cluster.now(),
            };
            cluster.fail(path.addon(), failure);
        }
        cluster.record(HappeningKind::ApplyFailed {
            file: path.clone(),
            reason: reason.to_owned(),
            message,
        });
    }
}

/// One walk reads names and markers together. `first` is the directory at the start of the walk.
fn begin(
    cluster: &mut SimulatedCluster,
    files: &SimulatedDirectory,
    first: Option<SimulatedDirectory>,
) -> Result<Pass, String> {
    cluster.counts.passes += 1;
    let began = first.as_ref().unwrap_or(files).generation();
    let walk = match first {
        Some(first) => first.with_lower(files).walk(),
        None => files.walk(),
    };
    if let Some(path) = &walk.dangling {
        let path = full(path);
        return Err(format!("stat {path}: no such file or directory"));
    }
    cluster.record(HappeningKind::PassBegan {
        files: walk.shown.len(),
        hidden: walk.held,
    });
    Ok(Pass {
        walk,
        done: 0,
        clean: true,
        began: (cluster.revision(), began),
    })
}

/// The path of the directory within RKE2's data directory.
const BELOW: &str = "/server/manifests/";

/// RKE2's own name of a file, for its messages.
fn full(path: &str) -> String {
    if path.starts_with(APPLIED_BY_IMAGE_BUILDER) {
        return path.to_owned();
    }
    [rke2::DATA_DIR, BELOW, path].concat()
}

fn is_full(name: &str, path: &str) -> bool {
    let name = name.strip_prefix(rke2::DATA_DIR);
    name.and_then(|name| name.strip_prefix(BELOW)) == Some(path)
        || path.starts_with(APPLIED_BY_IMAGE_BUILDER)
}

/// Applies the objects that a file declares, and deletes those that it no longer declares. Errors are collected and the rest
/// continues: it is normal that only a part of a file is in the cluster.
fn apply(
    reading: &FileReading,
    addon: &AddonName,
    cluster: &mut SimulatedCluster,
) -> Result<(), Vec<String>> {
    let mut errors = Vec::new();
    let mut keep: Vec<&ObjectRef> = Vec::new();
    for (kind, numbers) in &reading.order {
        let mut objects = numbers.iter().map(|number| &reading.objects[*number]);
        let Some(namespaced) = cluster.serves(kind) else {
            errors.extend(
                objects
                    .next()
                    .map(|first| match cluster.serves_group(&kind.group) {
                        true => format!("failed to discover client for {}", version_kind(first)),
                        false => "the server could not find the requested resource".to_owned(),
                    }),
            );
            continue;
        };
        for object in objects {
            let id = object.named(namespaced);
            let done = match cluster.has(id) && !object.generated {
                true => "update",
                false => "create",
            };
            if let Err(error) = cluster.apply(id, object, addon) {
                let key = match &id.namespace {
                    Some(namespace) => format!("{namespace}/{}", id.name),
                    None => id.name.to_string(),
                };
                errors.push(format!(
                    "failed to {done} {key} {} for  kube-system/{addon}: {error}",
                    version_kind(object)
                ));
            }
            keep.push(id);
        }
    }
    keep.sort_unstable();
    keep.dedup();
    errors.extend(reading.unnamed.iter().map(|(what, kind)| {
        format!(
            "failed to create {what} for  kube-system/{addon}: {kind} \"\" is invalid: \
             metadata.name: Required value: name or generateName is required"
        )
    }));
    errors.extend(reading.unknown.iter().cloned());
    prune(reading, addon, &keep, cluster);
    match errors.is_empty() {
        true => Ok(()),
        false => Err(errors),
    }
}

/// In the notation of Kubernetes: the core group has an empty name.
fn version_kind(object: &Declared) -> String {
    let slash = if object.api_version.contains('/') {
        ""
    } else {
        "/"
    };
    format!("{slash}{}, Kind={}", object.api_version, object.id.kind)
}

/// Searches the kinds that the file has now or had when it was last applied.
fn prune(
    reading: &FileReading,
    addon: &AddonName,
    keep: &[&ObjectRef],
    cluster: &mut SimulatedCluster,
) {
    let before = cluster.addons.get(addon).map(|record| &record.kinds);
    let before = before.map(Arc::clone).unwrap_or_default();
    let kinds = before.union(&reading.kinds);
    for object in cluster.owned_beside(addon, keep, kinds) {
        cluster.delete(&object);
        cluster.counts.writes += 1;
        cluster.record(HappeningKind::Pruned { object });
    }
}

fn unreadable(content: &FileContent) -> String {
    match content {
        FileContent::Special { .. } => "no such device or address".to_owned(),
        FileContent::NotUtf8Name { .. } => "an Addon cannot have this name".to_owned(),
        FileContent::Unreadable { error } => error.clone(),
        _ => "not read by this simulation".to_owned(),
    }
}

/// How long a pass takes for a file with this many objects. An unchanged file takes no time.
fn cost(objects: usize) -> Duration {
    match objects {
        0 => Duration::ZERO,
        objects => times::PER_FILE + times::PER_OBJECT * objects as u32,
    }
}
