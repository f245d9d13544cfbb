use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::super::testing::ObjectStore;
use super::*;

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/windrow-gates";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn lease(holder: &str) -> ClusterLease {
    ClusterLease::new(
        ClusterLease::GATES,
        holder.to_owned(),
        Duration::from_secs(60),
    )
}

fn held_by(holder: &str) -> LeaseHolder {
    LeaseHolder::Other(holder.to_owned())
}

fn holder(store: &ObjectStore) -> Value {
    store.object(PATH)["spec"]["holderIdentity"].clone()
}

/// Whether a server takes another one's lease over that has not changed for this many seconds.
fn takes_over(theirs: &LeaseSpec, unchanged: u64) -> bool {
    let mut ours = lease("node2");
    let seen = Instant::now().checked_sub(Duration::from_secs(unchanged));
    ours.seen = Some(("7".to_owned(), seen.unwrap()));
    let takes = ours.may_take_over("7", theirs);
    assert!(!ours.may_take_over("8", theirs), "it was renewed just now");
    takes
}

#[test]
fn a_lease_is_taken_over_after_it_was_unchanged_for_as_long_as_it_counts() {
    let mut theirs = lease("node1");
    theirs.count_for(Duration::from_secs(1800));
    let theirs = theirs.spec(None, at(1000));
    assert!(!takes_over(&theirs, 61) && !takes_over(&theirs, 1799));
    assert!(takes_over(&theirs, 1800));
}

#[test]
fn a_lease_of_another_holder_counts_no_longer_than_windrow_writes_it() {
    let mut theirs = lease("node1").spec(None, at(1000));
    theirs.lease_duration_seconds = Some(i32::MAX);
    assert!(!takes_over(&theirs, 86_399) && takes_over(&theirs, 86_400));
    let mut ours = lease("node2");
    ours.name = ClusterLease::REPAIRS;
    let seen = Instant::now().checked_sub(Duration::from_secs(60));
    ours.seen = Some(("7".to_owned(), seen.unwrap()));
    assert!(ours.may_take_over("7", &theirs));
    // Nor does a server count on its own lease for longer.
    let day = Duration::from_secs(86_400);
    let own = ClusterLease::new(ClusterLease::GATES, String::new(), day * 2);
    assert_eq!(own.seconds, 86_400);
}

#[tokio::test]
async fn a_lease_on_repairs_is_not_held_for_longer_than_windrow_writes_it() {
    let store = ObjectStore::default();
    store.put_lease_of("node9");
    let mut forged = store.object(super::super::testing::LEASE);
    forged["spec"]["leaseDurationSeconds"] = json!(i32::MAX);
    forged["spec"]["renewTime"] = json!("1970-01-01T00:16:40.000000Z");
    store.put(super::super::testing::LEASE, forged);
    let held = async |second| {
        let client = store.client();
        ClusterLease::is_held(&client, ClusterLease::REPAIRS, at(second)).await
    };
    assert_eq!(held(1000 + 179).await, Ok(true));
    assert_eq!(held(1000 + 181).await, Ok(false));
}

#[test]
fn a_short_lease_and_one_without_a_duration_are_left_alone_for_a_minute() {
    let mut short = lease("node1");
    short.count_for(Duration::from_secs(1));
    let mut without = lease("node1").spec(None, at(1000));
    without.lease_duration_seconds = None;
    for theirs in [short.spec(None, at(1000)), without] {
        assert!(!takes_over(&theirs, 59));
        assert!(takes_over(&theirs, 60));
    }
}

#[tokio::test]
async fn a_clock_that_is_ahead_takes_no_lease_from_its_holder() {
    let store = ObjectStore::default();
    let mut theirs = lease("node1");
    theirs.count_for(Duration::from_secs(1800));
    theirs.take(&store.client(), at(1000)).await.unwrap();
    let mut ours = lease("node2");
    let two_hours_ahead = at(1061 + 7200);
    let first = ours.take(&store.client(), two_hours_ahead).await;
    assert_eq!(first, Ok(held_by("node1")));
    // Its holder restarts kube-apiserver, and does not renew it for a minute.
    ours.seen = ours
        .seen
        .map(|(version, since)| (version, since.checked_sub(Duration::from_secs(61)).unwrap()));
    let second = ours.take(&store.client(), two_hours_ahead).await;
    assert_eq!(second, Ok(held_by("node1")));
}

#[test]
fn a_lease_counts_for_its_holder_from_the_last_renewal_on_however_long_it_stood_still() {
    let mut ours = lease("node1");
    assert!(!ours.counts_still(), "it was never taken");
    let ago = |seconds| since_boot().checked_sub(Duration::from_secs(seconds));
    ours.renewed = ago(1);
    assert!(ours.counts_still());
    ours.renewed = ago(61);
    assert!(!ours.counts_still());
}

#[tokio::test]
async fn a_lease_of_an_earlier_process_is_renewed_before_anything_rests_on_it() {
    let store = ObjectStore::default();
    let client = store.client();
    lease("node1").take(&client, at(1000)).await.unwrap();
    let mut again = lease("node1");
    assert_eq!(again.renewed(), None);
    assert_eq!(again.take(&client, at(1010)).await, Ok(LeaseHolder::Us));
    assert!(again.renewed().is_some());
    let renewed = store.object(PATH)["spec"]["renewTime"].clone();
    assert_eq!(renewed, json!("1970-01-01T00:16:50.000000Z"));
}

