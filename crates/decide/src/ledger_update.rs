//! The ledger after a decision, and the events that the decision reports.

use std::sync::Arc;

use jiff::SignedDuration;
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;
use windrow_plan::PlanFile;
use windrow_plan::readiness::NeedState;

use super::action::Event;
use super::ledger::{AlreadyReported, Cause, FileStage, Ledger, LedgerEntry, Manual};
use super::mark::OnFailure;
use super::observation::MarkerTrouble;
use super::outcome::{DecisionContext, FileHold, FileOutcome, is_about_read_content, is_unread};
use super::text;
use super::why::APPLIED_UNREAD;

/// How long Windrow waits for a file to come back. `windrow add` creates the marker before the file, and some tools
/// delete files and write them again.
pub(super) const RETURN_GRACE: SignedDuration = SignedDuration::from_mins(10);

/// For a held file that RKE2 has applied.
const APPLIED_ELSEWHERE: &str =
    "Windrow held it here: another server applied it, or its marker was missing for a moment";

#[derive(Debug)]
pub(super) struct LedgerUpdate {
    pub(super) ledger: Arc<Ledger>,
    pub(super) events: Vec<Event>,
}

impl LedgerUpdate {
    /// `outcomes` are in the plan's order.
    pub(super) fn from_outcomes(
        context: &DecisionContext<'_>,
        before: &Arc<Ledger>,
        outcomes: &[FileOutcome],
    ) -> Self {
        let mut update = Self {
            ledger: Arc::clone(before),
            events: Vec::new(),
        };
        for (file, outcome) in context.plan.files.iter().zip(outcomes) {
            let known = before.files.get(&file.path).map(Arc::as_ref);
            let change = EntryChange {
                file,
                before: known,
                context,
                events: &mut update.events,
            };
            let entry = change.next_entry(outcome);
            if entry.as_ref() != known {
                update.set_entry(&file.path, entry);
            }
        }
        update.keep_absent_files(context, before);
        update
    }

    fn set_entry(&mut self, path: &ManifestPath, entry: Option<LedgerEntry>) {
        let files = &mut Arc::make_mut(&mut self.ledger).files;
        match entry {
            Some(entry) => files.insert(path.clone(), Arc::new(entry)),
            None => files.remove(path),
        };
    }

    /// The entry of a removed file stays while RKE2 keeps its objects. yip and configuration management remove files
    /// and write them again, and a released file stays released. The entry of a held file stays for a while if its
    /// release would do harm: if the file comes back, its marker is there first.
    fn keep_absent_files(&mut self, context: &DecisionContext<'_>, before: &Ledger) {
        if context.observation.directory_unread.is_some() {
            return;
        }
        let files = &context.plan.files;
        for (path, known) in &before.files {
            let found = files.binary_search_by(|file| file.path.cmp(path));
            if found.is_ok() {
                continue;
            }
            let mut entry = LedgerEntry::clone(known);
            let held = matches!(entry.state, FileStage::Held { .. });
            if held && entry.reported.vanished.is_none() {
                self.events.push(Event {
                    code: Code::Vanished,
                    file: Some(path.to_string()),
                    message: Code::Vanished.say(&[("file", path)]),
                });
            }
            let since = *entry.reported.vanished.get_or_insert(context.now);
            let marker = context.observation.markers.get(&path.name());
            let harmful = marker
                .and_then(|marker| marker.mark.as_ref())
                .is_some_and(|mark| mark.on_failure == OnFailure::Keep);
            // A hold by hand applies to the name, and outlives the file.
            let by_hand = entry.manual.as_ref().is_some_and(|manual| manual.hold);
            // The clock before the start of this process may have been a different one.
            let gone_since = since.max(context.observation.started);
            let may_return = harmful && context.now.duration_since(gone_since) < RETURN_GRACE;
            if held && !by_hand && !may_return {
                self.set_entry(path, None);
            } else if entry != **known {
                self.set_entry(path, Some(entry));
            }
        }
    }
}

struct EntryChange<'a> {
    file: &'a PlanFile,
    before: Option<&'a LedgerEntry>,
    context: &'a DecisionContext<'a>,
    events: &'a mut Vec<Event>,
}

