//! A look that fetches the lists that it wants, and the lists that follow from them: for a healthy cluster there are
//! few.

use std::future::{Ready, ready};

use jiff::Timestamp;
use kube::Client;
use windrow_harvester::incidents::{
    DetectorResult, Diagnosis, MOST_ROUNDS, look, summed_up, wanted,
};
use windrow_harvester::objects::{ObjectKind, Objects};

use super::{Room, ask};

pub(super) type Judged = (Objects, Vec<DetectorResult>);

/// Judges these objects, and again with every further list.
pub async fn look_in_rounds<F: Future<Output = Judged>>(
    client: &Client,
    objects: Objects,
    room: &mut Room,
    judge: impl Fn(Objects) -> F,
) -> Judged {
    let (mut objects, mut looked) = judge(objects).await;
    for _ in 0..MOST_ROUNDS {
        let kinds = wanted(&looked);
        if kinds.is_empty() {
            break;
        }
        ask(client, &kinds, &mut objects, room).await;
        (objects, looked) = judge(objects).await;
    }
    (objects, looked)
}

/// Judges on the calling thread: a command has nothing else to do.
pub fn on_this_thread(
    judge: impl Fn(&Objects) -> Vec<DetectorResult>,
) -> impl Fn(Objects) -> Ready<Judged> {
    move |objects| {
        let looked = judge(&objects);
        ready((objects, looked))
    }
}

/// Fetches the lists of a look for a user. All pods are included from the start: the daemon's look, which costs each
/// server memory every few minutes, only fetches them when it has a reason.
pub async fn ask_for_a_person(
    client: &Client,
    judge: impl Fn(&Objects) -> Vec<DetectorResult>,
) -> Objects {
    let (mut objects, mut room) = (Objects::to_be_asked(), Room::of_a_person());
    ask(client, &[ObjectKind::POD], &mut objects, &mut room).await;
    look_in_rounds(client, objects, &mut room, on_this_thread(judge))
        .await
        .0
}

/// The known incidents, without symptoms.
pub async fn diagnosed(client: &Client, now: Timestamp) -> Diagnosis {
    let objects = ask_for_a_person(client, |objects| look(objects, now)).await;
    summed_up(look(&objects, now), now)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use windrow_model::reasons::Code;

    use super::*;

    /// A cluster of one node and a pod that should have ended ten hours ago, without an upgrade.
    async fn answer(request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let items: Vec<Value> = match request.uri().path() {
            "/api/v1/pods" => vec![json!({
                "metadata": {"name": "longhorn-manager-x", "namespace": "longhorn-system",
                    "deletionTimestamp": "2026-11-01T00:00:00Z", "finalizers": ["a/b"]},
                "spec": {"nodeName": "node1"}, "status": {"phase": "Running"}})],
            "/api/v1/nodes" => vec![json!({
                "metadata": {"name": "node1"},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}})],
            _ => Vec::new(),
        };
        let list = json!({"metadata": {}, "items": items}).to_string();
        Ok(Response::new(Body::from(list.into_bytes())))
    }

    #[tokio::test]
    async fn a_person_is_told_of_pods_that_do_not_end_without_an_upgrade_too() {
        let client = Client::new(tower::service_fn(answer), "default");
        let found = diagnosed(&client, "2026-11-01T10:00:00Z".parse().unwrap()).await;
        let codes: Vec<Code> = found.findings.iter().map(|one| one.code).collect();
        assert_eq!(codes, [Code::PlatformPodTerminating]);
    }
}
