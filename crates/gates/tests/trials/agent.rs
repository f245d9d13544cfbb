//! The daemon's part in gates and the hook, without their system calls: see `crates/daemon/src/daemon/gates`.

use serde::Serialize;
use serde::de::DeserializeOwned;
use windrow_gates::trial::{InEffect, OnDisk, TrialObservation, TrialState, TrialStep, next};
use windrow_gates::{
    Component, DropInSnapshot, FailedDropIn, FailedDropIns, GateChange, KnownGood, LastChange,
    RefusedGates, Rke2State, SettleInputs, Settled, Trial, TrialHistory, TrialOutcome, TrialStarts,
    before_last_change, drop_in_trusting, made_fatal, read_gates, request_text, settle,
    version_text,
};
use windrow_plan::rke2::config::merge;

use super::world::{Asked, By, OWN, PATIENCE, RunState, Seen, World, Written, gates_of};

#[derive(Debug, Default)]
pub(crate) struct Agent {
    trial: Option<Trial>,
    answered: Vec<String>,
}

fn recall<T: DeserializeOwned>(world: &World, name: &str) -> Option<T> {
    let (text, _) = world.records.get(name)?;
    Some(serde_json::from_str(text).unwrap())
}

fn keep<T: Serialize>(world: &mut World, name: &'static str, value: &T) -> Written {
    let text = serde_json::to_string(value).unwrap();
    world.put_record(name, Some(text))
}

/// The trial in the record, which a starting daemon continues.
fn recall_trial(world: &World) -> Option<Trial> {
    recall(world, "trial")
}

fn settled_from(world: &World, current: Option<&str>, rke2: Rke2State) -> Settled {
    let known: Option<KnownGood> = recall(world, "known-good");
    let refused: Option<RefusedGates> = recall(world, "refused");
    let history = TrialHistory {
        proven: known.map(|known| known.proven(OWN)),
        rejected: refused.map(|refused| refused.rejected(OWN)),
        tried: recall_trial(world).and_then(|trial| trial.trusted(OWN)),
        failed: recall(world, "failed").unwrap_or_default(),
        taken_back: recall(world, "taken-back"),
    };
    let (requests, is_read) = world.requests();
    let inputs = SettleInputs {
        requests: &requests,
        target: &world.target(),
        files: &[],
        own: OWN,
        current,
        rke2,
        unread: (!is_read).then_some("the configuration has an error"),
    };
    settle(&inputs, &history)
}

fn settled(world: &World, rke2: Rke2State) -> Settled {
    let trial = recall_trial(world).filter(Trial::under_way);
    let current = world.drop_in.as_deref();
    match &trial {
        Some(trial) if trial.going_back() && !trial.is_back() => {
            let saved = trial.saved.clone().unwrap_or_default();
            settled_from(world, saved.content.as_deref(), Rke2State::Running)
        }
        Some(trial) if trial.in_force() || trial.going_back() => {
            settled_from(world, current, Rke2State::Running)
        }
        _ => settled_from(world, current, rke2),
    }
}

fn settle_drop_in(world: &mut World, rke2: Rke2State) -> Written<Settled> {
    let settled = settled(world, rke2);
    let taken_back = settled.taken_back.as_ref();
    let taken_back = taken_back.map(|record| serde_json::to_string(record).unwrap());
    world.put_record("taken-back", taken_back)?;
    if settled.content != world.drop_in {
        let there = read_gates(OWN, world.drop_in.as_deref().unwrap_or_default(), &[]);
        let mut added = settled.kept.iter();
        let is_asked_for = !settled.removed.is_empty()
            || added.any(|gate| !there.iter().any(|known| known.sets_as(gate)));
        let (current, content) = (world.drop_in.as_deref(), settled.content.as_deref());
        let known = recall(world, "last-change");
        let change = LastChange::after(known, current, content, is_asked_for);
        let text = change.map(|change| serde_json::to_string(&change).unwrap());
        world.put_record("last-change", text)?;
        world.put_drop_in(settled.content.clone(), By::Settling)?;
    }
    Ok(settled)
}

fn remember_refused(
    world: &mut World,
    version: &str,
    gates: &[windrow_gates::GateRequest],
    why: &str,
) -> Written {
    if gates.is_empty() {
        return Ok(());
    }
    let known = recall(world, "refused");
    keep(
        world,
        "refused",
        &RefusedGates::and(known, version, gates, why, OWN),
    )
}

