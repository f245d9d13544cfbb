//! Level 4: an Addon that no controller acts on any more is told and cured, with the real helm-controller and the real
//! Job controller and Harvester's own Addon controller. Its webhook, the kubelet and helm are played. Releases of Harvester
//! with helm-controller 0.16.26 have what is in 0.17.7.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use jiff::Timestamp;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use support::cluster::{DEADLINE, HarvesterControllers, HelmVersion, eventually};
use support::harvester_webhook::play;
use support::objects::{ADDON, CHART, JOB, api, field, make, patch};
use support::webhook::WebhookServer;
use windrow::act::repair::{Records, RepairContext, Worker, carry_out};
use windrow::observe::objects::diagnosed;
use windrow_harvester::HarvesterVersion;

use crate::helm_controller::{DELETE, INSTALL, Site, minutes_on};
use crate::repair_in_cluster::run;
use crate::support;

const REPAIR: [&str; 3] = ["repair", "addon-stuck", "--yes"];

/// A cluster of a Harvester whose sources were read, with an Addon that Harvester has begun to install.
async fn site_with_addon(version: HelmVersion) -> Option<(Site, HarvesterControllers)> {
    let site = Site::start(version).await?;
    let harvester = site.harvester()?;
    site.add(true).await;
    site.helm.job(INSTALL).await;
    site.state("AddonEnabling").await;
    Some((site, harvester))
}

/// The webhook of the newest release. It rejects a change of an Addon, except of its status, while an operation is in progress.
async fn refuse_changes_in_progress(client: &Client) -> WebhookServer {
    let webhook = play(client, HarvesterVersion::LATEST).await;
    eventually("the Addon cannot be changed", DEADLINE, async || {
        (!is_changeable(client).await).then_some(())
    })
    .await;
    webhook
}

/// Would kube-apiserver take a change of the Addon?
async fn is_changeable(client: &Client) -> bool {
    let change = json!({"metadata": {"labels": {"tried": "to"}}});
    let trial = PatchParams::default().dry_run();
    let addons = api(client, ADDON, "default");
    addons
        .patch("pci", &trial, &Patch::Merge(&change))
        .await
        .is_ok()
}

/// Carries the cure of the one finding out, as of a time at which there is no hope left.
async fn cure(site: &Site, later: Timestamp) {
    let found = diagnosed(&site.client, later).await;
    let finding = &found.findings[0];
    let root = tempfile::tempdir().unwrap();
    let records = Records::new(root.path());
    let cure = finding.cure.as_ref().expect("it has a cure");
    let mut record = records.begin(finding, cure, Worker::Person, later).unwrap();
    let context = RepairContext::new(site.client.clone(), records, "node1");
    carry_out(&context, &mut record, || later, || true, |_, _| {})
        .await
        .unwrap();
}

async fn stuck_in_disabling(version: HelmVersion) {
    let Some((site, _harvester)) = site_with_addon(version).await else {
        return;
    };
    site.helm.succeed(INSTALL).await;
    site.state("AddonDeploySuccessful").await;
    site.change(json!({"enabled": false})).await;
    let first = site.helm.job(DELETE).await;
    site.state("AddonDisabling").await;
    assert_eq!(site.codes(minutes_on(60)).await, [""; 0], "merely slow");

    // Harvester does not count a Job that ran out of time, and helm-controller makes no other.
    let deadline = json!({"spec": {"activeDeadlineSeconds": 1}});
    patch(&site.client, JOB, "default", DELETE, deadline).await;
    let failed = site.helm.condition(DELETE, "Failed").await;
    assert_eq!(failed["reason"], "DeadlineExceeded");
    assert_eq!(site.codes(Timestamp::now()).await, [""; 0], "for a moment");
    let later = minutes_on(10);
    assert_eq!(site.codes(later).await, ["addon-stuck"]);
    let helm = async {
        site.newer(DELETE, &first).await;
        site.helm.succeed(DELETE).await;
    };
    tokio::join!(cure(&site, later), helm);
    site.state("AddonDisabled").await;
    assert_eq!(site.codes(later).await, [""; 0]);
}

#[tokio::test]
async fn an_addon_stuck_in_disabling_is_disabled_by_a_newer_job_of_0_17() {
    stuck_in_disabling(HelmVersion::V0_17).await;
}

#[tokio::test]
async fn an_addon_stuck_in_disabling_is_disabled_by_a_newer_job_of_0_17_7() {
    stuck_in_disabling(HelmVersion::V0_17_7).await;
}

#[tokio::test]
async fn an_addon_stuck_in_disabling_is_disabled_by_a_newer_job_of_0_16() {
    stuck_in_disabling(HelmVersion::V0_16).await;
}

