//! The record of one machine, which is the join of its reports. The join is commutative, associative and idempotent, so neither
//! the order nor the number of reports matters.
//!
//! ```text
//!   machine ─┬─ boot ─┬─ newest event, newest document, newest condition; the event that came last
//!            │        ├─ start: the earliest of (received − uptime)
//!            │        └─ phases: each dated by the first report that names it
//!            └─ boot …  (the newest is shown)
//! ```

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use windrow_model::span;
use windrow_plan::readiness::node::Readiness;

use crate::identity::{host_of, is_own_host};
use crate::node_object::STALE_HEADLINE;
use crate::report::{MOST_PHASES, NodeReport, ReportSource};

/// Limit of boots per machine. Those with the latest reports are kept.
const MOST_BOOTS: usize = 8;
const MOST_NAMES: usize = 8;
/// Approximate memory limit of a record, in bytes. It exceeds four reports of one boot at their largest, and is a hundred times
/// the usual size. Older boots are removed first.
const MOST_BYTES: usize = 384 << 10;

/// Enough periodic events to show their interval, even with another event between them.
const MOST_PERIODIC: usize = 4;

/// A condition is valid for this time, unless it is renewed.
const KEPT: SignedDuration = SignedDuration::from_mins(10);

/// An event that arrives later than this has an outdated uptime.
const LATE: SignedDuration = SignedDuration::from_mins(2);
/// No event arrives this late after newer ones.
const NEVER_SO_LATE: SignedDuration = SignedDuration::from_hours(1);
/// Limit of sequence numbers per boot. A restart of the daemon skips up to 256 of them, and each attempt uses one.
const MOST_NUMBERS: u64 = 100_000;
const MOST_NUMBERS_A_SECOND: u64 = 10;

/// Size of an entry without its text.
const ENTRY: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its host names, and those of its Node.
    pub(crate) names: BTreeSet<String>,
    /// By boot ID.
    pub(crate) boots: BTreeMap<String, BootRecord>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BootRecord {
    /// When the first and the last report arrived.
    pub(crate) first: Timestamp,
    pub(crate) heard: Timestamp,
    /// Latest possible start, if a report contains the uptime.
    pub(crate) began: Option<Timestamp>,
    /// The lowest and the highest sequence number.
    pub(crate) sequences: Option<(u64, u64)>,
    /// The highest sequence number and its uptime.
    #[serde(default)]
    pub(crate) highest: Option<(u64, u64)>,
    /// When the first event with an uptime arrived, and the start of the boot according to this event.
    #[serde(default)]
    pub(crate) first_began: Option<(Timestamp, Timestamp)>,
    pub(crate) event: Option<NodeReport>,
    /// The event that arrived last, if it is not the newest one.
    #[serde(default)]
    pub(crate) last: Option<NodeReport>,
    pub(crate) document: Option<NodeReport>,
    pub(crate) condition: Option<NodeReport>,
    pub(crate) phases: BTreeMap<String, PhaseRecord>,
    /// The last periodic events: sequence number and uptime.
    pub(crate) periodic: BTreeMap<u64, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PhaseRecord {
    /// When a report first named it.
    pub(crate) told: Timestamp,
    /// When it began, by the clock of the receiver.
    pub(crate) began: Timestamp,
    /// When its duration was last reported, and the duration.
    pub(crate) took: Option<(Timestamp, u64)>,
}

/// The newer of two reports from one source.
fn newer(one: Option<NodeReport>, other: Option<NodeReport>) -> Option<NodeReport> {
    match (one, other) {
        (Some(one), Some(other)) => Some(match is_newer(&one, &other) {
            true => one,
            false => other,
        }),
        (one, other) => one.or(other),
    }
}

fn is_newer(one: &NodeReport, other: &NodeReport) -> bool {
    // Within a boot the uptime continues even if the sequence numbers start again: the last number is stored on the disk.
    let uptime = |report: &NodeReport| report.uptime.filter(|_| !report.boot.is_empty());
    let key = |report: &NodeReport| match report.sequence {
        // If an event arrived twice, the earlier time is more accurate.
        Some(sequence) => (
            (uptime(report), Some(sequence), report.uptime),
            report.generation,
            None,
            Some(Reverse(report.received)),
        ),
        None => (
            (None, None, None),
            None,
            Some((report.received, report.generation)),
            None,
        ),
    };
    let (one_key, other_key) = (key(one), key(other));
    if one_key != other_key {
        return one_key > other_key;
    }
    // The reports differ only in their content, so any stable order is good enough.
    let text = |report: &NodeReport| serde_json::to_string(report).unwrap_or_default();
    text(one) >= text(other)
}

fn later(one: NodeReport, other: NodeReport) -> NodeReport {
    let came_later = match one.received.cmp(&other.received) {
        Ordering::Equal => is_newer(&one, &other),
        order => order.is_gt(),
    };
    if came_later { one } else { other }
}

/// A contradiction between the events of one boot, which shows that they have different senders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventContradiction {
    /// The numbers are further apart than a node can count in one boot.
    Numbers { lowest: u64, highest: u64 },
    /// A lower number was sent after a higher one.
    Order { higher: u64, later: u64 },
    /// An event claims an uptime that the node had not reached when the event arrived.
    Uptime { claimed: u64 },
}

