//! Level 4: `windrow repair` where Harvester's and Rancher's webhooks refuse what it would do, or let it through, by
//! version. The webhooks are played, kube-apiserver calls them; the kinds are the published ones where there are any.
//!
//! Each test has threads: the webhook answers while the test waits for the program.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::path::Path;
use std::process::Stdio;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, eventually};
use support::harvester_webhook::{play, remove};
use support::objects::{
    ADDON, CHART, FEATURE, HARVESTER_MACHINE, MACHINE, NODE, NODE_DRIVER, RANCHER_CLUSTER, SETTING,
    VM, VM_BACKUP,
};
use support::objects::{api, field, harvester, make, patch, serve_published, server, status};
use windrow::act::repair::{RequestOutcome, try_out};
use windrow_harvester::HarvesterVersion;
use windrow_harvester::incidents::{CureGoal, CureStep};
use windrow_harvester::objects::ObjectKind;
use windrow_harvester::versions::HarvesterVersions;

use crate::harvester_webhook_in_cluster::change;
use crate::repair_in_cluster::{command, crash_harvester, run, two_machines};
use crate::support;

/// The last release before Addons may not be deleted any more, the first one after that, and the newest.
const VERSIONS: [HarvesterVersion; 3] = [
    HarvesterVersion::new(1, 6, 1),
    HarvesterVersion::new(1, 7, 0),
    HarvesterVersion::LATEST,
];

/// Waits until the webhook of this version, and no earlier one, refuses the change.
async fn refuses(api: &Api<DynamicObject>, name: &str, patch: &Value) {
    eventually("the webhook refuses", DEADLINE, async || {
        let refused = change(api, name, patch.clone()).await;
        refused.filter(|(code, _)| *code == 400).map(drop)
    })
    .await;
}

async fn version(api: &Api<DynamicObject>, name: &str) -> Value {
    field(api, name, "/metadata/resourceVersion").await
}

fn has_records(root: &Path) -> bool {
    root.join("var/lib/rancher/windrow/repairs").exists()
}

