use clap::Parser as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use windrow_harvester::incidents::{CureGoal, CureStep, ObjectChange, SavedObject};
use windrow_harvester::objects::ObjectKind;

use super::*;
use crate::act::repair::ChangedObject;
use crate::act::testing::{
    ADDON, ADDONS, JOBS, OLD_JOB, ObjectStore, list_of, old_job, sample_of_a_temporary_change,
};
use crate::layout::Layout;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

struct Machine {
    _directory: TempDir,
    context: Context,
    store: ObjectStore,
    records: Records,
}

impl Machine {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::new(Layout::new(directory.path()));
        let state_dir = context.layout.state_dir();
        std::fs::create_dir_all(&state_dir).unwrap();
        Self {
            _directory: directory,
            records: Records::new(&state_dir).of_cluster(Some("east".to_owned())),
            context,
            store: ObjectStore::default(),
        }
    }

    async fn run(&self, words: &[&str]) -> Exit {
        let args = Line::parse_from([&["repair"], words].concat()).args;
        let repair = Repair {
            context: &self.context,
            client: self.store.client(),
            records: self.records.clone(),
        };
        match args.code.as_deref().map(code) {
            Some(code) => repair.run(code.unwrap(), &args).await.unwrap(),
            None => repair.undo(&args).await.unwrap(),
        }
    }

    /// A repair that has deleted the Job of this UID, and was interrupted while it waited.
    fn begin(&self, uid: &str) -> Record {
        let job = old_job(uid);
        let goal = CureGoal::Gone {
            path: OLD_JOB.to_owned(),
            uid: uid.to_owned(),
        };
        let delete = CureStep::delete(ObjectKind::JOB, &job, "it is gone", goal, 0);
        let wait = CureStep {
            request: None,
            way_back: None,
            ..delete.clone()
        };
        let cure = Cure {
            summary: "have the Job made again".to_owned(),
            changes: Vec::new(),
            saves: vec![SavedObject::of(ObjectKind::JOB, &job)],
            purpose: None,
            steps: vec![delete, wait],
        };
        let subject = "Addon harvester-system/pci";
        let finding = IncidentFinding::new(Code::AddonStuck, subject, "why");
        let at = Timestamp::UNIX_EPOCH;
        let begun = self.records.begin(&finding, &cure, Worker::Person, at);
        let mut record = begun.unwrap();
        record.done = 1;
        record.changed.push(ChangedObject {
            after: Some(job.clone()),
            ..ChangedObject::new(0, job)
        });
        let path = self.records.path(&record);
        std::fs::write(path, serde_json::to_string(&record).unwrap()).unwrap();
        record
    }

    fn changes_of_the_job(&self) -> Vec<String> {
        let mut changes = self.store.changes();
        changes.retain(|one| one.contains(OLD_JOB));
        changes
    }

    fn unfinished(&self) -> Vec<Record> {
        self.records.unfinished(Code::AddonStuck).unwrap()
    }
}

#[tokio::test]
async fn a_second_undo_does_not_go_on_to_an_older_repair() {
    let machine = Machine::new();
    let older = sample_of_a_temporary_change(&machine.records);
    let mut newer = machine.records.named(&older).unwrap();
    newer.subject = "Addon harvester-system/vgpu".to_owned();
    newer.started = Timestamp::from_second(60).unwrap();
    let path = machine.records.path(&newer);
    std::fs::write(path, serde_json::to_string(&newer).unwrap()).unwrap();
    machine.store.put(
        ADDON,
        json!({"metadata": {"uid": "1"}, "spec": {"a": true}}),
    );
    for _ in 0..2 {
        assert_eq!(machine.run(&["--undo", "--yes"]).await, Exit::Ok);
    }
    let newer = machine
        .records
        .named(&machine.records.name(&newer))
        .unwrap();
    assert!(newer.undone.is_some());
    let older = machine.records.named(&older).unwrap();
    assert!(older.undoing.is_none() && older.is_open());
    assert_eq!(machine.store.object(ADDON)["spec"], json!({}));
}

#[tokio::test]
async fn what_another_server_left_changed_is_given_back_by_the_same_command_and_by_undo() {
    for words in [
        &["addon-stuck", "--yes"][..],
        &["--undo", "--yes"],
        &[
            "--undo",
            "addon-stuck-Addon_harvester-system_pci-0.json",
            "--yes",
        ],
    ] {
        let lost = Machine::new();
        let name = sample_of_a_temporary_change(&lost.records);
        let record = lost.records.named(&name).unwrap();
        let machine = Machine {
            store: lost.store.clone(),
            ..Machine::new()
        };
        machine.store.put(
            ADDON,
            json!({"metadata": {"uid": "1"}, "spec": {"a": true}}),
        );
        machine.store.put(ADDONS, list_of(&[]));
        machine.store.put_restore_note(&json!([{
            "record": name, "code": "addon-stuck", "subject": record.subject,
            "server": "lost", "since": record.started, "changes": [temporary_change()],
        }]));
        assert_eq!(machine.run(words).await, Exit::Ok, "{words:?}");
        assert_eq!(machine.store.object(ADDON)["spec"], json!({}));
        let adopted = machine.records.named(&name).unwrap();
        assert!(!adopted.is_open());
        assert_eq!(machine.store.restore_note()[0]["changes"], json!([]));
    }
}

