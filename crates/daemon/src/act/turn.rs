//! Whose turn it is to repair: of this node's processes by a lock, of the cluster's servers by a lease.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{Method, Request};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use tokio::sync::Mutex;
use tokio::time::sleep;
use tower::BoxError;

use super::lease::since_boot;
use super::repair::{PATIENCE, Records, RepairContext, RestoreNote};
use super::{ClusterLease, LeaseHolder};
use crate::lock::Lock;

pub(super) const LOCK: &str = "repairs.lock";
/// How long the lease counts without being renewed.
pub(super) const LEASE: Duration = Duration::from_secs(60);
/// How often it is renewed while a cure is carried out, and how soon after a failure.
const RENEW: Duration = Duration::from_secs(20);
const RENEW_AGAIN: Duration = Duration::from_secs(5);
/// For how long after a renewal something may be changed: the change has to be through before another server may take
/// the lease over.
const SURE: Duration = LEASE.saturating_sub(PATIENCE);

pub fn lease_on_repairs(holder: String) -> ClusterLease {
    ClusterLease::new(ClusterLease::REPAIRS, holder, LEASE)
}

pub struct Turn<'c> {
    lease: ClusterLease,
    client: &'c Client,
    now: fn() -> Timestamp,
    /// Until when no other server can have it, in milliseconds since the machine's start.
    sure: Arc<AtomicU64>,
    /// Held while the lease is read and written: two writes at a time would refuse each other.
    writes: Arc<Mutex<()>>,
    _lock: Lock,
}

#[derive(Debug)]
pub struct NoTurn {
    /// The lease, which remembers since when another node's lease has run out.
    pub lease: ClusterLease,
    pub why: String,
    /// It may become ours later: another server has it, or kube-apiserver does not answer.
    pub may_come: bool,
}

impl<'c> Turn<'c> {
    /// # Errors
    ///
    /// Why it is not ours.
    pub async fn take(
        mut lease: ClusterLease,
        state_dir: &Path,
        client: &'c Client,
        now: fn() -> Timestamp,
    ) -> Result<Self, Box<NoTurn>> {
        let no = |lease, why, may_come| {
            Err(Box::new(NoTurn {
                lease,
                why,
                may_come,
            }))
        };
        let path = state_dir.join(LOCK);
        let lock = match Lock::take(&path) {
            Ok(Some(lock)) => lock,
            Ok(None) => {
                let why = "another repair is under way on this node".to_owned();
                return no(lease, why, true);
            }
            Err(error) => return no(lease, format!("{}: {error}", path.display()), false),
        };
        match lease.take(client, now()).await {
            Ok(LeaseHolder::Us) => {
                let turn = Self {
                    lease,
                    client,
                    now,
                    sure: Arc::default(),
                    writes: Arc::default(),
                    _lock: lock,
                };
                turn.note_renewal();
                Ok(turn)
            }
            Ok(LeaseHolder::Other(who)) => no(
                lease,
                format!("{who} has the cluster's lease on repairs"),
                true,
            ),
            Err(why) => no(lease, why, true),
        }
    }

    /// A client for the work of this turn. Once the turn may be another server's, because this process was suspended or
    /// kube-apiserver did not take a renewal, it sends only reading requests.
    pub fn client(&self) -> Client {
        let (client, sure) = (self.client.clone(), Arc::clone(&self.sure));
        let service = tower::service_fn(move |request: Request<Body>| {
            let may = *request.method() == Method::GET
                || since_boot() < Duration::from_millis(sure.load(Ordering::Relaxed));
            let client = client.clone();
            async move {
                match may {
                    true => client.send(request).await.map_err(BoxError::from),
                    false => Err(BoxError::from(
                        "not sent: the lease on repairs was not renewed in time",
                    )),
                }
            }
        });
        Client::new(service, self.client.default_namespace())
    }

    pub fn repair_context(&self, records: &Records) -> RepairContext {
        let (client, holder) = (self.client(), self.lease.holder().to_owned());
        RepairContext {
            note: RestoreNote::new(client.clone(), holder, Arc::clone(&self.writes)),
            records: records.clone(),
            client,
        }
    }

