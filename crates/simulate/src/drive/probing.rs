//! The probes of the server that founds the cluster: they run each minute, and the simulated cluster answers, now and then late
//! or not at all. The oracle for the state of the node uses the results that each probe would have had at every moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windrow_decide::{ClusterEvent, NodeRole, Readiness, Status};
use windrow_model::reasons::Severity;
use windrow_plan::readiness::node::{NodeEvent, ProbeOutcome, ProbeSeverity, ProbeSpec};
use windrow_plan::rules::Platform;

use super::Drive;
use crate::chance::Chance;
use crate::node::SimulatedNode;
use crate::probes::counted_probes;

const PERIOD: Duration = Duration::from_secs(60);

/// When something was last true.
#[derive(Debug, Default)]
struct LastTrue {
    passed: Option<Timestamp>,
    failed: Option<Timestamp>,
}

pub(super) struct Probing {
    specs: Vec<ProbeSpec>,
    chance: Chance,
    boot: u32,
    /// Since when this process probes; `None` before it does.
    since: Option<Timestamp>,
    next: Timestamp,
    late: Vec<(usize, ProbeOutcome)>,
    /// The result that each probe would have had.
    truth: Vec<LastTrue>,
    /// When an answer was last missing, or without a result.
    unclear: Option<Timestamp>,
    /// Was the node called Ready in this boot? By this process, and according to the ledger on the disk.
    was_ready: bool,
    is_saved_as_ready: bool,
}

impl Probing {
    pub(super) fn new(platform: Platform, seed: u64, start: Timestamp) -> Self {
        let specs = counted_probes(platform, PERIOD);
        Self {
            truth: specs.iter().map(|_| LastTrue::default()).collect(),
            specs,
            chance: Chance::new(seed).branch(4),
            boot: 0,
            since: None,
            next: start,
            late: Vec::new(),
            unclear: None,
            was_ready: false,
            is_saved_as_ready: false,
        }
    }

    pub(super) fn next_at(&self) -> Timestamp {
        self.next
    }

    /// A new process begins, with the ledger on the disk, or without it if it was destroyed.
    pub(super) fn restart(&mut self, now: Timestamp, has_ledger: bool) {
        self.since = None;
        self.next = now;
        self.late.clear();
        self.is_saved_as_ready &= has_ledger;
        self.was_ready = self.is_saved_as_ready;
    }

    pub(super) fn reboot(&mut self) {
        self.boot += 1;
        (self.was_ready, self.is_saved_as_ready) = (false, false);
    }

    /// Records a decision about the node's state, which this process remembers.
    pub(super) fn decided(&mut self, readiness: Readiness) {
        self.was_ready |= has_arrived(readiness);
    }

    /// The memory of the process is on the disk.
    pub(super) fn saved(&mut self) {
        self.is_saved_as_ready |= self.was_ready;
    }

    /// Records the present state of the cluster.
    pub(super) fn look(&mut self, node: &SimulatedNode, now: Timestamp) {
        for (spec, truth) in self.specs.iter().zip(&mut self.truth) {
            match node.answer_probe(spec.id.as_str()) {
                ProbeOutcome::Passed => truth.passed = Some(now),
                ProbeOutcome::Failed { .. } => truth.failed = Some(now),
                ProbeOutcome::Unknown { .. } => self.unclear = Some(now),
            }
        }
    }

