//! What is known of one machine: the join of its reports. Joining is commutative, associative and idempotent, so the order
//! and the number of reports make no difference.
//!
//! ```text
//!   machine ─┬─ boot ─┬─ newest event, newest document, newest condition
//!            │        ├─ when it began: the earliest of (received − uptime)
//!            │        └─ phases: each as the first report that names it dates it
//!            └─ boot …  (the newest is shown)
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use windrow_plan::readiness::node::Readiness;

use crate::identity::{host_of, is_own_host};
use crate::node_object::STALE_HEADLINE;
use crate::report::{MOST_PHASES, NodeReport, ReportSource};

/// Most boots of a machine that are kept: those that began last.
const MOST_BOOTS: usize = 8;
/// Most names of a machine.
const MOST_NAMES: usize = 8;
/// Most bytes that a record takes in memory, about: more than three reports of one boot can have, and a hundred times what usual
/// ones have. Older boots go first.
const MOST_BYTES: usize = 384 << 10;

/// Enough periodic events to show how often they come, even where another one came between.
const MOST_PERIODIC: usize = 4;

/// For so long a condition is true, unless it is written again.
const KEPT: SignedDuration = SignedDuration::from_mins(10);

/// What an entry takes beside its text.
const ENTRY: usize = 64;

/// What is known of one machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its host names, and those of its Node.
    pub(crate) names: BTreeSet<String>,
    /// By their ids.
    pub(crate) boots: BTreeMap<String, BootRecord>,
}

/// What is known of one boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BootRecord {
    /// When the first and the last report came.
    pub(crate) first: Timestamp,
    pub(crate) heard: Timestamp,
    /// When it began, at the latest, where a report says for how long the machine is up.
    pub(crate) began: Option<Timestamp>,
    /// The lowest and the highest sequence number.
    pub(crate) sequences: Option<(u64, u64)>,
    pub(crate) event: Option<NodeReport>,
    pub(crate) document: Option<NodeReport>,
    pub(crate) condition: Option<NodeReport>,
    pub(crate) phases: BTreeMap<String, PhaseRecord>,
    /// The last events by which the node says that it is there: sequence number and uptime.
    pub(crate) periodic: BTreeMap<u64, u64>,
}

/// What is known of one phase.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PhaseRecord {
    /// When a report first named it.
    pub(crate) told: Timestamp,
    /// When it began, by the receiver's clock.
    pub(crate) began: Timestamp,
    /// How long it took, and when that was said last.
    pub(crate) took: Option<(Timestamp, u64)>,
}

