//! Level 4: the Jobs of the real helm-controller, in three of the versions that Harvester has, under a real Job
//! controller and Harvester's own Addon controller. The kubelet and helm are played.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject};
use serde_json::{Value, json};
use support::cluster::{
    AuditLog, Cluster, DEADLINE, HarvesterControllers, HelmController, HelmVersion, Spec, Who,
    Write, eventually,
};
use support::helm::Helm;
use support::objects::{ADDON, APP, CHART, JOB, SETTING};
use support::objects::{
    api, field, harvester, make, patch, serve_published, served, server, status,
};
use windrow::act::repair::{Records, RepairContext, Worker, carry_out};
use windrow::observe::objects::diagnosed;

use crate::support;

pub(crate) const INSTALL: &str = "helm-install-pci";
pub(crate) const DELETE: &str = "helm-delete-pci";

/// A cluster with helm-controller and without Addons.
pub(crate) struct Site {
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
    pub(crate) helm: Helm,
    pub(crate) addons: Api<DynamicObject>,
    charts: Api<DynamicObject>,
    jobs: Api<DynamicObject>,
    _helm_controller: HelmController,
}

impl Site {
    pub(crate) async fn start(version: HelmVersion) -> Option<Self> {
        let spec = Spec {
            controller_manager: true,
            audit: AuditLog::Writes,
            ..Spec::default()
        };
        let cluster = Cluster::start(spec).await?;
        let client = cluster.client(Who::Admin).await;
        let helm_controller = cluster.helm_controller(version)?;
        serve_published(&client, ADDON, "Namespaced").await;
        serve_published(&client, SETTING, "Cluster").await;
        // Harvester's controller waits for it.
        serve_published(&client, APP, "Namespaced").await;
        let (release, rke2) = match version {
            HelmVersion::V0_16 => ("v1.6.1", "v1.33.5+rke2r1"),
            HelmVersion::V0_17 => ("v1.8.1", "v1.35.6+rke2r1"),
            HelmVersion::V0_17_7 => ("v1.8.2", "v1.35.7+rke2r1"),
        };
        harvester(&client, release).await;
        server(&client, rke2).await;
        served(&client, CHART).await;
        Some(Self {
            helm: Helm::new(&client, "default"),
            addons: api(&client, ADDON, "default"),
            charts: api(&client, CHART, "default"),
            jobs: api(&client, JOB, "default"),
            cluster,
            client,
            _helm_controller: helm_controller,
        })
    }

    /// Runs Harvester's own Addon controller; `None`, after one line, if it is not built.
    pub(crate) fn harvester(&self) -> Option<HarvesterControllers> {
        self.cluster.harvester_controllers(&["addon"])
    }

    pub(crate) async fn add(&self, enabled: bool) {
        let addon = json!({"metadata": {"name": "pci"}, "spec": {"enabled": enabled, "chart": "pci",
            "repo": "http://charts.example.com", "version": "1.0.0", "valuesContent": "x: 1"}});
        make(&self.client, ADDON, "default", addon).await;
    }

    pub(crate) async fn change(&self, spec: Value) {
        patch(&self.client, ADDON, "default", "pci", json!({"spec": spec})).await;
    }

    pub(crate) async fn state(&self, state: &str) {
        eventually(&format!("the Addon is {state}"), DEADLINE, async || {
            (field(&self.addons, "pci", "/status/status").await == state).then_some(())
        })
        .await;
    }

