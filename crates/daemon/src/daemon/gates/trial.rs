//! Runs a trial of feature gates: observes, asks [`next`] for the next step, and takes it. Its state is recorded before
//! each step, so that after a crash it continues from there.
//!
//! The hook that runs before each start of RKE2 (`windrow gates settle`) takes part: it accepts a trial's gates, counts
//! the starts, and restores the saved drop-in if the daemon does not.

mod announce;
mod asked;
mod obstacles;
mod steps;
mod turn;

use std::io::ErrorKind::InvalidData;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use windrow_decide::Event;
use windrow_gates::trial::{InEffect, OnDisk, TrialObservation, TrialState, TrialStep, next};
use windrow_gates::{
    Component, ComponentRefusal, DropInSnapshot, FailedDropIns, GateChange, KnownGood, LastChange,
    RefusedGates, RequestAnswer, TargetVersion, Trial, TrialOutcome, TrialStarts, TrialStatus,
    version_text,
};
use windrow_model::findings::Finding;
use windrow_model::reasons::Code;

use self::announce::{announce_state, announce_step, trial_finding};
use self::obstacles::{KnownObstacle, Obstacle, PostponedTrial};
use super::inputs::DropInInputs;
use super::verification::{Verification, VerificationResult, since_as_asked};
use crate::act::{
    ClusterLease, GatesLock, StateFile, read_drop_in, remember_failed, remember_refused,
};
use crate::apiserver::ApiServer;
use crate::configuration::{Configuration, Published};
use crate::layout::Layout;
use crate::observe::effect;
use crate::observe::platform::boot_moment;
use crate::observe::probes::disabled_components;
use crate::observe::rke2::admin_kubeconfig;
use crate::observe::systemd::{RKE2_SERVER, Systemd, Unit};
use crate::report::journal;

/// The pause between two checks of a state that does not report its changes.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const TRY_AGAIN: Duration = Duration::from_secs(5);

pub(super) struct TrialDriver {
    configured: Published,
    api: ApiServer,
    now: fn() -> Timestamp,
    trial: Option<Trial>,
    answers: Vec<RequestAnswer>,
    lease: Option<ClusterLease>,
    leased: bool,
    waits_for: Option<String>,
    /// Since when kube-apiserver has had the right gates while other components were not observed.
    as_asked: Option<Instant>,
    told: Option<String>,
    obstacle: Option<KnownObstacle>,
    /// An automatic trial that waits, for the end of an upgrade for example.
    postponed: Option<PostponedTrial>,
    untried: Option<String>,
}

struct TrialSite {
    layout: Layout,
    own: String,
    patience: Duration,
}

impl From<&Configuration> for TrialSite {
    fn from(configuration: &Configuration) -> Self {
        let layout = configuration.layout();
        Self {
            own: layout.gates_drop_in().display().to_string(),
            patience: configuration.settings().gates.patience,
            layout: layout.clone(),
        }
    }
}

impl TrialDriver {
    pub(in crate::daemon::gates) fn finding(&self) -> Option<Finding> {
        trial_finding(self.trial.as_ref()?, &self.site().own)
    }

    pub(super) fn new(configured: Published, api: ApiServer, now: fn() -> Timestamp) -> Self {
        let layout = configured.borrow().layout().clone();
        let recalled = StateFile::Trial.recall(&layout);
        let mut trial: Option<Trial> = recalled.unwrap_or_else(|why| {
            // A forced gate is not trusted because of the trial: it is removed before the next start.
            journal::write_event(&Event::new(
                Code::ActionFailed,
                Code::ActionFailed
                    .say(&[("what", "read the trial of feature gates"), ("error", &why)]),
            ));
            None
        });
        if let Some(trial) = &mut trial
            && trial.resume(now(), boot_moment(&layout).as_ref())
        {
            // Without a record, the next daemon does the same.
            let _ = StateFile::Trial.keep(&layout, trial);
        }
        Self {
            configured,
            api,
            now,
            trial,
            answers: Vec::new(),
            lease: None,
            leased: false,
            waits_for: None,
            as_asked: None,
            told: None,
            obstacle: None,
            postponed: None,
            untried: None,
        }
    }

    fn site(&self) -> TrialSite {
        TrialSite::from(&**self.configured.borrow())
    }

