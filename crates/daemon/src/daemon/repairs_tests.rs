use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use windrow_harvester::incidents::{CureGoal, CureStep, ObjectChange, OwnNode, SavedObject};
use windrow_harvester::objects::ObjectKind;
use windrow_model::reasons::Code;

use super::super::incident_look::look_at_cluster;
use super::*;
use crate::act::repair::{ChangedObject, RepairOutcome};
use crate::act::testing::{ADDON, ADDONS, LEASE, OLD_JOB, ObjectStore, list_of, old_job};
use crate::configuration::Configuration;
use crate::lock::Lock;

pub(super) struct Server {
    directory: TempDir,
    pub(super) store: ObjectStore,
    configuration: watch::Sender<Arc<Configuration>>,
    pub(super) repairer: Repairer,
}

impl Server {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path());
        std::fs::create_dir_all(layout.state_dir()).unwrap();
        let configuration = configuration(&layout, "[addon-stuck]");
        let (configuration, configured) = watch::channel(configuration);
        let now = || "2026-05-01T12:00:00Z".parse().unwrap();
        Self {
            directory,
            store: ObjectStore::default(),
            configuration,
            repairer: Repairer::new(configured, now),
        }
    }

    /// The configuration names other codes from now on.
    pub(super) fn configure(&self, auto: &str) {
        let configuration = configuration(&self.layout(), auto);
        self.configuration.send_replace(configuration);
    }

    /// Its daemon is another process from now on.
    pub(super) fn start_again(&mut self) {
        let now = || "2026-05-01T12:10:00Z".parse().unwrap();
        self.repairer = Repairer::new(self.configuration.subscribe(), now);
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::new(self.directory.path())
    }

    pub(super) fn records(&self) -> Records {
        Records::new(&self.layout().state_dir())
    }

    fn unfinished(&self) -> Vec<Record> {
        self.records().unfinished(Code::AddonStuck).unwrap()
    }

    /// Looks, and begins the allowed cures.
    async fn begin_to_look(&mut self) {
        let (client, layout) = (self.store.client(), self.layout());
        let place = self.repairer.look_place.clone();
        let own = OwnNode::default();
        let looked = look_at_cluster(&client, &place, self.repairer.now, &own).await;
        let configuration = Arc::clone(&self.configuration.borrow());
        let settings = configuration.settings();
        self.repairer
            .repair(&client, &layout, settings, &looked)
            .await;
    }

    /// Looks, and carries out the allowed cures.
    pub(super) async fn look(&mut self) -> bool {
        self.begin_to_look().await;
        match self.repairer.under_way.is_empty() {
            true => false,
            false => self.repairer.ended().await,
        }
    }

    /// A cure that was begun for the Job of this UID, with these steps left.
    fn begin(&self, uid: &str, left: Vec<CureStep>) -> Record {
        let job = old_job(uid);
        let cure = Cure {
            summary: "s".to_owned(),
            changes: Vec::new(),
            saves: vec![SavedObject::of(ObjectKind::JOB, &job)],
            purpose: None,
            steps: left,
        };
        let subject = "Addon harvester-system/pci";
        let finding = IncidentFinding::new(Code::AddonStuck, subject, "why");
        let at = Timestamp::UNIX_EPOCH;
        let begun = self.records().begin(&finding, &cure, Worker::Daemon, at);
        begun.unwrap()
    }

    fn changes_of_the_job(&self) -> Vec<String> {
        let mut changes = self.store.changes();
        changes.retain(|one| one.contains(OLD_JOB));
        changes
    }
}

fn configuration(layout: &Layout, auto: &str) -> Arc<Configuration> {
    let [directory, ..] = layout.config_dirs();
    std::fs::create_dir_all(&directory).unwrap();
    let text = format!("repair: {{auto: {auto}}}\n");
    std::fs::write(directory.join("windrow.yaml"), text).unwrap();
    let configuration = Configuration::load(layout);
    assert_eq!(configuration.loaded.errors, []);
    Arc::new(configuration)
}

fn addon() -> Value {
    json!({"kind": "Addon", "metadata": {"name": "pci", "namespace": "harvester-system", "uid": "a1"}, "spec": {}})
}

