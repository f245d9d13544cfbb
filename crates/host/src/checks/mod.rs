//! Can this machine become what is wanted? One table of rows; all are looked at.
//!
//! ```text
//!   row ──> is it asked of such a node? ──no──> not-asked
//!              └─ look: what is wrong, worth a look, not known
//!                    wrong ──> fails (look, where the row is only wanted)     not known ──> unknown
//!                    worth a look ──> look                                    nothing of these ──> fine
//! ```

mod disks;
mod health;
mod machine;
mod network;
mod place;
mod servers;
mod table;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use windrow_harvester::versions::Fact;
use windrow_plan::rules::Platform;

use self::table::{ROWS, Row};
use crate::minimums::{Figure, PublishedMinimum, PublishedMinimums};
use crate::report::{Preflight, PreflightOutcome, PreflightRow, PreflightVerdict, RowWeight};
use crate::{ConfiguredValue, HostFacts, Surroundings, WantedNode, hardware_class};

/// What no row looks at, since nothing here can see it.
const NOT_LOOKED_AT: &[&str] = &[
    "the switch: VLANs, and whether it carries packets of the wanted length",
    "other machines: whether one has the same name or product UUID, and whether all have the same processors",
];

/// Holds a machine against what it is to become.
pub fn preflight(
    host: &HostFacts,
    surroundings: &Surroundings,
    wanted: &WantedNode,
    at: Timestamp,
) -> Preflight {
    let judged = Judged {
        host,
        surroundings,
        wanted,
        published: PublishedMinimums::shipped(),
    };
    let checks: Vec<PreflightRow> = ROWS.iter().map(|row| judged.row(row)).collect();
    Preflight {
        api_version: "windrow.dev/v1".to_owned(),
        kind: "Preflight".to_owned(),
        at,
        platform: wanted.platform,
        version: wanted.harvester.map(|version| format!("v{version}")),
        role: wanted.role,
        production: wanted.production,
        verdict: PreflightVerdict::of(&checks),
        checks,
        not_looked_at: NOT_LOOKED_AT.iter().map(|one| (*one).to_owned()).collect(),
        hardware_class: hardware_class(host),
        host: host.clone(),
        surroundings: surroundings.clone(),
    }
}

/// What the rows go by.
struct Judged<'a> {
    host: &'a HostFacts,
    surroundings: &'a Surroundings,
    wanted: &'a WantedNode,
    published: &'static PublishedMinimums,
}

/// What a look has found.
#[derive(Default)]
struct Seen {
    found: Vec<String>,
    wrong: Vec<String>,
    look: Vec<String>,
    unknown: Vec<String>,
}

/// It is not asked of such a node, and why.
struct NotAsked(&'static str);

type Looked = Result<Seen, NotAsked>;

/// Why something is not asked that the configuration names.
const OFFLINE: &str = "--offline asks nothing of the network";

impl Seen {
    fn found(text: impl Into<String>) -> Self {
        Self {
            found: vec![text.into()],
            ..Self::default()
        }
    }

    fn wrong(why: impl Into<String>) -> Self {
        Self {
            wrong: vec![why.into()],
            ..Self::default()
        }
    }

    fn unknown(why: impl Into<String>) -> Self {
        Self {
            unknown: vec![why.into()],
            ..Self::default()
        }
    }
}

impl Judged<'_> {
    fn row(&self, row: &Row) -> PreflightRow {
        let (seen, asked) = match (row.look)(self) {
            Ok(seen) => (seen, true),
            Err(NotAsked(why)) => (Seen::unknown(why), false),
        };
        let Seen {
            found,
            mut wrong,
            mut look,
            unknown,
        } = seen;
        if row.weight == RowWeight::Wanted {
            look.splice(0..0, wrong.drain(..));
        }
        let outcome = match () {
            () if !asked => PreflightOutcome::NotAsked,
            () if !wrong.is_empty() => PreflightOutcome::Fails,
            () if !unknown.is_empty() => PreflightOutcome::Unknown,
            () if !look.is_empty() => PreflightOutcome::Look,
            () => PreflightOutcome::Fine,
        };
        let advice = match outcome {
            PreflightOutcome::Fails | PreflightOutcome::Look => row.advice.to_owned(),
            _ => String::new(),
        };
        PreflightRow {
            check: row.name.to_owned(),
            weight: row.weight,
            outcome,
            rule: row.rule.to_owned(),
            found,
            wrong,
            look,
            unknown,
            advice,
        }
    }

    /// What comes of something that was not asked: the configuration names nothing; or it does, and it was not to be asked, or could not.
    fn not_asked(&self, named: Option<&ConfiguredValue>, otherwise: &'static str) -> Looked {
        match (named, &self.surroundings.not_asked) {
            (Some(_), _) if self.surroundings.offline => Err(NotAsked(OFFLINE)),
            (Some(_), Some(why)) => Ok(Seen::unknown(why)),
            _ => Err(NotAsked(otherwise)),
        }
    }

    fn is_harvester(&self) -> bool {
        self.wanted.platform == Platform::Harvester
    }

    /// Does a statement hold for the release that is wanted? What was not read is taken to be like the nearest release.
    fn holds(&self, fact: Fact) -> bool {
        self.is_harvester() && fact.holds(self.wanted.release()).assumed()
    }

    /// Does Harvester's installer end at a check of its own that fails? It asks a person, where one is there.
    fn installer_ends(&self) -> bool {
        self.is_harvester() && self.wanted.automatic && !self.wanted.skip_checks
    }

    /// May the checks of Harvester's installer fail, because the configuration says so?
    fn installer_skips(&self) -> bool {
        self.is_harvester() && self.wanted.skip_checks
    }

    fn minimum(&self, figure: Figure) -> Option<&'static PublishedMinimum> {
        self.published.of(self.wanted.platform, figure)
    }

    /// Holds a figure against what is published. `enough` says whether the machine has as much.
    fn against(
        &self,
        seen: &mut Seen,
        minimum: &PublishedMinimum,
        unit: &str,
        enough: impl Fn(u64) -> bool,
    ) {
        let PublishedMinimum { least, better, .. } = minimum;
        let by_installer = minimum.installer;
        if !enough(*least) {
            let why = format!("less than {least}{unit}, the published minimum");
            match by_installer && self.installer_skips() {
                true => seen.look.push(format!(
                    "{why}; `install.skipchecks` lets the installer go on"
                )),
                false => seen.wrong.push(why),
            }
        } else if !enough(*better) {
            let (why, strict) = match self.is_harvester() {
                true => (
                    format!("less than {better}{unit}, the minimum for production"),
                    self.wanted.production,
                ),
                false => (
                    format!("less than {better}{unit}, which is recommended"),
                    self.wanted.production,
                ),
            };
            if strict {
                seen.wrong.push(why);
            } else if by_installer && self.installer_ends() {
                seen.wrong.push(format!("{why}: {ENDS}"));
            } else {
                seen.look.push(why);
            }
        }
    }

    /// A check of Harvester's installer fails that has no figure.
    fn installer_warns(&self, seen: &mut Seen, why: String) {
        match self.installer_ends() {
            true => seen.wrong.push(format!("{why}: {ENDS}")),
            false => seen.look.push(why),
        }
    }
}

/// What Harvester's installer does in an automatic installation.
const ENDS: &str =
    "the installer ends here, because `install.automatic` is set and `install.skipchecks` is not";
