//! Harvester's Addon controller, played for tests in which it has another clock than kube-apiserver. It is compared with Harvester's
//! own in `tests/kubernetes/helm_controller.rs`.
//!
//! Written from what `pkg/controller/master/addon` of v1.8.2 does with one Addon (alike in v1.4.0 to v1.8.2), without
//! its two special cases (rancher-monitoring's volume, Rancher's Apps). Each look does one thing, as its handler does.
//! An error of the API server is passed over and the next look tries again.
//!
//! ```text
//!   (none), Disabled ─InProgress─> Enabling ─Job complete─> DeploySuccessful ─InProgress─> Updating ─┐
//!       ^                            │  Job failed: OperationFailed, for good      ^                 │
//!       └──── HelmChart gone ── Disabling <── switched off, nothing in progress ───┴── Job complete ─┘
//! ```

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::objects::{ADDON, CHART, JOB, api};

/// It looks at all Addons of a namespace until it is dropped.
pub(crate) struct AddonController(JoinHandle<()>);

impl AddonController {
    /// `ahead` is how far its node's clock is ahead of the API server's.
    pub(crate) fn start(client: &Client, namespace: &str, ahead: SignedDuration) -> Self {
        let player = Player {
            addons: api(client, ADDON, namespace),
            charts: api(client, CHART, namespace),
            jobs: api(client, JOB, namespace),
            ahead,
        };
        Self(tokio::spawn(async move {
            loop {
                // Like a controller, it comes back to whatever failed.
                let _ = player.look_at_all().await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }))
    }
}

impl Drop for AddonController {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Player {
    addons: Api<DynamicObject>,
    charts: Api<DynamicObject>,
    jobs: Api<DynamicObject>,
    ahead: SignedDuration,
}

impl Player {
    async fn look_at_all(&self) -> kube::Result<()> {
        for addon in self.addons.list(&ListParams::default()).await? {
            let addon = Addon::new(&addon, Timestamp::now() + self.ahead);
            let next = match addon.spec["enabled"] == true {
                true => self.enabled(addon).await,
                false => self.disabled(addon).await,
            };
            if let Ok(Some(addon)) = next {
                let status = json!({"status": addon.status});
                self.addons
                    .patch_status(&addon.name, &PatchParams::default(), &Patch::Merge(&status))
                    .await?;
            }
        }
        Ok(())
    }

    async fn enabled(&self, addon: Addon) -> kube::Result<Option<Addon>> {
        let chart = self.charts.get_opt(&addon.name).await?;
        match addon.state() {
            "" | "AddonDisabled" => self.install(addon, chart).await,
            "AddonEnabling" | "AddonUpdating" => self.await_job(addon, chart).await,
            "AddonDeploySuccessful" => self.update(addon, chart).await,
            // AddonDisabling: there is no case for it.
            _ => Ok(None),
        }
    }

    async fn install(
        &self,
        mut addon: Addon,
        chart: Option<DynamicObject>,
    ) -> kube::Result<Option<Addon>> {
        if let Some(chart) = &chart
            && (chart.metadata.deletion_timestamp.is_some() || !addon.owns(chart))
        {
            return Ok(None);
        }
        // First the time, then the chart: what comes of it should be newer.
        if !addon.is("InProgress") {
            addon.begins();
            return Ok(Some(addon));
        }
        if chart.is_none() {
            self.deploy(&addon).await?;
        }
        Ok(Some(addon.becomes("AddonEnabling")))
    }

    async fn deploy(&self, addon: &Addon) -> kube::Result<()> {
        let mut spec = addon.chart();
        spec["backOffLimit"] = json!(5);
        let chart = json!({"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
            "metadata": {"name": addon.name, "ownerReferences": [{"apiVersion": "harvesterhci.io/v1beta1",
                "kind": "Addon", "name": addon.name, "uid": addon.uid}]},
            "spec": spec});
        let chart = serde_json::from_value(chart).expect("it is an object");
        self.charts
            .create(&PostParams::default(), &chart)
            .await
            .map(drop)
    }

    async fn update(
        &self,
        mut addon: Addon,
        chart: Option<DynamicObject>,
    ) -> kube::Result<Option<Addon>> {
        let Some(chart) = chart else {
            return self.deploy(&addon).await.map(|()| None);
        };
        let wanted = addon.chart();
        let differs = |key: &str| chart.data["spec"][key].as_str() != wanted[key].as_str();
        if !["chart", "repo", "version", "valuesContent"]
            .into_iter()
            .any(differs)
        {
            return Ok(None);
        }
        if !addon.is("InProgress") {
            addon.begins();
            return Ok(Some(addon));
        }
        let patch = Patch::Merge(json!({"spec": wanted}));
        self.charts
            .patch(&addon.name, &PatchParams::default(), &patch)
            .await?;
        Ok(Some(addon.becomes("AddonUpdating")))
    }

    /// Waits for the end of a Job that is not older than the operation.
    async fn await_job(
        &self,
        mut addon: Addon,
        chart: Option<DynamicObject>,
    ) -> kube::Result<Option<Addon>> {
        if addon.is("OperationFailed") {
            return Ok(None);
        }
        let Some(chart) = chart else {
            addon.ends();
            return Ok(Some(addon.becomes("AddonDisabled")));
        };
        let Some(job) = self.job(&chart).await? else {
            return Ok(None);
        };
        let since = addon.condition("InProgress")["lastUpdateTime"].clone();
        let since: Timestamp = since
            .as_str()
            .unwrap_or_default()
            .parse()
            .expect("it wrote it");
        if created(&job) < Some(since) || !ended(&job) {
            return Ok(None);
        }
        Ok(Some(addon.settled_by(&job, "AddonDeploySuccessful")))
    }

