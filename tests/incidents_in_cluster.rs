//! Level 4: the daemon of a server looks for known incidents in a real cluster, tells of them and of their end.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod support;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Spec, Who, Write, eventually};
use support::objects::{
    ADDON, BUDGET, CHART, DEPLOYMENT, EVENT, FEATURE, Gvk, JOB, KUBEVIRT, NODE, NODE_DRIVER, POD,
    SETTING, UPGRADE, VM, VOLUME,
};
use support::objects::{api, field, make, namespace, node, play_kubelets, serve, status};

/// A server's root with a daemon on it, which ends with the value.
struct Server {
    root: PathBuf,
    daemon: Child,
}

impl Server {
    /// One that looks every second, with further settings.
    fn start(cluster: &Cluster, root: &Path, settings: &str) -> Self {
        let write = |path: &str, text: &[u8]| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let kubeconfig = fs::read(cluster.kubeconfig(Who::Admin)).unwrap();
        write("etc/rancher/rke2/rke2.yaml", &kubeconfig);
        let settings = format!("diagnosis: {{interval: 1s}}\n{settings}");
        write("etc/windrow/windrow.yaml", settings.as_bytes());
        let daemon = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(["run", "--root"])
            .arg(root)
            .env_remove("NOTIFY_SOCKET")
            .env_remove("JOURNAL_STREAM")
            .stdin(Stdio::null())
            .stderr(File::create(root.join("log")).unwrap())
            .spawn()
            .unwrap();
        Self {
            root: root.to_owned(),
            daemon,
        }
    }

    /// The finding of this code in the status document.
    fn finding(&self, code: &str) -> Option<Value> {
        let content = fs::read(self.root.join("run/windrow/status.json")).ok()?;
        let status: Value = serde_json::from_slice(&content).ok()?;
        let mut findings = status["findings"].as_array()?.iter();
        findings.find(|one| one["code"] == code).cloned()
    }

    /// What the flight has of repairs.
    fn repairs(&self) -> Vec<String> {
        let path = self.root.join("var/lib/rancher/windrow/flight.jsonl");
        let flight = fs::read_to_string(path).unwrap_or_default();
        let lines = flight.lines().filter_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            (line["is"] == "repair").then(|| line["event"].as_str().unwrap().to_owned())
        });
        lines.collect()
    }

    /// Lines of the journal that have this.
    fn told(&self, what: &str) -> usize {
        let log = fs::read_to_string(self.root.join("log")).unwrap();
        log.lines().filter(|line| line.contains(what)).count()
    }

    fn windrow(&self, arguments: &[&str]) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .arg("--root")
            .arg(&self.root)
            .args(arguments)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.code().unwrap(),
            String::from_utf8(said).unwrap(),
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.root.join("log")).unwrap_or_default();
            println!("--- the daemon's log\n{log}");
        }
    }
}

#[tokio::test]
async fn the_daemon_tells_of_an_incident_once_with_what_it_saw_and_of_its_end() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    serve(&client, SETTING, "Cluster").await;
    serve(&client, VOLUME, "Namespaced").await;
    let (settings, volumes) = (api(&client, SETTING, ""), api(&client, VOLUME, "default"));
    let setting = json!({"metadata": {"name": "storage-network"}, "value": "{}"});
    make(&client, SETTING, "", setting).await;
    let waits = json!({"conditions": [{"type": "configured", "status": "False", "reason": "In Progress",
        "message": "waiting for all volumes detached: pvc-1", "lastUpdateTime": "2026-01-01T00:00:00Z"}]});
    status(&settings, "storage-network", waits).await;
    let volume = json!({"metadata": {"name": "pvc-1"}});
    make(&client, VOLUME, "default", volume).await;

    let root = tempfile::tempdir().unwrap();
    let server = Server::start(&cluster, root.path(), "");
    let attached = json!({"state": "attached", "currentNodeID": "node1", "kubernetesStatus": {
        "namespace": "default", "workloadsStatus": [{"podName": "virt-launcher-db"}]}});
    status(&volumes, "pvc-1", attached).await;
    let found = eventually("the finding is in the status", DEADLINE, async || {
        server.finding("storage-network-waits")
    })
    .await;
    assert_eq!(found["incident"]["subject"], "Setting storage-network");
    assert_eq!(
        found["incident"]["documentation"],
        "incidents/storage-network.md"
    );
    let seen = found["incident"]["evidence"].to_string();
    assert!(
        seen.contains("attached on node1, used by default/virt-launcher-db"),
        "{seen}"
    );
    for asked in [
        &["storage-network-waits"][..],
        &["Setting", "storage-network"],
    ] {
        let (code, said) = server.windrow(&[&["why"][..], asked].concat());
        assert_eq!(code, 3, "{said}");
        assert!(said.contains("seen: Volume default/pvc-1"), "{said}");
        assert!(said.contains("docs/incidents/storage-network.md"), "{said}");
    }

    status(&volumes, "pvc-1", json!({"state": "detached"})).await;
    eventually("it is recognised no longer", DEADLINE, async || {
        server
            .finding("storage-network-waits")
            .is_none()
            .then_some(())
    })
    .await;
    assert_eq!(server.told("waits for volumes to be detached"), 1);

    // Switched off, nobody looks.
    status(&volumes, "pvc-1", json!({"state": "attached"})).await;
    eventually("it is found again", DEADLINE, async || {
        server.finding("storage-network-waits")
    })
    .await;
    let off = "diagnosis: {enabled: false}\n";
    fs::write(root.path().join("etc/windrow/windrow.yaml"), off).unwrap();
    let daemon = server.daemon.id().to_string();
    let reload = Command::new("kill").args(["-HUP", &daemon]).status();
    assert!(reload.unwrap().success());
    eventually("what was found is forgotten", DEADLINE, async || {
        server
            .finding("storage-network-waits")
            .is_none()
            .then_some(())
    })
    .await;
}