    /// A condition of the Addon: its status and its time.
    pub(crate) async fn condition(&self, kind: &str) -> (String, String) {
        let all = field(&self.addons, "pci", "/status/conditions").await;
        let all = all.as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|one| one["type"] == kind);
        let found = found.unwrap_or_default();
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (text("status"), text("lastUpdateTime"))
    }

    /// Writes fields of one of the Addon's conditions.
    pub(crate) async fn set_condition(&self, kind: &str, fields: Value) {
        let all = field(&self.addons, "pci", "/status/conditions").await;
        let mut all = all.as_array().cloned().unwrap_or_default();
        let mut condition = json!({"type": kind});
        if let Some(at) = all.iter().position(|one| one["type"] == kind) {
            condition = all.remove(at);
        }
        let fields = fields.as_object().cloned().unwrap();
        condition.as_object_mut().unwrap().extend(fields);
        all.push(condition);
        status(&self.addons, "pci", json!({"conditions": all})).await;
    }

    /// The Job of this name that is not `before`.
    pub(crate) async fn newer(&self, job: &str, before: &DynamicObject) -> DynamicObject {
        eventually(&format!("{job} is made again"), DEADLINE, async || {
            let job = self.jobs.get_opt(job).await.unwrap()?;
            (job.metadata.uid != before.metadata.uid).then_some(job)
        })
        .await
    }

    pub(crate) async fn delete_job(&self, name: &str) {
        let background = DeleteParams::background();
        self.jobs.delete(name, &background).await.unwrap();
    }

    pub(crate) async fn delete_chart(&self) {
        let background = DeleteParams::background();
        self.charts.delete("pci", &background).await.unwrap();
    }

    /// Harvester has handled the Addon as it is now: it handles one Addon after the other, and this new one later.
    pub(crate) async fn seen_by_harvester(&self, later: &str) {
        let addon = json!({"metadata": {"name": later}, "spec": {"enabled": false, "chart": later,
            "repo": "http://charts.example.com", "version": "1.0.0", "valuesContent": ""}});
        make(&self.client, ADDON, "default", addon).await;
        eventually(&format!("Addon {later} is handled"), DEADLINE, async || {
            (field(&self.addons, later, "/status/status").await == "AddonDisabled").then_some(())
        })
        .await;
    }

    /// What Windrow finds as of a time.
    pub(crate) async fn codes(&self, now: Timestamp) -> Vec<String> {
        let found = diagnosed(&self.client, now).await;
        assert_eq!(found.unknown, [""; 0]);
        let codes = found.findings.iter().map(|one| one.code.to_string());
        codes.collect()
    }
}

fn made(object: &DynamicObject) -> Timestamp {
    object.metadata.creation_timestamp.clone().unwrap().0
}

pub(crate) fn minutes_on(minutes: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_mins(minutes)
}

