//! Level 4: a server's daemon looks for known incidents in a real cluster, reports them and their end, and cures those
//! that its settings name.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, PostParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::cluster::{AuditLog, Cluster, DEADLINE, Spec, Who, Write, eventually};
use support::objects::{POD, SETTING, VM, VOLUME};
use support::objects::{api, field, make, namespace, serve_published, status};

use crate::support;

const BINDING: (&str, &str, &str) = ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding");

/// A server's root with a daemon on it, which ends with the value.
pub(crate) struct Server {
    root: PathBuf,
    daemon: Child,
}

impl Server {
    /// One that looks every second, with further settings.
    fn start(cluster: &Cluster, root: &Path, settings: &str) -> Self {
        Self::start_as(cluster, Who::Admin, root, settings)
    }

    /// The same, with an identity by which the audit log knows it.
    fn start_as(cluster: &Cluster, who: Who, root: &Path, settings: &str) -> Self {
        let program = Command::new(env!("CARGO_BIN_EXE_windrowd"));
        Self::start_program(program, &cluster.kubeconfig(who), root, settings)
    }

    /// The same, where the program is started in another way.
    pub(crate) fn start_program(
        mut program: Command,
        kubeconfig: &Path,
        root: &Path,
        settings: &str,
    ) -> Self {
        let write = |path: &str, text: &[u8]| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let kubeconfig = fs::read(kubeconfig).unwrap();
        write("etc/rancher/rke2/rke2.yaml", &kubeconfig);
        let settings = format!("diagnosis: {{interval: 1s}}\n{settings}");
        write("etc/windrow/windrow.yaml", settings.as_bytes());
        // Servers are told apart by it, as machines are. One that has a repair of a person keeps it.
        if !root.join("etc/machine-id").exists() {
            let identity = root.as_os_str().as_encoded_bytes();
            write("etc/machine-id", identity);
        }
        let daemon = program
            .arg("--root")
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

    /// Who has seen the finding of this code, where it was another server.
    fn seen_by(&self, code: &str) -> Option<String> {
        let finding = self.finding(code)?;
        let evidence = finding["incident"]["evidence"].as_array()?;
        let seen = evidence.iter().find(|one| one["field"] == "seen by")?;
        Some(seen["value"].as_str()?.to_owned())
    }

    /// The id of the daemon's process.
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.id()
    }

    fn signal(&self, signal: Signal) {
        let daemon = Pid::from_raw(self.daemon.id().try_into().unwrap());
        kill(daemon, signal).unwrap();
    }