/// Two servers that may cure; Harvester and virt-controller are played.
#[tokio::test]
async fn one_of_two_servers_cures_what_the_settings_name_and_never_twice_for_the_same_objects() {
    let spec = Spec {
        audit: true,
        ..Spec::default()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    serve(&client, VM, "Namespaced").await;
    serve(&client, SETTING, "Cluster").await;
    namespace(&client, "harvester-system").await;
    let (vms, settings) = (api(&client, VM, "default"), api(&client, SETTING, ""));
    let vm = json!({"metadata": {"name": "db"}, "spec": {"runStrategy": "RerunOnFailure"}});
    make(&client, VM, "default", vm).await;
    status(&vms, "db", json!({"printableStatus": "Running"})).await;
    let pods = api(&client, POD, "harvester-system");
    let pod = json!({"metadata": {"name": "harvester-1", "labels": {
            "app.kubernetes.io/name": "harvester", "app.kubernetes.io/component": "apiserver"}},
        "spec": {"containers": [{"name": "apiserver", "image": "harvester"}]}});
    make(&client, POD, "harvester-system", pod).await;
    let crashing = json!({"phase": "Running", "containerStatuses": [{
        "name": "apiserver", "image": "harvester", "imageID": "", "ready": false, "restartCount": 6,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "message": "Please stop all VMs"}}
    }]});
    status(&pods, "harvester-1", crashing).await;

    let auto = "repair:\n  auto: [machines-block-settings]\n";
    let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let servers = roots
        .each_ref()
        .map(|root| Server::start(&cluster, root.path(), auto));
    let flights = || servers.each_ref().map(Server::repairs);
    eventually("one server has cured it", DEADLINE, async || {
        let halted = field(&vms, "db", "/spec/runStrategy").await == "Halted";
        let word = if halted { "Stopped" } else { "Running" };
        status(&vms, "db", json!({"printableStatus": word})).await;
        if halted && settings.get_opt("storage-network").await.unwrap().is_none() {
            let setting = json!({"metadata": {"name": "storage-network"}});
            make(&client, SETTING, "", setting).await;
        }
        let told = flights().concat();
        told.contains(&"repair-done".to_owned()).then_some(())
    })
    .await;
    assert_eq!(
        field(&vms, "db", "/spec/runStrategy").await,
        "RerunOnFailure"
    );
    let patches = || {
        let writes = cluster.writes();
        let to_spec = |write: &&Write| write.resource == "virtualmachines" && write.verb == "patch";
        writes.iter().filter(to_spec).count()
    };
    assert_eq!(patches(), 2, "stopped once and started once");
    let mut told = flights();
    told.sort();
    let done = vec!["repair-begun".to_owned(), "repair-done".to_owned()];
    assert_eq!(told, [vec![], done], "one server alone");

    // The same machine blocks Harvester again: it is found, and left to people.
    settings
        .delete("storage-network", &Default::default())
        .await
        .unwrap();
    // Each of these takes another look.
    for word in ["Starting", "Running", "Paused", "Running"] {
        status(&vms, "db", json!({"printableStatus": word})).await;
        for server in &servers {
            eventually("the look has seen it", DEADLINE, async || {
                let found = server.finding("machines-block-settings")?;
                let seen = found["incident"]["evidence"].to_string();
                seen.contains(&format!("\"{word}\"")).then_some(())
            })
            .await;
        }
    }
    assert_eq!(patches(), 2);
}

