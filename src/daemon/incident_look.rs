//! One look for known incidents: which lists it fetches, and which more follow from those.

use jiff::Timestamp;
use kube::Client;
use windrow_harvester::incidents::{
    DetectorResult, OwnNode, add_own, found_of, kinds_of, look, look_at_own, look_by_rules,
};
use windrow_harvester::objects::Objects;
use windrow_model::reasons::Code;
use windrow_plan::rules::FindingRule;

use crate::observe::objects::{Room, ask_by_name, look_in_rounds};

/// Looks at the whole cluster, and at this node.
pub(super) async fn look_at_cluster(
    client: &Client,
    now: fn() -> Timestamp,
    own: &OwnNode,
) -> Vec<DetectorResult> {
    look_by(client, |objects| {
        let mut looked = look(objects, now());
        add_own(&mut looked, own, objects, now());
        looked
    })
    .await
}

/// Looks at this node alone, where another server looks at the cluster.
pub(super) async fn look_at_own_node(
    client: &Client,
    now: fn() -> Timestamp,
    own: &OwnNode,
) -> Vec<DetectorResult> {
    look_by(client, |objects| look_at_own(own, objects, now())).await
}

async fn look_by(
    client: &Client,
    judge: impl Fn(&Objects) -> Vec<DetectorResult>,
) -> Vec<DetectorResult> {
    let (mut objects, mut room) = (Objects::to_be_asked(), Room::of_the_daemon());
    look_in_rounds(client, &mut objects, &mut room, judge).await
}

/// Looks for what the configuration's rules describe. Expressions are evaluated off the loop's thread.
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
    tokio::task::spawn_blocking(move || look_by_rules(&objects, &rules))
        .await
        .unwrap_or_default()
}

/// Has an incident ended?
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
