//! The record of a trial: enough to continue after a crash at any point, and to report its end.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dropin::{DropInSnapshot, read_gates};
use super::moment::BootMoment;
use super::note::TrialEnd;
use super::settle::{KnownGood, Rejected};
use super::trial::{OnDisk, TrialObservation, TrialState};
use super::verdicts::{FailedDropIn, TakenBack};
use super::{Component, GateRequest, Proven};

/// The change that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateChange {
    /// To the requests of the configuration.
    Apply,
    /// To the gates before the last change that was kept.
    Rollback,
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialOutcome {
    /// It works, and stays.
    Kept,
    /// It did not work, or was taken back: the former gates are in force again.
    RolledBack,
    /// Nothing was changed.
    NotTried,
    /// Nothing had to be changed.
    Unchanged,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    /// Identifies the request.
    pub request: String,
    #[serde(default)]
    pub taken_back: Option<String>,
    #[serde(default)]
    pub taken_back_by: Option<String>,
    pub change: GateChange,
    /// Who requested it.
    pub by: String,
    pub at: Timestamp,
    /// Is it tried although the check refuses it?
    pub forced: bool,
    /// The version in the form of [`super::version_text`].
    pub version: String,
    /// The drop-in that is tried.
    pub asked: DropInSnapshot,
    /// The requests of the configuration in the form of [`super::request_text`]; `None` if it could not be read
    /// completely.
    #[serde(default)]
    pub request_text: Option<String>,
    /// The former drop-in, as soon as it is saved.
    #[serde(default)]
    pub saved: Option<DropInSnapshot>,
    pub state: TrialState,
    pub since: Timestamp,
    /// The same moment by the clock of its boot.
    #[serde(default)]
    pub moment: Option<BootMoment>,
    /// The start of rke2-server that ran when the drop-in was last changed; a later start has read the new one. `None`
    /// from the time before a change until the change is on disk.
    #[serde(default)]
    pub baseline: Option<String>,
    /// Was a restart with it observed? In a record from before this field existed, it may have been.
    #[serde(default = "started_perhaps")]
    pub started: bool,
    /// When the tried drop-in was (or was about to be) written: a component's messages since then refer to it.
    #[serde(default)]
    pub written: Option<Timestamp>,
    /// Why it is rolled back, or was not tried.
    #[serde(default)]
    pub why: Option<String>,
    #[serde(default)]
    pub unverified: Vec<String>,
    /// Was it rolled back before anything about its gates was known?
    #[serde(default)]
    pub unjudged: bool,
    /// Because another program or an operator changed the drop-in, or stopped rke2-server? Then this server does not try it again
    /// automatically.
    #[serde(default)]
    pub disturbed: bool,
    /// The ends of earlier trials that are not yet reported to the other servers.
    #[serde(default)]
    pub ends: Vec<TrialEnd>,
    #[serde(default)]
    pub outcome: Option<TrialOutcome>,
}

fn started_perhaps() -> bool {
    true
}

impl Trial {
    /// The decision of an operator against the configuration, if the trial is one.
    pub fn withdrawal(&self, at: Timestamp) -> Option<TakenBack> {
        let (by, content) = match (self.change, &self.taken_back) {
            (GateChange::Apply, Some(_)) => (&self.taken_back_by, self.asked.content.clone()),
            (GateChange::Rollback, None) => (&None, self.saved.clone()?.content),
            (GateChange::Apply, None) | (GateChange::Rollback, Some(_)) => return None,
        };
        Some(TakenBack {
            by: by.as_ref().unwrap_or(&self.by).clone(),
            at,
            request: self.request_text.clone(),
            version: self.version.clone(),
            content,
        })
    }

    pub fn failed(&self) -> FailedDropIn {
        FailedDropIn {
            version: self.version.clone(),
            content: self.asked.content.clone(),
            why: self.why.clone().unwrap_or_default(),
        }
    }

