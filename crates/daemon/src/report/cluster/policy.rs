//! Decides on the outlet's writes, and their times. Pure: the caller passes the time in and sends the requests.
//!
//! ```text
//!   observe(status) ──> condition (the newest only) ──┐
//!                  └──> events (a short queue) ───────┴─> next(now) ──> request ──> answered(request, answer)
//!                                                          └─ nothing before a pause is over: down 1 to 30 s, refused 30 min
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;
use windrow_decide::{Readiness, Status};
use windrow_harvester::SystemPartition;

use super::NodeOutletSwitches;
use super::content::{NodeCondition, NodeEntries, Notice, notices};
use crate::backoff::{spread, up_to};

/// How often an unchanged condition is written.
const HEARTBEAT: Duration = Duration::from_secs(10 * 60);
/// How long another message of the same reason waits.
const MESSAGE: Duration = Duration::from_secs(30);
/// The first write after a start is put off by up to this, if there is no problem: the daemons of many nodes may start
/// in one second, after an upgrade of all of them.
const FIRST: Duration = Duration::from_secs(5);
/// First and longest pause while kube-apiserver, the credential or the Node is missing.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
const REFUSED: Duration = Duration::from_secs(30 * 60);
/// Events that may be written at once, and then the time for each further one.
const BURST: u32 = 10;
const ONE_EVENT: Duration = Duration::from_secs(60);
/// Most events that wait; the oldest is dropped first.
const WAITING: usize = 20;
/// Events that are remembered, so that a repeated one is counted.
const REMEMBERED: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutletRequest(pub(super) Work);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Work {
    /// Reads the entries of an earlier run of the daemon.
    ReadNode,
    WriteCondition {
        condition: NodeCondition,
        heartbeat: Timestamp,
        transition: Timestamp,
    },
    RemoveCondition,
    /// An event that is written for the first time, by the last part of its name.
    CreateEvent {
        notice: Notice,
        at: Timestamp,
        suffix: String,
    },
    CountEvent {
        suffix: String,
        count: u32,
        at: Timestamp,
    },
}