    /// The trial for the status document, and the answers to requests.
    pub(super) fn status(&self) -> (Option<TrialStatus>, Vec<RequestAnswer>) {
        let own = self.site().own;
        let trial = self
            .trial
            .as_ref()
            .map(|trial| TrialStatus::new(trial, &own, self.waits_for.clone()));
        (trial, self.answers.clone())
    }

    pub(super) fn trial(&self) -> Option<&Trial> {
        self.trial.as_ref()
    }

    fn keep(&mut self, trial: &Trial, node: &DropInInputs) -> Result<(), String> {
        self.remember(&node.layout, trial)
    }

    /// Writes the record to disk first, because the next actions rely on it. Only a rollback continues without it: the
    /// earlier record names the tried drop-in, and a process that finds this record and the saved drop-in restores it
    /// again.
    fn remember(&mut self, layout: &Layout, trial: &Trial) -> Result<(), String> {
        if let Err(error) = StateFile::Trial.keep(layout, trial) {
            let why = format!("{}: {error}", StateFile::Trial.path(layout).display());
            if !trial.going_back() {
                return Err(why);
            }
            self.tell(why);
        }
        self.trial = Some(trial.clone());
        Ok(())
    }

    /// Records that the tried drop-in does not work, or was taken back. If that fails, the trial goes back but does not
    /// end: the next boot would write the drop-in again.
    fn refuse(&self, trial: &Trial, site: &TrialSite) -> Result<(), String> {
        if trial.taken_back.is_some() {
            return self.withdraw(trial, site);
        }
        if !trial.disturbed {
            let why = trial.why.as_deref().unwrap_or_default();
            let gates = trial.novel(&site.own);
            remember_refused(&site.layout, &trial.version, &gates, why, &site.own)?;
        }
        remember_failed(&site.layout, trial.failed())
    }

    fn withdraw(&self, trial: &Trial, site: &TrialSite) -> Result<(), String> {
        let Some(withdrawal) = trial.withdrawal((self.now)()) else {
            return Ok(());
        };
        StateFile::TakenBack
            .keep(&site.layout, &withdrawal)
            .map_err(|error| error.to_string())
    }

    fn tell(&mut self, why: String) {
        if self.told.as_ref() != Some(&why) {
            let what = "go on with the trial of feature gates";
            journal::write_event(&Event::new(
                Code::ActionFailed,
                Code::ActionFailed.say(&[("what", what), ("error", &why)]),
            ));
            self.told = Some(why);
        }
    }

    /// Does one step. Returns the pause until the next one; `None` when no trial is running.
    pub(super) async fn step(&mut self) -> Option<Duration> {
        let trial = self.trial.clone()?;
        let site = self.site();
        let done = match trial.under_way() {
            true => self.go_on(trial, &site).await,
            false if trial.state != TrialState::Idle => self.give_back(trial, &site).await,
            false => return None,
        };
        match done {
            Ok(pause) => {
                self.told = None;
                Some(pause)
            }
            Err(why) => {
                self.tell(why);
                Some(TRY_AGAIN)
            }
        }
    }

