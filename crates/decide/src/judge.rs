//! The decision itself: every file's outcome, what follows from it, and what is said.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use windrow_model::manifest;
use windrow_model::reasons::Code;
use windrow_plan::readiness::NeedState;
use windrow_plan::rules::RuleSet;
use windrow_plan::{Plan, PlanFile, base_name};

use super::files::{Context, Hold, Outcome};
use super::ledger::{Cause, Entry, Ledger, Manual, State, Told};
use super::lookup::Lookup;
use super::observation::{Mark, Marker, Observation, OnFailure};
use super::status::Status;
use super::verdicts::Verdicts;
use super::{Action, Decision, Event, Steps, needs, say};
use crate::settings::Settings;

/// So long a marker waits for the file that `windrow stage` puts behind it, and for one that would do
/// harm and is gone: tools delete files and lay them down again.
const COMING_BACK: SignedDuration = SignedDuration::from_mins(10);

/// Decides. Pure: the same values in, the same values out.
pub fn decide(
    settings: &Settings,
    rules: &RuleSet,
    plan: &Plan,
    observation: &Observation,
    ledger: &Ledger,
    now: Timestamp,
) -> Decision {
    let needs: Vec<NeedState> = plan
        .needs
        .iter()
        .map(|need| needs::judge(need, rules, observation))
        .collect();
    let ledger = Arc::new(ledger.clone());
    let context = Context {
        staging: &settings.staging,
        plan,
        observation,
        ledger: &ledger,
        needs: &needs,
        now,
        is_silent: false,
    };
    let mut verdicts = Verdicts::default();
    let course = course(&context, &mut verdicts, &Lookup::of(plan));
    let (steps, status) = course.told(&context, &verdicts);
    Decision { steps, status }
}

/// What follows from an observation, but for what is said of it.
#[derive(Debug)]
pub(super) struct Course {
    holds: Vec<Action>,
    lifts: Vec<Action>,
    ledger: Arc<Ledger>,
    events: Vec<Event>,
    next_wake: Option<Timestamp>,
    /// A file is applied now, or is not any more, or it is another content of it.
    pub(super) finishes: bool,
}

impl Course {
    /// What is to be done, and what is said of it.
    pub(super) fn told(mut self, context: &Context<'_>, verdicts: &Verdicts) -> (Steps, Status) {
        let said = say::status(context, verdicts, &self.ledger);
        if self.ledger.node != said.memory {
            Arc::make_mut(&mut self.ledger).node = said.memory;
        }
        self.next_wake = self.next_wake.into_iter().chain(said.next_wake).min();
        (self.steps(context), said.status)
    }

    /// What is to be done.
    pub(super) fn steps(self, context: &Context<'_>) -> Steps {
        let mut actions = self.holds;
        if !Arc::ptr_eq(&self.ledger, context.ledger) {
            actions.push(Action::SaveLedger(Arc::clone(&self.ledger)));
        }
        actions.extend(self.lifts);
        Steps {
            actions,
            ledger: self.ledger,
            events: self.events,
            next_wake: self.next_wake,
        }
    }
}

