use std::sync::Arc;

use tokio::sync::watch;
use windrow_gates::DropInSnapshot;
use windrow_gates::trial::TrialStep;

use super::*;
use crate::act::{TakenOut, put_drop_in};

fn trial(state: TrialState) -> Trial {
    let asked = serde_json::json!({"content": "kube-apiserver-arg+:\n- feature-gates+=A=true\n"});
    let record = serde_json::json!({
        "request": "r1", "change": "apply", "by": "ann", "at": "2026-11-26T05:00:00Z", "forced": false,
        "version": "1.33.3+rke2r1", "asked": asked, "saved": {"content": null}, "state": state,
        "since": "2026-11-26T05:00:00Z",
    });
    serde_json::from_value(record).unwrap()
}

fn driver(layout: &Layout) -> TrialDriver {
    let configured = watch::channel(Arc::new(Configuration::load(layout))).1;
    TrialDriver::new(configured, ApiServer::new(), Timestamp::now)
}

#[test]
fn what_cannot_be_remembered_stops_a_trial_but_not_its_way_back() {
    let root = tempfile::tempdir().unwrap();
    let layout = Layout::new(root.path());
    let mut driver = driver(&layout);
    let site = driver.site();
    // A directory in the place of the record: it cannot be written.
    std::fs::create_dir_all(StateFile::Trial.path(&layout).join("in the way")).unwrap();
    let verifying = trial(TrialState::Verifying);
    let content = verifying.asked.content.clone();
    put_drop_in(&layout, content.as_deref()).unwrap();
    assert!(driver.remember(&layout, &verifying).is_err());
    let mut back = trial(TrialState::RollingBack);
    driver.restore(&mut back, &site).unwrap();
    assert_eq!(read_drop_in(&layout).unwrap(), None);
    assert_eq!(driver.trial.map(|trial| trial.state), Some(back.state));
}

#[tokio::test]
async fn what_goes_back_is_what_the_version_takes_that_starts() {
    let saved = "kube-apiserver-arg+:\n- feature-gates+=AuthorizeNodeWithSelectors=false\n";
    for (version, goes_back) in [("v1.33.3+rke2r1", Some(saved)), ("v1.34.2+rke2r1", None)] {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        std::fs::create_dir_all(root.path().join("usr/local/bin")).unwrap();
        let binary = root.path().join("usr/local/bin/rke2");
        std::fs::write(binary, format!("\0{version}\0")).unwrap();
        let mut driver = driver(&layout);
        let mut back = trial(TrialState::RollingBack);
        back.saved = Some(DropInSnapshot {
            content: Some(saved.to_owned()),
        });
        put_drop_in(&layout, back.asked.content.as_deref()).unwrap();
        let site = driver.site();
        let step = TrialStep::Restore;
        driver
            .take_step(step, &mut back, None, &site)
            .await
            .unwrap();
        let there = read_drop_in(&layout).unwrap();
        assert_eq!(there.as_deref(), goes_back, "{version}");
        // The hook leaves it, and so it counts as gone back.
        assert_eq!(back.on_disk(there.as_deref()), OnDisk::Saved);
    }
}

#[test]
fn rke2_is_restarted_without_gates_where_what_was_saved_cannot_be_written() {
    let root = tempfile::tempdir().unwrap();
    let mut driver = driver(&Layout::new(root.path()));
    let site = driver.site();
    let full = || Ok(TakenOut::Removed(std::io::ErrorKind::StorageFull.into()));
    let mut back = trial(TrialState::RollingBack);
    let saved = "kube-apiserver-arg+:\n- feature-gates+=B=true\n".to_owned();
    back.saved = Some(DropInSnapshot {
        content: Some(saved),
    });
    let mut without = back.clone();
    driver.restored(full(), &mut back, &site).unwrap();
    assert_eq!(back.on_disk(None), OnDisk::Saved);
    assert_eq!(driver.trial.as_ref(), Some(&back));
    // No drop-in is what was tried: this would not be a way back.
    without.asked.content = None;
    assert!(driver.restored(full(), &mut without, &site).is_err());
    assert_eq!(without.on_disk(None), OnDisk::Asked);
}

#[test]
fn a_clock_that_is_set_makes_no_state_overdue_that_began_in_this_process() {
    let root = tempfile::tempdir().unwrap();
    let mut driver = driver(&Layout::new(root.path()));
    let (hour, patience) = (Duration::from_secs(3600), Duration::from_secs(600));
    let mut trial = trial(TrialState::Verifying);
    driver.now = || Timestamp::UNIX_EPOCH;
    assert!(
        !driver.overdue(&trial, patience),
        "a clock that was set back"
    );
    driver.entered(&mut trial);
    driver.now = || Timestamp::UNIX_EPOCH + Duration::from_secs(86_400);
    assert!(!driver.overdue(&trial, patience));
    assert!(
        driver.overdue(&trial, Duration::ZERO),
        "time passes all the same"
    );
    // What another process began is known by the wall clock alone.
    driver.since = None;
    assert!(driver.overdue(&trial, hour));
}
