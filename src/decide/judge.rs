//! The decision itself: every file's outcome, what follows from it, and what is said.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::files::{Context, Hold, Outcome};
use super::ledger::{Cause, Entry, Ledger, State, Told};
use super::observation::{Mark, Marker, Observation, OnFailure};
use super::say::{self, Verdict};
use super::{Action, Decision, Event, needs};
use crate::plan::{Plan, PlanFile, base_name};
use crate::readiness::NeedState;
use crate::reasons::Code;
use crate::rules::RuleSet;
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
    decide_by(settings, plan, observation, &needs, ledger, now)
}

/// The same, of needs that were judged before.
pub(super) fn decide_by(
    settings: &Settings,
    plan: &Plan,
    observation: &Observation,
    needs: &[NeedState],
    ledger: &Ledger,
    now: Timestamp,
) -> Decision {
    let context = Context {
        staging: &settings.staging,
        plan,
        observation,
        ledger,
        needs,
        now,
    };
    let mut outcomes: Vec<Outcome> = plan
        .files
        .iter()
        .map(|file| context.outcome(file, ledger.files.get(&file.path)))
        .collect();
    hold_together(plan, &mut outcomes);

    let mut verdicts = Vec::with_capacity(outcomes.len());
    let mut next = Ledger {
        cluster: ledger.cluster.clone(),
        ..Ledger::default()
    };
    let mut events = Vec::new();
    let mut holds = Vec::new();
    let mut lifts = Vec::new();
    let mut next_wake: Option<Timestamp> = None;
    for (file, outcome) in plan.files.iter().zip(outcomes) {
        let before = ledger.files.get(&file.path);
        let step = Step {
            file,
            before,
            context: &context,
            events: &mut events,
        };
        let entry = step.take(&outcome);
        let marker = observation.markers.get(&file.name);
        match &outcome {
            Outcome::Hold(hold) => {
                for at in [hold.deadline, hold.overdue].into_iter().flatten() {
                    if at > now {
                        next_wake = Some(next_wake.map_or(at, |wake| wake.min(at)));
                    }
                }
                if marker.is_none_or(|marker| outdated(marker, file, hold)) {
                    let since = entry.as_ref().map_or(now, |entry| entry.since);
                    let path = match marker {
                        Some(marker) => marker.path.clone(),
                        None => marker_path(&file.path),
                    };
                    holds.push(Action::Hold {
                        path,
                        mark: mark(file, hold, since),
                    });
                }
            }
            Outcome::Release(_) | Outcome::Applied(_) => {
                if let Some(marker) = marker.filter(|marker| marker.mark.is_some()) {
                    lifts.push(Action::Lift {
                        path: marker.path.clone(),
                    });
                }
            }
            Outcome::NotOurs | Outcome::HeldByOther => {}
        }
        verdicts.push(Verdict {
            file,
            outcome,
            since: entry.as_ref().map_or(now, |entry| entry.since),
        });
        if let Some(entry) = entry {
            next.files.insert(file.path.clone(), entry);
        }
    }
    keep_absent_files(plan, observation, ledger, now, &mut next, &mut events);
    orphans(plan, observation, &next, now, &mut lifts);
    dedup(&mut holds);
    dedup(&mut lifts);

    let said = say::status(&context, verdicts, &ledger.node);
    next.node = said.memory;
    let next_wake = next_wake.into_iter().chain(said.next_wake).min();
    let mut actions = holds;
    let changed = next != *ledger;
    let next = Arc::new(next);
    if changed {
        actions.push(Action::SaveLedger(Arc::clone(&next)));
    }
    actions.extend(lifts);
    Decision {
        actions,
        ledger: next,
        status: said.status,
        events,
        next_wake,
    }
}

