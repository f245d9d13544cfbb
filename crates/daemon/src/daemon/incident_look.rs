//! One look for known incidents: which lists it fetches, and which more follow from those.

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use tokio::task::{JoinError, spawn_blocking};
use windrow_harvester::incidents::{
    DetectorResult, OwnNode, add_own, found_of, kinds_of, look, look_at_own, look_by_rules,
};
use windrow_harvester::objects::Objects;
use windrow_model::reasons::Code;
use windrow_plan::rules::FindingRule;

use crate::observe::objects::{Room, ask_by_name, look_in_rounds};

pub(super) async fn look_at_cluster(
    client: &Client,
    now: fn() -> Timestamp,
    own: &OwnNode,
) -> Vec<DetectorResult> {
    let own = own.clone();
    look_by(client, move |objects| {
        let mut looked = look(objects, now());
        add_own(&mut looked, &own, objects, now());
        looked
    })
    .await
}

/// Examines only this node, when another server examines the cluster.
pub(super) async fn look_at_own_node(
    client: &Client,
    now: fn() -> Timestamp,
    own: &OwnNode,
) -> Vec<DetectorResult> {
    let own = own.clone();
    look_by(client, move |objects| look_at_own(&own, objects, now())).await
}

/// Judges outside the daemon's thread: users decide how many objects there are, and how large.
async fn look_by(
    client: &Client,
    judge: impl Fn(&Objects) -> Vec<DetectorResult> + Send + Sync + 'static,
) -> Vec<DetectorResult> {
    let judge = Arc::new(judge);
    let beside = |objects| {
        let judge = judge.clone();
        let judged = spawn_blocking(move || {
            let looked = judge(&objects);
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

/// Evaluates the finding rules of the configuration, outside the loop's thread.
pub(super) async fn look_by_rules_at_cluster(
    client: &Client,
    rules: &[FindingRule],
) -> Vec<DetectorResult> {
    if rules.is_empty() {
        return Vec::new();
    }
    let mut objects = Objects::default();
    let mut room = Room::of_the_daemon();
    ask_by_name(client, &kinds_of(rules), &mut objects, &mut room).await;
    let rules = rules.to_vec();
    spawn_blocking(move || look_by_rules(&objects, &rules))
        .await
        .unwrap_or_default()
}

/// Whether an incident has ended.
///
/// # Errors
///
/// In a line, that it lasts, or that this is unknown.
pub(super) async fn is_over(
    client: &Client,
    now: fn() -> Timestamp,
    code: Code,
    subject: &str,
) -> Result<(), String> {
    let looked = look_at_cluster(client, now, &OwnNode::default()).await;
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
    use std::thread;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn objects_are_judged_beside_the_thread_that_asks_for_them() {
        let answer = async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty()));
        let client = Client::new(tower::service_fn(answer), "default");
        let here = thread::current().id();
        look_by(&client, move |_| {
            assert_ne!(thread::current().id(), here);
            Vec::new()
        })
        .await;
    }
}