    /// The record of a drop-in that works, after it is kept. The gates before a rollback are unknown if `known` does
    /// not have them.
    pub fn known_good(
        &self,
        version: String,
        at: Timestamp,
        known: Option<KnownGood>,
    ) -> KnownGood {
        let content = self.asked.content.clone();
        let earlier = known.filter(|known| known.content == content);
        KnownGood {
            version,
            at,
            previous: match self.change {
                GateChange::Apply => Some(self.saved.clone().unwrap_or_default()),
                GateChange::Rollback => earlier.and_then(|known| known.previous),
            },
            content,
            verified: None,
        }
    }

    /// The `unverified` gates to which the check still applies. A forced gate that was kept stays until another version is installed.
    pub fn unproven(
        &self,
        mut unverified: Vec<GateRequest>,
        version: &str,
        known: Option<&KnownGood>,
        own: &str,
    ) -> Vec<GateRequest> {
        if self.forced {
            return Vec::new();
        }
        let proven = known.map(|known| known.proven(own));
        let proven = proven.filter(|proven| proven.version == version);
        let proven = proven.unwrap_or_default().gates;
        unverified.retain(|gate| !proven.iter().any(|known| gate.sets_as(known)));
        unverified
    }

    /// Decides on the way back whether that shows that its gates do not work. `put_back`: the reason if the hook
    /// restored the saved drop-in. `is_refused`: a component has refused one of its gates.
    pub fn judge(
        &mut self,
        seen: &TrialObservation,
        put_back: Option<&TooManyStarts>,
        is_refused: bool,
    ) {
        // In the states before, no start of rke2-server was observed.
        let was_tried =
            self.state == TrialState::Verifying && seen.on_disk == OnDisk::Asked && !seen.stopped;
        let is_failure = put_back.map_or(is_refused || was_tried, |found| found.is_failure);
        self.unjudged = !is_failure && self.taken_back.is_none();
        self.disturbed = self.unjudged && put_back.is_none();
    }

    /// Does this server remember its end after the way back? A trial without a start shows nothing, and a start that a
    /// reboot interrupted may be repeated.
    pub fn is_remembered(&self) -> bool {
        self.taken_back.is_some() || self.started && (!self.unjudged || self.disturbed)
    }

    /// Was rke2-server started after the last change of the drop-in, if this start is the running one?
    pub fn is_read_by(&self, invocation: &str) -> bool {
        let baseline = self.baseline.as_ref();
        baseline.is_some_and(|baseline| baseline != invocation && !invocation.is_empty())
    }

    /// On the way back: was the saved drop-in on disk in an earlier check?
    pub fn is_back(&self) -> bool {
        self.state == TrialState::RollingBack && self.baseline.is_some()
    }

    pub fn under_way(&self) -> bool {
        self.outcome.is_none()
    }

    /// Is the tried drop-in meant for RKE2's next start?
    pub fn in_force(&self) -> bool {
        self.under_way()
            && matches!(
                self.state,
                TrialState::Saved
                    | TrialState::Written
                    | TrialState::Restarting
                    | TrialState::Verifying
            )
    }

    /// Is the saved drop-in meant for RKE2's next start?
    pub fn going_back(&self) -> bool {
        self.under_way() && self.state == TrialState::RollingBack
    }

    /// The meaning of a drop-in for this trial. Before one is saved, the present one is the working one.
    pub fn on_disk(&self, current: Option<&str>) -> OnDisk {
        // An upgrade can make both the same.
        let is_saved = |saved: &DropInSnapshot| current == saved.content.as_deref();
        if self.state == TrialState::RollingBack && self.saved.as_ref().is_some_and(is_saved) {
            return OnDisk::Saved;
        }
        if current == self.asked.content.as_deref() {
            return OnDisk::Asked;
        }
        match &self.saved {
            Some(saved) if current != saved.content.as_deref() => OnDisk::Other,
            _ => OnDisk::Saved,
        }
    }