/// The larger of two reports of one source.
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
    // Within a boot the machine's uptime goes on where the numbers begin again: what they were lies on its disk.
    let uptime = |report: &NodeReport| report.uptime.filter(|_| !report.boot.is_empty());
    let key = |report: &NodeReport| match report.sequence {
        // Of one event that came twice, the earlier receipt is the truer one.
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
    // Reports that differ in nothing but what they say: any fixed order will do.
    let text = |report: &NodeReport| serde_json::to_string(report).unwrap_or_default();
    text(one) >= text(other)
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
        // The list dates the current phase as well; it knows of earlier stays.
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
            event: of(|source| matches!(source, ReportSource::Event { .. })),
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
        let least = |one: Option<Timestamp>, other: Option<Timestamp>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
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
            event: newer(self.event, other.event),
            document: newer(self.document, other.document),
            condition: newer(self.condition, other.condition),
            phases,
            periodic,
        }
    }

    fn bytes(&self) -> usize {
        let reports = [&self.event, &self.document, &self.condition];
        let reports = reports.into_iter().flatten().map(NodeReport::bytes);
        let phases = self.phases.keys().map(|name| 2 * ENTRY + name.len());
        size_of::<Self>() + reports.chain(phases).sum::<usize>()
    }

    /// When it began, as far as that is known.
    pub(crate) fn start(&self) -> Timestamp {
        self.began.unwrap_or(self.first)
    }

    /// Is it over: did a later boot, by the node's own count, report after it?
    fn is_before(&self, other: &Self) -> bool {
        match (self.sequences, other.sequences) {
            (Some(own), Some(later)) => own.1 < later.0 && self.heard < other.heard,
            _ => false,
        }
    }

    /// When a report was sent, by the receiver's clock: one that came late is dated by the machine's uptime.
    pub(crate) fn sent_at(&self, report: &NodeReport) -> Timestamp {
        let uptime = report.uptime.and_then(|uptime| i64::try_from(uptime).ok());
        let dated = self
            .began
            .zip(uptime)
            .and_then(|(began, uptime)| began.checked_add(SignedDuration::from_secs(uptime)).ok());
        dated.map_or(report.received, |dated| dated.min(report.received))
    }

    /// The newest report, whatever it came by.
    pub(crate) fn newest(&self) -> Option<&NodeReport> {
        let told = [&self.document, &self.event].into_iter().flatten();
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

    /// A condition says less than an event or a document: for how long after one of these it does not count.
    fn most_ahead(condition: &NodeReport, told: &NodeReport) -> SignedDuration {
        match condition.state.readiness {
            // Nobody keeps it true.
            Readiness::Unknown if condition.state.headline == STALE_HEADLINE => KEPT,
            // The node does not know its state, or its Windrow has stopped: there is no more to say.
            Readiness::Unknown => SignedDuration::ZERO,
            readiness if readiness == told.state.readiness => KEPT,
            // What tells of the same change comes within moments.
            _ => SignedDuration::from_mins(1),
        }
    }

    /// How far the node's clock is ahead of the receiver's, in seconds; negative where it is behind.
    pub(crate) fn clock_offset(&self) -> Option<i64> {
        let report = self.event.as_ref().or(self.document.as_ref())?;
        let sent = report.sent?;
        Some(sent.duration_since(self.sent_at(report)).as_secs())
    }

    /// How often the node reports by itself, in seconds, where it does. Once in every boot, and with another certificate, each node
    /// says that it is there: only two intervals that are alike show that it does so again and again. Each is up to a quarter
    /// shorter than what is set (`docs/outlets.md`).
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
    /// Takes a report in.
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

    /// Takes in what is known by another record of the same machine.
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
            let oldest = self
                .boots
                .iter()
                .min_by_key(|(id, boot)| (boot.start(), *id));
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else {
                break;
            };
            self.boots.remove(&oldest);
        }
    }

    /// The boot that the machine is in. A report that names no boot is of whichever there is.
    pub(crate) fn current(&self) -> Option<(&str, &BootRecord)> {
        let named = self.boots.iter().filter(|(id, _)| !id.is_empty());
        let over = |boot: &BootRecord| self.boots.values().any(|other| boot.is_before(other));
        named
            .filter(|(_, boot)| !over(boot))
            .max_by_key(|(id, boot)| (boot.start(), *id))
            .or_else(|| self.boots.iter().next())
            .map(|(id, boot)| (id.as_str(), boot))
    }

    /// Do two boots report at the same time? No machine does.
    pub(crate) fn reports_of_two_boots(&self) -> bool {
        let named = || self.boots.iter().filter(|(id, _)| !id.is_empty());
        named().any(|(id, one)| {
            named().any(|(other_id, other)| {
                id < other_id && one.first < other.heard && other.first < one.heard
            })
        })
    }

    /// What it takes in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let boots = self.boots.iter();
        let boots = boots.map(|(id, boot)| ENTRY + id.len() + boot.bytes());
        let names = self.names.iter().map(|name| ENTRY + name.len());
        ENTRY + boots.chain(names).sum::<usize>()
    }

    /// When anything was heard of it last.
    pub fn heard(&self) -> Option<Timestamp> {
        self.boots.values().map(|boot| boot.heard).max()
    }
}
