//! The judgement: one readiness, one phase, one reason, from all that is known.
//!
//! In this order, the first that holds:
//!
//! | what is so | readiness |
//! |---|---|
//! | the machine shuts down | SettingUp |
//! | a required probe fails for good (proved) | Failed |
//! | a required probe fails, and a transition excuses it | SettingUp |
//! | a required probe fails after the node was Ready in this boot | Failed |
//! | a required probe fails (one of the last phase: once no manifest waits) | SettingUp |
//! | manifests are not all applied | SettingUp |
//! | a required probe is unknown, or the role, or the manifests | Unknown |
//! | something is found that cannot work as it is (a finding of severity error) | Degraded |
//! | a wanted probe fails, and no upgrade that rolls out what it asks for excuses it | Degraded |
//! | one fails, and an upgrade excuses it | SettingUp |
//! | a transition takes too long | Degraded |
//! | a wanted probe is still asked for the first time | Unknown |
//! | none of these | Ready |
//!
//! A full disk is the reason of each of these but a shutdown, and makes a Ready node Degraded: whatever else fails may fail because of it.

mod phases;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::reasons::Code;

use super::phase_times::remember;
use super::{
    BUILTIN, BootTimes, EarlierBoot, NodeRole, NodeSeen, Pace, Phase, PhaseStatus, ProbeSeverity,
    ProbeState, Readiness, Track, Transition, TransitionScope, TransitionSeen,
};
use crate::knowledge::LearnedPhase;
use crate::rules::Platform;

/// How long a role may be unknown at a start before that is the reason itself.
const ROLE_PATIENCE: SignedDuration = SignedDuration::from_mins(1);

/// What has to be known of a node over restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeMemory {
    /// Harvester's chart was installed once: what Fleet says of it later ("Modified", after an edit
    /// by hand) does not make a healthy cluster unready.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub installed: bool,
    /// The node joined a cluster that another server began. RKE2 needs `server:` for that once, and it may be removed later.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub joined: bool,
    /// The boot in which the node was last Ready; empty when it never was.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ready_boot: String,
    /// The bootstrap of this boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Box<BootTimes>>,
    /// How long earlier ones took, the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierBoot>,
}

impl NodeMemory {
    /// Nothing to remember.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The wall clock was set: what is remembered moves along.
    pub fn clock_jumped(&mut self, by: SignedDuration) {
        if let Some(times) = &mut self.bootstrap {
            times.clock_jumped(by);
        }
    }
}

/// What staging says of the manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manifests {
    /// Every one is applied, or kept on purpose.
    Settled {
        /// How many there are.
        total: usize,
        /// Which of them are kept from RKE2 on purpose, and by whom, in a sentence. `None`: every one is applied.
        kept: Option<String>,
    },
    /// Some are not.
    Waiting {
        /// Why, for programs.
        code: Code,
        /// Why, for people.
        message: String,
        /// How many are applied.
        done: usize,
        /// Out of how many.
        total: usize,
        /// When one of them last moved.
        moved: Timestamp,
    },
    /// It could not be found out.
    Unknown {
        /// Why, for programs.
        code: Code,
        /// Why, for people.
        message: String,
        /// How many there are.
        total: usize,
    },
}

/// A known problem that cannot come right by itself: a finding of severity error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownProblem {
    /// What, for programs.
    pub code: Code,
    /// What, for people.
    pub message: String,
}

/// Everything that is judged.
#[derive(Debug, Clone, Copy)]
pub struct NodeInputs<'a> {
    /// What is known of the node.
    pub seen: &'a NodeSeen,
    /// What it is.
    pub platform: Option<Platform>,
    /// How long phases take on nodes like it, as it was learned from their boots.
    pub learned: &'a [LearnedPhase],
    /// What was remembered.
    pub memory: &'a NodeMemory,
    /// Its manifests.
    pub manifests: &'a Manifests,
    /// The gravest known problem, whoever found it.
    pub trouble: Option<&'a KnownProblem>,
    /// The time.
    pub now: Timestamp,
}