/// What `windrow diagnose` says of a cluster: its exit code, the codes that it found, and all of it.
fn diagnose(cluster: &Cluster, root: &Path) -> (i32, Vec<String>, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .args(["diagnose", "-o", "json", "--kubeconfig"])
        .arg(cluster.kubeconfig(Who::Admin))
        .output()
        .unwrap();
    let said: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(said["unknown"], json!([]), "{said:#}");
    let findings = said["findings"].as_array().unwrap().iter();
    let codes = findings.map(|one| one["code"].as_str().unwrap().to_owned());
    let codes = codes.collect();
    (output.status.code().unwrap(), codes, said)
}

/// The codes alone.
fn codes(cluster: &Cluster, root: &Path) -> Vec<String> {
    diagnose(cluster, root).1
}

async fn patch(client: &Client, gvk: Gvk, namespace: &str, name: &str, patch: Value) {
    let api = api(client, gvk, namespace);
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

/// The scheduler, the Job controller, the disruption controller and the deploy controller are real; Rancher,
/// Harvester, virt-operator and the kubelets are played.
#[tokio::test]
async fn each_incident_is_recognised_and_its_healthy_and_slow_neighbours_are_not() {
    let spec = Spec {
        controller_manager: true,
        scheduler: true,
        ..Spec::default()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    let root = tempfile::tempdir().unwrap();
    for (gvk, scope) in [
        (ADDON, "Namespaced"),
        (CHART, "Namespaced"),
        (SETTING, "Cluster"),
        (UPGRADE, "Namespaced"),
        (KUBEVIRT, "Namespaced"),
        (VM, "Namespaced"),
        (VOLUME, "Namespaced"),
        (FEATURE, "Cluster"),
        (NODE_DRIVER, "Cluster"),
    ] {
        serve(&client, gvk, scope).await;
    }
    namespace(&client, "harvester-system").await;
    // RKE2 with a file that fails from the first pass on.
    let manifests = tempfile::tempdir().unwrap();
    let config_map =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good, namespace: default}\n";
    fs::write(manifests.path().join("good.yaml"), config_map).unwrap();
    let unknown = "apiVersion: example.io/v1\nkind: Unknown\nmetadata: {name: bad}\n";
    fs::write(manifests.path().join("bad.yaml"), unknown).unwrap();
    let Some(rke2) = cluster.deploy(manifests.path()) else {
        return;
    };
    assert_eq!(codes(&cluster, root.path()), [""; 0]);

    pre_drained(&cluster, &client, root.path()).await;
    rancher(&cluster, &client, root.path()).await;
    storage(&cluster, &client, root.path()).await;
    chart(&cluster, &client, root.path()).await;

    // Two passes are a start that is merely slow. RKE2's own events are then made to say what they would after
    // some minutes.
    rke2.passed(2).await;
    assert_eq!(codes(&cluster, root.path()), [""; 0]);
    let events = api(&client, EVENT, "kube-system");
    let counted = eventually("the deploy controller has told", DEADLINE, async || {
        let all = events.list(&Default::default()).await.unwrap().items;
        let told = |name: &str, reason: &str| {
            all.iter().find(|event| {
                event.data["involvedObject"]["name"] == name && event.data["reason"] == reason
            })
        };
        let pair = told("good", "AppliedManifest").zip(told("bad", "ApplyManifestFailed"))?;
        Some([pair.0, pair.1].map(|event| event.metadata.name.clone().unwrap()))
    })
    .await;
    // What it goes on to count would take the place of what is written now.
    drop(rke2);
    for name in &counted {
        let later = json!({"count": 12, "lastTimestamp": Timestamp::now().to_string()});
        patch(&client, EVENT, "kube-system", name, later).await;
    }
    let (code, found, said) = diagnose(&cluster, root.path());
    assert_eq!(
        (code, found),
        (0, vec!["apply-storm".to_owned()]),
        "{said:#}"
    );
    let seen = said["findings"][0]["evidence"].to_string();
    assert!(seen.contains("Addon kube-system/bad"), "{seen}");
    assert!(seen.contains("Addon kube-system/good"), "{seen}");
}

/// C: KubeVirt's pods are pinned to the one server, and its drain can never finish.
async fn pre_drained(cluster: &Cluster, client: &Client, root: &Path) {
    let server = json!({"node-role.kubernetes.io/control-plane": "true"});
    node(client, "n1", server, json!([])).await;
    let labels = json!({"kubevirt.io": "virt-api"});
    let pinned = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]}]}}});
    let deployment = json!({"metadata": {"name": "virt-api"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"affinity": pinned, "containers": [{"name": "c", "image": "none"}]}}}});
    let system = "harvester-system";
    make(client, DEPLOYMENT, system, deployment).await;
    let budget = json!({"metadata": {"name": "virt-api-pdb"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}});
    make(client, BUDGET, system, budget).await;
    let kubevirt = json!({"metadata": {"name": "kubevirt"}, "spec": {"infra": {"nodePlacement": {
        "nodeSelector": {"node-role.kubernetes.io/control-plane": "true"}}}}});
    make(client, KUBEVIRT, system, kubevirt).await;
    let upgrade =
        json!({"metadata": {"name": "up", "labels": {"harvesterhci.io/latestUpgrade": "true"}}});
    make(client, UPGRADE, system, upgrade).await;
    let (budgets, upgrades) = (api(client, BUDGET, system), api(client, UPGRADE, system));
    let state = |state: &str| json!({"nodeStatuses": {"n1": {"state": state}}});
    eventually("both pods are counted", DEADLINE, async || {
        play_kubelets(client, system).await;
        (field(&budgets, "virt-api-pdb", "/status/currentHealthy").await == 2).then_some(())
    })
    .await;
    node(client, "n2", json!({}), json!([])).await;
    // As Rancher drains: cordoned, and the first pod goes. What replaces it finds no node.
    patch(
        client,
        NODE,
        "",
        "n1",
        json!({"spec": {"unschedulable": true}}),
    )
    .await;
    let pods = api(client, POD, system);
    let first = pods.list(&Default::default()).await.unwrap().items;
    let first = first[0].metadata.name.clone().unwrap();
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete(&first, &at_once).await.unwrap();
    eventually("the budget allows nothing more", DEADLINE, async || {
        let allowed = field(&budgets, "virt-api-pdb", "/status/disruptionsAllowed").await;
        (allowed == 0).then_some(())
    })
    .await;
    // Not yet drained, it is nobody's business.
    status(&upgrades, "up", state("Pre-draining")).await;
    assert_eq!(codes(cluster, root), [""; 0]);
    status(&upgrades, "up", state("Pre-drained")).await;
    let (code, found, said) = diagnose(cluster, root);
    assert_eq!(
        (code, found),
        (4, vec!["drain-blocked".to_owned()]),
        "{said:#}"
    );
    let proof = said["findings"][0]["proof"].to_string();
    assert!(proof.contains("harvester-system/virt-api-"), "{proof}");
    assert!(proof.contains("n2"), "the other node is named: {proof}");

    let repair = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .args(["repair", "drain-blocked", "--yes", "--kubeconfig"])
        .arg(cluster.kubeconfig(Who::Admin))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let kubevirts = api(client, KUBEVIRT, system);
    let mut repair = Some(repair);
    let mut rolled_out = false;
    let output = eventually("the repair ends", DEADLINE, async || {
        // virt-operator: rolls out anew what may run anywhere, until one of its pods has left the server.
        let placement = field(&kubevirts, "kubevirt", "/spec/infra/nodePlacement").await;
        if placement == json!({}) && !rolled_out {
            let anywhere = json!({"spec": {"template": {"spec": {"affinity": null}}}});
            patch(client, DEPLOYMENT, system, "virt-api", anywhere).await;
            rolled_out = true;
        }
        play_kubelets(client, system).await;
        repair.as_mut()?.try_wait().unwrap()?;
        repair.take().map(|ended| ended.wait_with_output().unwrap())
    })
    .await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Done, and verified"), "{said}");
    assert!(rolled_out);
    assert_eq!(codes(cluster, root), [""; 0]);
}

