//! Decides which console gets which event, and when: a state machine with the time passed in. Pure.
//!
//! ```text
//!            the event becomes true                answered 2xx
//!   waiting ───────────────────────────> pending ──────────────> delivered
//!      ^                                 │     ^                     │
//!      │ something else is true now      │     │ pause, doubled      │ a new occurrence
//!      └─────────────────────────────────┴──> failing <──────────────┘ (to pending)
//! ```
//!
//! If it failed and something else is true now, it is given up, and shown so until its console accepts a request again.
//!
//! Bounded by construction: a webhook has one event, and only its last occurrence is kept. The request is written at
//! the moment of sending, so a console that was away gets the newest state. One console gets one request at a time, the
//! oldest event first, so that none overtakes another.
//!
//! A webhook with `every` sends its event's current state again while it is true. Such a repeat is not an occurrence:
//! it neither shows in the view nor changes the record, unless it fails.
//!
//! [`DeliveryMemory`] survives the daemon: an occurrence that was delivered is not sent again, and one that was not is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windrow_decide::settings::{Webhook, WebhookEvent};
use windrow_decide::{DeliveryState, WebhookStatus};
use windrow_model::manifest::sha256_hex;

use super::event::{EventInputs, Topic, TopicState, topic_state};

/// First and longest pause between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5 * 60));
/// How many numbers are reserved on the disk at a time, so that not every request writes there.
const RESERVED: u64 = 256;
/// How many webhooks are remembered after they have left the configuration.
const REMEMBERED: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Occurrence {
    pub(super) event: WebhookEvent,
    /// Its subject: a boot, a cluster, files.
    pub(super) of: BTreeSet<String>,
    /// Counts the occurrences of the topic.
    pub(super) number: u64,
    /// When it happened.
    pub(super) since: Timestamp,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeliveryMemory {
    occurrences: BTreeMap<Topic, Occurrence>,
    #[serde(default)]
    over: BTreeSet<Topic>,
    delivered: BTreeMap<String, u64>,
    /// No request has a greater number. The next start continues after it, so that numbers only grow.
    #[serde(default)]
    sequence: u64,
}

#[derive(Debug)]
struct Lane {
    id: u64,
    hook: Webhook,
    /// Its name in the record: neither a secret nor the line of a file.
    key: String,
    console: String,
    tries: u32,
    /// No try before this time since the daemon's start.
    not_before: Duration,
    busy: bool,
    trouble: Option<String>,
    since: Timestamp,
    /// When its event is sent again, since the daemon's start.
    repeat_at: Option<Duration>,
    repeat: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct DeliveryTry {
    /// Pass it to [`WebhookQueue::finished`].
    pub(super) lane: u64,
    pub(super) hook: Webhook,
    pub(super) occurrence: Occurrence,
    /// The number of its repeat, the same for all tries of it; `None`: the first time.
    pub(super) repeat: Option<u64>,
    /// Greater than that of any request before it.
    pub(super) sequence: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum TryOutcome {
    Delivered,
    /// It failed, after it had worked.
    Failing,
    Nothing,
}

#[derive(Debug, Default)]
pub(super) struct WebhookQueue {
    memory: DeliveryMemory,
    holds: BTreeSet<Topic>,
    lanes: Vec<Lane>,
    next_id: u64,
    sequence: u64,
}

impl WebhookQueue {
    pub(super) fn new(memory: DeliveryMemory) -> Self {
        Self {
            sequence: memory.sequence,
            memory,
            ..Self::default()
        }
    }

    pub(super) fn memory(&self) -> &DeliveryMemory {
        &self.memory
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Sets the configured webhooks. Those that stay keep their pauses.
    pub(super) fn configure(&mut self, hooks: Vec<Webhook>, now: Timestamp) {
        let mut before = std::mem::take(&mut self.lanes);
        let keys = keys(&hooks);
        for (hook, key) in hooks.into_iter().zip(keys) {
            let known = before.iter().position(|lane| lane.hook == hook);
            let lane = match known {
                Some(position) => Lane {
                    key,
                    ..before.swap_remove(position)
                },
                None => {
                    self.next_id += 1;
                    Lane {
                        id: self.next_id,
                        key,
                        console: hook.console(),
                        hook,
                        tries: 0,
                        not_before: Duration::ZERO,
                        busy: false,
                        trouble: None,
                        since: now,
                        repeat_at: None,
                        repeat: None,
                    }
                }
            };
            self.lanes.push(lane);
        }
        let lanes = &self.lanes;
        if self.memory.delivered.len() > REMEMBERED {
            self.memory
                .delivered
                .retain(|key, _| lanes.iter().any(|lane| lane.key == *key));
        }
    }

    pub(super) fn observe(&mut self, inputs: &EventInputs<'_>) {
        for topic in Topic::ALL {
            let last = self.memory.occurrences.get(&topic);
            let over = self.memory.over.contains(&topic);
            let nothing = BTreeSet::new();
            let before = last.filter(|_| !over).map_or(&nothing, |last| &last.of);
            match topic_state(topic, inputs, before) {
                TopicState::Silent => {
                    self.holds.remove(&topic);
                }
                TopicState::Over => {
                    self.holds.remove(&topic);
                    if last.is_some() {
                        self.memory.over.insert(topic);
                    }
                }
                TopicState::Holds { event, of } => {
                    let same = last
                        .is_some_and(|last| !over && last.event == event && of.is_subset(&last.of));
                    let (number, since) = match last {
                        Some(last) if same => (last.number, last.since),
                        Some(last) => (last.number.saturating_add(1), inputs.now),
                        None => (1, inputs.now),
                    };
                    if !same {
                        self.renew(topic, inputs.now);
                    }
                    let occurrence = Occurrence {
                        event,
                        of,
                        number,
                        since,
                    };
                    self.memory.occurrences.insert(topic, occurrence);
                    self.memory.over.remove(&topic);
                    self.holds.insert(topic);
                }
            }
        }
    }

    /// A new occurrence: the answers to the last one no longer count.
    fn renew(&mut self, topic: Topic, now: Timestamp) {
        for lane in &mut self.lanes {
            if Topic::for_event(lane.hook.event) == topic {
                lane.since = now;
                lane.repeat = None;
            }
        }
    }

    fn current(&self, lane: &Lane) -> Option<&Occurrence> {
        let topic = Topic::for_event(lane.hook.event);
        let occurrence = self.memory.occurrences.get(&topic)?;
        let current = self.holds.contains(&topic) && occurrence.event == lane.hook.event;
        current.then_some(occurrence)
    }

    fn is_delivered(&self, lane: &Lane, occurrence: &Occurrence) -> bool {
        self.memory.delivered.get(&lane.key) == Some(&occurrence.number)
    }

    /// The occurrence that a webhook has to deliver now, or again.
    fn due(&self, lane: &Lane) -> Option<&Occurrence> {
        let occurrence = self.current(lane)?;
        let due = lane.repeat.is_some() || !self.is_delivered(lane, occurrence);
        due.then_some(occurrence)
    }

    /// When a webhook that has nothing else to do sends its event again.
    fn next_repeat(&self, lane: &Lane) -> Option<Duration> {
        let idle = lane.repeat.is_none() && !lane.busy;
        let occurrence = self.current(lane).filter(|_| idle)?;
        lane.repeat_at
            .filter(|_| self.is_delivered(lane, occurrence))
    }

    fn begin_repeats(&mut self, now: Duration) {
        for position in 0..self.lanes.len() {
            let lane = &mut self.lanes[position];
            // Sent before the daemon's start: one time later.
            if let (Some(every), None) = (lane.hook.every, lane.repeat_at) {
                lane.repeat_at = Some(now + every);
            }
            let is_due = self.next_repeat(&self.lanes[position]);
            if is_due.is_some_and(|at| at <= now) {
                let number = self.next_sequence();
                self.lanes[position].repeat = Some(number);
            }
        }
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence = self.sequence.saturating_add(1);
        if self.sequence > self.memory.sequence {
            self.memory.sequence = self.sequence.saturating_add(RESERVED);
        }
        self.sequence
    }

    /// The requests to send at this time since the daemon's start. Each counts as running from now on.
    pub(super) fn start(&mut self, now: Duration) -> Vec<DeliveryTry> {
        self.begin_repeats(now);
        let mut due: Vec<(usize, Occurrence)> = Vec::new();
        for (position, lane) in self.lanes.iter().enumerate() {
            if !lane.busy
                && lane.not_before <= now
                && let Some(occurrence) = self.due(lane)
            {
                due.push((position, occurrence.clone()));
            }
        }
        due.sort_by_key(|(_, occurrence)| occurrence.since);
        let mut tries = Vec::new();
        for (position, occurrence) in due {
            let console = &self.lanes[position].console;
            if self
                .lanes
                .iter()
                .any(|lane| lane.busy && lane.console == *console)
            {
                continue;
            }
            let sequence = self.next_sequence();
            let lane = &mut self.lanes[position];
            lane.busy = true;
            tries.push(DeliveryTry {
                repeat: lane.repeat,
                sequence,
                lane: lane.id,
                hook: lane.hook.clone(),
                occurrence,
            });
        }
        tries
    }

    /// A try has ended. `spread` shortens a pause by a random part.
    pub(super) fn finished(
        &mut self,
        tried: &DeliveryTry,
        result: Result<(), String>,
        elapsed: Duration,
        now: Timestamp,
        spread: impl Fn(Duration) -> Duration,
    ) -> TryOutcome {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.id == tried.lane) else {
            // It was removed from the configuration meanwhile.
            return TryOutcome::Nothing;
        };
        lane.busy = false;
        match result {
            Ok(()) => {
                lane.tries = 0;
                lane.not_before = Duration::ZERO;
                lane.repeat_at = lane.hook.every.map(|every| elapsed + spread(every));
                let was_in_trouble = lane.trouble.take().is_some();
                let is_news = tried.repeat.is_none() || was_in_trouble;
                if is_news {
                    lane.since = now;
                }
                // Unless something new has happened meanwhile.
                lane.repeat = lane.repeat.filter(|repeat| Some(*repeat) != tried.repeat);
                let number = tried.occurrence.number;
                self.memory.delivered.insert(lane.key.clone(), number);
                let console = lane.console.clone();
                self.forget_given_up(&console);
                match is_news {
                    true => TryOutcome::Delivered,
                    false => TryOutcome::Nothing,
                }
            }
            Err(why) => {
                let doubled = PAUSES.0.saturating_mul(1 << lane.tries.min(16));
                lane.not_before = elapsed + spread(doubled.min(PAUSES.1));
                lane.tries += 1;
                let fresh = lane.trouble.is_none();
                if fresh {
                    lane.since = now;
                }
                lane.trouble = Some(why);
                if fresh {
                    TryOutcome::Failing
                } else {
                    TryOutcome::Nothing
                }
            }
        }
    }

    /// The console is back and has the newest state: the events that it missed are old.
    fn forget_given_up(&mut self, console: &str) {
        let over: Vec<u64> = self
            .lanes
            .iter()
            .filter(|lane| lane.console == console && self.due(lane).is_none())
            .map(|lane| lane.id)
            .collect();
        for lane in &mut self.lanes {
            if over.contains(&lane.id) {
                lane.trouble = None;
            }
        }
    }

    pub(super) fn next(&self) -> Option<Duration> {
        let waits = self
            .lanes
            .iter()
            .filter(|lane| !lane.busy && self.due(lane).is_some())
            // A webhook that waits for another request of the same console is handled when that ends.
            .filter(|lane| {
                let mut others = self.lanes.iter();
                !others.any(|other| other.busy && other.console == lane.console)
            });
        let tries = waits.map(|lane| lane.not_before);
        let repeats = self.lanes.iter().filter_map(|lane| self.next_repeat(lane));
        tries.chain(repeats).min()
    }

    pub(super) fn view(&self) -> Vec<WebhookStatus> {
        let view = self.lanes.iter().map(|lane| {
            let topic = Topic::for_event(lane.hook.event);
            let last = self.memory.occurrences.get(&topic);
            let told = last.is_some_and(|last| {
                last.event == lane.hook.event
                    && self.memory.delivered.get(&lane.key) == Some(&last.number)
            });
            let state = match (self.due(lane), &lane.trouble) {
                (Some(_), Some(_)) => DeliveryState::Failing,
                // Sent again: its console has had it.
                (Some(_), None) if told => DeliveryState::Delivered,
                (Some(_), None) => DeliveryState::Pending,
                (None, _) if told => DeliveryState::Delivered,
                (None, Some(_)) => DeliveryState::GivenUp,
                (None, None) => DeliveryState::Waiting,
            };
            let failing = matches!(state, DeliveryState::Failing | DeliveryState::GivenUp);
            WebhookStatus {
                event: lane.hook.event.name().to_owned(),
                console: lane.console.clone(),
                at: lane.hook.at.clone(),
                state,
                since: lane.since,
                message: lane.trouble.clone().filter(|_| failing).unwrap_or_default(),
            }
        });
        view.collect()
    }
}

/// The names of webhooks in the record, derived from their events and addresses. Webhooks that differ only in body,
/// headers or user, as for two channels of one gateway, have separate names. No name contains a password: a new
/// password is not a reason to send again.
fn keys(hooks: &[Webhook]) -> Vec<String> {
    let digest = |what: &str| {
        let mut key = sha256_hex(what.as_bytes());
        key.truncate(32);
        key
    };
    let request = |hook: &Webhook| {
        let url = hook.url.render(|field| field.name());
        format!("{}\n{}\n{url}", hook.event.name(), hook.method)
    };
    let content = |hook: &Webhook| {
        let payload = hook.payload.as_ref();
        let payload = payload.map(|payload| payload.render(|field| field.name()));
        let user = hook.basic_auth.as_ref().map(|(user, _)| user);
        let headers = hook.headers.iter();
        let headers = headers.filter(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
        format!("{payload:?}\n{user:?}\n{:?}", headers.collect::<Vec<_>>())
    };
    let named = |hook: &Webhook| {
        let mut same = hooks.iter().filter(|other| request(other) == request(hook));
        match same.any(|other| content(other) != content(hook)) {
            true => digest(&format!("{}\n{}", request(hook), content(hook))),
            false => digest(&request(hook)),
        }
    };
    hooks.iter().map(named).collect()
}

#[cfg(test)]
#[path = "repeat_tests.rs"]
mod repeat_tests;
#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