/// The change of `sample_of_a_temporary_change`, as in the cluster's note.
fn temporary_change() -> Value {
    json!({"change": "/spec/a", "namespace": "harvester-system", "name": "pci", "uid": "1", "before": {"/spec/a": null}})
}

#[tokio::test]
async fn a_request_that_another_client_wrote_into_the_lease_is_not_sent() {
    let binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/cluster-admin";
    let request = json!({"method": "PATCH json", "path": binding, "body": [
        {"op": "add", "path": "/subjects/-", "value": {"kind": "User", "name": "another"}}
    ]});
    let goal = json!({"is": "gone", "path": binding, "uid": ""});
    let step = json!({"say": "start the VM default/db again", "request": request, "goal": goal, "patience": 1});
    let mut deletes = step.clone();
    deletes["request"] = json!({"method": "DELETE", "path": "/api/v1/namespaces/shop/persistentvolumeclaims", "body": {}});
    let mut elsewhere = temporary_change();
    elsewhere["name"] = json!("../../namespaces/shop/addons/x");
    for (words, changes) in [
        (
            &["addon-stuck", "--yes"][..],
            json!({"steps": [step], "changes": []}),
        ),
        (
            &["addon-stuck", "--yes"],
            json!({"steps": [deletes], "changes": []}),
        ),
        (&["addon-stuck", "--yes"], json!({"changes": [elsewhere]})),
        (&["--undo", "--yes"], json!({"changes": [elsewhere]})),
    ] {
        let machine = Machine::new();
        machine.store.put(ADDONS, list_of(&[]));
        let mut entry = json!({"record": "addon-stuck-default_db-0.json", "code": "addon-stuck",
            "subject": "default/db", "server": "lost", "since": "1970-01-01T00:00:00Z"});
        for (key, value) in changes.as_object().unwrap() {
            entry[key] = value.clone();
        }
        machine.store.put_restore_note(&json!([entry]));
        let exit = machine.run(words).await;
        assert_eq!(exit, Exit::Unknown, "{words:?} {entry}");
        assert_eq!(machine.store.changes(), [""; 0], "{words:?} {entry}");
    }
}

#[tokio::test]
async fn a_repair_that_is_over_is_closed_and_unknown_changes_of_other_servers_stay_unknown() {
    for (note, exit) in [
        (json!([]), Exit::Ok),
        (json!([{"newer": true}]), Exit::Unknown),
    ] {
        let machine = Machine::new();
        machine.begin("1");
        machine.store.put(ADDONS, list_of(&[]));
        machine.store.put_restore_note(&note);
        assert_eq!(machine.run(&["addon-stuck", "--yes"]).await, exit, "{note}");
        assert_eq!(machine.unfinished(), []);
    }
}

#[tokio::test]
async fn nothing_is_begun_by_a_command_that_restores_what_another_server_changed() {
    let lost = Machine::new();
    let name = sample_of_a_temporary_change(&lost.records);
    let record = lost.records.named(&name).unwrap();
    let machine = Machine::new();
    machine.store.put_stuck_addon("2");
    let changed = json!({"metadata": {"uid": "1"}, "spec": {"a": true}});
    machine.store.put(ADDON, changed);
    machine.store.put_restore_note(&json!([{
        "record": name, "code": "addon-stuck", "subject": record.subject,
        "server": "lost", "since": record.started, "changes": [temporary_change()],
    }]));
    // The repair was planned for the cluster with this change.
    let exit = machine.run(&["addon-stuck", "--yes"]).await;
    assert_eq!(exit, Exit::Failed);
    assert_eq!(machine.store.object(ADDON)["spec"], json!({}));
    let changes = machine.changes_of_the_job();
    let is_tried = |change: &String| change.ends_with("(dry run)");
    assert!(changes.iter().all(is_tried), "{changes:?}");
}

#[tokio::test]
async fn a_repair_that_was_begun_for_another_object_makes_room_for_the_one_that_is_needed() {
    let machine = Machine::new();
    machine.begin("1");
    machine.store.put_stuck_addon("2");
    let exit = machine.run(&["addon-stuck", "--dry-run"]).await;
    assert_eq!(exit, Exit::Ok);
    let tried = format!("DELETE {OLD_JOB} (dry run)");
    assert_eq!(machine.changes_of_the_job(), [tried]);
    assert_eq!(machine.unfinished().len(), 1, "it was only shown");
    // Once it is agreed to, the old one is closed. Here the problem ends meanwhile, so nothing else is begun.
    machine.store.overtake(ADDONS, Some(list_of(&[])));
    assert_eq!(machine.run(&["addon-stuck", "--yes"]).await, Exit::Ok);
    assert_eq!(machine.unfinished(), []);
}

