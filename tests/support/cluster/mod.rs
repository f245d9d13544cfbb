//! A test cluster: etcd and the real kube-apiserver on loopback, with certificates of its own, and on request
//! kube-controller-manager and the deploy controller of RKE2 on a folder.
//!
//! Knows how a cluster is put together, started and ended, but nothing of Windrow. Every process ends with its value,
//! or, if this process dies, with the pipe that it holds (see `process`). One cluster can serve all tests of a file:
//! [`shared`].

// Each test file uses a part of it.
#![allow(dead_code, unused_imports)]

pub(crate) mod assets;
mod audit;
mod etcd;
mod events;
mod gateway;
mod harvester;
mod helm;
mod kubevirt;
mod pki;
mod pods;
mod process;
mod tunnel;

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Client;
use kube::api::GetParams;
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use kube::core::Request;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};
use tower::Layer;
use tower::retry::RetryLayer;
use windrow::apiserver::ApiServer;

pub(crate) use assets::{HelmVersion, Minor};
pub(crate) use audit::{AuditLog, Write, refused};
pub(crate) use events::Recorder;
pub(crate) use gateway::{Asked, End, Gateway};
pub(crate) use harvester::{HarvesterControllers, HarvesterWebhook};
pub(crate) use helm::HelmController;
pub(crate) use kubevirt::{KubeVirt, VirtController};
pub(crate) use pki::Who;
use pki::{OwnCertificate, Pki};
use process::{Janitor, Process};
use tunnel::Tunnel;

/// Far longer than anything takes here: reaching it is a failure, not a measurement.
pub(crate) const DEADLINE: Duration = Duration::from_secs(600);
/// The wait between two looks at something that does not report its changes.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What a cluster consists of.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// The Kubernetes version.
    pub(crate) minor: Minor,
    /// Whether controllers run: Deployments make pods, namespaces terminate, service accounts appear.
    pub(crate) controller_manager: bool,
    /// Whether pods get nodes. Without a kubelet, the controllers leave silent nodes alone then.
    pub(crate) scheduler: bool,
    /// What kube-apiserver records of the requests to it.
    pub(crate) audit: AuditLog,
    /// Whether kube-apiserver reaches the pods whose programs run here (`pods`).
    pub(crate) pods: bool,
    /// Further arguments of kube-apiserver.
    pub(crate) arguments: Vec<String>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            minor: Minor::V1_36,
            controller_manager: false,
            scheduler: false,
            audit: AuditLog::Off,
            pods: false,
            arguments: Vec::new(),
        }
    }
}

impl Spec {
    /// Deployments and Jobs make pods, and these get nodes.
    pub(crate) fn with_controllers() -> Self {
        Self {
            controller_manager: true,
            scheduler: true,
            ..Self::default()
        }
    }
}

/// A running cluster.
pub(crate) struct Cluster {
    // Declared in the order in which they must end.
    controller_manager: Option<Process>,
    scheduler: Option<Process>,
    apiserver: Process,
    tunnel: Option<Tunnel>,
    etcd: Process,
    dir: Janitor,
    pki: Pki,
    spec: Spec,
    port: u16,
    etcd_port: u16,
}

/// Why no cluster can be started here, in one line; `None` when one can.
pub(crate) fn missing(minor: Minor) -> Option<String> {
    ["etcd", "kube-apiserver"]
        .into_iter()
        .find_map(|name| assets::find(minor, name).err())
}

/// Prints why a test is skipped, or panics where `WINDROW_REQUIRE_CLUSTER` forbids skipping. True when it is skipped.
pub(crate) fn skipped(minor: Minor) -> bool {
    let Some(why) = missing(minor) else {
        return false;
    };
    skip(&why);
    true
}

/// Prints why a test is skipped, or panics where `WINDROW_REQUIRE_CLUSTER` forbids skipping.
pub(crate) fn skip(why: &str) {
    assert!(
        std::env::var_os("WINDROW_REQUIRE_CLUSTER").is_none(),
        "WINDROW_REQUIRE_CLUSTER is set, and {why}"
    );
    // Not eprintln: the line must show without --nocapture.
    writeln!(std::io::stderr(), "skipped: {why}").expect("standard error is open");
}

/// A cluster that the tests of one file share.
pub(crate) type SharedCluster = OnceCell<Option<Cluster>>;

