//! When each probe is asked.
//!
//! One question may answer several probes: it is asked when the first of them is due, and answers every one whose period
//! is over. A probe that hangs is given up after its timeout and is Unknown. The next question comes when its period is over; a
//! probe is never asked twice at a time. A probe that keeps passing is asked less and less often, down to its rest.
//! When one stops passing, all of them are asked at once, and as often as in the beginning, so that the trouble is seen
//! as soon and as fully as if no probe had ever rested.
//!
//! Probes are asked on a common beat: what is due within a few seconds is asked together, and wakes the machine once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use windrow_decide::{ClusterEvent, Interests};
use windrow_plan::readiness::node::{
    NodeEvent, ProbeOutcome, ProbeSpec, custom_specs, tuned_specs,
};

use super::ask::{ProbedNode, Prober, question_of};
use super::context::ProbeContext;
use super::role::role_and_name;
use crate::backoff::spread;
use crate::causes::plain;

/// The time between two beats.
const BEAT: Duration = Duration::from_secs(5);
/// How often the role is read: a node can be promoted.
const ROLE_EVERY: Duration = Duration::from_secs(20);

/// Probes until the receiver of the events is gone, or until a probe panics: its last answer would stay forever.
pub async fn probe(
    context: Arc<ProbeContext>,
    mut interests: watch::Receiver<Interests>,
    events: mpsc::Sender<ClusterEvent>,
) {
    let prober = Arc::new(Prober::new(context.clone()));
    let mut probed: Option<ProbedNode> = None;
    let mut tasks = JoinSet::new();
    let unrest = Unrest::default();
    let beat = Beat::new();
    loop {
        let interest = interests.borrow_and_update().probes.clone();
        let now = match interest {
            Some(interest) => {
                if !interest.data_dir.is_empty() {
                    context.set_data_dir(&interest.data_dir);
                }
                let (role, name) = role_and_name(&context).await;
                Some(ProbedNode {
                    interest,
                    role,
                    name,
                })
            }
            None => None,
        };
        if now != probed {
            // Answers about the earlier role are of no use any more.
            tasks.shutdown().await;
            let wanted = now.as_ref().map(wanted).unwrap_or_default();
            let event = match &now {
                Some(node) => NodeEvent::Probing {
                    role: node.role,
                    boot: context.boot(),
                    specs: wanted.clone(),
                },
                None => NodeEvent::NotProbing,
            };
            if events.send(ClusterEvent::Node(event)).await.is_err() {
                return;
            }
            if let Some(node) = &now {
                let mut questions = BTreeMap::<String, Vec<AskedProbe>>::new();
                for spec in wanted.into_iter().filter(|spec| spec.off.is_none()) {
                    let question = question_of(spec.id.as_str()).to_owned();
                    let pace = ProbePace::for_spec(&spec, beat);
                    let probes = questions.entry(question).or_default();
                    probes.push(AskedProbe::new(spec, pace));
                }
                for asked in questions {
                    let (prober, node) = (prober.clone(), node.clone());
                    let (unrest, events) = (unrest.clone(), events.clone());
                    tasks.spawn(repeat_question(prober, node, asked, unrest, events));
                }
            }
            probed = now;
        }
        tokio::select! {
            () = sleep_until(beat.after(ROLE_EVERY)) => {}
            changed = interests.changed() => if changed.is_err() { return },
            () = events.closed() => return,
            Some(Err(ended)) = tasks.join_next() => if ended.is_panic() { return },
        }
    }
}

fn wanted(node: &ProbedNode) -> Vec<ProbeSpec> {
    let ProbedNode { interest, role, .. } = node;
    tuned_specs(*role, interest.platform, &interest.tunings)
        .into_iter()
        .filter(|spec| !(spec.day_zero && interest.installed))
        .chain(custom_specs(&interest.custom, *role, interest.platform))
        .collect()
}

/// An answer without the words of libraries.
fn in_plain_words(outcome: ProbeOutcome) -> ProbeOutcome {
    match outcome {
        ProbeOutcome::Passed => outcome,
        ProbeOutcome::Failed { why, code, stuck } => ProbeOutcome::Failed {
            why: plain(&why),
            code,
            stuck,
        },
        ProbeOutcome::Unknown { asked, why, code } => ProbeOutcome::Unknown {
            asked,
            why: plain(&why),
            code,
        },
    }
}

/// Tells every probe that one has stopped passing.
pub(super) type Unrest = Arc<watch::Sender<()>>;

/// The moments at which probes are asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beat {
    first: Instant,
}

impl Beat {
    /// A beat that is this process's own: nodes that start together do not ask together.
    pub(super) fn new() -> Self {
        Self {
            first: Instant::now() + spread(BEAT),
        }
    }

