//! Level 4: what kube-apiserver refuses is known before anything is changed, and what a cure has changed can be undone
//! while it is as the cure left it. The admission policy and the requests are Kubernetes' own.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, eventually};
use support::objects::{ADDON, JOB, LEASE, POLICY, POLICY_BINDING, VM};
use support::objects::{api, create, field, patch, serve_published, status};
use tempfile::TempDir;
use windrow::act::repair::{RequestOutcome, try_out};
use windrow_harvester::incidents::{CureGoal, CureRequest, CureStep, ObjectChange, WayBack};
use windrow_harvester::objects::ObjectKind;

use crate::repair_in_cluster::{command, crash_harvester, run, two_machines};
use crate::support;

const REPAIR: [&str; 2] = ["repair", "machines-block-settings"];

/// Lets only such changes of a machine through for which this is true, in the words of admission policies.
async fn restrict_changes_of_machines(client: &Client, name: &str, expression: &str) {
    let group = "admissionregistration.k8s.io/v1";
    let policy = json!({"apiVersion": group, "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["kubevirt.io"], "apiVersions": ["*"],
                "operations": ["UPDATE"], "resources": ["virtualmachines"]}]},
            "validations": [{"expression": expression, "message": "the site says not today"}]}});
    create(&api(client, POLICY, ""), policy).await;
    let binding = json!({"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]}});
    create(&api(client, POLICY_BINDING, ""), binding).await;
}

/// Refuses every change of a machine, and waits until that works.
async fn refuse_changes_of_machines(client: &Client) {
    restrict_changes_of_machines(client, "frozen", "false").await;
    eventually("no machine can be changed", DEADLINE, async || {
        is_changeable(client).await.then_some(()).xor(Some(()))
    })
    .await;
}

/// Takes a restriction away, and waits until that works.
async fn allow_changes_of_machines(client: &Client, name: &str) {
    let bindings = api(client, POLICY_BINDING, "");
    let at_once = DeleteParams::default();
    bindings.delete(name, &at_once).await.unwrap();
    eventually("machines can be changed again", DEADLINE, async || {
        let is_free = is_changeable(client).await && is_changed(client).await;
        is_free.then_some(())
    })
    .await;
}

/// Would kube-apiserver take a change of a machine?
async fn is_changeable(client: &Client) -> bool {
    takes_a_change(client, &PatchParams::default().dry_run()).await
}

/// Does it take one that does not matter?
async fn is_changed(client: &Client) -> bool {
    takes_a_change(client, &PatchParams::default()).await
}

async fn takes_a_change(client: &Client, how: &PatchParams) -> bool {
    let change = json!({"metadata": {"labels": {"tried": "to"}}});
    let machines = api(client, VM, "default");
    let tried = machines.patch("web", how, &Patch::Merge(&change)).await;
    tried.is_ok()
}

/// Two machines keep Harvester from starting; and the root of who repairs it.
async fn stuck_cluster() -> Option<(Cluster, Client, TempDir)> {
    let (cluster, client) = Cluster::with_its_admin().await?;
    two_machines(&client).await;
    crash_harvester(&client).await;
    Some((cluster, client, tempfile::tempdir().unwrap()))
}

/// virt-controller reports this of the first machine.
async fn report_first_machine(client: &Client, word: &str) {
    let machines = api(client, VM, "default");
    status(&machines, "db", json!({"printableStatus": word})).await;
}

/// Begins the repair; the first machine is asked to stop.
async fn begun_repair(cluster: &Cluster, client: &Client, root: &Path) -> Child {
    report_first_machine(client, "Running").await;
    let repair = command(cluster, root, &[&REPAIR[..], &["--yes"]].concat())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let machines = api(client, VM, "default");
    eventually("the first machine is asked to stop", DEADLINE, async || {
        (field(&machines, "db", "/spec/runStrategy").await == "Halted").then_some(())
    })
    .await;
    repair
}

/// Begins it, and kills it there. The first machine shuts down.
async fn interrupted_repair(cluster: &Cluster, client: &Client, root: &Path) {
    let mut repair = begun_repair(cluster, client, root).await;
    repair.kill().unwrap();
    repair.wait().unwrap();
    report_first_machine(client, "Stopped").await;
}

#[tokio::test]
async fn a_refusal_is_known_before_anything_is_changed_and_a_repair_can_be_undone() {
    let Some((cluster, client, root)) = stuck_cluster().await else {
        return;
    };
    let root = root.path();
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
    allow_changes_of_machines(&client, "frozen").await;
    let before = versions().await;
    let (code, said) = run(&cluster, root, &[&REPAIR[..], &["--dry-run"]].concat());
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(" would be accepted"), "{said}");
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
        said.contains("skipped: stop VirtualMachine default/db"),
        "{said}"
    );
    assert_eq!(field(&machines, "db", "/spec/runStrategy").await, "Manual");
}

/// The records of repairs, the oldest first.
fn records(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join("var/lib/rancher/windrow/repairs")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    // One that is just written is no record yet.
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    paths.sort();
    paths
}

/// Changes what was written down.
fn edit(record: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = read(record);
    change(&mut value);
    fs::write(record, value.to_string()).unwrap();
}

fn read(record: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(record).unwrap()).unwrap()
}

/// What lies there for the daemon about repairs that were undone.
fn told_to_the_daemon(root: &Path) -> Vec<String> {
    let spool = root.join("var/lib/rancher/windrow/requests");
    let entries = fs::read_dir(spool).into_iter().flatten().flatten();
    let requests = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    requests
        .filter(|one| one.contains("repair-undone"))
        .collect()
}

