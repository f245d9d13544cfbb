//! The VIP and Harvester's answers behind it.

use windrow_plan::readiness::node::{Transition, Vip, VipMode};

use super::*;
use crate::observe::probes::cluster;
use crate::observe::probes::harvester::{self, VipMemory};
use crate::testing::replies::{ServerReply, TestServer};

const TOKEN: &str = "a-cluster-token";

/// A joined node whose VIP is the loopback address.
async fn joined(
    says: impl Fn(&str) -> ServerReply + Send + Sync + 'static,
) -> (TestNode, TestServer) {
    let mut place = TestNode::new();
    let server = TestServer::https(says).await;
    place.endpoints.vip_https = server.port;
    place.write(
        "/etc/rancher/rancherd/config.yaml",
        format!("role: agent\nserver: https://127.0.0.1:443\ntoken: {TOKEN}\n"),
    );
    (place, server)
}

/// Harvester's readiness, as an agent's probe finds it.
async fn readiness(place: &TestNode) -> ProbeOutcome {
    let memory = VipMemory::default();
    harvester::ready(&place.context(), &memory, NodeRole::Agent, "n1").await
}

#[tokio::test]
async fn harvester_is_asked_what_its_console_asks_and_nobody_is_sent_the_clusters_token() {
    for (says, expected) in [
        (ServerReply::ok("{}"), None),
        (ServerReply::Http(503, String::new()), Some("HTTP 503")),
        (ServerReply::Http(401, String::new()), Some("refused")),
        (ServerReply::Garbage, Some("")),
    ] {
        let (place, server) = joined(move |_| says.clone()).await;
        let outcome = readiness(&place).await;
        match (&outcome, expected) {
            (ProbeOutcome::Passed, None) | (ProbeOutcome::Unknown { .. }, Some("" | "refused")) => {
            }
            (ProbeOutcome::Failed { why, .. }, Some(expected)) => assert_eq!(why, expected),
            other => panic!("{other:?}"),
        }
        let asked = server.asked();
        assert!(
            asked[0].starts_with("GET /v1/harvester/cluster/local "),
            "{asked:?}"
        );
        assert!(
            !asked.iter().any(|request| request.contains(TOKEN)),
            "{asked:?}"
        );
    }
}

