//! Level 4: incidents built on a real API server, recognised, cured by the program and verified. Harvester
//! and virt-controller are played; garbage collection and the Job are Kubernetes' own.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use support::objects::{ADDON, CHART, JOB, POD, POLICY, POLICY_BINDING, SETTING, VM};
use support::objects::{api, create, field, harvester, namespace, serve_published, server, status};
use windrow::act::repair::{Records, RepairContext, Worker, carry_out};
use windrow::observe::objects::diagnosed;

use crate::support;

pub(crate) fn command(cluster: &Cluster, root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command
        .arg("--root")
        .arg(root)
        .args(arguments)
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig(Who::Admin))
        .stdin(Stdio::null());
    command
}

pub(crate) fn run(cluster: &Cluster, root: &Path, arguments: &[&str]) -> (i32, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command(cluster, root, arguments).output().unwrap();
    let said = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
    (status.code().unwrap(), said)
}

/// Runs a repair while `play` does what the controllers would do.
pub(crate) async fn while_it_runs(mut repair: Child, mut play: impl AsyncFnMut()) -> Output {
    eventually("the repair ends", DEADLINE, async || {
        play().await;
        repair.try_wait().unwrap().map(drop)
    })
    .await;
    repair.wait_with_output().unwrap()
}

/// Two machines that run, and Harvester's own server.
pub(crate) async fn two_machines(client: &Client) {
    serve_published(client, VM, "Namespaced").await;
    serve_published(client, SETTING, "Cluster").await;
    namespace(client, "harvester-system").await;
    let vms = api(client, VM, "default");
    for name in ["db", "web"] {
        let vm = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": {"name": name}, "spec": {"runStrategy": "RerunOnFailure",
                "template": {"spec": {"domain": {"devices": {}}}}}});
        create(&vms, vm).await;
        status(&vms, name, json!({"printableStatus": "Running"})).await;
    }
    let pods = api(client, POD, "harvester-system");
    let pod = json!({"metadata": {"name": "harvester-1", "labels": {
            "app.kubernetes.io/name": "harvester", "app.kubernetes.io/component": "apiserver"}},
        "spec": {"containers": [{"name": "apiserver", "image": "rancher/harvester:v1.4.3"}]}});
    create(&pods, pod).await;
}

/// The server ends again and again, because its webhook refuses a Setting while machines run.
pub(crate) async fn crash_harvester(client: &Client) {
    let crashing = json!({"phase": "Running", "containerStatuses": [{
        "name": "apiserver", "image": "harvester", "imageID": "", "ready": false, "restartCount": 6,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "message": "denied the request: Please stop all VMs before configuring the storage-network setting"}}
    }]});
    let pods = api(client, POD, "harvester-system");
    status(&pods, "harvester-1", crashing).await;
}

/// What virt-controller and Harvester's server do meanwhile.
pub(crate) async fn play_machines(client: &Client) {
    let (vms, settings) = (api(client, VM, "default"), api(client, SETTING, ""));
    // A halted machine is stopped, any other runs.
    let mut stopped = 0;
    for name in ["db", "web"] {
        let halted = field(&vms, name, "/spec/runStrategy").await == "Halted";
        stopped += usize::from(halted);
        let word = if halted { "Stopped" } else { "Running" };
        status(&vms, name, json!({"printableStatus": word})).await;
    }
    // Harvester makes its settings once its webhook allows it.
    if stopped == 2 && settings.get_opt("storage-network").await.unwrap().is_none() {
        let setting = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting",
            "metadata": {"name": "storage-network"}});
        create(&settings, setting).await;
    }
}

