//! One way on one directory, on a cluster of its own: what came of it, and what it cost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::client::Body;
use serde::Serialize;
use tokio::process::Command;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use crate::bootstrap::{Daemon, kubelet, revision};
use crate::platform;
use crate::requests::{self, HARNESS, Request};
use crate::sets::Set;
use crate::support::cluster::{AuditLog, Cluster, DeployController, Spec, Who};
use crate::usage::Usage;
use crate::ways::{Place, Way};

/// A program that ended with an error is started again after the time after which RKE2 tries again.
const AGAIN: Duration = Duration::from_secs(15);
/// Where something can never be applied, what it costs in this time is compared.
const BROKEN: Duration = Duration::from_secs(60);
/// Who has not applied everything by then does not.
const END: Duration = Duration::from_secs(180);

/// What came of it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Outcome {
    pub(crate) set: String,
    pub(crate) way: String,
    /// Objects that can be applied, and those that were.
    pub(crate) wanted: usize,
    pub(crate) there: usize,
    /// Seconds until the last of them was.
    pub(crate) after: f64,
    /// Machines that were there before the platform was ready for them.
    pub(crate) early: usize,
    /// RKE2's passes, or runs of a program.
    pub(crate) rounds: usize,
    /// Files that failed, counted each time; or runs that did.
    pub(crate) failed: usize,
    /// Files that were taken up again though they were applied.
    pub(crate) repeated: usize,
    pub(crate) requests: usize,
    pub(crate) writes: usize,
    pub(crate) refused: usize,
    pub(crate) events: usize,
    /// How far etcd's revision advanced, by whomever.
    pub(crate) revisions: u64,
    /// What applied: RKE2's deploy controller, or all runs of a program.
    pub(crate) tool: Usage,
    pub(crate) windrow: Usage,
    pub(crate) apiserver: Usage,
    pub(crate) etcd: Usage,
    /// What a person learned while something was not there yet.
    pub(crate) said: String,
    pub(crate) load: String,
}

/// What one trial works with.
pub(crate) struct Programs {
    pub(crate) windrow: PathBuf,
    pub(crate) peers: PathBuf,
    /// Where all that was said is kept.
    pub(crate) said: PathBuf,
}

impl Programs {
    /// It lies beside the command line.
    pub(crate) fn daemon(&self) -> PathBuf {
        self.windrow.with_file_name("windrowd")
    }
}

/// `None`, after one line that says why, when the parts are not here.
pub(crate) async fn run(set: &Set, way: Way, programs: &Programs) -> Option<Outcome> {
    let scratch = tempfile::tempdir().unwrap();
    let spec = Spec {
        controller_manager: true,
        audit: AuditLog::Everything,
        ..Spec::default()
    };
    let cluster = Cluster::start(spec).await?;
    let log = cluster.audit_log();
    let client = harness(&cluster).await;
    let pods = kubelet(client.clone());
    let root = scratch.path().join("root");
    let manifests = root.join("var/lib/rancher/rke2/server/manifests");
    fs::create_dir_all(&manifests).unwrap();
    set.write(&manifests);
    let place = Place {
        peers: programs.peers.clone(),
        kubeconfig: cluster.kubeconfig(Who::Admin),
        manifests,
        work: scratch.path().to_owned(),
    };
    let daemon = match way {
        Way::Windrow => Some(windrow(set, &root, &cluster, programs).await),
        _ => None,
    };

    let before: BTreeMap<&str, (u32, Usage)> = cluster
        .processes()
        .into_iter()
        .map(|(name, pid)| (name, (pid, Usage::of(pid))))
        .collect();
    let mut outcome = Outcome {
        set: set.name.clone(),
        way: way.title().to_owned(),
        load: load(),
        ..Outcome::default()
    };
    let first = revision(&client).await;
    let (began, began_at) = (Instant::now(), Timestamp::now());
    let platform = set
        .harvester
        .is_some()
        .then(|| spawn_local(platform::harvester(client.clone(), began)));
    let mut trial = Trial {
        set,
        programs,
        log,
        began,
        began_at,
        root,
        said: String::new(),
    };
    if way.is_rke2() {
        trial
            .by_rke2(&cluster, &client, &place, &mut outcome)
            .await?;
    } else {
        trial.by_runs(way, &place, &mut outcome).await;
    }
    outcome.windrow = daemon
        .as_ref()
        .map_or(Usage::default(), |daemon| Usage::of(daemon.child.id()));
    outcome.revisions = revision(&client).await - first;
    let since = |name: &str| {
        before.get(name).map_or(Usage::default(), |(pid, before)| {
            Usage::since(*pid, *before)
        })
    };
    outcome.apiserver = since("kube-apiserver");
    outcome.etcd = since("etcd");
    trial.count(&mut outcome, platform).await;
    trial.keep(way, &outcome);
    pods.abort();
    Some(outcome)
}

