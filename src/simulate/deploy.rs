//! RKE2's deploy controller (k3s `pkg/deploy/controller.go`), as it was read and seen to behave.
//!
//! ```text
//!            ┌──────────── 15 s after the end of each pass ────────────┐
//!            v                                                         │
//!   walk: names and markers at once ──> file ──> file ──> ... ──> end of pass
//!            │ dangling link                │ FIFO
//!            v                              v
//!     nothing is applied            hangs for good
//! ```
//! Until one pass was clean every file is applied in every pass (`force`); from then on only a file
//! whose modification time changed is read, and only one whose checksum differs is applied.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::agenda::Timer;
use super::cluster::{AddonRecord, Cluster};
use super::files::{Files, base_name};
use super::log::What;
use super::reading::{Declared, Reading, Readings};
use super::times;
use crate::decide::{Addon, ApplyFailure};
use crate::manifest::{self, Content, GroupKind, ObjectRef};

/// The controller's memory.
#[derive(Debug, Clone, Default)]
pub struct DeployController {
    /// Which server it runs on.
    server: usize,
    /// Directory that RKE2 names in its messages.
    base: String,
    force: bool,
    mtimes: HashMap<String, Timestamp>,
    pass: Option<Pass>,
    hung: Option<String>,
    /// Cluster and directory at the beginning of the last whole pass, when that pass changed
    /// neither: the next one will change nothing either.
    idle: Option<(u64, u64)>,
}

#[derive(Debug, Clone)]
struct Pass {
    queue: VecDeque<(String, Timestamp)>,
    clean: bool,
    began: (u64, u64),
}

/// A file could not be applied: the event's reason and the error.
struct Failure {
    reason: &'static str,
    message: String,
}

impl DeployController {
    /// A controller as it is when RKE2 starts.
    pub(super) fn new(server: usize, base: &str) -> Self {
        Self {
            server,
            base: base.to_owned(),
            force: true,
            ..Self::default()
        }
    }

    /// The file on which it hangs, if it does.
    pub fn hung(&self) -> Option<&str> {
        self.hung.as_deref()
    }

    /// Is it still re-applying every file in every pass?
    pub fn forces(&self) -> bool {
        self.force
    }

    /// Will the next pass change nothing, as long as cluster and directory stay as they are?
    pub(super) fn is_idle(&self, cluster: &Cluster, files: &Files) -> bool {
        self.hung.is_some() || self.idle == Some((cluster.revision(), files.generation()))
    }

    /// The next thing that it does: a file, or the look at the directory that begins a pass.
    pub(super) fn step(&mut self, cluster: &mut Cluster, files: &Files, readings: &mut Readings) {
        if self.pass.is_none() {
            match self.begin(cluster, files) {
                Ok(pass) => self.pass = Some(pass),
                Err(why) => {
                    self.idle = Some((cluster.revision(), files.generation()));
                    cluster.tell(What::PassAborted { why });
                    cluster.after(times::POLL, Timer::Deploy(self.server));
                    return;
                }
            }
        }
        let Some(mut pass) = self.pass.take() else {
            return;
        };
        let Some((path, mtime)) = pass.queue.pop_front() else {
            self.end(pass, cluster, files);
            return;
        };
        let objects = match self.file(&path, mtime, cluster, files, readings) {
            Ok(objects) => {
                self.mtimes.insert(path, mtime);
                objects
            }
            Err(Failure { reason, message }) => {
                if self.hung.is_some() {
                    cluster.tell(What::Hung { file: path });
                    return;
                }
                pass.clean = false;
                self.report(&path, reason, message, cluster);
                1
            }
        };
        self.pass = Some(pass);
        cluster.after(cost(objects), Timer::Deploy(self.server));
    }

    /// One walk takes names and markers together.
    fn begin(&self, cluster: &mut Cluster, files: &Files) -> Result<Pass, String> {
        cluster.counts.passes += 1;
        for (path, file) in files.iter() {
            if let Content::DanglingSymlink { .. } = *file.content {
                return Err(format!(
                    "stat {}/{path}: no such file or directory",
                    self.base
                ));
            }
        }
        let hidden: BTreeSet<&str> = files.hidden().collect();
        let (shown, held): (Vec<_>, Vec<_>) = files
            .manifests()
            .partition(|(path, _)| !hidden.contains(base_name(path)));
        cluster.tell(What::PassBegan {
            files: shown.len(),
            hidden: held.len(),
        });
        Ok(Pass {
            queue: shown
                .into_iter()
                .map(|(path, file)| (path.to_owned(), file.mtime))
                .collect(),
            clean: true,
            began: (cluster.revision(), files.generation()),
        })
    }

