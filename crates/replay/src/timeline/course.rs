//! The node's part of a boot: its phases with their reasons, and its arrival.

use jiff::{SignedDuration, Timestamp};
use windrow_decide::flight::RecordedStage;
use windrow_decide::{Phase, Readiness};
use windrow_model::reasons::Code;

use super::axis::{Axis, ClockNews};
use super::{BootEnd, BootState, PhaseStay};
use crate::boots::{RecordedBoot, first_reachable, started};

/// If a flight begins this long after its process, its file was begun again during the boot.
const CUT: SignedDuration = SignedDuration::from_secs(30);

/// The node's part of one decision.
#[derive(Debug, Clone)]
pub(super) struct NodeMoment {
    /// In seconds from the beginning.
    pub(super) at: f64,
    readiness: Readiness,
    pub(super) phase: Phase,
    code: Code,
    message: String,
    /// Did it hold, release or apply a file?
    moved_files: bool,
    /// A note about the clock or the process.
    caution: Option<String>,
}

/// A time during which the node waited for the same thing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NodePeriod {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) phase: Phase,
    pub(super) code: Code,
    pub(super) message: String,
}

impl NodePeriod {
    pub(super) fn is_about_manifests(&self) -> bool {
        matches!(self.phase, Phase::Staging | Phase::Manifests)
    }
}

/// The node's part of a boot.
#[derive(Debug)]
pub(super) struct BootCourse {
    pub(super) windrow: String,
    pub(super) began: Timestamp,
    /// Every decision up to the end, in order.
    pub(super) moments: Vec<NodeMoment>,
    /// The index of the arrival; `None` if the boot has not ended.
    pub(super) arrived: Option<usize>,
    /// When kube-apiserver first answered; `None` if it never did.
    pub(super) api: Option<f64>,
    pub(super) is_cut: bool,
    pub(super) had_files: bool,
    pub(super) cautions: Vec<String>,
}

impl BootCourse {
    /// `None` if the boot has no decision.
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
                "the boot log no longer has the beginning of this boot: only its first line has earlier facts"
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
                    "the clock was set back at {}, by {} s at least: the length of the wait at that time is unknown",
                    clock(at),
                    by.as_secs()
                )),
                ClockNews::None => restarted.then(|| {
                    format!(
                        "Windrow began again at {}: events while it did not run were seen late",
                        clock(at)
                    )
                }),
            };
            if let Some(answered) = first_reachable(decision) {
                let answered = axis.at(answered).clamp(0.0, at);
                self.api.get_or_insert(answered);
            }
            // The first line of a segment also repeats older facts; but a file that is held then waits in this boot as
            // well.
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

    /// Finds the first decision at which the boot had ended. Before a node is probed, only its manifests are judged:
    /// that means nothing if it is probed later.
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

    /// The end, or the last known time, in seconds.
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

    /// The waits of the node, in order, from the beginning to the end.
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