#[tokio::test]
async fn a_repair_of_what_is_not_recognised_any_more_is_closed_where_it_only_waits() {
    let machine = Machine::new();
    machine.begin("1");
    let exit = machine.run(&["addon-stuck", "--dry-run"]).await;
    assert_eq!((exit, machine.unfinished().len()), (Exit::Ok, 1));
    assert_eq!(machine.run(&["addon-stuck", "--yes"]).await, Exit::Ok);
    assert_eq!(machine.unfinished(), []);
    assert_eq!(machine.changes_of_the_job(), [""; 0]);
}

#[tokio::test]
async fn a_repair_of_what_is_over_gives_back_what_it_took_and_takes_nothing_more() {
    let machine = Machine::new();
    let mut record = machine.begin("1");
    let addon = json!({"kind": "Addon", "metadata": {"name": "pci", "namespace": "harvester-system", "uid": "a1"}, "spec": {}});
    let mut switched_off = addon.clone();
    switched_off["spec"]["off"] = json!(true);
    machine.store.put(ADDON, switched_off.clone());
    let off = ObjectChange::of(ObjectKind::ADDON, &addon).set("/spec/off", json!(true));
    let goal = CureGoal::Field {
        path: ADDON.to_owned(),
        before: None,
        field: "/spec/off".to_owned(),
        value: json!(true),
    };
    machine.store.put(OLD_JOB, old_job("1"));
    let delete = record.cure.steps.remove(0);
    record.cure.steps = vec![off.step("off", goal, 60), delete, off.step_back("on", 60)];
    record.changed[0].before = addon;
    record.changed[0].after = Some(switched_off);
    let path = machine.records.path(&record);
    std::fs::write(path, serde_json::to_string(&record).unwrap()).unwrap();

    let exit = machine.run(&["addon-stuck", "--dry-run"]).await;
    assert_eq!((exit, machine.unfinished().len()), (Exit::Ok, 1));
    assert_eq!(machine.run(&["addon-stuck", "--yes"]).await, Exit::Ok);
    assert_eq!(machine.store.object(ADDON)["spec"], json!({}));
    assert_eq!(machine.changes_of_the_job(), [""; 0]);
    assert_eq!(machine.unfinished(), []);
}

#[tokio::test]
async fn what_came_right_or_became_another_thing_before_the_turn_came_is_not_begun() {
    for (path, list, exit) in [
        (ADDONS, list_of(&[]), Exit::Ok),
        (JOBS, list_of(&[old_job("3")]), Exit::Failed),
    ] {
        let machine = Machine::new();
        machine.store.put_stuck_addon("2");
        machine.store.overtake(path, Some(list));
        assert_eq!(machine.run(&["addon-stuck", "--yes"]).await, exit, "{path}");
        let tried = format!("DELETE {OLD_JOB} (dry run)");
        assert_eq!(machine.changes_of_the_job(), [tried]);
        assert_eq!(machine.unfinished(), []);
    }
}

#[tokio::test]
async fn an_undo_of_a_repair_without_a_way_back_closes_it() {
    let machine = Machine::new();
    let record = machine.begin("1");
    let undo = ["--undo", "--dry-run"];
    assert_eq!(machine.run(&undo).await, Exit::Failed);
    assert_eq!(machine.unfinished().len(), 1);
    assert_eq!(machine.run(&["--undo", "--yes"]).await, Exit::Failed);
    assert_eq!(machine.unfinished(), []);
    let name = machine.records.name(&record);
    let written = machine.records.named(&name).unwrap();
    assert!(written.undone.is_some());
}

#[tokio::test]
async fn a_repair_of_another_cluster_is_neither_undone_nor_continued() {
    let mut machine = Machine::new();
    let record = machine.begin("1");
    machine.records = machine.records.of_cluster(Some("west".to_owned()));
    let name = machine.records.name(&record);
    assert_eq!(machine.run(&["--undo", &name, "--yes"]).await, Exit::Usage);
    assert_eq!(machine.run(&["--undo", "--yes"]).await, Exit::Ok);
    assert_eq!(machine.run(&["addon-stuck", "--yes"]).await, Exit::Ok);
    assert_eq!(machine.records.named(&name).unwrap(), record);
    assert_eq!(machine.store.changes(), [""; 0]);
}

#[tokio::test]
async fn a_dry_run_does_not_end_well_where_there_is_no_cure() {
    let machine = Machine::new();
    machine.store.put_stuck_addon("2");
    // Of a version that is not in the facts.
    let version = json!({"metadata": {"name": "server-version"}, "value": "v9.9.9"});
    let settings = "/apis/harvesterhci.io/v1beta1/settings";
    machine.store.put(settings, list_of(&[version]));
    let exit = machine.run(&["addon-stuck", "--dry-run"]).await;
    assert_eq!(exit, Exit::Failed);
}

#[test]
fn a_repair_that_is_being_undone_is_not_continued_while_nothing_is_known() {
    let machine = Machine::new();
    let name = sample_of_a_temporary_change(&machine.records);
    let begun = machine.records.named(&name).unwrap();
    let undone = Record {
        undoing: Some(Timestamp::UNIX_EPOCH),
        ..begun.clone()
    };
    let plan = RepairPlan::new(&[begun.clone(), undone.clone()], None);
    assert_eq!((plan.begun, plan.giving_back), (vec![begun], vec![undone]));
}
