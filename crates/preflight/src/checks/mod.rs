//! Checks whether this machine can become the wanted node. A table holds all checks, and each of them runs.

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
use windrow_host::{HostFacts, hardware_class};
use windrow_model::checks::NoFacts::NotChecked;
use windrow_model::checks::{CheckFacts, CheckList, CheckOutcome, CheckResult, CheckRow};
use windrow_plan::rules::Platform;

use self::table::{ROWS, Row};
use crate::minimums::{Figure, PublishedMinimum, PublishedMinimums};
use crate::report::Preflight;
use crate::{ConfiguredValue, Surroundings, WantedNode};

/// Requirements that Windrow cannot check from the machine.
const NOT_CHECKED: &[&str] = &[
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
    let rows = ROWS.iter().map(|row| judged.row(row)).collect();
    Preflight {
        api_version: "windrow.dev/v1".to_owned(),
        kind: "Preflight".to_owned(),
        at,
        platform: wanted.platform,
        version: wanted.harvester.map(|version| format!("v{version}")),
        role: wanted.role,
        production: wanted.production,
        list: CheckList::new(rows, NOT_CHECKED),
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

const OFFLINE: &str = "--offline sends no network requests";

impl Judged<'_> {
    fn row(&self, row: &Row) -> CheckRow {
        let checked = CheckRow::new(row.name, row.rule, row.broken, (row.look)(self));
        let needs_action = matches!(checked.outcome, CheckOutcome::Fail | CheckOutcome::Warn);
        CheckRow {
            optional: row.broken == CheckOutcome::Warn,
            advice: needs_action.then(|| row.advice.to_owned()),
            ..checked
        }
    }

    /// The result for a request that was not made. If the configuration names something to ask, the reason is `--offline` or
    /// `surroundings.not_asked`.
    fn not_asked(&self, named: Option<&ConfiguredValue>, otherwise: &'static str) -> CheckResult {
        match (named, &self.surroundings.not_asked) {
            (Some(_), _) if self.surroundings.offline => Err(NotChecked(OFFLINE)),
            (Some(_), Some(why)) => Ok(CheckFacts::unknown(why)),
            _ => Err(NotChecked(otherwise)),
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
        facts: &mut CheckFacts,
        minimum: &PublishedMinimum,
        unit: &str,
        enough: impl Fn(u64) -> bool,
    ) {
        let PublishedMinimum { least, better, .. } = minimum;
        let by_installer = minimum.installer;
        if !enough(*least) {
            let why = format!("less than {least}{unit}, the published minimum");
            match by_installer && self.installer_skips() {
                true => facts.warnings.push(format!(
                    "{why}; `install.skipchecks` lets the installer continue"
                )),
                false => facts.problems.push(why),
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
                facts.problems.push(why);
            } else if by_installer && self.installer_ends() {
                facts.problems.push(format!("{why}: {ENDS}"));
            } else {
                facts.warnings.push(why);
            }
        }
    }

    /// Reports a failed check of Harvester's installer that compares no figure.
    fn installer_warns(&self, facts: &mut CheckFacts, why: String) {
        match self.installer_ends() {
            true => facts.problems.push(format!("{why}: {ENDS}")),
            false => facts.warnings.push(why),
        }
    }
}

const ENDS: &str =
    "the installer ends here, because `install.automatic` is set and `install.skipchecks` is not";