fn remember_failed(world: &mut World, failed: FailedDropIn) -> Written {
    let mut all: FailedDropIns = recall(world, "failed").unwrap_or_default();
    all.add(failed);
    keep(world, "failed", &all)
}

/// The running start of rke2-server; empty if none runs.
fn invocation(world: &World) -> String {
    let run = world.run.as_ref();
    run.map_or_else(String::new, |run| run.invocation.to_string())
}

/// Runs before each start of RKE2.
pub(crate) fn hook(world: &mut World) -> Written {
    let rke2 = if world.is_started {
        Rke2State::Running
    } else {
        Rke2State::Stopped
    };
    let done = prepare_start(world, rke2);
    world.is_started = true;
    done
}

fn prepare_start(world: &mut World, rke2: Rke2State) -> Written {
    match recall_trial(world) {
        Some(trial) if trial.in_force() => count(world, &trial)?,
        _ => own_refusals(world)?,
    }
    settle_drop_in(world, rke2).map(drop)
}

fn count(world: &mut World, trial: &Trial) -> Written {
    if trial.on_disk(world.drop_in.as_deref()) != OnDisk::Asked {
        return Ok(());
    }
    let mut starts: TrialStarts = recall(world, "starts").unwrap_or_default();
    let too_many = starts.count(trial, PATIENCE, Some(&world.moment()));
    keep(world, "starts", &starts)?;
    let Some(too_many) = too_many else {
        return Ok(());
    };
    let saved = trial.saved.clone().unwrap_or_default();
    world.put_drop_in(saved.content, By::Trial)?;
    if too_many.is_failure {
        remember_refused(world, &trial.version, &trial.novel(OWN), &too_many.why)?;
        let failed = Trial {
            why: Some(too_many.why.clone()),
            ..trial.clone()
        };
        remember_failed(world, failed.failed())?;
    }
    starts.put_back = Some(too_many);
    keep(world, "starts", &starts)
}

fn own_refusals(world: &mut World) -> Written {
    let Some(refusal) = world.refusal_of_drop_in().cloned() else {
        return Ok(());
    };
    let version = version_text(&world.target());
    let mut gates = match &world.drop_in {
        Some(text) => read_gates(OWN, text, &[]),
        None => {
            let last: Option<LastChange> = recall(world, "last-change");
            let text = last.and_then(|last| last.content).unwrap_or_default();
            let mut gates = read_gates(OWN, &text, &[]);
            let (requests, _) = world.requests();
            gates.retain(|gate| requests.iter().any(|request| request.sets_as(gate)));
            gates
        }
    };
    gates.retain(|gate| gate.gate == refusal.gate);
    remember_refused(world, &version, &gates, "refused")
}

impl Agent {
    pub(crate) fn is_trying(&self) -> bool {
        self.trial.as_ref().is_some_and(Trial::under_way)
    }

    pub(crate) fn begin(&mut self, world: &mut World) -> Written {
        self.trial = recall_trial(world);
        let moment = world.moment();
        if let Some(trial) = &mut self.trial {
            trial.resume(world.now(), Some(&moment));
        }
        // The former process may have died between its record and its message.
        if let Some(trial) = self.trial.as_ref().filter(|trial| !trial.under_way()) {
            let request = trial.request.clone();
            let is_kept = trial.outcome == Some(TrialOutcome::Kept);
            world.seen.push(Seen::Ended { request, is_kept });
        }
        let under_way = self.trial.as_ref().filter(|trial| trial.under_way());
        let request = under_way.map(|trial| trial.request.clone());
        world.seen.push(Seen::Resumed { request });
        self.settle(world)?;
        if world.run.is_some() {
            world.is_started = true;
        }
        self.take_requests(world)
    }

    pub(crate) fn configuration_changed(&mut self, world: &mut World) -> Written {
        self.take_requests(world)?;
        self.settle(world)
    }

    fn settle(&mut self, world: &mut World) -> Written {
        let rke2 = if world.run.is_some() {
            Rke2State::Running
        } else {
            Rke2State::Stopped
        };
        let settled = settle_drop_in(world, rke2)?;
        if settled.pending && world.tries && !self.is_trying() && world.run.is_some() {
            let name = world.automatic_request();
            self.begin_trial(
                world,
                &name,
                GateChange::Apply,
                false,
                settled.asked.content,
            )?;
        }
        Ok(())
    }