#[tokio::test]
async fn an_undo_asks_shows_what_it_would_do_and_ends_with_what_came_of_it() {
    let Some((cluster, client, root)) = stuck_cluster().await else {
        return;
    };
    let root = root.path();
    let machines = api(&client, VM, "default");
    let strategy = async || field(&machines, "db", "/spec/runStrategy").await;
    let undo = |more: &[&str], exit: i32, says: &str| {
        let (code, said) = run(&cluster, root, &[&["repair", "--undo"], more].concat());
        assert_eq!(
            (code, said.contains(says)),
            (exit, true),
            "{more:?}: {said}"
        );
        said
    };
    const STEP: &str = "stop VirtualMachine default/db";

    interrupted_repair(&cluster, &client, root).await;
    undo(&["nothing.json", "--yes"], 64, "there is no such record");
    undo(&[], 64, "there is no terminal for the confirmation");
    refuse_changes_of_machines(&client).await;
    undo(&["--yes"], 6, "would be refused: ");
    allow_changes_of_machines(&client, "frozen").await;
    // It would be taken, and is not.
    restrict_changes_of_machines(&client, "trials-alone", "request.dryRun").await;
    eventually("no change is taken", DEADLINE, async || {
        is_changed(&client).await.then_some(()).xor(Some(()))
    })
    .await;
    let said = undo(&["--yes"], 4, &format!("not undone: {STEP}"));
    assert!(!said.contains(&format!("undone: {STEP}\n")), "{said}");
    allow_changes_of_machines(&client, "trials-alone").await;
    assert_eq!(strategy().await, "Halted");
    assert!(told_to_the_daemon(root).is_empty());

    undo(&["--yes"], 0, &format!("\nundone: {STEP}\n"));
    assert_eq!(strategy().await, "RerunOnFailure");
    let told = told_to_the_daemon(root);
    assert_eq!(
        (told.len(), told[0].contains("all of it\"")),
        (1, true),
        "{told:?}"
    );
    let lease = api(&client, LEASE, "kube-system");
    let holder = field(&lease, "windrow-repairs", "/spec/holderIdentity").await;
    assert!(
        holder.is_null() || holder == "",
        "the next one need not wait: {holder}"
    );

    // Another one, under way while somebody wants to undo it. It goes a step further before it ends.
    let mut repair = begun_repair(&cluster, &client, root).await;
    let [first, second] = &records(root)[..] else {
        panic!("{:?}", records(root))
    };
    eventually("the answer is written down", DEADLINE, async || {
        let after = &read(second)["changed"][0]["after"];
        after.is_object().then_some(())
    })
    .await;
    let mut late = command(&cluster, root, &["repair", "--undo", "--yes"]);
    let late = late.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut late = late.spawn().unwrap();
    let said = BufReader::new(late.stderr.take().unwrap());
    let mut said = said.lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("waiting: another repair is under way")));
    edit(second, |record| record["done"] = json!(1));
    repair.kill().unwrap();
    repair.wait().unwrap();
    report_first_machine(&client, "Stopped").await;
    assert!(said.any(|line| line.contains("this repair continued meanwhile")));
    assert_eq!(late.wait().unwrap().code(), Some(4));
    assert_eq!(strategy().await, "Halted");

    // The first is still known by its name and its path, and is not undone twice.
    let name = first.file_name().unwrap().to_str().unwrap();
    for named in [name, first.to_str().unwrap()] {
        undo(&[named, "--yes"], 0, "the repair was undone at ");
    }
    assert_eq!(strategy().await, "Halted");

    // What has changed meanwhile is told before anything is done.
    let set = async |to: &str| {
        let to = json!({"spec": {"runStrategy": to}});
        patch(&client, VM, "default", "db", to).await;
    };
    set("RerunOnFailure").await;
    undo(&["--dry-run"], 0, &format!("already undone: {STEP}"));
    set("Manual").await;
    undo(&["--dry-run"], 0, &format!("skipped: {STEP}: "));
    set("Halted").await;

    // A step as those that delete: first it is all that was done, then one of two.
    let way_back = read(second)["cure"]["steps"][0]["wayBack"].clone();
    let gone = json!({"is": "none", "why": "it is gone"});
    edit(second, |record| {
        record["cure"]["steps"][0]["wayBack"] = gone.clone()
    });
    let said = undo(
        &["--yes"],
        4,
        &format!("cannot be undone: {STEP}: it is gone"),
    );
    assert!(
        said.contains("no step of the repair can be undone"),
        "{said}"
    );
    assert!(read(second)["undone"].is_string(), "it is closed");
    edit(second, |record| {
        record.as_object_mut().unwrap().remove("undone");
        let changed = record["changed"][0].as_object_mut().unwrap();
        changed.remove("ended");
        record["cure"]["steps"][0]["wayBack"] = way_back;
        record["cure"]["steps"][1]["wayBack"] = gone;
        let changed = json!({"step": 1, "before": {}});
        record["changed"].as_array_mut().unwrap().push(changed);
    });
    let said = undo(&["--yes"], 0, &format!("\nundone: {STEP}\n"));
    assert!(said.contains("cannot be undone: "), "{said}");
    assert_eq!(strategy().await, "RerunOnFailure");
    let told = told_to_the_daemon(root).concat();
    assert!(
        told.contains("all of it except 0 changed since and 1 that cannot be undone"),
        "{told}"
    );
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
    let Some((_cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
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
