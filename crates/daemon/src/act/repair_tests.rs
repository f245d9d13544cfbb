use std::cell::Cell;
use std::os::unix::fs::PermissionsExt;

use http::{Method as HttpMethod, StatusCode};
use serde_json::{Value, json};
use windrow_harvester::incidents::CureGoal;
use windrow_harvester::objects::ObjectKind;
use windrow_model::reasons::Code;

use super::super::testing::ObjectStore;
pub(super) use super::super::testing::{ADDON, addon, finding, gives_back, sets, waits};
use super::*;

pub(super) const SERVER: &str = "node1";

#[test]
fn a_cure_that_was_begun_is_found_again_until_it_is_finished() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(directory.path());
    assert_eq!(records.unfinished(Code::AddonStuck).unwrap(), []);
    let (finding, cure) = finding();
    let mut record = records
        .begin(&finding, &cure, Worker::Person, Timestamp::UNIX_EPOCH)
        .unwrap();
    let path = records.path(&record);
    assert!(
        path.ends_with("repairs/addon-stuck-Addon_harvester-system_pci-0.json"),
        "{}",
        path.display()
    );
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        records.unfinished(Code::AddonStuck).unwrap(),
        [record.clone()]
    );
    assert_eq!(records.unfinished(Code::DrainBlocked).unwrap(), []);
    record.finished = Some(Timestamp::UNIX_EPOCH);
    records.write(&record).unwrap();
    assert_eq!(records.unfinished(Code::AddonStuck).unwrap(), []);
    assert!(path.exists(), "what was saved stays");
}

#[test]
fn a_record_that_cannot_be_read_is_not_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(directory.path());
    std::fs::create_dir(directory.path().join("repairs")).unwrap();
    let path = directory.path().join("repairs/addon-stuck-x-0.json");
    std::fs::write(&path, "{").unwrap();
    for error in [
        records.unfinished(Code::AddonStuck).unwrap_err(),
        records.newest().unwrap_err(),
    ] {
        let named = format!("{}: ", path.display());
        assert!(error.to_string().starts_with(&named), "{error}");
    }
    // Cures of other codes go on.
    assert_eq!(records.unfinished(Code::DrainBlocked).unwrap(), []);
}

pub(super) fn deletes() -> CureStep {
    let goal = CureGoal::Gone {
        path: ADDON.to_owned(),
        uid: "1".to_owned(),
    };
    CureStep::delete(ObjectKind::ADDON, &addon(), "it is gone", goal, 0)
}

/// A node that has begun a cure of these steps; its requests go to `store`.
pub(super) struct Repair {
    pub(super) directory: tempfile::TempDir,
    pub(super) store: ObjectStore,
    pub(super) records: Records,
    pub(super) record: Record,
    pub(super) told: Vec<usize>,
    /// How many more times `is_wanted` is true.
    pub(super) wanted: Cell<usize>,
}

impl Repair {
    pub(super) fn of_steps(steps: Vec<CureStep>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::new(directory.path());
        let (finding, mut cure) = finding();
        cure.steps = steps;
        let record = records
            .begin(&finding, &cure, Worker::Person, Timestamp::UNIX_EPOCH)
            .unwrap();
        let store = ObjectStore::default();
        store.put(ADDON, addon());
        store.put_lease_of(SERVER);
        Self {
            directory,
            store,
            records,
            record,
            told: Vec::new(),
            wanted: Cell::new(usize::MAX),
        }
    }

    pub(super) async fn carry_out(&mut self) -> Result<(), String> {
        let now = || Timestamp::from_second(60).unwrap();
        let context = self.context();
        let (told, wanted) = (&mut self.told, &self.wanted);
        let is_wanted = || wanted.replace(wanted.get().saturating_sub(1)) > 0;
        let tell = |at, _: &CureStep| told.push(at);
        carry_out(&context, &mut self.record, now, is_wanted, tell)
            .await
            .map_err(|error| error.to_string())
    }

    /// The process dies while it waits for the answer to a request, after this number of answers.
    pub(super) async fn die_at_patch(&mut self, answered: usize) {
        self.store.hang_after(HttpMethod::PATCH, answered);
        let store = self.store.clone();
        tokio::select! {
            done = self.carry_out() => panic!("{done:?}"),
            () = store.hung() => {}
        }
        self.record = self.written();
    }

    pub(super) fn context(&self) -> RepairContext {
        RepairContext::new(self.store.client(), self.records.clone(), SERVER)
    }