    fn end(&mut self, pass: Pass, cluster: &mut Cluster, files: &Files) {
        self.force &= !pass.clean;
        let now = (cluster.revision(), files.generation());
        self.idle = (pass.began == now).then_some(now);
        cluster.tell(What::PassEnded { clean: pass.clean });
        cluster.after(times::POLL, Timer::Deploy(self.server));
    }

    /// One file; what it cost.
    fn file(
        &mut self,
        path: &str,
        mtime: Timestamp,
        cluster: &mut Cluster,
        files: &Files,
        readings: &mut Readings,
    ) -> Result<usize, Failure> {
        if !self.force && self.mtimes.get(path) == Some(&mtime) {
            return Ok(0);
        }
        let failure = |reason, message: String| Failure { reason, message };
        let content = match files.get(path).map(|file| &file.content) {
            None => {
                let message = format!("open {}/{path}: no such file or directory", self.base);
                return Err(failure("ReadManifestFailed", message));
            }
            Some(content) => match &**content {
                Content::Bytes(_) => content,
                Content::Fifo => {
                    self.hung = Some(path.to_owned());
                    return Err(failure("", String::new()));
                }
                other => {
                    let message = format!("open {}/{path}: {}", self.base, unreadable(other));
                    return Err(failure("ReadManifestFailed", message));
                }
            },
        };
        let name = addon_name(path);
        if manifest::addon_name_error(base_name(path)).is_some() {
            let message = format!(
                "Addon.k3s.cattle.io \"{name}\" is invalid: metadata.name: Invalid value: \
                 \"{name}\": a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.'"
            );
            return Err(failure("", message));
        }
        let reading = readings.read(path, content);
        let known = cluster.addons.get(name);
        if !self.force && known.is_some_and(|addon| addon.seen.checksum == reading.sha256) {
            return Ok(0);
        }
        if known.is_some_and(|addon| addon.seen.checksum == reading.sha256) {
            cluster.counts.repeated += 1;
        }
        cluster.counts.applies += 1;
        self.ensure_addon(name, path, cluster);
        if let Some(refused) = &reading.refused {
            return Err(failure("ParseManifestFailed", refused.clone()));
        }
        if let Some(invalid) = reading.invalid {
            return Err(failure("ValidateManifestFailed", invalid.to_owned()));
        }
        cluster.counts.events += 1; // ApplyingManifest
        apply(&reading, name, cluster).map_err(|errors| {
            failure(
                "ApplyManifestFailed",
                format!(
                    "Applying manifest at \"{}/{path}\" failed: {}",
                    self.base,
                    errors.join(", ")
                ),
            )
        })?;
        self.record(name, path, &reading, cluster);
        Ok(reading.objects.len())
    }

    /// The Addon exists before its file is read, so that events can be about it.
    fn ensure_addon(&self, name: &str, path: &str, cluster: &mut Cluster) {
        if cluster.addons.contains_key(name) {
            return;
        }
        let revision = cluster.touch_addon();
        cluster.counts.writes += 1;
        let seen = Addon {
            checksum: String::new(),
            source: format!("{}/{path}", self.base),
        };
        cluster.addons.insert(
            name.to_owned(),
            AddonRecord {
                seen,
                kinds: Arc::default(),
                revision,
                by: self.server,
            },
        );
    }

    /// Checksum and kinds are written after complete success only.
    fn record(&self, name: &str, path: &str, reading: &Reading, cluster: &mut Cluster) {
        cluster.counts.events += 1; // AppliedManifest
        cluster.counts.writes += 1;
        cluster.tell(What::Applied {
            file: path.to_owned(),
        });
        let seen = Addon {
            checksum: reading.sha256.clone(),
            source: format!("{}/{path}", self.base),
        };
        let kinds = Arc::clone(&reading.kinds);
        let revision = cluster.revision();
        let known = cluster.addons.get(name);
        if known.is_some_and(|known| {
            known.by != self.server
                && !known.seen.checksum.is_empty()
                && known.seen.checksum != seen.checksum
        }) {
            *cluster.taken.entry(name.to_owned()).or_default() += 1;
        }
        if let Some(addon) = cluster.addons.get_mut(name)
            && (addon.seen != seen || addon.kinds != kinds)
        {
            *addon = AddonRecord {
                seen,
                kinds,
                revision: revision + 1,
                by: self.server,
            };
            cluster.touch_addon();
        }
    }

    fn report(&self, path: &str, reason: &str, message: String, cluster: &mut Cluster) {
        if reason != "ReadManifestFailed" {
            cluster.counts.failed += 1;
        }
        // An Addon whose name is refused has no events: RKE2 tells only its log.
        if !reason.is_empty() {
            cluster.counts.events += 1;
            let failure = ApplyFailure {
                reason: reason.to_owned(),
                message: message.clone(),
                at: cluster.now(),
            };
            cluster.fail(addon_name(path), failure);
        }
        cluster.tell(What::ApplyFailed {
            file: path.to_owned(),
            reason: reason.to_owned(),
            message,
        });
    }
}