    /// The meaning of a drop-in that could not be read. `None`: the trial waits until it can be read.
    ///
    /// An unreadable drop-in is no evidence about the tried one, and does not show that the restored one was changed.
    /// An overdue trial does not wait, and the way back writes the saved drop-in in any case. RKE2 cannot read a
    /// drop-in that is not text either.
    pub fn unreadable(&self, is_text: bool, overdue: bool) -> Option<OnDisk> {
        match (is_text, self.is_back()) {
            (false, _) => Some(OnDisk::Other),
            (true, is_back) if !overdue && (is_back || !self.going_back()) => None,
            (true, true) => Some(OnDisk::Saved),
            (true, false) => Some(OnDisk::Other),
        }
    }

    /// Is the requested drop-in already on disk before the trial has changed anything?
    pub fn is_met(&self, current: Option<&str>) -> bool {
        matches!(self.state, TrialState::Idle | TrialState::Leased)
            && current == self.asked.content.as_deref()
    }

    pub fn enter(&mut self, now: Timestamp, moment: Option<BootMoment>) {
        self.since = now;
        self.moment = moment;
    }

    /// Has its state exceeded its time limit? The wall clock counts only after a reboot.
    pub fn overdue(&self, patience: Duration, now: Timestamp, moment: Option<&BootMoment>) -> bool {
        let lasted = self.moment.as_ref().zip(moment);
        let lasted = lasted.and_then(|(began, moment)| began.until(moment));
        let by_wall_clock = || Duration::try_from(now.duration_since(self.since)).ok();
        let lasted = lasted.or_else(by_wall_clock);
        lasted.is_some_and(|lasted| lasted > patience)
    }

    /// After a reboot, the start with the tried drop-in gets its whole time. True if that changed anything.
    pub fn resume(&mut self, now: Timestamp, moment: Option<&BootMoment>) -> bool {
        let boot = |moment: &BootMoment| moment.boot.clone();
        let is_cut_off = self.in_force()
            && moment.is_some()
            && self.moment.as_ref().map(boot) != moment.map(boot);
        if is_cut_off {
            self.enter(now, moment.cloned());
        }
        is_cut_off
    }

    /// The tried gates, as far as `own`, the drop-in's path, and the requests show.
    pub fn gates(&self, own: &str, requests: &[GateRequest]) -> Vec<GateRequest> {
        read_gates(
            own,
            self.asked.content.as_deref().unwrap_or_default(),
            requests,
        )
    }

    /// The former gates, as soon as they are saved.
    pub fn gates_before(&self, own: &str) -> Vec<GateRequest> {
        let saved = self
            .saved
            .as_ref()
            .and_then(|saved| saved.content.as_deref());
        read_gates(own, saved.unwrap_or_default(), &[])
    }

    /// The gates that are trusted during the trial.
    pub fn trusted(&self, own: &str) -> Option<Proven> {
        self.in_force().then(|| Proven {
            version: self.version.clone(),
            gates: self.gates(own, &[]),
        })
    }

    /// The gates that it adds: a rollback shows that these do not work.
    pub fn novel(&self, own: &str) -> Vec<GateRequest> {
        only_in(self.gates(own, &[]), &self.gates_before(own))
    }

    /// The gates that it removes.
    pub fn going(&self, own: &str) -> Vec<GateRequest> {
        only_in(self.gates_before(own), &self.gates(own, &[]))
    }

    pub fn changes(&self, component: Component, own: &str) -> bool {
        let (novel, going) = (self.novel(own), self.going(own));
        novel
            .iter()
            .chain(&going)
            .any(|gate| gate.component == component)
    }
}

fn only_in(mut these: Vec<GateRequest>, those: &[GateRequest]) -> Vec<GateRequest> {
    these.retain(|gate| !those.iter().any(|known| known.sets_as(gate)));
    these
}

/// How often RKE2 was started with the tried drop-in. The hook before each start writes it, so that a trial ends even
/// if no daemon judges it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialStarts {
    pub request: String,
    pub count: u32,
    /// The first of these starts in the boot of the last one, if the boot is known.
    #[serde(default)]
    pub first: Option<BootMoment>,
    /// Why the saved drop-in was restored before the last start.
    #[serde(default)]
    pub put_back: Option<TooManyStarts>,
}

