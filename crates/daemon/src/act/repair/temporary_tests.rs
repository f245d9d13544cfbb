use super::super::records::{Records, RepairOutcome};
use super::super::restore_note::RestoreEntry;
use super::super::{RepairContext, Unfinished, give_back};
use super::*;
use crate::act::testing::ObjectStore;

const VM: &str = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/db";

fn machine(spec: Value) -> Value {
    json!({"kind": "VirtualMachine", "metadata": {"name": "db", "namespace": "default", "uid": "u1"}, "spec": spec})
}

fn noted() -> Value {
    json!({"change": "stopped-machine", "namespace": "default", "name": "db", "uid": "u1",
        "before": {"/spec/running": null, "/spec/runStrategy": "Always"}})
}

#[test]
fn every_change_that_a_cure_makes_for_a_while_is_restored_by_the_same_request_elsewhere() {
    for spec in [
        json!({"running": true}),
        json!({"runStrategy": "Always"}),
        json!({"runStrategy": "RerunOnFailure", "template": {"spec": {}}}),
    ] {
        let vm = machine(spec.clone());
        let (stop, start) = TemporaryKind::STOPPED_MACHINE.steps(&vm);
        let change = TemporaryChange::of(&vm, &start).unwrap();
        let text = serde_json::to_string(&change).unwrap();
        assert!(!text.contains("template"), "{text}");
        let elsewhere: TemporaryChange = serde_json::from_str(&text).unwrap();
        assert_eq!(elsewhere, change);
        assert_eq!(elsewhere.changing_step(), stop, "{spec}");
        assert_eq!(elsewhere.restoring_step(), start, "{spec}");
        assert_eq!(start.request.unwrap().path, VM);
    }
    let manual = machine(json!({"runStrategy": "Manual"}));
    let (_, start) = TemporaryKind::STOPPED_MACHINE.steps(&manual);
    assert_eq!(TemporaryChange::of(&manual, &start), None);
}

#[test]
fn a_note_that_no_cure_has_written_is_refused() {
    serde_json::from_value::<TemporaryChange>(noted()).unwrap();
    let forged = |key: &str, value: Value| {
        let mut note = noted();
        note[key] = value;
        note
    };
    for note in [
        forged("change", json!("cluster-admin")),
        forged("namespace", json!("")),
        forged("namespace", json!("a/b")),
        forged("namespace", json!("..")),
        forged("name", json!("../../secrets/x")),
        forged("name", json!("db?dryRun=")),
        forged("name", json!("db%2f")),
        forged("name", json!("db/status")),
        forged("uid", json!("")),
        forged("uid", json!(null)),
        forged("request", json!({"method": "DELETE"})),
        forged("before", json!({"/spec/runStrategy": "Manual"})),
        forged("before", json!({"/spec/runStrategy": "Halted"})),
        forged("before", json!({"/spec/runStrategy": {"x": 1}})),
        forged("before", json!({"/spec/running": false})),
        forged("before", json!({"/spec/template": null})),
        forged("before", json!({"/metadata/uid": "u2"})),
    ] {
        let read = serde_json::from_value::<TemporaryChange>(note.clone());
        assert!(read.is_err(), "{note}");
    }
}

#[tokio::test]
async fn a_machine_is_not_started_again_by_another_server_before_it_has_stopped() {
    let store = ObjectStore::default();
    store.put_lease_of("node2");
    let mut stopping = machine(json!({"runStrategy": "Halted"}));
    stopping["status"] = json!({"printableStatus": "Stopping", "created": true});
    store.put(VM, stopping.clone());
    let entry: RestoreEntry = serde_json::from_value(json!({
        "record": "addon-stuck-default_db-0.json", "code": "addon-stuck", "subject": "default/db",
        "server": "node1", "since": "1970-01-01T00:00:00Z", "changes": [noted()],
    }))
    .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let context = RepairContext::new(store.client(), Records::new(directory.path()), "node2");
    let mut record = context.records.adopt(&entry).unwrap();
    let now = || jiff::Timestamp::from_second(120).unwrap();

    // KubeVirt never starts a machine whose run strategy comes back now.
    for step in &mut record.cure.steps {
        step.patience = 0;
    }
    let restored = give_back(&context, &mut record, "", now, |_, _| {}).await;
    assert!(
        matches!(restored, Err(Unfinished::NotRestoredYet(_))),
        "{restored:?}"
    );
    assert_eq!(store.changes(), [""; 0]);

    stopping["status"] = json!({"printableStatus": "Stopped"});
    store.put(VM, stopping);
    give_back(&context, &mut record, "", now, |_, _| {})
        .await
        .unwrap();
    assert_eq!(store.changes(), [format!("PATCH {VM}")]);
    assert_eq!(record.outcome, Some(RepairOutcome::GivenBack));
}