/// Decides again what has to be, and takes what follows from it.
pub(super) fn course(context: &Context<'_>, verdicts: &mut Verdicts, lookup: &Lookup) -> Course {
    let Context { plan, now, .. } = *context;
    let mut course = Course {
        holds: Vec::new(),
        lifts: Vec::new(),
        ledger: Arc::clone(context.ledger),
        events: Vec::new(),
        next_wake: None,
        finishes: false,
    };
    for id in verdicts.look(context, lookup).iter() {
        let file = &plan.files[id];
        let outcome = verdicts.of(id);
        let before = verdicts.entry_of(id).map(Arc::as_ref);
        let step = Step {
            file,
            before,
            context,
            events: &mut course.events,
        };
        let entry = step.take(outcome);
        let acts = course.mark(context, file, outcome, entry.as_ref());
        if before != entry.as_ref() {
            course.finishes |= !finished_alike(before, entry.as_ref());
            let entry = entry.map(Arc::new);
            let files = &mut Arc::make_mut(&mut course.ledger).files;
            match &entry {
                Some(entry) => match files.get_mut(file.path.as_str()) {
                    Some(known) => *known = Arc::clone(entry),
                    None => {
                        files.insert(file.path.as_str().into(), Arc::clone(entry));
                    }
                },
                None => {
                    files.remove(file.path.as_str());
                }
            }
            verdicts.enter(id, entry);
            verdicts.doubt(lookup.advised_by(id));
        }
        // Until what has to be done is seen to be done.
        if acts {
            verdicts.carried_out(&[id]);
        }
    }
    for outcome in verdicts.outcomes() {
        if let Outcome::Hold(hold) = outcome {
            for at in [hold.deadline, hold.overdue].into_iter().flatten() {
                if at > now && course.next_wake.is_none_or(|wake| at < wake) {
                    course.next_wake = Some(at);
                }
            }
        }
    }
    if verdicts.lack_files() {
        course.keep_absent_files(context, lookup);
    }
    if verdicts.has_strays(context, lookup) {
        course.lift_orphans(context, lookup);
    }
    if lookup.has_namesakes() {
        // What one file needs no longer may hide another.
        let held = verdicts.held_names(plan);
        course.lifts.retain(|action| match action {
            Action::Lift { path } => !held.contains(hidden_name(path)),
            Action::Hold { .. } | Action::SaveLedger(_) => true,
        });
        dedup(&mut course.holds);
        dedup(&mut course.lifts);
    }
    course
}

impl Course {
    /// What has to be done about a file's marker; true when there is something.
    fn mark(
        &mut self,
        context: &Context<'_>,
        file: &PlanFile,
        outcome: &Outcome,
        entry: Option<&Entry>,
    ) -> bool {
        let marker = context.observation.markers.get(&file.name);
        match outcome {
            Outcome::Hold(hold) if marker.is_none_or(|marker| outdated(marker, file, hold)) => {
                let since = entry.map_or(context.now, |entry| entry.since);
                let path = match marker {
                    Some(marker) => marker.path.clone(),
                    None => marker_path(&file.path),
                };
                self.holds.push(Action::Hold {
                    path,
                    mark: Arc::new(mark(file, hold, since)),
                });
                true
            }
            Outcome::Release(_) | Outcome::Applied(_) => {
                let ours = marker.filter(|marker| marker.mark.is_some());
                self.lifts.extend(ours.map(|marker| Action::Lift {
                    path: marker.path.clone(),
                }));
                ours.is_some()
            }
            Outcome::Hold(_) | Outcome::NotOurs | Outcome::HeldByOther => false,
        }
    }

    /// A file that is gone keeps its entry while RKE2 keeps its objects: yip and configuration
    /// management take files away and lay them down again, and released stays released. So does for a
    /// while one whose release would do harm: should it be laid down anew, its marker is there before
    /// it.
    fn keep_absent_files(&mut self, context: &Context<'_>, lookup: &Lookup) {
        let Context {
            observation, now, ..
        } = *context;
        for (path, before) in &context.ledger.files {
            // One that is there has its new entry; one that is there and has none became RKE2's own.
            if lookup.has(context.plan, path) {
                continue;
            }
            let mut entry = Entry::clone(before);
            let held = matches!(entry.state, State::Held { .. });
            if held && entry.told.vanished.is_none() && !context.is_silent {
                self.events.push(Event {
                    code: Code::Vanished,
                    file: Some(path.to_string()),
                    message: Code::Vanished.say(&[("file", path)]),
                });
            }
            let since = *entry.told.vanished.get_or_insert(now);
            let harmful = observation
                .markers
                .get(base_name(path))
                .and_then(|marker| marker.mark.as_ref())
                .is_some_and(|mark| mark.on_failure == OnFailure::Keep);
            // A hold by hand was meant for the name, and outlives the file.
            let by_hand = entry.manual.as_ref().is_some_and(|manual| manual.hold);
            let stays = !held || by_hand || (harmful && now.duration_since(since) < COMING_BACK);
            if !stays {
                Arc::make_mut(&mut self.ledger).files.remove(path);
            } else if entry != **before {
                let files = &mut Arc::make_mut(&mut self.ledger).files;
                files.insert(path.clone(), Arc::new(entry));
            }
        }
    }

