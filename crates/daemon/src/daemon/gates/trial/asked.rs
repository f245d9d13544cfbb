//! Requests to the trial driver from operators or a changed configuration: to begin a trial, or to roll one back.

use windrow_decide::Event;
use windrow_gates::trial::TrialState;
use windrow_gates::{
    self as gates, DropIn, DropInSnapshot, GateChange, KnownGood, LastChange, RequestAnswer,
    Rke2State, TargetVersion, Trial, TrialEnd, TrialOutcome, before_last_change, drop_in_trusting,
    version_text,
};
use windrow_model::reasons::Code;
use windrow_plan::rke2::config::merge;

use super::super::inputs::DropInInputs;
use super::obstacles::{PostponedTrial, automatic_request, ends_of};
use super::{TrialDriver, announce_step, unit};
use crate::act::StateFile;
use crate::layout::Layout;
use crate::observe::kubelet::Kubelet;
use crate::observe::platform::boot_moment;
use crate::observe::probes::disabled_components;
use crate::observe::requests::{RequestAction, SpooledRequest};
use crate::observe::systemd::RKE2_SERVER;
use crate::report::journal;

/// How many answers are kept for callers.
const ANSWERS: usize = 8;
const CONFIGURATION: &str = "the configuration (gates.onChange: try)";

impl TrialDriver {
    /// Handles a request. `node` was read just now.
    pub(in crate::daemon::gates) async fn take_request(
        &mut self,
        name: &str,
        request: &SpooledRequest,
        node: &DropInInputs,
    ) {
        // Its file may come back after a crash, or cannot be removed.
        if self.is_answered(name) {
            return;
        }
        let answer = match request.action {
            RequestAction::GatesRollback => self.rollback(name, &request.by, node).await,
            _ => self.apply(name, request, node).await,
        };
        if let Err((outcome, why)) = answer {
            journal::write_event(&Event::new(
                Code::GateTrialRefused,
                Code::GateTrialRefused.say(&[("gates", "nothing new"), ("why", &why)]),
            ));
            self.answers.push(RequestAnswer {
                request: name.to_owned(),
                outcome,
                why,
            });
            let more = self.answers.len().saturating_sub(ANSWERS);
            self.answers.drain(..more);
        }
    }

    fn is_answered(&self, name: &str) -> bool {
        let by_trial = self.trial.as_ref().is_some_and(|trial| {
            trial.request == name || trial.taken_back.as_deref() == Some(name)
        });
        by_trial || self.answers.iter().any(|answer| answer.request == name)
    }

    async fn apply(
        &mut self,
        name: &str,
        request: &SpooledRequest,
        node: &DropInInputs,
    ) -> Result<(), (TrialOutcome, String)> {
        let not_tried = |why: String| (TrialOutcome::NotTried, why);
        self.nothing_under_way()?;
        let asked = drop_in_of(request, node);
        if let Some(why) = read_by_no_component(node, &asked.written) {
            return Err(not_tried(why));
        }
        let unit = unit().await.map_err(not_tried)?;
        if unit.is_down() {
            return Err(not_tried(format!(
                "{RKE2_SERVER} does not run; what the configuration asks for is written before its next start"
            )));
        }
        if let Some(why) = &node.unread {
            return Err(not_tried(why.clone()));
        }
        if asked.content == node.current {
            let left: Vec<&str> = asked
                .left_out
                .iter()
                .filter(|left| !left.not_meant)
                .map(|left| left.why.as_str())
                .collect();
            return Err(match left.as_slice() {
                [] => (
                    TrialOutcome::Unchanged,
                    "the drop-in already has the requested gates".to_owned(),
                ),
                left => not_tried(left.join("; ")),
            });
        }
        if !request.force {
            let (version, content) = (version_text(&node.resolved.target), &asked.content);
            self.nothing_against(name, &version, content.as_deref(), &node.layout)
                .await?;
        }
        if !request.force
            && let Some(why) = refused_by_kubelet(node, &asked.written).await
        {
            return Err(not_tried(why));
        }
        if !request.force
            && let Some(finding) = node.made_fatal(asked.content.as_deref())
        {
            return Err(not_tried(finding.message));
        }
        self.begin(name, GateChange::Apply, request, asked.content, node)
    }

