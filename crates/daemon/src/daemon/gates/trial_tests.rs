use std::sync::Arc;

use tokio::sync::watch;
use windrow_gates::trial::TrialStep;
use windrow_gates::{
    DropInSnapshot, Rke2State, TooManyStarts, TrialNote, TriedDropIn, request_text,
};

use super::super::settle::settle;
use super::super::verification::Unverified;
use super::obstacles::ends_of;
use super::*;
use crate::act::testing::{ObjectStore, list_of};
use crate::act::{TakenOut, put_drop_in};
use crate::observe::requests::{RequestAction, SpooledRequest};

fn trial(state: TrialState) -> Trial {
    let asked = serde_json::json!({"content": "kube-apiserver-arg+:\n- feature-gates+=A=true\n"});
    let record = serde_json::json!({
        "request": "r1", "change": "apply", "by": "ann", "at": "2026-11-26T05:00:00Z", "forced": false,
        "version": "1.33.3", "asked": asked, "saved": {"content": null}, "state": state,
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
        let fit = driver.fit_to_version(&back).await.unwrap();
        driver.take_step(step, &mut back, fit, &site).await.unwrap();
        let there = read_drop_in(&layout).unwrap();
        assert_eq!(there.as_deref(), goes_back, "{version}");
        // The hook leaves it, and so it counts as gone back.
        assert_eq!(back.on_disk(there.as_deref()), OnDisk::Saved);
    }
}

#[test]
fn a_trial_counts_as_started_once_a_restart_was_seen() {
    let root = tempfile::tempdir().unwrap();
    let mut driver = driver(&Layout::new(root.path()));
    let site = driver.site();
    for (to, is_started) in [
        (TrialState::Restarting, false),
        (TrialState::Verifying, true),
    ] {
        let mut written = trial(TrialState::Written);
        written.started = false;
        let seen = TrialObservation {
            wanted: true,
            leased: true,
            saved: true,
            on_disk: OnDisk::Asked,
            restarting: false,
            restarted: false,
            started: false,
            stopped: false,
            ready: false,
            in_effect: InEffect::Unknown,
            refused: false,
            is_back: false,
            overdue: false,
        };
        let result = VerificationResult::not_yet("rke2-server starts");
        driver
            .enter(&mut written, to, &result, &seen, &site)
            .unwrap();
        assert_eq!(written.started, is_started);
    }
}

fn going_back(on_disk: OnDisk) -> TrialObservation {
    TrialObservation {
        wanted: true,
        leased: true,
        saved: true,
        on_disk,
        restarting: false,
        restarted: true,
        started: true,
        stopped: false,
        ready: false,
        in_effect: InEffect::Unknown,
        refused: false,
        is_back: false,
        overdue: false,
    }
}

#[test]
fn gates_do_not_count_as_refused_if_something_else_has_changed_the_drop_in_meanwhile() {
    for (on_disk, is_refused) in [(OnDisk::Other, false), (OnDisk::Asked, true)] {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let mut driver = driver(&layout);
        let mut verifying = trial(TrialState::Verifying);
        let (site, seen) = (driver.site(), going_back(on_disk));
        let result = VerificationResult::not_yet("rke2-server starts");
        let to = TrialState::RollingBack;
        driver
            .enter(&mut verifying, to, &result, &seen, &site)
            .unwrap();
        assert_eq!(StateFile::Refused.path(&layout).exists(), is_refused);
        // It is not tried again automatically: a process that removes the drop-in again and again costs only one
        // restart.
        assert!(StateFile::Failed.path(&layout).exists());
        verifying.outcome = Some(TrialOutcome::RolledBack);
        let [end] = ends_of(&verifying, &layout).try_into().unwrap();
        assert_eq!(end.why.is_some(), is_refused, "the other servers");
    }
}

#[test]
fn a_trial_does_not_end_before_it_is_remembered_that_it_failed_whichever_process_ends_it() {
    let root = tempfile::tempdir().unwrap();
    let layout = Layout::new(root.path());
    let mut going = trial(TrialState::Verifying);
    let result = VerificationResult::not_yet("rke2-server starts");
    // A directory in the place of the record: it cannot be written.
    let record = StateFile::Failed.path(&layout);
    std::fs::create_dir_all(record.join("in the way")).unwrap();
    let mut first = driver(&layout);
    let site = first.site();
    let (to, seen) = (TrialState::RollingBack, going_back(OnDisk::Asked));
    first.enter(&mut going, to, &result, &seen, &site).unwrap();
    let mut second = driver(&layout);
    let mut going = second.trial.clone().unwrap();
    let (to, seen) = (TrialState::RolledBack, going_back(OnDisk::Saved));
    let ended = second.enter(&mut going.clone(), to, &result, &seen, &site);
    assert!(ended.is_err());
    std::fs::remove_dir_all(&record).unwrap();
    second.enter(&mut going, to, &result, &seen, &site).unwrap();
    assert!(record.exists());
    assert_eq!(going.outcome, Some(TrialOutcome::RolledBack));
}

#[tokio::test]
async fn a_drop_in_that_cannot_be_read_for_a_moment_is_neither_saved_as_none_nor_a_failure() {
    for state in [
        TrialState::Leased,
        TrialState::Saved,
        TrialState::Written,
        TrialState::Restarting,
        TrialState::Verifying,
        // It is back, and rke2-server may have to be restarted with it.
        TrialState::RollingBack,
    ] {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        // A directory in its place: it cannot be read.
        std::fs::create_dir_all(layout.gates_drop_in()).unwrap();
        let mut driver = driver(&layout);
        let mut waits = trial(state);
        waits.enter(Timestamp::now(), boot_moment(&layout));
        waits.baseline = Some("run 1".to_owned());
        driver.trial = Some(waits.clone());
        assert_eq!(driver.step().await, Some(TRY_AGAIN), "{state:?}");
        let why = driver.told.clone().unwrap();
        assert!(why.contains("gates.yaml: "), "{why}");
        assert_eq!(driver.trial, Some(waits));
    }
}

#[tokio::test]
async fn an_overdue_trial_goes_on_without_a_drop_in_that_cannot_be_read() {
    for state in [TrialState::Verifying, TrialState::RollingBack] {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        // A directory in its place: it cannot be read.
        std::fs::create_dir_all(layout.gates_drop_in()).unwrap();
        let mut driver = driver(&layout);
        let mut overdue = trial(state);
        overdue.enter(Timestamp::UNIX_EPOCH, None);
        overdue.baseline = Some("run 1".to_owned());
        driver.trial = Some(overdue);
        driver.step().await.unwrap();
        // It asks systemd, which this machine may not have.
        let told = driver.told.unwrap_or_default();
        assert!(!told.contains("gates.yaml: "), "{state:?}: {told}");
    }
}

#[test]
fn what_an_operator_changes_once_it_has_gone_back_is_left_by_the_next_start() {
    let root = tempfile::tempdir().unwrap();
    let (layout, text) = node_that_asks(root.path());
    let mut back = trial(TrialState::RollingBack);
    back.saved = Some(DropInSnapshot {
        content: Some(text.clone()),
    });
    for (baseline, there) in [(None, Some(text)), (Some("run 1".to_owned()), None)] {
        back.baseline = baseline;
        StateFile::Trial.keep(&layout, &back).unwrap();
        put_drop_in(&layout, None).unwrap();
        settle(&Configuration::load(&layout), Rke2State::Stopped);
        assert_eq!(read_drop_in(&layout).unwrap(), there);
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
    // The trial tried a missing drop-in: this would not be a way back.
    without.asked.content = None;
    assert!(driver.restored(full(), &mut without, &site).is_err());
    assert_eq!(without.on_disk(None), OnDisk::Asked);
}

const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

#[test]
fn neither_a_reboot_nor_a_clock_that_is_set_makes_a_trial_overdue() {
    let root = tempfile::tempdir().unwrap();
    let layout = Layout::new(root.path());
    let boot = root.path().join(BOOT_ID);
    std::fs::create_dir_all(boot.parent().unwrap()).unwrap();
    let patience = Duration::from_secs(600);
    StateFile::Trial
        .keep(&layout, &trial(TrialState::Verifying))
        .unwrap();
    // Each is written under another clock than the record before.
    for (id, now) in [
        (
            "b1",
            (|| "2026-11-27T05:00:00Z".parse().unwrap()) as fn() -> Timestamp,
        ),
        ("b1", || "2036-11-26T05:00:00Z".parse().unwrap()),
        ("b2", || "2056-11-26T05:00:00Z".parse().unwrap()),
    ] {
        std::fs::write(&boot, id).unwrap();
        let configured = watch::channel(Arc::new(Configuration::load(&layout))).1;
        let driver = TrialDriver::new(configured, ApiServer::new(), now);
        let going_on = driver.trial.clone().unwrap();
        let is_overdue = driver.overdue(&going_on, patience, &driver.site());
        assert!(!is_overdue, "{id}");
    }
}

#[test]
fn a_trial_that_a_reboot_has_cut_off_goes_back_and_is_not_remembered_as_failed() {
    let root = tempfile::tempdir().unwrap();
    let layout = Layout::new(root.path());
    for is_failure in [false, true] {
        let mut driver = driver(&layout);
        let mut verifying = trial(TrialState::Verifying);
        let starts = TrialStarts {
            request: verifying.request.clone(),
            count: 3,
            first: None,
            put_back: Some(TooManyStarts {
                why: "the machine was restarted".to_owned(),
                is_failure,
            }),
        };
        StateFile::Starts.keep(&layout, &starts).unwrap();
        let seen = TrialObservation {
            leased: false,
            ..going_back(OnDisk::Saved)
        };
        let (to, site) = (TrialState::RollingBack, driver.site());
        let result = VerificationResult::not_yet("rke2-server starts");
        driver
            .enter(&mut verifying, to, &result, &seen, &site)
            .unwrap();
        assert_eq!(verifying.why.as_deref(), Some("the machine was restarted"));
        let is_known = StateFile::Failed.path(&layout).exists();
        assert_eq!(is_known, is_failure);
        assert_eq!(verifying.unjudged, !is_failure);
    }
}

const UPGRADES: &str = "/apis/harvesterhci.io/v1beta1/namespaces/harvester-system/upgrades";

fn cluster() -> ObjectStore {
    let store = ObjectStore::default();
    store.put("/api/v1/nodes", list_of(&[]));
    store.put("/api/v1/namespaces/kube-system/pods", list_of(&[]));
    store
}

fn put_upgrade(store: &ObjectStore, state: &str) {
    let labels = serde_json::json!({"harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": state});
    let upgrade = serde_json::json!({"metadata": {"name": "up", "namespace": "harvester-system", "labels": labels}});
    store.put(UPGRADES, list_of(&[upgrade]));
}

#[tokio::test]
async fn a_trial_waits_for_an_upgrade_and_for_the_other_servers_unless_it_is_forced() {
    let root = tempfile::tempdir().unwrap();
    let mut driver = driver(&Layout::new(root.path()));
    let (site, store) = (driver.site(), cluster());
    let client = store.client();
    let mut waiting = trial(TrialState::Idle);
    assert_eq!(driver.obstacle(&client, &waiting, &site).await, None);

    put_upgrade(&store, "UpgradingNodes");
    let found = driver.obstacle(&client, &waiting, &site).await;
    assert_eq!(found, None, "the answer is fresh");
    driver.obstacle = None;
    let found = driver.obstacle(&client, &waiting, &site).await;
    let upgrade = "an upgrade is in progress: Upgrade harvester-system/up: UpgradingNodes";
    assert_eq!(found, Some(Obstacle::Passing(upgrade.to_owned())));
    waiting.forced = true;
    assert_eq!(driver.obstacle(&client, &waiting, &site).await, None);
    waiting.forced = false;
    waiting.change = GateChange::Rollback;
    assert_eq!(driver.obstacle(&client, &waiting, &site).await, None);
    waiting.change = GateChange::Apply;

    put_upgrade(&store, "Succeeded");
    let labels = serde_json::json!({"node-role.kubernetes.io/control-plane": "true"});
    let other = serde_json::json!({"metadata": {"name": "n2", "labels": labels}});
    store.put("/api/v1/nodes", list_of(&[other]));
    driver.obstacle = None;
    let found = driver.obstacle(&client, &waiting, &site).await;
    let other = "node n2 is not Ready".to_owned();
    assert_eq!(found, Some(Obstacle::Passing(other)));
}

#[tokio::test]
async fn a_trial_of_what_failed_on_another_server_does_not_begin() {
    let root = tempfile::tempdir().unwrap();
    let layout = Layout::new(root.path());
    let mut driver = driver(&layout);
    let (site, store) = (driver.site(), cluster());
    let client = store.client();
    let waiting = trial(TrialState::Idle);
    let counts = Duration::from_secs(60);
    let mut lease = ClusterLease::new(ClusterLease::GATES, "node2".to_owned(), counts);
    lease.take(&client, Timestamp::now()).await.unwrap();
    let failed = TriedDropIn {
        by: "node2".to_owned(),
        request: "r7".to_owned(),
        version: waiting.version.clone(),
        content: waiting.asked.content.clone(),
        at: Timestamp::UNIX_EPOCH,
        why: Some("it did not come up".to_owned()),
    };
    let note = TrialNote::default().begun(failed).unwrap().text();
    lease.write_note(&client, None, note).await.unwrap();
    let found = driver.obstacle(&client, &waiting, &site).await;
    assert!(matches!(found, Some(Obstacle::Lasting(_))), "{found:?}");
}

/// Notes that no server writes.
const FORGED: [&str; 5] = [
    "since noon",
    r#"{"content": "kube-apiserver-arg+:\n- feature-gates+=A=true\n"}"#,
    r#"[{"by": "node2", "request": "r7", "version": "1.33.3", "at": "2026-11-26T05:00:00Z", "restart": true}]"#,
    r#"[{"by": "node2 says: rm -rf", "request": "r7", "version": "1.33.3", "at": "2026-11-26T05:00:00Z"}]"#,
    r#"[{"by": "node2", "request": "r7", "version": "1.33.3", "at": "2026-11-26T05:00:00Z", "why": "\u001b[2J"}]"#,
];

async fn put_note(client: &kube::Client, note: &str) {
    let counts = Duration::from_secs(60);
    let mut lease = ClusterLease::new(ClusterLease::GATES, "node2".to_owned(), counts);
    lease.take(client, Timestamp::now()).await.unwrap();
    let before = lease.note(client).await.unwrap();
    let written = lease.write_note(client, before.as_deref(), note.to_owned());
    written.await.unwrap();
    lease.release(client).await.unwrap();
}

#[tokio::test]
async fn a_note_that_another_client_has_written_keeps_trials_away_and_changes_no_gate() {
    let root = tempfile::tempdir().unwrap();
    let (layout, text) = node_that_asks(root.path());
    put_drop_in(&layout, Some(&text)).unwrap();
    for note in FORGED {
        let store = cluster();
        let client = store.client();
        put_note(&client, note).await;
        let mut driver = driver(&layout);
        let site = driver.site();
        let mut waiting = trial(TrialState::Idle);
        driver.hold_lease_by(&client, &waiting, &site, true).await;
        assert!(!driver.leased, "{note}");
        let why = driver.waits_for.clone().unwrap();
        assert!(
            why.contains("cannot be read") && !why.contains('\u{1b}'),
            "{why}"
        );
        let told = matches!(driver.obstacle, Some((_, Some(Obstacle::Lasting(_)))));
        assert!(told, "it does not go away by waiting: {note}");
        // A trial that an operator forces, or takes back, ignores the others.
        waiting.forced = true;
        driver.hold_lease_by(&client, &waiting, &site, true).await;
        assert!(driver.leased, "{note}");
        let is_left = |store: &ObjectStore| {
            store.object(LEASE)["metadata"]["annotations"]["windrow.dev/note"] == note
        };
        // Its end is not noted, and does not wait for that.
        waiting.outcome = Some(TrialOutcome::Kept);
        let noted = driver.note_ended(&client, &waiting, &site).await;
        assert_eq!((noted, is_left(&store)), (Ok(()), true), "{note}");
        settle(&Configuration::load(&layout), Rke2State::Running);
        assert_eq!(read_drop_in(&layout).unwrap(), Some(text.clone()));
    }
}

#[tokio::test]
async fn a_name_that_another_client_has_written_into_the_lease_is_shown_in_one_short_line() {
    let root = tempfile::tempdir().unwrap();
    let mut driver = driver(&Layout::new(root.path()));
    let (site, store) = (driver.site(), cluster());
    let client = store.client();
    put_note(&client, "[]").await;
    let mut lease = store.object(LEASE);
    lease["spec"]["holderIdentity"] = format!("\u{1b}[2J\n{}", "x".repeat(9000)).into();
    lease["spec"]["leaseDurationSeconds"] = i32::MAX.into();
    store.put(LEASE, lease);
    let waiting = trial(TrialState::Idle);
    driver.hold_lease_by(&client, &waiting, &site, true).await;
    assert!(!driver.leased);
    let why = driver.waits_for.unwrap();
    assert!(
        why.chars().count() < 220 && !why.chars().any(char::is_control),
        "{why:?}"
    );
}

#[tokio::test]
async fn an_automatic_trial_waits_where_nothing_tells_whether_an_upgrade_is_in_progress() {
    let root = tempfile::tempdir().unwrap();
    let layout = Layout::new(root.path());
    let mut driver = driver(&layout);
    let by_person = driver.nothing_against("r1", "1.36.3", None, &layout);
    assert_eq!(by_person.await, Ok(()));
    assert!(driver.postponed.is_none());
    let automatic = driver.nothing_against("changed-1", "1.36.3", None, &layout);
    let (outcome, why) = automatic.await.unwrap_err();
    assert_eq!(outcome, TrialOutcome::NotTried);
    assert!(why.contains("was not checked"), "{why}");
    assert!(driver.postponed.is_some(), "it comes again");
}

#[tokio::test]
async fn an_automatic_trial_waits_until_the_other_servers_know_the_end_of_the_last_one() {
    let root = tempfile::tempdir().unwrap();
    let layout = Layout::new(root.path());
    let mut driver = driver(&layout);
    let mut last = trial(TrialState::RolledBack);
    last.outcome = Some(TrialOutcome::RolledBack);
    driver.trial = Some(last.clone());
    let node = DropInInputs::read(&Configuration::load(&layout));
    driver.changed(&node).await;
    assert_eq!(driver.trial, Some(last));
    assert!(driver.postponed.is_some());
}

/// A node whose configuration requests this gate, and the text of a drop-in that sets it.
fn node_that_asks(root: &std::path::Path) -> (Layout, String) {
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("usr/local/bin/rke2", "\0v1.34.2+rke2r1\0");
    let asks = "featureGates: {kubeApiserver: {APIResponseCompression: false}}\n";
    write("etc/windrow/windrow.yaml", asks);
    let text = "kube-apiserver-arg+:\n- \"feature-gates+=APIResponseCompression=false\"\n";
    (Layout::new(root), text.to_owned())
}

/// A boot has written it, and nothing was there before.
fn write_at_boot(layout: &Layout, text: &str) {
    put_drop_in(layout, Some(text)).unwrap();
    let change = LastChange {
        content: Some(text.to_owned()),
        before: None,
    };
    StateFile::LastChange.keep(layout, &change).unwrap();
}

fn rollback_by_bob() -> SpooledRequest {
    SpooledRequest::new(RequestAction::GatesRollback, "bob", Timestamp::UNIX_EPOCH)
}

#[tokio::test]
async fn what_is_taken_back_in_any_state_stays_back_over_boots_and_other_requests() {
    for state in [
        TrialState::Idle,
        TrialState::Leased,
        TrialState::Saved,
        TrialState::Written,
        TrialState::Restarting,
        TrialState::Verifying,
        TrialState::RollingBack,
    ] {
        let root = tempfile::tempdir().unwrap();
        let (layout, asked) = node_that_asks(root.path());
        let mut running = trial(state);
        running.asked.content = Some(asked);
        let configuration = Configuration::load(&layout);
        running.request_text = Some(request_text(&configuration.settings().feature_gates));
        StateFile::Trial.keep(&layout, &running).unwrap();
        let mut driver = driver(&layout);
        let node = DropInInputs::read(&configuration);
        driver.take_request("r2", &rollback_by_bob(), &node).await;
        // It has ended.
        let mut ended = driver.trial.clone().unwrap();
        ended.outcome = Some(TrialOutcome::RolledBack);
        StateFile::Trial.keep(&layout, &ended).unwrap();
        put_drop_in(&layout, None).unwrap();
        for rke2 in [Rke2State::Running, Rke2State::Stopped] {
            let outcome = settle(&configuration, rke2);
            let view = outcome.view.unwrap();
            let mut withheld = view.findings.iter();
            let withheld = withheld.find(|finding| finding.code == Code::GatesWithheld);
            assert!(
                withheld.unwrap().message.contains("taken back by bob"),
                "{state:?}"
            );
            assert!(!view.section.pending);
            assert_eq!(read_drop_in(&layout).unwrap(), None, "{state:?} {rke2:?}");
        }
        let other = "featureGates: {kubeApiserver: {APIResponseCompression: true}}\n";
        std::fs::write(root.path().join("etc/windrow/windrow.yaml"), other).unwrap();
        settle(&Configuration::load(&layout), Rke2State::Stopped);
        assert!(read_drop_in(&layout).unwrap().is_some());
        // Although it is requested again, it stays taken back.
        settle(&configuration, Rke2State::Stopped);
        let written = read_drop_in(&layout).unwrap().unwrap();
        assert!(written.contains("APIResponseCompression=true"));
    }
}

#[tokio::test]
async fn a_request_whose_file_comes_back_after_a_crash_is_carried_out_once() {
    let root = tempfile::tempdir().unwrap();
    let (layout, text) = node_that_asks(root.path());
    write_at_boot(&layout, &text);
    let node = DropInInputs::read(&Configuration::load(&layout));
    let mut first = driver(&layout);
    first.take_request("r2", &rollback_by_bob(), &node).await;
    let begun = first.trial.clone().unwrap();
    assert_eq!(
        (begun.change, begun.taken_back.as_ref()),
        (GateChange::Rollback, None)
    );
    let mut second = driver(&layout);
    second.take_request("r2", &rollback_by_bob(), &node).await;
    assert_eq!(second.trial, Some(begun));
    // Another one ends it.
    second.take_request("r3", &rollback_by_bob(), &node).await;
    let by = second.trial.and_then(|trial| trial.taken_back);
    assert_eq!(by.as_deref(), Some("r3"));
}

#[tokio::test]
async fn a_rollback_leaves_what_a_boot_has_added_to_and_removes_what_it_has_added() {
    let root = tempfile::tempdir().unwrap();
    let (layout, text) = node_that_asks(root.path());
    let good = KnownGood {
        version: "1.34.2".to_owned(),
        at: Timestamp::UNIX_EPOCH,
        content: Some(text.clone()),
        previous: Some(DropInSnapshot::default()),
        verified: None,
    };
    StateFile::KnownGood.keep(&layout, &good).unwrap();
    let both = text.replace("=false", "=false,ImageVolume=true");
    put_drop_in(&layout, Some(&both)).unwrap();
    let node = DropInInputs::read(&Configuration::load(&layout));
    let mut driver = driver(&layout);
    driver.take_request("r2", &rollback_by_bob(), &node).await;
    let begun = driver.trial.unwrap();
    assert_eq!(begun.asked.content, Some(text));
}

/// RKE2's configuration of an etcd-only server, such as a witness.
fn disable_apiserver(root: &std::path::Path) {
    let config = root.join("etc/rancher/rke2/config.yaml");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(config, "disable-apiserver: true\n").unwrap();
}

#[tokio::test]
async fn gates_of_components_that_this_server_does_not_run_are_not_tried() {
    let root = tempfile::tempdir().unwrap();
    let (layout, _) = node_that_asks(root.path());
    disable_apiserver(root.path());
    let node = DropInInputs::read(&Configuration::load(&layout));
    let mut driver = driver(&layout);
    let mut request = SpooledRequest::new(RequestAction::GatesApply, "bob", Timestamp::UNIX_EPOCH);
    for (name, force) in [("r1", false), ("r2", true)] {
        request.force = force;
        driver.take_request(name, &request, &node).await;
        let answer = driver.answers.last().unwrap();
        assert_eq!(answer.outcome, TrialOutcome::NotTried);
        assert!(
            answer.why.contains("does not run kube-apiserver"),
            "{}",
            answer.why
        );
    }
    assert_eq!(driver.trial, None);
}

#[tokio::test]
async fn a_server_without_kube_apiserver_notes_no_trial_for_the_other_servers() {
    let root = tempfile::tempdir().unwrap();
    let layout = Layout::new(root.path());
    disable_apiserver(root.path());
    let driver = driver(&layout);
    let trying = trial(TrialState::Restarting);
    // Without a kubeconfig, a note cannot be written.
    assert_eq!(driver.note_begun(&trying, &driver.site()).await, Ok(()));
}

#[test]
fn a_forced_gate_that_was_kept_unverified_stays_until_another_version_is_installed() {
    let root = tempfile::tempdir().unwrap();
    let (layout, _) = node_that_asks(root.path());
    let asks = "featureGates: {kubeScheduler: {MyDownstreamGate: true}}\n";
    std::fs::write(root.path().join("etc/windrow/windrow.yaml"), asks).unwrap();
    let text = "kube-scheduler-arg+:\n- \"feature-gates+=MyDownstreamGate=true\"\n";
    put_drop_in(&layout, Some(text)).unwrap();
    let mut driver = driver(&layout);
    let site = driver.site();
    let mut kept = trial(TrialState::Verifying);
    kept.asked.content = Some(text.to_owned());
    let gates = kept.gates(&site.own, &[]);
    let result = VerificationResult {
        unverified: vec![Unverified {
            gates,
            why: "it listens on ::1".to_owned(),
        }],
        ..VerificationResult::not_yet("")
    };
    for forced in [true, false] {
        // Later, an operator applies other gates without force.
        kept.forced = forced;
        driver
            .keep_good(&kept, "1.34.2".to_owned(), &result, &site)
            .unwrap();
        for rke2 in [Rke2State::Running, Rke2State::Stopped] {
            settle(&Configuration::load(&layout), rke2);
            let there = read_drop_in(&layout).unwrap().unwrap();
            assert!(there.contains("MyDownstreamGate=true"), "{forced} {rke2:?}");
        }
    }
    let binary = root.path().join("usr/local/bin/rke2");
    std::fs::write(binary, "\0v1.35.6+rke2r1\0").unwrap();
    settle(&Configuration::load(&layout), Rke2State::Running);
    assert_eq!(read_drop_in(&layout).unwrap(), None);
}

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/windrow-gates";

#[tokio::test]
async fn a_trial_that_waits_for_an_obstacle_leaves_the_lease_to_others() {
    let root = tempfile::tempdir().unwrap();
    let mut driver = driver(&Layout::new(root.path()));
    let (site, store) = (driver.site(), cluster());
    let client = store.client();
    let waiting = trial(TrialState::Idle);
    driver.hold_lease_by(&client, &waiting, &site, true).await;
    assert!(driver.leased);
    assert!(store.object(LEASE)["spec"]["holderIdentity"].is_string());
    put_upgrade(&store, "UpgradingNodes");
    driver.obstacle = None;
    driver.hold_lease_by(&client, &waiting, &site, true).await;
    assert!(!driver.leased && driver.waits_for.is_some());
    assert!(!store.object(LEASE)["spec"]["holderIdentity"].is_string());
    // It takes it again at the end of the upgrade.
    put_upgrade(&store, "Succeeded");
    driver.obstacle = None;
    driver.hold_lease_by(&client, &waiting, &site, true).await;
    assert!(driver.leased);
}

#[tokio::test]
async fn a_rollback_waits_for_another_server_only_if_that_has_begun_a_trial() {
    let root = tempfile::tempdir().unwrap();
    let mut driver = driver(&Layout::new(root.path()));
    let (site, store) = (driver.site(), cluster());
    let client = store.client();
    let mut lease = ClusterLease::new(ClusterLease::GATES, "node2".to_owned(), site.patience);
    lease.take(&client, Timestamp::now()).await.unwrap();
    let mut waiting = trial(TrialState::Idle);
    driver.hold_lease_by(&client, &waiting, &site, true).await;
    assert!(!driver.leased, "another change waits");
    waiting.change = GateChange::Rollback;
    driver.hold_lease_by(&client, &waiting, &site, true).await;
    assert!(driver.leased);
    let begun = TriedDropIn {
        by: "node2".to_owned(),
        request: "r7".to_owned(),
        version: waiting.version.clone(),
        content: None,
        at: Timestamp::UNIX_EPOCH,
        why: None,
    };
    let note = TrialNote::default().begun(begun).unwrap().text();
    lease.write_note(&client, None, note).await.unwrap();
    driver.hold_lease_by(&client, &waiting, &site, true).await;
    assert!(!driver.leased);
}

#[tokio::test]
async fn the_end_of_a_trial_is_noted_although_the_next_one_has_begun_before() {
    let root = tempfile::tempdir().unwrap();
    let (layout, text) = node_that_asks(root.path());
    write_at_boot(&layout, &text);
    let mut driver = driver(&layout);
    let (site, store) = (driver.site(), cluster());
    let client = store.client();
    driver.take_lease(&client, &site).await.unwrap();
    let mut kept = trial(TrialState::Kept);
    kept.outcome = Some(TrialOutcome::Kept);
    let [end] = ends_of(&kept, &layout).try_into().unwrap();
    let lease = driver.lease.as_ref().unwrap();
    let note = TrialNote::default().begun(end.tried).unwrap().text();
    lease.write_note(&client, None, note).await.unwrap();
    // kube-apiserver is down before this is reported, and an operator requests something else.
    driver.trial = Some(kept);
    let node = DropInInputs::read(&Configuration::load(&layout));
    driver.take_request("r2", &rollback_by_bob(), &node).await;
    let mut next = driver.trial.clone().unwrap();
    assert_eq!(next.request, "r2");
    next.outcome = Some(TrialOutcome::NotTried);
    driver.take_lease(&client, &site).await.unwrap();
    driver.note_ended(&client, &next, &site).await.unwrap();
    let note = store.object(LEASE)["metadata"]["annotations"]["windrow.dev/note"].clone();
    assert_eq!(note, "[]");
}
