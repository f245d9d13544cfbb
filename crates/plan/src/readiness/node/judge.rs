//! Judges the node: one readiness, one phase and one reason from all observations.
//!
//! The first row that applies gives the readiness:
//!
//! | state | readiness |
//! |---|---|
//! | the machine shuts down | SettingUp |
//! | a required probe is proved to fail permanently | Failed |
//! | a required probe fails, and a transition excuses it | SettingUp |
//! | a required probe fails after the node was Ready in this boot | Failed |
//! | a required probe fails (in the last phase: only if no manifest waits) | SettingUp |
//! | manifests are not all applied | SettingUp |
//! | a required probe is unknown, or the role, or the manifests | Unknown |
//! | there is a finding of severity error | Degraded |
//! | a wanted probe fails, and no upgrade of its target excuses it | Degraded |
//! | a wanted probe fails, and an upgrade excuses it | SettingUp |
//! | a transition takes too long | Degraded |
//! | a wanted probe has no first result yet | Unknown |
//! | otherwise | Ready |
//!
//! A full disk becomes the reason in all rows except a shutdown, and makes a Ready node Degraded: it may be the cause of any
//! other failure.

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

/// How long the role may be unknown after a start before this becomes the reason.
const ROLE_PATIENCE: SignedDuration = SignedDuration::from_mins(1);

/// State of a node that is kept across restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeMemory {
    /// Harvester's chart was installed once. After that, later messages of Fleet ("Modified", after a manual edit) do not make a
    /// healthy cluster unready.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub installed: bool,
    /// The node joined a cluster that another server created. RKE2 requires `server:` only for the first start, so it may be
    /// removed later.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub joined: bool,
    /// Boot in which the node was last Ready; empty if it never was.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ready_boot: String,
    /// Bootstrap of this boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Box<BootTimes>>,
    /// Durations of earlier boots, the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierBoot>,
}

impl NodeMemory {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adjusts all times after the wall clock was set.
    pub fn clock_jumped(&mut self, by: SignedDuration) {
        if let Some(times) = &mut self.bootstrap {
            times.clock_jumped(by);
        }
    }
}

/// The state of the manifests, as staging reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manifests {
    /// All manifests are applied, or hidden on purpose.
    Settled {
        total: usize,
        /// The manifests that are hidden from RKE2 on purpose, and by whom, as a sentence. `None` if all are applied.
        kept: Option<String>,
    },
    /// Some manifests wait.
    Waiting {
        code: Code,
        message: String,
        /// Number of applied manifests.
        done: usize,
        total: usize,
        /// When one of them last changed its state.
        moved: Timestamp,
    },
    /// The state is unknown.
    Unknown {
        code: Code,
        message: String,
        total: usize,
    },
}

/// A known problem that requires a repair: a finding of severity error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownProblem {
    pub code: Code,
    pub message: String,
}

#[derive(Debug, Clone, Copy)]
pub struct NodeInputs<'a> {
    pub seen: &'a NodeSeen,
    pub platform: Option<Platform>,
    /// Durations of phases on similar nodes, learned from their boots.
    pub learned: &'a [LearnedPhase],
    pub memory: &'a NodeMemory,
    pub manifests: &'a Manifests,
    /// The most severe known problem from any source.
    pub trouble: Option<&'a KnownProblem>,
    pub now: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeJudgement {
    pub readiness: Readiness,
    pub phase: Phase,
    /// Start of the phase, if the bootstrap of this boot still runs.
    pub phase_since: Option<Timestamp>,
    /// When the node was first Ready in this boot.
    pub first_ready: Option<Timestamp>,
    /// The first blocker, for programs.
    pub code: Code,
    /// The first blocker, for users.
    pub message: String,
    pub phases: Vec<PhaseStatus>,
    pub transition: Option<TransitionSeen>,
    /// Progress; `None` if the node is Ready.
    pub pace: Option<Pace>,
    /// The state to keep.
    pub memory: NodeMemory,
    /// When the judgement may change without a new event.
    pub next_wake: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy)]
struct Counted<'a> {
    track: &'a Track,
    state: ProbeState,
}

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

/// The state and the message of a probe at this time: an old answer no longer counts.
pub fn as_of(track: &Track, now: Timestamp) -> (ProbeState, String, Option<Code>) {
    if track.is_stale(now) && track.state != ProbeState::Unknown {
        let why = "it no longer answers".to_owned();
        return (ProbeState::Unknown, why, Some(Code::ProbeUnknown));
    }
    (track.state, track.message.clone(), track.code())
}

/// The probes that count. A probe of day 0 counts until the node was installed once.
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
    // The first blocker is the one that the others wait for: first by phase, then in the order of the table.
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
        // Probes of the last phase are not expected to pass while manifests wait, because these may install their targets.
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

    /// The same verdict with a full disk as its reason, because the disk may be the cause of the other failures.
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
                // In brackets, because a short line has room for the first part only.
                message: format!("{full} ({})", verdict.message),
                ..verdict
            },
        }
    }

    /// The full disk, found by a probe or by a failed write of Windrow itself.
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

    /// The verdict for a failing required probe. If RKE2's unit fails and there is no default route, the message also says so:
    /// without a route RKE2 does not find the address of the node, unless that is configured (rancher/rke2#1242). Windrow cannot
    /// tell whether this is the cause.
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

    /// The first wanted probe that has no answers yet, or only failures. A probe with only Unknown answers does not prevent
    /// Ready.
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

    /// The transition to show: the first one that excuses failures, or else the first one.
    fn transition(&self) -> Option<&TransitionSeen> {
        let first = self.excuses().next();
        first.or_else(|| self.transitions().next())
    }

    fn excuse_of(&self, track: &Track) -> Option<&TransitionSeen> {
        self.excuses().find(|transition| excuses(transition, track))
    }

    fn excuses(&self) -> impl Iterator<Item = &TransitionSeen> {
        let now = self.question.now;
        self.transitions()
            .filter(move |transition| patience_ends(transition) > now)
    }

    /// The transition of this node that takes too long. A long transition of another node is not a problem of this node.
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

    /// When an unknown role is no longer just the start of the probes.
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

/// Whether it has no first result yet. Configured probes do not count, because their period may be arbitrarily long.
fn is_pending(track: &Track) -> bool {
    track.code() == Some(Code::ProbePending) && !track.spec.id.is_user()
}

/// Whether a transition explains the failure of a probe. A transition of this node explains every required probe. An upgrade
/// explains the probes of its targets, and an upgrade on other nodes explains only shared parts.
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

/// Whether the probe shows that Harvester's chart is installed.
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
