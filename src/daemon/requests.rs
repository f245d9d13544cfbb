//! Requests by hand, from the spool into the staging state.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use windrow_decide::{Event, StagingState};
use windrow_model::reasons::Code;

use crate::observe::requests::{Request, RequestAction, read_spool};

/// The spools, and what was taken over but not yet removed.
pub(super) struct Requests {
    spools: [PathBuf; 2],
    taken: BTreeSet<PathBuf>,
    /// About feature gates: for their keeper, who removes them.
    forwarded: BTreeSet<PathBuf>,
}

/// What came of a look into the spool.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// What is to be told of it.
    pub(super) events: Vec<Event>,
    /// Are there new requests about feature gates?
    pub(super) about_gates: bool,
    /// What became of cures.
    pub(super) repairs: Vec<Request>,
}

impl Requests {
    pub(super) fn new(spools: [PathBuf; 2]) -> Self {
        Self {
            spools,
            taken: BTreeSet::new(),
            forwarded: BTreeSet::new(),
        }
    }

    /// Hands every new request over.
    pub(super) fn take(
        &mut self,
        state: &mut StagingState,
        manifests: &Path,
        now: Timestamp,
    ) -> Taken {
        let mut taken = Taken::default();
        let events = &mut taken.events;
        let mut refused = |what: &str, why: &str| {
            events.push(Event {
                code: Code::ActionFailed,
                file: None,
                message: Code::ActionFailed.say(&[("what", what), ("error", why)]),
            });
        };
        let mut spooled = Vec::new();
        for spool in &self.spools {
            match read_spool(spool) {
                Ok(found) => spooled.extend(found),
                Err(error) => {
                    let what = format!("list the requests in {}", spool.display());
                    refused(&what, &error.to_string());
                }
            }
        }
        // By their names, which begin with the time.
        spooled.sort_by(|(one, _), (other, _)| one.file_name().cmp(&other.file_name()));
        let known = std::mem::take(&mut self.forwarded);
        for (path, request) in spooled {
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
                    let verb = match request.action {
                        RequestAction::Hold => "hold",
                        _ => "release",
                    };
                    let file = Path::new(&request.file)
                        .strip_prefix(manifests)
                        .ok()
                        .and_then(Path::to_str)
                        .unwrap_or(&request.file);
                    if let Err(why) = state.hold_or_release(file, request.manual(), now) {
                        let what = format!("{verb} {file}, as {} asked", request.by);
                        refused(&what, &why);
                    }
                }
                Err(why) => refused(&format!("read the request {}", path.display()), &why),
            }
            self.taken.insert(path);
        }
        taken.about_gates = self.forwarded.iter().any(|path| !known.contains(path));
        taken
    }

    /// Removes what was taken over: to be called once its consequences are on disk. A request that
    /// cannot be removed is not taken twice.
    pub(super) fn finish(&mut self) {
        self.taken.retain(|path| match fs::remove_file(path) {
            Ok(()) => false,
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        });
    }
}
