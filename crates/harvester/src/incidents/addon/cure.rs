//! What can be done about an Addon that no controller acts on any more.

use serde_json::{Value, json};

use crate::addons::AddonParts;
use crate::incidents::cure::{Cure, CureGoal, CureStep, SavedObject};
use crate::objects::{ObjectKind, text};

/// The Job is deleted. helm-controller watches the Jobs that it made and makes the HelmChart's again (its
/// `pkg/controllers/chart/chart.go`, v0.15.15 to v0.17.1), and Harvester takes the first that is not older than
/// its condition. The Addon is not touched: while its operation is in progress Harvester's webhook refuses every
/// change of it, and from v1.7.0 on the deletion of most Addons at any time.
pub(super) fn job_made_again(parts: &AddonParts<'_>, job: &Value) -> Cure {
    let addon = parts.addon;
    let (namespace, name) = (
        text(addon, "/metadata/namespace"),
        text(addon, "/metadata/name"),
    );
    let job_name = text(job, "/metadata/name");
    let mut steps = vec![
        CureStep::delete(
            ObjectKind::JOB,
            job,
            "what the Job did stays done; it is made again",
            CureGoal::Anew {
                path: ObjectKind::JOB.path_of(job),
                before: text(job, "/metadata/uid").to_owned(),
            },
            300,
        )
        .afterwards("helm-controller makes it again"),
    ];
    if addon.pointer("/spec/enabled") == Some(&json!(true)) {
        steps.push(CureStep::wait(
            format!("wait until Addon {namespace}/{name} is deployed"),
            CureGoal::Field {
                path: ObjectKind::ADDON.path_of(addon),
                before: None,
                field: "/status/status".to_owned(),
                value: json!("AddonDeploySuccessful"),
            },
            1800,
        ));
    }
    Cure {
        summary: format!("have the Job of Addon {namespace}/{name} made again"),
        changes: vec![
            format!(
                "Job {namespace}/{job_name} is deleted with its pods, and helm-controller makes it again: the chart is \
                 installed once more over what it runs, with the same values"
            ),
            "neither the Addon nor what its chart runs is deleted".to_owned(),
        ],
        saves: vec![SavedObject::of(ObjectKind::JOB, job)],
        steps,
    }
}
