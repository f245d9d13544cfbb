use http::{Method as HttpMethod, StatusCode};
use jiff::Timestamp;
use serde_json::json;
use windrow_harvester::incidents::WayBack;
use windrow_model::reasons::Code;

use super::super::tests::{
    ADDON, Repair, addon, deletes, finding, gives_back, sets, sets_and_is_stopped,
};
use super::super::{ChangedObject, Records, Worker};
use super::*;

#[tokio::test]
async fn a_change_whose_answer_was_lost_can_be_undone() {
    let mut repair = Repair::of_steps(vec![sets("a", 3600)]);
    repair.store.lose_answer(HttpMethod::PATCH);
    repair.carry_out().await.unwrap();
    assert_eq!(repair.store.changes().len(), 1);
    let changed = repair.written().changed;
    assert_eq!((changed.len(), &changed[0].after), (1, &None));
    assert_eq!(repair.undo().await, (true, vec![UndoneStep::Restored]));
    assert_eq!(repair.store.object(ADDON)["spec"], json!({}));
}

#[test]
fn only_the_newest_repair_is_undone_without_a_name() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(directory.path());
    let (finding, cure) = finding();
    let begin = |second: i64, is_changed: bool| {
        let at = Timestamp::from_second(second).unwrap();
        let mut record = records.begin(&finding, &cure, Worker::Person, at).unwrap();
        let changed = ChangedObject::new(0, addon());
        record.changed.extend(is_changed.then_some(changed));
        records.write(&record).unwrap();
        record
    };
    let [_, mut second] = [begin(1, true), begin(2, true)];
    second.undone = Some(Timestamp::UNIX_EPOCH);
    records.write(&second).unwrap();
    assert_eq!(records.newest().unwrap(), Some(second));
    let third = begin(3, false);
    assert_eq!(records.newest().unwrap(), Some(third));
    // The clock was set back.
    let fourth = begin(0, true);
    assert_eq!(records.newest().unwrap(), Some(fourth));
}

#[test]
fn a_subject_that_is_longer_than_a_files_name_may_be_has_a_record_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(directory.path());
    let (mut finding, cure) = finding();
    let at = Timestamp::UNIX_EPOCH;
    for last in ["a", "b"] {
        finding.subject = format!("Machine {}/{}{last}", "n".repeat(63), "m".repeat(252));
        let record = records.begin(&finding, &cure, Worker::Daemon, at).unwrap();
        assert!(records.is_current(&record));
    }
    assert_eq!(records.unfinished(finding.code).unwrap().len(), 2);
}

#[tokio::test]
async fn what_a_step_changed_is_recorded_and_undone_with_the_last_step_first() {
    let mut repair = Repair::of_steps(vec![sets("a", 0), sets("b", 0)]);
    repair.carry_out().await.unwrap();
    let changed = repair.written().changed;
    assert_eq!(changed[1].before["spec"], json!({"a": true}));
    let after = changed[1].after.as_ref().unwrap();
    assert_eq!(after["spec"], json!({"a": true, "b": true}));
    let after = changed[0].after.as_ref().unwrap();
    assert_eq!(after["spec"], json!({"a": true}));
    let newest = repair.records.newest().unwrap();
    assert_eq!(newest, Some(repair.record.clone()));

    let steps = steps_to_undo(&repair.record);
    let said: Vec<&str> = steps.iter().map(|(step, _)| step.say.as_str()).collect();
    assert_eq!(said, ["set b", "set a"]);
    let undone = repair.undo().await;
    assert_eq!(undone, (true, vec![UndoneStep::Restored; 2]));
    assert_eq!(repair.store.object(ADDON)["spec"], json!({}));
    let written = repair.written();
    assert_eq!(written.undone, Timestamp::from_second(90).ok());
    // The outcome and its time can still be read.
    assert_eq!(written.finished, Timestamp::from_second(60).ok());
    let kept = written.changed.into_iter();
    let kept = kept.map(|changed| ChangedObject {
        ended: None,
        ..changed
    });
    assert_eq!(kept.collect::<Vec<_>>(), changed);
    assert_eq!(steps_to_undo(&repair.written()), []);
}

