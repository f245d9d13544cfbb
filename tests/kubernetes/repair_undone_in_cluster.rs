//! Level 4: what kube-apiserver refuses is known before anything is changed, and what a cure has changed can be undone
//! while it is as the cure left it. The admission policy and the requests are Kubernetes' own.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::path::Path;
use std::process::Stdio;

use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use support::objects::{ADDON, JOB, POLICY, POLICY_BINDING, VM};
use support::objects::{api, create, field, patch, serve_published, status};
use windrow::act::repair::{RequestOutcome, try_out};
use windrow_harvester::incidents::{CureGoal, CureRequest, CureStep, ObjectChange, WayBack};
use windrow_harvester::objects::ObjectKind;

use crate::repair_in_cluster::{command, crash_harvester, run, two_machines};
use crate::support;

const REPAIR: [&str; 2] = ["repair", "machines-block-settings"];

/// Refuses every change of a machine, and waits until that works.
async fn refuse_changes_of_machines(client: &Client) {
    let group = "admissionregistration.k8s.io/v1";
    let policy = json!({"apiVersion": group, "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "frozen"},
        "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["kubevirt.io"], "apiVersions": ["*"],
                "operations": ["UPDATE"], "resources": ["virtualmachines"]}]},
            "validations": [{"expression": "false", "message": "the site says not today"}]}});
    create(&api(client, POLICY, ""), policy).await;
    let binding = json!({"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "frozen"},
        "spec": {"policyName": "frozen", "validationActions": ["Deny"]}});
    create(&api(client, POLICY_BINDING, ""), binding).await;
    eventually("no machine can be changed", DEADLINE, async || {
        is_changeable(client).await.then_some(()).xor(Some(()))
    })
    .await;
}

/// Would kube-apiserver take a change of a machine?
async fn is_changeable(client: &Client) -> bool {
    let change = json!({"metadata": {"labels": {"tried": "to"}}});
    let trial = PatchParams::default().dry_run();
    let machines = api(client, VM, "default");
    let tried = machines.patch("db", &trial, &Patch::Merge(&change)).await;
    tried.is_ok()
}

/// Begins the repair and kills it once the first machine is asked to stop.
async fn interrupted_repair(cluster: &Cluster, client: &Client, root: &Path) {
    let mut repair = command(cluster, root, &[&REPAIR[..], &["--yes"]].concat())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let machines = api(client, VM, "default");
    eventually("the first machine is asked to stop", DEADLINE, async || {
        (field(&machines, "db", "/spec/runStrategy").await == "Halted").then_some(())
    })
    .await;
    repair.kill().unwrap();
    repair.wait().unwrap();
}

#[tokio::test]
async fn a_refusal_is_known_before_anything_is_changed_and_a_repair_can_be_undone() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    two_machines(&client).await;
    crash_harvester(&client).await;
    let machines = api(&client, VM, "default");
    let (code, said) = run(&cluster, root, &["repair", "--undo"]);
    assert_eq!(
        (code, said.contains("Nothing to undo")),
        (0, true),
        "{said}"
    );

    // What is refused is not begun.
    refuse_changes_of_machines(&client).await;
    let versions = async || {
        let version = "/metadata/resourceVersion";
        [
            field(&machines, "db", version).await,
            field(&machines, "web", version).await,
        ]
    };
    let before = versions().await;
    for how in ["--dry-run", "--yes"] {
        let (code, said) = run(&cluster, root, &[&REPAIR[..], &[how]].concat());
        assert_eq!(code, 6, "{said}");
        assert!(said.contains("would be refused: "), "{said}");
        assert!(said.contains("the site says not today"), "{said}");
    }
    assert_eq!(versions().await, before);
    assert!(!root.join("var/lib/rancher/windrow/repairs").exists());

    // What may be changed is tried, and not changed by that.
    let at_once = DeleteParams::default();
    let bindings = api(&client, POLICY_BINDING, "");
    bindings.delete("frozen", &at_once).await.unwrap();
    eventually("machines can be changed again", DEADLINE, async || {
        is_changeable(&client).await.then_some(())
    })
    .await;
    let (code, said) = run(&cluster, root, &[&REPAIR[..], &["--dry-run"]].concat());
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(" would be taken"), "{said}");
    assert_eq!(versions().await, before);

    // A repair that was interrupted is undone, and not continued.
    interrupted_repair(&cluster, &client, root).await;
    let undo = ["repair", "--undo", "--yes"];
    let (code, said) = run(&cluster, root, &["repair", "--undo", "--dry-run"]);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("undo: stop VirtualMachine default/db"),
        "{said}"
    );
    assert_eq!(field(&machines, "db", "/spec/runStrategy").await, "Halted");
    let (code, said) = run(&cluster, root, &undo);
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        field(&machines, "db", "/spec/runStrategy").await,
        "RerunOnFailure"
    );
    let (code, said) = run(&cluster, root, &undo);
    assert_eq!(
        (code, said.contains("Nothing to undo")),
        (0, true),
        "{said}"
    );
    let (_, said) = run(&cluster, root, &[&REPAIR[..], &["--dry-run"]].concat());
    assert!(!said.contains("steps are done"), "{said}");

    // What somebody else has changed since is theirs.
    interrupted_repair(&cluster, &client, root).await;
    let theirs = json!({"spec": {"runStrategy": "Manual"}});
    patch(&client, VM, "default", "db", theirs).await;
    let (code, said) = run(&cluster, root, &undo);
    assert_eq!(code, 4, "{said}");
    assert!(
        said.contains("left as it is: stop VirtualMachine default/db"),
        "{said}"
    );
    assert_eq!(field(&machines, "db", "/spec/runStrategy").await, "Manual");
}

