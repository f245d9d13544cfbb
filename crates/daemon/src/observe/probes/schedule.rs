//! Decides when to ask each probe.
//!
//! One question may answer several probes. It is due with the first of them, and answers every probe whose period is
//! over. A probe that hangs is cancelled after its timeout and is Unknown. The next question comes when its period is
//! over; there are never two questions of a probe at a time. The pauses of a probe that keeps passing grow up to its
//! rest. When one stops passing or passes again, the daemon asks all of them at once, and as often as in the beginning.
//! It then notices the failure and its end as if no probe had ever rested.
//!
//! Probes share a beat: those that are due within a few seconds run together, and wake the machine once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use windrow_decide::{ClusterEvent, Interests};
use windrow_plan::readiness::node::{
    NodeEvent, NodeRole, ProbeId, ProbeOutcome, ProbeResult, ProbeSeverity, ProbeSpec, Track,
    custom_specs, question_of, tuned_specs,
};
use windrow_plan::rke2::KubeletHealth;
use windrow_plan::rke2::config::Rke2ConfigFile;

use super::ask::{ProbedNode, Prober};
use super::context::ProbeContext;
use super::role::role_and_name;
use crate::backoff::spread;
use crate::causes::plain;
use crate::layout::Layout;
use crate::locked::lock;
use crate::observe::rke2;

const BEAT: Duration = Duration::from_secs(5);
/// The longest pause after a change for a probe that one answer decides, even if its period is long.
const AFTER_UNREST: Duration = Duration::from_secs(10);
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
    let mut questions = Questions::new(prober, events.clone());
    let mut kubelet = KubeletConfiguration::default();
    loop {
        let interest = interests.borrow_and_update().probes.clone();
        let now = match interest {
            Some(interest) => {
                if !interest.data_dir.is_empty() {
                    context.set_data_dir(&interest.data_dir);
                }
                let (role, name) = role_and_name(&context).await;
                let role = match role {
                    NodeRole::FirstServer if interest.joined => NodeRole::JoinedServer,
                    role => role,
                };
                Some(ProbedNode {
                    interest,
                    role,
                    name,
                    kubelet: kubelet.read(&context.layout()),
                })
            }
            None => None,
        };
        if now != probed {
            let is_asked_alike = match (&probed, &now) {
                (Some(before), Some(now)) => before.is_asked_like(now),
                _ => false,
            };
            if !is_asked_alike {
                // Answers about the earlier role are useless now.
                questions.stop_all().await;
            }
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
            questions.ask(now.as_ref(), wanted);
            probed = now;
        }
        tokio::select! {
            () = sleep_until(questions.beat.after(ROLE_EVERY)) => {}
            changed = interests.changed() => if changed.is_err() { return },
            () = events.closed() => return,
            Some(Err(ended)) = questions.tasks.join_next() => if ended.is_panic() { return },
        }
    }
}

/// The address of the kubelet's health. Its own files may be anywhere: they are read again only when RKE2's change.
#[derive(Default)]
struct KubeletConfiguration {
    files: Option<Vec<Rke2ConfigFile>>,
    health: KubeletHealth,
}

impl KubeletConfiguration {
    fn read(&mut self, layout: &Layout) -> KubeletHealth {
        let files = rke2::config_files(layout).files;
        if self.files.as_ref() != Some(&files) {
            self.health = KubeletHealth::new(&rke2::config_and_kubelet_files(layout).files);
            self.files = Some(files);
        }
        self.health.clone()
    }
}

struct Questions {
    prober: Arc<Prober>,
    events: mpsc::Sender<ClusterEvent>,
    beat: Beat,
    agenda: Agenda,
    tasks: JoinSet<()>,
    /// By their names, each with the probes that it answers.
    asked: BTreeMap<String, (Vec<ProbeSpec>, AbortHandle)>,
}

impl Questions {
    fn new(prober: Arc<Prober>, events: mpsc::Sender<ClusterEvent>) -> Self {
        Self {
            prober,
            events,
            beat: Beat::new(),
            agenda: Agenda::default(),
            tasks: JoinSet::new(),
            asked: BTreeMap::new(),
        }
    }

    async fn stop_all(&mut self) {
        self.asked.clear();
        self.tasks.shutdown().await;
    }

    /// Asks for these probes and no others. A question whose probes stay the same goes on.
    fn ask(&mut self, node: Option<&ProbedNode>, wanted: Vec<ProbeSpec>) {
        let mut questions = BTreeMap::<String, Vec<ProbeSpec>>::new();
        for spec in wanted.into_iter().filter(|spec| spec.off.is_none()) {
            let question = question_of(spec.id.as_str()).to_owned();
            questions.entry(question).or_default().push(spec);
        }
        self.agenda.keep_only(&questions);
        self.asked.retain(|name, (specs, task)| {
            let stays = questions.get(name) == Some(&*specs);
            if !stays {
                task.abort();
            }
            stays
        });
        let Some(node) = node else { return };
        for (name, specs) in questions {
            if self.asked.contains_key(&name) {
                continue;
            }
            let probes = specs.iter().cloned();
            let probes = probes
                .map(|spec| self.agenda.probe(spec, self.beat))
                .collect();
            let task = self.tasks.spawn(repeat_question(
                self.prober.clone(),
                node.clone(),
                (name.clone(), probes),
                self.agenda.clone(),
                self.events.clone(),
            ));
            self.asked.insert(name, (specs, task));
        }
    }
}