impl fmt::Display for EventContradiction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numbers { lowest, highest } => write!(
                formatter,
                "its events have the numbers {lowest} to {highest}, more than a node uses in one boot: another sender may use its name"
            ),
            Self::Order { higher, later } => write!(
                formatter,
                "event {later} was sent after event {higher}: another sender may use its name, or the node lost its state"
            ),
            Self::Uptime { claimed } => write!(
                formatter,
                "an event claims an uptime of {}, which the node cannot have yet: another sender may use its name",
                span(*claimed)
            ),
        }
    }
}

impl PhaseRecord {
    fn join(self, other: Self) -> Self {
        let first = (self.told, self.began).min((other.told, other.began));
        Self {
            told: first.0,
            began: first.1,
            took: self.took.max(other.took),
        }
    }
}

impl BootRecord {
    fn from_report(report: &NodeReport) -> Self {
        let state = &report.state;
        let mut phases = BTreeMap::new();
        let current = (!state.phase.is_empty()).then_some((
            &state.phase,
            state.phase_since.or(state.since),
            None,
        ));
        let listed = state.phases.iter();
        let listed = listed.map(|phase| (&phase.name, phase.since, phase.took));
        // The list also dates the current phase, and it contains earlier visits.
        for (name, since, took) in listed.chain(current) {
            let record = PhaseRecord {
                told: report.received,
                began: since
                    .and_then(|since| report.by_receiver(since))
                    .unwrap_or(report.received),
                took: took.map(|took| (report.received, took)),
            };
            phases.entry(name.clone()).or_insert(record);
        }
        let of = |source: fn(ReportSource) -> bool| source(report.source).then(|| report.clone());
        Self {
            first: report.received,
            heard: report.received,
            began: report.boot_began(),
            sequences: report.sequence.map(|sequence| (sequence, sequence)),
            highest: report.sequence.zip(report.uptime),
            first_began: report.boot_began().map(|began| (report.received, began)),
            event: of(|source| matches!(source, ReportSource::Event { .. })),
            last: None,
            document: of(|source| source == ReportSource::Document),
            condition: of(|source| source == ReportSource::Condition),
            phases,
            periodic: match (report.source, report.sequence, report.uptime) {
                (ReportSource::Event { seen: true }, Some(sequence), Some(uptime)) => {
                    BTreeMap::from([(sequence, uptime)])
                }
                _ => BTreeMap::new(),
            },
        }
    }

