//! The progress of the bootstrap: the start, duration and progress of each phase.

use super::super::phase_times::{BootStep, KnownTimes, expectation};
use super::super::progress::{pace, stalled_after};
use super::super::{BootTimes, Pace, Phase, PhaseState, PhaseStatus, ProbeState};
use super::{Judging, Manifests, NodeInputs, NodeMemory, NodeVerdict, is_pending};
use jiff::{SignedDuration, Timestamp};

impl Judging<'_> {
    /// The durations of the phases in this boot so far.
    pub(super) fn times(&self, verdict: &NodeVerdict) -> Option<BootTimes> {
        let NodeInputs {
            seen, memory, now, ..
        } = self.question;
        let step = BootStep {
            boot: &seen.boot,
            entered: self.entered(verdict.phase),
            readiness: verdict.readiness,
            phase: verdict.phase,
            is_certain: !self.first_checks_run_before(verdict.phase),
            was_ready: memory.ready_boot == seen.boot,
            installed: memory.installed,
            now: *now,
        };
        BootTimes::after(memory.bootstrap.as_deref(), &step)
    }

    /// Whether a probe of an earlier phase has no first result yet.
    fn first_checks_run_before(&self, phase: Phase) -> bool {
        let earlier = self.phases_before(phase);
        self.required()
            .any(|probe| earlier.contains(&probe.track.spec.phase) && is_pending(probe.track))
    }

    pub(super) fn phases(
        &self,
        current: Phase,
        arrived: bool,
        memory: &NodeMemory,
    ) -> Vec<PhaseStatus> {
        let times = memory.bootstrap.as_deref();
        let mut reached = false;
        let mut status = Vec::new();
        for &name in Phase::bootstrap(self.question.platform) {
            reached |= name == current;
            let of_it = || {
                self.required()
                    .filter(|probe| probe.track.spec.phase == name)
            };
            let (mut done, mut total) = (
                of_it()
                    .filter(|probe| probe.state == ProbeState::Passing)
                    .count(),
                of_it().count(),
            );
            let mut unknown = of_it().any(|probe| probe.state == ProbeState::Unknown);
            let mut complete = done == total;
            match (name, self.question.manifests) {
                (Phase::Manifests, Manifests::Settled { total: all, .. }) => {
                    (done, total) = (*all, *all)
                }
                (
                    Phase::Manifests,
                    Manifests::Waiting {
                        done: applied,
                        total: all,
                        ..
                    },
                ) => {
                    (done, total) = (*applied, *all);
                    complete = false;
                }
                (Phase::Manifests, Manifests::Unknown { total: all, .. }) => {
                    (done, total) = (0, *all);
                    complete = false;
                    unknown = true;
                }
                (Phase::Ready, _) => complete = arrived,
                _ => {}
            }
            let state = match () {
                () if complete && (name != current || arrived) => PhaseState::Done,
                () if name == current => PhaseState::Current,
                () if unknown && !reached => PhaseState::Unknown,
                () => PhaseState::Pending,
            };
            let stays = times.and_then(|times| times.phases.get(&name));
            let entered = times
                .filter(|times| times.is_under_way() && times.phase == name)
                .map(|times| times.since);
            status.push(PhaseStatus {
                name,
                state,
                done,
                total,
                began: stays.map(|stays| stays.began).or(entered),
                seconds: stays.map(|stays| stays.seconds),
                expected: (name != Phase::Ready)
                    .then(|| expectation(name, &self.known_times(memory), times)),
            });
        }
        status
    }

    fn phases_before(&self, phase: Phase) -> Vec<Phase> {
        let order = Phase::bootstrap(self.question.platform).iter();
        order.copied().take_while(|one| *one != phase).collect()
    }

    /// When the earlier phases ended.
    fn entered(&self, phase: Phase) -> Timestamp {
        let earlier = self.phases_before(phase);
        self.required()
            .filter(|probe| earlier.contains(&probe.track.spec.phase))
            .map(|probe| probe.track.since)
            .fold(self.question.seen.started, Timestamp::max)
    }

    fn known_times<'m>(&'m self, memory: &'m NodeMemory) -> KnownTimes<'m> {
        KnownTimes {
            platform: self.question.platform,
            role: self.question.seen.role,
            earlier: &memory.earlier,
            learned: self.question.learned,
        }
    }

    pub(super) fn pace(
        &self,
        verdict: &NodeVerdict,
        times: Option<&BootTimes>,
    ) -> (Pace, Option<Timestamp>) {
        let NodeInputs {
            seen,
            manifests,
            memory,
            now,
            ..
        } = self.question;
        let mut moved = self
            .required()
            .map(|probe| probe.track.moved)
            .chain(seen.transitions.values().map(|one| one.since))
            .fold(seen.started, Timestamp::max);
        if let Manifests::Waiting { moved: last, .. } = manifests {
            moved = moved.max(*last);
        }
        let stuck = self.stuck().is_some();
        let known = self.known_times(memory);
        let expected = expectation(verdict.phase, &known, times).seconds;
        // Earlier visits of the phase count too, and so does the time before this process started.
        let (entered, spent) = times
            .filter(|times| times.is_under_way() && times.phase == verdict.phase)
            .map_or((self.entered(verdict.phase), 0), |times| {
                let stays = times.phases.get(&times.phase);
                (times.since, stays.map_or(0, |stays| stays.seconds))
            });
        let left = i64::try_from(expected.saturating_sub(spent)).unwrap_or(i64::MAX);
        let slow = entered.saturating_add(SignedDuration::from_secs(left));
        let slow = slow.unwrap_or(Timestamp::MAX);
        let row = known.learned(verdict.phase, times);
        pace(slow, moved, stalled_after(row), stuck, *now)
    }
}