#[tokio::test]
async fn undoing_leaves_alone_what_somebody_else_changed_since_and_says_what_has_no_way_back() {
    let mut repair = Repair::of_steps(vec![sets("a", 0), sets("b", 0), deletes()]);
    repair.carry_out().await.unwrap();
    repair.change(json!({"a": true, "b": "else"}));
    let (done, told) = repair.undo().await;
    assert!(done);
    assert_eq!(told[0], UndoneStep::NoWayBack("it is gone".to_owned()));
    assert!(matches!(&told[1], UndoneStep::ChangedSince(why) if why.contains("/spec/b")));
    assert_eq!(told[2], UndoneStep::Restored);
    assert_eq!(repair.store.object(ADDON)["spec"], json!({"b": "else"}));
}

#[tokio::test]
async fn an_undo_that_is_refused_can_be_made_again_and_the_cure_is_not_continued_after_it() {
    // The second step never reaches its goal.
    let mut waits = sets("b", 0);
    waits.request = None;
    let mut repair = Repair::of_steps(vec![sets("a", 0), waits]);
    repair.carry_out().await.unwrap_err();
    assert_eq!(repair.written().done, 1);
    repair
        .store
        .refuse(HttpMethod::PATCH, StatusCode::FORBIDDEN);
    let (done, told) = repair.undo().await;
    assert!(!done && matches!(&told[0], UndoneStep::Failed(why) if why.contains("403")));
    assert_eq!(repair.written().undone, None);
    assert_eq!(repair.undo().await, (true, vec![UndoneStep::Restored]));
    let unfinished = repair.records.unfinished(Code::AddonStuck).unwrap();
    assert_eq!(unfinished, []);
}

#[tokio::test]
async fn what_can_be_undone_is_undone_although_a_later_step_cannot_and_the_rest_the_next_time() {
    let mut repair = Repair::of_steps(vec![sets("a", 0), sets("b", 0)]);
    repair.carry_out().await.unwrap();
    repair
        .store
        .refuse(HttpMethod::PATCH, StatusCode::FORBIDDEN);
    let (done, told) = repair.undo().await;
    assert!(!done && matches!(told[0], UndoneStep::Failed(_)));
    assert_eq!(told[1], UndoneStep::Restored);
    assert_eq!(repair.store.object(ADDON)["spec"], json!({"b": true}));
    let written = repair.written();
    assert_eq!((written.undone, written.undoing.is_some()), (None, true));
    // It is not continued meanwhile.
    let unfinished = repair.records.unfinished(Code::AddonStuck).unwrap();
    assert_eq!(unfinished, []);
    assert_eq!(repair.undo().await, (true, vec![UndoneStep::Restored]));
    assert_eq!(repair.store.object(ADDON)["spec"], json!({}));
}

#[tokio::test]
async fn an_undo_whose_answer_was_lost_is_not_called_done_until_it_is_seen() {
    let mut repair = Repair::of_steps(vec![sets("a", 0)]);
    repair.carry_out().await.unwrap();
    repair.store.lose_answer(HttpMethod::PATCH);
    let (done, told) = repair.undo().await;
    assert!(
        !done && matches!(told[0], UndoneStep::Failed(_)),
        "{told:?}"
    );
    assert_eq!(repair.undo().await, (true, vec![UndoneStep::AsBefore]));
}

