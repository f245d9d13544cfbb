use jiff::Timestamp;
use serde_json::json;
use tempfile::TempDir;
use windrow_harvester::incidents::{CureGoal, CureStep, SavedObject};
use windrow_harvester::objects::ObjectKind;

use super::*;
use crate::act::testing::{ADDONS, OLD_JOB, ObjectStore, list_of, old_job};

/// A server whose daemon cures Addons.
struct Server {
    directory: TempDir,
    store: ObjectStore,
    settings: Settings,
    repairer: Repairer,
}

impl Server {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.repair.auto = vec![Code::AddonStuck];
        let layout = Layout::new(directory.path());
        std::fs::create_dir_all(layout.state_dir()).unwrap();
        Self {
            directory,
            store: ObjectStore::default(),
            settings,
            repairer: Repairer::new(|| "2026-05-01T12:00:00Z".parse().unwrap()),
        }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.directory.path())
    }

    fn records(&self) -> Records {
        Records::new(&self.layout().state_dir())
    }

    fn unfinished(&self) -> Vec<Record> {
        self.records().unfinished(Code::AddonStuck).unwrap()
    }

    /// Looks, and cures what it may.
    async fn look(&mut self) -> bool {
        let (client, layout) = (self.store.client(), self.layout());
        let looked = look_at_cluster(&client, self.repairer.now, &OwnNode::default()).await;
        let repair = self
            .repairer
            .repair(&client, &layout, &self.settings, &looked);
        repair.await
    }

    /// A cure that was begun for the Job of this UID, with this step left.
    fn begin(&self, uid: &str, left: CureStep) -> Record {
        let job = old_job(uid);
        let cure = Cure {
            summary: "s".to_owned(),
            changes: Vec::new(),
            saves: vec![SavedObject::of(ObjectKind::JOB, &job)],
            purpose: None,
            steps: vec![left],
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

/// A step that waits for what never comes.
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
        server.begin("1", waits());
        assert!(!server.look().await);
        assert_eq!(server.unfinished(), [], "{job:?}");
        assert_eq!(server.changes_of_the_job(), [""; 0]);
    }
}

#[tokio::test]
async fn a_cure_that_waited_in_vain_is_not_resumed_without_an_end() {
    let mut server = Server::new();
    server.store.put_stuck_addon("1");
    server.begin("1", waits());
    assert!(server.look().await, "it is still recognised");
    assert_eq!(server.unfinished(), []);
}

#[tokio::test]
async fn a_cure_is_not_resumed_while_nothing_is_known() {
    let mut server = Server::new();
    let record = server.begin("1", waits());
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

#[tokio::test]
async fn a_cure_of_another_cluster_is_left_alone() {
    let mut server = Server::new();
    let record = server.begin("1", waits());
    let mut other = record.clone();
    other.cluster = Some("west".to_owned());
    let path = server.records().path(&record);
    std::fs::write(path, serde_json::to_string(&other).unwrap()).unwrap();
    let east = json!({"metadata": {"name": "kube-system", "uid": "east"}});
    server.store.put("/api/v1/namespaces/kube-system", east);
    assert!(!server.look().await);
    assert_eq!(server.unfinished(), [other]);
}
