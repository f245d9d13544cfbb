//! The course of a boot at the node: when it was in which phase, for which reason, and when it arrived.

use jiff::{SignedDuration, Timestamp};
use windrow_model::reasons::Code;

use super::axis::{Axis, ClockNews};
use super::{BootEnd, BootState, PhaseStay};
use crate::flight::RecordedStage;
use crate::flight::boots::{RecordedBoot, first_reachable, started};
use crate::{Phase, Readiness};

/// A flight that begins this long after its process was begun again in the middle.
const CUT: SignedDuration = SignedDuration::from_secs(30);

/// One decision, as far as it is about the node.
#[derive(Debug, Clone)]
pub(super) struct NodeMoment {
    /// When, in seconds from the beginning.
    pub(super) at: f64,
    readiness: Readiness,
    pub(super) phase: Phase,
    code: Code,
    message: String,
    /// Was a file held, released or applied by it?
    moved_files: bool,
    /// What is to be known of the clock, or of the process.
    caution: Option<String>,
}

/// A time during which the node waited for the same.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NodePeriod {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) phase: Phase,
    pub(super) code: Code,
    pub(super) message: String,
}

impl NodePeriod {
    /// Did the node wait for its manifests?
    pub(super) fn is_about_manifests(&self) -> bool {
        matches!(self.phase, Phase::Staging | Phase::Manifests)
    }
}

/// The course of a boot at the node.
#[derive(Debug)]
pub(super) struct BootCourse {
    pub(super) windrow: String,
    pub(super) began: Timestamp,
    /// Every decision up to the end, in order.
    pub(super) moments: Vec<NodeMoment>,
    /// Which of them is the arrival; none when the boot is not at its end.
    pub(super) arrived: Option<usize>,
    /// When kube-apiserver answered first; none when it never did.
    pub(super) api: Option<f64>,
    /// Is its beginning missing?
    pub(super) is_cut: bool,
    /// Was a file held or applied in it?
    pub(super) had_files: bool,
    pub(super) cautions: Vec<String>,
}

impl BootCourse {
    /// `None` when nothing was decided in it.
    pub(super) fn read(boot: &RecordedBoot<'_>) -> Option<Self> {
        let (segment, _, first) = boot.decisions().next()?;
        let head = segment.head.at;
        let process = started(first).unwrap_or(head);
        let is_cut = head.duration_since(process) > CUT;
        let mut course = Self {
            windrow: segment.head.windrow.clone(),
            began: head.min(process),
            moments: Vec::new(),
            arrived: None,
            api: None,
            is_cut,
            had_files: false,
            cautions: Vec::new(),
        };
        if is_cut {
            course.cautions.push(
                "the flight no longer has the beginning of this boot: of what came before, it knows what its first line says"
                    .to_owned(),
            );
        }
        course.take_decisions(boot);
        course.find_arrival();
        Some(course)
    }

    fn take_decisions(&mut self, boot: &RecordedBoot<'_>) {
        let mut axis = Axis::new(self.began);
        for (_, begins, decision) in boot.decisions() {
            let process = started(decision);
            let restarted = begins && axis.is_new_process(process);
            let (at, news) = axis.take(decision.at, process, begins);
            let caution = match news {
                ClockNews::Set(by) => Some(format!(
                    "the clock was set {} at {}: the times here do not jump with it",
                    words_of_jump(by),
                    clock(at)
                )),
                ClockNews::Back(by) => Some(format!(
                    "the clock was set back at {}, by {} s at least: how long the wait over it took is not known",
                    clock(at),
                    by.as_secs()
                )),
                ClockNews::None => restarted.then(|| {
                    format!(
                        "Windrow began again at {}: what happened while it did not run was seen late",
                        clock(at)
                    )
                }),
            };
            if let Some(answered) = first_reachable(decision) {
                let answered = axis.at(answered).clamp(0.0, at);
                self.api.get_or_insert(answered);
            }
            // The first line of a segment also has what was so before; but what is held then waits in this boot too.
            let is_news =
                |stage: &RecordedStage| !begins || matches!(stage, RecordedStage::Held { .. });
            self.moments.push(NodeMoment {
                at,
                readiness: decision.readiness,
                phase: decision.phase,
                code: decision.reason.code,
                message: decision.reason.message.clone(),
                moved_files: decision.files.values().any(is_news),
                caution,
            });
        }
    }