    async fn disabled(&self, mut addon: Addon) -> kube::Result<Option<Addon>> {
        match addon.state() {
            "AddonDisabled" => return Ok(None),
            "AddonDisabling" => {}
            // What runs is waited for.
            _ if addon.is("InProgress") => return Ok(None),
            _ => return Ok(Some(addon.becomes("AddonDisabling"))),
        }
        let Some(chart) = self.charts.get_opt(&addon.name).await? else {
            addon.ends();
            return Ok(Some(addon.becomes("AddonDisabled")));
        };
        if !addon.owns(&chart) {
            addon.fails();
            return Ok(Some(addon));
        }
        let Some(deleted) = &chart.metadata.deletion_timestamp else {
            addon.set("InProgress", "True");
            self.charts
                .delete(&addon.name, &DeleteParams::default())
                .await?;
            return Ok(Some(addon));
        };
        if !job_name(&chart).contains("helm-delete") {
            return Ok(None);
        }
        let Some(job) = self.job(&chart).await? else {
            return Ok(None);
        };
        if created(&job) < Some(deleted.0) || !ended(&job) {
            return Ok(None);
        }
        Ok(Some(addon.settled_by(&job, "AddonDisabled")))
    }

    async fn job(&self, chart: &DynamicObject) -> kube::Result<Option<DynamicObject>> {
        match job_name(chart) {
            "" => Ok(None),
            name => self.jobs.get_opt(name).await,
        }
    }
}

fn job_name(chart: &DynamicObject) -> &str {
    chart.data["status"]["jobName"].as_str().unwrap_or_default()
}

fn created(object: &DynamicObject) -> Option<Timestamp> {
    object
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0)
}

/// A Job that failed for another reason than its limit never ends for Harvester.
fn ended(job: &DynamicObject) -> bool {
    let given_up = |condition: &Value| {
        condition["type"] == "Failed" && condition["reason"] == "BackoffLimitExceeded"
    };
    let status = &job.data["status"];
    status["completionTime"].is_string()
        || status["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(given_up))
}

/// An Addon with the status that is to be written.
struct Addon {
    name: String,
    uid: String,
    spec: Value,
    status: Value,
    now: Timestamp,
}

impl Addon {
    fn new(object: &DynamicObject, now: Timestamp) -> Self {
        let mut status = object.data["status"].clone();
        if !status["conditions"].is_array() {
            status["conditions"] = json!([]);
        }
        Self {
            name: object.metadata.name.clone().unwrap_or_default(),
            uid: object.metadata.uid.clone().unwrap_or_default(),
            spec: object.data["spec"].clone(),
            status,
            now,
        }
    }

    fn state(&self) -> &str {
        self.status["status"].as_str().unwrap_or_default()
    }

    fn becomes(mut self, state: &str) -> Self {
        self.status["status"] = json!(state);
        self
    }

    /// What its HelmChart has to say.
    fn chart(&self) -> Value {
        let [chart, repo, version, values] =
            ["chart", "repo", "version", "valuesContent"].map(|key| self.spec[key].clone());
        json!({"chart": chart, "repo": repo, "version": version, "valuesContent": values})
    }

    fn owns(&self, chart: &DynamicObject) -> bool {
        let mut owners = chart.metadata.owner_references.iter().flatten();
        owners.any(|owner| owner.kind == "Addon" && owner.uid == self.uid)
    }

    fn settled_by(mut self, job: &DynamicObject, state: &str) -> Self {
        let count = |key: &str| job.data["status"][key].as_u64().unwrap_or_default();
        if count("failed") > 0 {
            self.fails();
        }
        match count("succeeded") > 0 {
            true => {
                self.ends();
                self.becomes(state)
            }
            false => self,
        }
    }

    fn begins(&mut self) {
        self.set("Completed", "False");
        self.set("InProgress", "True");
        self.touch("InProgress");
        self.set("OperationFailed", "False");
    }

    fn ends(&mut self) {
        self.set("Completed", "True");
        self.touch("Completed");
        self.set("InProgress", "False");
        self.set("OperationFailed", "False");
    }

    fn fails(&mut self) {
        self.set("OperationFailed", "True");
        self.touch("OperationFailed");
        self.set("InProgress", "False");
        self.set("Completed", "False");
    }

    fn is(&self, kind: &str) -> bool {
        let mut all = self.status["conditions"].as_array().into_iter().flatten();
        all.any(|one| one["type"] == kind && one["status"] == "True")
    }

    /// A change of the status changes the time, as `condition.Cond` of rancher/wrangler has it.
    fn set(&mut self, kind: &str, status: &str) {
        if self.condition(kind)["status"] != status {
            self.condition(kind)["status"] = json!(status);
            self.touch(kind);
        }
    }

    fn touch(&mut self, kind: &str) {
        let now = self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        self.condition(kind)["lastUpdateTime"] = json!(now);
    }

    fn condition(&mut self, kind: &str) -> &mut Value {
        let all = self.status["conditions"]
            .as_array_mut()
            .expect("it is a list");
        let at = all.iter().position(|one| one["type"] == kind);
        let at = at.unwrap_or_else(|| {
            all.push(json!({"type": kind, "status": "Unknown"}));
            all.len() - 1
        });
        &mut all[at]
    }
}