    /// Rolls back the current trial, or else the last kept one.
    async fn rollback(
        &mut self,
        name: &str,
        by: &str,
        node: &DropInInputs,
    ) -> Result<(), (TrialOutcome, String)> {
        let (now, moment) = ((self.now)(), boot_moment(&node.layout));
        let started = self.may_have_started().await;
        if let Some(trial) = self.trial.as_mut().filter(|trial| trial.under_way()) {
            trial.taken_back = Some(name.to_owned());
            trial.taken_back_by = Some(by.to_owned());
            trial.why = Some(format!("taken back by {by}"));
            if trial.in_force() {
                trial.started |= started;
                trial.state = TrialState::RollingBack;
                trial.enter(now, moment);
                trial.baseline = None;
            }
            let trial = trial.clone();
            self.keep(&trial, node)
                .map_err(|why| (TrialOutcome::NotTried, why))?;
            if let Err(why) = self.withdraw(&trial, &self.site()) {
                self.tell(why);
            }
            return Ok(());
        }
        let known: Option<KnownGood> = StateFile::KnownGood
            .recall(&node.layout)
            .unwrap_or_default();
        let last: Option<LastChange> = StateFile::LastChange
            .recall(&node.layout)
            .unwrap_or_default();
        // It may be from before an upgrade.
        let fit = |earlier: Option<&str>| node.fit(earlier);
        let current = node.current.as_deref();
        let Some(before) = before_last_change(current, known.as_ref(), last.as_ref(), fit) else {
            let why = if current.is_some() {
                "the previous drop-in is unknown"
            } else {
                "no feature gate of Windrow's is set"
            };
            return Err((TrialOutcome::Unchanged, why.to_owned()));
        };
        if before == node.current {
            return Err((
                TrialOutcome::Unchanged,
                "the drop-in from before the last change is in force".to_owned(),
            ));
        }
        let request = SpooledRequest::new(RequestAction::GatesRollback, by, now);
        self.begin(name, GateChange::Rollback, &request, before, node)
    }

    /// Whether rke2-server was started with the tried drop-in. If systemd does not answer, it may have been.
    async fn may_have_started(&self) -> bool {
        let Some(trial) = self.trial.as_ref().filter(|trial| trial.in_force()) else {
            return false;
        };
        match unit().await {
            Ok(unit) => trial.is_read_by(&unit.invocation),
            Err(_) => trial.baseline.is_some(),
        }
    }

    /// Begins a trial of a changed configuration, if the settings allow it.
    pub(in crate::daemon::gates) async fn changed(&mut self, node: &DropInInputs) {
        let now = (self.now)();
        if self.is_giving_back() {
            self.postponed = Some(PostponedTrial::new(None));
            return;
        }
        if !node.settled(Rke2State::Running).pending {
            return;
        }
        let request = SpooledRequest::new(RequestAction::GatesApply, CONFIGURATION, now);
        // A trial that is not possible now is reported as pending.
        let name = automatic_request(now.as_nanosecond());
        let _ = self.apply(&name, &request, node).await;
    }

    /// The last trial is over, but its lease is not returned and the other servers do not know its end.
    fn is_giving_back(&self) -> bool {
        let trial = self.trial.as_ref();
        trial.is_some_and(|trial| !trial.under_way() && trial.state != TrialState::Idle)
    }

    /// The ended trials that the other servers do not know yet.
    fn unreported_ends(&self, layout: &Layout) -> Vec<TrialEnd> {
        let last = self.trial.as_ref().filter(|_| self.is_giving_back());
        last.map_or_else(Vec::new, |trial| ends_of(trial, layout))
    }

