//! Would Harvester let an upgrade begin, and would it end? Callers pass objects and readings and receive a document; the module
//! does no I/O.
//!
//! Harvester's own preflight reports only the first problem that it finds. Here each of its checks is a row of a table
//! (`table.rs`), with the releases that have it, and all rows are checked. The running release, not the new one, determines the
//! preflight. The last rows are problems at which an upgrade stops later, and which no preflight checks.
//!
//! ```text
//!   row ──> does the running release check it? ──no──> not-asked
//!               └─ look: problems, and unknown facts
//!                    problem ──> refused / stops / warns   (Unknown if the release may not check it)
//!                    unknown ──> unknown       neither ──> fine
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

/// The kinds of an upgrade check, except those for incidents.
pub fn kinds() -> Vec<ObjectKind> {
    let mut kinds = drain::KINDS.to_vec();
    for kind in table::KINDS {
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    kinds
}

/// Runs all checks at once. Without `to`, checks that depend on the new release are skipped.
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

/// The input of the checks.
struct Cluster<'o> {
    objects: &'o Objects,
    readings: &'o NodeReadings,
    /// The running release, which does the checks; `None` if unknown.
    from: Option<HarvesterVersion>,
    to: Option<HarvesterVersion>,
    now: Timestamp,
}

/// The result of a look.
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

    fn holds(&self, fact: Fact) -> Holds {
        match self.from {
            Some(version) => fact.holds(version),
            None => Holds::Unknown {
                like: HarvesterVersion::LATEST,
                there: fact.holds(HarvesterVersion::LATEST).assumed(),
            },
        }
    }

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

/// Were the sources of the running release's checks read?
fn is_covered(from: Option<HarvesterVersion>) -> bool {
    from.is_some_and(|version| HarvesterVersions::shipped().covers(version))
}

fn is_witness(node: &Value) -> bool {
    texts(node, "/metadata/labels").contains_key("node-role.harvesterhci.io/witness")
}