    /// Markers of ours whose file is gone, or that hide a file which is not ours to hold.
    fn lift_orphans(&mut self, context: &Context<'_>, lookup: &Lookup) {
        let markers = context.observation.markers.iter();
        let mut strays: Vec<_> = markers
            .filter(|(name, _)| !lookup.hides_ours(context.plan, name))
            .collect();
        strays.sort_unstable_by_key(|(name, _)| *name);
        for (_, marker) in strays {
            let Some(mark) = &marker.mark else { continue };
            // `windrow stage` puts the marker first and the file second.
            let staged = mark.code == Code::Provisional
                && context.now.duration_since(mark.since) < COMING_BACK;
            let entry = self.ledger.files.get(mark.file.as_str());
            let coming =
                staged || entry.is_some_and(|entry| matches!(entry.state, State::Held { .. }));
            if !coming {
                self.lifts.push(Action::Lift {
                    path: marker.path.clone(),
                });
            }
        }
    }
}

/// Is a file finished, or not, after a decision as before it?
fn finished_alike(before: Option<&Entry>, after: Option<&Entry>) -> bool {
    let applied = |entry: &&Entry| matches!(entry.state, State::Applied { .. });
    match (before.filter(applied), after.filter(applied)) {
        (Some(before), Some(after)) => before.digest == after.digest,
        (before, after) => before.is_none() && after.is_none(),
    }
}

/// One file's way from its old ledger entry to its new one.
struct Step<'a> {
    file: &'a PlanFile,
    before: Option<&'a Entry>,
    context: &'a Context<'a>,
    events: &'a mut Vec<Event>,
}

impl Step<'_> {
    fn take(self, outcome: &Outcome) -> Option<Entry> {
        let now = self.context.now;
        let known = self.before.filter(|entry| entry.digest == self.file.digest);
        let state = match outcome {
            Outcome::NotOurs => return None,
            // Left as it is: when the other's marker goes, the file is decided anew.
            Outcome::HeldByOther => return self.before.cloned(),
            Outcome::Hold(hold) if hold.after_apply => State::Applied {
                cause: cause_of(known),
            },
            Outcome::Hold(hold) => State::Held {
                code: hold.code,
                why: hold.why.clone(),
            },
            Outcome::Release(cause) => State::Released { cause: *cause },
            Outcome::Applied(cause) => State::Applied { cause: *cause },
        };
        let same_stage = known
            .filter(|entry| std::mem::discriminant(&entry.state) == std::mem::discriminant(&state));
        let mut entry = Entry {
            digest: self.file.digest.clone(),
            first_seen: known.map_or(now, |entry| entry.first_seen),
            since: same_stage.map_or(now, |entry| entry.since),
            state,
            told: same_stage
                .map(|entry| entry.told.clone())
                .unwrap_or_default(),
            manual: self.before.and_then(|entry| {
                // A release by hand was meant for the content that was there.
                let keeps = entry.manual.as_ref()?.hold || known.is_some();
                keeps.then(|| entry.manual.clone()).flatten()
            }),
        };
        entry.told.vanished = None;
        self.tell(&mut entry, outcome, known, same_stage.is_some());
        Some(entry)
    }

    fn tell(
        mut self,
        entry: &mut Entry,
        outcome: &Outcome,
        known: Option<&Entry>,
        same_stage: bool,
    ) {
        let path = &self.file.path;
        if !same_stage {
            match &entry.state {
                State::Held { why, .. } => {
                    self.event(Code::Held, &[("file", path), ("why", why)]);
                }
                State::Released { cause } => self.tell_release(*cause, known),
                State::Applied {
                    cause: Cause::Escaped,
                } => self.event(Code::Escaped, &[("file", path)]),
                State::Applied { .. } => self.event(Code::Applied, &[("file", path)]),
            }
        }
        let marker_lost = same_stage
            && matches!(entry.state, State::Held { .. })
            && !self
                .context
                .observation
                .markers
                .contains_key(&self.file.name);
        if marker_lost && !entry.told.marker_lost {
            self.event(Code::MarkerLost, &[("file", path)]);
        }
        entry.told.marker_lost = marker_lost;
        match outcome {
            Outcome::Hold(hold) => self.tell_overdue(&mut entry.told, hold),
            Outcome::Release(cause) | Outcome::Applied(cause) => {
                if *cause == Cause::Met {
                    self.tell_regression(&mut entry.told);
                }
                if matches!(outcome, Outcome::Release(_)) {
                    self.tell_failure(&mut entry.told);
                }
            }
            Outcome::NotOurs | Outcome::HeldByOther => {}
        }
    }

    fn tell_release(&mut self, cause: Cause, known: Option<&Entry>) {
        let path = &self.file.path;
        let held_since = known
            .and_then(|entry| matches!(entry.state, State::Held { .. }).then_some(entry.since));
        let why = match cause {
            Cause::Met => "everything it waited for is there",
            Cause::ByHand => self.who_released(),
            Cause::Yielded => {
                let why = match known.map(|entry| &entry.state) {
                    Some(State::Held { why, .. }) => why,
                    _ => "it stands in a cycle",
                };
                return self.event(Code::Yielded, &[("file", path), ("why", why)]);
            }
            Cause::Off if held_since.is_some() => "staging is switched off",
            // Nothing was held: nothing to tell.
            Cause::Free | Cause::Escaped | Cause::Off => return,
        };
        if self.context.is_silent {
            return;
        }
        let age = say::age(held_since.unwrap_or(self.context.now), self.context.now);
        self.event(
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

    fn tell_overdue(&mut self, told: &mut Told, hold: &Hold) {
        let overdue = hold.overdue.is_some_and(|at| at <= self.context.now);
        if overdue && !told.overdue {
            told.overdue = true;
            let path = &self.file.path;
            self.event(Code::Overdue, &[("file", path), ("why", &hold.why)]);
        }
    }

    fn tell_regression(&mut self, told: &mut Told) {
        // Only what is known not to hold: Unknown is not a "no".
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
            Some(requirement) if !told.regressed => {
                told.regressed = true;
                let what = self.context.plan.needs[requirement.need].target.to_string();
                let path = &self.file.path;
                self.event(Code::Regressed, &[("what", &what), ("file", path)]);
            }
            None => told.regressed = false,
            Some(_) => {}
        }
    }

    fn tell_failure(&mut self, told: &mut Told) {
        let failure = self.context.observation.failures.get(&self.file.addon);
        let Some(failure) = failure else { return };
        let message = format!("{}: {}", failure.reason, failure.message);
        if told.failure.as_ref() != Some(&message) {
            let path = &self.file.path;
            self.event(Code::ApplyFailed, &[("file", path), ("why", &message)]);
            told.failure = Some(message);
        }
    }

    fn event(&mut self, code: Code, words: &[(&str, &str)]) {
        if self.context.is_silent {
            return;
        }
        self.events.push(Event {
            code,
            file: Some(self.file.path.clone()),
            message: code.say(words),
        });
    }
}