/// The judgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeJudgement {
    /// Where the node stands.
    pub readiness: Readiness,
    /// Which phase it is in.
    pub phase: Phase,
    /// Since when, where this boot's bootstrap is still under way.
    pub phase_since: Option<Timestamp>,
    /// When the node was Ready for the first time in this boot.
    pub first_ready: Option<Timestamp>,
    /// The first blocker, for programs.
    pub code: Code,
    /// The first blocker, for people.
    pub message: String,
    /// The whole bootstrap.
    pub phases: Vec<PhaseStatus>,
    /// What is done to the node on purpose.
    pub transition: Option<TransitionSeen>,
    /// How it gets on; `None` when it is there.
    pub pace: Option<Pace>,
    /// What is to be remembered.
    pub memory: NodeMemory,
    /// When time alone may change the judgement.
    pub next_wake: Option<Timestamp>,
}

/// One probe as it counts now.
#[derive(Debug, Clone, Copy)]
struct Counted<'a> {
    track: &'a Track,
    state: ProbeState,
}

/// Judges.
pub fn judge(question: &NodeInputs<'_>) -> NodeJudgement {
    let judging = Judging {
        question,
        probes: counted(question),
    };
    let verdict = judging.with_full_disk(judging.verdict());
    let arrived = matches!(verdict.readiness, Readiness::Ready | Readiness::Degraded);
    let mut memory = question.memory.clone();
    memory.bootstrap = judging.times(&verdict).map(Box::new);
    let (pace, pace_wake) = judging.pace(&verdict, memory.bootstrap.as_deref());
    if let Some(times) = &mut memory.bootstrap {
        if times.is_under_way() && pace == Pace::Stalled {
            times.stalled.insert(times.phase);
        }
        if let Some(lesson) = times.lesson() {
            remember(&mut memory.earlier, lesson);
        }
    }
    memory.joined |= question.seen.role == NodeRole::JoinedServer;
    memory.installed |= arrived || judging.chart_installed();
    if arrived {
        memory.ready_boot.clone_from(&question.seen.boot);
    }
    let under_way = memory.bootstrap.as_deref();
    let under_way = under_way.filter(|times| times.is_under_way() && times.phase == verdict.phase);
    NodeJudgement {
        readiness: verdict.readiness,
        phase: verdict.phase,
        phase_since: under_way.map(|times| times.since),
        first_ready: memory.bootstrap.as_ref().and_then(|times| times.ready),
        code: verdict.code,
        message: verdict.message,
        phases: judging.phases(verdict.phase, arrived, &memory),
        transition: judging.transition().cloned(),
        pace: (!arrived).then_some(pace),
        memory,
        next_wake: judging.next_wake(pace_wake.filter(|_| !arrived)),
    }
}

/// The state and the message of a probe as they count at a time: silence is no answer.
pub fn as_of(track: &Track, now: Timestamp) -> (ProbeState, String, Option<Code>) {
    if track.is_stale(now) && track.state != ProbeState::Unknown {
        let why = "its answers have stopped coming".to_owned();
        return (ProbeState::Unknown, why, Some(Code::ProbeUnknown));
    }
    (track.state, track.message.clone(), track.code())
}

/// The probes that count: a probe of day 0 does so until the node was installed once.
pub fn listed<'a>(seen: &'a NodeSeen, memory: &NodeMemory) -> impl Iterator<Item = &'a Track> {
    let installed = memory.installed;
    seen.probes
        .values()
        .filter(move |track| !(track.spec.day_zero && installed))
}

fn counted<'a>(question: &NodeInputs<'a>) -> Vec<Counted<'a>> {
    let order = Phase::bootstrap(question.platform);
    let mut probes: Vec<Counted<'a>> = listed(question.seen, question.memory)
        .map(|track| Counted {
            track,
            state: as_of(track, question.now).0,
        })
        .collect();
    // The first blocker is the one that the others wait for: by phase, then as the table has them.
    probes.sort_by_key(|probe| {
        let spec = &probe.track.spec;
        let phase = order.iter().position(|phase| *phase == spec.phase);
        let row = BUILTIN.iter().position(|row| row.name == spec.id.as_str());
        (phase.unwrap_or(order.len()), row.unwrap_or(BUILTIN.len()))
    });
    probes
}

