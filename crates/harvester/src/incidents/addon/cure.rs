//! Cures for an Addon that controllers ignore. They never delete its HelmChart: that uninstalls the chart, and Harvester then
//! installs it again without its data.

use serde_json::{Value, json};

use crate::addons::{AddonParts, Deadlock};
use crate::incidents::cure::{Cure, CureGoal, CureStep, ObjectChange, SavedObject};
use crate::objects::{Condition, ObjectKind, is_true, named, text};

/// helm-controller creates a Job again within seconds. While it deletes a chart, its back-off is at most one minute.
const MADE_AGAIN: u32 = 300;
/// A chart may take long to install.
const SETTLED: u32 = 1800;

pub(super) fn cure(parts: &AddonParts<'_>, deadlock: &Deadlock) -> Option<Cure> {
    match deadlock {
        Deadlock::JobIsOlder { .. } | Deadlock::JobNotCounted { .. } => {
            Some(job_made_again(parts.addon, parts.job?))
        }
        Deadlock::FailedInProgress => failed_in_progress(parts.addon),
        Deadlock::DisabledInProgress => disabled_in_progress(parts.addon),
        Deadlock::DeployedInProgress => deployed_in_progress(parts.addon),
        Deadlock::EnabledWhileDisabling => Some(switched_off(parts.addon)),
        Deadlock::ForeignChart => None,
    }
}

/// Deletes the Job. helm-controller watches its Jobs and creates the one of the HelmChart again
/// (`pkg/controllers/chart/chart.go`, v0.15.13 to v0.17.1). Harvester uses the first Job that is not older than the operation.
/// This does not change the Addon: during its operation Harvester's webhook rejects every change of it, and from v1.7.0 on it
/// always rejects the deletion of most Addons.
fn job_made_again(addon: &Value, job: &Value) -> Cure {
    let (path, uid) = (
        ObjectKind::JOB.path_of(job),
        text(job, "/metadata/uid").to_owned(),
    );
    let uninstalls = text(job, "/metadata/name").starts_with("helm-delete");
    let (goal, what) = match uninstalls {
        // The newer Job may disappear together with its HelmChart before Windrow sees it.
        true => (
            CureGoal::Gone { path, uid },
            "the chart is uninstalled again",
        ),
        false => (
            CureGoal::Anew { path, before: uid },
            "the chart is installed again over its running objects, with the same values",
        ),
    };
    let no_way_back = "the effects of the Job stay; it is created again";
    let delete = CureStep::delete(ObjectKind::JOB, job, no_way_back, goal, MADE_AGAIN);
    let mut changes = vec![format!(
        "Job {} is deleted with its pods, and helm-controller creates it again: {what}",
        named(job)
    )];
    if !uninstalls {
        changes.push("neither the Addon nor the workloads of its chart are deleted".to_owned());
    }
    let state = match addon["spec"]["enabled"] == true {
        true => "AddonDeploySuccessful",
        false => "AddonDisabled",
    };
    Cure {
        summary: format!("have the Job of Addon {} created again", named(addon)),
        changes,
        saves: vec![SavedObject::of(ObjectKind::JOB, job)],
        purpose: None,
        steps: vec![
            delete.afterwards("helm-controller creates it again"),
            CureStep::wait(
                format!("wait until Addon {} is {state}", named(addon)),
                addon_has(addon, "/status/status", json!(state)),
                SETTLED,
            ),
        ],
    }
}

/// Sets `InProgress` to False in the status of the Addon, which Harvester's webhook does not check.
fn failed_in_progress(addon: &Value) -> Option<Cure> {
    let in_progress = ConditionFields::of(addon, "InProgress")?;
    let failed = ConditionFields::of(addon, "OperationFailed")?;
    let release = release(addon, &in_progress)
        .still(&failed.kind)
        .still(&failed.status);
    let goal = addon_has(addon, &in_progress.status, json!("False"));
    let step = release.step(say_release(addon), goal, 60);
    Some(of_addon(
        addon,
        vec![
            "the Addon's condition InProgress becomes False; nothing else is changed".to_owned(),
            "the Addon then counts as failed: fix it, switch it off and on".to_owned(),
        ],
        vec![step.afterwards("Harvester's webhook lets the Addon be changed again")],
    ))
}