/// Steps that switch the Addon off, wait for an event that never happens, and switch it on again.
fn off_and_on() -> Vec<CureStep> {
    let addon = addon();
    let off = ObjectChange::of(ObjectKind::ADDON, &addon).set("/spec/off", json!(true));
    let goal = CureGoal::Field {
        path: ADDON.to_owned(),
        before: None,
        field: "/spec/off".to_owned(),
        value: json!(true),
    };
    let patient = CureStep {
        patience: 120,
        ..waits()
    };
    vec![off.step("off", goal, 60), patient, off.step_back("on", 60)]
}

fn waits() -> CureStep {
    let goal = CureGoal::Anew {
        path: "/nowhere".to_owned(),
        before: "1".to_owned(),
    };
    CureStep::wait("wait", goal, 0)
}

#[tokio::test]
async fn a_cure_that_is_superseded_or_over_is_closed_and_not_resumed() {
    for job in [Some("2"), None] {
        let mut server = Server::new();
        if let Some(uid) = job {
            server.store.put_stuck_addon(uid);
        }
        server.begin("1", vec![waits()]);
        assert!(!server.look().await);
        assert_eq!(server.unfinished(), [], "{job:?}");
        assert_eq!(server.changes_of_the_job(), [""; 0]);
    }
}

#[tokio::test]
async fn a_cure_that_waited_in_vain_is_not_resumed_without_an_end() {
    let mut server = Server::new();
    server.store.put_stuck_addon("1");
    server.begin("1", vec![waits()]);
    assert!(server.look().await, "it is still recognised");
    assert_eq!(server.unfinished(), []);
}

#[tokio::test]
async fn a_cure_is_not_resumed_while_nothing_is_known() {
    let mut server = Server::new();
    let record = server.begin("1", vec![waits()]);
    server
        .store
        .put(ADDONS, json!({"metadata": {}, "items": "no list"}));
    assert!(!server.look().await);
    assert_eq!(server.unfinished(), [record]);
}

#[tokio::test]
async fn what_came_right_before_the_turn_came_is_not_begun() {
    let mut server = Server::new();
    server.store.put_stuck_addon("1");
    assert!(!server.look().await, "once is no reason");
    server.store.overtake(ADDONS, Some(list_of(&[])));
    assert!(!server.look().await);
    assert_eq!(server.changes_of_the_job(), [""; 0]);
    assert_eq!(server.unfinished(), []);
}

/// The Lease on repairs without a holder, with this note of the repairs that were begun.
fn put_note(server: &Server, note: &str) {
    let metadata = json!({
        "name": "windrow-repairs", "namespace": "kube-system", "resourceVersion": "1",
        "annotations": {"windrow.dev/note": note},
    });
    server
        .store
        .put(LEASE, json!({"metadata": metadata, "spec": {}}));
}