/// The cluster that tests share, started by the first one that asks; `None`, after one line that says why, when the parts are not
/// here.
pub(crate) async fn shared(cluster: &'static SharedCluster) -> Option<&'static Cluster> {
    cluster
        .get_or_init(async || Cluster::start(Spec::default()).await)
        .await
        .as_ref()
}

/// kube-apiserver's message about arguments that it refuses: its last line, or `None` if it took them. No cluster is
/// needed: feature gates and `runtime-config` are checked before a file that does not exist ends it, and etcd comes later.
pub(crate) async fn refusal(minor: Minor, arguments: &[&str]) -> Option<String> {
    let dir = Janitor::new();
    let pki = Pki::create(dir.path());
    let mut all = apiserver_arguments(&pki, dir.path(), free_port(), free_port());
    all.extend(arguments.iter().map(ToString::to_string));
    all.push("--permit-port-sharing=true".to_owned());
    all.push("--egress-selector-config-file=/nonexistent".to_owned());
    let program = assets::find(minor, "kube-apiserver").expect("the parts are here");
    let process = Process::start("kube-apiserver", &program, &all, dir.path(), &[]);
    let is_ended = async || process.ended().then_some(());
    eventually("kube-apiserver ends", DEADLINE, is_ended).await;
    let log = process.log();
    let last = log
        .lines()
        .rfind(|line| line.contains("Error: ") || line.contains("command failed"));
    let last = last.unwrap_or_else(|| panic!("kube-apiserver ended without saying why:\n{log}"));
    (!last.contains("egress selector")).then(|| last.to_owned())
}

impl Cluster {
    /// Starts a cluster and waits until it is ready; `None`, after one line that says why, when the parts are not here.
    pub(crate) async fn start(spec: Spec) -> Option<Self> {
        Self::start_until(spec, None).await
    }

    /// The same of a kube-apiserver that never becomes ready: waits until its log has this text.
    pub(crate) async fn start_unready(spec: Spec, logged: &str) -> Option<Self> {
        Self::start_until(spec, Some(logged)).await
    }

    async fn start_until(spec: Spec, logged: Option<&str>) -> Option<Self> {
        if skipped(spec.minor) {
            return None;
        }
        // A port that was free a moment ago may be taken now: another process asks for ports in the same way.
        for _ in 0..10 {
            if let Some(cluster) = Self::try_start(&spec, logged).await {
                return Some(cluster);
            }
        }
        panic!("no free ports for a cluster in ten tries");
    }

    /// A cluster that records every request: [`Cluster::audit_log`].
    pub(crate) async fn start_audited() -> Option<Self> {
        let spec = Spec {
            audit: AuditLog::Everything,
            ..Spec::default()
        };
        Self::start(spec).await
    }

    async fn try_start(spec: &Spec, logged: Option<&str>) -> Option<Self> {
        let find = |name| assets::find(spec.minor, name).expect("the parts are here");
        let dir = Janitor::new();
        let pki = Pki::create(dir.path());
        let (port, etcd_port) = (free_port(), free_port());
        let url = format!("http://127.0.0.1:{etcd_port}");
        let data = dir.path().join("etcd");
        let etcd = [
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
            "--unsafe-no-fsync".to_owned(),
        ];
        let etcd = Process::start("etcd", &find("etcd"), &etcd, dir.path(), &[]);
        // kube-apiserver gives up after 20 s without it, which it may need to start on a busy machine.
        let is_up = eventually("etcd answers", DEADLINE, async || {
            match etcd.lost_its_port() {
                true => Some(false),
                false => etcd::is_healthy(etcd_port).await.then_some(true),
            }
        });
        if !is_up.await {
            return None;
        }
        let mut arguments = apiserver_arguments(&pki, dir.path(), port, etcd_port);
        arguments.extend(spec.audit.arguments(dir.path()));
        let tunnel = spec.pods.then(|| Tunnel::start(dir.path(), port));
        if spec.pods {
            arguments.extend(tunnel::arguments(dir.path(), &pki));
        }
        arguments.extend(spec.arguments.iter().cloned());
        let apiserver = Process::start(
            "kube-apiserver",
            &find("kube-apiserver"),
            &arguments,
            dir.path(),
            &[],
        );
        pki.write_kubeconfigs(port);

        let mut cluster = Self {
            controller_manager: None,
            scheduler: None,
            apiserver,
            tunnel,
            etcd,
            dir,
            pki,
            spec: spec.clone(),
            port,
            etcd_port,
        };
        let admin = cluster.client(Who::Admin).await;
        let ready = eventually("kube-apiserver is ready", DEADLINE, async || {
            let mut both = [&cluster.apiserver, &cluster.etcd].into_iter();
            if both.any(Process::lost_its_port) {
                return Some(false);
            }
            if let Some(text) = logged {
                return cluster.apiserver.log().contains(text).then_some(true);
            }
            let request = Request::new("")
                .get("readyz", &GetParams::default())
                .expect("it is a path");
            admin.request_text(request).await.is_ok().then_some(true)
        })
        .await;
        if !ready {
            return None;
        }
        if spec.controller_manager {
            let mut arguments = vec![
                format!("--kubeconfig={}", cluster.kubeconfig(Who::Admin).display()),
                format!(
                    "--service-account-private-key-file={}",
                    cluster.pki.service_account_key().display()
                ),
                format!("--root-ca-file={}", cluster.pki.ca().display()),
                "--use-service-account-credentials=false".to_owned(),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
            ];
            if spec.scheduler {
                arguments.push(
                    "--controllers=*,-node-lifecycle-controller,-taint-eviction-controller"
                        .to_owned(),
                );
            }
            let program = find("kube-controller-manager");
            let process = Process::start(
                "kube-controller-manager",
                &program,
                &arguments,
                cluster.dir.path(),
                &[],
            );
            cluster.controller_manager = Some(process);
        }
        if spec.scheduler {
            let arguments = [
                format!("--kubeconfig={}", cluster.kubeconfig(Who::Admin).display()),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
            ];
            let program = find("kube-scheduler");
            let dir = cluster.dir.path();
            let process = Process::start("kube-scheduler", &program, &arguments, dir, &[]);
            cluster.scheduler = Some(process);
        }
        Some(cluster)
    }

    /// Where the cluster's files are. It is removed with the cluster.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The name and the id of each of its processes.
    pub(crate) fn processes(&self) -> Vec<(&str, u32)> {
        self.all()
            .map(|process| (process.name.as_str(), process.pid()))
            .collect()
    }

    fn all(&self) -> impl Iterator<Item = &Process> {
        let all = [
            Some(&self.etcd),
            Some(&self.apiserver),
            self.controller_manager.as_ref(),
            self.scheduler.as_ref(),
        ];
        all.into_iter().flatten()
    }

    /// The API server's address.
    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The kubeconfig file of an identity.
    pub(crate) fn kubeconfig(&self, who: Who) -> PathBuf {
        self.pki.kubeconfig(who)
    }

    /// The API server goes on with a certificate that no client of the cluster trusts.
    pub(crate) fn serve_a_foreign_certificate(&self) -> OwnCertificate {
        self.pki.replace_server()
    }

    /// The file with what the API server records. Needs [`Spec::audit`].
    pub(crate) fn audit_log(&self) -> PathBuf {
        audit::file_in(self.dir.path())
    }

    /// Every write that the API server answered so far, in order. Needs [`Spec::audit`].
    pub(crate) fn writes(&self) -> Vec<Write> {
        audit::writes(self.dir.path())
    }

    /// [`Cluster::start`] as it is by itself, with a client that may do everything.
    pub(crate) async fn with_its_admin() -> Option<(Self, Client)> {
        let cluster = Self::start(Spec::default()).await?;
        let client = cluster.client(Who::Admin).await;
        Some((cluster, client))
    }

    /// A client with an identity, which tries again when a newly started server puts it off. It belongs to the runtime
    /// of the calling test.
    pub(crate) async fn client(&self, who: Who) -> Client {
        let once = self.client_that_asks_once(who).await;
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let once = once.clone();
            async move { once.send(request).await.map_err(tower::BoxError::from) }
        });
        let again = RetryLayer::new(RetryPolicy::server_retry());
        Client::new(again.layer(service), "default")
    }

    /// The same, but a refusal (429, 503) is an answer.
    pub(crate) async fn client_that_asks_once(&self, who: Who) -> Client {
        let api = ApiServer::connecting_within(DEADLINE);
        let client = api.client(&self.kubeconfig(who)).await;
        client.expect("the kubeconfig is whole")
    }

    /// Runs RKE2's deploy controller on a folder, as one server would; `None`, after one line, when it is not here.
    pub(crate) fn deploy(&self, folder: &Path) -> Option<DeployController> {
        self.start_deploy("deploy-controller", folder, None)
    }

    /// The same, under a name that identifies its writes ([`Write::program`]), and with no pass but those of
    /// [`DeployController::one_more_pass`]: what is changed between two of them is changed there on a slow machine too.
    pub(crate) fn deploy_pass_by_pass(
        &self,
        name: &str,
        folder: &Path,
    ) -> Option<DeployController> {
        let passes = self.dir().join(format!("{name}.passes"));
        self.start_deploy(name, folder, Some(passes))
    }

    fn start_deploy(
        &self,
        name: &str,
        folder: &Path,
        passes: Option<PathBuf>,
    ) -> Option<DeployController> {
        let program = assets::find(self.spec.minor, "deploy-controller")
            .inspect_err(|why| skip(why))
            .ok()?;
        let kubeconfig = self.kubeconfig(Who::Admin);
        let paths = [&kubeconfig, folder].into_iter().chain(passes.as_deref());
        let arguments: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        let logs = tempfile::tempdir_in(self.dir.path())
            .expect("the cluster's directory is writable")
            .keep();
        let called = logs.join(name);
        symlink(program, &called).expect("the cluster's directory is writable");
        // In UTC its log can be compared with the events.
        let environment = [("NODE_NAME", "node1"), ("TZ", "UTC")];
        let process = Process::start(
            "deploy-controller",
            &called,
            &arguments,
            &logs,
            &environment,
        );
        Some(DeployController { process, passes })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print_logs();
        }
    }
}