struct Judging<'a> {
    question: &'a NodeInputs<'a>,
    probes: Vec<Counted<'a>>,
}

struct NodeVerdict {
    readiness: Readiness,
    phase: Phase,
    code: Code,
    message: String,
}

impl Judging<'_> {
    fn verdict(&self) -> NodeVerdict {
        let NodeInputs {
            seen, manifests, ..
        } = self.question;
        // What belongs to the last phase is not expected while manifests wait: they may bring it.
        let waiting = matches!(manifests, Manifests::Waiting { .. });
        let expected = |track: &&Track| !(waiting && track.spec.phase == Phase::Ready);
        let failing = || self.failing_and_required().filter(expected);
        let shutdown = self
            .excuses()
            .find(|excuse| excuse.kind == Transition::Shutdown);
        if let Some(shutdown) = shutdown {
            let phase = failing()
                .next()
                .map_or(Phase::Ready, |failing| failing.spec.phase);
            return in_transition(shutdown, phase, &shutdown.message);
        }
        let unexcused = || failing().find(|track| self.excuse_of(track).is_none());
        if let Some(failing) = self.stuck().or_else(unexcused) {
            let lost = !seen.boot.is_empty() && self.question.memory.ready_boot == seen.boot;
            return if failing.stuck || lost {
                self.verdict_of(Readiness::Failed, failing)
            } else {
                self.verdict_of(Readiness::SettingUp, failing)
            };
        }
        let excused = failing().find_map(|track| Some((track, self.excuse_of(track)?)));
        if let Some((failing, excuse)) = excused {
            return in_transition(excuse, failing.spec.phase, &failing.message);
        }
        if let Manifests::Waiting { code, message, .. } = manifests {
            let setting_up = Readiness::SettingUp;
            return verdict(setting_up, Phase::Manifests, *code, message.clone());
        }
        if let Some(unknown) = self.first(ProbeSeverity::Required, ProbeState::Unknown) {
            let (_, why, code) = as_of(unknown, self.question.now);
            let code = code.unwrap_or(Code::ProbeUnknown);
            let message = code.say(&[("probe", unknown.spec.id.as_str()), ("why", &why)]);
            return verdict(Readiness::Unknown, unknown.spec.phase, code, message);
        }
        if seen.role == NodeRole::Unknown {
            let (code, fields) = if self.role_is_overdue_at() > self.question.now {
                let fields = [("probe", "role"), ("why", "first checks running")];
                (Code::ProbePending, Vec::from(fields))
            } else {
                (Code::RoleUnknown, Vec::new())
            };
            return verdict(Readiness::Unknown, Phase::Api, code, code.say(&fields));
        }
        if let Manifests::Unknown { code, message, .. } = manifests {
            return verdict(Readiness::Unknown, Phase::Manifests, *code, message.clone());
        }
        if let Some(KnownProblem { code, message }) = self.question.trouble {
            return verdict(Readiness::Degraded, Phase::Ready, *code, message.clone());
        }
        let (excused, wrong): (Vec<&Track>, Vec<&Track>) = self
            .failing_and_wanted()
            .partition(|track| self.excuse_of(track).is_some());
        if let Some(wanted) = wrong.first() {
            return NodeVerdict {
                phase: Phase::Ready,
                ..verdict_by_probe(Readiness::Degraded, wanted)
            };
        }
        let excused = excused.first();
        if let Some((wanted, upgrade)) =
            excused.and_then(|track| Some((track, self.excuse_of(track)?)))
        {
            return in_transition(upgrade, Phase::Ready, &wanted.message);
        }
        if let Some(overdue) = self.overdue() {
            let why = format!("{}, and takes too long", overdue.message);
            let code = overdue.kind.code();
            return verdict(
                Readiness::Degraded,
                Phase::Ready,
                code,
                code.say(&[("why", &why)]),
            );
        }
        if let Some(pending) = self.pending_and_wanted() {
            return NodeVerdict {
                phase: Phase::Ready,
                ..verdict_by_probe(Readiness::Unknown, pending)
            };
        }
        let manifests = match manifests {
            Manifests::Settled {
                kept: Some(kept), ..
            } => kept,
            _ => "every manifest is applied",
        };
        verdict(
            Readiness::Ready,
            Phase::Ready,
            Code::NodeReady,
            Code::NodeReady.say(&[("manifests", manifests)]),
        )
    }

    /// The same verdict with a full disk as its reason: what else fails may fail because of that.
    fn with_full_disk(&self, verdict: NodeVerdict) -> NodeVerdict {
        let Some(full) = self.full_disk() else {
            return verdict;
        };
        match verdict.code {
            Code::ShuttingDown | Code::DiskFull => verdict,
            Code::NodeReady => NodeVerdict {
                readiness: Readiness::Degraded,
                code: Code::DiskFull,
                message: full.to_owned(),
                ..verdict
            },
            _ => NodeVerdict {
                code: Code::DiskFull,
                // In brackets: a short line has room for the first part only.
                message: format!("{full} ({})", verdict.message),
                ..verdict
            },
        }
    }

    /// Where no space is left, by a probe or by a write of Windrow's own that failed.
    fn full_disk(&self) -> Option<&str> {
        let is_full = |probe: &&Counted<'_>| {
            probe.state == ProbeState::Failing && probe.track.code() == Some(Code::DiskFull)
        };
        let probed = self.probes.iter().find(is_full);
        let own = self.question.trouble;
        let own = own.filter(|trouble| trouble.code == Code::DiskFull);
        probed
            .map(|probe| probe.track.message.as_str())
            .or(own.map(|trouble| trouble.message.as_str()))
    }

    /// The verdict by a required probe. Where RKE2's unit is what fails, it also says that there is no default route: without one
    /// RKE2 does not find the node's address, unless that is configured (rancher/rke2#1242). Whether that is the cause is not known.
    fn verdict_of(&self, readiness: Readiness, failing: &Track) -> NodeVerdict {
        let is_rke2 = failing.spec.code == Code::RkeServiceDown;
        let without_route = self
            .failing_and_wanted()
            .any(|track| track.spec.code == Code::NoDefaultRoute);
        match is_rke2 && without_route && !failing.stuck {
            true => {
                let why = format!("no default route; {}", failing.message);
                verdict_because(readiness, failing, &why)
            }
            false => verdict_by_probe(readiness, failing),
        }
    }

    fn required(&self) -> impl Iterator<Item = &Counted<'_>> {
        self.probes
            .iter()
            .filter(|probe| probe.track.severity() == ProbeSeverity::Required)
    }

    fn first(&self, severity: ProbeSeverity, state: ProbeState) -> Option<&Track> {
        self.probes
            .iter()
            .find(|probe| probe.track.severity() == severity && probe.state == state)
            .map(|probe| probe.track)
    }

    fn failing_and_required(&self) -> impl Iterator<Item = &Track> {
        self.failing(ProbeSeverity::Required)
    }

    fn failing_and_wanted(&self) -> impl Iterator<Item = &Track> {
        self.failing(ProbeSeverity::Wanted)
    }

    fn failing(&self, severity: ProbeSeverity) -> impl Iterator<Item = &Track> {
        let failing = move |probe: &&Counted<'_>| {
            probe.track.severity() == severity && probe.state == ProbeState::Failing
        };
        self.probes.iter().filter(failing).map(|probe| probe.track)
    }

    /// The first wanted probe that has no answer yet, or failures only. One whose answers are Unknown keeps no node from being Ready.
    fn pending_and_wanted(&self) -> Option<&Track> {
        let wanted = |probe: &&Counted<'_>| probe.track.severity() == ProbeSeverity::Wanted;
        let mut pending = self.probes.iter().filter(wanted).map(|probe| probe.track);
        pending.find(|track| is_pending(track))
    }

    fn stuck(&self) -> Option<&Track> {
        self.required()
            .find(|probe| probe.state == ProbeState::Failing && probe.track.stuck)
            .map(|probe| probe.track)
    }

    fn chart_installed(&self) -> bool {
        self.probes
            .iter()
            .any(|probe| is_chart(probe.track) && probe.state == ProbeState::Passing)
    }

    /// The transition that is shown: the first that excuses, else the first.
    fn transition(&self) -> Option<&TransitionSeen> {
        let first = self.excuses().next();
        first.or_else(|| self.transitions().next())
    }

    /// The transition that explains why a probe fails.
    fn excuse_of(&self, track: &Track) -> Option<&TransitionSeen> {
        self.excuses().find(|transition| excuses(transition, track))
    }

    fn excuses(&self) -> impl Iterator<Item = &TransitionSeen> {
        let now = self.question.now;
        self.transitions()
            .filter(move |transition| patience_ends(transition) > now)
    }

    /// What takes too long on this node. That another node takes its turn is not this node's fault.
    fn overdue(&self) -> Option<&TransitionSeen> {
        self.transitions().find(|transition| {
            transition.scope == TransitionScope::Node
                && patience_ends(transition) <= self.question.now
        })
    }

    fn transitions(&self) -> impl Iterator<Item = &TransitionSeen> {
        let NodeInputs { seen, now, .. } = *self.question;
        let all = seen.transitions.values();
        all.filter(move |transition| seen.doubtful_at(transition.kind).is_none_or(|at| at > now))
    }

    /// When a role that is still unknown is more than a first check.
    fn role_is_overdue_at(&self) -> Timestamp {
        let started = self.question.seen.started;
        started.checked_add(ROLE_PATIENCE).unwrap_or(Timestamp::MAX)
    }

    fn next_wake(&self, pace: Option<Timestamp>) -> Option<Timestamp> {
        self.probes
            .iter()
            .filter(|probe| probe.state != ProbeState::Unknown)
            .map(|probe| probe.track.stale_at())
            .chain(self.transitions().map(patience_ends))
            .chain(
                self.transitions()
                    .filter_map(|transition| self.question.seen.doubtful_at(transition.kind)),
            )
            .chain(pace)
            .chain(
                (self.question.seen.role == NodeRole::Unknown).then(|| self.role_is_overdue_at()),
            )
            .filter(|at| *at > self.question.now)
            .min()
    }
}