    fn take_requests(&mut self, world: &mut World) -> Written {
        for (name, is_rollback, is_forced) in world.spool.clone() {
            let is_answered = self.answered.contains(&name)
                || self.trial.as_ref().is_some_and(|trial| {
                    trial.request == name || trial.taken_back.as_ref() == Some(&name)
                });
            if !is_answered {
                if is_rollback {
                    self.roll_back(world, &name)?;
                } else {
                    self.apply(world, &name, is_forced)?;
                }
                self.answered.push(name.clone());
            }
            world.remove_request(&name)?;
        }
        Ok(())
    }

    fn apply(&mut self, world: &mut World, name: &str, is_forced: bool) -> Written {
        let (requests, is_read) = world.requests();
        if self.is_trying() || world.run.is_none() || !is_read {
            return Ok(());
        }
        let target = world.target();
        let known: Option<KnownGood> = recall(world, "known-good");
        let proven = known.map(|known| known.proven(OWN));
        let trusted = match proven {
            _ if is_forced => requests.clone(),
            Some(proven) if proven.version == version_text(&target) => proven.gates,
            _ => Vec::new(),
        };
        let asked = drop_in_trusting(&requests, &target, &merge(&[]), &trusted);
        if asked.content == world.drop_in || !is_forced && !asked.left_out.is_empty() {
            return Ok(());
        }
        let inputs = SettleInputs {
            requests: &requests,
            target: &target,
            files: &[],
            own: OWN,
            current: world.drop_in.as_deref(),
            rke2: Rke2State::Running,
            unread: None,
        };
        if !is_forced && made_fatal(&inputs, inputs.current, asked.content.as_deref()).is_some() {
            return Ok(());
        }
        world.seen.push(Seen::Asked(Asked::Apply));
        self.begin_trial(world, name, GateChange::Apply, is_forced, asked.content)
    }

    fn roll_back(&mut self, world: &mut World, name: &str) -> Written {
        let (now, moment) = (world.now(), world.moment());
        let request = name.to_owned();
        if let Some(trial) = self.trial.as_ref().filter(|trial| trial.under_way()) {
            let trial = trial.request.clone();
            world
                .seen
                .push(Seen::Asked(Asked::TakeBack { request, trial }));
            let Some(trial) = &mut self.trial else {
                return Ok(());
            };
            trial.taken_back = Some(name.to_owned());
            trial.taken_back_by = Some("ann".to_owned());
            trial.why = Some("taken back by ann".to_owned());
            if trial.in_force() {
                trial.started |= trial.is_read_by(&invocation(world));
                trial.state = TrialState::RollingBack;
                trial.enter(now, Some(moment));
                trial.baseline = None;
            }
            let trial = trial.clone();
            keep(world, "trial", &trial)?;
            return self.withdraw(world, &trial);
        }
        let known: Option<KnownGood> = recall(world, "known-good");
        let last: Option<LastChange> = recall(world, "last-change");
        let fit = |earlier: Option<&str>| settled_from(world, earlier, Rke2State::Running).content;
        let current = world.drop_in.as_deref();
        let before = before_last_change(current, known.as_ref(), last.as_ref(), fit);
        match before {
            Some(before) if before != world.drop_in => {
                world.seen.push(Seen::Asked(Asked::Rollback));
                self.begin_trial(world, name, GateChange::Rollback, false, before)
            }
            _ => Ok(()),
        }
    }

    fn begin_trial(
        &mut self,
        world: &mut World,
        name: &str,
        change: GateChange,
        forced: bool,
        content: Option<String>,
    ) -> Written {
        let (requests, is_read) = world.requests();
        world.seen.push(Seen::Began {
            request: name.to_owned(),
            is_automatic: name.starts_with("changed-"),
            is_rollback: change == GateChange::Rollback,
            gates: gates_of(content.as_deref()),
        });
        let trial = Trial {
            request: name.to_owned(),
            taken_back: None,
            taken_back_by: None,
            change,
            by: "ann".to_owned(),
            at: world.now(),
            forced,
            version: version_text(&world.target()),
            asked: DropInSnapshot { content },
            request_text: is_read.then(|| request_text(&requests)),
            saved: None,
            state: TrialState::Idle,
            since: world.now(),
            moment: Some(world.moment()),
            baseline: None,
            started: false,
            written: None,
            why: None,
            unverified: Vec::new(),
            unjudged: false,
            disturbed: false,
            ends: Vec::new(),
            outcome: None,
        };
        self.remember(world, &trial)
    }

    fn remember(&mut self, world: &mut World, trial: &Trial) -> Written {
        keep(world, "trial", trial)?;
        self.trial = Some(trial.clone());
        Ok(())
    }