#[tokio::test]
async fn the_vip_is_the_one_in_the_cluster_and_stays_known_when_the_cluster_is_gone() {
    let mut place = TestNode::new();
    let vip = TestServer::http(|_| ServerReply::ok("")).await;
    place.endpoints.vip_https = vip.port;
    let port = vip.port;
    let api = TestServer::http(|target| match target {
        "/api/v1/namespaces/harvester-system/configmaps/vip" => {
            ServerReply::ok(r#"{"data": {"ip": "127.0.0.1", "mode": "dhcp"}}"#)
        }
        _ => ServerReply::Http(404, "{}".to_owned()),
    })
    .await;
    place.admin(&api);
    let context = place.context();
    let memory = VipMemory::default();
    let asked = harvester::vip_answers(&context, &memory, NodeRole::FirstServer, "n1").await;
    assert_eq!(asked.outcome, ProbeOutcome::Passed);
    let told = Vip {
        address: "127.0.0.1".to_owned(),
        mode: Some(VipMode::Dhcp),
    };
    assert_eq!(asked.events, [NodeEvent::Vip(told)]);
    let outcome = harvester::vip_port(&context, &memory, NodeRole::FirstServer, "n1", port).await;
    assert_eq!(outcome, ProbeOutcome::Passed);
    drop(api);
    let outcome = harvester::vip_port(&context, &memory, NodeRole::FirstServer, "n1", port).await;
    assert_eq!(outcome, ProbeOutcome::Passed);
    drop(vip);
    let outcome = harvester::vip_port(&context, &memory, NodeRole::FirstServer, "n1", 1).await;
    assert!(failed(&outcome).starts_with("127.0.0.1:1 refuses "));
}

#[tokio::test]
async fn how_the_vips_address_is_found_is_read_from_the_installers_configuration_where_the_cluster_does_not_say()
 {
    let (place, _server) = joined(|_| ServerReply::ok("")).await;
    let told = async || {
        let asked = harvester::vip_answers(
            &place.context(),
            &VipMemory::default(),
            NodeRole::Agent,
            "n1",
        )
        .await;
        match asked.events.as_slice() {
            [NodeEvent::Vip(vip)] => vip.mode,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(told().await, None);
    place.write("/oem/harvester.config", "install:\n  vipmode: static\n");
    assert_eq!(told().await, Some(VipMode::Static));
}

#[tokio::test]
async fn without_any_vip_the_first_server_says_so_and_a_refusal_is_not_a_no() {
    for (status, expected) in [(404, "there is no VIP yet"), (403, "403")] {
        let place = TestNode::new();
        let api = TestServer::http(move |_| ServerReply::Http(status, "{}".to_owned())).await;
        place.admin(&api);
        let outcome = harvester::vip_port(
            &place.context(),
            &VipMemory::default(),
            NodeRole::FirstServer,
            "n1",
            1,
        )
        .await;
        let said = match &outcome {
            ProbeOutcome::Unknown { why, .. } if status == 403 => why,
            ProbeOutcome::Failed { why, .. } if status == 404 => why,
            other => panic!("{other:?}"),
        };
        assert!(said.contains(expected), "{said}");
    }
}

#[tokio::test]
async fn kube_vips_own_words_tell_that_the_dhcp_clients_port_is_taken() {
    let place = TestNode::new();
    let ask = || harvester::dhcp_clash(&place.context(), &VipMemory::default());
    let said = "listen udp4 :68: bind: address already in use";
    place.write(
        "/var/log/pods/harvester-system_kube-vip-x7l2k_1/kube-vip/0.log",
        format!("{} stderr F {said}\n", Timestamp::now()),
    );
    // Two sockets of the system's own client do not clash.
    place.write(
        "/proc/net/udp",
        "sl local\n 1: 00000000:0044\n 2: 0A00000A:0044\n",
    );
    assert_eq!(
        ask(),
        ProbeOutcome::Passed,
        "the VIP does not come from DHCP"
    );
    place.write("/oem/harvester.config", "install: {vipmode: static}\n");
    assert_eq!(ask(), ProbeOutcome::Passed);
    place.write("/oem/harvester.config", "install: {vipmode: dhcp}\n");
    assert_eq!(failed(&ask()), said);
}

/// The newest Upgrade, and the Job with which a node's state began.
#[tokio::test]
async fn an_upgrade_that_runs_is_told_by_node_state_time_and_what_is_waited_for() {
    for (state, expected) in [
        (
            "UpgradingNodes",
            Some(
                "Harvester: UpgradingNodes; n2 is Pre-draining since 2026-05-01 10:00 UTC, waits for healthy \
                 volumes, and its VMs to leave",
            ),
        ),
        ("Succeeded", None),
    ] {
        let place = TestNode::new();
        let server = TestServer::http(move |target| match target.split('?').next().unwrap() {
            "/apis/harvesterhci.io/v1beta1/namespaces/harvester-system/upgrades" => {
                ServerReply::ok(&format!(
                    r#"{{"items": [{{"metadata": {{"name": "up", "labels": {{"harvesterhci.io/latestUpgrade": "true",
                    "harvesterhci.io/upgradeState": "{state}"}}}}, "status": {{"nodeStatuses":
                    {{"n1": {{"state": "Succeeded"}}, "n2": {{"state": "Pre-draining"}}}}}}}}]}}"#
                ))
            }
            "/apis/batch/v1/namespaces/harvester-system/jobs" => ServerReply::ok(
                r#"{"items": [{"metadata": {"name": "cut", "namespace": "harvester-system", "creationTimestamp": "2026-05-01T10:00:00Z", "labels": {
                    "harvesterhci.io/upgrade": "up", "harvesterhci.io/upgradeJobType": "pre-drain",
                    "harvesterhci.io/node": "n2"}}, "status": {"active": 1}}]}"#,
            ),
            _ => ServerReply::ok("{}"),
        })
        .await;
        place.admin(&server);
        let answer = cluster::settings(&place.context(), "n1").await;
        let told = answer.events.into_iter().find_map(|event| match event {
            NodeEvent::Transition(Transition::Upgrade, sign) => Some(sign.map(|sign| sign.message)),
            _ => None,
        });
        assert_eq!(told, Some(expected.map(str::to_owned)), "{state}");
    }
}

/// Harvester v1.9: no Upgrade, and an UpgradePlan.
#[tokio::test]
async fn an_upgrade_plan_is_an_upgrade_until_it_has_ended_and_what_cannot_be_asked_changes_nothing()
{
    const PLANS: &str = "/apis/management.harvesterhci.io/v1beta1/upgradeplans";
    let line =
        "UpgradePlan up to v1.10.0: NodeUpgrading; Windrow does not know the reason for the wait";
    for (status, phase, expected) in [
        (200, "NodeUpgrading", Some(Some(line))),
        (200, "Succeeded", Some(None)),
        (404, "", Some(None)),
        (403, "", None),
    ] {
        let place = TestNode::new();
        let server = TestServer::http(move |target| match target {
            PLANS => ServerReply::Http(
                status,
                format!(
                    r#"{{"items": [{{"metadata": {{"name": "up"}}, "spec": {{"version": "v1.10.0"}},
                    "status": {{"currentPhase": "{phase}"}}}}]}}"#
                ),
            ),
            _ => ServerReply::ok(r#"{"items": []}"#),
        })
        .await;
        place.admin(&server);
        let answer = cluster::settings(&place.context(), "n1").await;
        let told = answer.events.into_iter().find_map(|event| match event {
            NodeEvent::Transition(Transition::Upgrade, sign) => Some(sign.map(|sign| sign.message)),
            _ => None,
        });
        assert_eq!(
            told,
            expected.map(|line| line.map(str::to_owned)),
            "{status} {phase}"
        );
    }
}
