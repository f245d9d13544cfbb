//! Would Harvester let an upgrade begin, and would it end? Pure: objects and readings come in, a document goes out.
//!
//! Harvester's own preflight tells the first thing that it refuses. Here each of its checks is a row of a table
//! (`table.rs`), with the releases that have it, and all rows are looked at. Which preflight asks depends on the release
//! that runs, not on the one to come. Then come what an upgrade gets stuck on later, which no preflight looks at.
//!
//! ```text
//!   row ──> does the running release ask it? ──no──> not-asked
//!               └─ look: what is wrong, what is not known
//!                    wrong ──> refused / stops / warns   (Unknown, where it is not known whether it is asked)
//!                    not known ──> unknown       neither ──> fine
//! ```

mod beyond;
mod leftovers;
mod machines;
mod preflight;
mod report;
mod space;
mod storage;
mod table;
#[cfg(test)]
mod tests;

pub use report::{AskedBy, CheckOutcome, CheckedRow, UpgradeCheck, UpgradeOutcome};
pub use space::{NodeReadings, NodeSpace};

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;

use self::table::{CHECKS, Row};
use crate::drain;
use crate::objects::{ObjectKind, Objects, Unlisted, texts};
use crate::version::HarvesterVersion;
use crate::versions::{Fact, HarvesterVersions, Holds, the_clusters_version};

/// What an upgrade check looks at, besides what a look for incidents wants.
pub fn kinds() -> Vec<ObjectKind> {
    let mut kinds = drain::KINDS.to_vec();
    for kind in table::KINDS {
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    kinds
}

/// Looks at everything at once. Without `to` what depends on the release to come is not asked.
pub fn check(
    objects: &Objects,
    readings: &NodeReadings,
    to: Option<HarvesterVersion>,
    now: Timestamp,
) -> UpgradeCheck {
    let cluster = Cluster {
        objects,
        readings,
        from: the_clusters_version(objects).ok().flatten(),
        to,
        now,
    };
    let rows = CHECKS.iter().map(|row| cluster.judge(row)).collect();
    UpgradeCheck::new(cluster.from, to, rows)
}

/// What the checks go by.
struct Cluster<'o> {
    objects: &'o Objects,
    readings: &'o NodeReadings,
    /// The release that runs, and that asks; `None` where it is not known.
    from: Option<HarvesterVersion>,
    /// The release to come.
    to: Option<HarvesterVersion>,
    now: Timestamp,
}

/// What a look has found.
#[derive(Default)]
struct Seen {
    wrong: Vec<Evidence>,
    unknown: Vec<String>,
}

impl Seen {
    fn wrong(&mut self, subject: impl Into<String>, field: &str, value: impl Into<String>) {
        self.wrong.push(Evidence::new(subject, field, value));
    }
}

impl FromIterator<Evidence> for Seen {
    fn from_iter<I: IntoIterator<Item = Evidence>>(wrong: I) -> Self {
        Self {
            wrong: wrong.into_iter().collect(),
            unknown: Vec::new(),
        }
    }
}

/// Why a look has no answer.
enum NoAnswer {
    Unknown(String),
    NotAsked(&'static str),
}

impl From<Unlisted> for NoAnswer {
    fn from(why: Unlisted) -> Self {
        Self::Unknown(why.to_string())
    }
}

type Looked = Result<Seen, NoAnswer>;

impl<'o> Cluster<'o> {
    fn all(&self, kind: ObjectKind) -> Result<&'o [Value], NoAnswer> {
        Ok(self.objects.all(kind)?)
    }

    fn nodes(&self) -> Result<&'o [Value], NoAnswer> {
        match self.all(ObjectKind::NODE)? {
            [] => Err(NoAnswer::Unknown("there is no node".to_owned())),
            nodes => Ok(nodes),
        }
    }

    /// Does a fact hold for the release that runs?
    fn holds(&self, fact: Fact) -> Holds {
        match self.from {
            Some(version) => fact.holds(version),
            None => Holds::Unknown {
                like: HarvesterVersion::LATEST,
                there: fact.holds(HarvesterVersion::LATEST).assumed(),
            },
        }
    }

    /// Does the release that runs ask this?
    fn asks(&self, row: &Row) -> Holds {
        match row.asked {
            Some(fact) => self.holds(fact),
            None if row.by == AskedBy::Windrow || is_covered(self.from) => Holds::Yes,
            None => Holds::Unknown {
                like: HarvesterVersion::LATEST,
                there: true,
            },
        }
    }

    fn judge(&self, row: &Row) -> CheckedRow {
        let asked = self.asks(row);
        let looked = match asked {
            Holds::No => Err(NoAnswer::NotAsked("this release does not look at it")),
            Holds::Yes | Holds::Unknown { .. } => (row.look)(self),
        };
        match looked {
            Ok(seen) => CheckedRow::seen(row, seen, asked),
            Err(NoAnswer::Unknown(why)) => CheckedRow::unknown(row, why),
            Err(NoAnswer::NotAsked(why)) => CheckedRow::not_asked(row, why),
        }
    }
}

/// Were the sources read of what the running release asks?
fn is_covered(from: Option<HarvesterVersion>) -> bool {
    from.is_some_and(|version| HarvesterVersions::shipped().covers(version))
}

/// The label of a node that only votes.
fn is_witness(node: &Value) -> bool {
    texts(node, "/metadata/labels").contains_key("node-role.harvesterhci.io/witness")
}