/// D: the feature is off, and its driver is not.
async fn rancher(cluster: &Cluster, client: &Client, root: &Path) {
    let feature = json!({"metadata": {"name": "harvester"}, "spec": {"value": true}});
    make(client, FEATURE, "", feature).await;
    let baremetal =
        json!({"metadata": {"name": "harvester-baremetal-container-workload"}, "spec": {}});
    make(client, FEATURE, "", baremetal).await;
    let url = "https://releases.rancher.com/harvester-node-driver";
    let driver = json!({"metadata": {"name": "harvester"}, "spec": {"active": true, "url": url}});
    make(client, NODE_DRIVER, "", driver).await;
    assert_eq!(codes(cluster, root), [""; 0], "on, with its driver");
    patch(
        client,
        FEATURE,
        "",
        "harvester",
        json!({"spec": {"value": false}}),
    )
    .await;
    let drivers = api(client, NODE_DRIVER, "");
    let retries = json!({"conditions": [{"type": "Downloaded", "status": "False",
        "message": "dial tcp: lookup releases.rancher.com: no such host"}]});
    status(&drivers, "harvester", retries).await;
    let (code, found, said) = diagnose(cluster, root);
    assert_eq!(
        (code, found),
        (0, vec!["driver-without-feature".to_owned()]),
        "{said:#}"
    );
    assert!(said.to_string().contains("no such host"), "{said:#}");
    patch(
        client,
        NODE_DRIVER,
        "",
        "harvester",
        json!({"spec": {"active": false}}),
    )
    .await;
    assert_eq!(codes(cluster, root), [""; 0], "its driver follows");
}