/// Is it still asked for the first time? Probes of the configuration are not waited for: they may be asked as seldom as you like.
fn is_pending(track: &Track) -> bool {
    track.code() == Some(Code::ProbePending) && !track.spec.id.is_user()
}

/// Does a transition explain why a probe fails? What is done to this node explains every required probe. An upgrade explains what it
/// rolls out; one that is elsewhere explains what all nodes share, and nothing of this node's own.
fn excuses(transition: &TransitionSeen, track: &Track) -> bool {
    let mut rows = BUILTIN.iter();
    let row = rows.find(|row| row.name == track.spec.id.as_str());
    let is_required = track.severity() == ProbeSeverity::Required;
    match (transition.kind, transition.scope) {
        (_, TransitionScope::Node) if is_required => true,
        (_, TransitionScope::Cluster) if is_required => {
            row.is_some_and(|row| row.platform.is_some())
        }
        (Transition::Upgrade, _) => row.is_some_and(|row| row.rolled_out),
        _ => false,
    }
}

/// Does it tell that Harvester's chart is installed?
fn is_chart(track: &Track) -> bool {
    track.spec.id.as_str() == "managed-chart"
}

fn patience_ends(transition: &TransitionSeen) -> Timestamp {
    transition
        .since
        .saturating_add(transition.kind.patience())
        .unwrap_or(Timestamp::MAX)
}

fn in_transition(transition: &TransitionSeen, phase: Phase, why: &str) -> NodeVerdict {
    let code = transition.kind.code();
    verdict(Readiness::SettingUp, phase, code, code.say(&[("why", why)]))
}

fn verdict_by_probe(readiness: Readiness, track: &Track) -> NodeVerdict {
    verdict_because(readiness, track, &track.message)
}

fn verdict_because(readiness: Readiness, track: &Track, why: &str) -> NodeVerdict {
    let code = track.code().unwrap_or(track.spec.code);
    let message = code.say(&[("probe", track.spec.id.as_str()), ("why", why)]);
    verdict(readiness, track.spec.phase, code, message)
}

fn verdict(readiness: Readiness, phase: Phase, code: Code, message: String) -> NodeVerdict {
    NodeVerdict {
        readiness,
        phase,
        code,
        message,
    }
}
