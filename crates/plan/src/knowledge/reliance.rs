//! How far a verdict may rely on learned knowledge. A written or built-in entry states a fact; a learned entry states in how many
//! boots something was observed.
//!
//! | known from | number of boots | meaning |
//! |---|---|---|
//! | an entry without `seen` | | a fact |
//! | an entry with `seen` | enough ([`Seen::is_firm`]) | a fact, shown with its count |
//! | an entry with `seen` | fewer | expected: the verdict stays *unknown*, with the count |
//! | one of each, about the same chart and version | | the one without `seen` decides; both are shown |
//!
//! Learned knowledge never counts for explicit requirements in a rule or an annotation, only for inferred ones.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::Location;

use super::{Brings, ClassTimes, KnowledgeEntry, LearnedTimes, NodeFacts, Seen, times_on};
use crate::rules::NeedTarget;

/// In fewer boots, an observation may be a coincidence. After two boots that agree, the next one contradicts them in one of four
/// cases, after three in one of five (Laplace's rule of succession).
pub const FEWEST_BOOTS: u32 = 3;
/// The required number of observations in ten possible boots, which is the share that a prediction of 90 % claims.
const FEWEST_OF_TEN: u64 = 9;

impl Seen {
    /// Whether it was observed often enough to count as a fact.
    pub fn is_firm(&self) -> bool {
        self.boots >= FEWEST_BOOTS
            && u64::from(self.boots) * 10 >= u64::from(self.of) * FEWEST_OF_TEN
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on {} of {} boots", self.boots, self.of)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reliance {
    /// The provider in words.
    pub by: String,
    /// The entry, as `file/name`.
    pub entry: String,
    pub at: Location,
    pub seen: Seen,
    /// The learned times, if there are any.
    pub times: Option<LearnedTimes>,
    /// The same for some hardware classes.
    pub times_on: Vec<ClassTimes>,
    /// The written entry about the same, which decides.
    pub written: Option<String>,
}

impl Reliance {
    pub fn is_firm(&self) -> bool {
        self.written.is_some() || self.seen.is_firm()
    }

    /// With the times for the hardware class of this node, if there are any.
    pub(crate) fn on(self: Arc<Self>, node: &NodeFacts) -> Arc<Self> {
        let times = times_on(node.hardware(), &self.times_on, self.times);
        if times == self.times {
            return self;
        }
        Arc::new(Self {
            times,
            ..Self::clone(&self)
        })
    }

    /// The time until it was present, as a sentence; `None` without learned times.
    pub fn usual(&self) -> Option<String> {
        let times = self.times?;
        let [from, to] = [times.p5, times.p95].map(in_words);
        Some(match from == to {
            true => format!("usually there after {to}, {}", self.seen),
            false => format!("usually there after {from} to {to}, {}", self.seen),
        })
    }

    pub fn report(&self) -> LearnedReport {
        LearnedReport {
            by: self.by.clone(),
            entry: self.entry.clone(),
            at: self.at.clone(),
            boots: self.seen.boots,
            of: self.seen.of,
            last: self.seen.last.to_string(),
            enough: self.is_firm(),
            written: self.written.clone(),
        }
    }
}

impl fmt::Display for Reliance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seen {}", self.seen)?;
        match &self.written {
            Some(entry) => write!(f, ", written in {entry}"),
            None => Ok(()),
        }
    }
}

/// A time in words, without unjustified precision.
pub fn in_words(time: Duration) -> String {
    let seconds = time.as_secs() + u64::from(time.subsec_millis() >= 500);
    match (seconds / 3600, seconds / 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes @ ..10, seconds) => format!("{minutes} min {seconds} s"),
        (0, minutes, _) => format!("{minutes} min"),
        (hours, minutes, _) => match minutes % 60 {
            0 => format!("{hours} h"),
            minutes => format!("{hours} h {minutes} min"),
        },
    }
}

/// Learned knowledge about a provider, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LearnedReport {
    /// Provider.
    pub by: String,
    /// Entry of the knowledge, as `file/name`.
    pub entry: String,
    /// Position of the entry.
    pub at: Location,
    /// Number of boots with the observation.
    pub boots: u32,
    /// Number of boots in which the observation was possible.
    pub of: u32,
    /// Day of the last boot with the observation.
    pub last: String,
    /// Whether a verdict may rely on it. Otherwise it stays unknown.
    pub enough: bool,
    /// Written entry about the same, if there is one; it decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
}

/// How many requirements of the files in a plan are known from earlier boots.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LearnedShare {
    /// Number of requirements.
    pub needs: usize,
    /// Number of those that only earlier boots show.
    pub learned: usize,
    /// Number of those that were observed too rarely for a verdict.
    pub weak: usize,
    /// Learned knowledge about each requirement, once; also if a written entry decides.
    pub things: Vec<LearnedThing>,
}