/// The storage network waits for a volume.
async fn storage(cluster: &Cluster, client: &Client, root: &Path) {
    let setting = json!({"metadata": {"name": "storage-network"}, "value": "{}"});
    make(client, SETTING, "", setting).await;
    make(
        client,
        VOLUME,
        "default",
        json!({"metadata": {"name": "pvc-1"}}),
    )
    .await;
    let (settings, volumes) = (api(client, SETTING, ""), api(client, VOLUME, "default"));
    status(
        &volumes,
        "pvc-1",
        json!({"state": "attached", "currentNodeID": "n1"}),
    )
    .await;
    let waits = |since: Timestamp| {
        json!({"conditions": [{"type": "configured", "status": "False", "reason": "In Progress",
            "message": "waiting for all volumes detached: pvc-1", "lastUpdateTime": since.to_string()}]})
    };
    status(&settings, "storage-network", waits(Timestamp::now())).await;
    assert_eq!(codes(cluster, root), [""; 0], "it has only just begun");
    let long_ago = Timestamp::now() - SignedDuration::from_mins(30);
    status(&settings, "storage-network", waits(long_ago)).await;
    assert_eq!(codes(cluster, root), ["storage-network-waits"]);
    status(&volumes, "pvc-1", json!({"state": "detached"})).await;
    assert_eq!(codes(cluster, root), [""; 0]);
}

/// A chart whose Job fails again and again; the Job controller counts.
async fn chart(cluster: &Cluster, client: &Client, root: &Path) {
    make(
        client,
        CHART,
        "default",
        json!({"metadata": {"name": "db"}}),
    )
    .await;
    let charts = api(client, CHART, "default");
    status(&charts, "db", json!({"jobName": "helm-install-db"})).await;
    let job = json!({"metadata": {"name": "helm-install-db"}, "spec": {
        "backoffLimit": 1000, "parallelism": 6, "completions": 6, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "helm", "image": "klipper-helm"}]}}}});
    make(client, JOB, "default", job).await;
    let (jobs, pods) = (api(client, JOB, "default"), api(client, POD, "default"));
    let fail = async |most: usize| {
        let all = pods.list(&Default::default()).await.unwrap().items;
        let running = all
            .iter()
            .filter(|pod| pod.data["status"]["phase"] != "Failed");
        for pod in running.take(most) {
            let name = pod.metadata.name.as_deref().unwrap();
            let failed = json!({"status": {"phase": "Failed"}});
            let merge = PatchParams::default();
            let _ = pods
                .patch_status(name, &merge, &Patch::Merge(&failed))
                .await;
        }
    };
    let counted = async |least: u64| {
        eventually("the Job controller has counted", DEADLINE, async || {
            let failed = field(&jobs, "helm-install-db", "/status/failed").await;
            (failed.as_u64().unwrap_or_default() >= least).then_some(())
        })
        .await;
    };
    eventually("the Job has its pods", DEADLINE, async || {
        let all = pods.list(&Default::default()).await.unwrap().items;
        (all.len() >= 6).then_some(())
    })
    .await;
    fail(2).await;
    counted(2).await;
    assert_eq!(
        codes(cluster, root),
        [""; 0],
        "one that is tried again is on its way"
    );
    fail(6).await;
    counted(5).await;
    let (code, found, said) = diagnose(cluster, root);
    assert_eq!(
        (code, found),
        (0, vec!["chart-retries".to_owned()]),
        "{said:#}"
    );
    jobs.delete("helm-install-db", &Default::default())
        .await
        .unwrap();
    charts.delete("db", &Default::default()).await.unwrap();
}