    /// The flight's entries about repairs.
    fn repairs(&self) -> Vec<String> {
        let path = self.root.join("var/lib/rancher/windrow/flight.jsonl");
        let flight = fs::read_to_string(path).unwrap_or_default();
        let lines = flight.lines().filter_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            (line["is"] == "repair").then(|| line["event"].as_str().unwrap().to_owned())
        });
        lines.collect()
    }

    /// Lines of the journal that contain this.
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
    let Some((cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    serve_published(&client, SETTING, "Cluster").await;
    serve_published(&client, VOLUME, "Namespaced").await;
    let settings = api(&client, SETTING, "");
    let volumes = api(&client, VOLUME, "longhorn-system");
    let setting = json!({"metadata": {"name": "storage-network"}, "value": "{}"});
    make(&client, SETTING, "", setting).await;
    let waits = json!({"conditions": [{"type": "configured", "status": "False", "reason": "In Progress",
        "message": "waiting for all volumes detached: pvc-1", "lastUpdateTime": "2026-01-01T00:00:00Z"}]});
    status(&settings, "storage-network", waits).await;
    let volume = json!({"metadata": {"name": "pvc-1"}});
    namespace(&client, "longhorn-system").await;
    make(&client, VOLUME, "longhorn-system", volume).await;

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
        assert!(
            said.contains("evidence: Volume longhorn-system/pvc-1"),
            "{said}"
        );
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
    assert_eq!(server.told("these volumes are not detached"), 1);

    // Switched off, it looks no more.
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
        audit: AuditLog::Writes,
        ..Spec::default()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    serve_published(&client, VM, "Namespaced").await;
    serve_published(&client, SETTING, "Cluster").await;
    namespace(&client, "harvester-system").await;
    let (vms, settings) = (api(&client, VM, "default"), api(&client, SETTING, ""));
    let vm = json!({"metadata": {"name": "db"}, "spec": {"runStrategy": "RerunOnFailure",
        "template": {"spec": {"domain": {"devices": {}}}}}});
    make(&client, VM, "default", vm).await;
    status(&vms, "db", json!({"printableStatus": "Running"})).await;
    let pods = api(&client, POD, "harvester-system");
    let pod = json!({"metadata": {"name": "harvester-1", "labels": {
            "app.kubernetes.io/name": "harvester", "app.kubernetes.io/component": "apiserver"}},
        "spec": {"containers": [{"name": "apiserver", "image": "rancher/harvester:v1.4.3"}]}});
    make(&client, POD, "harvester-system", pod).await;
    let crashing = json!({"phase": "Running", "containerStatuses": [{
        "name": "apiserver", "image": "harvester", "imageID": "", "ready": false, "restartCount": 6,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "message": "Please stop all VMs before configuring the storage-network setting"}}
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
        // What kube-apiserver put off is sent again, and changed nothing.
        let to_spec = |write: &&Write| {
            write.resource == "virtualmachines" && write.verb == "patch" && write.code == 200
        };
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

/// Two servers of one cluster, each known to the audit log by its own user.
#[tokio::test]
async fn one_of_two_servers_looks_at_the_cluster_and_the_other_goes_on_when_it_is_gone() {
    const CODE: &str = "storage-network-waits";
    let Some(cluster) = Cluster::start_audited().await else {
        return;
    };
    let log = cluster.audit_log();
    let client = cluster.client(Who::Admin).await;
    serve_published(&client, SETTING, "Cluster").await;
    serve_published(&client, VOLUME, "Namespaced").await;
    let binding = json!({"metadata": {"name": "second"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}]});
    make(&client, BINDING, "", binding).await;
    let setting = json!({"metadata": {"name": "storage-network"}, "value": "{}"});
    make(&client, SETTING, "", setting).await;
    let waits = json!({"conditions": [{"type": "configured", "status": "False", "reason": "In Progress",
        "message": "waiting for all volumes detached: pvc-1", "lastUpdateTime": "2026-01-01T00:00:00Z"}]});
    status(&api(&client, SETTING, ""), "storage-network", waits).await;
    namespace(&client, "longhorn-system").await;
    make(
        &client,
        VOLUME,
        "longhorn-system",
        json!({"metadata": {"name": "pvc-1"}}),
    )
    .await;
    let attached = json!({"state": "attached", "currentNodeID": "node1"});
    status(&api(&client, VOLUME, "longhorn-system"), "pvc-1", attached).await;

    // How often one has listed Settings, which only the look does, and how often it has read the Lease.
    let asked = |user: &str, verb: &str, resource: &str| -> usize {
        let log = fs::read_to_string(&log).unwrap();
        let events = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_it = |event: &Value| {
            let object = &event["objectRef"];
            let lease = resource != "leases" || object["name"] == "windrow-diagnosis";
            event["user"]["username"] == user
                && event["verb"] == verb
                && object["resource"] == resource
                && lease
        };
        events.filter(is_it).count()
    };
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let holder = async || {
        let spec = leases.get("windrow-diagnosis").await.unwrap().spec;
        spec.unwrap().holder_identity.unwrap_or_default()
    };

    let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let first = Server::start(&cluster, roots[0].path(), "");
    eventually("the first one finds it", DEADLINE, async || {
        first.finding(CODE)
    })
    .await;
    let second = Server::start_as(&cluster, Who::Viewer, roots[1].path(), "");
    let by = eventually("the second one shows it", DEADLINE, async || {
        second.seen_by(CODE)
    })
    .await;
    let one = holder().await;
    assert_eq!(by, one, "and says who has seen it");
    assert_eq!(first.seen_by(CODE), None);

    let (looked, listed) = (
        asked("system:admin", "list", "settings"),
        asked("viewer", "list", "settings"),
    );
    let read = asked("viewer", "get", "leases");
    eventually("some more turns", DEADLINE, async || {
        let turns = asked("viewer", "get", "leases") > read + 6;
        let looks = asked("system:admin", "list", "settings") > looked + 6;
        (turns && looks).then_some(())
    })
    .await;
    assert_eq!(
        asked("viewer", "list", "settings"),
        listed,
        "one server asks for all"
    );

    // What counted counts on, without a gap: nothing says Ready in between.
    let goes_on = async |server: &Server, before: &str| {
        let seen = async || {
            assert!(server.finding(CODE).is_some(), "it is gone meanwhile");
            let looks = server.seen_by(CODE).is_none() && holder().await != before;
            looks.then_some(())
        };
        eventually("the other one looks", DEADLINE, seen).await;
    };
    first.signal(Signal::SIGTERM);
    goes_on(&second, &one).await;

    // The second is gone without a word, while the first is there again.
    let other = holder().await;
    drop(first);
    let first = Server::start(&cluster, roots[0].path(), "");
    eventually("the first one shows it", DEADLINE, async || {
        (first.seen_by(CODE)? == other).then_some(())
    })
    .await;
    second.signal(Signal::SIGKILL);
    drop(second);
    let mut lease = leases.get("windrow-diagnosis").await.unwrap();
    let long_ago = "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap();
    lease.spec.as_mut().unwrap().renew_time = Some(MicroTime(long_ago));
    let parameters = PostParams::default();
    let run_out = leases.replace("windrow-diagnosis", &parameters, &lease);
    run_out.await.unwrap();
    goes_on(&first, &other).await;
    assert_eq!(holder().await, one);
}