impl Cluster {
    /// Prints the end of each log: what a failed test against a shared cluster calls through [`Cluster::logs_on_failure`].
    fn print_logs(&self) {
        for process in self.all() {
            process.print_log();
        }
    }

    /// Prints the cluster's logs if the test that holds the value fails.
    pub(crate) fn logs_on_failure(&self) -> impl Drop + '_ {
        struct Logs<'a>(&'a Cluster);
        impl Drop for Logs<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.print_logs();
                }
            }
        }
        Logs(self)
    }
}

/// The deploy controller on one folder. It prints its log if the test that holds it fails.
pub(crate) struct DeployController {
    process: Process,
    /// The file that says how many passes it may begin; without one there is no end to them.
    passes: Option<PathBuf>,
}

impl DeployController {
    /// Waits until this many passes have ended, counted from the start of the controller.
    pub(crate) async fn passed(&self, passes: usize) {
        eventually(
            &format!("the deploy controller ends pass {passes}"),
            DEADLINE,
            async || {
                // Asked first: what it writes before it ends is in the log then.
                let ended = self.process.ended();
                let log = self.log();
                let is_there = log.matches("pass ended").count() >= passes;
                let last = log.lines().last().unwrap_or_default();
                assert!(
                    is_there || !ended,
                    "the deploy controller has ended: {last}"
                );
                is_there.then_some(())
            },
        )
        .await;
    }

