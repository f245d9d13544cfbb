//! What the kubelet and helm do with a Job of helm-controller, played: they finish its pod, fail again and again, or
//! have no image. helm-controller, the Job controller and the API server are the real ones.

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use serde_json::{Value, json};

use super::cluster::{DEADLINE, eventually};
use super::objects::{JOB, POD, SECRET, api, create, status};

/// Plays for the Jobs of one namespace.
pub(crate) struct Helm {
    jobs: Api<DynamicObject>,
    pods: Api<DynamicObject>,
    secrets: Api<DynamicObject>,
}

impl Helm {
    pub(crate) fn new(client: &Client, namespace: &str) -> Self {
        Self {
            jobs: api(client, JOB, namespace),
            pods: api(client, POD, namespace),
            secrets: api(client, SECRET, namespace),
        }
    }

    /// Waits for a Job that is neither being deleted nor suspended.
    pub(crate) async fn job(&self, name: &str) -> DynamicObject {
        eventually(&format!("Job {name} may run"), DEADLINE, async || {
            let job = self.jobs.get_opt(name).await.unwrap()?;
            let is_deleted = job.metadata.deletion_timestamp.is_some();
            let may_run = !is_deleted && job.data["spec"]["suspend"] != true;
            may_run.then_some(job)
        })
        .await
    }

    /// helm has done its work; waits until the Job controller calls the Job complete.
    pub(crate) async fn succeed(&self, job: &str) {
        self.write_release(job).await;
        self.succeed_without_release(job).await;
        eventually(&format!("Job {job} is complete"), DEADLINE, async || {
            // The Job that deletes a chart can go with it before anybody looks.
            let Some(object) = self.jobs.get_opt(job).await.unwrap() else {
                return Some(());
            };
            let conditions = object.data["status"]["conditions"].as_array()?;
            let mut conditions = conditions.iter();
            let complete = conditions.find(|condition| condition["type"] == "Complete")?;
            (complete["status"] == "True").then_some(())
        })
        .await;
    }

    /// The pod succeeds, and no release says that helm installed anything.
    pub(crate) async fn succeed_without_release(&self, job: &str) {
        self.report(job, json!({"phase": "Succeeded"})).await;
    }

    /// From 0.16.26 and 0.17.5 on helm-controller reads the release of a complete Job: its hash, or that there is none any more.
    async fn write_release(&self, job: &str) {
        let object = self.job(job).await;
        let containers = object.data["spec"]["template"]["spec"]["containers"].as_array();
        let variables = containers.into_iter().flatten();
        let mut variables =
            variables.flat_map(|container| container["env"].as_array().into_iter().flatten());
        let Some(hash) = variables.find(|variable| variable["name"] == "CONFIG_HASH") else {
            return;
        };
        let chart = &object.metadata.labels.unwrap_or_default()["helmcharts.helm.cattle.io/chart"];
        let of_chart = ListParams::default().labels(&format!("owner=helm,name={chart}"));
        let older = self.secrets.list(&of_chart).await.unwrap().items;
        if job.starts_with("helm-delete") {
            for secret in older {
                let name = secret.metadata.name.unwrap();
                self.secrets
                    .delete(&name, &DeleteParams::default())
                    .await
                    .unwrap();
            }
            return;
        }
        let hash = hash["value"].as_str().expect("it is a text");
        self.release(chart, older.len() + 1, hash).await;
    }

    /// helm has written a release, with the hash of a configuration.
    pub(crate) async fn release(&self, chart: &str, version: usize, hash: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "metadata": {
            "name": format!("sh.helm.release.v1.{chart}.v{version}"),
            "labels": {"owner": "helm", "name": chart, "status": "deployed", "version": version.to_string(),
                "helmcharts.helm.cattle.io/configHash": hash}}});
        create(&self.secrets, secret).await;
    }

    /// helm has failed this many times in the pod's one container.
    pub(crate) async fn fail(&self, job: &str, times: u32) {
        let container = json!({"restartCount": times,
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        self.report(job, running(container)).await;
    }

    /// helm has failed more often than the Job allows; waits until the Job controller gives the Job up.
    pub(crate) async fn fail_for_good(&self, job: &str) {
        let limit = self.job(job).await.data["spec"]["backoffLimit"].clone();
        let limit = limit.as_u64().expect("every Job has a limit");
        self.fail(job, u32::try_from(limit).unwrap()).await;
        self.condition(job, "Failed").await;
    }

    /// The pod's image cannot be had.
    pub(crate) async fn no_image(&self, job: &str) {
        let container =
            json!({"restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}});
        let mut status = running(container);
        status["phase"] = json!("Pending");
        self.report(job, status).await;
    }

    /// Waits until a condition of a Job is True, and returns it.
    pub(crate) async fn condition(&self, job: &str, kind: &str) -> Value {
        eventually(&format!("Job {job} is {kind}"), DEADLINE, async || {
            let job = self.jobs.get_opt(job).await.unwrap()?;
            let conditions = job.data["status"]["conditions"].as_array()?;
            let found = conditions.iter().find(|one| one["type"] == kind)?;
            (found["status"] == "True").then(|| found.clone())
        })
        .await
    }

    /// Writes the status of the Job's pod, as the kubelet does.
    async fn report(&self, job: &str, new: Value) {
        let uid = self.job(job).await.metadata.uid.unwrap();
        let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
        let pod = eventually(&format!("Job {job} has a pod"), DEADLINE, async || {
            let pods = self.pods.list(&of_job).await.unwrap().items;
            // A Job of the same name may have left one.
            let own = pods.into_iter().find(|pod| {
                let mut owners = pod.metadata.owner_references.iter().flatten();
                pod.metadata.deletion_timestamp.is_none() && owners.any(|owner| owner.uid == uid)
            });
            own?.metadata.name
        })
        .await;
        status(&self.pods, &pod, new).await;
    }
}

/// A pod of helm-controller runs, and its container says this.
fn running(mut container: Value) -> Value {
    for (field, value) in [
        ("name", json!("helm")),
        ("image", json!("rancher/klipper-helm:test")),
        ("imageID", json!("")),
        ("ready", json!(false)),
    ] {
        container[field] = value;
    }
    json!({"phase": "Running", "containerStatuses": [container]})
}
