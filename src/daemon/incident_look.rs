//! One look for known incidents: what is listed for it, and because of what was seen.

use jiff::Timestamp;
use kube::Client;
use windrow_harvester::incidents::{
    DetectorResult, OwnNode, kinds_of, look, look_at_own, look_by_rules, wanted,
};
use windrow_harvester::objects::Objects;
use windrow_model::reasons::Code;
use windrow_plan::rules::FindingRule;

use crate::observe::objects::{Room, ask, ask_by_name};

/// A reason to ask for more leads to another one so many times at most.
const ROUNDS: usize = 8;

/// Looks at the cluster: lists what is wanted, and what is then wanted because of it.
pub(super) async fn look_at_cluster(
    client: &Client,
    now: fn() -> Timestamp,
    own: &OwnNode,
) -> Vec<DetectorResult> {
    let mut objects = Objects::to_be_asked();
    let mut room = Room::of_the_daemon();
    let all = |objects: &Objects| {
        let mut looked = look(objects, now());
        looked.extend(look_at_own(own, objects, now()));
        looked
    };
    let mut looked = all(&objects);
    for _ in 0..ROUNDS {
        let kinds = wanted(&looked);
        if kinds.is_empty() {
            break;
        }
        ask(client, &kinds, &mut objects, &mut room).await;
        looked = all(&objects);
    }
    looked
}

/// Looks for what the rules of the configuration describe. Expressions are not the loop's to wait for.
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

/// Is an incident recognised no longer?
///
/// # Errors
///
/// In a line, that it is, or that it cannot be said.
pub(super) async fn is_over(
    client: &Client,
    now: fn() -> Timestamp,
    code: Code,
    subject: &str,
) -> Result<(), String> {
    let looked = look_at_cluster(client, now, &OwnNode::default()).await;
    let mut found = looked.iter().flat_map(|one| one.found.iter().flatten());
    if let Some(finding) = found.find(|one| one.code == code && one.subject == subject) {
        return Err(format!("it is still there: {}", finding.message));
    }
    match looked.iter().find_map(|one| one.found.as_ref().err()) {
        Some(unlisted) => Err(format!("it cannot be judged again: {unlisted}")),
        None => Ok(()),
    }
}