struct Trial<'a> {
    set: &'a Set,
    programs: &'a Programs,
    log: PathBuf,
    began: Instant,
    began_at: Timestamp,
    root: PathBuf,
    /// All that a person learned.
    said: String,
}

impl Trial<'_> {
    /// RKE2's passes, until everything is there and one more pass is over.
    async fn by_rke2(
        &mut self,
        cluster: &Cluster,
        client: &Client,
        place: &Place,
        outcome: &mut Outcome,
    ) -> Option<()> {
        let controller: DeployController = cluster.deploy(&place.manifests)?;
        let mut pass = 0;
        loop {
            pass += 1;
            controller.passed(pass).await;
            if self.is_over() {
                break;
            }
            // Between two passes somebody asks.
            self.ask(client, outcome).await;
        }
        outcome.rounds = pass;
        if !self.set.is_broken {
            // An idle pass: all events of the last one are written, and no more come.
            controller.next_pass().await;
        }
        outcome.tool = Usage::of(controller.pid());
        let events = events(client).await;
        let count = |test: &dyn Fn(&str) -> bool| -> usize {
            let all = events.iter().filter(|(reason, _, _)| test(reason));
            all.map(|(_, times, _)| times).sum()
        };
        outcome.failed = count(&|reason| reason.ends_with("ManifestFailed"));
        let applied = |reason: &str| reason == "AppliedManifest";
        let once = events.iter().filter(|(reason, _, _)| applied(reason));
        outcome.repeated = count(&applied) - once.count();
        Some(())
    }

    /// Runs of a program, until one ends well and everything is there.
    async fn by_runs(&mut self, way: Way, place: &Place, outcome: &mut Outcome) {
        let (prepare, command) = way.commands(place, &self.set.files);
        for command in &prepare {
            self.run_once(command, place).await;
        }
        loop {
            let (is_well, said, usage) = self.run_once(&command, place).await;
            outcome.rounds += 1;
            outcome.tool = outcome.tool.and(usage);
            outcome.failed += usize::from(!is_well);
            if !is_well && outcome.said.is_empty() {
                outcome.said = said;
            }
            if self.is_over() || self.began.elapsed() > END {
                break;
            }
            sleep(AGAIN).await;
        }
        outcome.repeated = self.set.files.len() * (outcome.rounds - 1);
        if !self.set.is_broken {
            // As long as RKE2's idle pass takes.
            sleep(AGAIN).await;
        }
    }

    /// Runs a program to its end: whether it ended well, the line that says most, and what it used.
    async fn run_once(&mut self, command: &[String], place: &Place) -> (bool, String, Usage) {
        let used = place.work.join("used.json");
        let _ = fs::remove_file(&used);
        let child = Command::new(std::env::current_exe().unwrap())
            .arg("--measured")
            .arg(&used)
            .args(command)
            .current_dir(&place.work)
            .env("HOME", &place.work)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let Ok(output) = timeout(END, child).await else {
            return (false, "no end".to_owned(), Usage::default());
        };
        let output = output.unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let at = self.began.elapsed().as_secs_f64();
        self.said += &format!("--- {at:.1} s: {}\n{text}", command.join(" "));
        let usage = fs::read_to_string(used).unwrap_or_default();
        let usage = serde_json::from_str(&usage).unwrap_or_default();
        (output.status.success(), last_line(&text), usage)
    }

    /// What a person learns of what is not there yet.
    async fn ask(&mut self, client: &Client, outcome: &mut Outcome) {
        let at = self.began.elapsed().as_secs_f64();
        let manifests = self.root.join("var/lib/rancher/rke2/server/manifests");
        let held = self
            .set
            .files
            .keys()
            .find(|name| manifests.join(format!("{name}.skip")).exists());
        let said = if self.root.join("run/windrow/status.json").exists() {
            let question: Vec<&str> = match held {
                Some(file) => vec!["why", file],
                None => vec!["status"],
            };
            let answer = Command::new(&self.programs.windrow)
                .arg("--root")
                .arg(&self.root)
                .args(question)
                .output()
                .await
                .unwrap();
            String::from_utf8_lossy(&answer.stdout).into_owned()
        } else {
            let mut last = events(client).await;
            last.retain(|(reason, _, _)| reason.ends_with("ManifestFailed"));
            last.into_iter()
                .map(|(_, times, text)| format!("{times} times: {text}\n"))
                .collect()
        };
        self.said += &format!("--- {at:.1} s\n{said}");
        if outcome.said.is_empty() {
            outcome.said = said.lines().next().unwrap_or_default().to_owned();
        }
    }

    /// Whether everything is there; where that can never be, whether the time is over.
    fn is_over(&self) -> bool {
        if self.set.is_broken {
            return self.began.elapsed() >= BROKEN;
        }
        let wanted = self.set.objects();
        let is_there = requests::first_writes(&self.requests(), &wanted).len() == wanted.len();
        is_there || self.began.elapsed() > END
    }

    fn requests(&self) -> Vec<Request> {
        requests::since(&self.log, self.began_at)
    }

    /// What kube-apiserver's log says.
    async fn count(&self, outcome: &mut Outcome, platform: Option<JoinHandle<Timestamp>>) {
        let all = self.requests();
        let wanted = self.set.objects();
        let first = requests::first_writes(&all, &wanted);
        outcome.wanted = wanted.len();
        outcome.there = first.len();
        let last = first.values().max();
        outcome.after = last.map_or(0.0, |last| last.duration_since(self.began_at).as_secs_f64());
        if let Some(platform) = platform
            && outcome.there == outcome.wanted
        {
            let ready = platform.await.unwrap();
            let machines = first
                .iter()
                .filter(|(object, at)| object.plural == "virtualmachines" && **at < ready);
            outcome.early = machines.count();
        }
        let is_event = |one: &&Request| one.resource == "events";
        let writes = |one: &&Request| one.is_write() && one.was_done();
        outcome.requests = all.len();
        outcome.events = all.iter().filter(writes).filter(is_event).count();
        outcome.writes = all.iter().filter(writes).count() - outcome.events;
        outcome.refused = all.iter().filter(|one| one.was_refused()).count();
    }

    /// Keeps all that was said, and by whom kube-apiserver was asked.
    fn keep(&self, way: Way, outcome: &Outcome) {
        let mut programs: BTreeMap<String, usize> = BTreeMap::new();
        for request in self.requests() {
            *programs.entry(request.program).or_default() += 1;
        }
        let name = format!("{}-{way:?}.txt", self.set.name).to_lowercase();
        let text = format!("{outcome:#?}\nrequests: {programs:?}\n{}", self.said);
        fs::write(self.programs.said.join(name), text).unwrap();
    }
}

