//! The table by which an Addon of Harvester is judged, row by row, and the cases between the rows.

use jiff::SignedDuration;
use serde_json::json;

use super::*;

mod disabling;
mod job;

const ASKED: &str = "2026-03-01T10:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// This many seconds after the last change of the Addon.
fn after(seconds: i64) -> Timestamp {
    at(ASKED) + SignedDuration::from_secs(seconds)
}

fn addon(status: &str) -> Value {
    json!({
        "metadata": {"name": "harvester-seeder", "namespace": "harvester-system", "uid": "a1",
            "creationTimestamp": after(-86_400).to_string()},
        "spec": {"enabled": true},
        "status": {"status": status, "conditions": [
            {"type": "InProgress", "status": "True", "lastUpdateTime": ASKED},
        ]},
    })
}

fn chart(job: &str) -> Value {
    json!({"metadata": {"name": "harvester-seeder", "creationTimestamp": after(-3600).to_string(),
            "ownerReferences": [{"kind": "Addon", "name": "harvester-seeder", "uid": "a1"}]},
        "status": {"jobName": job}})
}

/// A Job created this many seconds after the last change of the Addon.
fn job(made: i64, status: &Value) -> Value {
    json!({"metadata": {"creationTimestamp": after(made).to_string()}, "status": status})
}

fn complete(at: i64) -> Value {
    json!({"succeeded": 1, "completionTime": after(at).to_string(),
           "conditions": [{"type": "Complete", "status": "True"}]})
}

fn failed(at: i64, reason: &str, failures: u64) -> Value {
    json!({"failed": failures, "conditions": [{"type": "Failed", "status": "True", "reason": reason,
           "lastTransitionTime": after(at).to_string()}]})
}

struct Case {
    addon: Value,
    chart: Option<Value>,
    job: Option<Value>,
    pods: Vec<Value>,
}

impl Case {
    fn enabling() -> Self {
        Self {
            addon: addon("AddonEnabling"),
            chart: Some(chart("helm-install-harvester-seeder")),
            job: None,
            pods: Vec::new(),
        }
    }

    fn with_job(made: i64, status: &Value) -> Self {
        Self {
            job: Some(job(made, status)),
            ..Self::enabling()
        }
    }

    /// With `InProgress`, and with `OperationFailed` of the same or an earlier operation.
    fn with_conditions(mut self, in_progress: &str, failed: &str) -> Self {
        self.addon["status"]["conditions"] = json!([
            {"type": "InProgress", "status": in_progress, "lastUpdateTime": ASKED},
            {"type": "OperationFailed", "status": failed, "reason": "Error",
             "message": "job failed\nBackoffLimitExceeded"},
        ]);
        self
    }

    fn at(&self, seconds: i64) -> AddonState {
        let parts = AddonParts {
            addon: &self.addon,
            chart: self.chart.as_ref(),
            job: self.job.as_ref(),
            pods: &self.pods,
        };
        judge(&parts, after(seconds))
    }
}