#[tokio::test]
async fn an_addon_that_failed_in_progress_can_be_changed_again() {
    let Some((site, _harvester)) = site_with_addon(HelmVersion::V0_17_7).await else {
        return;
    };
    // harvester#11045: the failure of the operation before was not taken back.
    site.set_condition("OperationFailed", json!({"status": "True"}))
        .await;
    site.helm.succeed(INSTALL).await;
    let _webhook = refuse_changes_in_progress(&site.client).await;
    assert_eq!(site.codes(Timestamp::now()).await, ["addon-stuck"]);

    let root = tempfile::tempdir().unwrap();
    let (code, said) = run(&site.cluster, root.path(), &REPAIR);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("/addons/pci/status"), "{said}");
    assert_eq!(site.codes(Timestamp::now()).await, ["addon-failed"]);
    assert!(is_changeable(&site.client).await);
    site.change(json!({"enabled": false})).await;
    site.helm.succeed(DELETE).await;
    site.state("AddonDisabled").await;
}

#[tokio::test]
async fn an_addon_that_was_switched_on_while_disabling_is_switched_off_again() {
    let Some((site, _harvester)) = site_with_addon(HelmVersion::V0_17_7).await else {
        return;
    };
    site.helm.succeed(INSTALL).await;
    site.state("AddonDeploySuccessful").await;
    site.change(json!({"enabled": false})).await;
    site.helm.fail_for_good(DELETE).await;
    eventually("Harvester says that it failed", DEADLINE, async || {
        (site.condition("OperationFailed").await.0 == "True").then_some(())
    })
    .await;
    let codes = async || site.codes(Timestamp::now()).await;
    assert_eq!(codes().await, ["addon-failed"]);
    site.change(json!({"enabled": true})).await;
    assert_eq!(codes().await, ["addon-stuck"]);

    let root = tempfile::tempdir().unwrap();
    let (code, said) = run(&site.cluster, root.path(), &REPAIR);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("contrary to the last request"), "{said}");
    let enabled: Value = field(&site.addons, "pci", "/spec/enabled").await;
    assert_eq!(enabled, false);
    assert_eq!(codes().await, ["addon-failed"]);
    site.delete_job(DELETE).await;
    site.helm.succeed(DELETE).await;
    site.state("AddonDisabled").await;
}

/// Runs the repair, which ends well.
async fn repaired(site: &Site) {
    let root = tempfile::tempdir().unwrap();
    let (code, said) = run(&site.cluster, root.path(), &REPAIR);
    assert_eq!(code, 0, "{said}");
}

#[tokio::test]
async fn an_addon_in_each_other_deadlock_stays_in_it_and_goes_on_after_its_cure() {
    let Some(site) = Site::start(HelmVersion::V0_17_7).await else {
        return;
    };
    let Some(_harvester) = site.harvester() else {
        return;
    };
    // A HelmChart of its name that is not its own: Harvester goes on once that is gone.
    let chart = json!({"metadata": {"name": "pci"}, "spec": {"chart": "other"}});
    make(&site.client, CHART, "default", chart).await;
    site.helm.succeed(INSTALL).await;
    site.add(true).await;
    assert_eq!(site.codes(minutes_on(4)).await, [""; 0], "merely slow");
    let later = minutes_on(10);
    let found = diagnosed(&site.client, later).await;
    assert_eq!(found.findings[0].code.to_string(), "addon-stuck");
    assert!(
        found.findings[0].cure.is_none(),
        "whose it is, a person knows"
    );
    site.delete_chart().await;
    site.helm.succeed(DELETE).await;
    site.helm.job(INSTALL).await;
    site.state("AddonEnabling").await;
    site.helm.succeed(INSTALL).await;
    site.state("AddonDeploySuccessful").await;

    // Deployed, with an operation in progress that nothing ends: an update whose last write was lost.
    let since = "2026-11-21T20:00:00Z";
    site.set_condition(
        "InProgress",
        json!({"status": "True", "lastUpdateTime": since}),
    )
    .await;
    site.seen_by_harvester("first").await;
    assert_eq!(site.condition("InProgress").await.0, "True");
    assert_eq!(site.codes(Timestamp::now()).await, ["addon-stuck"]);
    repaired(&site).await;
    assert_eq!(site.condition("InProgress").await.0, "False");
    assert_eq!(site.codes(Timestamp::now()).await, [""; 0]);

    // Disabled while an operation is in progress: only the processing of an enabled Addon would end that.
    site.set_condition(
        "InProgress",
        json!({"status": "True", "lastUpdateTime": since}),
    )
    .await;
    site.change(json!({"enabled": false})).await;
    site.seen_by_harvester("second").await;
    assert_eq!(site.codes(Timestamp::now()).await, ["addon-stuck"]);
    let helm = async {
        site.helm.job(DELETE).await;
        site.helm.succeed(DELETE).await;
    };
    tokio::join!(cure(&site, Timestamp::now()), helm);
    site.state("AddonDisabled").await;
    assert_eq!(site.codes(Timestamp::now()).await, [""; 0]);
}