/// Windrow on a node's root, after its first look, as systemd starts it before RKE2.
async fn windrow(set: &Set, root: &Path, cluster: &Cluster, programs: &Programs) -> Daemon {
    if let Some(config) = &set.harvester {
        for folder in ["etc", "oem"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let release = "harvester: v1.6.0\n";
        fs::write(root.join("etc/harvester-release.yaml"), release).unwrap();
        fs::write(root.join("oem/harvester.config"), config).unwrap();
    }
    Daemon::start(&programs.daemon(), root, &cluster.kubeconfig(Who::Admin)).await
}

/// A client whose requests say that they are the harness'.
pub(crate) async fn harness(cluster: &Cluster) -> Client {
    let inner = cluster.client(Who::Admin).await;
    let named = tower::service_fn(move |mut request: http::Request<Body>| {
        let inner = inner.clone();
        let name = http::HeaderValue::from_static(HARNESS);
        request.headers_mut().insert(http::header::USER_AGENT, name);
        async move { inner.send(request).await.map_err(tower::BoxError::from) }
    });
    Client::new(named, "default")
}

/// The deploy controller's Events: the reason, how many times, and the text.
async fn events(client: &Client) -> Vec<(String, usize, String)> {
    let events: Api<Event> = Api::namespaced(client.clone(), "kube-system");
    let list = events.list(&ListParams::default()).await.unwrap();
    list.into_iter()
        .filter(|event| {
            let source = event.source.as_ref();
            source.and_then(|by| by.component.as_deref()) == Some("deploy")
        })
        .map(|event| {
            let times = usize::try_from(event.count.unwrap_or(1)).unwrap_or(1);
            let (reason, text) = (event.reason, event.message);
            (reason.unwrap_or_default(), times, text.unwrap_or_default())
        })
        .collect()
}

/// The last line that is not empty.
fn last_line(text: &str) -> String {
    let line = text.lines().rfind(|line| !line.trim().is_empty());
    line.unwrap_or_default().trim().to_owned()
}

/// The machine's load of the last minute.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}