/// A marker hides its name in every directory, so files of one name are held and released together.
fn hold_together(plan: &Plan, outcomes: &mut [Outcome]) {
    for ids in &plan.namesakes {
        let held = ids.iter().find_map(|&id| match &outcomes[id] {
            Outcome::Hold(hold) => Some((id, hold.clone())),
            _ => None,
        });
        let Some((holder, hold)) = held else { continue };
        for &id in ids {
            if matches!(outcomes[id], Outcome::Release(_)) {
                outcomes[id] = Outcome::Hold(Hold {
                    code: Code::SameBaseName,
                    why: format!(
                        "held together with {}, which has the same name",
                        plan.files[holder].path
                    ),
                    blockers: Vec::new(),
                    ..hold.clone()
                });
            }
        }
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
                    self.event(Code::Held, Code::Held.say(&[("file", path), ("why", why)]));
                }
                State::Released { cause } => self.tell_release(*cause, known),
                State::Applied {
                    cause: Cause::Escaped,
                } => {
                    self.event(Code::Escaped, Code::Escaped.say(&[("file", path)]));
                }
                State::Applied { .. } => {
                    self.event(Code::Applied, Code::Applied.say(&[("file", path)]));
                }
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
            self.event(Code::MarkerLost, Code::MarkerLost.say(&[("file", path)]));
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
        let age = say::age(held_since.unwrap_or(self.context.now), self.context.now);
        match cause {
            Cause::Met => self.event(
                Code::Released,
                Code::Released.say(&[
                    ("file", path),
                    ("age", &age),
                    ("why", "everything it waited for is there"),
                ]),
            ),
            Cause::ByHand => self.event(
                Code::Released,
                Code::Released.say(&[("file", path), ("age", &age), ("why", "released by hand")]),
            ),
            Cause::Yielded => {
                let why = match known.map(|entry| &entry.state) {
                    Some(State::Held { why, .. }) => why.clone(),
                    _ => "it stands in a cycle".to_owned(),
                };
                self.event(
                    Code::Yielded,
                    Code::Yielded.say(&[("file", path), ("why", &why)]),
                );
            }
            Cause::Off if held_since.is_some() => self.event(
                Code::Released,
                Code::Released.say(&[
                    ("file", path),
                    ("age", &age),
                    ("why", "staging is switched off"),
                ]),
            ),
            // Nothing was held: nothing to tell.
            Cause::Free | Cause::Escaped | Cause::Off => {}
        }
    }

    fn tell_overdue(&mut self, told: &mut Told, hold: &Hold) {
        let overdue = hold.overdue.is_some_and(|at| at <= self.context.now);
        if overdue && !told.overdue {
            told.overdue = true;
            self.event(
                Code::Overdue,
                Code::Overdue.say(&[("file", &self.file.path), ("why", &hold.why)]),
            );
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
                self.event(
                    Code::Regressed,
                    Code::Regressed.say(&[("what", &what), ("file", &self.file.path)]),
                );
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
            self.event(
                Code::ApplyFailed,
                Code::ApplyFailed.say(&[("file", &self.file.path), ("why", &message)]),
            );
            told.failure = Some(message);
        }
    }

    fn event(&mut self, code: Code, message: String) {
        self.events.push(Event {
            code,
            file: Some(self.file.path.clone()),
            message,
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

/// A file that is gone keeps its entry while RKE2 keeps its objects: yip and configuration
/// management take files away and lay them down again, and released stays released. So does for a
/// while one whose release would do harm: should it be laid down anew, its marker is there before it.
fn keep_absent_files(
    plan: &Plan,
    observation: &Observation,
    before: &Ledger,
    now: Timestamp,
    next: &mut Ledger,
    events: &mut Vec<Event>,
) {
    // Most are there and have their new entry.
    let left = before.files.iter();
    let mut left = left
        .filter(|(path, _)| !next.files.contains_key(*path))
        .peekable();
    if left.peek().is_none() {
        return;
    }
    let present: HashSet<&str> = plan.files.iter().map(|file| file.path.as_str()).collect();
    let left: Vec<_> = left.collect();
    for (path, entry) in left {
        // A file that is there and has no entry any more became RKE2's own.
        if present.contains(path.as_str()) {
            continue;
        }
        let mut entry = entry.clone();
        let held = matches!(entry.state, State::Held { .. });
        if held && entry.told.vanished.is_none() {
            events.push(Event {
                code: Code::Vanished,
                file: Some(path.clone()),
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
        if !held || by_hand || (harmful && now.duration_since(since) < COMING_BACK) {
            next.files.insert(path.clone(), entry);
        }
    }
}

/// Markers of ours whose file is gone, or that hide a file which is not ours to hold.
fn orphans(
    plan: &Plan,
    observation: &Observation,
    next: &Ledger,
    now: Timestamp,
    lifts: &mut Vec<Action>,
) {
    let ours = |marker: &Marker| marker.mark.is_some();
    if !observation.markers.values().any(ours) {
        return;
    }
    let held: HashSet<&str> = plan
        .files
        .iter()
        .filter(|file| file.owner.is_none())
        .map(|file| file.name.as_str())
        .collect();
    for (name, marker) in &observation.markers {
        let Some(mark) = &marker.mark else { continue };
        if held.contains(name.as_str()) {
            continue;
        }
        // `windrow stage` puts the marker first and the file second.
        let staged = mark.code == Code::Provisional && now.duration_since(mark.since) < COMING_BACK;
        let coming = staged
            || next
                .files
                .get(&mark.file)
                .is_some_and(|entry| matches!(entry.state, State::Held { .. }));
        if !coming {
            lifts.push(Action::Lift {
                path: marker.path.clone(),
            });
        }
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
    let mut seen = std::collections::BTreeSet::new();
    actions.retain(|action| match action {
        Action::Hold { path, .. } | Action::Lift { path } => {
            // Files of one name share the marker, wherever they lie.
            seen.insert(base_name(path).to_owned())
        }
        Action::SaveLedger(_) => true,
    });
}

/// The marker of a file, beside it.
pub fn marker_path(file: &str) -> String {
    format!("{file}.skip")
}

fn mark(file: &PlanFile, hold: &Hold, since: Timestamp) -> Mark {
    Mark {
        by: Mark::BY.to_owned(),
        file: file.path.clone(),
        code: hold.code,
        why: hold.why.clone(),
        since,
        on_failure: hold.on_failure,
        digest: file.digest.clone(),
        release: format!("windrow release {}", file.path),
    }
}
