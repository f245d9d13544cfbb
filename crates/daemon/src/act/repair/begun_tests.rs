use http::{Method as HttpMethod, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_harvester::incidents::{Cure, CureStep, SavedObject};
use windrow_harvester::objects::ObjectKind;
use windrow_model::reasons::Code;

use super::super::tests::{ADDON, Repair, addon, deletes, finding, gives_back, sets, waits};
use super::super::{ChangedObject, Records, UndoneStep, Worker, ask_for_cluster, steps_to_undo};
use super::*;

fn recognised(uid: &str) -> IncidentFinding {
    let (finding, cure) = finding();
    let mut object = addon();
    object["metadata"]["uid"] = json!(uid);
    IncidentFinding {
        cure: Some(Cure {
            saves: vec![SavedObject::of(ObjectKind::ADDON, &object)],
            ..cure
        }),
        ..finding
    }
}

/// A cure of the object 1 that has taken these steps to here.
fn begun(steps: Vec<CureStep>, done: usize) -> Repair {
    let mut repair = Repair::of_steps(steps);
    repair.record.cure.saves = recognised("1").cure.unwrap().saves;
    repair.record.done = done;
    repair.record.changed.push(ChangedObject {
        after: Some(Value::Null),
        ..ChangedObject::new(0, addon())
    });
    repair
}

#[test]
fn a_cure_that_relies_on_another_version_by_now_asks_for_nothing_more() {
    let unconfirmed = IncidentFinding {
        cure: None,
        unconfirmed: true,
        ..recognised("1")
    };
    let judge = |steps, done| judge_begun(&begun(steps, done).record, [&unconfirmed]);
    let half = vec![sets("a", 0), sets("b", 0)];
    assert_eq!(judge(half, 1), BegunCure::Unconfirmed);
    // kube-apiserver has taken its only request: it waits.
    assert_eq!(judge(vec![deletes(), waits()], 0), BegunCure::GoesOn);
    // It restores its temporary change.
    let borrowed = vec![sets("a", 0), gives_back("a")];
    assert_eq!(judge(borrowed, 1), BegunCure::GoesOn);
}

#[test]
fn what_is_recognised_now_decides_what_becomes_of_a_cure_that_was_begun() {
    let record = |steps, done| begun(steps, done).record;
    let waiting = record(vec![deletes(), waits()], 1);
    assert_eq!(judge_begun(&waiting, &[recognised("1")]), BegunCure::GoesOn);
    assert_eq!(
        judge_begun(&waiting, &[recognised("2")]),
        BegunCure::Superseded
    );
    assert_eq!(judge_begun(&waiting, &[]), BegunCure::Over);
    // The process was killed while it waited for the effect of its request.
    let taken = record(vec![deletes(), waits()], 0);
    assert_eq!(judge_begun(&taken, &[]), BegunCure::Over);
    // There is a request left.
    let half = record(vec![sets("a", 0), sets("b", 0)], 1);
    assert_eq!(judge_begun(&half, &[]), BegunCure::GoesOn);
    // It is about something else.
    let (other, _) = finding();
    let other = IncidentFinding {
        subject: "Addon x/y".to_owned(),
        ..other
    };
    assert_eq!(judge_begun(&waiting, &[other]), BegunCure::Over);
}

#[test]
fn a_cure_that_has_something_to_give_back_goes_on_whatever_is_recognised() {
    let mut record = begun(vec![sets("a", 0), gives_back("a")], 1).record;
    for found in [vec![], vec![recognised("2")]] {
        assert_eq!(judge_begun(&record, &found), BegunCure::GoesOn);
    }
    // It takes no more VMs for an incident that is over: the other VM would stop again.
    let takes_more = begun(vec![sets("a", 0), sets("b", 0), gives_back("a")], 1).record;
    assert_eq!(judge_begun(&takes_more, &[]), BegunCure::GivesBack);
    let found = [recognised("2")];
    assert_eq!(judge_begun(&takes_more, &found), BegunCure::GoesOn);
    record.changed.clear();
    let nothing_taken = judge_begun(&record, &[recognised("2")]);
    assert_eq!(nothing_taken, BegunCure::Superseded);
}

#[tokio::test]
async fn what_somebody_else_has_changed_is_passed_over_and_the_rest_is_given_back() {
    let steps = vec![sets("a", 0), sets("b", 0), gives_back("a"), gives_back("b")];
    let mut repair = Repair::of_steps(steps);
    repair.record.done = 2;
    repair.record.changed = [0, 1].map(|step| ChangedObject::new(step, addon())).into();
    repair.change(json!({"a": "else", "b": true}));
    let why = repair.carry_out().await.unwrap_err();
    assert!(
        why.starts_with("not everything could be given back: restore a: ")
            && why.contains("/spec/a"),
        "{why}"
    );
    assert_eq!(repair.store.object(ADDON)["spec"], json!({"a": "else"}));
    let written = repair.written();
    assert_eq!((written.done, written.finished.is_some()), (4, true));
}

#[tokio::test]
async fn a_cure_that_somebody_else_has_overtaken_gives_back_what_it_took() {
    let steps = vec![sets("a", 0), sets("b", 0), sets("c", 0), gives_back("a")];
    let mut repair = Repair::of_steps(steps);
    repair.change(json!({"b": "else"}));
    let why = repair.carry_out().await.unwrap_err();
    assert!(why.starts_with("set b: "), "{why}");
    assert_eq!(repair.told, [0, 1, 3]);
    assert_eq!(repair.store.object(ADDON)["spec"], json!({"b": "else"}));
    assert!(repair.written().finished.is_some());
}

#[tokio::test]
async fn a_cure_that_is_not_wanted_any_more_gives_back_what_it_took_and_does_nothing_else() {
    let patient = CureStep {
        patience: 120,
        ..waits()
    };
    let steps = vec![sets("a", 0), patient, sets("b", 0), gives_back("a")];
    let mut repair = Repair::of_steps(steps);
    // Before the first step's request, and when its goal is reached.
    repair.wanted.set(2);
    let why = repair.carry_out().await.unwrap_err();
    assert_eq!(why, "set b: not done, because it is not wanted any more");
    assert_eq!(repair.told, [0, 1, 3]);
    assert_eq!(repair.store.object(ADDON)["spec"], json!({}));
    let written = repair.written();
    assert_eq!((written.done, written.finished.is_some()), (1, true));
}

#[tokio::test]
async fn a_cure_that_is_not_wanted_any_more_and_took_nothing_for_a_while_can_go_on_later() {
    let mut repair = Repair::of_steps(vec![sets("a", 0), sets("b", 0)]);
    repair.wanted.set(2);
    let why = repair.carry_out().await.unwrap_err();
    assert_eq!(why, "set b: not done, because it is not wanted any more");
    assert_eq!(repair.store.object(ADDON)["spec"], json!({"a": true}));
    let written = repair.written();
    assert_eq!((written.done, written.finished), (1, None));
    repair.wanted.set(usize::MAX);
    repair.carry_out().await.unwrap();
    assert!(repair.written().finished.is_some());
}

#[tokio::test]
async fn a_cure_without_a_way_back_is_closed_by_its_undo() {
    let mut repair = Repair::of_steps(vec![deletes(), waits()]);
    repair.carry_out().await.unwrap_err();
    let unfinished = repair.records.unfinished(Code::AddonStuck).unwrap();
    assert_eq!(unfinished.len(), 1);
    let (done, told) = repair.undo().await;
    assert!(done && matches!(told[..], [UndoneStep::NoWayBack(_)]));
    assert_eq!(repair.records.unfinished(Code::AddonStuck).unwrap(), []);
    assert_eq!(steps_to_undo(&repair.written()), []);
}

#[tokio::test]
async fn a_record_of_another_cluster_is_left_alone() {
    let store = Repair::of_steps(Vec::new()).store;
    let kube_system = json!({"metadata": {"name": "kube-system", "uid": "east"}});
    let client = store.client();
    assert_eq!(ask_for_cluster(&client).await, Ok(None));
    store.put("/api/v1/namespaces/kube-system", kube_system);
    let east = ask_for_cluster(&client).await.unwrap();
    assert_eq!(east.as_deref(), Some("east"));
    store.refuse(HttpMethod::GET, StatusCode::FORBIDDEN);
    assert!(ask_for_cluster(&client).await.is_err());

    let directory = tempfile::tempdir().unwrap();
    let all = Records::new(directory.path());
    let (finding, cure) = finding();
    let of = |cluster: Option<String>, second: i64| {
        let records = all.clone().of_cluster(cluster);
        let at = Timestamp::from_second(second).unwrap();
        let mut record = records.begin(&finding, &cure, Worker::Person, at).unwrap();
        record.changed.push(ChangedObject::new(0, addon()));
        records.write(&record).unwrap();
        record
    };
    let [old, ours] = [of(None, 1), of(east.clone(), 2)];
    let in_east = all.clone().of_cluster(east);
    let in_west = all.clone().of_cluster(Some("west".to_owned()));
    assert_eq!(in_east.unfinished(finding.code).unwrap().len(), 2);
    assert_eq!(in_east.newest().unwrap(), Some(ours.clone()));
    // One that does not name its cluster counts as this one's.
    let unfinished = in_west.unfinished(finding.code).unwrap();
    assert_eq!(unfinished, std::slice::from_ref(&old));
    assert_eq!(in_west.newest().unwrap(), Some(old));
    assert_eq!(in_west.other_cluster(&ours), Some("east"));
    assert_eq!(in_east.other_cluster(&ours), None);
}