/// Applies what a file declares and deletes what it no longer does. Errors are collected and the
/// rest goes on: part of a file in the cluster is the normal case.
fn apply(reading: &Arc<Reading>, addon: &str, cluster: &mut Cluster) -> Result<(), Vec<String>> {
    if cluster.stands(addon, reading) {
        return Ok(());
    }
    let mut errors = Vec::new();
    let mut keep = BTreeSet::new();
    for (kind, objects) in by_kind(&reading.objects) {
        if cluster.serves(&kind).is_none() {
            errors.push(match cluster.serves_group(&kind.group) {
                true => format!("failed to discover client for {}", version_kind(objects[0])),
                false => "the server could not find the requested resource".to_owned(),
            });
            continue;
        }
        for object in objects {
            let resolved = cluster.resolve(&object.id);
            let applied = match &resolved {
                Ok(id) => cluster.apply(id, object, addon),
                Err(error) => Err(error.clone()),
            };
            if let Err(error) = applied {
                let namespace = resolved
                    .as_ref()
                    .ok()
                    .and_then(|id| id.namespace.as_deref());
                let key = match namespace {
                    Some(namespace) => format!("{namespace}/{}", object.id.name),
                    None => object.id.name.to_string(),
                };
                errors.push(format!(
                    "failed to create {key} {} for  kube-system/{addon}: {error}",
                    version_kind(object)
                ));
            }
            keep.extend(resolved);
        }
    }
    errors.extend(reading.unnamed.iter().map(|(what, kind)| {
        format!(
            "failed to create {what} for  kube-system/{addon}: {kind} \"\" is invalid: \
             metadata.name: Required value: name or generateName is required"
        )
    }));
    errors.extend(reading.unknown.iter().cloned());
    // Where all of it is there and is all that the Addon has, nothing is left over.
    if !errors.is_empty() || cluster.owns(addon) != keep.len() {
        prune(reading, addon, &keep, cluster);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    // Where one object stands twice in a file, which of them counts is not for here.
    if keep.len() == reading.objects.len() {
        cluster.stood(addon, reading);
    }
    Ok(())
}

/// As Kubernetes writes it: the core group has an empty name.
fn version_kind(object: &Declared) -> String {
    let slash = if object.api_version.contains('/') {
        ""
    } else {
        "/"
    };
    format!("{slash}{}, Kind={}", object.api_version, object.id.kind)
}

/// Kinds that the file has now or had when it was last applied are looked through.
fn prune(reading: &Reading, addon: &str, keep: &BTreeSet<ObjectRef>, cluster: &mut Cluster) {
    let mut kinds = BTreeSet::clone(&reading.kinds);
    if let Some(record) = cluster.addons.get(addon) {
        kinds.extend(record.kinds.iter().cloned());
    }
    for object in cluster.owned_beside(addon, keep, &kinds) {
        cluster.delete(&object);
        cluster.counts.writes += 1;
        cluster.tell(What::Pruned { object });
    }
}

/// Kinds in order of first appearance, in each the objects by namespace and name; the last of two
/// of the same name wins.
fn by_kind(objects: &[Declared]) -> Vec<(GroupKind, Vec<&Declared>)> {
    let mut kinds: Vec<(GroupKind, Vec<&Declared>)> = Vec::new();
    for object in objects {
        let kind = object.id.group_kind();
        let place = match kinds.iter().position(|(known, _)| *known == kind) {
            Some(place) => place,
            None => {
                kinds.push((kind, Vec::new()));
                kinds.len() - 1
            }
        };
        let same = &mut kinds[place].1;
        same.retain(|other| other.id != object.id);
        same.push(object);
    }
    for (_, objects) in &mut kinds {
        objects.sort_by(|a, b| (&a.id.namespace, &a.id.name).cmp(&(&b.id.namespace, &b.id.name)));
    }
    kinds
}

/// The Addon of the file at a path.
pub(super) fn addon_name(path: &str) -> &str {
    manifest::addon_name(base_name(path))
}

fn unreadable(content: &Content) -> String {
    match content {
        Content::Special { .. } => "no such device or address".to_owned(),
        Content::Unreadable { error } => error.clone(),
        _ => "not read by this simulation".to_owned(),
    }
}

/// What a file of so many objects costs a pass; an unchanged one costs a look and nothing else.
fn cost(objects: usize) -> Duration {
    match objects {
        0 => Duration::ZERO,
        objects => times::PER_FILE + times::PER_OBJECT * objects as u32,
    }
}
