//! Harvester's Addons, as a server reports them.

use jiff::SignedDuration;
use serde_json::json;

use super::*;
use crate::observe::probes::addons;
use crate::testing::replies::{ServerReply, TestServer};

const CHART: &str = "/apis/helm.cattle.io/v1/namespaces/harvester-system/helmcharts/seeder";
const JOB: &str = "/apis/batch/v1/namespaces/harvester-system/jobs/helm-install-seeder";
const PODS: &str = "/api/v1/namespaces/harvester-system/pods";

fn addon(status: &str) -> serde_json::Value {
    let long_ago = Timestamp::now() - SignedDuration::from_hours(1);
    json!({"metadata": {"name": "seeder", "namespace": "harvester-system"},
           "spec": {"enabled": true},
           "status": {"status": status, "conditions": [
               {"type": "InProgress", "status": "True", "lastUpdateTime": long_ago.to_string()}]}})
}

/// A server with one Addon, and the state of its Job; without a state there is no Job.
async fn server(
    status: &'static str,
    job: Option<serde_json::Value>,
    refuse: &'static str,
) -> TestServer {
    TestServer::http(move |target| {
        let path = target.split('?').next().unwrap();
        let not_there = ServerReply::Http(404, "{}".to_owned());
        if path == refuse {
            return ServerReply::Http(403, "{}".to_owned());
        }
        match path {
            "/apis/harvesterhci.io/v1beta1/addons" => {
                ServerReply::ok(&json!({"items": [addon(status)]}).to_string())
            }
            CHART => ServerReply::ok(r#"{"status": {"jobName": "helm-install-seeder"}}"#),
            JOB => job.as_ref().map_or(not_there, |job| ServerReply::ok(&job.to_string())),
            PODS => ServerReply::ok(
                r#"{"items": [{"status": {"containerStatuses": [
                    {"image": "klipper-helm", "state": {"waiting": {"reason": "ErrImagePull"}}}]}}]}"#,
            ),
            _ => not_there,
        }
    })
    .await
}

async fn asked(server: &TestServer) -> ProbeOutcome {
    let place = TestNode::new();
    place.admin(server);
    addons::settled(&place.context(), "n1").await
}

#[tokio::test]
async fn addons_that_are_settled_are_looked_at_no_further() {
    let server = server("AddonDeploySuccessful", None, "").await;
    assert_eq!(asked(&server).await, ProbeOutcome::Passed);
    assert_eq!(server.asked().len(), 1, "{:?}", server.asked());
}

#[tokio::test]
async fn an_addon_is_followed_to_its_jobs_pods() {
    let working = json!({"metadata": {"creationTimestamp": Timestamp::now().to_string()},
                         "status": {"active": 1}});
    let server = server("AddonEnabling", Some(working), "").await;
    assert_eq!(
        failed(&asked(&server).await),
        "seeder: the image klipper-helm cannot be had"
    );
    let pods = server
        .asked()
        .into_iter()
        .find(|line| line.contains("/pods"));
    assert!(
        pods.unwrap()
            .contains("labelSelector=job-name%3Dhelm-install-seeder")
    );
}

#[tokio::test]
async fn an_addon_that_waits_for_a_newer_job_for_ever_is_told_so() {
    let made = Timestamp::now() - SignedDuration::from_hours(2);
    let complete = json!({"metadata": {"creationTimestamp": made.to_string()},
        "status": {"completionTime": made.to_string(),
                   "conditions": [{"type": "Complete", "status": "True"}]}});
    let server = server("AddonEnabling", Some(complete), "").await;
    let said = asked(&server).await;
    assert!(failed(&said).contains("stuck permanently"), "{said:?}");
}

#[tokio::test]
async fn what_is_refused_on_the_way_is_not_known() {
    for path in ["/apis/harvesterhci.io/v1beta1/addons", CHART, JOB, PODS] {
        let server = server("AddonEnabling", Some(json!({})), path).await;
        assert!(
            unknown(&asked(&server).await).contains("HTTP 403"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_cluster_without_the_kind_is_not_known_either() {
    let server = TestServer::http(|_| ServerReply::Http(404, "{}".to_owned())).await;
    assert!(unknown(&asked(&server).await).contains("not served"));
}