#[tokio::test]
async fn machines_that_block_harvester_are_stopped_and_started_again_even_after_a_kill() {
    let Some((cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    // Before the kinds are served there is nothing to find.
    let (code, said) = run(&cluster, root.path(), &["diagnose"]);
    assert_eq!(code, 0, "{said}");
    two_machines(&client).await;
    let vms = api(&client, VM, "default");

    // The healthy neighbour: Harvester is still starting.
    let (code, said) = run(&cluster, root.path(), &["diagnose"]);
    assert_eq!(code, 0, "{said}");
    crash_harvester(&client).await;
    let (code, said) = run(&cluster, root.path(), &["diagnose"]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("Please stop all VMs"), "{said}");

    // A dry run shows the requests and changes nothing; without a terminal there is no prompt.
    let repair = ["repair", "machines-block-settings"];
    let (code, said) = run(
        &cluster,
        root.path(),
        &[&repair[..], &["--dry-run"]].concat(),
    );
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("PATCH /apis/kubevirt.io/v1/namespaces/default/virtualmachines/db"),
        "{said}"
    );
    let (code, said) = run(&cluster, root.path(), &repair);
    assert_eq!(code, 64, "{said}");
    assert_eq!(
        field(&vms, "db", "/spec/runStrategy").await,
        "RerunOnFailure"
    );

    // Killed in the middle of its first step, it continues where it was.
    let do_it = [&repair[..], &["--yes"]].concat();
    let mut killed = command(&cluster, root.path(), &do_it)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the first machine is asked to stop", DEADLINE, async || {
        (field(&vms, "db", "/spec/runStrategy").await == "Halted").then_some(())
    })
    .await;
    killed.kill().unwrap();
    killed.wait().unwrap();
    let (_, said) = run(
        &cluster,
        root.path(),
        &[&repair[..], &["--dry-run"]].concat(),
    );
    assert!(said.contains("0 of 7 steps are done"), "{said}");
    let again = command(&cluster, root.path(), &do_it)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = while_it_runs(again, async || play_machines(&client).await).await;
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Done, and verified"), "{said}");
    for name in ["db", "web"] {
        assert_eq!(
            field(&vms, name, "/spec/runStrategy").await,
            "RerunOnFailure"
        );
    }
    let (code, said) = run(&cluster, root.path(), &do_it);
    assert_eq!(
        (code, said.contains("Nothing to repair")),
        (0, true),
        "{said}"
    );
}

/// Refuses every change and deletion of an Addon, except of its status, and waits until that works.
async fn refuse_changes_of_addons(client: &Client) {
    let group = "admissionregistration.k8s.io/v1";
    let policy = json!({"apiVersion": group, "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "addons-in-progress"},
        "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["harvesterhci.io"], "apiVersions": ["*"],
                "operations": ["UPDATE", "DELETE"], "resources": ["addons"]}]},
            "validations": [{"expression": "false", "message": "an existing operation is in progress"}]}});
    create(&api(client, POLICY, ""), policy).await;
    let binding = json!({"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "addons-in-progress"},
        "spec": {"policyName": "addons-in-progress", "validationActions": ["Deny"]}});
    create(&api(client, POLICY_BINDING, ""), binding).await;
    let addons = api(client, ADDON, "default");
    eventually("the Addon cannot be changed", DEADLINE, async || {
        let change = json!({"metadata": {"labels": {"tried": "to"}}});
        addons
            .patch("pci", &PatchParams::default(), &Patch::Merge(&change))
            .await
            .err()
            .map(drop)
    })
    .await;
}