    fn note_renewal(&self) {
        let until = self.lease.renewed().map(|renewed| renewed + SURE);
        let until = until.map_or(0, |until| until.as_millis());
        let until = u64::try_from(until).unwrap_or_default();
        self.sure.store(until, Ordering::Relaxed);
    }

    /// Does something while the turn lasts.
    ///
    /// # Errors
    ///
    /// Why it was not finished: its own reason, or that the turn was lost.
    pub async fn during<T>(
        &mut self,
        work: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        tokio::select! {
            done = work => done,
            why = self.keep() => Err(why),
        }
    }

    /// Renews the lease as long as that succeeds; returns why it failed.
    async fn keep(&mut self) -> String {
        let mut failing: Option<Instant> = None;
        loop {
            sleep(failing.map_or(RENEW, |_| RENEW_AGAIN)).await;
            let writes = Arc::clone(&self.writes);
            let alone = writes.lock().await;
            let renewed = self.lease.take(self.client, (self.now)()).await;
            drop(alone);
            self.note_renewal();
            if let Some(why) = why_lost(renewed, &mut failing, Instant::now()) {
                return why;
            }
        }
    }

    /// Reads the notes that the servers left for each other.
    ///
    /// # Errors
    ///
    /// In a line, when kube-apiserver does not answer or refuses.
    pub async fn note(&self) -> Result<Option<String>, String> {
        self.lease.note(self.client).await
    }

    /// Replaces the note, if it is still `before`.
    ///
    /// # Errors
    ///
    /// In a line, when kube-apiserver does not answer or refuses, the turn is lost, or the note has changed since.
    pub async fn write_note(&self, before: Option<&str>, note: String) -> Result<(), String> {
        self.lease.write_note(self.client, before, note).await
    }

    pub async fn end(self) -> ClusterLease {
        // A lease that is not given back expires.
        let _ = self.lease.release(self.client).await;
        self.lease
    }
}