    fn withdraw(&self, world: &mut World, trial: &Trial) -> Written {
        match trial.withdrawal(world.now()) {
            Some(withdrawal) => keep(world, "taken-back", &withdrawal),
            None => Ok(()),
        }
    }

    fn refuse(&self, world: &mut World, trial: &Trial) -> Written {
        if trial.taken_back.is_some() {
            return self.withdraw(world, trial);
        }
        if !trial.disturbed {
            let why = trial.why.clone().unwrap_or_default();
            remember_refused(world, &trial.version, &trial.novel(OWN), &why)?;
        }
        remember_failed(world, trial.failed())
    }

    /// A step of a trial, or a check of RKE2 between trials.
    pub(crate) fn step(&mut self, world: &mut World) -> Written {
        let Some(trial) = self.trial.clone() else {
            return self.watch(world);
        };
        if trial.under_way() {
            self.go_on(world, trial)?;
            return if self.is_trying() {
                Ok(())
            } else {
                self.settle(world)
            };
        }
        if trial.state == TrialState::Idle {
            return self.watch(world);
        }
        // Only the lease has to be released.
        let state = TrialState::Idle;
        self.remember(world, &Trial { state, ..trial })
    }

    fn watch(&mut self, world: &mut World) -> Written {
        let Some(refusal) = world.refusal_of_drop_in() else {
            return Ok(());
        };
        let mut gates = read_gates(OWN, world.drop_in.as_deref().unwrap_or_default(), &[]);
        gates
            .retain(|gate| gate.gate == refusal.gate && gate.component == Component::KubeApiserver);
        if gates.is_empty() {
            return Ok(());
        }
        let version = version_text(&world.target());
        remember_refused(world, &version, &gates, "refused")?;
        self.settle(world)
    }

    fn go_on(&mut self, world: &mut World, mut trial: Trial) -> Written {
        let current = world.drop_in.clone();
        let on_disk = trial.on_disk(current.as_deref());
        let run = world.run.clone();
        let (invocation, is_back) = (invocation(world), trial.is_back());
        let is_settled = match trial.state {
            TrialState::Saved | TrialState::Written => on_disk == OnDisk::Asked,
            TrialState::RollingBack => on_disk == OnDisk::Saved,
            _ => false,
        };
        if trial.baseline.is_none() && is_settled {
            trial.baseline = Some(invocation.clone());
            self.remember(world, &trial)?;
        }
        let restarted = trial.is_read_by(&invocation);
        let is_up = run.as_ref().is_some_and(|run| run.state == RunState::Up);
        let is_judged = matches!(trial.state, TrialState::Verifying | TrialState::RollingBack);
        let ready = is_judged && restarted && is_up;
        let read = run.as_ref().and_then(|run| run.read.as_deref());
        let wanted = trial.asked.content.as_deref();
        let is_as_asked = gates_of(read) == gates_of(wanted);
        let refused =
            run.is_some_and(|run| run.state == RunState::Refused) && is_judged && restarted;
        let starts: Option<TrialStarts> = recall(world, "starts");
        let starts = starts.filter(|starts| starts.any_of(&trial));
        let overdue = trial.overdue(PATIENCE, world.now(), Some(&world.moment()));
        let seen = TrialObservation {
            wanted: trial.taken_back.is_none() && !overdue && !trial.is_met(current.as_deref()),
            leased: is_up || trial.change == GateChange::Rollback,
            saved: trial.saved.is_some(),
            on_disk,
            restarting: world.is_queued,
            restarted,
            started: trial.started
                || on_disk == OnDisk::Asked && (world.is_queued || restarted)
                || starts.is_some(),
            stopped: false,
            ready,
            in_effect: match (ready, is_as_asked) {
                (false, _) => InEffect::Unknown,
                (true, true) => InEffect::AsAsked,
                (true, false) => InEffect::Otherwise,
            },
            refused,
            is_back,
            overdue,
        };
        let (to, steps) = next(trial.state, &seen);
        let before = matches!(trial.state, TrialState::Idle | TrialState::Leased);
        if before && to == TrialState::Idle && !seen.wanted {
            if trial.taken_back.is_some() {
                self.withdraw(world, &trial)?;
            }
            trial.outcome = Some(TrialOutcome::NotTried);
            trial.state = TrialState::Leased;
            trial.enter(world.now(), Some(world.moment()));
            self.remember(world, &trial)?;
            let (request, is_kept) = (trial.request, false);
            world.seen.push(Seen::Ended { request, is_kept });
            return Ok(());
        }
        if to != trial.state {
            self.enter(world, &mut trial, to, &seen, starts)?;
        }
        for step in steps {
            self.take(world, step, &mut trial, current.clone())?;
        }
        Ok(())
    }

