//! Would Harvester let an upgrade begin, and would it end? Callers pass objects and readings and receive a document; the module
//! does no I/O.
//!
//! Harvester's own preflight reports only the first problem that it finds. Here each of its checks is a row of a table
//! (`table.rs`), with the releases that have it, and all rows are checked. The running release, not the new one, determines the
//! preflight. The last rows are problems at which an upgrade stops later, and which no preflight checks.
//!
//! A problem is unknown if the running release may not check it.

mod beyond;
mod config;
mod leftovers;
mod machines;
mod preflight;
mod report;
mod space;
mod storage;
mod table;
#[cfg(test)]
mod tests;

pub use report::UpgradeCheck;
pub use space::{NodeReadings, NodeSpace};

use jiff::Timestamp;
use serde_json::Value;
use windrow_harvester::HarvesterVersion;
use windrow_harvester::drain;
use windrow_harvester::objects::{ObjectKind, Objects, texts};
use windrow_harvester::versions::{Fact, HarvesterVersions, Holds, the_clusters_version};
use windrow_model::checks::{self, CheckOutcome, CheckRow, NoFacts};
use windrow_model::findings::Evidence;

use self::table::{CHECKS, Row};

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

type CheckFacts = checks::CheckFacts<Evidence>;
type CheckResult = checks::CheckResult<Evidence>;

impl<'o> Cluster<'o> {
    fn all(&self, kind: ObjectKind) -> Result<&'o [Value], NoFacts> {
        Ok(self.objects.all(kind)?)
    }

    fn nodes(&self) -> Result<&'o [Value], NoFacts> {
        match self.all(ObjectKind::NODE)? {
            [] => Err(NoFacts::Unknown("there is no node".to_owned())),
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
            None if !row.by_harvester || is_covered(self.from) => Holds::Yes,
            None => Holds::Unknown {
                like: HarvesterVersion::LATEST,
                there: true,
            },
        }
    }

    fn judge(&self, row: &Row) -> CheckRow<Evidence> {
        let asked = self.asks(row);
        let mut broken = row.broken;
        let mut result = match asked {
            Holds::No => Err(NoFacts::NotChecked("this release does not check it")),
            Holds::Yes | Holds::Unknown { .. } => (row.look)(self),
        };
        if let (Ok(facts), Holds::Unknown { like, there }) = (&mut result, asked)
            && !facts.problems.is_empty()
        {
            let does = if there { "does" } else { "does not" };
            facts.unknown.push(format!(
                "whether the release that runs asks it was not read; v{like} {does}"
            ));
            broken = CheckOutcome::Unknown;
        }
        let first = result
            .as_ref()
            .ok()
            .and_then(|facts| facts.problems.first());
        CheckRow {
            section: Some(row.section.to_owned()),
            says: row.message(first).map(str::to_owned),
            ..CheckRow::new(row.name, row.rule, broken, result)
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