fn why_lost(
    renewed: Result<LeaseHolder, String>,
    failing: &mut Option<Instant>,
    now: Instant,
) -> Option<String> {
    match renewed {
        Ok(LeaseHolder::Us) => {
            *failing = None;
            None
        }
        Ok(LeaseHolder::Other(who)) => {
            Some(format!("{who} has the cluster's lease on repairs now"))
        }
        // kube-apiserver may be away for a moment. Nothing is changed once the lease may be another server's.
        Err(why) => {
            let since = *failing.get_or_insert(now);
            (now.duration_since(since) > LEASE)
                .then(|| format!("the lease on repairs cannot be renewed: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::ObjectStore;
    use super::*;

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    /// The turn of `node1`, while no other server repairs.
    async fn first_turn<'a>(state_dir: &Path, client: &'a Client) -> Turn<'a> {
        let lease = lease_on_repairs("node1".to_owned());
        match Turn::take(lease, state_dir, client, now).await {
            Ok(turn) => turn,
            Err(no) => panic!("{}", no.why),
        }
    }

    async fn why_not(holder: &str, state_dir: &Path, client: &Client) -> String {
        let lease = lease_on_repairs(holder.to_owned());
        match Turn::take(lease, state_dir, client, now).await {
            Ok(_) => "it was taken".to_owned(),
            Err(no) => no.why,
        }
    }

    #[tokio::test]
    async fn one_repair_at_a_time_is_under_way_on_a_node_and_in_the_cluster() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = ObjectStore::default();
        let client = store.client();
        let mut turn = first_turn(here.path(), &client).await;
        let why = why_not("node1", here.path(), &client).await;
        assert!(why.contains("on this node"), "{why}");
        let why = why_not("node2", there.path(), &client).await;
        assert!(why.starts_with("node1 has"), "{why}");

        // The lease is kept for as long as the work takes.
        let work = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            Ok(7)
        };
        assert_eq!(turn.during(work).await, Ok(7));
        let failed: Result<(), _> = turn.during(async { Err("x".to_owned()) }).await;
        assert_eq!(failed, Err("x".to_owned()));
        assert_eq!(turn.note().await, Ok(None));
        turn.write_note(None, "since noon".to_owned())
            .await
            .unwrap();
        assert_eq!(turn.note().await, Ok(Some("since noon".to_owned())));

        turn.end().await;
        assert_eq!(
            why_not("node2", there.path(), &client).await,
            "it was taken"
        );
    }

    #[tokio::test]
    async fn a_turn_that_another_has_may_come_and_one_without_a_lock_does_not() {
        let here = tempfile::tempdir().unwrap();
        let store = ObjectStore::default();
        let client = store.client();
        let _first = first_turn(here.path(), &client).await;
        let lock = here.path().join("file");
        std::fs::write(&lock, "").unwrap();
        for (state_dir, may_come) in [(here.path(), true), (lock.as_path(), false)] {
            let lease = lease_on_repairs("node1".to_owned());
            let taken = Turn::take(lease, state_dir, &client, now).await;
            assert_eq!(taken.err().map(|no| no.may_come), Some(may_come));
        }
    }

    #[tokio::test]
    async fn nothing_is_changed_once_another_server_may_have_the_turn() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = ObjectStore::default();
        let client = store.client();
        let mut turn = first_turn(here.path(), &client).await;
        let change = async |client: &Client| {
            let request = Request::post("/api/v1/namespaces/default/things");
            let body = serde_json::json!({"metadata": {"name": "a"}}).to_string();
            let sent = client.send(request.body(Body::from(body.into_bytes())).unwrap());
            sent.await.map(|answer| answer.status().as_u16())
        };
        let guarded = turn.client();
        assert_eq!(change(&guarded).await.unwrap(), 201);

        // The process was suspended for as long as another server waits before it takes the lease over.
        let stood_still = |turn: &Turn<'_>| {
            let until = turn.sure.load(Ordering::Relaxed);
            let long = u64::try_from(SURE.as_millis()).unwrap();
            turn.sure
                .store(until.saturating_sub(long), Ordering::Relaxed);
        };
        stood_still(&turn);
        let why = change(&guarded).await.unwrap_err().to_string();
        assert!(why.contains("not renewed in time"), "{why}");
        let asked = Request::get("/api/v1/namespaces/default/things/a");
        let asked = guarded.send(asked.body(Body::empty()).unwrap()).await;
        assert_eq!(asked.unwrap().status(), 200, "questions change nothing");

        // The lease is still its own: from the renewal on it goes on.
        turn.lease
            .take(&client, Timestamp::from_second(30).unwrap())
            .await
            .unwrap();
        turn.note_renewal();
        assert_eq!(change(&guarded).await.unwrap(), 201);

        // Another server has it.
        let other = lease_on_repairs("node2".to_owned());
        turn.lease.release(&client).await.unwrap();
        assert!(Turn::take(other, there.path(), &client, now).await.is_ok());
        let taken = turn.lease.take(&client, now()).await;
        assert_eq!(taken, Ok(LeaseHolder::Other("node2".to_owned())));
        turn.note_renewal();
        assert!(change(&guarded).await.is_err());
    }

    #[test]
    fn a_turn_is_lost_when_another_server_has_it_or_when_it_was_not_renewed_for_as_long_as_it_counts()
     {
        let start = Instant::now();
        let away = || Err("connection refused".to_owned());
        let mut failing = None;
        let mut lost = |renewed, seconds: u64| {
            why_lost(renewed, &mut failing, start + Duration::from_secs(seconds))
        };
        assert_eq!(lost(away(), 20), None);
        assert_eq!(lost(away(), 80), None, "its last minute is not over");
        assert_eq!(lost(Ok(LeaseHolder::Us), 81), None);
        assert_eq!(lost(away(), 100), None, "it was renewed meanwhile");
        let why = lost(away(), 161).unwrap();
        assert!(
            why.ends_with("cannot be renewed: connection refused"),
            "{why}"
        );
        let why = lost(Ok(LeaseHolder::Other("node2".to_owned())), 20).unwrap();
        assert!(why.starts_with("node2 has"), "{why}");
    }
}