    /// The beat that is nearest to the end of a pause which begins now. A short pause ends when it ends.
    pub(super) fn after(self, pause: Duration) -> Instant {
        self.nearest(Instant::now(), pause)
    }

    pub(super) fn nearest(self, begin: Instant, pause: Duration) -> Instant {
        let end = begin + pause;
        if pause < BEAT * 2 {
            return end;
        }
        let beats = (end.duration_since(self.first) + BEAT / 2).as_millis() / BEAT.as_millis();
        self.first + BEAT * u32::try_from(beats).unwrap_or(u32::MAX)
    }
}

/// How long to wait before a probe is asked again.
pub(super) struct ProbePace {
    pub(super) period: Duration,
    /// The longest pause.
    pub(super) rest: Duration,
    /// The pause after the next pass.
    pub(super) next: Duration,
    /// When it is asked.
    pub(super) beat: Beat,
}

impl ProbePace {
    pub(super) fn for_spec(spec: &ProbeSpec, beat: Beat) -> Self {
        Self {
            period: spec.period,
            rest: spec.rest(),
            next: spec.period,
            beat,
        }
    }

    /// It passed: how much longer than its period it may rest.
    pub(super) fn extra_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.rest);
        pause.saturating_sub(self.period)
    }

    /// Something has changed.
    pub(super) fn hurry(&mut self) {
        self.next = self.period;
    }
}

/// A probe, and when it is asked.
pub(super) struct AskedProbe {
    spec: ProbeSpec,
    pace: ProbePace,
    passed: bool,
    /// When its period is over.
    earliest: Instant,
    /// When its pause is over.
    due: Instant,
}

impl AskedProbe {
    pub(super) fn new(spec: ProbeSpec, pace: ProbePace) -> Self {
        let now = Instant::now();
        Self {
            spec,
            pace,
            passed: false,
            earliest: now,
            due: now,
        }
    }

    /// Takes an answer. Does the probe pass no longer?
    fn answered(&mut self, passes: bool) -> bool {
        let before = std::mem::replace(&mut self.passed, passes);
        self.earliest = self.pace.beat.after(self.pace.period);
        match passes {
            // One pause, not a period and then the rest of it: each timer wakes the daemon up to three times.
            true => {
                let pause = self.pace.period + self.pace.extra_pause();
                self.due = self.pace.beat.after(pause);
            }
            false => self.hurry(),
        }
        before && !passes
    }

    /// Something has changed.
    fn hurry(&mut self) {
        self.pace.hurry();
        self.due = self.earliest;
    }
}

/// Asks a question again and again, forever, for the probes that it answers.
pub(super) async fn repeat_question(
    prober: Arc<Prober>,
    node: ProbedNode,
    (question, mut probes): (String, Vec<AskedProbe>),
    unrest: Unrest,
    events: mpsc::Sender<ClusterEvent>,
) {
    let mut disturbed = unrest.subscribe();
    while let Some(due) = probes.iter().map(|probe| probe.due).min() {
        tokio::select! {
            () = sleep_until(due) => {}
            // Its sender lives as long as this.
            _ = disturbed.changed() => {
                probes.iter_mut().for_each(AskedProbe::hurry);
                continue;
            }
        }
        // Both may have happened: then all are due.
        if disturbed.has_changed().unwrap_or(false) {
            probes.iter_mut().for_each(AskedProbe::hurry);
        }
        let now = Instant::now();
        let asked = probes.iter().filter(|probe| probe.earliest <= now);
        let timeout = asked.map(|probe| probe.spec.timeout).min();
        let timeout = timeout.unwrap_or_default();
        // Count from here: a change while it is asked may be missing from its answer.
        disturbed.mark_unchanged();
        let answer = prober.ask(&node, &question);
        let answer = tokio::time::timeout(timeout, answer)
            .await
            .unwrap_or_else(|_| {
                let why = format!("no answer within {} s", timeout.as_secs());
                ProbeOutcome::unknown("the probe", why).into()
            });
        let mut found = answer.events.clone();
        for probe in probes.iter_mut().filter(|probe| probe.earliest <= now) {
            let id = &probe.spec.id;
            let outcome = answer.outcome_of(&question, id.as_str());
            found.push(NodeEvent::Probed(
                id.clone(),
                in_plain_words(outcome.clone()),
            ));
            if probe.answered(outcome == ProbeOutcome::Passed) {
                unrest.send_replace(());
            }
        }
        for event in found {
            if events.send(ClusterEvent::Node(event)).await.is_err() {
                return;
            }
        }
    }
}
