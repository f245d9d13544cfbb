//! Moves manual requests from the spool into the staging state.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use windrow_decide::{Event, OrderError, StagingState};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

use crate::fs;
use crate::observe::requests::{
    self, RequestAction, Spooled, SpooledRequest, UnreadRequest, read_spool,
};

const LATER: &str = "a later order counts";

/// The spools, and the requests that were taken over but not yet removed.
pub(super) struct SpooledRequests {
    spools: [PathBuf; 2],
    taken: BTreeSet<PathBuf>,
    unread: BTreeSet<PathBuf>,
    /// Requests about feature gates, for the gate controller, which removes them.
    forwarded: BTreeSet<PathBuf>,
}

#[derive(Debug, Default)]
pub(super) struct TakenRequests {
    pub(super) events: Vec<Event>,
    pub(super) about_gates: bool,
    pub(super) repairs: Vec<SpooledRequest>,
}

struct Asked {
    file: ManifestPath,
    hold: bool,
}

#[derive(Default)]
struct Orders {
    /// Orders that arrived since the last look and were entered.
    new: Vec<Asked>,
    /// Waiting orders: each with its description, and the number of new ones that arrived before it.
    waiting: Vec<(PathBuf, Asked, String, usize)>,
}

impl Orders {
    /// Whether a new order after the first `before` replaces this one. It does if it is about the same file, or is the
    /// opposite for another file of its name.
    fn replace(&self, asked: &Asked, before: usize) -> bool {
        self.new.iter().skip(before).any(|new| {
            let is_opposite = new.file.name() == asked.file.name() && new.hold != asked.hold;
            new.file == asked.file || is_opposite
        })
    }
}

impl SpooledRequests {
    pub(super) fn new(spools: [PathBuf; 2]) -> Self {
        Self {
            spools,
            taken: BTreeSet::new(),
            unread: BTreeSet::new(),
            forwarded: BTreeSet::new(),
        }
    }

    /// Processes every new request. Requests about files stay while the directory is missing or cannot be read: then
    /// the files are unknown.
    pub(super) fn take_spooled(
        &mut self,
        state: &mut StagingState,
        (manifests, are_files_known): (&Path, bool),
        now: Timestamp,
    ) -> TakenRequests {
        let mut spooled = Vec::new();
        let mut events = Vec::new();
        for spool in &self.spools {
            match read_spool(spool) {
                Ok(found) => spooled.extend(found),
                Err(error) => {
                    let what = format!("list the requests in {}", spool.display());
                    events.push(failed(&what, &error.to_string()));
                }
            }
        }
        spooled.retain(|(_, request)| {
            let is_about_file = |request: &SpooledRequest| {
                matches!(request.action, RequestAction::Hold | RequestAction::Release)
            };
            are_files_known || !request.as_ref().is_ok_and(is_about_file)
        });
        let mut taken = self.take_read(spooled, state, manifests, now);
        taken.events.splice(0..0, events);
        taken
    }

    fn take_read(
        &mut self,
        mut spooled: Vec<Spooled>,
        state: &mut StagingState,
        manifests: &Path,
        now: Timestamp,
    ) -> TakenRequests {
        let mut taken = TakenRequests::default();
        let unread = std::mem::take(&mut self.unread);
        // By their names, which begin with the time.
        spooled.sort_by(|(one, _), (other, _)| one.file_name().cmp(&other.file_name()));
        let known = std::mem::take(&mut self.forwarded);
        let mut orders = Orders::default();
        for (mut path, request) in spooled {
            if self.taken.contains(&path) {
                continue;
            }
            match request {
                Ok(request) if request.action.is_about_gates() => {
                    self.forwarded.insert(path);
                    continue;
                }
                Ok(request) if request.action.of_repair().is_some() => {
                    taken.repairs.push(request);
                }
                Ok(request) => {
                    let was_taken = requests::is_taken(&path);
                    let Some(ours) = requests::take(path) else {
                        continue;
                    };
                    path = ours;
                    let verb = match request.action {
                        RequestAction::Hold => "hold",
                        _ => "release",
                    };
                    let file = Path::new(&request.file)
                        .strip_prefix(manifests)
                        .ok()
                        .and_then(Path::to_str)
                        .unwrap_or(&request.file);
                    let file = &ManifestPath::from(file);
                    // An earlier process did not finish it, and a version that did not know it may have run since. For
                    // requests that wait in this process, the order of arrival decides: the clock may have been set
                    // meanwhile.
                    let order = request.manual();
                    let what = format!("{verb} {file}, as {} asked", request.by);
                    let is_of_earlier = was_taken && !unread.contains(&path);
                    if is_of_earlier && state.has_later_order(file, &order) {
                        taken.events.push(failed(&what, LATER));
                        self.taken.insert(path);
                        continue;
                    }
                    let namesakes = request.namesakes.iter();
                    let mut released: BTreeMap<ManifestPath, String> = namesakes
                        .map(|(path, digest)| (ManifestPath::from(path.as_str()), digest.clone()))
                        .chain(request.digest.clone().map(|digest| (file.clone(), digest)))
                        .collect();
                    let has_waited = was_taken || unread.contains(&path);
                    // No process could read the file, or another one of its name, when it was released. The content now
                    // may be different.
                    if has_waited {
                        for (path, known) in state.known_digests(file) {
                            released.entry(path).or_insert(known);
                        }
                    }
                    let asked = Asked {
                        file: file.clone(),
                        hold: order.hold,
                    };
                    let entered = state.hold_or_release(file, &released, order, now);
                    let was_told =
                        matches!(entered, Err(OrderError::NotNow(_))) && unread.contains(&path);
                    if let Err(error) = &entered
                        && !was_told
                    {
                        taken.events.push(failed(&what, &error.to_string()));
                    }
                    // A failed read is not an answer: the request stays.
                    if let Err(OrderError::NotNow(_)) = entered {
                        self.unread.insert(path.clone());
                        let before = if has_waited { 0 } else { orders.new.len() };
                        orders.waiting.push((path, asked, what, before));
                        continue;
                    }
                    if entered.is_ok() && !has_waited {
                        orders.new.push(asked);
                    }
                }
                Err(UnreadRequest::NotNow(why)) => {
                    if !unread.contains(&path) {
                        let what = format!("read the request {} (it is kept)", path.display());
                        taken.events.push(failed(&what, &why));
                    }
                    self.unread.insert(path);
                    continue;
                }
                Err(UnreadRequest::Broken(why)) => {
                    let what = format!("read the request {}", path.display());
                    taken.events.push(failed(&what, &why));
                }
            }
            self.taken.insert(path);
        }
        // By the order in which they came: the clock may have been set in between.
        let waiting = std::mem::take(&mut orders.waiting).into_iter();
        for (path, asked, what, before) in waiting {
            if orders.replace(&asked, before) {
                taken.events.push(failed(&what, LATER));
                self.unread.remove(&path);
                self.taken.insert(path);
            }
        }
        taken.about_gates = self.forwarded.iter().any(|path| !known.contains(path));
        taken
    }

    /// Removes the requests that were taken over. Call it once their consequences are on disk. A request that cannot be
    /// removed is not taken twice.
    pub(super) fn finish(&mut self) {
        self.taken.retain(|path| match fs::remove_file(path) {
            Ok(()) => false,
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        });
    }
}

fn failed(what: &str, why: &str) -> Event {
    Event {
        code: Code::ActionFailed,
        file: None,
        message: Code::ActionFailed.say(&[("what", what), ("error", why)]),
    }
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