/// Why RKE2 must not be started with the tried drop-in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TooManyStarts {
    pub why: String,
    /// Does this show that the gates do not work? A start that a reboot has interrupted shows nothing.
    pub is_failure: bool,
}

impl TrialStarts {
    /// The maximum number of starts with the tried drop-in. A start is repeated after a failure or a reboot.
    pub const ALLOWED: u32 = 2;

    pub fn any_of(&self, trial: &Trial) -> bool {
        self.request == trial.request && self.count > 0
    }

    /// Counts one more start. Returns why it must not use the tried drop-in, if so.
    pub fn count(
        &mut self,
        trial: &Trial,
        patience: Duration,
        now: Option<&BootMoment>,
    ) -> Option<TooManyStarts> {
        if self.request != trial.request {
            *self = Self {
                request: trial.request.clone(),
                ..Self::default()
            };
        }
        self.count += 1;
        let since_first = self.first.as_ref().zip(now);
        let since_first = since_first.and_then(|(first, now)| first.until(now));
        let Some(since_first) = since_first else {
            self.first = now.cloned();
            return (self.count > Self::ALLOWED).then(|| TooManyStarts {
                why: format!(
                    "the machine was restarted before a start with it was judged, {} times",
                    self.count - 1
                ),
                is_failure: false,
            });
        };
        let why = if self.count > Self::ALLOWED {
            format!(
                "rke2-server was started {} times with it and did not come up",
                self.count - 1
            )
        } else if since_first > patience {
            // RKE2 itself gives up after a quarter of an hour without kube-apiserver, and restarts.
            "rke2-server did not come up with it and restarts".to_owned()
        } else {
            return None;
        };
        Some(TooManyStarts {
            why,
            is_failure: true,
        })
    }
}

/// The remembered gates that were tried and did not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedGates {
    /// The version in the form of [`super::version_text`].
    pub version: String,
    /// The gates in the form of a drop-in.
    pub content: Option<String>,
    /// The reason in one line, for gates without their own reason.
    pub why: String,
    /// The reasons in one line, by component, gate and value.
    #[serde(default)]
    pub reasons: BTreeMap<String, String>,
}

impl RefusedGates {
    /// Adds gates of a version; those of another version are dropped.
    #[must_use]
    pub fn and(
        known: Option<RefusedGates>,
        version: &str,
        gates: &[GateRequest],
        why: &str,
        own: &str,
    ) -> Self {
        let known = known.filter(|known| known.version == version);
        let known = known.map(|known| known.rejected(own).gates);
        let mut all = known.unwrap_or_default();
        all.retain(|(known, _)| !gates.iter().any(|gate| gate.sets_as(known)));
        all.extend(gates.iter().map(|gate| (gate.clone(), why.to_owned())));
        Self::of(version, &all, why)
    }

    fn of(version: &str, gates: &[(GateRequest, String)], why: &str) -> Self {
        let requests: Vec<GateRequest> = gates.iter().map(|(gate, _)| gate.clone()).collect();
        let reasons = gates.iter().map(|(gate, why)| (key(gate), why.clone()));
        Self {
            version: version.to_owned(),
            content: super::dropin::text(&requests),
            why: why.to_owned(),
            reasons: reasons.collect(),
        }
    }

    /// Drops gates that were observed to work; `None` if nothing remains.
    pub fn without(self, gates: &[GateRequest], own: &str) -> Option<Self> {
        let mut left = self.rejected(own).gates;
        left.retain(|(known, _)| !gates.iter().any(|gate| gate.sets_as(known)));
        (!left.is_empty()).then(|| Self::of(&self.version, &left, &self.why))
    }

    pub fn gates(&self, own: &str) -> Vec<GateRequest> {
        read_gates(own, self.content.as_deref().unwrap_or_default(), &[])
    }

    pub fn rejected(&self, own: &str) -> Rejected {
        let gates = self.gates(own).into_iter().map(|gate| {
            let why = self.reasons.get(&key(&gate)).unwrap_or(&self.why).clone();
            (gate, why)
        });
        Rejected {
            version: self.version.clone(),
            gates: gates.collect(),
        }
    }
}