    async fn go_on(&mut self, mut trial: Trial, site: &TrialSite) -> Result<Duration, String> {
        // In this order: an observed start has read the observed drop-in, or an older one.
        let overdue = self.overdue(&trial, site.patience, site);
        let (read, on_disk) = match read_drop_in(&site.layout) {
            Ok(text) => {
                let on_disk = trial.on_disk(text.as_deref());
                (Some(text), on_disk)
            }
            Err(error) => {
                let on_disk = trial.unreadable(error.kind() != InvalidData, overdue);
                (
                    None,
                    on_disk.ok_or_else(|| format!("{}: {error}", site.own))?,
                )
            }
        };
        let is_met = (read.as_ref()).is_some_and(|text| trial.is_met(text.as_deref()));
        let unit = unit().await?;
        let is_back = trial.is_back();
        if trial.baseline.is_none() && is_settled(trial.state, on_disk) {
            trial.baseline = Some(unit.invocation.clone());
            self.remember(&site.layout, &trial)?;
        }
        let restarted = trial.is_read_by(&unit.invocation);
        let judged =
            matches!(trial.state, TrialState::Verifying | TrialState::RollingBack) && restarted;
        let result = match judged {
            true => self.verify(&trial, &unit, site).await,
            false => VerificationResult::not_yet("rke2-server starts"),
        };
        if is_met {
            trial.why = trial
                .why
                .or_else(|| Some("the drop-in is like this already".to_owned()));
        }
        let restarting = unit.job || unit.active == "deactivating";
        self.hold_lease(&trial, site, restarted || restarting, result.ready)
            .await;
        let seen = TrialObservation {
            wanted: trial.taken_back.is_none() && !overdue && !is_met,
            leased: self.leased,
            saved: trial.saved.is_some(),
            on_disk,
            restarting,
            restarted,
            started: trial.started
                || on_disk == OnDisk::Asked && (restarting || restarted)
                || starts_of(&trial, &site.layout).is_some(),
            stopped: unit.is_stopped(),
            ready: result.ready,
            in_effect: result.in_effect,
            refused: result.refused,
            is_back,
            overdue,
        };
        let (to, steps) = next(trial.state, &seen);
        let from = trial.state;
        if matches!(from, TrialState::Idle | TrialState::Leased) {
            if let Some((_, Some(Obstacle::Lasting(why)))) = &self.obstacle {
                trial.why = trial.why.or_else(|| Some(why.clone()));
                return self.never_tried(trial, site);
            }
            if to == TrialState::Idle && !seen.wanted {
                return self.never_tried(trial, site);
            }
        }
        let mut lock = None;
        let is_of_file = |step: &TrialStep| {
            use TrialStep::{Restore, Save, Write};
            matches!(step, Save | Write | Restore)
        };
        // Slow work comes before the lock: the start of RKE2 waits for the lock.
        let fit = if steps.contains(&TrialStep::Restore) {
            self.fit_to_version(&trial).await
        } else {
            None
        };
        let version = if to == TrialState::Kept {
            version_that_runs(&self.api, &site.layout).await
        } else {
            None
        };
        if to != from || steps.iter().any(is_of_file) {
            lock = Some(lock_gates(site).await);
            if read_drop_in(&site.layout).ok() != read {
                return Ok(Duration::ZERO);
            }
        }
        if to == TrialState::Kept && from != to {
            let version = version.unwrap_or_else(|| trial.version.clone());
            self.keep_good(&trial, version, &result, site)?;
        }
        if to != from {
            self.enter(&mut trial, to, &result, &seen, site)?;
        }
        if matches!(from, TrialState::Verifying | TrialState::RollingBack) {
            self.waits_for = result.why.clone();
        } else if to != from {
            self.waits_for = None;
        }
        for step in steps {
            if step == TrialStep::Restart {
                // The hook before the start takes it.
                lock = None;
            }
            let content = match step {
                TrialStep::Restore => fit.clone().or_else(|| trial.saved.clone()),
                _ => read.clone().map(|content| DropInSnapshot { content }),
            };
            self.take_step(step, &mut trial, content.unwrap_or_default(), site)
                .await?;
        }
        drop(lock);
        Ok(if to == from {
            LOOK_AGAIN
        } else {
            Duration::ZERO
        })
    }

