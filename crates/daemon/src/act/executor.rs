//! Carries decisions out, reports each failure once, and tries again.
//!
//! An action that fails does not stop those after it. Above all a marker is lifted although the ledger cannot be
//! written: a full disk must not keep a node from coming up; the price is that the file may be held once more after a
//! restart.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use windrow_decide::{Action, Event, Ledger, MarkerTrouble};
use windrow_model::manifest::BaseName;
use windrow_model::reasons::Code;

use super::arrivals::Arrivals;
use super::ledger::save_ledger;
use super::markers::{MarkerOutcome, Markers};
use crate::causes::plain;
use crate::files::is_no_space;

/// First pause after a failure; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Default, PartialEq)]
pub struct Carried {
    pub done: Vec<Action>,
    /// Actions that failed for the first time and are to be reported.
    pub events: Vec<Event>,
    /// The directory changed since the scan: scan again.
    pub surprised: bool,
    /// Markers that stay because a file of this base name has changed since the decision.
    pub held_back: BTreeSet<BaseName>,
    pub retry: Option<Instant>,
}

#[derive(Debug)]
pub struct Executor {
    markers: Markers,
    arrivals: Arc<Arrivals>,
    ledger_path: PathBuf,
    unsaved: Option<Arc<Ledger>>,
    /// The failures that were reported and still last.
    failing: BTreeMap<String, FailedAction>,
    pause: Duration,
    again: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq)]
struct FailedAction {
    event: Event,
    marker: Option<(BaseName, MarkerTrouble)>,
    full: Option<PathBuf>,
}

struct ActionError {
    why: String,
    is_no_space: bool,
}

impl From<&io::Error> for ActionError {
    fn from(error: &io::Error) -> Self {
        Self {
            why: plain(&error.to_string()),
            is_no_space: is_no_space(error),
        }
    }
}

impl Executor {
    /// Lifts no marker of a file that is in `arrivals`.
    pub fn new(manifests: PathBuf, ledger: PathBuf, arrivals: Arc<Arrivals>) -> Self {
        Self {
            markers: Markers::new(manifests),
            arrivals,
            ledger_path: ledger,
            unsaved: None,
            failing: BTreeMap::new(),
            pause: FIRST_PAUSE,
            again: None,
        }
    }