#[tokio::test]
async fn a_stuck_addon_is_settled_by_a_newer_job_and_is_itself_left_alone() {
    let spec = Spec {
        controller_manager: true,
        ..Spec::default()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    serve_published(&client, ADDON, "Namespaced").await;
    serve_published(&client, CHART, "Namespaced").await;
    serve_published(&client, SETTING, "Cluster").await;
    // The cure is known for the versions that were read.
    harvester(&client, "v1.8.1").await;
    server(&client, "v1.35.6+rke2r1").await;
    let (addons, charts, jobs) = (
        api(&client, ADDON, "default"),
        api(&client, CHART, "default"),
        api(&client, JOB, "default"),
    );
    let addon = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Addon", "metadata": {"name": "pci"},
        "spec": {"enabled": true, "chart": "pci", "repo": "http://charts", "version": "1", "valuesContent": "x: 1"}});
    let addon = create(&addons, addon).await;
    // Harvester's webhook: while an operation is in progress the Addon cannot be changed, and from v1.7.0 on it cannot
    // be deleted.
    refuse_changes_of_addons(&client).await;
    let chart = json!({"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
        "metadata": {"name": "pci"}});
    create(&charts, chart).await;
    status(&charts, "pci", json!({"jobName": "helm-install-pci"})).await;
    // Without anything to complete the Job controller calls it complete.
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "helm-install-pci"},
        "spec": {"completions": 0, "template": {"spec": {"restartPolicy": "OnFailure",
            "containers": [{"name": "helm", "image": "klipper-helm"}]}}}});
    let first = create(&jobs, job.clone()).await;
    eventually("the Job is complete", DEADLINE, async || {
        let done = field(&jobs, "helm-install-pci", "/status/conditions").await;
        done.to_string().contains("\"Complete\"").then_some(())
    })
    .await;
    let made = field(&jobs, "helm-install-pci", "/metadata/creationTimestamp").await;
    let made: Timestamp = made.as_str().unwrap().parse().unwrap();
    let since = made + SignedDuration::from_secs(1);
    let in_progress = |since: Timestamp| {
        json!({"status": "AddonEnabling", "conditions": [
            {"type": "InProgress", "status": "True", "lastUpdateTime": since.to_string()}
        ]})
    };
    // As of a time at which there is no hope left; the real time would have to be waited for.
    let later = since + SignedDuration::from_mins(10);
    let codes = async |now: Timestamp| -> Vec<String> {
        let found = diagnosed(&client, now).await;
        assert_eq!(found.unknown, [""; 0]);
        found
            .findings
            .iter()
            .map(|one| one.code.to_string())
            .collect()
    };
    status(
        &addons,
        "pci",
        in_progress(made - SignedDuration::from_secs(1)),
    )
    .await;
    assert_eq!(codes(made).await, [""; 0], "a Job of this operation");
    status(&addons, "pci", in_progress(since)).await;
    assert_eq!(
        codes(since).await,
        [""; 0],
        "helm-controller may still replace it"
    );
    assert_eq!(codes(later).await, ["addon-stuck"]);

    let found = diagnosed(&client, later).await;
    let finding = &found.findings[0];
    let root = tempfile::tempdir().unwrap();
    let records = Records::new(root.path());
    let cure = finding.cure.as_ref().unwrap();
    let mut record = records.begin(finding, cure, Worker::Person, later).unwrap();
    let mut steps = Vec::new();
    let context = RepairContext::new(client.clone(), records.clone(), "node1");
    let repair = carry_out(
        &context,
        &mut record,
        || later,
        || true,
        |_, step| {
            steps.push(step.say.clone());
        },
    );
    // helm-controller makes the Job of a HelmChart again, and Harvester accepts a newer one.
    let controllers = async {
        eventually("the Job is gone", DEADLINE, async || {
            let now = jobs.get_opt("helm-install-pci").await.unwrap();
            now.is_none().then_some(())
        })
        .await;
        create(&jobs, job).await;
        status(&addons, "pci", json!({"status": "AddonDeploySuccessful"})).await;
    };
    let (repaired, ()) = tokio::join!(repair, controllers);
    repaired.unwrap();
    assert_eq!(steps.len(), 2, "{steps:?}");
    let now = addons.get("pci").await.unwrap();
    assert_eq!(now.metadata.uid, addon.metadata.uid);
    assert_eq!(now.data["spec"], addon.data["spec"]);
    let newer = jobs.get("helm-install-pci").await.unwrap();
    assert_ne!(newer.metadata.uid, first.metadata.uid);
    assert_eq!(codes(later).await, [""; 0]);
    // A second run has nothing to do: every goal is reached.
    record.done = 0;
    carry_out(&context, &mut record, || later, || true, |_, _| {})
        .await
        .unwrap();
    let kept = std::fs::read_to_string(records.path(&record)).unwrap();
    assert!(
        kept.contains(first.metadata.uid.as_deref().unwrap()),
        "the object as it was is kept"
    );
}