    pub(super) async fn undo(&mut self) -> (bool, Vec<UndoneStep>) {
        let mut told = Vec::new();
        let context = self.context();
        let now = || Timestamp::from_second(90).unwrap();
        let undone = undo(&context, &mut self.record, now, |_, step| {
            told.push(step.clone());
        });
        (undone.await.unwrap(), told)
    }

    pub(super) fn change(&self, spec: Value) {
        let mut addon = addon();
        addon["spec"] = spec;
        self.store.put(ADDON, addon);
    }

    pub(super) fn written(&self) -> Record {
        self.records
            .named(&self.records.name(&self.record))
            .unwrap()
    }
}

#[tokio::test]
async fn each_step_is_asked_for_once_and_the_record_says_that_it_is_done() {
    let mut repair = Repair::of_steps(vec![sets("a", 0), sets("b", 0)]);
    repair.carry_out().await.unwrap();
    assert_eq!(repair.told, [0, 1]);
    let patch = format!("PATCH {ADDON}");
    assert_eq!(repair.store.changes(), [patch.clone(), patch]);
    let spec = &repair.store.object(ADDON)["spec"];
    assert_eq!(*spec, json!({"a": true, "b": true}));
    let written = repair.written();
    assert_eq!(written, repair.record);
    assert_eq!(written.done, 2);
    assert_eq!(written.finished, Timestamp::from_second(60).ok());
}

#[tokio::test]
async fn a_step_that_was_done_before_an_interruption_is_not_asked_for_again() {
    let mut repair = Repair::of_steps(vec![sets("a", 0), sets("b", 0)]);
    repair.change(json!({"a": true}));
    repair.carry_out().await.unwrap();
    assert_eq!(repair.store.changes().len(), 1);
    assert_eq!(repair.record.done, 2);
}

#[tokio::test]
async fn a_cure_that_is_refused_stops_at_that_step_and_goes_on_there_later() {
    let mut repair = Repair::of_steps(vec![sets("a", 0), sets("b", 0)]);
    let (patch, get) = (HttpMethod::PATCH, HttpMethod::GET);
    repair.store.refuse(patch, StatusCode::UNPROCESSABLE_ENTITY);
    let why = repair.carry_out().await.unwrap_err();
    assert!(
        why.contains("set a") && why.contains("422") && why.contains("says no"),
        "{why}"
    );
    assert_eq!(repair.written().done, 0);
    repair.store.refuse(get, StatusCode::FORBIDDEN);
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.contains("403"), "{why}");
    assert_eq!(repair.written().finished, None);
    repair.carry_out().await.unwrap();
    assert_eq!(repair.written().done, 2);
}

#[tokio::test]
async fn a_request_that_is_refused_for_a_moment_is_sent_again() {
    let mut repair = Repair::of_steps(vec![sets("a", 3600)]);
    repair
        .store
        .refuse(HttpMethod::PATCH, StatusCode::SERVICE_UNAVAILABLE);
    repair.carry_out().await.unwrap();
    assert_eq!(repair.store.changes().len(), 2);
    assert_eq!(repair.written().changed.len(), 1, "it is undone once");
}

#[tokio::test]
async fn a_cure_ends_where_somebody_else_was_faster_and_is_not_continued() {
    let mut repair = Repair::of_steps(vec![sets("a", 3600)]);
    repair.change(json!({"a": "else"}));
    let why = repair.carry_out().await.unwrap_err();
    assert!(
        why.contains("/spec/a") && why.contains("diagnose again"),
        "{why}"
    );
    assert!(
        repair.store.changes().is_empty(),
        "it is not even asked for"
    );
    assert!(repair.written().finished.is_some());
    // The changes that it has made by then can be undone.
    let mut repair = Repair::of_steps(vec![sets("a", 3600), sets("b", 3600)]);
    repair.change(json!({"b": "else"}));
    repair.carry_out().await.unwrap_err();
    let written = repair.written();
    assert_eq!((written.done, written.finished.is_some()), (1, true));
    assert_eq!(repair.records.newest().unwrap(), Some(written));
    assert_eq!(repair.undo().await, (true, vec![UndoneStep::Restored]));
}

#[tokio::test]
async fn another_object_of_the_same_name_is_not_changed() {
    let mut repair = Repair::of_steps(vec![sets("a", 3600)]);
    repair
        .store
        .put(ADDON, json!({"metadata": {"uid": "2"}, "spec": {}}));
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.contains("another object"), "{why}");
    let mut repair = Repair::of_steps(vec![deletes()]);
    repair.store.put(ADDON, json!({"metadata": {"uid": "2"}}));
    repair.carry_out().await.unwrap();
    assert!(repair.store.changes().is_empty());
}

