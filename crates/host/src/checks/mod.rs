//! Checks whether this machine can become the wanted node. A table holds all checks, and each of them runs.
//!
//! ```text
//!   row ──> does it apply to this node? ──no──> not-asked
//!              └─ look: wrong, worth a look, unknown
//!                    wrong ──> fails (look, if the row is only wanted)     unknown ──> unknown
//!                    worth a look ──> look                                 otherwise ──> fine
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

/// Requirements that Windrow cannot check from the machine.
const NOT_LOOKED_AT: &[&str] = &[
    "the switch: VLANs, and whether it carries packets of the required length",
    "other machines: whether one has the same name or product UUID, and whether all have the same processors",
];

/// Compares a machine with the node that it is to become.
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

struct Judged<'a> {
    host: &'a HostFacts,
    surroundings: &'a Surroundings,
    wanted: &'a WantedNode,
    published: &'static PublishedMinimums,
}

#[derive(Default)]
struct Seen {
    found: Vec<String>,
    wrong: Vec<String>,
    look: Vec<String>,
    unknown: Vec<String>,
}

/// The check does not apply to this node, for this reason.
struct NotAsked(&'static str);

type Looked = Result<Seen, NotAsked>;

const OFFLINE: &str = "--offline sends no network requests";

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

    /// The result for a request that was not made. If the configuration names something to ask, the reason is `--offline` or
    /// `surroundings.not_asked`.
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

    /// True if a fact holds for the wanted release. For a release without a recorded fact, the nearest release counts.
    fn holds(&self, fact: Fact) -> bool {
        self.is_harvester() && fact.holds(self.wanted.release()).assumed()
    }

    /// True if the installation ends when one of the installer's own checks fails. In an interactive installation the installer
    /// asks the user.
    fn installer_ends(&self) -> bool {
        self.is_harvester() && self.wanted.automatic && !self.wanted.skip_checks
    }

    /// True if the configuration tells Harvester's installer to ignore failed checks.
    fn installer_skips(&self) -> bool {
        self.is_harvester() && self.wanted.skip_checks
    }

    fn minimum(&self, figure: Figure) -> Option<&'static PublishedMinimum> {
        self.published.of(self.wanted.platform, figure)
    }

    /// Compares a figure with its published minimum. `enough` returns whether the machine has a given amount.
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
                    "{why}; `install.skipchecks` lets the installer continue"
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

    /// Reports a failed check of Harvester's installer that compares no figure.
    fn installer_warns(&self, seen: &mut Seen, why: String) {
        match self.installer_ends() {
            true => seen.wrong.push(format!("{why}: {ENDS}")),
            false => seen.look.push(why),
        }
    }
}

const ENDS: &str =
    "the installer ends here, because `install.automatic` is set and `install.skipchecks` is not";