    /// Writes the records that have to be on disk before the new state.
    fn enter(
        &mut self,
        trial: &mut Trial,
        to: TrialState,
        result: &VerificationResult,
        seen: &TrialObservation,
        site: &TrialSite,
    ) -> Result<(), String> {
        let (layout, own) = (&site.layout, site.own.as_str());
        // A planned restart is not enough: it may be refused, or the daemon may end before it.
        trial.started |= seen.started || to == TrialState::Verifying;
        match to {
            TrialState::RollingBack | TrialState::RolledBack
                if trial.state != TrialState::RollingBack =>
            {
                let restored = starts_of(trial, layout).and_then(|starts| starts.put_back);
                // After a crash, another daemon may have restored it, and only a start after that has read it. If the
                // hook restored it, the start that it ran for has read it.
                if restored.is_none() {
                    trial.baseline = None;
                }
                let said = said_since_written(trial, seen, site);
                let gates = trial.gates(own, &[]);
                let is_refused = said.as_ref().is_some_and(|said| said.names_any_of(&gates));
                trial.judge(seen, restored.as_ref(), is_refused);
                let said = said.map(|said| format!("kube-apiserver says: {}", said.line));
                let why = trial
                    .why
                    .clone()
                    .or(restored.map(|found| found.why))
                    .or(said)
                    .unwrap_or_else(|| self.why_not(result, seen, site));
                trial.why = Some(why);
                if trial.is_remembered()
                    && let Err(why) = self.refuse(trial, site)
                {
                    self.tell(why);
                }
            }
            // Once more: it may have failed before, in another process too.
            TrialState::RolledBack if trial.is_remembered() => self.refuse(trial, site)?,
            _ => {}
        }
        if to == TrialState::Kept {
            let unverified = result.unverified.iter();
            trial.unverified = unverified
                .map(|unverified| unverified.why.clone())
                .collect();
        }
        trial.state = to;
        trial.enter((self.now)(), boot_moment(layout));
        trial.outcome = match to {
            TrialState::Kept => Some(TrialOutcome::Kept),
            TrialState::RolledBack if !seen.started => Some(TrialOutcome::NotTried),
            TrialState::RolledBack => Some(TrialOutcome::RolledBack),
            _ => None,
        };
        self.remember(layout, trial)?;
        announce_state(trial, own);
        Ok(())
    }

    fn keep_good(
        &mut self,
        trial: &Trial,
        version: String,
        result: &VerificationResult,
        site: &TrialSite,
    ) -> Result<(), String> {
        let (layout, own) = (&site.layout, site.own.as_str());
        let known: Option<KnownGood> = StateFile::KnownGood.recall(layout).unwrap_or_default();
        let unverified = result.unverified.iter();
        let unverified = unverified.flat_map(|unverified| unverified.gates.iter().cloned());
        let unproven = trial.unproven(unverified.collect(), &version, known.as_ref(), own);
        let good = trial.known_good(version, (self.now)(), known);
        let good = good.without_proof_of(&unproven, own);
        let line = |error: std::io::Error| error.to_string();
        StateFile::KnownGood.keep(layout, &good).map_err(line)?;
        let known: Option<RefusedGates> = StateFile::Refused.recall(layout).unwrap_or_default();
        match known.and_then(|known| known.without(&trial.gates(own, &[]), own)) {
            Some(left) => StateFile::Refused.keep(layout, &left),
            None => StateFile::Refused.forget(layout),
        }
        .map_err(line)?;
        let failed: Option<FailedDropIns> = StateFile::Failed.recall(layout).unwrap_or_default();
        if let Some(mut failed) = failed {
            failed.forget(&trial.gates(own, &[]), own);
            StateFile::Failed.keep(layout, &failed).map_err(line)?;
        }
        match trial.change {
            GateChange::Apply => {
                StateFile::TakenBack.forget(layout).map_err(line)?;
                let change = LastChange {
                    content: trial.asked.content.clone(),
                    before: trial.saved.clone().unwrap_or_default().content,
                };
                StateFile::LastChange.keep(layout, &change).map_err(line)?;
            }
            GateChange::Rollback => {
                self.withdraw(trial, site)?;
                StateFile::LastChange.forget(layout).map_err(line)?;
            }
        }
        Ok(())
    }

    fn why_not(
        &self,
        result: &VerificationResult,
        seen: &TrialObservation,
        site: &TrialSite,
    ) -> String {
        let patience = site.patience.as_secs();
        let told = |why: &Option<String>| match why {
            Some(why) => format!(": {why}"),
            None => String::new(),
        };
        match (seen.on_disk, &result.why) {
            (OnDisk::Asked, _) if seen.stopped => {
                format!("rke2-server was stopped, and not started again within {patience} s")
            }
            (OnDisk::Asked, _) if !seen.started => format!(
                "its turn in the cluster was lost, and did not come again within {} s{}",
                patience,
                told(&self.waits_for)
            ),
            (OnDisk::Saved, _) if !seen.started && seen.overdue => {
                format!("{} was not written within {} s", site.own, patience)
            }
            (OnDisk::Asked, Some(why)) if result.in_effect == InEffect::Otherwise => why.clone(),
            (OnDisk::Asked, why) => format!(
                "rke2-server did not come up with it within {} s{}",
                patience,
                told(why)
            ),
            _ => format!("{} was changed by something else meanwhile", site.own),
        }
    }