/// On, changed, off: the Jobs' names and policy, and that a deleted Job is made again.
async fn an_addon_lives_by_jobs(version: HelmVersion) {
    let Some(site) = Site::start(version).await else {
        return;
    };
    let Some(_harvester) = site.harvester() else {
        return;
    };
    site.add(true).await;
    let first = site.helm.job(INSTALL).await;
    let spec = &first.data["spec"];
    assert_eq!(spec["backoffLimit"], 5);
    assert_eq!(spec["template"]["spec"]["restartPolicy"], "OnFailure");
    let label = "helmcharts.helm.cattle.io/chart";
    assert_eq!(first.metadata.labels.as_ref().unwrap()[label], "pci");
    eventually("the HelmChart names its Job", DEADLINE, async || {
        (field(&site.charts, "pci", "/status/jobName").await == INSTALL).then_some(())
    })
    .await;
    site.state("AddonEnabling").await;
    assert_eq!(site.codes(Timestamp::now()).await, [""; 0], "on its way");
    site.helm.no_image(INSTALL).await;
    assert_eq!(site.codes(Timestamp::now()).await, ["addon-image-missing"]);
    site.helm.fail(INSTALL, 2).await;
    assert_eq!(site.codes(minutes_on(30)).await, [""; 0], "it tries again");
    site.helm.succeed(INSTALL).await;
    site.state("AddonDeploySuccessful").await;

    site.change(json!({"valuesContent": "x: 2"})).await;
    let second = site.newer(INSTALL, &first).await;
    site.helm.succeed(INSTALL).await;
    site.state("AddonDeploySuccessful").await;
    assert_eq!(
        field(&site.charts, "pci", "/spec/valuesContent").await,
        "x: 2"
    );
    assert_eq!(site.condition("InProgress").await.0, "False");

    site.change(json!({"enabled": false})).await;
    let delete = site.helm.job(DELETE).await;
    assert!(made(&delete) >= made(&second));
    assert_eq!(delete.data["spec"]["backoffLimit"], 5);
    let chart = site.charts.get("pci").await.unwrap();
    assert!(made(&delete) >= chart.metadata.deletion_timestamp.unwrap().0);
    let finalizers = chart.metadata.finalizers.unwrap_or_default();
    assert_eq!(finalizers, ["wrangler.cattle.io/on-helm-chart-remove"]);
    // 0.16 writes the name with the object and not to its status subresource, and it is dropped: Harvester does not
    // hear of this Job, neither that it failed nor that it is done, and goes on when the HelmChart is gone.
    let (written, named) = match version {
        HelmVersion::V0_16 => ("helmcharts", INSTALL),
        HelmVersion::V0_17 | HelmVersion::V0_17_7 => ("helmcharts/status", DELETE),
    };
    eventually("helm-controller writes the name", DEADLINE, async || {
        let writes = site.cluster.writes();
        let deleted = |write: &Write| write.verb == "delete" && write.resource == "helmcharts";
        let since = writes.iter().position(deleted)?;
        let update = |write: &Write| write.verb == "update" && write.done();
        let mut later = writes[since..].iter().filter(|write| update(write));
        later.any(|write| write.resource == written).then_some(())
    })
    .await;
    assert_eq!(field(&site.charts, "pci", "/status/jobName").await, named);
    site.helm.fail_for_good(DELETE).await;
    if version != HelmVersion::V0_16 {
        eventually("Harvester hears that it failed", DEADLINE, async || {
            let failed = site.condition("OperationFailed").await.0;
            (failed == "True").then_some(())
        })
        .await;
    }
    assert_eq!(
        field(&site.addons, "pci", "/status/status").await,
        "AddonDisabling"
    );
    site.delete_job(DELETE).await;
    site.newer(DELETE, &delete).await;
    site.helm.succeed(DELETE).await;
    site.state("AddonDisabled").await;
    eventually("the HelmChart is gone", DEADLINE, async || {
        let chart = site.charts.get_opt("pci").await.unwrap();
        chart.is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_addon_lives_by_jobs_of_helm_controller_0_17() {
    an_addon_lives_by_jobs(HelmVersion::V0_17).await;
}

#[tokio::test]
async fn an_addon_lives_by_jobs_of_helm_controller_0_17_7() {
    an_addon_lives_by_jobs(HelmVersion::V0_17_7).await;
}

#[tokio::test]
async fn an_addon_lives_by_jobs_of_helm_controller_0_16() {
    an_addon_lives_by_jobs(HelmVersion::V0_16).await;
}

/// The Job is older than the operation that waits for it, as if the clock of Harvester's node were ahead of kube-apiserver's. Only a
/// newer one ends that, and helm-controller makes it once the Job is gone.
async fn an_addon_gets_stuck(version: HelmVersion) {
    let Some(site) = Site::start(version).await else {
        return;
    };
    let Some(_harvester) = site.harvester() else {
        return;
    };
    site.add(true).await;
    let first = site.helm.job(INSTALL).await;
    site.state("AddonEnabling").await;
    let ahead = Timestamp::now() + SignedDuration::from_secs(30);
    let ahead = ahead.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    site.set_condition("InProgress", json!({"lastUpdateTime": ahead}))
        .await;
    site.helm.succeed(INSTALL).await;
    site.state("AddonEnabling").await;
    let (in_progress, since) = site.condition("InProgress").await;
    let since: Timestamp = since.parse().unwrap();
    assert_eq!(in_progress, "True");
    assert!(made(&first) < since);
    let soon = since + SignedDuration::from_mins(1);
    assert_eq!(site.codes(soon).await, [""; 0], "no more than slow");
    let later = since + SignedDuration::from_mins(10);
    assert_eq!(site.codes(later).await, ["addon-stuck"]);

    eventually("that time has come", DEADLINE, async || {
        (Timestamp::now() > since).then_some(())
    })
    .await;
    let found = diagnosed(&site.client, later).await;
    let finding = &found.findings[0];
    let root = tempfile::tempdir().unwrap();
    let records = Records::new(root.path());
    let cure = finding.cure.as_ref().unwrap();
    let mut record = records.begin(finding, cure, Worker::Person, later).unwrap();
    let context = RepairContext::new(site.client.clone(), records, "node1");
    let cured = carry_out(&context, &mut record, || later, || true, |_, _| {});
    let kubelet = async {
        let second = site.newer(INSTALL, &first).await;
        assert!(made(&second) >= since);
        site.helm.succeed(INSTALL).await;
    };
    let (cured, ()) = tokio::join!(cured, kubelet);
    cured.unwrap();
    site.state("AddonDeploySuccessful").await;
    assert_eq!(site.codes(later).await, [""; 0]);
}

#[tokio::test]
async fn an_addon_gets_stuck_and_its_cure_holds_with_0_17() {
    an_addon_gets_stuck(HelmVersion::V0_17).await;
}

#[tokio::test]
async fn an_addon_gets_stuck_and_its_cure_holds_with_0_17_7() {
    an_addon_gets_stuck(HelmVersion::V0_17_7).await;
}

#[tokio::test]
async fn an_addon_gets_stuck_and_its_cure_holds_with_0_16() {
    an_addon_gets_stuck(HelmVersion::V0_16).await;
}

/// helm-controller handles a chart, and afterwards a new one: whatever it does to the first is done by then.
async fn handled(site: &Site, round: &str) {
    let change = json!({"metadata": {"annotations": {"round": round}}});
    patch(&site.client, CHART, "default", "pci", change).await;
    let chart = json!({"metadata": {"name": round}, "spec": {"chart": "other"}});
    make(&site.client, CHART, "default", chart).await;
    resumed(site, &format!("helm-install-{round}")).await;
}

/// helm-controller creates each Job suspended, and resumes it once.
async fn resumed(site: &Site, job: &str) -> DynamicObject {
    eventually(&format!("{job} is resumed"), DEADLINE, async || {
        let job = site.jobs.get_opt(job).await.unwrap()?;
        (job.data["spec"]["suspend"] == false && job.metadata.generation == Some(2)).then_some(job)
    })
    .await
}

#[tokio::test]
async fn helm_controller_0_17_7_replaces_a_complete_job_whose_release_has_another_hash() {
    let Some(site) = Site::start(HelmVersion::V0_17_7).await else {
        return;
    };
    let chart = json!({"metadata": {"name": "pci"}, "spec": {"chart": "pci"}});
    make(&site.client, CHART, "default", chart).await;
    let first = resumed(&site, INSTALL).await;
    site.helm.succeed_without_release(INSTALL).await;
    site.helm.condition(INSTALL, "Complete").await;
    site.helm.release("pci", 1, "another").await;
    handled(&site, "differs").await;
    let second = site.newer(INSTALL, &first).await;

    // The release has the hash of its configuration.
    resumed(&site, INSTALL).await;
    site.helm.succeed(INSTALL).await;
    handled(&site, "deployed").await;
    let kept = site.jobs.get(INSTALL).await.unwrap();
    assert_eq!(kept.metadata.uid, second.metadata.uid);

    // A deleted Job is created again, whatever the release says.
    site.delete_job(INSTALL).await;
    let third = site.newer(INSTALL, &second).await;
    resumed(&site, INSTALL).await;

    // A Job that failed is kept until it is deleted.
    site.helm.fail_for_good(INSTALL).await;
    handled(&site, "failed").await;
    let kept = site.jobs.get(INSTALL).await.unwrap();
    assert_eq!(kept.metadata.uid, third.metadata.uid);
    site.delete_job(INSTALL).await;
    site.newer(INSTALL, &third).await;
}

#[tokio::test]
async fn a_chart_that_fails_again_and_again_is_found() {
    let Some(site) = Site::start(HelmVersion::V0_17).await else {
        return;
    };
    let chart = json!({"metadata": {"name": "db"}, "spec": {"chart": "db"}});
    make(&site.client, CHART, "default", chart).await;
    let job = site.helm.job("helm-install-db").await;
    assert_eq!(job.data["spec"]["backoffLimit"], 1000);
    site.helm.fail("helm-install-db", 4).await;
    assert_eq!(site.codes(Timestamp::now()).await, [""; 0]);
    site.helm.fail("helm-install-db", 5).await;
    assert_eq!(site.codes(Timestamp::now()).await, ["chart-retries"]);
    site.helm.succeed("helm-install-db").await;
    assert_eq!(site.codes(Timestamp::now()).await, [""; 0]);
}
