use std::os::unix::fs::PermissionsExt;

use http::{Method as HttpMethod, StatusCode};
use serde_json::json;
use windrow_harvester::incidents::{CureGoal, CureMethod};

use super::super::testing::ObjectStore;
use super::*;

const ADDON: &str = "/apis/harvesterhci.io/v1beta1/namespaces/harvester-system/addons/pci";

fn finding() -> (IncidentFinding, Cure) {
    let cure = Cure {
        summary: "s".into(),
        changes: Vec::new(),
        saves: Vec::new(),
        steps: Vec::new(),
    };
    (
        IncidentFinding::new(Code::AddonStuck, "Addon harvester-system/pci", "why"),
        cure,
    )
}

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
    std::fs::write(directory.path().join("repairs/x.json"), "{").unwrap();
    let error = records.unfinished(Code::AddonStuck).unwrap_err();
    assert!(error.to_string().contains("x.json"), "{error}");
}

/// A step that sets a field of the addon. It has to be reached within `patience` seconds.
fn sets(field: &str, patience: u32) -> CureStep {
    CureStep {
        say: format!("set {field}"),
        request: Some(CureRequest {
            method: CureMethod::Merge,
            path: ADDON.to_owned(),
            body: json!({"spec": {field: true}}),
        }),
        goal: CureGoal::Field {
            path: ADDON.to_owned(),
            before: None,
            field: format!("/spec/{field}"),
            value: json!(true),
        },
        patience,
    }
}

/// A node that has begun a cure of these steps; what is asked of kube-apiserver goes to `store`.
struct Repair {
    directory: tempfile::TempDir,
    store: ObjectStore,
    records: Records,
    record: Record,
    told: Vec<usize>,
}

impl Repair {
    fn of_steps(steps: Vec<CureStep>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::new(directory.path());
        let (finding, mut cure) = finding();
        cure.steps = steps;
        let record = records
            .begin(&finding, &cure, Worker::Person, Timestamp::UNIX_EPOCH)
            .unwrap();
        let store = ObjectStore::default();
        store.put(ADDON, json!({"metadata": {"uid": "1"}, "spec": {}}));
        Self {
            directory,
            store,
            records,
            record,
            told: Vec::new(),
        }
    }

    async fn carry_out(&mut self) -> Result<(), String> {
        let now = || Timestamp::from_second(60).unwrap();
        let client = self.store.client();
        let told = &mut self.told;
        carry_out(&client, &self.records, &mut self.record, now, |at, _| {
            told.push(at);
        })
        .await
        .map_err(|error| error.to_string())
    }

    /// The record as it is on the disk.
    fn written(&self) -> Record {
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
    repair.store.put(ADDON, json!({"spec": {"a": true}}));
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
    assert!(error.to_string().contains("no name"), "{error}");
    // Other files in the directory are no records.
    std::fs::write(repair.directory.path().join("repairs/note.txt"), "x").unwrap();
    let found = repair.records.unfinished(Code::AddonStuck).unwrap();
    assert_eq!(found, std::slice::from_ref(&repair.record));
}