    fn enter(
        &mut self,
        world: &mut World,
        trial: &mut Trial,
        to: TrialState,
        seen: &TrialObservation,
        starts: Option<TrialStarts>,
    ) -> Written {
        trial.started |= seen.started || to == TrialState::Verifying;
        match to {
            TrialState::Kept => self.keep_good(world, trial)?,
            TrialState::RollingBack | TrialState::RolledBack
                if trial.state != TrialState::RollingBack =>
            {
                let restored = starts.and_then(|starts| starts.put_back);
                if restored.is_none() {
                    trial.baseline = None;
                }
                let said = world.refusal.as_ref().filter(|_| seen.started);
                let gates = trial.gates(OWN, &[]);
                let is_refused =
                    said.is_some_and(|said| gates.iter().any(|gate| gate.gate == said.gate));
                trial.judge(seen, restored.as_ref(), is_refused);
                let why = trial.why.clone().or(restored.map(|found| found.why));
                trial.why = Some(why.unwrap_or_else(|| "it did not come up".to_owned()));
                if trial.is_remembered() {
                    self.refuse(world, trial)?;
                }
            }
            TrialState::RolledBack if trial.is_remembered() => self.refuse(world, trial)?,
            _ => {}
        }
        trial.state = to;
        trial.enter(world.now(), Some(world.moment()));
        trial.outcome = match to {
            TrialState::Kept => Some(TrialOutcome::Kept),
            TrialState::RolledBack if !seen.started => Some(TrialOutcome::NotTried),
            TrialState::RolledBack => Some(TrialOutcome::RolledBack),
            _ => None,
        };
        self.remember(world, trial)?;
        if trial.outcome.is_some() {
            let (request, is_kept) = (trial.request.clone(), to == TrialState::Kept);
            world.seen.push(Seen::Ended { request, is_kept });
        }
        Ok(())
    }

    fn keep_good(&mut self, world: &mut World, trial: &Trial) -> Written {
        let (version, now) = (version_text(&world.target()), world.now());
        let good = trial.known_good(version, now, recall(world, "known-good"));
        keep(world, "known-good", &good)?;
        let gates = trial.gates(OWN, &[]);
        let refused: Option<RefusedGates> = recall(world, "refused");
        let left = refused.and_then(|refused| refused.without(&gates, OWN));
        let left = left.map(|left| serde_json::to_string(&left).unwrap());
        world.put_record("refused", left)?;
        let mut failed: FailedDropIns = recall(world, "failed").unwrap_or_default();
        failed.forget(&gates, OWN);
        keep(world, "failed", &failed)?;
        if trial.change == GateChange::Rollback {
            self.withdraw(world, trial)?;
            return world.put_record("last-change", None);
        }
        world.put_record("taken-back", None)?;
        let change = LastChange {
            content: trial.asked.content.clone(),
            before: trial.saved.clone().unwrap_or_default().content,
        };
        keep(world, "last-change", &change)
    }

    fn take(
        &mut self,
        world: &mut World,
        step: TrialStep,
        trial: &mut Trial,
        current: Option<String>,
    ) -> Written {
        match step {
            TrialStep::Save => {
                trial.saved = Some(DropInSnapshot { content: current });
                self.remember(world, trial)
            }
            TrialStep::Write => {
                trial.written = Some(world.now());
                trial.baseline = None;
                self.remember(world, trial)?;
                world.put_drop_in(trial.asked.content.clone(), By::Trial)
            }
            TrialStep::Restore => {
                let saved = trial.saved.clone().unwrap_or_default();
                let fit = settled_from(world, saved.content.as_deref(), Rke2State::Running);
                trial.saved = Some(DropInSnapshot {
                    content: fit.content,
                });
                trial.baseline = None;
                self.remember(world, trial)?;
                world.put_drop_in(trial.saved.clone().unwrap_or_default().content, By::Trial)
            }
            TrialStep::Restart => {
                world.is_queued = true;
                world.seen.push(Seen::Restarted {
                    request: trial.request.clone(),
                    is_way_back: trial.state == TrialState::RollingBack,
                });
                Ok(())
            }
            TrialStep::TakeLease | TrialStep::ReleaseLease => Ok(()),
        }
    }
}