fn key(gate: &GateRequest) -> String {
    format!("{} {}={}", gate.component, gate.gate, gate.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::InEffect;

    const OWN: &str = "own.yaml";
    const PATIENCE: Duration = Duration::from_secs(600);

    fn snapshot(gates: &str) -> DropInSnapshot {
        DropInSnapshot {
            content: Some(format!(
                "kube-apiserver-arg+:\n- \"feature-gates+={gates}\"\n"
            )),
        }
    }

    fn trial(state: TrialState) -> Trial {
        Trial {
            request: "1".to_owned(),
            taken_back: None,
            taken_back_by: None,
            change: GateChange::Apply,
            by: "ann".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            forced: false,
            version: "1.36.3".to_owned(),
            asked: snapshot("A=true,B=true"),
            request_text: None,
            saved: Some(snapshot("A=true")),
            state,
            since: Timestamp::UNIX_EPOCH,
            baseline: None,
            started: false,
            written: None,
            why: None,
            unverified: Vec::new(),
            unjudged: false,
            disturbed: false,
            ends: Vec::new(),
            moment: None,
            outcome: None,
        }
    }

    fn after(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn an_overdue_trial_does_not_wait_for_a_drop_in_that_cannot_be_read() {
        let verifying = trial(TrialState::Verifying);
        let going_back = trial(TrialState::RollingBack);
        let mut is_back = going_back.clone();
        is_back.baseline = Some("run 1".to_owned());
        for (trial, in_time, overdue) in [
            (&verifying, None, Some(OnDisk::Other)),
            // It is written in any case.
            (&going_back, Some(OnDisk::Other), Some(OnDisk::Other)),
            // Nothing shows that it was changed since then.
            (&is_back, None, Some(OnDisk::Saved)),
        ] {
            assert_eq!(trial.unreadable(true, false), in_time, "{trial:?}");
            assert_eq!(trial.unreadable(true, true), overdue, "{trial:?}");
            for is_overdue in [false, true] {
                let found = trial.unreadable(false, is_overdue);
                assert_eq!(found, Some(OnDisk::Other), "{trial:?}");
            }
        }
    }

    #[test]
    fn a_trial_knows_what_lies_there_and_what_is_new_with_it() {
        let trial = trial(TrialState::Verifying);
        let text = |snapshot: &DropInSnapshot| snapshot.content.clone();
        assert_eq!(trial.on_disk(text(&trial.asked).as_deref()), OnDisk::Asked);
        let saved = trial.saved.clone().unwrap();
        assert_eq!(trial.on_disk(text(&saved).as_deref()), OnDisk::Saved);
        assert_eq!(trial.on_disk(None), OnDisk::Other);
        let novel: Vec<String> = trial.novel(OWN).into_iter().map(|gate| gate.gate).collect();
        assert_eq!(novel, ["B"]);
        assert!(trial.going(OWN).is_empty());
        assert!(trial.changes(Component::KubeApiserver, OWN));
        assert!(!trial.changes(Component::Kubelet, OWN));
        assert_eq!(trial.trusted(OWN).unwrap().gates.len(), 2);
        assert_eq!(
            Trial {
                state: TrialState::RollingBack,
                ..trial
            }
            .trusted(OWN),
            None
        );
    }

    #[test]
    fn a_trial_that_takes_a_gate_away_changes_its_component_too() {
        let trial = Trial {
            asked: snapshot("A=true"),
            saved: Some(snapshot("A=true,B=true")),
            ..trial(TrialState::Verifying)
        };
        let going: Vec<String> = trial.going(OWN).into_iter().map(|gate| gate.gate).collect();
        assert_eq!(going, ["B"]);
        assert!(trial.novel(OWN).is_empty());
        assert!(trial.changes(Component::KubeApiserver, OWN));
    }

    #[test]
    fn what_is_tried_is_in_force_until_it_goes_back_and_neither_once_the_trial_has_ended() {
        for (state, in_force, going_back) in [
            (TrialState::Idle, false, false),
            (TrialState::Leased, false, false),
            (TrialState::Saved, true, false),
            (TrialState::Written, true, false),
            (TrialState::Restarting, true, false),
            (TrialState::Verifying, true, false),
            (TrialState::RollingBack, false, true),
        ] {
            let mut trial = trial(state);
            let is = (trial.in_force(), trial.going_back());
            assert!(trial.under_way());
            assert_eq!(is, (in_force, going_back), "{state:?}");
            trial.outcome = Some(TrialOutcome::RolledBack);
            assert!(!trial.under_way() && !trial.in_force() && !trial.going_back());
        }
    }

    fn moment(boot: &str, seconds: u64) -> Option<BootMoment> {
        Some(BootMoment {
            boot: boot.to_owned(),
            seconds,
        })
    }

    #[test]
    fn a_trial_that_nobody_judges_ends_before_the_third_start_or_the_second_when_time_is_up() {
        let trial = trial(TrialState::Restarting);
        let start = |starts: &mut TrialStarts, seconds| {
            let found = starts.count(&trial, PATIENCE, moment("b1", seconds).as_ref());
            found.map(|found| found.is_failure)
        };
        let mut starts = TrialStarts::default();
        assert_eq!(start(&mut starts, 1), None);
        assert_eq!(start(&mut starts, 2), None);
        assert_eq!(start(&mut starts, 3), Some(true));
        let mut starts = TrialStarts::default();
        assert_eq!(start(&mut starts, 9000), None, "the first is its own");
        assert_eq!(start(&mut starts, 9601), Some(true));
        let other = Trial {
            request: "2".to_owned(),
            ..trial.clone()
        };
        let again = starts.count(&other, PATIENCE, moment("b1", 9602).as_ref());
        assert_eq!(again, None, "counted again");
    }

    #[test]
    fn starts_that_reboots_have_cut_off_end_a_trial_and_show_nothing_about_its_gates() {
        let trial = trial(TrialState::Verifying);
        for boots in [["b1", "b2", "b3"].map(Some), [None; 3]] {
            let mut starts = TrialStarts::default();
            let mut start = |boot: Option<&str>, seconds| {
                let moment = boot.and_then(|boot| moment(boot, seconds));
                starts.count(&trial, PATIENCE, moment.as_ref())
            };
            assert_eq!(start(boots[0], 5000), None);
            assert_eq!(start(boots[1], 90_000), None, "however long it takes");
            assert!(!start(boots[2], 10).unwrap().is_failure);
        }
        let mut starts = TrialStarts::default();
        assert_eq!(
            starts.count(&trial, PATIENCE, moment("b1", 5000).as_ref()),
            None
        );
        assert_eq!(
            starts.count(&trial, PATIENCE, moment("b2", 10).as_ref()),
            None
        );
        let again = starts.count(&trial, PATIENCE, moment("b2", 20).as_ref());
        assert!(
            again.unwrap().is_failure,
            "the start of this boot came to nothing"
        );
    }

    #[test]
    fn a_state_is_overdue_by_the_clock_of_its_boot_and_not_by_one_that_is_set() {
        let mut trial = trial(TrialState::Verifying);
        trial.enter(after(1000), moment("b1", 50));
        for (now, at, overdue) in [
            (after(90_000), moment("b1", 60), false),
            (after(1001), moment("b1", 651), true),
            (after(90_000), None, true),
            (after(0), None, false),
        ] {
            assert_eq!(trial.overdue(PATIENCE, now, at.as_ref()), overdue, "{at:?}");
        }
        let booted = moment("b2", 5);
        assert!(trial.resume(after(90_000), booted.as_ref()));
        assert!(!trial.overdue(PATIENCE, after(90_000), booted.as_ref()));
        assert!(!trial.resume(after(90_001), booted.as_ref()), "once");
        trial.state = TrialState::Idle;
        assert!(!trial.resume(after(1), moment("b3", 1).as_ref()));
    }

    fn seen(on_disk: OnDisk) -> TrialObservation {
        TrialObservation {
            wanted: true,
            leased: true,
            saved: true,
            on_disk,
            restarting: false,
            restarted: true,
            started: true,
            stopped: false,
            ready: false,
            in_effect: InEffect::Unknown,
            refused: false,
            is_back: false,
            overdue: true,
        }
    }

    /// Does the way back from a state show a failure, and does this server remember its end?
    fn judged(
        state: TrialState,
        seen: &TrialObservation,
        put_back: Option<bool>,
        is_refused: bool,
    ) -> (bool, bool) {
        let put_back = put_back.map(|is_failure| TooManyStarts {
            why: "why".to_owned(),
            is_failure,
        });
        let mut trial = Trial {
            started: true,
            ..trial(state)
        };
        trial.judge(seen, put_back.as_ref(), is_refused);
        (!trial.unjudged, trial.is_remembered())
    }

    #[test]
    fn only_a_start_that_was_seen_with_what_is_tried_or_a_refusal_shows_that_its_gates_do_not_work()
    {
        use TrialState::{Restarting, Verifying, Written};
        let asked = seen(OnDisk::Asked);
        assert_eq!(judged(Verifying, &asked, None, false), (true, true));
        let stopped = TrialObservation {
            stopped: true,
            ..asked
        };
        for (state, seen) in [
            (Verifying, stopped),
            (Verifying, seen(OnDisk::Saved)),
            (Verifying, seen(OnDisk::Other)),
            (Written, asked),
            (Restarting, asked),
        ] {
            let is = judged(state, &seen, None, false);
            assert_eq!(
                is,
                (false, true),
                "not tried again automatically: {state:?}"
            );
            let is = judged(state, &seen, None, true);
            assert_eq!(is, (true, true), "refused: {state:?}");
        }
        // The hook has counted the starts.
        let saved = seen(OnDisk::Saved);
        assert_eq!(judged(Verifying, &saved, Some(true), false), (true, true));
        let cut_off = judged(Verifying, &saved, Some(false), false);
        assert_eq!(cut_off, (false, false), "a reboot: it may be tried again");
    }

    #[test]
    fn what_was_never_started_is_not_remembered_but_what_was_taken_back_is() {
        let mut trial = trial(TrialState::Written);
        trial.judge(&seen(OnDisk::Other), None, false);
        assert!(!trial.is_remembered());
        trial.taken_back = Some("2".to_owned());
        trial.judge(&seen(OnDisk::Other), None, false);
        assert!(trial.is_remembered() && !trial.unjudged);
    }

    #[test]
    fn what_was_saved_is_known_to_be_back_once_a_start_after_it_can_be_told() {
        let mut trial = trial(TrialState::Verifying);
        trial.baseline = Some("run 1".to_owned());
        assert!(!trial.is_back());
        assert!(trial.is_read_by("run 2") && !trial.is_read_by("run 1") && !trial.is_read_by(""));
        trial.state = TrialState::RollingBack;
        assert!(trial.is_back());
        trial.baseline = None;
        assert!(!trial.is_back() && !trial.is_read_by("run 2"));
    }

    #[test]
    fn what_was_refused_adds_up_within_a_version_and_is_forgotten_when_it_works() {
        let gates = trial(TrialState::Idle).gates(OWN, &[]);
        let one = RefusedGates::and(None, "1.36.3", &gates[..1], "why", OWN);
        let two = RefusedGates::and(Some(one.clone()), "1.36.3", &gates[1..], "why", OWN);
        assert_eq!(two.gates(OWN).len(), 2);
        let other = RefusedGates::and(Some(two.clone()), "1.36.4", &gates[1..], "why", OWN);
        assert_eq!(other.gates(OWN).len(), 1);
        assert_eq!(
            two.clone()
                .without(&gates[..1], OWN)
                .unwrap()
                .gates(OWN)
                .len(),
            1
        );
        assert_eq!(two.without(&gates, OWN), None);
    }

    #[test]
    fn each_gate_that_did_not_work_keeps_its_own_reason() {
        let gates = trial(TrialState::Idle).gates(OWN, &[]);
        let first = RefusedGates::and(None, "1.36.3", &gates[..1], "because of A", OWN);
        let both = RefusedGates::and(Some(first), "1.36.3", &gates[1..], "because of B", OWN);
        let reasons = |known: &RefusedGates| {
            let gates = known.rejected(OWN).gates.into_iter();
            let reasons: Vec<String> = gates.map(|(gate, why)| gate.gate + ": " + &why).collect();
            reasons.join(", ")
        };
        assert_eq!(reasons(&both), "A: because of A, B: because of B");
        let left = both.clone().without(&gates[1..], OWN).unwrap();
        assert_eq!(reasons(&left), "A: because of A");
        // A record from before the field existed.
        let old = RefusedGates {
            reasons: BTreeMap::new(),
            ..both
        };
        assert_eq!(reasons(&old), "A: because of B, B: because of B");
    }

    #[test]
    fn a_trial_ends_although_an_upgrade_has_made_what_was_saved_the_same_as_what_is_tried() {
        let same = Trial {
            saved: Some(snapshot("A=true,B=true")),
            ..trial(TrialState::RollingBack)
        };
        let current = same.asked.content.as_deref();
        assert_eq!(same.on_disk(current), OnDisk::Saved);
        assert!(!same.is_met(current));
        let before = Trial {
            state: TrialState::Leased,
            ..same.clone()
        };
        assert!(before.is_met(current) && !before.is_met(None));
    }

    #[test]
    fn what_an_operator_takes_back_is_the_text_that_the_configuration_asks_for() {
        let apply = Trial {
            request_text: Some("asked then".to_owned()),
            ..trial(TrialState::Verifying)
        };
        assert_eq!(apply.withdrawal(after(1)), None);
        let back = Trial {
            taken_back: Some("2".to_owned()),
            taken_back_by: Some("bob".to_owned()),
            ..apply.clone()
        };
        let withdrawal = back.withdrawal(after(1)).unwrap();
        assert_eq!(withdrawal.by, "bob");
        assert!(withdrawal.is_of("asked then") && !withdrawal.is_of("asked now"));
        assert_eq!(withdrawal.content, back.asked.content);
        // A kept rollback takes the former gates back.
        let rollback = Trial {
            change: GateChange::Rollback,
            request_text: None,
            ..apply
        };
        let withdrawal = rollback.withdrawal(after(1)).unwrap();
        assert_eq!(withdrawal.by, "ann");
        assert!(withdrawal.is_of("what the next complete configuration asks for"));
        assert_eq!(withdrawal.content, rollback.saved.clone().unwrap().content);
        // A rollback that is taken back itself leaves the requested gates.
        let undone = Trial {
            taken_back: Some("3".to_owned()),
            ..rollback
        };
        assert_eq!(undone.withdrawal(after(1)), None);
    }

    #[test]
    fn a_second_rollback_knows_what_was_in_force_before_only_if_that_was_known() {
        let good = |content: &str, previous: Option<&str>| KnownGood {
            version: "1.36.3".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            content: snapshot(content).content,
            previous: previous.map(snapshot),
            verified: None,
        };
        let rollback = Trial {
            change: GateChange::Rollback,
            asked: snapshot("A=true"),
            ..trial(TrialState::Verifying)
        };
        let record = |trial: &Trial, known| trial.known_good("1.36.3".to_owned(), after(1), known);
        let known = good("A=true", Some("B=true"));
        assert_eq!(
            record(&rollback, Some(known.clone())).previous,
            Some(snapshot("B=true"))
        );
        assert_eq!(
            record(&rollback, Some(good("C=true", Some("B=true")))).previous,
            None
        );
        let apply = Trial {
            change: GateChange::Apply,
            ..rollback
        };
        assert_eq!(record(&apply, Some(known)).previous, apply.saved);
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let trial = trial(TrialState::RollingBack);
        let text = serde_json::to_string(&trial).unwrap();
        assert!(text.contains("\"rolling-back\""), "{text}");
        assert_eq!(serde_json::from_str::<Trial>(&text).unwrap(), trial);
    }
}