impl EntryChange<'_> {
    fn next_entry(self, outcome: &FileOutcome) -> Option<LedgerEntry> {
        let now = self.context.now;
        if let Some(before) = self
            .before
            .filter(|entry| is_about_read_content(entry, self.file))
        {
            return Some(self.entry_of_unread(before, outcome));
        }
        let known = self.before.filter(|entry| entry.digest == self.file.digest);
        let state = match outcome {
            FileOutcome::NotOurs => return None,
            // The entry stays as it is. After the other marker is removed, the file is decided again.
            FileOutcome::HeldByOther => return self.before.cloned(),
            FileOutcome::Hold(hold) if hold.after_apply => FileStage::Applied {
                cause: self.cause_before_apply(known),
            },
            FileOutcome::Hold(hold) => FileStage::Held {
                code: hold.code,
                why: hold.why.clone(),
            },
            FileOutcome::Release(cause) => FileStage::Released { cause: *cause },
            FileOutcome::Applied(cause) => FileStage::Applied { cause: *cause },
        };
        let same_stage = known
            .filter(|entry| std::mem::discriminant(&entry.state) == std::mem::discriminant(&state));
        let mut entry = LedgerEntry {
            digest: self.file.digest.clone(),
            first_seen: known.map_or(now, |entry| entry.first_seen),
            since: same_stage.map_or(now, |entry| entry.since),
            state,
            reported: same_stage
                .map(|entry| entry.reported.clone())
                .unwrap_or_default(),
            manual: self.before.and_then(|entry| {
                // A release by hand applies only to the content at that time.
                let keeps = entry.manual.as_ref()?.hold || known.is_some();
                keeps.then(|| entry.manual.clone()).flatten()
            }),
        };
        entry.reported.vanished = None;
        self.report_changes(&mut entry, outcome, known, same_stage.is_some());
        Some(entry)
    }

    /// An unreadable file keeps its entry, except for a hold that ends.
    fn entry_of_unread(mut self, before: &LedgerEntry, outcome: &FileOutcome) -> LedgerEntry {
        let mut entry = before.clone();
        entry.reported.vanished = None;
        if let (FileStage::Held { .. }, FileOutcome::Release(cause)) = (&before.state, outcome) {
            self.report_release(*cause, Some(before));
            entry.state = FileStage::Released { cause: *cause };
            entry.since = self.context.now;
        }
        entry
    }

    fn report_changes(
        mut self,
        entry: &mut LedgerEntry,
        outcome: &FileOutcome,
        known: Option<&LedgerEntry>,
        same_stage: bool,
    ) {
        let path = &self.file.path;
        if !same_stage {
            match &entry.state {
                FileStage::Held { why, .. } => {
                    self.report(Code::Held, &[("file", path), ("why", why)]);
                }
                FileStage::Released { cause } => self.report_release(*cause, known),
                FileStage::Applied {
                    cause: Cause::Escaped,
                } => self.report(Code::Escaped, &[("file", path)]),
                FileStage::Applied { cause } => self.report_applied(*cause),
            }
        }
        let marker_lost =
            same_stage && matches!(entry.state, FileStage::Held { .. }) && self.marker_is_lost();
        if marker_lost && !entry.reported.marker_lost {
            self.report(Code::MarkerLost, &[("file", path)]);
        }
        entry.reported.marker_lost = marker_lost;
        match outcome {
            FileOutcome::Hold(hold) => self.report_overdue(&mut entry.reported, hold),
            FileOutcome::Release(cause) | FileOutcome::Applied(cause) => {
                if *cause == Cause::Met {
                    self.report_regression(&mut entry.reported);
                }
                if matches!(outcome, FileOutcome::Release(_)) {
                    self.report_failure(&mut entry.reported);
                }
            }
            FileOutcome::NotOurs | FileOutcome::HeldByOther => {}
        }
    }

    fn report_applied(&mut self, cause: Cause) {
        let path = &self.file.path;
        self.report(Code::Applied, &[("file", path)]);
        let more = match cause {
            _ if is_unread(self.file) => APPLIED_UNREAD,
            Cause::Elsewhere => APPLIED_ELSEWHERE,
            _ => return,
        };
        if let Some(event) = self.events.last_mut() {
            event.message = [&event.message, "; ", more].concat();
        }
    }

    /// Did something other than Windrow remove the marker? A marker that could not be created never existed.
    fn marker_is_lost(&self) -> bool {
        let (observation, name) = (self.context.observation, &self.file.name);
        let trouble = observation.marker_troubles.get(name);
        !observation.markers.contains_key(name)
            && !matches!(trouble, Some(MarkerTrouble::NotMade(_)))
    }

    fn report_release(&mut self, cause: Cause, known: Option<&LedgerEntry>) {
        let path = &self.file.path;
        let held = |entry: &LedgerEntry| match &entry.state {
            FileStage::Held { code, .. } if *code != Code::Provisional => Some(entry.since),
            _ => None,
        };
        let held_since = known
            .and_then(|entry| matches!(entry.state, FileStage::Held { .. }).then_some(entry.since));
        let changed = self.before.filter(|_| known.is_none()).and_then(held);
        let why = match cause {
            Cause::Free | Cause::SamePass if changed.is_some() => {
                "its content has changed, and this content waits for nothing"
            }
            Cause::Met => "everything it waited for is there",
            Cause::SamePass if held_since.is_some() => {
                "files that RKE2 applies before it in the same pass provide the rest"
            }
            Cause::ByHand => self.who_released(),
            Cause::Yielded => {
                let why = match known.map(|entry| &entry.state) {
                    Some(FileStage::Held { why, .. }) => why,
                    _ => "it is in a cycle",
                };
                return self.report(Code::Yielded, &[("file", path), ("why", why)]);
            }
            Cause::Off if held_since.is_some() => "staging is switched off",
            // Nothing was held, so there is nothing to report.
            Cause::Free | Cause::SamePass | Cause::Escaped | Cause::Elsewhere | Cause::Off => {
                return;
            }
        };
        let since = held_since.or(changed).unwrap_or(self.context.now);
        let age = text::age(since, self.context.now);
        self.report(
            Code::Released,
            &[("file", path), ("age", &age), ("why", why)],
        );
    }

    fn who_released(&self) -> &'static str {
        let manual = self.before.and_then(|entry| entry.manual.as_ref());
        match manual.map(|manual| manual.by.as_str()) {
            Some(Manual::FAILSAFE) => "the fail-safe lifted its hold while Windrow could not run",
            Some(Manual::CLEANUP) => "its hold was lifted when Windrow was removed",
            _ => "released by hand",
        }
    }

    fn report_overdue(&mut self, reported: &mut AlreadyReported, hold: &FileHold) {
        let overdue = hold.overdue.is_some_and(|at| at <= self.context.now);
        if overdue && !reported.overdue {
            reported.overdue = true;
            let path = &self.file.path;
            self.report(Code::Overdue, &[("file", path), ("why", &hold.why)]);
        }
    }

    fn report_regression(&mut self, reported: &mut AlreadyReported) {
        // Only a known "no" counts. Unknown does not.
        let lost = self
            .file
            .requirements()
            .filter(|requirement| requirement.takes_part() && !requirement.inferred)
            .find(|requirement| {
                matches!(
                    self.context.needs[requirement.need],
                    NeedState::NotYet { .. } | NeedState::Failed { .. }
                )
            });
        match lost {
            Some(requirement) if !reported.regressed => {
                reported.regressed = true;
                let what = self.context.plan.needs[requirement.need].target.to_string();
                let path = &self.file.path;
                self.report(Code::Regressed, &[("what", &what), ("file", path)]);
            }
            None => reported.regressed = false,
            Some(_) => {}
        }
    }

    fn report_failure(&mut self, reported: &mut AlreadyReported) {
        let context = self.context;
        let Some(failure) = context.failure_of(self.file) else {
            return;
        };
        let message = format!("{}: {}", failure.reason, failure.message);
        if reported.failure.as_ref() != Some(&message) {
            let path = &self.file.path;
            let why = failure.in_words();
            self.report(Code::ApplyFailed, &[("file", path), ("why", &why)]);
            reported.failure = Some(message);
            reported.failed_since = Some(failure.at);
        }
    }

    /// Why RKE2 could apply a file that it has applied and that is held since then.
    fn cause_before_apply(&self, known: Option<&LedgerEntry>) -> Cause {
        match known.map(|entry| &entry.state) {
            Some(FileStage::Released { cause } | FileStage::Applied { cause }) => *cause,
            Some(stage) if stage.is_once_unconfirmed() => Cause::Met,
            Some(FileStage::Held { .. }) => known.map_or(Cause::Free, |entry| {
                self.context.cause_of_held(self.file, entry)
            }),
            None => Cause::Free,
        }
    }

    fn report(&mut self, code: Code, words: &[(&str, &str)]) {
        self.events.push(Event {
            code,
            file: Some(self.file.path.to_string()),
            message: code.say(words),
        });
    }
}