    fn never_tried(&mut self, mut trial: Trial, site: &TrialSite) -> Result<Duration, String> {
        if trial.taken_back.is_some() {
            self.withdraw(&trial, site)?;
        }
        let why = trial.why.clone().unwrap_or_else(|| {
            let waited = match &self.waits_for {
                Some(waited) => format!(": {waited}"),
                None => String::new(),
            };
            format!(
                "its turn in the cluster did not come within {} s{waited}",
                site.patience.as_secs()
            )
        });
        trial.why = Some(why);
        trial.outcome = Some(TrialOutcome::NotTried);
        // Giving the lease back shows whether it was ours.
        trial.state = TrialState::Leased;
        trial.enter((self.now)(), boot_moment(&site.layout));
        self.remember(&site.layout, &trial)?;
        announce_state(&trial, &site.own);
        Ok(Duration::ZERO)
    }

    fn overdue(&self, trial: &Trial, patience: Duration, site: &TrialSite) -> bool {
        trial.overdue(patience, (self.now)(), boot_moment(&site.layout).as_ref())
    }

    async fn verify(&mut self, trial: &Trial, unit: &Unit, site: &TrialSite) -> VerificationResult {
        let back = trial.state == TrialState::RollingBack;
        let verification = Verification {
            api: &self.api,
            layout: &site.layout,
            unit,
            gates: match back {
                true => trial.gates_before(&site.own),
                false => trial.gates(&site.own, &[]),
            },
            failed: if back {
                let mut failed = trial.novel(&site.own);
                failed.retain(|gate| gate.component == Component::KubeApiserver);
                failed
            } else {
                Vec::new()
            },
            changed: Component::ALL
                .into_iter()
                .filter(|component| trial.changes(*component, &site.own))
                .collect(),
            since: match back {
                true => Some(trial.since),
                false => trial.written,
            },
        };
        let result = verification.run(self.as_asked).await;
        self.as_asked = since_as_asked(self.as_asked, &result, Instant::now());
        result
    }
}

/// Whether the drop-in has the content that belongs to this state, so that later starts have read it.
fn is_settled(state: TrialState, on_disk: OnDisk) -> bool {
    match state {
        TrialState::Saved | TrialState::Written => on_disk == OnDisk::Asked,
        TrialState::RollingBack => on_disk == OnDisk::Saved,
        _ => false,
    }
}

/// The starts with this trial's drop-in that the hook counted, if any.
fn starts_of(trial: &Trial, layout: &Layout) -> Option<TrialStarts> {
    let starts: Option<TrialStarts> = StateFile::Starts.recall(layout).unwrap_or_default();
    starts.filter(|starts| starts.any_of(trial))
}

/// The refusal of a feature gate by kube-apiserver since the drop-in was written, if rke2-server was started with it.
fn said_since_written(
    trial: &Trial,
    seen: &TrialObservation,
    site: &TrialSite,
) -> Option<ComponentRefusal> {
    let written = trial.written.filter(|_| seen.started)?;
    let said = effect::refusal(&site.layout, Component::KubeApiserver, Some(written));
    said.map(|(said, _)| said)
}

/// The version that kube-apiserver of this server reports, as [`version_text`] writes it.
async fn version_that_runs(api: &ApiServer, layout: &Layout) -> Option<String> {
    if disabled_components(layout).contains(&Component::KubeApiserver) {
        return None;
    }
    let client = effect::client(api, &admin_kubeconfig(layout), Component::KubeApiserver).await;
    let version = client.ok()?.apiserver_version().await.ok()?.git_version;
    let version = version.parse().ok()?;
    Some(version_text(&TargetVersion::Known(version)))
}

/// Waits for another process that changes the gates, for a second at most.
async fn lock_gates(site: &TrialSite) -> Option<GatesLock> {
    let layout = site.layout.clone();
    let taken = tokio::task::spawn_blocking(move || GatesLock::take(&layout));
    taken.await.ok()
}

async fn unit() -> Result<Unit, String> {
    Systemd::connect().await?.unit(RKE2_SERVER).await
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
