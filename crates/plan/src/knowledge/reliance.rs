//! How much may rest on what was learned. What a person wrote or what comes with Windrow says what is so; what was learned
//! says in how many boots it was so.
//!
//! | known by | of how many boots | it is |
//! |---|---|---|
//! | an entry without `seen` | | taken for so |
//! | an entry with `seen` | enough ([`Seen::is_firm`]) | taken for so, with its count |
//! | an entry with `seen` | fewer | expected: the verdict stays *unknown*, with the count |
//! | one of each, about the same chart and version | | as the one without `seen` says; both are told |
//!
//! What was learned never counts for what a rule or an annotation requires, only for what was inferred.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::Location;

use super::{Brings, ClassTimes, KnowledgeEntry, LearnedTimes, NodeFacts, Seen, times_on};
use crate::rules::NeedTarget;

/// In fewer boots than this something may have been there by chance. After two boots that agree, one more that does not is still to
/// be expected in one of four cases, after three in one of five (Laplace's rule of succession).
pub const FEWEST_BOOTS: u32 = 3;
/// Of ten boots in which it could have been seen, it has to have been in this number: the share that a prediction of 90 % claims.
const FEWEST_OF_TEN: u64 = 9;

impl Seen {
    /// Was it so often enough to take it for so?
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

/// What was learned of who brings something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reliance {
    /// Who brings it, in words.
    pub by: String,
    /// The entry, as `file/name`.
    pub entry: String,
    /// Where the entry is written.
    pub at: Location,
    /// In how many boots.
    pub seen: Seen,
    /// After how long, where that was learned.
    pub times: Option<LearnedTimes>,
    /// The same on some classes of hardware.
    pub times_on: Vec<ClassTimes>,
    /// The entry that says the same and was not learned: it decides.
    pub written: Option<String>,
}

impl Reliance {
    /// May a verdict rest on it?
    pub fn is_firm(&self) -> bool {
        self.written.is_some() || self.seen.is_firm()
    }

    /// With the times of this node's class of hardware, where there are some.
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

    /// After how long it was there, in a sentence; `None` where no time was learned.
    pub fn usual(&self) -> Option<String> {
        let times = self.times?;
        let [from, to] = [times.p5, times.p95].map(in_words);
        Some(match from == to {
            true => format!("usually there after {to}, {}", self.seen),
            false => format!("usually there after {from} to {to}, {}", self.seen),
        })
    }

    /// As a document shows it.
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

/// A time as people say it, without more figures than it has.
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

/// What was learned of who brings something, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LearnedReport {
    /// Who brings it.
    pub by: String,
    /// The entry of the knowledge, as `file/name`.
    pub entry: String,
    /// Where the entry is written.
    pub at: Location,
    /// In how many boots it was so.
    pub boots: u32,
    /// Of how many in which it could have been seen.
    pub of: u32,
    /// The day of the last boot in which it was so.
    pub last: String,
    /// May a verdict rest on it? Otherwise it stays unknown.
    pub enough: bool,
    /// The entry that says the same and was not learned, where there is one: it decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
}

/// How much of what the files of a plan cannot do without is known from earlier boots.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LearnedShare {
    /// How many things the files cannot do without.
    pub needs: usize,
    /// How many of them are known from earlier boots alone.
    pub learned: usize,
    /// How many of those were seen too seldom for a verdict to rest on them.
    pub weak: usize,
    /// What was learned, each thing that is needed once; also where something written decides.
    pub things: Vec<LearnedThing>,
}

/// Something that is needed and was seen in earlier boots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LearnedThing {
    /// What.
    pub what: String,
    /// Who brings it, and how often that was seen.
    #[serde(flatten)]
    pub learned: LearnedReport,
}

impl LearnedShare {
    /// Adds what another node needs.
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

    /// The thing that was seen in the fewest boots, of those that only earlier boots say.
    pub fn least_sure(&self) -> Option<&LearnedThing> {
        let alone = self
            .things
            .iter()
            .filter(|one| one.learned.written.is_none());
        // By the share of the boots, without fractions.
        alone.min_by(|one, other| {
            let (one, other) = (&one.learned, &other.learned);
            let share = u64::from(one.boots) * u64::from(other.of);
            share.cmp(&(u64::from(other.boots) * u64::from(one.of)))
        })
    }

    /// In a sentence; `None` where nothing rests on earlier boots alone.
    pub fn sentence(&self) -> Option<String> {
        let least = &self.least_sure()?.learned;
        let weak = match self.weak {
            0 => String::new(),
            weak => format!(", {weak} of them too seldom to rely on"),
        };
        let things = match self.needs {
            1 => "the one thing".to_owned(),
            needs => format!("{needs} things"),
        };
        let are = if self.learned == 1 { "is" } else { "are" };
        Some(format!(
            "Of {things} that the files need, {} {are} known from earlier boots alone{weak}; the least sure was seen on {} of {} boots.",
            self.learned, least.boots, least.of
        ))
    }
}

/// What an object is known to bring by one learned entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedBrings {
    /// How much may rest on it.
    pub reliance: Arc<Reliance>,
    /// What comes.
    pub brings: Brings,
}

impl KnowledgeEntry {
    /// What was learned of it; `None` where it was not learned. `written` is the entry that says the same and was not.
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

    /// The more it is to be relied on, the greater.
    pub(super) fn strength(&self) -> impl Ord + use<> {
        let seen = self.seen;
        (
            seen.is_none_or(|seen| seen.is_firm()),
            seen.map_or(u32::MAX, |seen| seen.boots),
        )
    }
}

/// What learned entries say that an object brings, the strongest first: what a written one says too, and what they alone say.
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
    /// What another does not bring, and what both bring.
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

    /// Is this brought?
    pub fn brings(&self, target: &NeedTarget) -> bool {
        match target {
            NeedTarget::Kind(kind) => self.brings_kind(kind),
            NeedTarget::Object(object) => self.objects.contains(object),
        }
    }
}