#[tokio::test]
async fn a_trial_changes_nothing_and_tells_a_refusal_from_a_change_and_from_no_answer() {
    let repair = Repair::of_steps(Vec::new());
    let (store, client) = (&repair.store, repair.store.client());
    let before = store.object(ADDON);
    for step in [sets("a", 0), deletes()] {
        let request = step.request.unwrap();
        let outcome = try_out(&client, &request).await;
        assert!(matches!(outcome, RequestOutcome::Taken(_)), "{outcome:?}");
    }
    let tried = ["PATCH", "DELETE"].map(|verb| format!("{verb} {ADDON} (dry run)"));
    assert_eq!(store.changes(), tried);
    let request = sets("a", 0).request.unwrap();
    let (denied, untried) = (
        "admission webhook \"w\" denied the request: no",
        "admission webhook \"w\" does not support dry run",
    );
    for (status, words, is_refused) in [
        (403, "no", true),
        (422, "no", true),
        (400, "no", true),
        (500, "no", false),
        (429, "no", false),
        (409, "no", false),
        (400, untried, false),
        (400, denied, true),
        (409, denied, true),
        (500, denied, true),
    ] {
        let code = StatusCode::from_u16(status).unwrap();
        store.refuse_saying(HttpMethod::PATCH, code, words);
        let why = match try_out(&client, &request).await {
            RequestOutcome::Refused(why) if is_refused => why,
            RequestOutcome::Unanswered(why) if !is_refused => why,
            other => panic!("{status} {words}: {other:?}"),
        };
        assert_eq!(why, format!("{status}: {words}"));
    }
    assert_eq!(store.object(ADDON), before);
    repair.change(json!({"a": "else"}));
    let outcome = try_out(&client, &request).await;
    assert!(
        matches!(outcome, RequestOutcome::Outdated(_)),
        "{outcome:?}"
    );
    repair.change(json!({"a": true}));
    assert_eq!(try_out(&client, &request).await, RequestOutcome::Applied);
}

#[tokio::test]
async fn nothing_is_sent_that_could_not_be_written_down() {
    let mut repair = Repair::of_steps(vec![sets("a", 0)]);
    let records = repair.directory.path().join("repairs");
    std::fs::remove_dir_all(&records).unwrap();
    std::fs::write(&records, "no directory").unwrap();
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.contains("cannot be written"), "{why}");
    assert_eq!(repair.store.changes(), [""; 0]);
}

#[tokio::test]
async fn somebody_who_is_faster_by_a_moment_keeps_what_is_theirs_and_leaves_nothing_to_undo() {
    let theirs = json!({"metadata": addon()["metadata"], "spec": {"a": "else"}});
    let mut repair = Repair::of_steps(vec![sets("a", 3600)]);
    repair.store.overtake(ADDON, Some(theirs));
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.contains("diagnose again"), "{why}");
    assert_eq!(repair.store.object(ADDON)["spec"], json!({"a": "else"}));
    let written = repair.written();
    assert_eq!(
        (written.changed.len(), written.finished.is_some()),
        (0, true)
    );
    let mut repair = Repair::of_steps(vec![deletes()]);
    repair.store.overtake(ADDON, None);
    repair.carry_out().await.unwrap();
}

#[tokio::test]
async fn what_is_quoted_in_a_refusal_is_not_handed_on() {
    let repair = Repair::of_steps(Vec::new());
    let words = "Secret \"s\" is invalid: data.password: Invalid value: \"hunter2\": too short";
    repair
        .store
        .refuse_saying(HttpMethod::PATCH, StatusCode::FORBIDDEN, words);
    let request = sets("a", 0).request.unwrap();
    let outcome = try_out(&repair.store.client(), &request).await;
    let RequestOutcome::Refused(why) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        why.contains("too short") && !why.contains("hunter2"),
        "{why}"
    );
}

#[tokio::test]
async fn a_record_that_somebody_else_has_gone_on_with_is_known_as_old() {
    let mut repair = Repair::of_steps(vec![sets("a", 0)]);
    let read = repair.record.clone();
    assert!(repair.records.is_current(&read));
    repair.carry_out().await.unwrap();
    assert!(!repair.records.is_current(&read));
    let read = repair.written();
    assert!(repair.records.is_current(&read));
    repair.undo().await;
    assert!(!repair.records.is_current(&read));
}