    /// The first decision by which the boot was at its end. Before a node is probed its manifests are all that is judged: that says
    /// nothing where it is probed later.
    fn find_arrival(&mut self) {
        let is_probed = self.moments.iter().any(|moment| is_of_probed(moment.phase));
        self.arrived = self
            .moments
            .iter()
            .position(|moment| match moment.readiness {
                Readiness::Ready | Readiness::Degraded => true,
                _ => !is_probed && moment.phase == Phase::Staged,
            });
        if let Some(arrived) = self.arrived {
            self.moments.truncate(arrived + 1);
        }
        self.had_files = self.moments.iter().any(|moment| moment.moved_files);
        let cautions = self.moments.iter_mut();
        self.cautions
            .extend(cautions.filter_map(|moment| moment.caution.take()));
        if is_probed {
            // The first phase of a node is the one in which the probes found it.
            let probed = self
                .moments
                .iter()
                .find(|moment| is_of_probed(moment.phase));
            let Some(first) = probed.map(|moment| moment.phase) else {
                return;
            };
            for moment in &mut self.moments {
                if is_of_probed(moment.phase) {
                    break;
                }
                moment.phase = first;
            }
        }
    }

    /// The end, or the last that is known, in seconds.
    pub(super) fn last(&self) -> f64 {
        self.moments.last().map_or(0.0, |moment| moment.at)
    }

    pub(super) fn end(&self) -> BootEnd {
        let last = self.moments.last();
        let state = match last.map(|last| last.readiness) {
            Some(Readiness::Ready) => BootState::Ready,
            Some(Readiness::Degraded) => BootState::Degraded,
            Some(Readiness::Failed) => BootState::Failed,
            _ if self.arrived.is_some() => BootState::Staged,
            _ => BootState::Underway,
        };
        BootEnd {
            state,
            at: self.last(),
            code: last.map_or(Code::StateUnknown, |last| last.code),
            message: last.map_or_else(String::new, |last| last.message.clone()),
        }
    }

    /// What the node waited for, one after the other, from the beginning to the end.
    pub(super) fn periods(&self) -> Vec<NodePeriod> {
        let mut periods: Vec<NodePeriod> = Vec::new();
        let waited = match self.arrived {
            Some(arrived) => &self.moments[..arrived],
            None => &self.moments[..],
        };
        for moment in waited {
            match periods.last_mut() {
                Some(last) if (last.phase, last.code) == (moment.phase, moment.code) => {
                    last.message.clone_from(&moment.message);
                }
                last => {
                    let from = match last {
                        Some(last) => {
                            last.to = moment.at;
                            moment.at
                        }
                        None => 0.0,
                    };
                    periods.push(NodePeriod {
                        from,
                        to: moment.at,
                        phase: moment.phase,
                        code: moment.code,
                        message: moment.message.clone(),
                    });
                }
            }
        }
        if let Some(last) = periods.last_mut() {
            last.to = self.last();
        }
        periods
    }

    pub(super) fn phases(&self) -> Vec<PhaseStay> {
        let mut phases: Vec<PhaseStay> = Vec::new();
        for period in self.periods() {
            match phases.last_mut() {
                Some(last) if last.name == period.phase => last.to = period.to,
                last => {
                    if let Some(last) = last {
                        last.ended = true;
                    }
                    phases.push(PhaseStay {
                        name: period.phase,
                        from: period.from,
                        to: period.to,
                        ended: false,
                        usual: None,
                    });
                }
            }
        }
        if let Some(last) = phases.last_mut() {
            last.ended = self.arrived.is_some();
        }
        phases
    }
}

fn is_of_probed(phase: Phase) -> bool {
    !matches!(phase, Phase::WaitingForApi | Phase::Staging | Phase::Staged)
}

fn words_of_jump(by: SignedDuration) -> String {
    let seconds = by.as_secs();
    match seconds < 0 {
        true => format!("back by {} s", -seconds),
        false => format!("forward by {seconds} s"),
    }
}

/// Minutes and seconds from the beginning, for sentences and tables.
pub fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0).round();
    let minutes = (whole / 60.0).floor();
    format!("{minutes:02.0}:{:02.0}", whole - minutes * 60.0)
}