    fn join(self, other: Self) -> Self {
        fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            }
        }
        let last = match (self.last_event().cloned(), other.last_event().cloned()) {
            (Some(one), Some(other)) => Some(later(one, other)),
            (one, other) => one.or(other),
        };
        let event = newer(self.event, other.event);
        let mut phases = self.phases;
        for (name, phase) in other.phases {
            let known = phases.remove(&name);
            phases.insert(name, known.map_or(phase, |known| known.join(phase)));
        }
        while phases.len() > MOST_PHASES {
            phases.pop_last();
        }
        let mut periodic = self.periodic;
        for (sequence, uptime) in other.periodic {
            let known = periodic.entry(sequence).or_insert(uptime);
            *known = uptime.min(*known);
        }
        while periodic.len() > MOST_PERIODIC {
            periodic.pop_first();
        }
        Self {
            first: self.first.min(other.first),
            heard: self.heard.max(other.heard),
            began: least(self.began, other.began),
            sequences: match (self.sequences, other.sequences) {
                (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
                (one, other) => one.or(other),
            },
            highest: self.highest.max(other.highest),
            first_began: least(self.first_began, other.first_began),
            last: last.filter(|last| event.as_ref() != Some(last)),
            event,
            document: newer(self.document, other.document),
            condition: newer(self.condition, other.condition),
            phases,
            periodic,
        }
    }

    fn bytes(&self) -> usize {
        let reports = [&self.event, &self.last, &self.document, &self.condition];
        let reports = reports.into_iter().flatten().map(NodeReport::bytes);
        let phases = self.phases.keys().map(|name| 2 * ENTRY + name.len());
        size_of::<Self>() + reports.chain(phases).sum::<usize>()
    }

    fn last_event(&self) -> Option<&NodeReport> {
        self.last.as_ref().or(self.event.as_ref())
    }

    /// If the newest event claims an uptime that the node had not reached, returns this uptime and the real start of the boot.
    /// Both the first and the last event must show that the boot began later, because each of them alone may have arrived late.
    fn claimed_future(&self) -> Option<(u64, Timestamp)> {
        let (event, (_, first)) = (self.event.as_ref()?, self.first_began?);
        let last = self.last_event()?.boot_began()?;
        let claimed = event.boot_began()?;
        let is_first_later = first.duration_since(claimed) > LATE;
        let most_late = if is_first_later { LATE } else { NEVER_SO_LATE };
        let began = if is_first_later {
            first.min(last)
        } else {
            last
        };
        (last.duration_since(claimed) > most_late).then_some((event.uptime?, began))
    }

    fn has_too_many_numbers(&self) -> Option<EventContradiction> {
        let (lowest, highest) = self.sequences?;
        let uptime = self.event.as_ref()?.uptime.unwrap_or_default();
        let most = MOST_NUMBERS.saturating_add(uptime.saturating_mul(MOST_NUMBERS_A_SECOND));
        (highest - lowest > most).then_some(EventContradiction::Numbers { lowest, highest })
    }

    /// Whether a lower number was sent after the highest one.
    fn goes_back(&self) -> Option<EventContradiction> {
        let (higher, uptime) = self.highest?;
        let event = self.event.as_ref()?;
        (event.uptime? > uptime).then_some(EventContradiction::Order {
            higher,
            later: event.sequence?,
        })
    }

    /// Whether the event that arrived last has a lower number than the newest one, although the clock of the node was later.
    fn is_overruled(&self) -> Option<EventContradiction> {
        let (event, last) = (self.event.as_ref()?, self.last.as_ref()?);
        let is_later = last.uptime == event.uptime && last.sent? > event.sent?;
        (is_later && last.sequence? < event.sequence?).then_some(EventContradiction::Order {
            higher: event.sequence?,
            later: last.sequence?,
        })
    }

    /// A contradiction between the senders of the events. Events without a boot ID may come from several boots, so they show
    /// nothing.
    pub(crate) fn contradiction(&self) -> Option<EventContradiction> {
        let has_boot = self
            .event
            .as_ref()
            .is_some_and(|event| !event.boot.is_empty());
        if !has_boot {
            return None;
        }
        let future = self.claimed_future();
        future
            .map(|(claimed, _)| EventContradiction::Uptime { claimed })
            .or_else(|| self.has_too_many_numbers())
            .or_else(|| self.is_overruled())
            .or_else(|| self.goes_back())
    }

    /// The event that counts, which is the newest one. If it contradicts the others, the last one to arrive counts, so that a
    /// forged event is replaced by the next event of the node.
    pub(crate) fn counted_event(&self) -> Option<&NodeReport> {
        let (event, last) = (self.event.as_ref()?, self.last_event()?);
        let counts_last = match self.contradiction() {
            Some(EventContradiction::Uptime { .. }) => true,
            Some(_) => last.uptime == event.uptime,
            None => false,
        };
        Some(if counts_last { last } else { event })
    }

    /// The start of the boot, by the uptime in its events.
    pub(crate) fn shown_began(&self) -> Option<Timestamp> {
        let really = self.claimed_future().map(|(_, began)| began);
        really.or(self.began)
    }

    /// When the event that counts was sent. Events of an earlier boot were sent before it, even if they arrive later.
    fn last_sent(&self) -> Timestamp {
        let event = self.counted_event().filter(|event| event.uptime.is_some());
        event.map_or(self.first, |event| self.sent_at(event))
    }

    /// True if a later boot, by the count of the node, has reported after this one.
    fn is_before(&self, other: &Self) -> bool {
        match (self.sequences, other.sequences) {
            (Some(own), Some(later)) => own.1 < later.0 && self.heard < other.heard,
            _ => false,
        }
    }

    /// When a report was sent, by the clock of the receiver. A late report is dated by its uptime.
    pub(crate) fn sent_at(&self, report: &NodeReport) -> Timestamp {
        let uptime = report.uptime.and_then(|uptime| i64::try_from(uptime).ok());
        let dated = self
            .shown_began()
            .zip(uptime)
            .and_then(|(began, uptime)| began.checked_add(SignedDuration::from_secs(uptime)).ok());
        dated.map_or(report.received, |dated| dated.min(report.received))
    }

    /// The newest report from any source.
    pub(crate) fn newest(&self) -> Option<&NodeReport> {
        let told = [self.document.as_ref(), self.counted_event()];
        let told = told.into_iter().flatten();
        let told = told.max_by_key(|report| self.sent_at(report));
        let (Some(condition), Some(told)) = (&self.condition, told) else {
            return told.or(self.condition.as_ref());
        };
        let ahead = self.sent_at(condition).duration_since(self.sent_at(told));
        match ahead > Self::most_ahead(condition, told) {
            true => Some(condition),
            false => Some(told),
        }
    }

    /// A condition contains less than an event or a document, so it does not count for this long after one of these.
    fn most_ahead(condition: &NodeReport, told: &NodeReport) -> SignedDuration {
        match condition.state.readiness {
            // The daemon no longer maintains it.
            Readiness::Unknown if condition.state.headline == STALE_HEADLINE => KEPT,
            // The node does not know its state, or its Windrow has stopped. More details will not arrive.
            Readiness::Unknown => SignedDuration::ZERO,
            readiness if readiness == told.state.readiness => KEPT,
            // An event about the same change arrives within moments.
            _ => SignedDuration::from_mins(1),
        }
    }

    /// How far the clock of the node is ahead of the receiver, in seconds; negative if it is behind.
    pub(crate) fn clock_offset(&self) -> Option<i64> {
        let report = self.counted_event().or(self.document.as_ref())?;
        let sent = report.sent?;
        Some(sent.duration_since(self.sent_at(report)).as_secs())
    }

    /// The interval of periodic reports in seconds, if there are any. Every node also reports once per boot and after a change of
    /// its certificate, so only two similar intervals prove periodic reports. Each interval is up to a quarter shorter than the
    /// configured one (`docs/outlets.md`).
    pub(crate) fn period(&self) -> Option<u64> {
        let uptimes: Vec<u64> = self.periodic.values().copied().collect();
        let intervals = uptimes
            .windows(2)
            .filter_map(|pair| pair[1].checked_sub(pair[0]));
        let mut intervals: Vec<u64> = intervals.filter(|interval| *interval > 0).collect();
        intervals.sort_unstable();
        let alike = intervals
            .windows(2)
            .filter(|pair| pair[1] * 2 <= pair[0] * 3);
        alike.map(|pair| pair[1]).next_back()
    }
}

