//! What people, or a changed configuration, ask of the driver of trials: to begin a trial, or to roll one back.

use windrow_decide::Event;
use windrow_gates::trial::TrialState;
use windrow_gates::{
    self as gates, DropInSnapshot, GateChange, KnownGood, RequestAnswer, TargetVersion, Trial,
    TrialOutcome, drop_in_trusting, version_text,
};
use windrow_model::reasons::Code;
use windrow_plan::rke2::config::merge;

use super::super::inputs::DropInInputs;
use super::obstacles::{PostponedTrial, automatic_request};
use super::{TrialDriver, announce_step, unit};
use crate::act::StateFile;
use crate::observe::kubelet::Kubelet;
use crate::observe::requests::{RequestAction, SpooledRequest};
use crate::observe::systemd::RKE2_SERVER;
use crate::report::journal;

/// How many answers are kept for those who ask.
const ANSWERS: usize = 8;

impl TrialDriver {
    /// Handles a request. `node` is what the drop-in depends on, read just now.
    pub(in crate::daemon::gates) async fn take_request(
        &mut self,
        name: &str,
        request: &SpooledRequest,
        node: &DropInInputs,
    ) {
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

    /// Begins a trial of what the configuration asks for.
    async fn apply(
        &mut self,
        name: &str,
        request: &SpooledRequest,
        node: &DropInInputs,
    ) -> Result<(), (TrialOutcome, String)> {
        let not_tried = |why: String| (TrialOutcome::NotTried, why);
        self.nothing_under_way()?;
        let unit = unit().await.map_err(not_tried)?;
        if unit.is_down() {
            return Err(not_tried(format!(
                "{RKE2_SERVER} does not run; what the configuration asks for is written before its next start"
            )));
        }
        let requests = &node.settings.feature_gates;
        let trusted = match (request.force, &node.history.proven) {
            (true, _) => requests.clone(),
            (false, Some(proven)) if version_text(&node.resolved.target) == proven.version => {
                proven.gates.clone()
            }
            (false, _) => Vec::new(),
        };
        let asked = drop_in_trusting(
            requests,
            &node.resolved.target,
            &merge(&node.files),
            &trusted,
        );
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
                    "what the configuration asks for is in the drop-in already".to_owned(),
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
        self.begin(name, GateChange::Apply, request, asked.content, node)
    }

    /// Rolls back the current trial, or else the last one that was kept.
    async fn rollback(
        &mut self,
        name: &str,
        by: &str,
        node: &DropInInputs,
    ) -> Result<(), (TrialOutcome, String)> {
        let now = (self.now)();
        if let Some(trial) = self.trial.as_mut().filter(|trial| trial.under_way()) {
            trial.taken_back = Some(name.to_owned());
            trial.why = Some(format!("taken back by {by}"));
            if trial.in_force() {
                trial.state = TrialState::RollingBack;
                trial.since = now;
                trial.baseline = None;
            }
            let trial = trial.clone();
            return self
                .keep(&trial, node)
                .map_err(|why| (TrialOutcome::NotTried, why));
        }
        let known: Option<KnownGood> = StateFile::KnownGood
            .recall(&node.layout)
            .unwrap_or_default();
        let before = match (known.and_then(|known| known.previous), &node.current) {
            // It may be from before an upgrade.
            (Some(previous), _) => node.fit(previous.content.as_deref()),
            // What was written at a boot was never tried: without it no gate of ours is left.
            (None, Some(_)) => None,
            (None, None) => {
                return Err((
                    TrialOutcome::Unchanged,
                    "no feature gate of Windrow's is set".to_owned(),
                ));
            }
        };
        if before == node.current {
            return Err((
                TrialOutcome::Unchanged,
                "what was in force before the last change is in force".to_owned(),
            ));
        }
        let request = SpooledRequest::new(RequestAction::GatesRollback, by, now);
        self.begin(name, GateChange::Rollback, &request, before, node)
    }

    /// Begins a trial of a changed configuration, where the settings allow it.
    pub(in crate::daemon::gates) async fn changed(&mut self, node: &DropInInputs) {
        let now = (self.now)();
        let by = "the configuration (gates.onChange: try)";
        let request = SpooledRequest::new(RequestAction::GatesApply, by, now);
        if self.is_giving_back() {
            self.postponed = Some(PostponedTrial::new(None));
            return;
        }
        // What cannot be tried now is reported as pending.
        let name = automatic_request(now.as_nanosecond());
        let _ = self.apply(&name, &request, node).await;
    }

    /// The last trial is over, but its lease is not returned and the other servers do not know its end.
    fn is_giving_back(&self) -> bool {
        let trial = self.trial.as_ref();
        trial.is_some_and(|trial| !trial.under_way() && trial.state != TrialState::Idle)
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
            change,
            by: request.by.clone(),
            at: request.at,
            forced: request.force,
            version: version_text(&node.resolved.target),
            asked: DropInSnapshot { content },
            saved: None,
            state: TrialState::Idle,
            since: (self.now)(),
            baseline: None,
            started: false,
            written: None,
            why: None,
            unverified: Vec::new(),
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

/// What the installed kubelet says against these gates, if it has the version that will start.
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