fn wanted(node: &ProbedNode) -> Vec<ProbeSpec> {
    let ProbedNode {
        interest,
        role,
        kubelet,
        ..
    } = node;
    let specs = tuned_specs(*role, interest.platform, &interest.tunings)
        .into_iter()
        .filter(|spec| !(spec.day_zero && interest.installed))
        .map(|spec| match kubelet.switched_off() {
            // Its other probes decide: `node` fails when the kubelet stops.
            Some(at) if spec.id.as_str() == "kubelet" && spec.off.is_none() => ProbeSpec {
                off: Some(at.clone()),
                severity: ProbeSeverity::Wanted,
                ..spec
            },
            _ => spec,
        });
    specs
        .chain(custom_specs(&interest.custom, *role, interest.platform))
        .collect()
}

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

#[derive(Clone, Default)]
pub(super) struct Agenda {
    /// Notifies every probe that one has stopped passing, or passes again.
    unrest: Arc<watch::Sender<()>>,
    /// Each probe as it was after its last answer. When a question begins again, its probes keep their pace: an answer more would
    /// count.
    probes: Arc<Mutex<BTreeMap<ProbeId, AskedProbe>>>,
}

impl Agenda {
    fn probe(&self, spec: ProbeSpec, beat: Beat) -> AskedProbe {
        let known = lock(&self.probes).get(&spec.id).cloned();
        match known.filter(|known| known.track.spec == spec) {
            Some(mut known) => {
                known.keep_pace();
                known
            }
            None => {
                let pace = ProbePace::for_spec(&spec, beat);
                AskedProbe::new(spec, pace)
            }
        }
    }

    /// Forgets the probes without a question: the core forgets them too.
    fn keep_only(&self, questions: &BTreeMap<String, Vec<ProbeSpec>>) {
        let is_asked = |id: &ProbeId| questions.values().flatten().any(|spec| spec.id == *id);
        lock(&self.probes).retain(|id, _| is_asked(id));
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Beat {
    first: Instant,
}

impl Beat {
    /// The beat of this process: nodes that start together do not ask together.
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

#[derive(Clone)]
pub(super) struct ProbePace {
    pub(super) period: Duration,
    pub(super) rest: Duration,
    /// The pause after the next pass.
    pub(super) next: Duration,
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

    pub(super) fn hurry(&mut self) {
        self.next = self.period;
    }
}

#[derive(Clone)]
pub(super) struct AskedProbe {
    track: Track,
    pace: ProbePace,
    passed: Option<bool>,
    /// When its period is over.
    earliest: Instant,
    due: Instant,
}

impl AskedProbe {
    pub(super) fn new(spec: ProbeSpec, pace: ProbePace) -> Self {
        let now = Instant::now();
        Self {
            // Only its counts are used here, not its times.
            track: Track::new(spec, Timestamp::UNIX_EPOCH),
            pace,
            passed: None,
            earliest: now,
            due: now,
        }
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Takes an answer. True if the probe stopped passing, or passes again.
    pub(super) fn answered(&mut self, outcome: ProbeOutcome) -> bool {
        let passes = outcome == ProbeOutcome::Passed;
        let before = self.passed.replace(passes);
        self.track.take(ProbeResult {
            outcome,
            at: Timestamp::UNIX_EPOCH,
        });
        let pause = if self.track.is_pending() {
            self.track.spec.first_pause()
        } else {
            self.pace.period
        };
        self.earliest = self.pace.beat.after(pause);
        match passes {
            // One pause, not a period and then the rest of it: each timer wakes the daemon up to three times.
            true => {
                let pause = self.pace.period + self.pace.extra_pause();
                self.due = self.pace.beat.after(pause);
            }
            false => self.keep_pace(),
        }
        before.is_some_and(|before| before != passes)
    }

    /// The next question comes when its period is over.
    fn keep_pace(&mut self) {
        self.pace.hurry();
        self.due = self.earliest;
    }

    /// Something has changed. More answers before the period is over would count, unless a single one decides.
    pub(super) fn hurry(&mut self) {
        if self.track.spec.fall == 1 && !self.track.spec.id.is_user() {
            self.earliest = self.earliest.min(Instant::now() + AFTER_UNREST);
        }
        self.keep_pace();
    }
}

/// Asks a question again and again, forever, for the probes that it answers.
pub(super) async fn repeat_question(
    prober: Arc<Prober>,
    node: ProbedNode,
    (question, mut probes): (String, Vec<AskedProbe>),
    agenda: Agenda,
    events: mpsc::Sender<ClusterEvent>,
) {
    let mut disturbed = agenda.unrest.subscribe();
    while let Some(due) = probes.iter().map(AskedProbe::due).min() {
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
        let timeout = asked.map(|probe| probe.track.spec.timeout).min();
        let timeout = timeout.unwrap_or_default();
        // From here on: the answer may not show a change during the question.
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
            let id = &probe.track.spec.id;
            let outcome = answer.outcome_of(&question, id.as_str());
            found.push(NodeEvent::Probed(
                id.clone(),
                in_plain_words(outcome.clone()),
            ));
            if probe.answered(outcome) {
                agenda.unrest.send_replace(());
            }
            lock(&agenda.probes).insert(probe.track.spec.id.clone(), probe.clone());
        }
        for event in found {
            if events.send(ClusterEvent::Node(event)).await.is_err() {
                return;
            }
        }
    }
}