impl NodeRecord {
    pub(crate) fn take(&mut self, report: &NodeReport) {
        let mut names = BTreeSet::new();
        for name in [&report.identity.host, &report.state.node_name] {
            let name = host_of(name);
            if is_own_host(&name) {
                names.insert(name);
            }
        }
        let boot = (report.boot.clone(), BootRecord::from_report(report));
        self.join(Self {
            names,
            boots: BTreeMap::from([boot]),
        });
    }

    /// Adds the content of another record of the same machine.
    pub(crate) fn join(&mut self, other: Self) {
        self.names.extend(other.names);
        while self.names.len() > MOST_NAMES {
            self.names.pop_last();
        }
        for (id, boot) in other.boots {
            let known = self.boots.remove(&id);
            let joined = match known {
                Some(known) => known.join(boot),
                None => boot,
            };
            self.boots.insert(id, joined);
        }
        while self.boots.len() > MOST_BOOTS || (self.boots.len() > 1 && self.bytes() > MOST_BYTES) {
            let oldest = self.boots.iter().min_by_key(|(id, boot)| (boot.heard, *id));
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else {
                break;
            };
            self.boots.remove(&oldest);
        }
    }

    /// The current boot of the machine. A report without a boot ID belongs to the existing boot.
    pub(crate) fn current(&self) -> Option<(&str, &BootRecord)> {
        let named = self.boots.iter().filter(|(id, _)| !id.is_empty());
        let over = |boot: &BootRecord| self.boots.values().any(|other| boot.is_before(other));
        named
            .filter(|(_, boot)| !over(boot))
            .max_by_key(|(id, boot)| (boot.last_sent(), *id))
            .or_else(|| self.boots.iter().next())
            .map(|(id, boot)| (id.as_str(), boot))
    }

    /// True if two boots report at the same time, which is impossible for one machine.
    pub(crate) fn reports_of_two_boots(&self) -> bool {
        let named = || self.boots.iter().filter(|(id, _)| !id.is_empty());
        named().any(|(id, one)| {
            named().any(|(other_id, other)| {
                id < other_id && one.first < other.last_sent() && other.first < one.last_sent()
            })
        })
    }

    /// A contradiction between the events of the current boot, or of the boot with the latest report.
    pub(crate) fn contradiction(&self) -> Option<EventContradiction> {
        let current = self.current().map(|(_, boot)| boot);
        let last = self.boots.values().max_by_key(|boot| boot.heard);
        current
            .into_iter()
            .chain(last)
            .find_map(BootRecord::contradiction)
    }

    pub(crate) fn bytes(&self) -> usize {
        let boots = self.boots.iter();
        let boots = boots.map(|(id, boot)| ENTRY + id.len() + boot.bytes());
        let names = self.names.iter().map(|name| ENTRY + name.len());
        ENTRY + boots.chain(names).sum::<usize>()
    }

    /// When the last report of this machine arrived.
    pub fn heard(&self) -> Option<Timestamp> {
        self.boots.values().map(|boot| boot.heard).max()
    }
}