fn who(state: &AddonState) -> Controller {
    match state {
        AddonState::ControllerDown { who, .. } => *who,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_addon_that_is_as_asked_for_is_settled() {
    for (status, enabled) in [
        ("AddonDeploySuccessful", true),
        ("AddonDisabled", false),
        ("", false),
    ] {
        let mut case = Case::enabling();
        case.addon["status"]["status"] = status.into();
        case.addon["spec"]["enabled"] = enabled.into();
        assert_eq!(case.at(9999), AddonState::Settled, "{status}");
    }
}

#[test]
fn a_chart_that_is_not_made_means_harvester_only_after_two_minutes() {
    let mut case = Case::enabling();
    case.chart = None;
    assert_eq!(case.at(110), AddonState::NotStarted);
    assert_eq!(who(&case.at(130)), Controller::Harvester);
    // Enabled, and not begun: the time is that of the previous operation and proves nothing.
    case.addon["status"]["status"] = "AddonDisabled".into();
    assert_eq!(case.at(9999), AddonState::NotStarted);
}

#[test]
fn a_chart_without_a_job_means_rke2s_helm_controller() {
    let mut case = Case::enabling();
    case.chart = Some(chart(""));
    assert_eq!(case.at(60), AddonState::NotStarted);
    assert_eq!(who(&case.at(130)), Controller::Helm);
    // The named Job is gone and nothing creates it again.
    case.chart = Some(chart("helm-install-harvester-seeder"));
    assert_eq!(case.at(60), AddonState::NotStarted);
    assert_eq!(who(&case.at(130)), Controller::Helm);
}

#[test]
fn a_failed_operation_is_failed_although_the_status_says_enabling() {
    let case = Case::with_job(5, &json!({"active": 1})).with_conditions("False", "True");
    let expected = AddonState::Failed {
        why: "Error: job failed BackoffLimitExceeded".to_owned(),
    };
    assert_eq!(case.at(60), expected);
    assert!(!expected.is_on_its_way());
}

#[test]
fn an_enabled_addon_that_failed_in_progress_is_changed_by_nobody() {
    for status in ["AddonEnabling", "AddonUpdating"] {
        let mut case = Case::with_job(5, &complete(10)).with_conditions("True", "True");
        case.addon["status"]["status"] = status.into();
        let deadlock = AddonState::Stuck(Deadlock::FailedInProgress);
        assert_eq!(case.at(20), deadlock, "{status}");
        assert!(!deadlock.is_on_its_way());
    }
    // Harvester begins with an Addon that is not enabled yet, regardless of the previous operation.
    let mut begins = Case::enabling().with_conditions("True", "True");
    begins.addon["status"]["status"] = "AddonDisabled".into();
    assert_eq!(begins.at(20), AddonState::NotStarted);
}

#[test]
fn a_job_that_failed_for_a_reason_harvester_does_not_know_is_waited_for_without_end() {
    for status in [
        failed(20, "DeadlineExceeded", 1),
        failed(20, "PodFailurePolicy", 1),
        failed(20, "BackoffLimitExceeded", 0),
    ] {
        let case = Case::with_job(5, &status);
        assert_eq!(case.at(300), AddonState::Progressing, "{status}");
        let stuck = case.at(321);
        assert!(
            matches!(&stuck, AddonState::Stuck(Deadlock::JobNotCounted { job, .. }) if job == "helm-install-harvester-seeder"),
            "{stuck:?}"
        );
    }
}

#[test]
fn a_chart_of_another_owner_keeps_harvester_from_beginning() {
    let mut case = Case::enabling();
    case.addon["status"]["status"] = "AddonDisabled".into();
    assert_eq!(case.at(9999), AddonState::NotStarted, "its own");
    let chart = case.chart.as_mut().unwrap();
    chart["metadata"]["ownerReferences"][0]["uid"] = "a0".into();
    // The HelmChart of a recreated Addon disappears automatically.
    assert_eq!(case.at(-3600 + 299), AddonState::NotStarted);
    assert_eq!(
        case.at(-3600 + 301),
        AddonState::Stuck(Deadlock::ForeignChart)
    );
}

#[test]
fn a_job_at_work_is_progressing_retrying_or_lacks_its_image() {
    let working = Case::with_job(5, &json!({"active": 1}));
    assert_eq!(
        working.at(9999),
        AddonState::Progressing,
        "a chart may take long"
    );
    let retrying = Case::with_job(5, &json!({"active": 1, "failed": 2}));
    assert_eq!(retrying.at(60), AddonState::Retrying { failed: 2 });
    // The Job does not count the restarts of its containers.
    let mut restarted = Case::with_job(5, &json!({"active": 1}));
    restarted.pods = vec![json!({"status": {"phase": "Running", "containerStatuses": [
        {"image": "x", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
    ]}})];
    assert_eq!(restarted.at(60), AddonState::Retrying { failed: 3 });
    let mut without = Case::with_job(5, &json!({"active": 1, "failed": 2}));
    without.pods = vec![json!({"status": {"phase": "Pending", "containerStatuses": [
        {"image": "rancher/klipper-helm:v0.9", "state": {"waiting": {"reason": "ImagePullBackOff"}}},
    ]}})];
    let expected = AddonState::ImageMissing {
        image: "rancher/klipper-helm:v0.9".to_owned(),
    };
    assert_eq!(without.at(60), expected);
    // A pod that only waits to be scheduled says nothing about images.
    without.pods = vec![json!({"status": {"phase": "Pending", "containerStatuses": [
        {"image": "x", "state": {"waiting": {"reason": "ContainerCreating"}}},
    ]}})];
    assert_eq!(without.at(60), AddonState::Retrying { failed: 2 });
}

#[test]
fn a_job_that_stays_suspended_means_rke2s_helm_controller() {
    let mut case = Case::with_job(5, &json!({}));
    let suspend = |case: &mut Case, suspend: bool| {
        case.job.as_mut().expect("it has one")["spec"] = json!({"suspend": suspend});
    };
    suspend(&mut case, true);
    assert_eq!(case.at(60), AddonState::Progressing);
    assert_eq!(who(&case.at(600)), Controller::Helm);
    suspend(&mut case, false);
    assert_eq!(case.at(600), AddonState::Progressing);
}

#[test]
fn a_complete_job_that_is_older_than_the_last_change_is_stuck_for_good() {
    let older = Case::with_job(-60, &complete(-30));
    // helm-controller may be about to create a newer one.
    assert_eq!(older.at(200), AddonState::Progressing);
    let stuck = older.at(301);
    assert_eq!(
        stuck,
        AddonState::Stuck(Deadlock::JobIsOlder {
            job: "helm-install-harvester-seeder".to_owned(),
            made: after(-60),
            since: after(0),
        })
    );
    assert!(stuck.say().contains("stuck permanently"), "{}", stuck.say());
    // A running Job proves nothing, however old it is.
    let at_work = Case::with_job(-60, &json!({"active": 1}));
    assert_eq!(at_work.at(301), AddonState::Progressing);
}

#[test]
fn a_complete_job_of_the_same_second_counts_as_newer() {
    let same = Case::with_job(0, &complete(20));
    assert_eq!(same.at(40), AddonState::Progressing);
    assert_eq!(who(&same.at(51)), Controller::Harvester);
}

#[test]
fn a_failed_job_says_why_before_harvester_does() {
    let failed = Case::with_job(5, &failed(50, "BackoffLimitExceeded", 6));
    assert!(
        matches!(failed.at(60), AddonState::Failed { why } if why.starts_with("BackoffLimitExceeded"))
    );
}

/// Deployed, with its operation still in progress and a HelmChart as requested.
fn deployed() -> Case {
    let mut case = Case::enabling();
    case.addon["status"]["status"] = "AddonDeploySuccessful".into();
    for object in [&mut case.addon, case.chart.as_mut().unwrap()] {
        object["spec"]["chart"] = "harvester-seeder".into();
        object["spec"]["repo"] = "http://repo".into();
        object["spec"]["version"] = "1.0.0".into();
        object["spec"]["valuesContent"] = "x: 1".into();
    }
    case
}

#[test]
fn an_update_that_ended_before_its_last_write_is_a_deadlock_once_nothing_is_left_to_update() {
    assert_eq!(
        deployed().at(299),
        AddonState::Settled,
        "it may be about to"
    );
    assert_eq!(
        deployed().at(301),
        AddonState::Stuck(Deadlock::DeployedInProgress)
    );
    for field in ["chart", "repo", "version", "valuesContent"] {
        let mut differs = deployed();
        differs.chart.as_mut().unwrap()["spec"][field] = "other".into();
        assert_eq!(differs.at(301), AddonState::Settled, "{field}");
    }
    // Its values are in an annotation.
    let mut annotated = deployed();
    annotated.addon["spec"]["valuesContent"] = "".into();
    assert!(matches!(annotated.at(301), AddonState::Stuck(_)));
    let mut without = deployed();
    without.chart = None;
    assert_eq!(without.at(301), AddonState::Settled);
    let done = deployed().with_conditions("False", "False");
    assert_eq!(done.at(301), AddonState::Settled);
    assert!(is_at_rest(&done.addon) && !is_at_rest(&deployed().addon));
}

#[test]
fn nothing_is_overdue_or_proved_without_a_time_and_odd_objects_are_no_panic() {
    let mut case = Case::with_job(-60, &complete(-30));
    case.addon["status"]["conditions"][0]["lastUpdateTime"] = "soon".into();
    assert!(!matches!(case.at(99_999), AddonState::Stuck(_)));
    case.chart = None;
    assert_eq!(case.at(99_999), AddonState::NotStarted);
    let null = Value::Null;
    let odd = [
        json!({"spec": {"enabled": "yes"}, "status": []}),
        json!([]),
        json!("x"),
    ];
    for addon in &odd {
        let parts = AddonParts {
            addon,
            chart: Some(&null),
            job: Some(&null),
            pods: &odd,
        };
        judge(&parts, after(0));
    }
}