/// A requirement that was observed in earlier boots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LearnedThing {
    /// The requirement.
    pub what: String,
    /// Its provider, and how often that was observed.
    #[serde(flatten)]
    pub learned: LearnedReport,
}

impl LearnedShare {
    /// Adds the requirements of another node.
    pub fn merge(&mut self, other: Self) {
        self.needs += other.needs;
        self.learned += other.learned;
        self.weak += other.weak;
        for thing in other.things {
            if !self.things.contains(&thing) {
                self.things.push(thing);
            }
        }
    }

    /// The requirement with the fewest observations, among those that only earlier boots show.
    pub fn least_sure(&self) -> Option<&LearnedThing> {
        let alone = self
            .things
            .iter()
            .filter(|one| one.learned.written.is_none());
        // Compares the shares of boots without fractions.
        alone.min_by(|one, other| {
            let (one, other) = (&one.learned, &other.learned);
            let share = u64::from(one.boots) * u64::from(other.of);
            share.cmp(&(u64::from(other.boots) * u64::from(one.of)))
        })
    }

    /// A sentence; `None` if nothing depends on earlier boots only.
    pub fn sentence(&self) -> Option<String> {
        let least = &self.least_sure()?.learned;
        let weak = match self.weak {
            0 => String::new(),
            weak => format!(", {weak} of them too seldom to rely on"),
        };
        let things = match self.needs {
            1 => "one dependency".to_owned(),
            needs => format!("{needs} dependencies"),
        };
        let are = if self.learned == 1 { "is" } else { "are" };
        Some(format!(
            "The files have {things}: {} {are} known only from earlier boots{weak}; the least certain was seen on {} of {} boots.",
            self.learned, least.boots, least.of
        ))
    }
}

/// The consequences of an object according to one learned entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedBrings {
    /// How far a verdict may rely on it.
    pub reliance: Arc<Reliance>,
    pub brings: Brings,
}

impl KnowledgeEntry {
    /// The learned knowledge of this entry; `None` if it was written. `written` is the written entry about the same.
    pub(super) fn reliance(&self, written: Option<&Self>) -> Option<Arc<Reliance>> {
        Some(Arc::new(Reliance {
            by: self.by(),
            entry: self.name.clone(),
            at: self.at.clone(),
            seen: self.seen?,
            times: self.times,
            times_on: self.times_on.clone(),
            written: written.map(|entry| entry.name.clone()),
        }))
    }

    /// The greater, the more reliable.
    pub(super) fn strength(&self) -> impl Ord + use<> {
        let seen = self.seen;
        (
            seen.is_none_or(|seen| seen.is_firm()),
            seen.map_or(u32::MAX, |seen| seen.boots),
        )
    }
}

/// The consequences of an object according to learned entries, the strongest first: those that a written entry shares, and the
/// others.
pub(crate) fn learned_brings<'k>(
    entries: impl Iterator<Item = &'k KnowledgeEntry>,
    more_written: &Brings,
) -> Vec<LearnedBrings> {
    let (written, mut learned): (Vec<_>, Vec<_>) = entries.partition(|entry| entry.seen.is_none());
    learned.sort_by_key(|entry| std::cmp::Reverse(entry.strength()));
    let mut found = Vec::new();
    for entry in learned {
        let (mut brings, _) = entry.brings.clone().split(more_written);
        for one in &written {
            let (alone, both) = brings.split(&one.brings);
            brings = alone;
            found.extend(learned_part(entry, Some(one), both));
        }
        found.extend(learned_part(entry, None, brings));
    }
    found
}

fn learned_part(
    entry: &KnowledgeEntry,
    written: Option<&KnowledgeEntry>,
    brings: Brings,
) -> Option<LearnedBrings> {
    let reliance = entry.reliance(written)?;
    (brings != Brings::default()).then_some(LearnedBrings { reliance, brings })
}

impl Brings {
    /// The part that is not in `other`, and the common part.
    fn split(self, other: &Self) -> (Self, Self) {
        let (both_kinds, kinds) = self
            .kinds
            .into_iter()
            .partition(|known| other.brings_kind(&known.kind));
        let (both_groups, groups) = self
            .groups
            .into_iter()
            .partition(|group| other.groups.contains(group));
        let (both_objects, objects): (Vec<_>, Vec<_>) = self
            .objects
            .into_iter()
            .partition(|object| other.objects.contains(object));
        let (both_classes, classes) = self
            .classes
            .into_iter()
            .partition(|class| other.classes.iter().any(|one| one.name == class.name));
        let alone = Self {
            kinds,
            groups,
            objects,
            classes,
        };
        let both = Self {
            kinds: both_kinds,
            groups: both_groups,
            objects: both_objects,
            classes: both_classes,
        };
        (alone, both)
    }

    pub fn brings(&self, target: &NeedTarget) -> bool {
        match target {
            NeedTarget::Kind(kind) => self.brings_kind(kind),
            NeedTarget::Object(object) => self.objects.contains(object),
        }
    }
}