    fn nothing_under_way(&self) -> Result<(), (TrialOutcome, String)> {
        match &self.trial {
            Some(trial) if trial.under_way() => Err((
                TrialOutcome::NotTried,
                format!("another trial is under way, asked for by {}", trial.by),
            )),
            _ => Ok(()),
        }
    }

    fn begin(
        &mut self,
        name: &str,
        change: GateChange,
        request: &SpooledRequest,
        content: Option<String>,
        node: &DropInInputs,
    ) -> Result<(), (TrialOutcome, String)> {
        let trial = Trial {
            request: name.to_owned(),
            taken_back: None,
            taken_back_by: None,
            change,
            by: request.by.clone(),
            at: request.at,
            forced: request.force,
            version: version_text(&node.resolved.target),
            asked: DropInSnapshot { content },
            request_text: node.request_text(),
            saved: None,
            state: TrialState::Idle,
            since: (self.now)(),
            moment: boot_moment(&node.layout),
            baseline: None,
            started: false,
            written: None,
            why: None,
            unverified: Vec::new(),
            unjudged: false,
            disturbed: false,
            ends: self.unreported_ends(&node.layout),
            outcome: None,
        };
        self.keep(&trial, node)
            .map_err(|why| (TrialOutcome::NotTried, why))?;
        self.lease = None;
        self.leased = false;
        self.as_asked = None;
        self.obstacle = None;
        announce_step(&trial, &node.own, "waits for its turn in the cluster");
        Ok(())
    }
}

/// The drop-in that a request leads to. For a changed configuration, it does not contain failed gates.
fn drop_in_of(request: &SpooledRequest, node: &DropInInputs) -> DropIn {
    if request.by == CONFIGURATION {
        return node.settled(Rke2State::Running).asked;
    }
    let requests = &node.settings.feature_gates;
    let version = version_text(&node.resolved.target);
    let proven = node.history.proven.as_ref();
    let trusted = if request.force {
        requests.as_slice()
    } else {
        proven
            .filter(|proven| proven.version == version)
            .map_or(&[][..], |proven| proven.gates.as_slice())
    };
    drop_in_trusting(
        requests,
        &node.resolved.target,
        &merge(&node.files),
        trusted,
    )
}

/// Why a restart would show nothing about these gates, if so: each component whose gates change is switched off on this server.
fn read_by_no_component(node: &DropInInputs, gates: &[gates::GateRequest]) -> Option<String> {
    let disabled = disabled_components(&node.layout);
    let there = node.there();
    let is_in =
        |gate: &gates::GateRequest, those: &[_]| those.iter().any(|known| gate.sets_as(known));
    let added = gates.iter().filter(|gate| !is_in(gate, &there));
    let gone = there.iter().filter(|gate| !is_in(gate, gates));
    let mut changed: Vec<&str> = Vec::new();
    for gate in added.chain(gone) {
        if !disabled.contains(&gate.component) {
            return None;
        }
        if !changed.contains(&gate.component.as_str()) {
            changed.push(gate.component.as_str());
        }
    }
    (!changed.is_empty()).then(|| {
        format!(
            "this server does not run {}; the next boot writes these gates",
            changed.join(", ")
        )
    })
}

/// The installed kubelet's refusal of these gates, if it has the version that will start.
async fn refused_by_kubelet(node: &DropInInputs, gates: &[gates::GateRequest]) -> Option<String> {
    let kubelet = Kubelet::find(&node.layout).await?;
    if node.resolved.target != TargetVersion::Known(kubelet.version) {
        return None;
    }
    let gates: Vec<(String, bool)> = gates
        .iter()
        .map(|gate| (gate.gate.clone(), gate.value))
        .collect();
    let refused = kubelet.all_refused(&gates).await.ok()?;
    let first = refused.first()?;
    let gates = first.gates.join(", ");
    Some(Code::GateRefusedByBinary.say(&[("gate", &gates), ("error", &first.line)]))
}