/// Does the same for a deployed Addon, which needs nothing else.
fn deployed_in_progress(addon: &Value) -> Option<Cure> {
    let in_progress = ConditionFields::of(addon, "InProgress")?;
    let release = release(addon, &in_progress).still("/spec/enabled");
    let goal = addon_has(addon, &in_progress.status, json!("False"));
    let step = release.step(say_release(addon), goal, 60);
    Some(of_addon(
        addon,
        vec![
            "the Addon's condition InProgress becomes False; nothing else is changed".to_owned(),
            "the workloads of its chart stay as they are".to_owned(),
        ],
        vec![step.afterwards("Harvester's webhook lets the Addon be changed again")],
    ))
}

/// Does the same. Harvester then disables the Addon, as requested.
fn disabled_in_progress(addon: &Value) -> Option<Cure> {
    let in_progress = ConditionFields::of(addon, "InProgress")?;
    let release = release(addon, &in_progress).still("/spec/enabled");
    let goal = addon_has(addon, "/status/status", json!("AddonDisabled"));
    let step = release.step(say_release(addon), goal, SETTLED);
    Some(of_addon(
        addon,
        vec![
            "the Addon's condition InProgress becomes False".to_owned(),
            "Harvester then disables it, as requested: the workloads of its chart are deleted"
                .to_owned(),
        ],
        vec![step.afterwards("Harvester deletes the HelmChart and helm-controller uninstalls it")],
    ))
}

/// Disables the Addon again, so that Harvester continues to disable it. Its webhook allows this only after the operation.
fn switched_off(addon: &Value) -> Cure {
    let mut steps = Vec::new();
    let in_progress = ConditionFields::of(addon, "InProgress");
    if let Some(in_progress) = in_progress.filter(|_| is_true(addon, "InProgress")) {
        let goal = addon_has(addon, &in_progress.status, json!("False"));
        steps.push(release(addon, &in_progress).step(say_release(addon), goal, 60));
    }
    let off = ObjectChange::of(ObjectKind::ADDON, addon)
        .still("/status/status")
        .set("/spec/enabled", json!(false));
    let goal = addon_has(addon, "/spec/enabled", json!(false));
    let step = off.step(format!("switch Addon {} off", named(addon)), goal, 60);
    steps.push(step.afterwards("Harvester continues to disable it"));
    of_addon(
        addon,
        vec![
            "the Addon is switched off, contrary to the last request".to_owned(),
            "Harvester continues to disable it: the workloads of its chart are deleted".to_owned(),
            "once it is AddonDisabled, switch it on again".to_owned(),
        ],
        steps,
    )
}

fn of_addon(addon: &Value, changes: Vec<String>, steps: Vec<CureStep>) -> Cure {
    Cure {
        summary: format!("have Harvester act on Addon {} again", named(addon)),
        changes,
        saves: vec![SavedObject::of(ObjectKind::ADDON, addon)],
        purpose: None,
        steps,
    }
}

fn release<'a>(addon: &'a Value, in_progress: &'a ConditionFields) -> ObjectChange<'a> {
    ObjectChange::of_status(ObjectKind::ADDON, addon)
        .still("/status/status")
        .still(&in_progress.kind)
        .set(&in_progress.status, json!("False"))
}

fn say_release(addon: &Value) -> String {
    format!("set InProgress of Addon {} to False", named(addon))
}

/// JSON pointers to the fields of a condition. Conditions are a list, so a change must test which condition is at its index.
struct ConditionFields {
    kind: String,
    status: String,
}

impl ConditionFields {
    fn of(addon: &Value, name: &str) -> Option<Self> {
        let at = Condition::all(addon).position(|condition| condition.name == name)?;
        Some(Self {
            kind: format!("/status/conditions/{at}/type"),
            status: format!("/status/conditions/{at}/status"),
        })
    }
}

fn addon_has(addon: &Value, field: &str, value: Value) -> CureGoal {
    CureGoal::Field {
        path: ObjectKind::ADDON.path_of(addon),
        before: None,
        field: field.to_owned(),
        value,
    }
}
