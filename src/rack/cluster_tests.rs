//! Tests with a simulated kube-apiserver: the effect of lists, watches and refusals.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Mutex;

use http::{Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use windrow_rack::{Inventory, RackWord};

use super::*;
use crate::locked::lock;

/// Answers each request with the next of these, and then never again.
fn connection(answers: Vec<(u16, String)>) -> Connection {
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let answer = move |_: Request<Body>| {
        let next = lock(&answers).pop_front();
        async move {
            let Some((status, body)) = next else {
                return std::future::pending().await;
            };
            let mut response = Response::new(Body::from(body.into_bytes()));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok::<_, Infallible>(response)
        }
    };
    Connection::with_client(Client::new(tower::service_fn(answer), "default"))
}

fn node(name: &str, version: u64, old: i64, status: &str, message: &str) -> Value {
    let beat = Timestamp::now() - SignedDuration::from_secs(old);
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "resourceVersion": version.to_string()}, "status": {"conditions": [
        {"type": windrow_harvester::node_condition::CONDITION, "status": status, "reason": "X", "message": message,
            "lastHeartbeatTime": beat.to_string(), "lastTransitionTime": beat.to_string()}]}})
}

fn list(nodes: &[Value]) -> (u16, String) {
    let list = json!({"apiVersion": "v1", "kind": "NodeList", "metadata": {"resourceVersion": "5"}, "items": nodes});
    (200, list.to_string())
}

fn watched(kind: &str, node: &Value) -> String {
    json!({"type": kind, "object": node}).to_string() + "\n"
}

async fn until(answers: Vec<(u16, String)>, shown: impl Fn(&Hub) -> bool) -> Arc<Hub> {
    let hub = Hub::new(Inventory::default(), None, Timestamp::now).unwrap();
    let connection = connection(answers);
    let mut nodes = Nodes::new(&hub);
    nodes.connection = Some(connection.clone());
    let followed = all(&connection);
    let mut changes = hub.changes();
    let waits = async {
        while !shown(&hub) {
            changes.changed().await.unwrap();
        }
    };
    tokio::select! {
        () = followed.follow(&connection, &mut nodes) => panic!("it ended"),
        waited = tokio::time::timeout(Duration::from_secs(600), waits) => waited.unwrap(),
    }
    drop(nodes);
    hub
}

fn word(hub: &Hub, node: &str) -> Option<RackWord> {
    hub.view().node(node).map(|row| row.word)
}

#[tokio::test]
async fn what_changes_is_shown_at_once_and_a_clock_that_is_hours_off_makes_nobody_unknown() {
    let setting_up = node("n1", 1, 0, "True", "Setting up (kube-apiserver): refused");
    let behind = node("n2", 2, 3 * 3600, "False", "Ready: fine");
    let ready = watched("MODIFIED", &node("n1", 6, 0, "False", "Ready: fine"));
    let beats = watched(
        "MODIFIED",
        &node("n2", 7, 3 * 3600 - 60, "False", "Ready: fine"),
    );
    let hub = until(vec![list(&[setting_up.clone(), behind.clone()])], |hub| {
        word(hub, "n2").is_some()
    })
    .await;
    assert_eq!(word(&hub, "n1"), Some(RackWord::SettingUp));
    assert_eq!(
        word(&hub, "n2"),
        Some(RackWord::Unknown),
        "nobody knows whether it is kept true"
    );
    until(
        vec![list(&[setting_up, behind]), (200, ready + &beats)],
        |hub| {
            let both = [word(hub, "n1"), word(hub, "n2")];
            both == [Some(RackWord::Ready); 2]
        },
    )
    .await;
}

#[tokio::test]
async fn a_version_that_is_too_old_leads_to_a_new_list_and_no_notice() {
    let gone = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old","code":410}"#;
    let before = node("n1", 1, 0, "True", "Setting up (kube-apiserver): refused");
    let after = node("n1", 9, 0, "False", "Ready: fine");
    let answers = vec![list(&[before]), (410, gone.to_owned()), list(&[after])];
    let hub = until(answers, |hub| word(hub, "n1") == Some(RackWord::Ready)).await;
    assert!(hub.view().notices.is_empty());
}

#[tokio::test]
async fn a_refusal_is_said_with_its_reason_until_it_is_over_and_no_row_is_made_up() {
    let forbidden = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"nodes is forbidden: User \"ann\" cannot list","code":403}"#;
    let refused = |hub: &Hub| {
        let notices = &hub.view().notices;
        notices
            .iter()
            .any(|one| one.text.contains("403: nodes is forbidden"))
    };
    let hub = until(vec![(403, forbidden.to_owned())], refused).await;
    assert!(hub.view().nodes.is_empty());
    let answers = vec![
        (403, forbidden.to_owned()),
        list(&[node("n1", 1, 0, "False", "Ready: fine")]),
    ];
    let hub = until(answers, |hub| word(hub, "n1").is_some()).await;
    assert!(!refused(&hub));
}
