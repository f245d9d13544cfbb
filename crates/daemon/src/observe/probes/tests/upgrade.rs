//! The signs that RKE2 is being upgraded other than by Harvester.

use windrow_plan::readiness::node::Transition;
use windrow_plan::rules::Platform;

use super::*;
use crate::observe::probes::cluster;
use crate::observe::probes::own_node::HeartbeatMemory;
use crate::observe::probes::upgrade::{Sign, SignMemory, is_seen_by_signs, take_sign};
use crate::testing::replies::{ServerReply, TestServer};

fn upgrading(events: &[NodeEvent]) -> Option<String> {
    events.iter().rev().find_map(|event| match event {
        NodeEvent::Transition(Transition::Upgrade, sign) => {
            sign.as_ref().map(|sign| sign.message.clone())
        }
        _ => None,
    })
}

fn node(cordoned: bool, running: &str) -> Sign {
    Sign::Node {
        cordoned,
        running: Some(running.to_owned()),
    }
}

fn jobs(status: &'static str) -> impl Fn(&str) -> ServerReply {
    move |target| match target.split('?').next().unwrap() {
        "/apis/batch/v1/jobs" => ServerReply::ok(&format!(
            r#"{{"items": [
                {{"metadata": {{"namespace": "tenant", "labels": {{"upgrade.cattle.io/plan": "of-another-user"}}}}, "status": {{"active": 1}}}},
                {{"metadata": {{"namespace": "system-upgrade", "labels": {{"upgrade.cattle.io/plan": "done"}}}},
                  "status": {{"conditions": [{{"type": "Complete", "status": "True"}}]}}}},
                {{"metadata": {{"namespace": "system-upgrade", "labels": {{"upgrade.cattle.io/plan": "server-plan"}}}}, "status": {status}}}]}}"#
        )),
        _ => ServerReply::ok(r#"{"status": {"nodeInfo": {"kubeletVersion": "v1.34.2+rke2r1"}}}"#),
    }
}

#[tokio::test]
async fn a_plans_job_on_the_node_is_an_upgrade_until_it_has_ended() {
    for (status, expected) in [
        (
            r#"{"active": 1}"#,
            Some("Plan server-plan of system-upgrade-controller"),
        ),
        ("{}", Some("Plan server-plan of system-upgrade-controller")),
        (
            r#"{"conditions": [{"type": "Complete", "status": "True"}]}"#,
            None,
        ),
        (
            r#"{"conditions": [{"type": "Failed", "status": "True"}]}"#,
            None,
        ),
    ] {
        let place = TestNode::new();
        let server = TestServer::http(jobs(status)).await;
        place.admin(&server);
        let context = place.context();
        let plain = Some(Platform::Rke2);
        let asked = cluster::own_node(
            &context,
            &SignMemory::default(),
            &HeartbeatMemory::default(),
            NodeRole::FirstServer,
            "n1",
            plain,
        )
        .await;
        assert_eq!(upgrading(&asked.events).as_deref(), expected, "{status}");
        let asked = server.asked().join("");
        assert!(asked.contains("upgrade.cattle.io%2Fnode%3Dn1"), "{asked}");
    }
}

#[tokio::test]
async fn jobs_are_not_asked_for_by_an_agent_nor_where_harvester_upgrades() {
    for (role, platform) in [
        (NodeRole::Agent, Platform::Rke2),
        (NodeRole::FirstServer, Platform::Harvester),
    ] {
        let place = TestNode::new();
        let server = TestServer::http(jobs("{}")).await;
        place.admin(&server);
        place.identity(&server);
        let asked = cluster::own_node(
            &place.context(),
            &SignMemory::default(),
            &HeartbeatMemory::default(),
            role,
            "n1",
            Some(platform),
        )
        .await;
        assert_eq!(upgrading(&asked.events), None);
        let heads = server.asked();
        assert!(
            !heads.iter().any(|head| head.contains("/jobs")),
            "{heads:?}"
        );
    }
    assert!(
        is_seen_by_signs(Some(Platform::Harvester), false),
        "by its unit and its cordon"
    );
}

#[test]
fn a_newer_binary_is_an_upgrade_while_the_unit_is_down_or_the_node_cordoned() {
    let place = TestNode::new();
    let binary =
        |version: &str| place.write("/usr/local/bin/rke2", format!("...{version}+rke2r1..."));
    binary("v1.35.6");
    let (context, memory) = (place.context(), SignMemory::default());
    let seen = |sign| upgrading(&[take_sign(&context, &memory, sign)]);
    assert_eq!(seen(Sign::Down(true)), None, "what ran is not known");
    assert_eq!(
        seen(node(false, "v1.34.2+rke2r1")),
        None,
        "it may lie there for weeks"
    );
    let why = "RKE2 v1.35.6 is installed, v1.34.2 ran";
    assert_eq!(seen(Sign::Down(true)).as_deref(), Some(why));
    assert_eq!(seen(Sign::Down(false)), None);
    assert_eq!(seen(node(true, "v1.34.2+rke2r1")).as_deref(), Some(why));
    assert_eq!(seen(node(true, "v1.35.6+rke2r1")), None, "it has arrived");
    // Another file: it is read again.
    binary("v1.36.0-and-longer");
    binary("v1.36.1");
    assert!(seen(node(true, "v1.35.6+rke2r1")).is_some());
}
