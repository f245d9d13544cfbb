//! A preflight for users.

use windrow_model::checks::CheckOutcome;
use windrow_plan::rules::Platform;
use windrow_preflight::{PlannedRole, Preflight};

use super::checks::{write_checks, write_verdict};
use super::table::Style;

pub fn preflight_table(preflight: &Preflight, style: Style) -> String {
    let platform = match preflight.platform {
        Platform::Harvester => "Harvester",
        Platform::Rke2 => "RKE2",
    };
    let version = match (&preflight.version, preflight.platform) {
        (Some(version), _) => format!(" {version}"),
        (None, Platform::Harvester) => " (the newest known release)".to_owned(),
        (None, Platform::Rke2) => String::new(),
    };
    let role = match preflight.role {
        PlannedRole::Server => "server",
        PlannedRole::Worker => "worker",
        PlannedRole::Witness => "witness",
    };
    let production = if preflight.production {
        ", in production"
    } else {
        ""
    };
    let head = format!("Preflight of a {role} of {platform}{version}{production}");
    let class = preflight.hardware_class.as_ref();
    let class = class.map(|class| format!("hardware class: {class}"));
    let mut out = write_checks(&head, &preflight.list, class, style);
    let verdict = match preflight.list.verdict {
        CheckOutcome::Fail => "This host does not meet the requirements: see above.",
        CheckOutcome::Unknown => {
            "Windrow cannot tell whether this host meets the requirements: see above."
        }
        _ => "No check failed.",
    };
    write_verdict(&mut out, preflight.list.verdict, verdict, style);
    out
}