#[tokio::test]
async fn a_step_that_changed_something_and_never_reached_its_goal_can_be_undone() {
    let mut step = sets("a", 0);
    step.goal = sets("b", 0).goal;
    let mut repair = Repair::of_steps(vec![step]);
    repair.store.lose_answer(HttpMethod::PATCH);
    repair.carry_out().await.unwrap_err();
    assert_eq!(repair.written().changed.len(), 1, "before its answer");
    // The second time the object is already as the request makes it.
    repair.carry_out().await.unwrap_err();
    assert_eq!(repair.store.changes().len(), 1);
    let written = repair.written();
    assert_eq!((written.done, written.changed.len()), (0, 1));
    assert_eq!(repair.undo().await, (true, vec![UndoneStep::Restored]));
}

#[tokio::test]
async fn a_request_that_was_refused_leaves_nothing_to_undo() {
    for status in [
        StatusCode::FORBIDDEN,
        StatusCode::CONFLICT,
        StatusCode::TOO_MANY_REQUESTS,
    ] {
        let mut repair = Repair::of_steps(vec![sets("a", 0)]);
        repair.store.refuse(HttpMethod::PATCH, status);
        repair.carry_out().await.unwrap_err();
        assert_eq!(repair.written().changed, [], "{status}");
    }
    assert!(matches!(sets("a", 0).way_back, Some(WayBack::Request(_))));
}

#[tokio::test]
async fn somebody_who_is_faster_than_the_undo_by_a_moment_keeps_what_is_theirs() {
    let mut repair = Repair::of_steps(vec![sets("a", 0)]);
    repair.carry_out().await.unwrap();
    let theirs = json!({"metadata": addon()["metadata"], "spec": {"a": "else"}});
    repair.store.overtake(ADDON, Some(theirs));
    let (done, told) = repair.undo().await;
    assert!(
        done && matches!(told[0], UndoneStep::ChangedSince(_)),
        "{told:?}"
    );
    assert_eq!(repair.store.object(ADDON)["spec"], json!({"a": "else"}));
}

#[tokio::test]
async fn a_change_for_a_while_is_not_undone_before_it_has_reached_its_goal() {
    let steps = vec![sets_and_is_stopped("a", 0), gives_back("a")];
    let mut repair = Repair::of_steps(steps);
    repair.carry_out().await.unwrap_err();
    let (done, told) = repair.undo().await;
    assert!(
        !done && matches!(&told[0], UndoneStep::Failed(why) if why.contains("/status/is")),
        "{told:?}"
    );
    assert_eq!(repair.store.object(ADDON)["spec"], json!({"a": true}));
    let mut stopped = repair.store.object(ADDON);
    stopped["status"] = json!({"is": "stopped"});
    repair.store.put(ADDON, stopped);
    assert_eq!(repair.undo().await, (true, vec![UndoneStep::Restored]));
    assert_eq!(repair.store.object(ADDON)["spec"], json!({}));
}

#[tokio::test]
async fn a_refusal_does_not_make_forgotten_what_an_earlier_try_may_have_changed() {
    let mut repair = Repair::of_steps(vec![sets("a", 0)]);
    repair
        .store
        .refuse(HttpMethod::PATCH, StatusCode::GATEWAY_TIMEOUT);
    repair.carry_out().await.unwrap_err();
    repair
        .store
        .refuse(HttpMethod::PATCH, StatusCode::FORBIDDEN);
    repair.carry_out().await.unwrap_err();
    // The first request takes effect late.
    repair.change(json!({"a": true}));
    assert_eq!(repair.undo().await, (true, vec![UndoneStep::Restored]));
}

#[test]
fn a_repair_that_begins_in_the_second_of_another_one_has_a_record_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(directory.path());
    let (finding, cure) = finding();
    let at = Timestamp::UNIX_EPOCH;
    let begin = || records.begin(&finding, &cure, Worker::Person, at).unwrap();
    let mut first = begin();
    let outcome = RepairOutcome::Outdated;
    records.close(&mut first, outcome, at).unwrap();
    let second = begin();
    assert_eq!(records.named(&records.name(&first)).unwrap(), first);
    assert_eq!(records.newest().unwrap(), Some(second));
}
