use serde_json::{Value, json};

use super::super::tests::{ADDON, Repair, gives_back, sets, waits};
use super::super::{RepairOutcome, Unfinished, give_back};
use super::*;
use crate::act::repair::{Records, RepairContext};
use crate::act::testing::LEASE;

/// A server that takes over the changes that a lost one has left.
struct Second {
    _directory: tempfile::TempDir,
    context: RepairContext,
    record: Record,
}

impl Second {
    async fn after(lost: &Repair) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::new(directory.path());
        lost.store.hand_lease_to("node2");
        let context = RepairContext::new(lost.store.client(), records, "node2");
        let entries = RestoreNote::entries(&context.client).await.unwrap();
        let record = context.records.adopt(&entries[0]).unwrap();
        Self {
            _directory: directory,
            context,
            record,
        }
    }

    async fn give_back(&mut self) -> Result<(), Unfinished> {
        let now = || Timestamp::from_second(120).unwrap();
        give_back(&self.context, &mut self.record, "", now, |_, _| {}).await
    }
}

#[tokio::test]
async fn another_server_restores_although_the_annotation_is_gone_or_cannot_be_read() {
    for text in [Value::Null, json!("[{\"newer\": true}]")] {
        let mut lost = Repair::of_steps(vec![sets("a", 0), sets("b", 3600), gives_back("a")]);
        lost.die_at_patch(1).await;
        let mut second = Second::after(&lost).await;
        let mut lease = lost.store.object(LEASE);
        lease["metadata"]["annotations"] = json!({ANNOTATION: text});
        if text.is_null() {
            lease["metadata"]["annotations"] = json!({});
        }
        lost.store.put(LEASE, lease);

        second.give_back().await.unwrap();
        assert_eq!(lost.store.object(ADDON)["spec"], json!({}), "{text}");
        assert_eq!(second.record.outcome, Some(RepairOutcome::GivenBack));
    }
}

#[tokio::test]
async fn what_another_server_has_restored_it_does_not_restore_again() {
    let steps = vec![
        sets("a", 0),
        sets("c", 0),
        waits(),
        gives_back("a"),
        gives_back("c"),
    ];
    let mut lost = Repair::of_steps(steps);
    lost.die_at_patch(2).await;
    let mut second = Second::after(&lost).await;
    // It dies between two changes, and the annotation still names the first one.
    let note = lost.store.restore_note();
    lost.store.hang_after(http::Method::PATCH, 1);
    tokio::select! {
        done = second.give_back() => panic!("{done:?}"),
        () = lost.store.hung() => {}
    }
    assert_eq!(lost.store.object(ADDON)["spec"], json!({"c": true}));
    lost.store.put_restore_note(&note);
    lost.store.hand_lease_to("node2");

    // An operator switches it off.
    lost.change(json!({"a": true, "c": true}));
    let name = second.context.records.name(&second.record);
    second.record = second.context.records.named(&name).unwrap();
    second.give_back().await.unwrap();
    assert_eq!(lost.store.object(ADDON)["spec"], json!({"a": true}));
}