    fn ask(&mut self, node: &SimulatedNode, unanswered: u64, now: Timestamp) -> Vec<ClusterEvent> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + PERIOD;
        let mut events = Vec::new();
        if self.since.is_none() {
            self.since = Some(now);
            events.push(NodeEvent::Probing {
                role: NodeRole::FirstServer,
                boot: format!("boot {}", self.boot),
                specs: self.specs.clone(),
            });
        }
        let late = std::mem::take(&mut self.late);
        let answered = |(number, outcome): (usize, ProbeOutcome)| {
            let spec = self.specs.get(number)?;
            Some(NodeEvent::Probed(spec.id.clone(), outcome))
        };
        events.extend(late.into_iter().filter_map(answered));
        for (number, spec) in self.specs.iter().enumerate() {
            let outcome = node.answer_probe(spec.id.as_str());
            let goes_wrong = unanswered != 0 && self.chance.one_in(unanswered);
            if goes_wrong {
                self.unclear = Some(now);
            }
            match goes_wrong.then(|| self.chance.below(3)) {
                None => events.push(NodeEvent::Probed(spec.id.clone(), outcome)),
                Some(0) => {}
                Some(1) => self.late.push((number, outcome)),
                Some(_) => {
                    let none = ProbeOutcome::unknown("kube-apiserver", "no answer within 10 s");
                    events.push(NodeEvent::Probed(spec.id.clone(), none));
                }
            }
        }
        events.into_iter().map(ClusterEvent::Node).collect()
    }

    /// Is the statement about the node true? `is_heard`: Windrow has received everything from kube-apiserver, which answers.
    pub(super) fn judge(
        &self,
        status: &Status,
        is_heard: bool,
        now: Timestamp,
        untrue: &mut BTreeSet<String>,
    ) {
        if self.since.is_none() {
            return;
        }
        let required = || {
            let all = self.specs.iter().zip(&self.truth);
            all.filter(|(spec, _)| spec.severity == ProbeSeverity::Required)
        };
        let lately = |at: Option<Timestamp>, spec: &ProbeSpec| {
            at.is_some_and(|at| now.duration_since(at) <= believed(spec))
        };
        let fails_lately = required().any(|(spec, truth)| lately(truth.failed, spec));
        let settled = status.staging.settled;
        let said = status.readiness;
        let mut object = |what: String| {
            untrue.insert(format!("the node is {}: {what}", said.as_str()));
        };
        match said {
            Readiness::Ready | Readiness::Degraded => {
                for (spec, truth) in required() {
                    if !lately(truth.passed, spec) {
                        object(format!("{} has not passed for long", spec.id));
                    }
                }
                if !settled {
                    object("not all is settled".to_owned());
                }
                let mut findings = status.findings.iter();
                let is_wrong = findings.any(|finding| finding.severity == Severity::Error);
                if is_wrong != (said == Readiness::Degraded) {
                    object(format!("that something is wrong is {is_wrong}"));
                }
            }
            Readiness::Failed if !self.was_ready => {
                object("it was never Ready in this boot".to_owned());
            }
            Readiness::Failed if !fails_lately => object("no probe fails".to_owned()),
            Readiness::SettingUp => {
                let code = status.reason.code;
                let by_probe = required().any(|(spec, _)| spec.code == code);
                if by_probe && !fails_lately {
                    object(format!("no probe fails, for {code:?}"));
                }
                if by_probe && self.was_ready {
                    object(format!("it was Ready in this boot, and {code:?}"));
                }
            }
            Readiness::Unknown => {
                let long = |at: Option<Timestamp>| {
                    let longest = required().map(|(spec, _)| believed(spec)).max();
                    at.is_none_or(|at| now.duration_since(at) > longest.unwrap_or_default() * 2)
                };
                if is_heard && long(self.since) && long(self.unclear) {
                    object(format!(
                        "each probe has answered ({})",
                        status.reason.message
                    ));
                }
            }
            Readiness::Failed => {}
        }
    }
}

fn has_arrived(readiness: Readiness) -> bool {
    matches!(readiness, Readiness::Ready | Readiness::Degraded)
}

/// How long the answers to a probe count as true.
fn believed(spec: &ProbeSpec) -> SignedDuration {
    let long = (spec.period + spec.timeout) * (spec.fall.max(spec.rise) + 1);
    SignedDuration::try_from(long).unwrap_or(SignedDuration::MAX)
}

impl Drive<'_> {
    /// Runs the probes; true if there are new results.
    pub(super) fn probe(&mut self, who: usize, now: Timestamp) -> bool {
        let daemon = &mut self.daemons[who];
        let wall = daemon.wall(now);
        let Some(probing) = &mut daemon.probing else {
            return false;
        };
        probing.look(&self.node, now);
        let events = probing.ask(&self.node, self.faults.unanswered, now);
        let news = !events.is_empty();
        for event in events {
            daemon.state.take_event(event, wall);
        }
        news
    }

    /// At the end every probe runs often enough that the statement has to be the truth. After that, no probe runs any more.
    pub(super) fn judge_probed(&mut self, now: Timestamp) {
        for daemon in &mut self.daemons {
            let Some(mut probing) = daemon.probing.take() else {
                continue;
            };
            // Nothing executes this decision.
            let mut state = daemon.state.clone();
            let mut at = daemon.wall(now);
            let most = probing.specs.iter().map(|spec| spec.rise.max(spec.fall));
            for _ in 0..=most.max().unwrap_or_default() {
                at += PERIOD;
                probing.next = at;
                for event in probing.ask(&self.node, 0, at) {
                    state.take_event(event, at);
                }
            }
            let status = state.decide(at).status;
            let mut lacks = BTreeMap::new();
            for spec in &probing.specs {
                let outcome = self.node.answer_probe(spec.id.as_str());
                if spec.severity == ProbeSeverity::Required && outcome != ProbeOutcome::Passed {
                    lacks.insert(spec.id.to_string(), outcome);
                }
            }
            let arrived = has_arrived(status.readiness);
            let should = lacks.is_empty() && status.staging.settled;
            let said = status.readiness.as_str();
            if arrived != should || status.readiness == Readiness::Unknown {
                daemon.oracle.untrue.insert(format!(
                    "the node is {said} in the end ({}): settled is {}, and it lacks {lacks:?}",
                    status.reason.message, status.staging.settled
                ));
            }
            let off = ClusterEvent::Node(NodeEvent::NotProbing);
            daemon.state.take_event(off, daemon.wall(now));
            daemon.wake = Some(now);
        }
    }
}
