//! How a Job of helm-controller ended, and how far it is.

use serde_json::json;
use windrow_model::object::Condition;

use super::*;
use crate::addons::job::{JobEnd, NOT_PULLED, ended, words, working};

/// The end of a Job with this status, in words: `complete 10`, `failed 10 (why), counted`; empty while it runs.
fn end(status: &Value) -> String {
    let seconds = |at: Option<Timestamp>| {
        at.map_or("unknown".to_owned(), |at| {
            at.duration_since(after(0)).as_secs().to_string()
        })
    };
    match ended(&json!({"status": status})) {
        None => String::new(),
        Some(JobEnd::Complete { at }) => format!("complete {}", seconds(at)),
        Some(JobEnd::Failed { why, at, counted }) => {
            let counted = if counted { ", counted" } else { "" };
            format!("failed {} ({why}){counted}", seconds(at))
        }
    }
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": after(20).to_string()})
}

#[test]
fn a_job_has_ended_by_its_condition_or_by_its_time_and_by_nothing_else() {
    let time = after(10).to_string();
    let complete = condition("Complete", "True", "");
    for (status, expected) in [
        (json!({}), ""),
        (json!({"succeeded": 1, "failed": 3}), ""),
        (
            json!({"conditions": [condition("Complete", "False", "")]}),
            "",
        ),
        (
            json!({"conditions": [condition("Suspended", "True", "")]}),
            "",
        ),
        (json!({"conditions": [complete]}), "complete 20"),
        (json!({"completionTime": time}), "complete 10"),
        (
            json!({"completionTime": time, "conditions": [complete]}),
            "complete 10",
        ),
        (
            json!({"conditions": [{"type": "Complete", "status": "True"}]}),
            "complete unknown",
        ),
        // A failed Job is not complete, regardless of its other conditions.
        (
            json!({"failed": 1, "conditions": [complete, condition("Failed", "True", "DeadlineExceeded")]}),
            "failed 20 (DeadlineExceeded)",
        ),
        (
            json!({"completionTime": time, "conditions": [condition("Failed", "True", "X")]}),
            "failed 10 (X)",
        ),
        (
            json!({"conditions": [condition("Failed", "False", "X")]}),
            "",
        ),
    ] {
        assert_eq!(end(&status), expected, "{status}");
    }
}

#[test]
fn harvester_counts_a_job_that_failed_for_its_one_reason_and_with_a_failure() {
    for (reason, failures, counted) in [
        ("BackoffLimitExceeded", json!(6), true),
        ("BackoffLimitExceeded", json!(1), true),
        ("BackoffLimitExceeded", json!(0), false),
        ("BackoffLimitExceeded", Value::Null, false),
        ("DeadlineExceeded", json!(6), false),
    ] {
        let status =
            json!({"failed": failures, "conditions": [condition("Failed", "True", reason)]});
        let expected = format!(
            "failed 20 ({reason}){}",
            if counted { ", counted" } else { "" }
        );
        assert_eq!(end(&status), expected);
    }
}

#[test]
fn a_job_that_works_is_told_by_its_image_its_failures_and_its_pods_restarts() {
    let job = |failed: u64| json!({"status": {"failed": failed}});
    let pod = |field: &str, container: Value| json!({"status": {field: [container]}});
    let restarted = |times: u64| pod("containerStatuses", json!({"restartCount": times}));
    assert_eq!(working(&json!({}), &[]), AddonState::Progressing);
    assert_eq!(working(&job(0), &[restarted(0)]), AddonState::Progressing);
    assert_eq!(working(&job(2), &[]), AddonState::Retrying { failed: 2 });
    assert_eq!(
        working(&job(2), &[restarted(3), restarted(1)]),
        AddonState::Retrying { failed: 6 }
    );
    for field in ["containerStatuses", "initContainerStatuses"] {
        for reason in NOT_PULLED {
            let waits = json!({"image": "klipper:1", "restartCount": 4, "state": {"waiting": {"reason": reason}}});
            let image = "klipper:1".to_owned();
            let state = working(&job(2), &[restarted(0), pod(field, waits)]);
            assert_eq!(state, AddonState::ImageMissing { image }, "{reason}");
        }
        let waits =
            json!({"image": "klipper:1", "state": {"waiting": {"reason": "ContainerCreating"}}});
        let state = working(&job(0), &[pod(field, waits)]);
        assert_eq!(state, AddonState::Progressing);
    }
}

#[test]
fn a_condition_says_its_reason_and_its_message_in_one_line() {
    for (reason, message, expected) in [
        ("A", "b\n  c ", "A: b c"),
        ("A", " ", "A"),
        ("", "b c", "b c"),
        ("", "", ""),
    ] {
        let job = json!({"status": {"conditions": [{"reason": reason, "message": message}]}});
        let condition = Condition::of(&job, "").unwrap();
        assert_eq!(words(condition), expected);
    }
}
