//! An upgrade check for users.

use windrow_model::checks::CheckOutcome;
use windrow_preflight::upgrade_check::UpgradeCheck;

use super::checks::{write_checks, write_verdict};
use super::table::Style;

pub fn upgrade_table(check: &UpgradeCheck, style: Style) -> String {
    let release = |version: &Option<String>, otherwise: &str| {
        version.clone().unwrap_or_else(|| otherwise.to_owned())
    };
    let head = format!(
        "Upgrade of Harvester from {} to {}",
        release(&check.from, "an unknown release"),
        release(&check.to, "an unnamed release (--harvester)")
    );
    let mut out = write_checks(&head, &check.list, None, style);
    let verdict = match check.list.verdict {
        CheckOutcome::Fail if check.is_refused() => {
            "Harvester would refuse the upgrade: see above."
        }
        CheckOutcome::Fail => "The upgrade would start, but not finish: see above.",
        CheckOutcome::Unknown => {
            "Windrow cannot tell whether the upgrade would start and finish: see above."
        }
        _ => "Windrow found no reason against the upgrade.",
    };
    write_verdict(&mut out, check.list.verdict, verdict, style);
    out
}