impl OutletRequest {
    #[cfg(test)]
    pub fn is_write(&self) -> bool {
        self.0 != Work::ReadNode
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteError {
    Refused(String),
    Missing,
    /// It would be refused again.
    Invalid,
    /// Anything else: no answer, no credential yet, an error of the server.
    Down,
}

#[derive(Debug)]
struct SentEvent {
    notice: Notice,
    suffix: String,
    count: u32,
}

#[derive(Debug)]
struct WrittenCondition {
    condition: NodeCondition,
    transition: Timestamp,
    at: Instant,
}

#[derive(Debug)]
pub struct NodeOutletPolicy {
    switches: NodeOutletSwitches,
    last: Option<Arc<Status>>,
    partition: Option<SystemPartition>,
    wanted: Option<NodeCondition>,
    written: Option<WrittenCondition>,
    /// The Node's entries before the first write, after they were read.
    standing: Option<NodeEntries>,
    waiting: VecDeque<(Notice, Timestamp)>,
    sent: VecDeque<SentEvent>,
    /// How many events may be written now, and when one more may.
    tokens: u32,
    refill: Instant,
    heartbeat: Duration,
    /// When a node without problems writes for the first time.
    first_write: Instant,
    /// Nothing is written before this time, after a failure.
    pause: Option<Instant>,
    /// No event is written before this time, after one was refused: a credential that may not write events may still
    /// write the Node.
    events_pause: Option<Instant>,
    next_pause: Duration,
}

impl NodeOutletPolicy {
    /// Nothing is written yet.
    pub fn new(switches: NodeOutletSwitches, now: Instant) -> Self {
        Self {
            switches,
            last: None,
            partition: None,
            wanted: None,
            written: None,
            standing: None,
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            tokens: BURST,
            refill: now,
            heartbeat: spread(HEARTBEAT),
            first_write: now + up_to(FIRST),
            pause: None,
            events_pause: None,
            next_pause: PAUSES.0,
        }
    }

    /// Takes the size of the partition of the system images: the next status is written with it.
    pub(super) fn observe_partition(&mut self, partition: Option<SystemPartition>) {
        self.partition = partition;
    }

    pub fn observe(&mut self, status: &Arc<Status>, now: Timestamp) {
        if self
            .last
            .as_ref()
            .is_some_and(|last| Arc::ptr_eq(last, status))
        {
            return;
        }
        self.wanted = Some(NodeCondition::from_status(status, self.partition));
        if self.switches.events {
            for notice in notices(self.last.as_deref(), status) {
                if !self.waiting.iter().any(|(waiting, _)| *waiting == notice) {
                    self.waiting.push_back((notice, now));
                }
            }
            while self.waiting.len() > WAITING {
                self.waiting.pop_front();
            }
        }
        self.last = Some(status.clone());
    }

    /// The configuration was read again: a refusal may have ended.
    pub(super) fn configured(&mut self, switches: NodeOutletSwitches) {
        self.switches = switches;
        if !self.switches.events {
            self.waiting.clear();
        }
        (self.pause, self.events_pause) = (None, None);
    }

    /// When something has to be written, if nothing changes until then.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let events = (!self.waiting.is_empty()).then(|| {
            let due = match self.tokens {
                0 => self.refill + ONE_EVENT,
                _ => now,
            };
            self.events_pause.map_or(due, |pause| due.max(pause))
        });
        let due = [self.condition_due(now), events]
            .into_iter()
            .flatten()
            .min()?;
        Some(self.pause.map_or(due, |pause| due.max(pause)))
    }

    fn condition_due(&self, now: Instant) -> Option<Instant> {
        if !self.switches.condition {
            // An earlier run, or an earlier version, may have left something.
            let standing = self.standing.as_ref();
            let is_clean = self.written.is_none() && standing.is_some_and(|found| !found.any);
            return (!is_clean).then(|| now.max(self.first_write));
        }
        let wanted = self.wanted.as_ref()?;
        let Some(written) = &self.written else {
            return Some(match self.is_wrong() {
                true => now,
                false => now.max(self.first_write),
            });
        };
        let is_same_reason =
            wanted.status == written.condition.status && wanted.reason == written.condition.reason;
        Some(match is_same_reason {
            false => now,
            true if *wanted == written.condition => written.at + self.heartbeat,
            true => written.at + MESSAGE,
        })
    }

    fn is_wrong(&self) -> bool {
        let readiness = self.last.as_ref().map(|last| last.readiness);
        matches!(readiness, Some(Readiness::Failed | Readiness::Degraded))
    }

    /// The next request to send now. Requests are sent one at a time: the answer comes back before the next call.
    pub fn next(&mut self, now: Instant, time: Timestamp) -> Option<OutletRequest> {
        self.refill(now);
        if self.due(now).is_none_or(|due| due > now) {
            return None;
        }
        self.condition_work(now, time)
            .or_else(|| self.event_work(now, time))
            .map(OutletRequest)
    }

    fn condition_work(&self, now: Instant, time: Timestamp) -> Option<Work> {
        if self.condition_due(now).is_none_or(|due| due > now) {
            return None;
        }
        match &self.wanted {
            Some(wanted) if self.switches.condition => Some(self.write(wanted.clone(), time)),
            _ if self.written.is_none() && self.standing.is_none() => Some(Work::ReadNode),
            _ => Some(Work::RemoveCondition),
        }
    }

    /// The write of a condition, or the read that has to come before it.
    fn write(&self, condition: NodeCondition, time: Timestamp) -> Work {
        let standing = match (&self.written, &self.standing) {
            (Some(written), _) => Some((written.condition.status, written.transition)),
            (None, Some(standing)) => {
                let condition = standing.condition.as_ref();
                condition.map(|(status, since)| (status.as_str(), *since))
            }
            (None, None) => return Work::ReadNode,
        };
        let transition = match standing {
            Some((status, since)) if status == condition.status => since,
            _ => time,
        };
        Work::WriteCondition {
            condition,
            heartbeat: time,
            transition,
        }
    }

    fn event_work(&self, now: Instant, time: Timestamp) -> Option<Work> {
        if self.events_pause.is_some_and(|pause| pause > now) {
            return None;
        }
        let (notice, at) = self.waiting.front().filter(|_| self.tokens > 0)?;
        let known = self.sent.iter().find(|sent| sent.notice == *notice);
        Some(match known {
            Some(sent) => Work::CountEvent {
                suffix: sent.suffix.clone(),
                count: sent.count + 1,
                at: *at,
            },
            None => Work::CreateEvent {
                notice: notice.clone(),
                at: *at,
                // Unique, because no two are made in one nanosecond.
                suffix: format!("{:x}", time.as_nanosecond()),
            },
        })
    }

    pub fn answered(
        &mut self,
        request: OutletRequest,
        answer: &Result<Value, WriteError>,
        now: Instant,
    ) {
        match (request.0, answer) {
            (Work::ReadNode, Ok(node)) => self.standing = Some(NodeEntries::read(node)),
            (
                Work::WriteCondition {
                    condition,
                    transition,
                    ..
                },
                Ok(_),
            ) => {
                self.heartbeat = spread(HEARTBEAT);
                self.written = Some(WrittenCondition {
                    condition,
                    transition,
                    at: now,
                });
            }
            (Work::RemoveCondition, Ok(_)) => {
                (self.written, self.standing) = (None, Some(NodeEntries::default()));
            }
            (Work::CreateEvent { notice, suffix, .. }, Ok(_)) => {
                self.sent.push_back(SentEvent {
                    notice,
                    suffix,
                    count: 1,
                });
                while self.sent.len() > REMEMBERED {
                    self.sent.pop_front();
                }
                self.event_is_done();
            }
            (Work::CountEvent { suffix, count, .. }, Ok(_)) => {
                let mut sent = self.sent.iter_mut();
                if let Some(sent) = sent.find(|sent| sent.suffix == suffix) {
                    sent.count = count;
                }
                self.event_is_done();
            }
            // kube-apiserver keeps events for an hour: it is written again.
            (Work::CountEvent { suffix, .. }, Err(WriteError::Missing)) => {
                return self.sent.retain(|sent| sent.suffix != suffix);
            }
            (Work::CreateEvent { .. } | Work::CountEvent { .. }, Err(WriteError::Invalid)) => {
                self.event_is_done();
            }
            (Work::CreateEvent { .. } | Work::CountEvent { .. }, Err(WriteError::Refused(_))) => {
                self.events_pause = Some(now + spread(REFUSED));
            }
            (_, Err(WriteError::Refused(_))) => {
                self.standing = None;
                self.pause = Some(now + spread(REFUSED));
                return;
            }
            (_, Err(WriteError::Missing | WriteError::Invalid | WriteError::Down)) => {
                self.standing = None;
                self.pause = Some(now + spread(self.next_pause));
                self.next_pause = (self.next_pause * 2).min(PAUSES.1);
                return;
            }
        }
        self.pause = None;
        self.next_pause = PAUSES.0;
    }

    fn event_is_done(&mut self) {
        self.waiting.pop_front();
        self.tokens = self.tokens.saturating_sub(1);
    }

    fn refill(&mut self, now: Instant) {
        while self.tokens < BURST && now.saturating_duration_since(self.refill) >= ONE_EVENT {
            self.refill += ONE_EVENT;
            self.tokens += 1;
        }
        if self.tokens == BURST {
            self.refill = now;
        }
    }

    /// The last write: after it, the condition is not kept up to date, so it must not keep its last value.
    pub(super) fn stopped(&self, time: Timestamp) -> Option<OutletRequest> {
        let is_kept = self.written.is_some() && self.switches.condition;
        is_kept.then(|| OutletRequest(self.write(NodeCondition::stopped(), time)))
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