#[test]
fn taking_over_counts_a_transition_and_renewing_does_not() {
    let first = lease("node1").spec(None, at(1000));
    assert_eq!(first.lease_transitions, Some(0));
    let again = lease("node1").spec(Some(&first), at(1010));
    assert_eq!(again.lease_transitions, Some(0));
    assert_eq!(again.acquire_time, first.acquire_time);
    let other = lease("node2").spec(Some(&first), at(2000));
    assert_eq!(other.lease_transitions, Some(1));
    assert_eq!(other.acquire_time, Some(MicroTime(at(2000))));
    assert!(!due(&again, at(1025)) && due(&again, at(1030)));
}

#[tokio::test]
async fn a_lease_that_is_free_is_taken_once_and_the_second_server_hears_who_has_it() {
    let store = ObjectStore::default();
    let client = store.client();
    let (mut first, mut second) = (lease("node1"), lease("node2"));
    assert_eq!(first.take(&client, at(1000)).await, Ok(LeaseHolder::Us));
    let refused = second.take(&client, at(1010)).await;
    assert_eq!(refused, Ok(held_by("node1")));
    assert_eq!(holder(&store), "node1");
    // Only the holder releases it.
    second.release(&client).await.unwrap();
    assert_eq!(holder(&store), "node1");
    first.release(&client).await.unwrap();
    assert_eq!(holder(&store), Value::Null);
    assert_eq!(second.take(&client, at(1011)).await, Ok(LeaseHolder::Us));
    assert_eq!(holder(&store), "node2");
}

#[tokio::test]
async fn a_holder_renews_its_lease_when_some_of_its_time_has_passed() {
    let store = ObjectStore::default();
    let client = store.client();
    let mut ours = lease("node1");
    ours.take(&client, at(1000)).await.unwrap();
    let first = store.object(PATH);
    assert_eq!(ours.take(&client, at(1010)).await, Ok(LeaseHolder::Us));
    assert_eq!(store.object(PATH), first, "nothing is written so soon");
    assert_eq!(ours.take(&client, at(1020)).await, Ok(LeaseHolder::Us));
    let renewed = store.object(PATH);
    assert_ne!(renewed["spec"]["renewTime"], first["spec"]["renewTime"]);
    assert_eq!(renewed["spec"]["acquireTime"], first["spec"]["acquireTime"]);
}

#[tokio::test]
async fn a_lease_without_a_time_is_not_taken_over_at_first_sight() {
    let store = ObjectStore::default();
    let spec = json!({"holderIdentity": "node9"});
    store.put(PATH, json!({"metadata": {}, "spec": spec}));
    let mut ours = lease("node1");
    let taken = ours.take(&store.client(), at(1000)).await;
    assert_eq!(taken, Ok(held_by("node9")));
    ours.seen = ours
        .seen
        .map(|(version, since)| (version, since.checked_sub(UNMOVED).unwrap()));
    let taken = ours.take(&store.client(), at(1001)).await;
    assert_eq!(taken, Ok(LeaseHolder::Us));
    assert_eq!(store.object(PATH)["spec"]["leaseTransitions"], 1);
}

#[tokio::test]
async fn the_loser_of_a_race_does_not_have_the_lease_and_a_refusal_is_an_error() {
    let store = ObjectStore::default();
    let client = store.client();
    let mut ours = lease("node1");
    store.refuse(Method::POST, StatusCode::CONFLICT);
    let lost = ours.take(&client, at(1000)).await.unwrap();
    assert!(matches!(lost, LeaseHolder::Other(_)));
    store.refuse(Method::POST, StatusCode::FORBIDDEN);
    let why = ours.take(&client, at(1000)).await.unwrap_err();
    assert!(why.starts_with("403: ") && why.contains("says no"), "{why}");
    ours.take(&client, at(1000)).await.unwrap();
    store.refuse(Method::PUT, StatusCode::FORBIDDEN);
    assert!(ours.release(&client).await.is_err());
    // Another server has taken it over meanwhile: there is nothing to give back.
    store.refuse(Method::PUT, StatusCode::CONFLICT);
    assert_eq!(ours.release(&client).await, Ok(()));
}

#[tokio::test]
async fn what_the_holder_writes_down_is_read_by_others_and_nobody_else_writes() {
    let store = ObjectStore::default();
    let client = store.client();
    let (mut ours, other) = (lease("node1"), lease("node2"));
    assert_eq!(other.note(&client).await, Ok(None));
    let gone = ours.write_note(&client, None, "a".to_owned()).await;
    assert!(gone.unwrap_err().contains("gone"));
    ours.take(&client, at(1000)).await.unwrap();
    ours.write_note(&client, None, "a".to_owned())
        .await
        .unwrap();
    assert_eq!(other.note(&client).await, Ok(Some("a".to_owned())));
    let why = other
        .write_note(&client, Some("a"), "b".to_owned())
        .await
        .unwrap_err();
    assert!(why.contains("another server"), "{why}");
    assert_eq!(other.note(&client).await, Ok(Some("a".to_owned())));
    // Two machines of one identity read the same note: the later of them does not write.
    let twin = lease("node1");
    twin.write_note(&client, Some("a"), "c".to_owned())
        .await
        .unwrap();
    let late = ours.write_note(&client, Some("a"), "d".to_owned()).await;
    assert!(late.unwrap_err().contains("another"));
    assert_eq!(other.note(&client).await, Ok(Some("c".to_owned())));
    store.refuse(Method::PUT, StatusCode::INTERNAL_SERVER_ERROR);
    let failed = ours.write_note(&client, Some("c"), "d".to_owned()).await;
    assert!(failed.is_err());
}