#[tokio::test]
async fn nothing_is_begun_while_the_note_of_what_was_begun_cannot_be_read() {
    for (note, is_begun) in [
        ("since noon", false),
        (r#"[{"of": 1}]"#, false),
        ("[]", true),
    ] {
        let mut server = Server::new();
        server.store.put_stuck_addon("1");
        put_note(&server, note);
        assert!(!server.look().await, "once is no reason");
        server.begin_to_look().await;
        if is_begun {
            while server.changes_of_the_job().is_empty() {
                tokio::task::yield_now().await;
            }
            continue;
        }
        assert!(!server.repairer.ended().await, "{note}");
        assert_eq!(server.changes_of_the_job(), [""; 0], "{note}");
        assert_eq!(server.unfinished(), [], "{note}");
    }
}

#[tokio::test]
async fn a_server_begins_nothing_again_although_another_client_has_emptied_the_note_of_what_was_begun()
 {
    let mut server = Server::new();
    server.store.put_stuck_addon("1");
    put_note(&server, "[]");
    assert!(!server.look().await, "once is no reason");
    server.begin_to_look().await;
    while server.changes_of_the_job().is_empty() {
        tokio::task::yield_now().await;
    }
    server.repairer.stop().await;
    let mut record = server.unfinished().remove(0);
    let closed = server
        .records()
        .close(&mut record, RepairOutcome::Done, Timestamp::UNIX_EPOCH);
    closed.unwrap();
    let begun = server.changes_of_the_job();
    server.store.put_stuck_addon("1");
    put_note(&server, "[]");
    server.start_again();
    for _ in 0..3 {
        assert!(!server.look().await);
    }
    assert_eq!(server.changes_of_the_job(), begun);
    // It is for other objects now.
    server.store.put_stuck_addon("2");
    server.begin_to_look().await;
    if !server.repairer.under_way.is_empty() {
        server.repairer.ended().await;
    }
    server.begin_to_look().await;
    while server.changes_of_the_job() == begun {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_cure_of_another_cluster_is_left_alone() {
    let mut server = Server::new();
    let record = server.begin("1", vec![waits()]);
    let mut other = record.clone();
    other.cluster = Some("west".to_owned());
    let path = server.records().path(&record);
    std::fs::write(path, serde_json::to_string(&other).unwrap()).unwrap();
    let east = json!({"metadata": {"name": "kube-system", "uid": "east"}});
    server.store.put("/api/v1/namespaces/kube-system", east);
    assert!(!server.look().await);
    assert_eq!(server.unfinished(), [other]);
}

#[tokio::test]
async fn looks_go_on_beside_a_cure_and_it_ends_when_the_configuration_does_not_name_it_any_more() {
    let mut server = Server::new();
    server.store.put_stuck_addon("1");
    server.store.put(ADDON, addon());
    let record = server.begin("1", off_and_on());
    server.begin_to_look().await;
    let is_off = || server.store.object(ADDON)["spec"]["off"] == json!(true);
    while !is_off() {
        tokio::task::yield_now().await;
    }
    // It waits; meanwhile there are other looks, and none of them begins anything.
    server.begin_to_look().await;
    assert_eq!(server.repairer.under_way.len(), 1);

    server.configure("[]");
    assert!(server.repairer.ended().await);
    assert_eq!(server.store.object(ADDON)["spec"], json!({}));
    let written = server.records().named(&server.records().name(&record));
    assert!(written.unwrap().finished.is_some());
    assert!(!server.look().await, "it is over");
}

#[tokio::test]
async fn what_was_taken_for_a_while_is_given_back_after_a_restart_without_the_code() {
    let mut server = Server::new();
    server.store.put_stuck_addon("1");
    server.store.put(ADDON, addon());
    server.begin("1", off_and_on());
    server.begin_to_look().await;
    while server.store.object(ADDON)["spec"] == json!({}) {
        tokio::task::yield_now().await;
    }
    server.repairer.stop().await;
    assert_eq!(server.unfinished().len(), 1);

    server.configure("[drain-blocked]");
    assert!(server.look().await);
    assert_eq!(server.store.object(ADDON)["spec"], json!({}));
    assert_eq!(server.unfinished(), []);
}

#[tokio::test]
async fn what_a_person_changed_for_a_while_is_given_back_once_that_process_has_ended() {
    for auto in ["[]", "[drain-blocked]", "[addon-stuck]"] {
        let mut server = with_half_a_cure(vec![waits()]);
        let mut record = server.unfinished().remove(0);
        record.by = Worker::Person;
        let path = server.records().path(&record);
        std::fs::write(path, serde_json::to_string(&record).unwrap()).unwrap();
        server.configure(auto);
        let lock = server.layout().state_dir().join("repairs.lock");
        let held = Lock::take(&lock).unwrap();
        assert!(!server.look().await, "it is still at it");
        assert_eq!(server.unfinished(), [record]);
        drop(held);
        assert!(server.look().await);
        assert_eq!(server.store.object(ADDON)["spec"], json!({}), "{auto}");
        assert_eq!(
            server.changes_of_the_job(),
            [""; 0],
            "nothing more is taken"
        );
        assert_eq!(server.unfinished(), []);
    }
}

#[tokio::test]
async fn what_a_lost_server_has_changed_is_given_back_by_another_that_saw_it_twice() {
    let mut lost = Server::new();
    lost.store.put_stuck_addon("1");
    lost.store.put(ADDON, addon());
    lost.begin("1", off_and_on());
    lost.begin_to_look().await;
    while lost.store.object(ADDON)["spec"] == json!({}) {
        tokio::task::yield_now().await;
    }
    lost.repairer.stop().await;

    let mut other = Server {
        store: lost.store.clone(),
        ..Server::new()
    };
    other.configure("[]");
    assert!(!other.look().await);
    assert_eq!(
        other.repairer.left_by_others(),
        [],
        "its lease still counts"
    );
    other.repairer.now = || "2026-05-01T12:10:00Z".parse().unwrap();
    assert!(!other.look().await, "once is no reason");
    assert_eq!(other.repairer.left_by_others().len(), 1);
    assert!(other.look().await);
    assert_eq!(other.store.object(ADDON)["spec"], json!({}));
    assert_eq!(other.unfinished(), []);
    assert!(!other.look().await, "nothing is left");
    assert_eq!(other.repairer.left_by_others(), []);
}

#[tokio::test]
async fn a_cure_that_is_interrupted_again_and_again_gives_back() {
    let mut server = with_half_a_cure(vec![waits()]);
    server.store.put_stuck_addon("1");
    let mut record = server.unfinished().remove(0);
    record.resumed = 3;
    let path = server.records().path(&record);
    std::fs::write(path, serde_json::to_string(&record).unwrap()).unwrap();
    assert!(server.look().await);
    assert_eq!(server.store.object(ADDON)["spec"], json!({}));
    assert_eq!(server.changes_of_the_job(), [""; 0]);
}

/// A server with a cure that has switched the Addon off. Its next steps delete the Job, do this, and switch the Addon
/// on again.
fn with_half_a_cure(between: Vec<CureStep>) -> Server {
    let server = Server::new();
    let job = old_job("1");
    server.store.put(OLD_JOB, job.clone());
    let mut switched_off = addon();
    switched_off["spec"]["off"] = json!(true);
    server.store.put(ADDON, switched_off.clone());
    let goal = CureGoal::Gone {
        path: OLD_JOB.to_owned(),
        uid: "1".to_owned(),
    };
    let delete = CureStep::delete(ObjectKind::JOB, &job, "it is gone", goal, 60);
    let [off, _, on] = <[CureStep; 3]>::try_from(off_and_on()).unwrap();
    let steps = [vec![off, delete], between, vec![on]].concat();
    let mut record = server.begin("1", steps);
    record.done = 1;
    record.changed.push(ChangedObject {
        after: Some(switched_off),
        ..ChangedObject::new(0, addon())
    });
    let path = server.records().path(&record);
    std::fs::write(path, serde_json::to_string(&record).unwrap()).unwrap();
    server
}

#[tokio::test]
async fn a_cure_of_what_is_over_gives_back_what_it_took_and_takes_nothing_more() {
    let mut server = with_half_a_cure(Vec::new());
    assert!(server.look().await);
    assert_eq!(server.store.object(ADDON)["spec"], json!({}));
    assert_eq!(server.changes_of_the_job(), [""; 0]);
    assert_eq!(server.unfinished(), []);
}

#[tokio::test]
async fn a_cure_goes_on_while_what_it_waits_for_has_not_come_although_nothing_is_recognised() {
    let mut server = with_half_a_cure(vec![waits()]);
    assert!(server.look().await);
    assert_eq!(server.changes_of_the_job(), [format!("DELETE {OLD_JOB}")]);
    // The wait had no effect.
    assert_eq!(server.store.object(ADDON)["spec"], json!({}));
    assert_eq!(server.unfinished(), []);
}

/// A record of an operator's process that has ended. It has sent the request of its first step, if `sent` says so.
fn left_by_a_person(server: &Server, sent: Option<Option<Value>>) -> Record {
    let job = old_job("1");
    let goal = CureGoal::Gone {
        path: OLD_JOB.to_owned(),
        uid: "1".to_owned(),
    };
    let delete = CureStep::delete(ObjectKind::JOB, &job, "it is gone", goal, 60);
    let mut record = server.begin("1", vec![delete, waits()]);
    record.by = Worker::Person;
    record.changed.extend(sent.map(|after| ChangedObject {
        after,
        ..ChangedObject::new(0, job)
    }));
    let path = server.records().path(&record);
    std::fs::write(path, serde_json::to_string(&record).unwrap()).unwrap();
    record
}

#[tokio::test]
async fn a_repair_whose_process_ended_before_its_first_request_is_closed_and_begun_anew() {
    for auto in ["[]", "[addon-stuck]"] {
        let mut server = Server::new();
        server.configure(auto);
        server.store.put_stuck_addon("1");
        let record = left_by_a_person(&server, None);
        let lock = server.layout().state_dir().join("repairs.lock");
        let held = Lock::take(&lock).unwrap();
        server.look().await;
        assert_eq!(
            server.unfinished(),
            std::slice::from_ref(&record),
            "it is still at it"
        );
        drop(held);
        server.look().await;
        let written = server.records().named(&server.records().name(&record));
        let outcome = written.unwrap().outcome;
        assert_eq!(outcome, Some(RepairOutcome::Abandoned), "{auto}");
        let asked = server.changes_of_the_job().len();
        assert_eq!(asked, 0);
        server.begin_to_look().await;
        let is_begun = !server.repairer.under_way.is_empty();
        assert_eq!(is_begun, auto != "[]");
    }
}

#[tokio::test]
async fn a_repair_whose_process_ended_is_closed_when_what_it_was_for_is_over() {
    for sent in [None, Some(None), Some(Some(json!({})))] {
        let mut server = Server::new();
        server.configure("[]");
        left_by_a_person(&server, sent.clone());
        server.look().await;
        assert_eq!(server.unfinished(), [], "{sent:?}");
    }
}

#[tokio::test]
async fn a_repair_whose_last_request_was_not_taken_is_closed_once_that_request_has_ended() {
    let mut server = Server::new();
    server.store.put_stuck_addon("1");
    let record = left_by_a_person(&server, Some(None));
    server.look().await;
    server.look().await;
    assert_eq!(server.unfinished(), std::slice::from_ref(&record));

    // Meanwhile an operator tried it again, which left an equal record.
    let file = std::fs::File::options()
        .write(true)
        .open(server.records().path(&record))
        .unwrap();
    file.set_modified(Timestamp::UNIX_EPOCH.into()).unwrap();
    server.repairer.end_pauses();
    server.look().await;
    assert_eq!(server.unfinished(), std::slice::from_ref(&record));

    server.repairer.end_pauses();
    server.look().await;
    let written = server.records().named(&server.records().name(&record));
    let written = written.unwrap();
    assert_eq!(written.outcome, Some(RepairOutcome::Abandoned));
    assert_eq!(written.changed, [], "there is nothing to undo");
    assert_eq!(server.changes_of_the_job(), [""; 0]);
    server.begin_to_look().await;
    assert_eq!(server.repairer.under_way.len(), 1, "it begins its own");
}

#[tokio::test]
async fn a_repair_whose_last_request_was_taken_stays_open_for_as_long_as_its_steps_may_take() {
    for (started, is_open) in [
        ("2026-05-01T11:55:00Z", true),
        ("2026-05-01T11:45:00Z", false),
        // The clock was wrong.
        ("2031-01-01T00:00:00Z", false),
    ] {
        let mut server = Server::new();
        server.configure("[]");
        server.store.put_stuck_addon("1");
        // kube-apiserver took the request of the dead process.
        server.store.put(OLD_JOB, old_job("2"));
        let mut record = left_by_a_person(&server, Some(None));
        std::fs::remove_file(server.records().path(&record)).unwrap();
        record.started = started.parse().unwrap();
        record.cure.steps[1].patience = 600;
        let path = server.records().path(&record);
        std::fs::write(path, serde_json::to_string(&record).unwrap()).unwrap();
        for _ in 0..2 {
            server.look().await;
            server.repairer.end_pauses();
        }
        assert_eq!(server.unfinished().len(), usize::from(is_open), "{started}");
    }
}

#[tokio::test]
async fn a_repair_of_a_code_that_the_configuration_does_not_name_any_more_is_closed() {
    let mut server = Server::new();
    server.store.put_stuck_addon("1");
    server.begin("1", vec![waits()]);
    server.configure("[]");
    assert!(!server.look().await);
    assert_eq!(server.unfinished(), []);
    assert_eq!(server.changes_of_the_job(), [""; 0]);
}

#[tokio::test]
async fn an_undo_of_a_lasting_change_that_was_interrupted_is_finished() {
    let mut server = Server::new();
    server.configure("[]");
    let mut switched_off = addon();
    switched_off["spec"]["off"] = json!(true);
    server.store.put(ADDON, switched_off.clone());
    let mut record = server.begin("1", off_and_on().into_iter().take(1).collect());
    record.changed.push(ChangedObject {
        after: Some(switched_off),
        ..ChangedObject::new(0, addon())
    });
    record.finished = Some(Timestamp::UNIX_EPOCH);
    record.undoing = Some(Timestamp::UNIX_EPOCH);
    let path = server.records().path(&record);
    std::fs::write(path, serde_json::to_string(&record).unwrap()).unwrap();
    assert!(server.look().await);
    assert_eq!(server.store.object(ADDON)["spec"], json!({}));
    let written = server.records().named(&server.records().name(&record));
    assert!(written.unwrap().undone.is_some());
    assert!(!server.look().await, "it is over");
}
