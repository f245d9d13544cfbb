//! A disabled Addon: Harvester deletes the HelmChart, and helm-controller does that with a Job.

use super::*;

const JOB: &str = "helm-delete-harvester-seeder";

/// Disabled; its HelmChart was deleted at the same time, and the Job created this many seconds later.
fn disabling(made: i64, status: &Value) -> Case {
    let mut case = Case::with_job(made, status);
    case.addon["spec"]["enabled"] = false.into();
    case.addon["status"]["status"] = "AddonDisabling".into();
    let chart = case.chart.as_mut().unwrap();
    chart["metadata"]["deletionTimestamp"] = ASKED.into();
    chart["metadata"]["finalizers"] = json!(["wrangler.cattle.io/on-helm-chart-remove"]);
    chart["status"]["jobName"] = JOB.into();
    case
}

fn deadlock(state: AddonState) -> Deadlock {
    match state {
        AddonState::Stuck(deadlock) => deadlock,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_deletion_at_work_is_progressing_retrying_or_lacks_its_image() {
    let case = disabling(5, &json!({"active": 1}));
    assert_eq!(case.at(9999), AddonState::Progressing, "it may take long");
    // An earlier failure stays in the status until this operation has completed.
    let after_a_failure = disabling(5, &json!({"active": 1})).with_conditions("True", "True");
    assert_eq!(after_a_failure.at(9999), AddonState::Progressing);
    let retrying = disabling(5, &json!({"active": 1, "failed": 2}));
    assert_eq!(retrying.at(60), AddonState::Retrying { failed: 2 });
    let mut without = disabling(5, &json!({"active": 1}));
    without.pods = vec![json!({"status": {"containerStatuses": [
        {"image": "klipper-helm:1", "state": {"waiting": {"reason": "ErrImagePull"}}}]}})];
    assert!(matches!(without.at(60), AddonState::ImageMissing { .. }));
}

#[test]
fn helm_controller_that_makes_no_job_or_keeps_the_chart_is_down() {
    let mut case = disabling(5, &json!({}));
    case.job = None;
    assert_eq!(case.at(299), AddonState::Progressing);
    assert_eq!(who(&case.at(301)), Controller::Helm);
    // Without its finalizer helm-controller does not delete the HelmChart.
    case.chart.as_mut().unwrap()["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    assert_eq!(case.at(9999), AddonState::Progressing);
    // An older Job that succeeded is enough for helm-controller.
    let older = disabling(-5, &complete(10));
    assert_eq!(older.at(130), AddonState::Progressing);
    assert_eq!(who(&older.at(131)), Controller::Helm);
}

#[test]
fn a_deletion_that_harvester_does_not_take_note_of_means_harvester() {
    let complete = disabling(5, &complete(20));
    assert_eq!(complete.at(50), AddonState::Progressing);
    assert_eq!(who(&complete.at(51)), Controller::Harvester);
    let mut gone = disabling(5, &json!({}));
    (gone.chart, gone.job) = (None, None);
    assert_eq!(gone.at(119), AddonState::Progressing);
    assert_eq!(who(&gone.at(121)), Controller::Harvester);
    // Nothing was begun: there is no time since when it waits.
    let idle = disabling(5, &json!({})).with_conditions("False", "False");
    let idle = Case {
        chart: None,
        job: None,
        ..idle
    };
    assert_eq!(idle.at(9999), AddonState::Progressing);
}

#[test]
fn a_deletion_that_failed_is_failed_where_harvester_counts_it_and_stuck_otherwise() {
    let counted = disabling(5, &failed(60, "BackoffLimitExceeded", 6));
    assert!(matches!(counted.at(61), AddonState::Failed { why } if why == "BackoffLimitExceeded"));
    let told =
        disabling(5, &failed(60, "BackoffLimitExceeded", 6)).with_conditions("False", "True");
    assert!(matches!(told.at(61), AddonState::Failed { why } if why.contains("job failed")));

    let other = disabling(5, &failed(60, "DeadlineExceeded", 1));
    assert_eq!(other.at(360), AddonState::Progressing);
    let why = "DeadlineExceeded".to_owned();
    let expected = Deadlock::JobNotCounted {
        job: JOB.to_owned(),
        why,
    };
    assert_eq!(deadlock(other.at(361)), expected);
    // It is compared with the deletion of the HelmChart, not with InProgress.
    let mut older = disabling(-5, &failed(-1, "BackoffLimitExceeded", 6));
    assert_eq!(older.at(300), AddonState::Progressing);
    let expected = |since| Deadlock::JobIsOlder {
        job: JOB.to_owned(),
        made: after(-5),
        since,
    };
    assert_eq!(deadlock(older.at(301)), expected(after(0)));
    let chart = older.chart.as_mut().unwrap();
    chart["metadata"]["deletionTimestamp"] = after(-5).to_string().into();
    assert!(
        matches!(older.at(301), AddonState::Failed { .. }),
        "of the same second"
    );
}

/// Up to v0.16 the HelmChart does not show helm-controller's name for the Job: Harvester waits until the HelmChart is gone.
#[test]
fn a_deletion_whose_job_is_not_named_is_judged_by_the_job_all_the_same() {
    let unnamed = |status: &Value| {
        let mut case = disabling(5, status);
        let chart = case.chart.as_mut().unwrap();
        chart["status"]["jobName"] = "helm-install-harvester-seeder".into();
        assert_eq!(job_of(chart).unwrap(), JOB);
        case
    };
    let slow = unnamed(&json!({"active": 1}));
    assert_eq!(slow.at(9999), AddonState::Progressing);
    let done = unnamed(&complete(20));
    assert_eq!(
        done.at(60),
        AddonState::Progressing,
        "Harvester does not look"
    );
    assert_eq!(who(&done.at(141)), Controller::Helm);
    let failed = unnamed(&failed(60, "BackoffLimitExceeded", 6));
    assert_eq!(failed.at(360), AddonState::Progressing);
    assert!(matches!(
        deadlock(failed.at(361)),
        Deadlock::JobNotCounted { .. }
    ));
}

#[test]
fn an_addon_that_waits_for_an_earlier_deletion_is_judged_by_it() {
    // Enabled again after AddonDisabled: Harvester waits until the HelmChart is gone.
    let mut case = disabling(5, &failed(60, "BackoffLimitExceeded", 6));
    case.addon["spec"]["enabled"] = true.into();
    case.addon["status"]["status"] = "AddonDisabled".into();
    assert_eq!(case.at(300), AddonState::Progressing);
    assert!(matches!(
        deadlock(case.at(361)),
        Deadlock::JobNotCounted { .. }
    ));
    case.job = Some(job(5, &json!({"active": 1})));
    assert_eq!(case.at(9999), AddonState::Progressing);
}

#[test]
fn a_switch_that_harvester_has_no_step_for_is_a_deadlock() {
    for (in_progress, failed) in [("False", "True"), ("True", "False"), ("True", "True")] {
        let mut on = disabling(5, &complete(10)).with_conditions(in_progress, failed);
        on.addon["spec"]["enabled"] = true.into();
        assert_eq!(deadlock(on.at(20)), Deadlock::EnabledWhileDisabling);
    }
    for status in ["AddonEnabling", "AddonUpdating", "AddonDeploySuccessful"] {
        let mut off = Case::with_job(5, &json!({"active": 1}));
        off.addon["spec"]["enabled"] = false.into();
        off.addon["status"]["status"] = status.into();
        assert_eq!(
            deadlock(off.at(20)),
            Deadlock::DisabledInProgress,
            "{status}"
        );
        // Nothing is in progress: Harvester begins to disable it.
        let off = off.with_conditions("False", "True");
        assert_eq!(off.at(9999), AddonState::NotStarted, "{status}");
    }
}

#[test]
fn a_chart_of_another_owner_is_not_deleted() {
    for (in_progress, failed) in [("False", "False"), ("False", "True")] {
        let mut case = disabling(5, &json!({"active": 1})).with_conditions(in_progress, failed);
        let chart = case.chart.as_mut().unwrap();
        chart["metadata"]["deletionTimestamp"] = Value::Null;
        assert!(!matches!(case.at(60), AddonState::Stuck(_)), "its own");
        let chart = case.chart.as_mut().unwrap();
        chart["metadata"]["ownerReferences"] = json!([]);
        assert_eq!(deadlock(case.at(60)), Deadlock::ForeignChart);
        assert!(
            !matches!(case.at(-3400), AddonState::Stuck(_)),
            "made just now"
        );
    }
}