/// Rancher's feature is off, and the drivers of two others are on.
pub(crate) async fn furnish_rancher(client: &Client) {
    for (gvk, scope) in [
        (FEATURE, "Cluster"),
        (NODE_DRIVER, "Cluster"),
        (MACHINE, "Namespaced"),
        (RANCHER_CLUSTER, "Namespaced"),
        (HARVESTER_MACHINE, "Namespaced"),
        (SETTING, "Cluster"),
    ] {
        serve_published(client, gvk, scope).await;
    }
    let feature = json!({"metadata": {"name": "harvester"}, "spec": {"value": false}});
    make(client, FEATURE, "", feature).await;
    for name in ["harvester", "amazonec2"] {
        let driver = json!({"metadata": {"name": name}, "spec": {"active": true, "displayName": name,
            "url": format!("https://releases.example.com/{name}")}});
        make(client, NODE_DRIVER, "", driver).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_ranchers_webhook_keeps_is_left_alone_and_one_that_is_free_is_switched_off() {
    let Some((cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    furnish_rancher(&client).await;
    let drivers = api(&client, NODE_DRIVER, "");
    let machines = api(&client, HARVESTER_MACHINE, "default");
    let healthy = version(&drivers, "amazonec2").await;
    harvester(&client, "").await;
    for harvester in VERSIONS {
        let release = json!({"value": harvester.to_string()});
        patch(&client, SETTING, "", "server-version", release).await;
        let webhook = play(&client, harvester).await;
        // Rancher's own record of a machine is left over. Windrow reads Cluster API's, and finds none.
        let left_over = json!({"metadata": {"name": "m"}});
        make(&client, HARVESTER_MACHINE, "default", left_over).await;
        let inactive = json!({"spec": {"active": false}});
        refuses(&drivers, "harvester", &inactive).await;
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let repair = |how: &str| run(&cluster, root, &["repair", "driver-without-feature", how]);
        let before = version(&drivers, "harvester").await;
        for how in ["--dry-run", "--yes"] {
            let (code, said) = repair(how);
            assert_eq!(code, 6, "{harvester} {said}");
            let refusal = "would be refused: 400: admission webhook \
                \"rancher.cattle.io.nodedrivers.management.cattle.io\" denied the request: This driver is in use";
            assert!(said.contains(refusal), "{harvester} {said}");
        }
        assert!(!has_records(root), "{harvester}");
        assert_eq!(version(&drivers, "harvester").await, before);

        machines.delete("m", &Default::default()).await.unwrap();
        let (code, said) = repair("--dry-run");
        assert_eq!(code, 0, "{harvester} {said}");
        assert!(said.contains("1 request would be accepted"), "{said}");
        assert!(!has_records(root), "{harvester}");
        assert_eq!(version(&drivers, "harvester").await, before);
        let (code, said) = repair("--yes");
        assert_eq!(code, 0, "{harvester} {said}");
        assert!(said.contains("Done, and verified"), "{said}");
        assert_eq!(field(&drivers, "harvester", "/spec/active").await, false);
        assert!(repair("--dry-run").1.contains("Nothing to repair"));

        let (code, said) = run(&cluster, root, &["repair", "--undo", "--dry-run"]);
        assert_eq!(code, 0, "{harvester} {said}");
        assert_eq!(field(&drivers, "harvester", "/spec/active").await, false);
        let (code, said) = run(&cluster, root, &["repair", "--undo", "--yes"]);
        assert_eq!(code, 0, "{harvester} {said}");
        assert_eq!(field(&drivers, "harvester", "/spec/active").await, true);
        remove(&client, webhook).await;
    }
    // The neighbour, whose feature is no business of this one.
    assert_eq!(version(&drivers, "amazonec2").await, healthy);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_addon_is_cured_past_the_webhook_that_refuses_its_changes_and_from_v1_7_its_deletion() {
    let Some((cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    for (gvk, scope) in [
        (ADDON, "Namespaced"),
        (CHART, "Namespaced"),
        (SETTING, "Cluster"),
    ] {
        serve_published(&client, gvk, scope).await;
    }
    let addons = api(&client, ADDON, "default");
    for name in ["pci", "busy"] {
        let addon = json!({"metadata": {"name": name}, "spec": {"enabled": true, "chart": name,
            "repo": "http://charts.example.com", "version": "1.0.0", "valuesContent": ""}});
        make(&client, ADDON, "default", addon).await;
    }
    let settled = |failed: &str| {
        json!({"status": "AddonEnabling", "conditions": [
            {"type": "InProgress", "status": "True", "lastUpdateTime": jiff::Timestamp::now().to_string()},
            {"type": "OperationFailed", "status": failed}]})
    };
    harvester(&client, "").await;
    server(&client, "").await;
    for harvester in VERSIONS {
        let value = json!({"value": harvester.to_string()});
        patch(&client, SETTING, "", "server-version", value).await;
        let rke2 = HarvesterVersions::shipped().release(harvester).unwrap();
        let rke2 = json!({"nodeInfo": {"kubeletVersion": rke2.rke2}});
        status(&api(&client, NODE, ""), "server", rke2).await;
        status(&addons, "busy", settled("False")).await;
        status(&addons, "pci", settled("True")).await;
        let webhook = play(&client, harvester).await;
        refuses(&addons, "pci", &json!({"spec": {"enabled": false}})).await;

        // What an older Windrow did: to have Harvester make the Addon again.
        let busy = serde_json::to_value(addons.get("pci").await.unwrap()).unwrap();
        let goal = CureGoal::Gone {
            path: ObjectKind::ADDON.path_of(&busy),
            uid: String::new(),
        };
        let deletes = CureStep::delete(ObjectKind::ADDON, &busy, "it is gone", goal, 1);
        let outcome = try_out(&client, deletes.request.as_ref().unwrap()).await;
        match harvester >= HarvesterVersion::new(1, 7, 0) {
            true => assert!(
                matches!(&outcome, RequestOutcome::Refused(why) if why.contains("addon cannot be deleted")),
                "{harvester} {outcome:?}"
            ),
            false => assert!(
                matches!(outcome, RequestOutcome::Taken(_)),
                "{harvester} {outcome:?}"
            ),
        }

        let healthy = version(&addons, "busy").await;
        let root = tempfile::tempdir().unwrap();
        let repair = |how: &str| run(&cluster, root.path(), &["repair", "addon-stuck", how]);
        let (code, said) = repair("--dry-run");
        assert_eq!(code, 0, "{harvester} {said}");
        assert!(said.contains("1 request would be accepted"), "{said}");
        assert!(!said.contains("busy"), "{said}");
        assert!(!has_records(root.path()));
        let (code, said) = repair("--yes");
        assert_eq!(code, 0, "{harvester} {said}");
        assert!(said.contains("Done, and verified"), "{said}");
        let off = json!({"spec": {"enabled": false}});
        assert_eq!(change(&addons, "pci", off.clone()).await, None);
        assert!(change(&addons, "busy", off).await.is_some(), "{harvester}");
        assert_eq!(version(&addons, "busy").await, healthy);
        let (code, said) = run(&cluster, root.path(), &["repair", "--undo", "--yes"]);
        assert_eq!(code, 0, "{harvester} {said}");
        let condition = "/status/conditions/0/status";
        assert_eq!(field(&addons, "pci", condition).await, "True");
        remove(&client, webhook).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_machine_is_stopped_while_the_webhook_would_keep_another_one_running() {
    let Some((cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    two_machines(&client).await;
    serve_published(&client, VM_BACKUP, "Namespaced").await;
    let (machines, backups) = (
        api(&client, VM, "default"),
        api(&client, VM_BACKUP, "default"),
    );
    let always = json!({"spec": {"runStrategy": "Always"}});
    patch(&client, VM, "default", "web", always).await;
    crash_harvester(&client).await;
    let _webhook = play(&client, HarvesterVersion::new(1, 5, 0)).await;
    let backup = json!({"metadata": {"name": "nightly"}, "spec": {"source": {
        "apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}}});
    let progressing = async || {
        make(&client, VM_BACKUP, "default", backup.clone()).await;
        let of_web = json!({"readyToUse": false,
            "sourceUID": field(&machines, "web", "/metadata/uid").await});
        status(&backups, "nightly", of_web).await;
    };
    progressing().await;
    let halted = json!({"spec": {"runStrategy": "Halted"}});
    refuses(&machines, "web", &halted).await;
    assert_eq!(change(&machines, "db", halted).await, None);

    // The first machine may be stopped. It is not, since the second one may not.
    let (db, web) = (
        version(&machines, "db").await,
        version(&machines, "web").await,
    );
    let repair = |how: &str| run(&cluster, root, &["repair", "machines-block-settings", how]);
    for how in ["--dry-run", "--yes"] {
        let (code, said) = repair(how);
        assert_eq!(code, 6, "{said}");
        let refusal = "virtualmachines/web would be refused: 400: admission webhook \
            \"validator.harvesterhci.io\" denied the request: there is vmbackup in progress for vm default/web";
        assert!(said.contains(refusal), "{said}");
        assert!(said.contains("1 request would be accepted"), "{said}");
    }
    assert!(!has_records(root));
    assert_eq!(version(&machines, "db").await, db);
    assert_eq!(version(&machines, "web").await, web);

    // Once the backup is ready both may be stopped. Then another backup begins while the repair is interrupted.
    backups
        .delete("nightly", &Default::default())
        .await
        .unwrap();
    let (code, said) = repair("--dry-run");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("2 requests would be accepted"), "{said}");
    let mut begun = command(
        &cluster,
        root,
        &["repair", "machines-block-settings", "--yes"],
    )
    .stdout(Stdio::null())
    .spawn()
    .unwrap();
    eventually("the first machine is asked to stop", DEADLINE, async || {
        (field(&machines, "db", "/spec/runStrategy").await == "Halted").then_some(())
    })
    .await;
    begun.kill().unwrap();
    begun.wait().unwrap();
    // virt-controller shuts it down.
    status(&machines, "db", json!({"printableStatus": "Stopped"})).await;
    progressing().await;
    let db = version(&machines, "db").await;
    for how in ["--dry-run", "--yes"] {
        let (code, said) = repair(how);
        assert_eq!(code, 6, "{said}");
        assert!(said.contains("0 of 7 steps are done"), "{said}");
        assert!(
            said.contains("virtualmachines/web would be refused"),
            "{said}"
        );
        assert!(said.contains("The repair is not continued"), "{said}");
    }
    assert_eq!(version(&machines, "db").await, db);
    assert_eq!(version(&machines, "web").await, web);
    // What was done can be taken back whatever the second machine does.
    let (code, said) = run(&cluster, root, &["repair", "--undo", "--yes"]);
    assert_eq!(code, 0, "{said}");
    let restored = field(&machines, "db", "/spec/runStrategy").await;
    assert_eq!(restored, "RerunOnFailure");
    let at_once = DeleteParams::default();
    backups.delete("nightly", &at_once).await.unwrap();
    let (code, said) = repair("--dry-run");
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("steps are done"), "it begins again: {said}");
}