/// kube-apiserver's answer to a request that is only tried.
async fn tried(client: &Client, step: &CureStep) -> RequestOutcome {
    try_out(client, step.request.as_ref().unwrap()).await
}

/// Sends a request as it is, without a look at the object first; the status of the answer.
async fn sent(client: &Client, request: &CureRequest) -> u16 {
    let http = http::Request::builder()
        .method(request.method.verb())
        .uri(request.url())
        .header("content-type", request.method.content_type())
        .body(kube::client::Body::from(
            request.body.to_string().into_bytes(),
        ))
        .unwrap();
    client.send(http).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn kube_apiserver_holds_to_the_uid_and_to_fields_that_were_absent() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    serve_published(&client, ADDON, "Namespaced").await;
    let addons = api(&client, ADDON, "default");
    let addon = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Addon",
        "metadata": {"name": "pci"}, "spec": {"enabled": true, "chart": "pci", "repo": "http://charts",
            "version": "1", "valuesContent": ""}});
    create(&addons, addon).await;
    status(
        &addons,
        "pci",
        json!({"conditions": [{"type": "InProgress", "status": "True"}]}),
    )
    .await;
    let seen = async || serde_json::to_value(addons.get("pci").await.unwrap()).unwrap();
    let diagnosed: Value = seen().await;
    let goal = || CureGoal::Condition {
        path: ObjectKind::ADDON.path_of(&diagnosed),
        condition: "Done".to_owned(),
    };

    // Of the status: two conditions that hold, one that is changed.
    let in_progress = "/status/conditions/0/status";
    let step = ObjectChange::of_status(ObjectKind::ADDON, &diagnosed)
        .still("/status/conditions/0/type")
        .still("/spec/enabled")
        .set(in_progress, json!("False"))
        .step("s", goal(), 1);
    let outcome = tried(&client, &step).await;
    assert!(matches!(outcome, RequestOutcome::Taken(_)), "{outcome:?}");
    assert_eq!(seen().await, diagnosed, "a trial changes nothing");
    assert_eq!(sent(&client, step.request.as_ref().unwrap()).await, 200);
    assert_eq!(field(&addons, "pci", in_progress).await, "False");
    // A second time the test fails, and the way back restores it.
    assert_eq!(sent(&client, step.request.as_ref().unwrap()).await, 422);
    assert_eq!(tried(&client, &step).await, RequestOutcome::Applied);
    let Some(WayBack::Request(back)) = &step.way_back else {
        panic!("{step:?}")
    };
    assert_eq!(sent(&client, back).await, 200);
    assert_eq!(field(&addons, "pci", in_progress).await, "True");

    // A field that was absent: it is tested to be absent, and removed again.
    let step = ObjectChange::of(ObjectKind::ADDON, &diagnosed)
        .set("/metadata/labels", json!({"tried": "to"}))
        .step("s", goal(), 1);
    let Some(WayBack::Request(back)) = &step.way_back else {
        panic!("{step:?}")
    };
    assert_eq!(sent(&client, step.request.as_ref().unwrap()).await, 200);
    assert_eq!(sent(&client, step.request.as_ref().unwrap()).await, 422);
    assert_eq!(seen().await["metadata"]["labels"]["tried"], "to");
    assert_eq!(sent(&client, back).await, 200);
    assert_eq!(seen().await["metadata"]["labels"], json!(null));
    // Another object of the same name.
    let mut other = diagnosed.clone();
    other["metadata"]["uid"] = json!("another");
    let step = ObjectChange::of(ObjectKind::ADDON, &other)
        .set("/spec/enabled", json!(false))
        .step("s", goal(), 1);
    assert_eq!(sent(&client, step.request.as_ref().unwrap()).await, 422);
    let outcome = tried(&client, &step).await;
    assert!(
        matches!(outcome, RequestOutcome::Outdated(_)),
        "{outcome:?}"
    );

    // A deletion that is only tried.
    let jobs = api(&client, JOB, "default");
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}}}});
    let mut job = serde_json::to_value(create(&jobs, job).await).unwrap();
    let step = CureStep::delete(ObjectKind::JOB, &job, "no", goal(), 1);
    let outcome = tried(&client, &step).await;
    assert!(matches!(outcome, RequestOutcome::Taken(_)), "{outcome:?}");
    assert_eq!(
        field(&jobs, "j", "/metadata/uid").await,
        job["metadata"]["uid"]
    );
    job["metadata"]["uid"] = json!("another");
    let step = CureStep::delete(ObjectKind::JOB, &job, "no", goal(), 1);
    assert_eq!(sent(&client, step.request.as_ref().unwrap()).await, 409);
    assert_eq!(tried(&client, &step).await, RequestOutcome::Applied);
}
