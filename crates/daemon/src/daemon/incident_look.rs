//! One look for known incidents: which lists it fetches, and which more follow from those.
//!
//! Users decide how many objects there are, and how large. So a look is judged on a separate thread: the daemon's loop
//! does not wait for it, nor does the end of the daemon.

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;
use windrow_harvester::incidents::{
    DetectorResult, OwnNode, add_own, found_of, kinds_of, look, look_at_own, look_by_rules,
};
use windrow_harvester::objects::Objects;
use windrow_model::reasons::Code;
use windrow_plan::rules::FindingRule;

use crate::observe::objects::{Room, ask_by_name, look_in_rounds};

/// How long a look may take; incidents that it has not examined by then are not judged.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// The place for a look. Nothing can interrupt a judgement: it keeps a thread, and the objects of its look, until it has
/// ended, even if the look was given up. No other look begins before.
#[derive(Debug, Clone)]
pub(super) struct LookPlace(Arc<Semaphore>);

impl Default for LookPlace {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl LookPlace {
    async fn take(&self) -> Arc<OwnedSemaphorePermit> {
        match self.0.clone().acquire_owned().await {
            Ok(place) => Arc::new(place),
            // Nothing closes it.
            Err(_) => pending().await,
        }
    }
}

pub(super) async fn look_at_cluster(
    client: &Client,
    place: &LookPlace,
    now: fn() -> Timestamp,
    own: &OwnNode,
) -> Vec<DetectorResult> {
    let own = own.clone();
    look_by(client, place, move |objects| {
        let mut looked = look(objects, now());
        add_own(&mut looked, &own, objects, now());
        looked
    })
    .await
}

/// Like [`look_at_cluster`] for a repair, which must end: the diagnosis waits for it.
///
/// # Errors
///
/// In a line, that the look took too long.
pub(super) async fn look_within(
    patience: Duration,
    client: &Client,
    place: &LookPlace,
    now: fn() -> Timestamp,
) -> Result<Vec<DetectorResult>, String> {
    let own = OwnNode::default();
    let looked = timeout(patience, look_at_cluster(client, place, now, &own)).await;
    looked.map_err(|_| format!("a look took longer than {} s", patience.as_secs()))
}

/// Examines only this node, when another server examines the cluster.
pub(super) async fn look_at_own_node(
    client: &Client,
    place: &LookPlace,
    now: fn() -> Timestamp,
    own: &OwnNode,
) -> Vec<DetectorResult> {
    let own = own.clone();
    look_by(client, place, move |objects| {
        look_at_own(&own, objects, now())
    })
    .await
}

async fn look_by(
    client: &Client,
    place: &LookPlace,
    judge: impl Fn(&Objects) -> Vec<DetectorResult> + Send + Sync + 'static,
) -> Vec<DetectorResult> {
    let place = place.take().await;
    let judge = Arc::new(judge);
    let beside = |objects| {
        let (judge, place) = (judge.clone(), place.clone());
        let judged = spawn_blocking(move || {
            let looked = judge(&objects);
            drop(place);
            (objects, looked)
        });
        async {
            match judged.await.map_err(JoinError::try_into_panic) {
                Ok(judged) => judged,
                Err(Ok(panic)) => resume_unwind(panic),
                // The daemon ends.
                Err(Err(_)) => pending().await,
            }
        }
    };
    let mut room = Room::of_the_daemon();
    look_in_rounds(client, Objects::to_be_asked(), &mut room, beside)
        .await
        .1
}

/// Evaluates the finding rules of the configuration.
pub(super) async fn look_by_rules_at_cluster(
    client: &Client,
    place: &LookPlace,
    rules: &[FindingRule],
) -> Vec<DetectorResult> {
    if rules.is_empty() {
        return Vec::new();
    }
    let place = place.take().await;
    let mut objects = Objects::default();
    let mut room = Room::of_the_daemon();
    ask_by_name(client, &kinds_of(rules), &mut objects, &mut room).await;
    let rules = rules.to_vec();
    let judged = spawn_blocking(move || {
        let looked = look_by_rules(&objects, &rules);
        drop((objects, place));
        looked
    });
    judged.await.unwrap_or_default()
}

/// Whether an incident has ended.
///
/// # Errors
///
/// In a line, that it lasts, or that this is unknown.
pub(super) fn is_over(
    looked: Result<Vec<DetectorResult>, String>,
    code: Code,
    subject: &str,
) -> Result<(), String> {
    let looked = looked.map_err(|why| format!("it cannot be judged again: {why}"))?;
    let found =
        found_of(&looked, code).map_err(|why| format!("it cannot be judged again: {why}"))?;
    match found.into_iter().find(|one| one.subject == subject) {
        Some(finding) => Err(format!("it is still there: {}", finding.message)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;
    use std::thread;

    use http::{Request, Response};
    use kube::client::Body;
    use tokio::sync::mpsc;

    use super::*;

    /// A cluster without objects.
    fn client() -> Client {
        let answer = async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty()));
        Client::new(tower::service_fn(answer), "default")
    }

    #[tokio::test]
    async fn objects_are_judged_beside_the_thread_that_asks_for_them() {
        let here = thread::current().id();
        look_by(&client(), &LookPlace::default(), move |_| {
            assert_ne!(thread::current().id(), here);
            Vec::new()
        })
        .await;
    }

    #[tokio::test]
    async fn a_repair_does_not_wait_forever_for_a_look_that_does_not_end() {
        let place = LookPlace::default();
        let _other_look = place.take().await;
        let (client, now) = (client(), || Timestamp::UNIX_EPOCH);
        let looked = look_within(Duration::ZERO, &client, &place, now).await;
        let judged = is_over(looked, Code::AddonStuck, "Addon a");
        assert_eq!(
            judged,
            Err("it cannot be judged again: a look took longer than 0 s".to_owned())
        );
    }

    #[test]
    fn while_a_judgement_does_not_end_the_loop_goes_on_and_no_other_look_begins() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        // One thread for the judgement that does not end, and one for all others, in their order.
        let runtime = runtime.max_blocking_threads(2).build().unwrap();
        runtime.block_on(look_beside_a_judgement_that_does_not_end());
    }

    async fn look_beside_a_judgement_that_does_not_end() {
        let (client, place) = (client(), LookPlace::default());
        let (begun, mut has_begun) = mpsc::unbounded_channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let ends = Mutex::new(ends);
        let stuck = look_by(&client, &place, {
            let begun = begun.clone();
            move |_| {
                begun.send("the first").unwrap();
                let _ = ends.lock().unwrap().recv();
                Vec::new()
            }
        });
        // The only thread of this runtime hears of it, and nobody waits for the look any more.
        tokio::select! {
            _ = stuck => panic!("it has ended"),
            name = has_begun.recv() => assert_eq!(name, Some("the first")),
        }
        let mut other = Box::pin(look_by(&client, &place, move |_| {
            begun.send("the other").unwrap();
            Vec::new()
        }));
        tokio::select! {
            biased;
            _ = &mut other => panic!("it has ended"),
            () = tokio::task::yield_now() => {}
        }
        spawn_blocking(|| ()).await.unwrap();
        assert!(has_begun.try_recv().is_err(), "two judgements at a time");
        drop(end);
        other.await;
        assert_eq!(has_begun.recv().await, Some("the other"));
    }
}