#[tokio::test]
async fn a_step_that_only_waits_ends_with_its_patience_and_says_for_what_it_waited() {
    let mut step = sets("a", 0);
    step.request = None;
    let mut repair = Repair::of_steps(vec![step]);
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.contains("/spec/a") && why.contains("(0 s)"), "{why}");
    assert!(repair.store.changes().is_empty());
    assert_eq!(repair.written().done, 0);
}

#[test]
fn a_record_is_found_by_its_name_and_nothing_beside_the_records_is() {
    let repair = Repair::of_steps(Vec::new());
    assert_eq!(repair.written(), repair.record);
    std::fs::write(repair.directory.path().join("x.json"), "{}").unwrap();
    let error = repair.records.named("../x.json").unwrap_err();
    assert!(error.to_string().contains("not the name"), "{error}");
    // Other files in the directory are not records.
    std::fs::write(repair.directory.path().join("repairs/note.txt"), "x").unwrap();
    let found = repair.records.unfinished(Code::AddonStuck).unwrap();
    assert_eq!(found, std::slice::from_ref(&repair.record));
}

#[tokio::test]
async fn a_cure_that_goes_on_waits_for_what_it_set_going() {
    let mut repair = Repair::of_steps(vec![sets("a", 0)]);
    let with = |value: Value| {
        let mut addon = addon();
        addon["spec"]["a"] = value;
        addon
    };
    let changed = |after| ChangedObject {
        after,
        ..ChangedObject::new(0, addon())
    };
    // The request was taken, and Harvester is at work since.
    repair.record.changed = vec![changed(Some(with(json!(true))))];
    repair.store.put(ADDON, with(json!("at work")));
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.contains("it was not seen until"), "{why}");
    assert_eq!(
        (repair.record.changed.len(), repair.record.finished),
        (1, None)
    );
    repair.store.put(ADDON, with(json!(true)));
    repair.carry_out().await.unwrap();
    assert_eq!(repair.record.changed.len(), 1, "it can still be undone");

    // The request had no answer: its possible change is not forgotten either.
    let mut repair = Repair::of_steps(vec![sets("a", 0)]);
    repair.record.changed = vec![changed(None)];
    repair.store.put(ADDON, with(json!("at work")));
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.contains("somebody else was faster"), "{why}");
    assert_eq!(repair.written().changed.len(), 1);
}

#[tokio::test]
async fn what_was_changed_for_a_while_is_given_back_when_the_wait_fails() {
    let mut repair = Repair::of_steps(vec![sets("a", 0), waits(), sets("c", 0), gives_back("a")]);
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.contains("it was not seen until"), "{why}");
    assert_eq!(repair.told, [0, 1, 3]);
    assert_eq!(repair.store.object(ADDON)["spec"], json!({}));
    let written = repair.written();
    assert!(written.finished.is_some() && !written.has_to_restore());
    assert_eq!(written.outcome, Some(RepairOutcome::GivenBack));
    assert!(written.given_up.is_some_and(|given_up| given_up == why));
    assert_eq!(repair.store.restore_note(), json!([]));
}

#[tokio::test]
async fn a_cure_whose_next_request_is_refused_gives_back_what_it_has_changed_for_a_while() {
    let steps = vec![sets("a", 0), sets("b", 0), gives_back("a"), gives_back("b")];
    let mut repair = Repair::of_steps(steps);
    let webhook = StatusCode::UNPROCESSABLE_ENTITY;
    // The first one is taken.
    repair.store.take(HttpMethod::PATCH);
    repair.store.refuse(HttpMethod::PATCH, webhook);
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.starts_with("set b: "), "{why}");
    assert_eq!(repair.told, [0, 1, 2], "b was never changed");
    assert_eq!(repair.store.object(ADDON)["spec"], json!({}));
    assert_eq!(repair.written().outcome, Some(RepairOutcome::GivenBack));
}

/// A step that sets a field of the addon. Its goal is a status that a controller reports later.
pub(super) fn sets_and_is_stopped(field: &str, patience: u32) -> CureStep {
    let goal = CureGoal::Field {
        path: ADDON.to_owned(),
        before: None,
        field: "/status/is".to_owned(),
        value: json!("stopped"),
    };
    CureStep {
        goal,
        ..sets(field, patience)
    }
}