fn cause_of(known: Option<&Entry>) -> Cause {
    match known.map(|entry| &entry.state) {
        Some(State::Released { cause } | State::Applied { cause }) => *cause,
        Some(State::Held { .. }) => Cause::Escaped,
        None => Cause::Free,
    }
}

/// Does the marker on disk not say any more what it has to say?
fn outdated(marker: &Marker, file: &PlanFile, hold: &Hold) -> bool {
    marker.mark.as_ref().is_some_and(|old| {
        old.code == Code::Provisional
            || old.on_failure != hold.on_failure
            || (old.file == file.path && old.digest != file.digest)
    })
}

fn dedup(actions: &mut Vec<Action>) {
    if actions.len() < 2 {
        return;
    }
    let mut seen = std::collections::BTreeSet::new();
    actions.retain(|action| match action {
        Action::Hold { path, .. } | Action::Lift { path } => {
            // Files of one name share the marker, wherever they lie.
            seen.insert(base_name(path).to_owned())
        }
        Action::SaveLedger(_) => true,
    });
}

/// The base name that a marker hides.
pub fn hidden_name(marker: &str) -> &str {
    let name = base_name(marker);
    name.strip_suffix(manifest::MARKER_SUFFIX).unwrap_or(name)
}

/// The marker of a file, beside it.
pub fn marker_path(file: &str) -> String {
    [file, manifest::MARKER_SUFFIX].concat()
}

fn mark(file: &PlanFile, hold: &Hold, since: Timestamp) -> Mark {
    Mark {
        by: Mark::BY.to_owned(),
        file: file.path.clone(),
        code: hold.code,
        why: Mark::shortened(&hold.why),
        since,
        on_failure: hold.on_failure,
        digest: file.digest.clone(),
        release: ["windrow release ", &file.path].concat(),
    }
}