    /// Carries actions out, in their order. A ledger that could not be written before is tried again, even when there
    /// is nothing else to do. What failed waits until its pause is over.
    pub fn carry_out(&mut self, actions: Vec<Action>, now: Instant) -> Carried {
        let mut carried = Carried::default();
        let mut failures = BTreeMap::new();
        let waits = self.again.is_some_and(|again| now < again);
        let saves = |action: &Action| matches!(action, Action::SaveLedger(_));
        let left = self.unsaved.take().filter(|_| !actions.iter().any(saves));
        let all = actions.into_iter().chain(left.map(Action::SaveLedger));
        let (waiting, due): (Vec<Action>, Vec<Action>) =
            all.partition(|action| waits && self.failing.contains_key(&self.what(action)));
        let results = self.carry_out_runs(&due);
        let mut tried = false;
        for (action, result) in due.into_iter().zip(results) {
            match result {
                Some(Ok(MarkerOutcome::Foreign | MarkerOutcome::NoDirectory)) => {
                    carried.surprised = true;
                }
                Some(Ok(MarkerOutcome::Changed | MarkerOutcome::Unchanged)) => {
                    carried.done.push(action);
                }
                None => {
                    if let Action::Lift { path } = action {
                        carried.held_back.insert(path.hides());
                    }
                }
                Some(Err(ActionError { why, is_no_space })) => {
                    tried = true;
                    let what = self.what(&action);
                    let full = is_no_space.then(|| self.directory(&action));
                    let failure = FailedAction {
                        full,
                        ..failure(&what, &action, why)
                    };
                    failures.insert(what, failure);
                    self.keep_unsaved(action);
                }
            }
        }
        for action in waiting {
            let what = self.what(&action);
            let known = self.failing.get(&what).cloned();
            failures.extend(known.map(|failure| (what, failure)));
            self.keep_unsaved(action);
        }
        for (what, failure) in &failures {
            if self.failing.get(what) != Some(failure) {
                carried.events.push(failure.event.clone());
            }
        }
        if failures.is_empty() {
            self.pause = FIRST_PAUSE;
            self.again = None;
        } else if tried {
            self.again = Some(now + self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        carried.retry = self.again;
        self.failing = failures;
        carried
    }

    /// Makes a marker at once, outside the order of a decision, unless one is there. If it fails, the next decision asks
    /// for it again and reports it. True when there is one of ours.
    pub fn hold_at_once(&self, hold: &Action) -> bool {
        let Action::Hold { path, mark } = hold else {
            return false;
        };
        let made = self.markers.create_missing(&[(path, mark)]);
        let is_ours =
            |outcome| matches!(outcome, MarkerOutcome::Changed | MarkerOutcome::Unchanged);
        made.into_iter().all(|made| made.is_ok_and(is_ours))
    }

    /// Markers that could not be made or removed, by the base name that they hide.
    pub fn marker_troubles(&self) -> BTreeMap<BaseName, MarkerTrouble> {
        let failures = self.failing.values();
        failures
            .filter_map(|failure| failure.marker.clone())
            .collect()
    }

    pub fn full_directories(&self) -> BTreeSet<PathBuf> {
        let failures = self.failing.values();
        failures
            .filter_map(|failure| failure.full.clone())
            .collect()
    }

    /// Whether a decision is not on the disk yet. Markers that could not be made or removed are tried again from the
    /// ledger.
    pub fn lacks_ledger(&self) -> bool {
        self.unsaved.is_some()
    }

    /// Carries actions out in their order. Markers that are made one after the other come onto the disk together, and so
    /// do those that are removed. `None` for a marker that stays because its file has changed.
    fn carry_out_runs(
        &self,
        actions: &[Action],
    ) -> Vec<Option<Result<MarkerOutcome, ActionError>>> {
        let mut results = Vec::with_capacity(actions.len());
        for run in actions.chunk_by(|one, next| discriminant(one) == discriminant(next)) {
            let mut holds = Vec::new();
            let mut lifts = Vec::new();
            for action in run {
                match action {
                    Action::Hold { path, mark } => holds.push((path, &**mark)),
                    Action::Lift { path } => lifts.push(path),
                    Action::SaveLedger(ledger) => {
                        let saved = save_ledger(&self.ledger_path, ledger);
                        let saved = saved.map(|()| MarkerOutcome::Changed);
                        results.push(Some(saved.map_err(|error| (&error).into())));
                    }
                }
            }
            let held = self.markers.create_all(&holds).into_iter().map(Some);
            let lifted = self.markers.lift_all(&lifts, &self.arrivals).into_iter();
            let changed = held.chain(lifted);
            results.extend(changed.map(|changed| {
                changed.map(|changed| changed.map_err(|error| error.cause().into()))
            }));
        }
        results
    }

    fn keep_unsaved(&mut self, action: Action) {
        if let Action::SaveLedger(ledger) = action {
            self.unsaved = Some(ledger);
        }
    }

    fn directory(&self, action: &Action) -> PathBuf {
        let path = match action {
            Action::Hold { path, .. } | Action::Lift { path } => self.markers.path(path),
            Action::SaveLedger(_) => self.ledger_path.clone(),
        };
        path.parent().map_or_else(PathBuf::new, Path::to_owned)
    }

    fn what(&self, action: &Action) -> String {
        match action {
            Action::Hold { path, .. } => {
                format!("create the marker {}", self.markers.path(path).display())
            }
            Action::Lift { path } => {
                format!("remove the marker {}", self.markers.path(path).display())
            }
            Action::SaveLedger(_) => format!("write the ledger {}", self.ledger_path.display()),
        }
    }
}

fn failure(what: &str, action: &Action, why: String) -> FailedAction {
    let line = format!("could not {what}: {why}");
    let (code, file, marker) = match action {
        Action::Hold { path, mark } => {
            let trouble = MarkerTrouble::NotMade(why);
            (Code::NotHeld, mark.file.clone(), (path, trouble))
        }
        Action::Lift { path } => {
            let trouble = MarkerTrouble::NotRemoved(why);
            (Code::MarkerStays, path.file(), (path, trouble))
        }
        Action::SaveLedger(_) => {
            let message = Code::ActionFailed.say(&[("what", what), ("error", &why)]);
            return FailedAction {
                event: Event {
                    code: Code::ActionFailed,
                    file: None,
                    message,
                },
                marker: None,
                full: None,
            };
        }
    };
    let message = format!("{file} {}", code.say(&[("error", &line)]));
    let (path, trouble) = marker;
    FailedAction {
        event: Event {
            code,
            file: Some(file.to_string()),
            message,
        },
        marker: Some((path.hides(), trouble)),
        full: None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use windrow_model::manifest::ManifestPath;

    use super::super::markers::tests::mark;
    use super::*;

    #[test]
    fn a_marker_is_lifted_though_the_ledger_cannot_be_written_and_the_ledger_follows_later() {
        let root = tempfile::tempdir().unwrap();
        let manifests = root.path().join("manifests");
        fs::create_dir(&manifests).unwrap();
        // A file in place of the ledger's directory: root cannot write there either.
        let state = root.path().join("state");
        fs::write(&state, "").unwrap();
        let mut executor =
            Executor::new(manifests.clone(), state.join("ledger.json"), Arc::default());
        let marker = ManifestPath::from("a.yaml").marker();
        let hold = Action::Hold {
            path: marker.clone(),
            mark: mark("a.yaml").into(),
        };
        let lift = Action::Lift {
            path: marker.clone(),
        };
        let start = Instant::now();
        assert_eq!(executor.carry_out(vec![hold.clone()], start).done, [hold]);
        let save = Action::SaveLedger(Arc::default());
        let carried = executor.carry_out(vec![save.clone(), lift.clone()], start);
        assert_eq!(carried.done, [lift]);
        assert!(!manifests.join("a.yaml.skip").exists());
        assert_eq!(carried.events.len(), 1);
        assert_eq!(carried.events[0].code, Code::ActionFailed);
        assert!(carried.events[0].message.contains("ledger.json"));
        assert!(executor.lacks_ledger());

        let retry = carried.retry.unwrap();
        let again = executor.carry_out(Vec::new(), retry);
        assert!(again.events.is_empty(), "reported once");
        let later = again.retry.unwrap();
        assert!(later - retry > retry - start, "the pause grows");

        fs::remove_file(&state).unwrap();
        let early = executor.carry_out(Vec::new(), retry);
        assert!(early.done.is_empty(), "not before its time");
        assert_eq!(early.retry, Some(later));
        let mended = executor.carry_out(Vec::new(), later);
        assert_eq!(mended.done, [save]);
        assert_eq!(mended.retry, None);
        assert!(!executor.lacks_ledger());
        assert!(state.join("ledger.json").exists());
    }

    #[test]
    fn a_marker_that_cannot_be_made_is_told_with_its_path_and_the_reason() {
        let root = tempfile::tempdir().unwrap();
        let manifests = root.path().to_owned();
        let mut executor = Executor::new(
            manifests.clone(),
            root.path().join("state/ledger.json"),
            Arc::default(),
        );
        let file = "a".repeat(251);
        let path = ManifestPath::from(file.as_str()).marker();
        let hold = Action::Hold {
            path: path.clone(),
            mark: mark(&file).into(),
        };
        assert!(!executor.hold_at_once(&hold));
        let carried = executor.carry_out(vec![hold], Instant::now());
        assert!(carried.done.is_empty() && !carried.surprised);
        let message = &carried.events[0].message;
        let marker = manifests.join(path.as_str()).display().to_string();
        assert!(
            message.contains(&marker) && message.contains("256 bytes"),
            "{message}"
        );
        let troubles = executor.marker_troubles();
        let (hidden, trouble) = troubles.first_key_value().unwrap();
        assert_eq!(hidden.as_str(), file);
        assert!(matches!(trouble, MarkerTrouble::NotMade(why) if why.contains("256 bytes")));
    }

    #[test]
    fn a_marker_stays_if_its_file_changed_since_the_decision() {
        let root = tempfile::tempdir().unwrap();
        let arrivals = Arc::new(Arrivals::default());
        let (manifests, ledger) = (root.path().to_owned(), root.path().join("ledger.json"));
        let mut executor = Executor::new(manifests.clone(), ledger, Arc::clone(&arrivals));
        let files = ["a.yaml", "b.yaml"].map(ManifestPath::from);
        let hold = |file: &ManifestPath| Action::Hold {
            path: file.marker(),
            mark: mark(file).into(),
        };
        let lift = |file: &ManifestPath| Action::Lift {
            path: file.marker(),
        };
        executor.carry_out(files.iter().map(hold).collect(), Instant::now());
        arrivals.add(&files[0]);
        let lifts = [Action::SaveLedger(Arc::default())]
            .into_iter()
            .chain(files.iter().map(lift));
        let carried = executor.carry_out(lifts.collect(), Instant::now());
        assert_eq!(carried.held_back, [files[0].name()].into());
        assert!(!carried.surprised && carried.events.is_empty() && carried.retry.is_none());
        assert_eq!(carried.done.last(), Some(&lift(&files[1])));
        let is_marked = |file: &ManifestPath| manifests.join(file.marker().as_str()).exists();
        assert!(is_marked(&files[0]) && !is_marked(&files[1]));
        arrivals.remove(&files[0]);
        let carried = executor.carry_out(vec![lift(&files[0])], Instant::now());
        assert!(carried.held_back.is_empty() && !is_marked(&files[0]));
    }

    #[test]
    fn a_marker_that_somebody_else_made_is_a_surprise_and_no_failure() {
        let root = tempfile::tempdir().unwrap();
        let mut executor = Executor::new(
            root.path().to_owned(),
            root.path().join("ledger.json"),
            Arc::default(),
        );
        fs::write(root.path().join("a.yaml.skip"), "theirs").unwrap();
        let lift = Action::Lift {
            path: ManifestPath::from("a.yaml").marker(),
        };
        let carried = executor.carry_out(vec![lift], Instant::now());
        assert!(carried.surprised && carried.done.is_empty());
        assert_eq!((carried.events.len(), carried.retry), (0, None));
    }
}