#[tokio::test]
async fn a_change_for_a_while_is_not_restored_before_it_has_reached_its_goal() {
    let steps = vec![sets_and_is_stopped("a", 0), gives_back("a")];
    let mut repair = Repair::of_steps(steps);
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.contains("not restored yet: restore a: "), "{why}");
    assert_eq!(repair.store.object(ADDON)["spec"], json!({"a": true}));
    assert!(repair.written().is_open());
    let mut stopped = repair.store.object(ADDON);
    stopped["status"] = json!({"is": "stopped"});
    repair.store.put(ADDON, stopped);
    repair.carry_out().await.unwrap_err();
    assert_eq!(repair.store.object(ADDON)["spec"], json!({}));
    assert_eq!(repair.written().outcome, Some(RepairOutcome::GivenBack));
}

#[tokio::test]
async fn what_another_client_has_changed_is_not_waited_for() {
    let steps = vec![sets_and_is_stopped("a", 0), gives_back("a")];
    let mut repair = Repair::of_steps(steps);
    repair.carry_out().await.unwrap_err();
    repair.change(json!({"a": "else"}));
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.contains("not everything could be given back"), "{why}");
    assert!(!repair.written().is_open());
}

#[tokio::test]
async fn a_cure_does_not_wait_for_what_it_has_left_alone() {
    let mut repair = Repair::of_steps(vec![sets("a", 0), gives_back("a"), waits()]);
    repair.die_at_patch(1).await;
    repair.change(json!({"a": "else"}));
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.contains("not everything could be given back"), "{why}");
    assert_eq!((repair.record.done, &repair.record.given_up), (3, &None));
    assert_eq!(repair.written().outcome, Some(RepairOutcome::NotRestored));
}

#[tokio::test]
async fn a_cure_does_not_wait_for_a_change_for_a_while_that_another_client_has_reversed() {
    for (spec, outcome) in [
        (json!({}), RepairOutcome::GivenBack),
        (json!({"a": "else"}), RepairOutcome::NotRestored),
    ] {
        let steps = vec![sets_and_is_stopped("a", 2), waits(), gives_back("a")];
        let mut repair = Repair::of_steps(steps);
        let taken = ChangedObject {
            after: Some(addon()),
            ..ChangedObject::new(0, addon())
        };
        repair.record.changed = vec![taken];
        repair.change(spec.clone());
        repair.carry_out().await.unwrap_err();
        let given_up = repair.record.given_up.as_deref().unwrap();
        assert!(given_up.contains("somebody else was faster"), "{given_up}");
        assert_eq!(repair.written().outcome, Some(outcome));
        assert_eq!(repair.store.object(ADDON)["spec"], spec);
    }
}

#[tokio::test]
async fn a_change_that_takes_long_to_reach_its_goal_keeps_no_other_from_being_restored() {
    let steps = vec![
        sets_and_is_stopped("a", 0),
        sets("c", 0),
        waits(),
        gives_back("a"),
        gives_back("c"),
    ];
    let mut repair = Repair::of_steps(steps);
    repair.record.done = 2;
    repair.record.changed = [0, 1].map(|step| ChangedObject::new(step, addon())).into();
    repair.change(json!({"a": true, "c": true}));
    repair.carry_out().await.unwrap_err();
    assert_eq!(repair.told, [2, 4, 3]);
    assert_eq!(repair.store.object(ADDON)["spec"], json!({"a": true}));
}

#[tokio::test]
async fn what_cannot_be_given_back_now_is_given_back_later_and_the_others_at_once() {
    let steps = vec![
        sets("a", 0),
        sets("c", 0),
        waits(),
        gives_back("a"),
        gives_back("c"),
    ];
    let mut repair = Repair::of_steps(steps);
    let busy = StatusCode::TOO_MANY_REQUESTS;
    repair.store.take(HttpMethod::PATCH);
    repair.store.take(HttpMethod::PATCH);
    repair.store.refuse(HttpMethod::PATCH, busy);
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.contains("not restored yet: restore a: 429"), "{why}");
    assert_eq!(repair.store.object(ADDON)["spec"], json!({"a": true}));
    assert!(repair.written().is_open() && repair.written().has_to_restore());
    let noted = repair.store.restore_note()[0]["changes"][0]["change"].clone();
    assert_eq!(noted, "/spec/a");

    let why = repair.carry_out().await.unwrap_err();
    assert!(
        why.contains("it was not seen until"),
        "the first reason: {why}"
    );
    assert_eq!(repair.store.object(ADDON)["spec"], json!({}));
    assert!(!repair.written().is_open());
}