    /// Waits for the end of a pass that begins after now.
    pub(crate) async fn next_pass(&self) {
        // A running pass may have read the folder already.
        let begun = self.log().matches("pass begins").count();
        self.passed(begun + 1).await;
    }

    /// Lets it make its next pass, and waits for the end of that.
    pub(crate) async fn one_more_pass(&self) {
        let passes = self.passes.as_ref().expect("it was started pass by pass");
        let next = self.log().matches("pass ended").count() + 1;
        let new = passes.with_extension("new");
        fs::write(&new, next.to_string()).expect("the cluster's directory is writable");
        fs::rename(&new, passes).expect("the cluster's directory is writable");
        self.passed(next).await;
    }

    /// What it wrote so far.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

impl Drop for DeployController {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.process.print_log();
        }
    }
}

/// Looks until there is a value, and fails with a sentence when there is none for too long.
pub(crate) async fn eventually<T>(
    what: &str,
    deadline: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let until = Instant::now() + deadline;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(
            Instant::now() < until,
            "waited {} s without success: {what}",
            deadline.as_secs()
        );
        sleep(LOOK_AGAIN).await;
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    listener.local_addr().expect("it is bound").port()
}

fn apiserver_arguments(pki: &Pki, dir: &Path, port: u16, etcd_port: u16) -> Vec<String> {
    let certificates = dir.join("apiserver");
    fs::create_dir_all(&certificates).expect("the cluster's directory is writable");
    let (cert, key) = pki.server();
    let (account, ca) = (pki.service_account_key(), pki.ca());
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", certificates.display()),
        format!("--tls-cert-file={}", cert.display()),
        format!("--tls-private-key-file={}", key.display()),
        format!("--client-ca-file={}", ca.display()),
        format!(
            "--service-account-key-file={}",
            pki.service_account_public_key().display()
        ),
        format!("--service-account-signing-key-file={}", account.display()),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        "--service-cluster-ip-range=10.43.0.0/16".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        // As RKE2 has it: without a credential even /readyz answers 401.
        "--anonymous-auth=false".to_owned(),
        // As RKE2 has it: pods of Longhorn and KubeVirt are privileged.
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        // Without controllers no namespace ever gets its service account, and pods would be refused.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
    ]
}