#[tokio::test]
async fn only_what_the_cure_itself_has_changed_is_given_back() {
    // Another client has set it before: the goal is reached without a request.
    let mut repair = Repair::of_steps(vec![sets("a", 0), waits(), gives_back("a")]);
    repair.change(json!({"a": true}));
    repair.carry_out().await.unwrap_err();
    assert_eq!(repair.store.object(ADDON)["spec"], json!({"a": true}));
    // Another client is faster by a moment: the request is refused.
    let theirs = json!({"metadata": addon()["metadata"], "spec": {"a": true}});
    let mut repair = Repair::of_steps(vec![sets("a", 0), waits(), gives_back("a")]);
    repair.store.overtake(ADDON, Some(theirs));
    repair.carry_out().await.unwrap_err();
    assert_eq!(repair.store.object(ADDON)["spec"], json!({"a": true}));
    assert_eq!(repair.told, [0, 1]);
    assert!(repair.written().changed.is_empty());
}

#[tokio::test]
async fn the_cluster_knows_what_to_restore_before_it_is_changed() {
    let mut repair = Repair::of_steps(vec![sets("a", 0), gives_back("a")]);
    // Without the lease nothing is changed.
    repair.store.put_lease_of("node2");
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.contains("another server has the lease now"), "{why}");
    assert_eq!(repair.store.changes(), [""; 0]);

    let mut repair = Repair::of_steps(vec![sets("a", 0), gives_back("a")]);
    let _ = repair.carry_out().await;
    let seen = repair.store.notes_at_changes();
    let noted = json!({"change": "/spec/a", "namespace": "harvester-system", "name": "pci", "uid": "1",
        "before": {"/spec/a": null}});
    assert_eq!(seen[0][0]["changes"], json!([noted]));
    assert_eq!(seen[0][0]["server"], SERVER);
    assert_eq!(repair.store.restore_note(), json!([]));
}

#[tokio::test]
async fn another_server_gives_back_what_a_lost_one_has_changed_and_the_first_one_learns_of_it() {
    let mut first = Repair::of_steps(vec![sets("a", 0), sets("b", 3600), gives_back("a")]);
    // It dies while it waits for the answer about the second change.
    first.die_at_patch(1).await;
    assert_eq!(first.store.object(ADDON)["spec"], json!({"a": true}));

    let (there, client) = (tempfile::tempdir().unwrap(), first.store.client());
    let records = Records::new(there.path());
    let context = RepairContext::new(client, records.clone(), "node2");
    let entries = RestoreNote::entries(&context.client).await.unwrap();
    assert!(records.may_adopt(&entries[0]));
    assert!(!first.records.may_adopt(&entries[0]), "it has the record");
    let mut adopted = records.adopt(&entries[0]).unwrap();
    // Its lease has run out.
    first.store.hand_lease_to("node2");
    let now = || Timestamp::from_second(120).unwrap();
    let given = give_back(&context, &mut adopted, "", now, |_, _| {}).await;
    given.unwrap();
    assert_eq!(first.store.object(ADDON)["spec"], json!({}));
    assert_eq!(first.store.restore_note()[0]["restoredBy"], "node2");
    assert!(!records.may_adopt(&entries[0]), "it is done");

    // An operator halts it, and the first server comes back.
    first.change(json!({"a": true}));
    first.store.hand_lease_to(SERVER);
    first.record = first.written();
    let why = first.carry_out().await.unwrap_err();
    assert!(why.contains("another server has restored"), "{why}");
    assert_eq!(first.store.object(ADDON)["spec"], json!({"a": true}));
    assert_eq!(
        first.written().outcome,
        Some(RepairOutcome::RestoredElsewhere)
    );
    assert_eq!(first.store.restore_note(), json!([]));
}

#[tokio::test]
async fn a_lease_that_was_deleted_keeps_nothing_from_being_given_back() {
    let mut repair = Repair::of_steps(vec![sets("a", 0), waits(), gives_back("a")]);
    repair.die_at_patch(1).await;
    repair.store.put_lease_of(SERVER);
    let _ = repair.carry_out().await;
    assert_eq!(repair.store.object(ADDON)["spec"], json!({}));
    assert!(!repair.written().is_open());
}

#[test]
fn a_cure_that_changes_more_for_a_while_than_the_lease_holds_has_no_room() {
    let (_, mut cure) = finding();
    cure.steps = vec![sets("a", 0), gives_back("a")];
    assert!(has_room_for(&cure));
    let many = std::iter::repeat_n(gives_back("a"), 2000);
    cure.steps.extend(many);
    assert!(!has_room_for(&cure));
}
